package interop;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.artemis.api.core.ActiveMQException;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;
import org.apache.activemq.artemis.jms.client.ActiveMQXAConnectionFactory;

/** What one scenario works with: connections that are closed after it, names of its own, and checks. */
final class Context implements AutoCloseable {
    static final int INDIVIDUAL_ACKNOWLEDGE = 101;
    static final int PRE_ACKNOWLEDGE = 100;
    /** For what has to come: a busy machine may stand still for seconds. */
    static final long RECEIVE_MS = 20_000;
    static final long NOTHING_MS = 120;
    static final String USER = "admin";
    static final String PASSWORD = "secret";

    private final String scenario;
    private final String url;
    private final String proxyUrl;
    private final List<AutoCloseable> opened = new ArrayList<>();
    private final Map<String, Object> results = new LinkedHashMap<>();
    private volatile Thread thread;

    Context(String scenario, String url, String proxyUrl) {
        this.scenario = scenario;
        this.url = url;
        this.proxyUrl = proxyUrl;
    }

    /** A name that no other scenario uses. */
    String name(String part) {
        return "interop." + scenario + "." + part;
    }

    ActiveMQConnectionFactory factory(String parameters) throws Exception {
        return made(url, parameters);
    }

    ActiveMQConnectionFactory proxied(String parameters) throws Exception {
        return made(proxyUrl, parameters);
    }

    ActiveMQXAConnectionFactory xaFactory(String parameters) throws Exception {
        return xaMade(url, parameters);
    }

    ActiveMQXAConnectionFactory xaProxied(String parameters) throws Exception {
        return xaMade(proxyUrl, parameters);
    }

    private ActiveMQXAConnectionFactory xaMade(String base, String parameters) throws Exception {
        thread = Thread.currentThread();
        ActiveMQXAConnectionFactory factory = new ActiveMQXAConnectionFactory(base + (parameters.isEmpty() ? "" : "?" + parameters));
        opened.add(factory);
        return factory;
    }

    void closeLater(AutoCloseable made) {
        opened.add(made);
    }

    private ActiveMQConnectionFactory made(String base, String parameters) throws Exception {
        thread = Thread.currentThread();
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(base + (parameters.isEmpty() ? "" : "?" + parameters));
        opened.add(factory);
        return factory;
    }

    Connection connect(String parameters) throws Exception {
        return started(factory(parameters));
    }

    Connection started(ActiveMQConnectionFactory factory) throws JMSException {
        Connection connection = factory.createConnection(USER, PASSWORD);
        opened.add(connection::close);
        connection.start();
        return connection;
    }

    Connection connectAs(String clientId, String parameters) throws Exception {
        Connection connection = factory(parameters).createConnection(USER, PASSWORD);
        opened.add(connection::close);
        connection.setClientID(clientId);
        connection.start();
        return connection;
    }

    String ask(String question) throws Exception {
        return Driver.ask(question);
    }

    void result(String key, Object value) {
        results.put(key, value);
    }

    Map<String, Object> results() {
        return results;
    }

    String whereabouts() {
        Thread working = thread;
        return working == null ? "?" : String.join("\n", Arrays.stream(working.getStackTrace()).limit(20).map(Object::toString).toList());
    }

    static void equal(Object expected, Object seen, String what) {
        if (!Objects.equals(expected, seen)) {
            throw new Mismatch(what + ": expected " + expected + ", saw " + seen);
        }
    }

    static void require(boolean condition, String what) {
        if (!condition) {
            throw new Mismatch(what);
        }
    }

    /** The action has to throw exactly this kind of exception (or a kind below it). */
    static <T extends Throwable> T refused(Class<T> kind, Action action, String what) {
        try {
            action.run();
        } catch (Throwable thrown) {
            if (kind.isInstance(thrown)) {
                return kind.cast(thrown);
            }
            throw new Mismatch(what + ": expected " + kind.getSimpleName() + ", was thrown " + Driver.trace(thrown));
        }
        throw new Mismatch(what + ": expected " + kind.getSimpleName() + ", nothing was thrown");
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    /** Waits for what the broker does on its own time, such as returning the messages of a closed connection. */
    static void eventually(Condition condition, String what) throws Exception {
        for (long end = System.nanoTime() + RECEIVE_MS * 1_000_000; !condition.holds(); Thread.sleep(20)) {
            require(System.nanoTime() < end, what + ": not within " + RECEIVE_MS + " ms");
        }
    }

    /** Name of the error code that the broker answered with. */
    static String coreCode(JMSException thrown) {
        return thrown.getCause() instanceof ActiveMQException core ? core.getType().name() : "no core exception behind " + thrown;
    }

    interface Action {
        void run() throws Exception;
    }

    static void sendTexts(Session session, MessageProducer producer, String... texts) throws JMSException {
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
    }

    static Message next(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(RECEIVE_MS);
        require(message != null, "a message was expected, none came within " + RECEIVE_MS + " ms");
        return message;
    }

    static String nextText(MessageConsumer consumer) throws JMSException {
        return ((TextMessage) next(consumer)).getText();
    }

    static void nextTexts(MessageConsumer consumer, String... texts) throws JMSException {
        for (String text : texts) {
            equal(text, nextText(consumer), "text");
        }
    }

    static void nothing(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(NOTHING_MS);
        require(message == null, "no message was expected, came " + message);
    }

    static int deliveryCount(Message message) throws JMSException {
        return message.getIntProperty("JMSXDeliveryCount");
    }

    static void delivered(Message message, String text, int count) throws JMSException {
        equal(text, ((TextMessage) message).getText(), "text");
        equal(count, deliveryCount(message), "JMSXDeliveryCount of " + text);
        equal(count > 1, message.getJMSRedelivered(), "JMSRedelivered of " + text);
    }

    @Override
    public void close() {
        for (int i = opened.size() - 1; i >= 0; i--) {
            try {
                opened.get(i).close();
            } catch (Exception broken) {
                result("close_error", broken.toString());
            }
        }
    }
}
