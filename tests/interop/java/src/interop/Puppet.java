package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.XAConnection;
import javax.jms.XAConnectionFactory;
import javax.jms.XASession;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/**
 * Java clients that a test moves about: one command per line of standard input, one JSON line as the answer to each.
 *
 * <p>A line is {@code NUMBER VERB NAME key=value...}, separated by tabs; the answer carries the number, for commands of different names run
 * side by side. Verbs: connect (url or like, id, user, password, xa), send (on, to, count, first, size, group, property, persistent, priority, delay, ttl),
 * consume (on, from, selector, subscription, shared, durable, acknowledge: client), take (count, ms), acknowledge, recover, close, topology, forget (all whose names
 * begin like this one); browse (on, from); transacted (on), a session for send, commit and rollback; branch (on, xid), a session in a branch, prepare (xid),
 * prepared (on), which answers the branches, and finish (on, xid, commit), all with connections made with xa=true; temporary (on), a queue that temporary://NAME means; unsubscribe (on,
 * subscription); load (on, to), which sends until an enough (load) and answers what was acknowledged, and progress (load), how many that are.
 */
public final class Puppet {
    private final Map<String, ConnectionFactory> factories = new ConcurrentHashMap<>();
    private final Map<String, Connection> connections = new ConcurrentHashMap<>();
    private final Map<String, Session> sessions = new ConcurrentHashMap<>();
    private final Map<String, MessageConsumer> consumers = new ConcurrentHashMap<>();
    private final Map<String, Message> taken = new ConcurrentHashMap<>();
    private final Map<String, TemporaryQueue> temporaries = new ConcurrentHashMap<>();
    private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
    private final Map<String, List<Object>> loads = new ConcurrentHashMap<>();
    private final Set<String> enough = ConcurrentHashMap.newKeySet();

    private Puppet() {
    }

    public static void main(String[] arguments) throws Exception {
        Puppet puppet = new Puppet();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] parts = line.split("\t");
            Map<String, String> values = new HashMap<>();
            for (int i = 3; i < parts.length; i++) {
                int equals = parts[i].indexOf('=');
                values.put(parts[i].substring(0, equals), parts[i].substring(equals + 1));
            }
            puppet.threads.computeIfAbsent(parts[2], name -> Executors.newSingleThreadExecutor(task -> {
                Thread thread = new Thread(task);
                thread.setDaemon(true);
                return thread;
            })).execute(() -> puppet.answer(parts[0], parts[1], parts[2], values));
        }
        System.exit(0);
    }

    private void answer(String number, String verb, String name, Map<String, String> values) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("number", Integer.parseInt(number));
        try {
            answer.put("result", act(verb, name, values));
        } catch (Exception e) {
            answer.put("error", e.toString());
        }
        synchronized (System.out) {
            System.out.println(Json.write(answer));
            System.out.flush();
        }
    }

    private Object act(String verb, String name, Map<String, String> values) throws Exception {
        return switch (verb) {
            case "connect" -> connect(name, values);
            case "send" -> send(values);
            case "consume" -> consume(name, values);
            case "take" -> take(name, values);
            case "close" -> close(name);
            case "topology" -> Factories.topology(factories.get(name));
            case "forget" -> forget(name);
            case "transacted" -> transacted(name, values);
            case "commit" -> commit(name);
            case "rollback" -> rollback(name);
            case "acknowledge" -> acknowledge(name);
            case "recover" -> recover(name);
            case "browse" -> browse(values);
            case "branch" -> branch(name, values);
            case "prepare" -> prepare(name, values);
            case "prepared" -> prepared(values);
            case "finish" -> finish(values);
            case "temporary" -> temporary(name, values);
            case "unsubscribe" -> unsubscribe(values);
            case "load" -> load(name, values);
            case "progress" -> loads.getOrDefault(values.get("load"), List.of()).size();
            case "enough" -> enough.add(values.get("load"));
            default -> throw new IllegalArgumentException("no verb " + verb);
        };
    }

    /** Answers the address of the broker that the connection reached. It is made by the factory of another one (like), or a new one. */
    private Object connect(String name, Map<String, String> values) throws Exception {
        String url = values.get("url");
        boolean xa = Boolean.parseBoolean(values.getOrDefault("xa", "false"));
        ConnectionFactory factory = url == null ? factories.get(values.get("like")) : Factories.of(url, xa);
        String user = values.getOrDefault("user", Context.USER);
        String password = values.getOrDefault("password", Context.PASSWORD);
        Connection connection =
            xa ? ((XAConnectionFactory) factory).createXAConnection(user, password) : factory.createConnection(user, password);
        if (values.containsKey("id")) {
            connection.setClientID(values.get("id"));
        }
        connection.start();
        factories.put(name, factory);
        connections.put(name, connection);
        sessions.put(name, connection.createSession(false, Session.AUTO_ACKNOWLEDGE));
        return Factories.reached(connection);
    }

    private Destination destination(Session session, String text) throws Exception {
        if (text.startsWith("temporary://")) {
            return temporaries.get(text.substring(12));
        }
        return text.startsWith("topic://") ? session.createTopic(text.substring(8)) : session.createQueue(text.substring(8));
    }

    /** Text messages with the bodies first, first+1, ...; with a size, byte messages with that property and that many bytes. */
    private Object send(Map<String, String> values) throws Exception {
        Session session = sessions.get(values.get("on"));
        int first = Integer.parseInt(values.getOrDefault("first", "0"));
        int count = Integer.parseInt(values.getOrDefault("count", "1"));
        try (MessageProducer producer = session.createProducer(destination(session, values.get("to")))) {
            boolean persistent = Boolean.parseBoolean(values.getOrDefault("persistent", "true"));
            producer.setDeliveryMode(persistent ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
            producer.setPriority(Integer.parseInt(values.getOrDefault("priority", "4")));
            if (values.containsKey("delay")) {
                producer.setDeliveryDelay(Long.parseLong(values.get("delay")));
            }
            producer.setTimeToLive(Long.parseLong(values.getOrDefault("ttl", "0")));
            for (int i = first; i < first + count; i++) {
                Message message;
                if (values.containsKey("size")) {
                    BytesMessage bytes = session.createBytesMessage();
                    byte[] body = new byte[Integer.parseInt(values.get("size"))];
                    java.util.Arrays.fill(body, (byte) i);
                    bytes.writeBytes(body);
                    message = bytes;
                } else {
                    message = session.createTextMessage(Integer.toString(i));
                }
                message.setIntProperty("number", i);
                if (values.containsKey("group")) {
                    message.setStringProperty("JMSXGroupID", values.get("group"));
                }
                if (values.containsKey("property")) {
                    message.setStringProperty("colour", values.get("property"));
                }
                producer.send(message);
            }
        }
        return count;
    }

    private Object transacted(String name, Map<String, String> values) throws Exception {
        sessions.put(name, connections.get(values.get("on")).createSession(true, Session.SESSION_TRANSACTED));
        return "opened";
    }

    private Object commit(String name) throws Exception {
        sessions.get(name).commit();
        return "committed";
    }

    private Object rollback(String name) throws Exception {
        sessions.get(name).rollback();
        return "rolled back";
    }

    /** What the consumer has taken. */
    private Object acknowledge(String name) throws Exception {
        taken.get(name).acknowledge();
        return "acknowledged";
    }

    /** The session gives again what is not acknowledged. */
    private Object recover(String name) throws Exception {
        sessions.get(name).recover();
        return "recovered";
    }

    /** The numbers of all messages that a browser shows. */
    private Object browse(Map<String, String> values) throws Exception {
        Session session = connections.get(values.get("on")).createSession(false, Session.AUTO_ACKNOWLEDGE);
        List<Object> numbers = new ArrayList<>();
        try (QueueBrowser browser = session.createBrowser((Queue) destination(session, values.get("from")))) {
            for (Enumeration<?> each = browser.getEnumeration(); each.hasMoreElements();) {
                numbers.add(((Message) each.nextElement()).getIntProperty("number"));
            }
        }
        session.close();
        return numbers;
    }

    private static Xid xid(Map<String, String> values) {
        return new XaScenarios.Branch(values.get("xid"), "puppet");
    }

    private XASession xaSession(Map<String, String> values) throws Exception {
        return ((XAConnection) connections.get(values.get("on"))).createXASession();
    }

    private Object branch(String name, Map<String, String> values) throws Exception {
        XASession session = xaSession(values);
        session.getXAResource().start(xid(values), XAResource.TMNOFLAGS);
        sessions.put(name, session);
        return "started";
    }

    private Object prepare(String name, Map<String, String> values) throws Exception {
        XAResource resource = ((XASession) sessions.get(name)).getXAResource();
        resource.end(xid(values), XAResource.TMSUCCESS);
        resource.prepare(xid(values));
        return "prepared";
    }

    /** The names of the branches that wait for the word of a transaction manager. */
    private Object prepared(Map<String, String> values) throws Exception {
        XASession session = xaSession(values);
        List<Object> names = new ArrayList<>();
        for (Xid each : session.getXAResource().recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)) {
            names.add(new String(each.getGlobalTransactionId(), StandardCharsets.UTF_8));
        }
        session.close();
        return names;
    }

    private Object finish(Map<String, String> values) throws Exception {
        XASession session = xaSession(values);
        if (Boolean.parseBoolean(values.get("commit"))) {
            session.getXAResource().commit(xid(values), false);
        } else {
            session.getXAResource().rollback(xid(values));
        }
        session.close();
        return "finished";
    }

    /** Answers the name of the queue. */
    private Object temporary(String name, Map<String, String> values) throws Exception {
        TemporaryQueue made = sessions.get(values.get("on")).createTemporaryQueue();
        temporaries.put(name, made);
        return made.getQueueName();
    }

    private Object unsubscribe(Map<String, String> values) throws Exception {
        sessions.get(values.get("on")).unsubscribe(values.get("subscription"));
        return "unsubscribed";
    }

    /** Numbered messages, one after the other. What became of one whose send has failed nobody knows, and it is not sent again. */
    private Object load(String name, Map<String, String> values) throws Exception {
        List<Object> acknowledged = Collections.synchronizedList(new ArrayList<>());
        loads.put(name, acknowledged);
        Session session = connections.get(values.get("on")).createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(destination(session, values.get("to")));
        for (int i = 0; !enough.contains(name); i++) {
            Message message = session.createTextMessage(Integer.toString(i));
            message.setIntProperty("number", i);
            try {
                producer.send(message);
                acknowledged.add(i);
            } catch (JMSException unknown) {
                continue;
            }
            Thread.sleep(1);
        }
        session.close();
        return List.copyOf(acknowledged);
    }

    private Object consume(String name, Map<String, String> values) throws Exception {
        // In an open (transacted) session, or in one of its own.
        int mode = "client".equals(values.get("acknowledge")) ? Session.CLIENT_ACKNOWLEDGE : Session.AUTO_ACKNOWLEDGE;
        Session session = values.containsKey("within")
            ? sessions.get(values.get("within"))
            : connections.get(values.get("on")).createSession(false, mode);
        Destination from = destination(session, values.get("from"));
        String selector = values.get("selector");
        String subscription = values.get("subscription");
        MessageConsumer consumer;
        if (subscription == null) {
            consumer = session.createConsumer(from, selector);
        } else if (Boolean.parseBoolean(values.getOrDefault("shared", "false"))) {
            boolean durable = Boolean.parseBoolean(values.getOrDefault("durable", "true"));
            Topic topic = (Topic) from;
            consumer = durable
                ? session.createSharedDurableConsumer(topic, subscription, selector)
                : session.createSharedConsumer(topic, subscription, selector);
        } else {
            consumer = session.createDurableSubscriber((Topic) from, subscription, selector, false);
        }
        sessions.put(name, session);
        consumers.put(name, consumer);
        return "consuming";
    }

    /** The numbers of up to count messages; waits at most ms for each. A body that is not what was sent is answered as -1. */
    private Object take(String name, Map<String, String> values) throws Exception {
        MessageConsumer consumer = consumers.get(name);
        int count = Integer.parseInt(values.get("count"));
        long wait = Long.parseLong(values.getOrDefault("ms", "5000"));
        List<Object> numbers = new ArrayList<>();
        while (numbers.size() < count) {
            Message message = consumer.receive(wait);
            if (message == null) {
                break;
            }
            taken.put(name, message);
            int number = message.getIntProperty("number");
            numbers.add(intact(message, number) ? number : -1);
        }
        return numbers;
    }

    private static boolean intact(Message message, int number) throws Exception {
        if (message instanceof TextMessage text) {
            return text.getText().equals(Integer.toString(number));
        }
        BytesMessage bytes = (BytesMessage) message;
        byte[] piece = new byte[65536];
        for (int read = bytes.readBytes(piece); read > 0; read = bytes.readBytes(piece)) {
            for (int i = 0; i < read; i++) {
                if (piece[i] != (byte) number) {
                    return false;
                }
            }
        }
        return true;
    }

    private Object close(String name) throws Exception {
        MessageConsumer consumer = consumers.remove(name);
        Session session = sessions.remove(name);
        if (consumer != null) {
            consumer.close();
        }
        if (session != null) {
            session.close();
        }
        Connection connection = connections.remove(name);
        if (connection != null) {
            connection.close();
            Factories.close(factories.remove(name));
        }
        return "closed";
    }

    /** The brokers may be gone: nobody waits for the connections to close. */
    private Object forget(String prefix) {
        for (Map<String, ?> named : List.of(sessions, consumers, taken, temporaries)) {
            named.keySet().removeIf(name -> name.startsWith(prefix));
        }
        for (Map<String, ?> named : List.of(connections, factories)) {
            for (String name : List.copyOf(named.keySet())) {
                if (name.startsWith(prefix)) {
                    Object leaving = named.remove(name);
                    Thread closing = new Thread(() -> closeQuietly(leaving));
                    closing.setDaemon(true);
                    closing.start();
                }
            }
        }
        for (String name : List.copyOf(threads.keySet())) {
            if (name.startsWith(prefix)) {
                threads.remove(name).shutdown();
            }
        }
        return "forgotten";
    }

    private static void closeQuietly(Object leaving) {
        try {
            Factories.close(leaving);
        } catch (Exception e) {
            // its broker is gone
        }
    }
}
