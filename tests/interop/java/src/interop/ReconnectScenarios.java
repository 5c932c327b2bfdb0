package interop;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import javax.jms.TransactionRolledBackException;

/** Connections through the harness's proxy, which cuts them when asked: reattached with a confirmation window, created again without. */
final class ReconnectScenarios {
    private static final String AGAIN = "reconnectAttempts=-1&retryInterval=20&retryIntervalMultiplier=1&callTimeout=10000";
    private static final String WINDOW = AGAIN + "&confirmationWindowSize=1000000";

    private ReconnectScenarios() {
    }

    static void addTo(Map<String, Scenario> all) {
        all.put("reconnect-window", context -> sendAndReceiveThroughCuts(context, WINDOW));
        all.put("reconnect-no-window", context -> sendAndReceiveThroughCuts(context, AGAIN + "&blockOnAcknowledge=true"));
        all.put("reconnect-window-lost-replies", ReconnectScenarios::lostReplies);
        all.put("reconnect-window-tx", ReconnectScenarios::transactionSurvives);
        all.put("reconnect-no-window-tx", ReconnectScenarios::transactionIsRolledBack);
        all.put("reconnect-temporary-queue", ReconnectScenarios::temporaryQueue);
        all.put("reconnect-durable-subscription", ReconnectScenarios::durableSubscription);
        all.put("reconnect-unacknowledged", ReconnectScenarios::unacknowledged);
        all.put("reconnect-not-wanted", ReconnectScenarios::notWanted);
        all.put("restart-connected", ReconnectScenarios::connectedThroughRestart);
        all.put("restart-keeps", ReconnectScenarios::whatARestartKeeps);
    }

    private static void sendAndReceiveThroughCuts(Context context, String parameters) throws Exception {
        Connection connection = context.started(context.proxied(parameters));
        Session session = connection.createSession();
        Session receiving = connection.createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = receiving.createConsumer(queue);
        for (int round = 0; round < 4; round++) {
            insist(session, producer, "a" + round);
            Context.nextTexts(consumer, "a" + round);
            context.ask("cut");
            insist(session, producer, "b" + round);
            Context.nextTexts(consumer, "b" + round);
        }
        Context.nothing(consumer);
    }

    /** As applications do it: a send whose outcome is not known is repeated, with a duplicate id. */
    private static void insist(Session session, MessageProducer producer, String text) throws Exception {
        TextMessage message = session.createTextMessage(text);
        message.setStringProperty("_AMQ_DUPL_ID", text);
        Context.eventually(() -> {
            try {
                producer.send(message);
                return true;
            } catch (JMSException unknown) {
                return false;
            }
        }, "sending " + text);
    }

    /** Cuts the connection and waits until the client has another one. */
    static void cut(Context context, Connection connection) throws Exception {
        CountDownLatch reconnected = new CountDownLatch(1);
        connection.setExceptionListener(thrown -> reconnected.countDown());
        context.ask("cut");
        Context.require(reconnected.await(10, TimeUnit.SECONDS), "the exception listener is told");
    }

    /** The broker's answers are lost, then the connection: what was sent and not confirmed is replayed, and taken once. */
    private static void lostReplies(Context context) throws Exception {
        Connection connection = context.started(context.proxied(WINDOW));
        Session session = connection.createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        Context.sendTexts(session, producer, "m0");
        context.ask("lose-replies");
        AtomicReference<JMSException> broken = new AtomicReference<>();
        Thread sender = new Thread(() -> {
            try {
                Context.sendTexts(session, producer, "m1");
            } catch (JMSException thrown) {
                broken.set(thrown);
            }
        });
        sender.start();
        sender.join(300);
        Context.require(sender.isAlive(), "the answer to m1 is lost, so the send still waits");
        context.ask("cut");
        sender.join(Context.RECEIVE_MS);
        Context.equal(null, broken.get(), "the send ends well after the reattachment");
        Context.sendTexts(session, producer, "m2");
        MessageConsumer consumer = context.connect("").createSession().createConsumer(queue);
        Context.nextTexts(consumer, "m0", "m1", "m2");
        Context.nothing(consumer);
    }

    private static void transactionSurvives(Context context) throws Exception {
        Connection connection = context.started(context.proxied(WINDOW));
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        Context.sendTexts(session, producer, "before the cut");
        context.ask("cut");
        Context.sendTexts(session, producer, "after the cut");
        session.commit();
        MessageConsumer consumer = session.createConsumer(queue);
        Context.nextTexts(consumer, "before the cut", "after the cut");
        session.commit();
        Context.nothing(consumer);
    }

    private static void transactionIsRolledBack(Context context) throws Exception {
        Connection connection = context.started(context.proxied(AGAIN));
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        Context.sendTexts(session, producer, "lost");
        cut(context, connection);
        Context.refused(TransactionRolledBackException.class, session::commit, "committing what was lost");
        Context.sendTexts(session, producer, "second try");
        session.commit();
        MessageConsumer consumer = session.createConsumer(queue);
        Context.nextTexts(consumer, "second try");
        session.commit();
        Context.nothing(consumer);
    }

    private static void temporaryQueue(Context context) throws Exception {
        for (String parameters : List.of(WINDOW, AGAIN)) {
            Connection connection = context.started(context.proxied(parameters));
            Session session = connection.createSession();
            TemporaryQueue temporary = session.createTemporaryQueue();
            MessageConsumer consumer = session.createConsumer(temporary);
            cut(context, connection);
            Context.sendTexts(session, session.createProducer(temporary), "through the cut");
            Context.nextTexts(consumer, "through the cut");
            connection.close();
        }
    }

    private static void durableSubscription(Context context) throws Exception {
        Connection connection = context.proxied(AGAIN).createConnection(Context.USER, Context.PASSWORD);
        connection.setClientID(context.name("client"));
        connection.start();
        Session session = connection.createSession();
        var topic = session.createTopic(context.name("t"));
        MessageConsumer durable = session.createDurableConsumer(topic, "d");
        MessageConsumer plain = session.createConsumer(topic);
        cut(context, connection);
        MessageProducer producer = session.createProducer(topic);
        Context.sendTexts(session, producer, "one");
        Context.nextTexts(durable, "one");
        Context.nextTexts(plain, "one");
        connection.close();
    }

    private static void unacknowledged(Context context) throws Exception {
        Connection connection = context.started(context.proxied(AGAIN));
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue(context.name("q"));
        Context.sendTexts(session, session.createProducer(queue), "m0", "m1", "m2");
        MessageConsumer consumer = session.createConsumer(queue);
        Context.nextTexts(consumer, "m0");
        cut(context, connection);
        Set<String> seen = new HashSet<>();
        List<Message> again = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            Message message = Context.next(consumer);
            again.add(message);
            seen.add(((TextMessage) message).getText());
        }
        Context.equal(Set.of("m0", "m1", "m2"), seen, "delivered again");
        Context.require(again.get(0).getJMSRedelivered(), "marked as redelivered");
        Context.refused(JMSException.class, again.get(2)::acknowledge, "acknowledging across the failure");
        for (int i = 0; i < 3; i++) {
            again.set(i, Context.next(consumer));
        }
        again.get(2).acknowledge();
        Context.nothing(consumer);
    }

    private static void connectedThroughRestart(Context context) throws Exception {
        Connection connection = context.started(context.factory(WINDOW + "&callFailoverTimeout=20000&blockOnAcknowledge=true"));
        Session session = connection.createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = connection.createSession().createConsumer(queue);
        insist(session, producer, "before");
        Context.nextTexts(consumer, "before");
        context.ask("restart");
        insist(session, producer, "after");
        Context.nextTexts(consumer, "after");
    }

    private static void whatARestartKeeps(Context context) throws Exception {
        Queue queue = null;
        Queue delayed = null;
        try (Connection connection = context.connectAs(context.name("client"), "")) {
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            queue = session.createQueue(context.name("q"));
            MessageProducer producer = session.createProducer(queue);
            session.createDurableConsumer(session.createTopic(context.name("t")), "d").close();
            Context.sendTexts(session, session.createProducer(session.createTopic(context.name("t"))), "for the subscription");
            TextMessage first = session.createTextMessage("first");
            first.setStringProperty("_AMQ_DUPL_ID", "id");
            producer.send(first, 2, 9, 0);
            producer.send(session.createTextMessage("not durable"), 1, 4, 0);
            // In a queue of its own: a slow restart takes longer than its delay.
            delayed = session.createQueue(context.name("delayed"));
            MessageProducer late = session.createProducer(delayed);
            late.setDeliveryDelay(3_000);
            late.send(session.createTextMessage("later"));
            session.commit();
            Context.sendTexts(session, producer, "not committed");
        }
        context.ask("restart");
        Connection connection = context.connectAs(context.name("client"), "");
        Session session = connection.createSession();
        MessageProducer producer = session.createProducer(queue);
        TextMessage again = session.createTextMessage("first again");
        again.setStringProperty("_AMQ_DUPL_ID", "id");
        producer.send(again);
        MessageConsumer consumer = session.createConsumer(queue);
        Message first = Context.next(consumer);
        Context.equal("first", ((TextMessage) first).getText(), "text");
        Context.equal(9, first.getJMSPriority(), "priority");
        Context.nothing(consumer);
        Context.nextTexts(session.createConsumer(delayed), "later");
        MessageConsumer durable = session.createDurableConsumer(session.createTopic(context.name("t")), "d");
        Context.nextTexts(durable, "for the subscription");
    }

    private static void notWanted(Context context) throws Exception {
        Connection connection = context.started(context.proxied("callTimeout=10000"));
        Session session = connection.createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        Context.sendTexts(session, producer, "one");
        cut(context, connection);
        Context.refused(JMSException.class, () -> Context.sendTexts(session, producer, "two"), "sending on a lost connection");
    }
}
