package interop;

import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.jms.Connection;
import javax.jms.InvalidDestinationException;
import javax.jms.InvalidSelectorException;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;

/** Queues: order, sharing between consumers, selectors, browsing, request and reply, fully qualified names. */
final class QueueScenarios {
    private QueueScenarios() {
    }

    static void addTo(Map<String, Scenario> all) {
        all.put("queue-order", QueueScenarios::order);
        all.put("queue-two-consumers", QueueScenarios::twoConsumers);
        all.put("queue-groups", QueueScenarios::groups);
        all.put("queue-last-value", QueueScenarios::lastValue);
        all.put("queue-ring", QueueScenarios::ring);
        all.put("queue-non-destructive", QueueScenarios::nonDestructive);
        all.put("queue-start-stop", QueueScenarios::startStop);
        all.put("queue-selector", QueueScenarios::selector);
        all.put("queue-selector-jms-fields", QueueScenarios::selectorOnHeaders);
        all.put("queue-bad-selector", QueueScenarios::badSelector);
        all.put("queue-browser", QueueScenarios::browser);
        all.put("queue-request-reply", QueueScenarios::requestReply);
        all.put("queue-temporary-lifetime", QueueScenarios::temporaryLifetime);
        all.put("queue-anonymous-producer", QueueScenarios::anonymousProducer);
        all.put("queue-fully-qualified", QueueScenarios::fullyQualified);
        all.put("queue-not-creatable", QueueScenarios::notCreatable);
        all.put("queue-receive-no-wait", QueueScenarios::receiveNoWait);
    }

    private static void order(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        for (int i = 0; i < 200; i++) {
            producer.setDeliveryMode(i % 10 == 0 ? 2 : 1);
            producer.send(session.createTextMessage("m" + i));
        }
        MessageConsumer consumer = session.createConsumer(queue);
        for (int i = 0; i < 200; i++) {
            Context.equal("m" + i, Context.nextText(consumer), "text");
        }
        Context.nothing(consumer);
    }

    private static void twoConsumers(Context context) throws Exception {
        Connection connection = context.connect("");
        Session session = connection.createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageConsumer first = session.createConsumer(queue);
        MessageConsumer second = connection.createSession().createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        for (int i = 0; i < 20; i++) {
            producer.send(session.createTextMessage("m" + i));
        }
        Set<String> seen = new HashSet<>();
        for (MessageConsumer consumer : List.of(first, second)) {
            for (int i = 0; i < 10; i++) {
                seen.add(Context.nextText(consumer));
            }
            Context.nothing(consumer);
        }
        Context.equal(20, seen.size(), "each message once");
    }

    /** Each group stays with one consumer until it is closed, or the consumer leaves. */
    private static void groups(Context context) throws Exception {
        Connection connection = context.connect("");
        Session session = connection.createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageConsumer first = session.createConsumer(queue);
        MessageConsumer second = connection.createSession().createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        for (int i = 0; i < 20; i++) {
            sendToGroup(session, producer, i % 2 == 0 ? "even" : "odd", 0, "m" + i);
        }
        for (int i = 0; i < 20; i++) {
            Context.equal("m" + i, Context.nextText(i % 2 == 0 ? first : second), "the group's consumer");
        }
        sendToGroup(session, producer, "even", -1, "last");
        Context.nextTexts(first, "last");
        first.close();
        sendToGroup(session, producer, "even", 0, "again");
        sendToGroup(session, producer, "new", 0, "new");
        Context.nextTexts(second, "again", "new");
        Context.nothing(second);
    }

    private static void sendToGroup(Session session, MessageProducer producer, String group, int sequence, String text)
            throws JMSException {
        TextMessage message = session.createTextMessage(text);
        message.setStringProperty("JMSXGroupID", group);
        if (sequence != 0) {
            message.setIntProperty("JMSXGroupSeq", sequence);
        }
        producer.send(message);
    }

    /** The newest message of each key waits; what comes back is dropped when there is a newer one. */
    private static void lastValue(Context context) throws Exception {
        Connection connection = context.connect("");
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(context.name("q"));
        Session sending = connection.createSession();
        MessageProducer producer = sending.createProducer(queue);
        sendWithKey(sending, producer, "a", "a1");
        sendWithKey(sending, producer, "b", "b1");
        sendWithKey(sending, producer, "a", "a2");
        producer.send(sending.createTextMessage("without"));
        try (QueueBrowser browser = session.createBrowser(queue)) {
            Context.equal(3, Collections.list(browser.getEnumeration()).size(), "values");
        }
        MessageConsumer consumer = session.createConsumer(queue);
        Context.nextTexts(consumer, "b1", "a2", "without");
        sendWithKey(sending, producer, "a", "a3");
        session.rollback();
        Set<String> seen = new HashSet<>(List.of(Context.nextText(consumer), Context.nextText(consumer), Context.nextText(consumer)));
        Context.equal(Set.of("b1", "without", "a3"), seen, "values after the rollback");
        Context.nothing(consumer);
        session.commit();
        sendWithKey(sending, producer, "a", "a4");
        Context.nextTexts(consumer, "a4");
        session.commit();
    }

    private static void sendWithKey(Session session, MessageProducer producer, String key, String text) throws JMSException {
        TextMessage message = session.createTextMessage(text);
        message.setStringProperty("key", key);
        producer.send(message);
    }

    /** Three messages wait, the newest ones; those in delivery do not count, and come back as far as there is room. */
    private static void ring(Context context) throws Exception {
        Connection connection = context.connect("");
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(context.name("q"));
        Session sending = connection.createSession();
        MessageProducer producer = sending.createProducer(queue);
        Context.sendTexts(sending, producer, "1", "2", "3", "4", "5");
        MessageConsumer consumer = session.createConsumer(queue);
        Context.nextTexts(consumer, "3", "4", "5");
        session.rollback();
        consumer.close();
        Context.sendTexts(sending, producer, "6");
        consumer = session.createConsumer(queue);
        Context.nextTexts(consumer, "4", "5", "6");
        Context.nothing(consumer);
        session.commit();
    }

    /** Everybody sees the last values, and what comes later; nobody takes them. */
    private static void nonDestructive(Context context) throws Exception {
        Connection connection = context.connect("");
        Session sending = connection.createSession();
        Queue queue = sending.createQueue(context.name("q"));
        MessageProducer producer = sending.createProducer(queue);
        sendWithKey(sending, producer, "a", "a1");
        sendWithKey(sending, producer, "b", "b1");
        MessageConsumer first = connection.createSession().createConsumer(queue);
        Context.nextTexts(first, "a1", "b1");
        sendWithKey(sending, producer, "a", "a2");
        Context.nextTexts(first, "a2");
        Context.nothing(first);
        first.close();
        MessageConsumer second = connection.createSession().createConsumer(queue);
        Context.nextTexts(second, "b1", "a2");
        Context.nothing(second);
    }

    private static void startStop(Context context) throws Exception {
        Connection connection = context.connect("");
        Session session = connection.createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageConsumer consumer = session.createConsumer(queue);
        connection.stop();
        Context.sendTexts(session, session.createProducer(queue), "one");
        Context.nothing(consumer);
        connection.start();
        Context.nextTexts(consumer, "one");
    }

    private static void selector(Context context) throws Exception {
        Connection connection = context.connect("");
        Session session = connection.createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        for (int i = 0; i < 12; i++) {
            TextMessage message = session.createTextMessage("m" + i);
            message.setIntProperty("n", i);
            if (i % 2 == 0) {
                message.setStringProperty("colour", i % 4 == 0 ? "red" : "light_blue");
            }
            producer.send(message);
        }
        String[][] wanted = {
            {"n BETWEEN 0 AND 1 AND colour IS NULL", "m1"},
            {"colour IN ('red', 'green') AND n <= 4", "m0", "m4"},
            {"colour LIKE 'light!_%' ESCAPE '!' AND (n * 2) - 4 > 0", "m6", "m10"},
            {"NOT (n > 5) AND colour IS NOT NULL", "m2"},
            {"n = 3.0 OR n = 5", "m3", "m5"},
        };
        for (String[] row : wanted) {
            try (MessageConsumer consumer = session.createConsumer(queue, row[0])) {
                for (int i = 1; i < row.length; i++) {
                    Context.equal(row[i], Context.nextText(consumer), row[0]);
                }
                Message more = consumer.receiveNoWait();
                Context.require(more == null, "only those: " + row[0]);
            }
        }
        try (MessageConsumer rest = session.createConsumer(queue)) {
            Context.nextTexts(rest, "m7", "m8", "m9", "m11");
        }
    }

    private static void selectorOnHeaders(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        TextMessage first = session.createTextMessage("first");
        first.setJMSType("a");
        first.setJMSCorrelationID("c1");
        producer.send(first, 1, 2, 0);
        TextMessage second = session.createTextMessage("second");
        second.setJMSType("b");
        second.setJMSCorrelationID("c2");
        producer.send(second, 2, 7, 0);
        String[][] wanted = {
            {"JMSPriority > 4", "second"}, {"JMSDeliveryMode = 'NON_PERSISTENT'", "first"}, {"JMSType = 'b'", "second"},
            {"JMSCorrelationID = 'c1'", "first"}, {"JMSMessageID = '" + second.getJMSMessageID() + "'", "second"},
            {"JMSTimestamp >= " + first.getJMSTimestamp() + " AND JMSType = 'a'", "first"},
        };
        for (String[] row : wanted) {
            try (QueueBrowser browser = session.createBrowser(queue, row[0])) {
                List<?> found = Collections.list(browser.getEnumeration());
                Context.equal(1, found.size(), row[0]);
                Context.equal(row[1], ((TextMessage) found.get(0)).getText(), row[0]);
            }
        }
    }

    private static void badSelector(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        Context.refused(InvalidSelectorException.class, () -> session.createConsumer(queue, "n = = 1"), "bad grammar");
        Context.sendTexts(session, session.createProducer(queue), "still works");
        Context.nextTexts(session.createConsumer(queue), "still works");
    }

    private static void browser(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        Context.sendTexts(session, producer, "one", "two", "three");
        try (QueueBrowser browser = session.createBrowser(queue)) {
            for (int round = 0; round < 2; round++) {
                List<?> seen = Collections.list(browser.getEnumeration());
                Context.equal(3, seen.size(), "browsed in round " + round);
                Context.equal("one", ((TextMessage) seen.get(0)).getText(), "first");
                Context.equal("three", ((TextMessage) seen.get(2)).getText(), "last");
            }
        }
        MessageConsumer consumer = session.createConsumer(queue);
        Message one = Context.next(consumer);
        Context.delivered(one, "one", 1);
        Context.nextTexts(consumer, "two", "three");
        try (QueueBrowser browser = session.createBrowser(queue)) {
            Context.equal(0, Collections.list(browser.getEnumeration()).size(), "browsed at the end");
        }
    }

    private static void requestReply(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Session serverSession = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageConsumer server = serverSession.createConsumer(queue);
        server.setMessageListener(request -> {
            try {
                TextMessage reply = serverSession.createTextMessage(((TextMessage) request).getText() + "!");
                reply.setJMSCorrelationID(request.getJMSMessageID());
                serverSession.createProducer(null).send(request.getJMSReplyTo(), reply);
            } catch (JMSException broken) {
                throw new IllegalStateException(broken);
            }
        });
        TemporaryQueue replies = session.createTemporaryQueue();
        MessageConsumer answers = session.createConsumer(replies);
        MessageProducer producer = session.createProducer(queue);
        for (int i = 0; i < 10; i++) {
            TextMessage request = session.createTextMessage("request " + i);
            request.setJMSReplyTo(replies);
            producer.send(request);
            Message answer = Context.next(answers);
            Context.equal("request " + i + "!", ((TextMessage) answer).getText(), "answer");
            Context.equal(request.getJMSMessageID(), answer.getJMSCorrelationID(), "correlation id");
        }
        answers.close();
        replies.delete();
    }

    private static void temporaryLifetime(Context context) throws Exception {
        Connection owner = context.connect("");
        Connection other = context.connect("");
        Session session = owner.createSession();
        TemporaryQueue temporary = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(temporary);
        Context.refused(JMSException.class, temporary::delete, "deleting with a consumer");
        Session foreign = other.createSession();
        Context.refused(JMSException.class, () -> foreign.createConsumer(temporary), "a consumer of another connection");
        Context.sendTexts(foreign, foreign.createProducer(temporary), "from the other connection");
        Context.nextTexts(consumer, "from the other connection");
        TemporaryQueue left = session.createTemporaryQueue();
        Context.sendTexts(session, session.createProducer(left), "goes with its queue");
        owner.close();
        Context.eventually(() -> isGone(foreign, left), "gone with its connection");
    }

    private static boolean isGone(Session session, TemporaryQueue queue) throws JMSException {
        try {
            Queue again = session.createQueue(queue.getQueueName());
            return Collections.list(session.createBrowser(again).getEnumeration()).isEmpty();
        } catch (InvalidDestinationException gone) {
            return true;
        }
    }

    private static void anonymousProducer(Context context) throws Exception {
        Session session = context.connect("").createSession();
        MessageProducer anybody = session.createProducer(null);
        for (String part : new String[] {"a", "b"}) {
            Queue queue = session.createQueue(context.name(part));
            anybody.send(queue, session.createTextMessage("to " + part));
            anybody.send(queue, session.createTextMessage("more to " + part));
            MessageConsumer consumer = session.createConsumer(queue);
            Context.nextTexts(consumer, "to " + part, "more to " + part);
        }
        Context.refused(UnsupportedOperationException.class, () -> anybody.send(session.createTextMessage("nowhere")), "without destination");
    }

    private static void fullyQualified(Context context) throws Exception {
        Session session = context.connect("").createSession();
        String address = context.name("address");
        Queue first = session.createQueue(address + "::" + context.name("first"));
        MessageConsumer consumer = session.createConsumer(first);
        MessageConsumer second = session.createConsumer(session.createQueue(address + "::" + context.name("second")));
        MessageProducer producer = session.createProducer(first);
        Context.sendTexts(session, producer, "one", "two");
        Context.nextTexts(consumer, "one", "two");
        Context.nothing(second);
    }

    private static void notCreatable(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Context.refused(JMSException.class, () -> {
            Queue queue = session.createQueue("interop.closed.q");
            session.createConsumer(queue);
        }, "consuming where nothing may be created");
        Context.refused(JMSException.class, () -> {
            Queue queue = session.createQueue("interop.closed.q2");
            session.createProducer(queue).send(session.createTextMessage("x"));
        }, "sending where nothing may be created");
    }

    private static void receiveNoWait(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageConsumer consumer = session.createConsumer(queue);
        for (int i = 0; i < 10; i++) {
            Context.equal(null, consumer.receiveNoWait(), "empty queue");
            Context.sendTexts(session, session.createProducer(queue), "m" + i);
            TextMessage message = (TextMessage) consumer.receiveNoWait();
            Context.require(message != null && message.getText().equals("m" + i), "sent message is there at once");
        }
    }
}
