package interop;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;

/** Priority, time to live, scheduled delivery, dead letters, duplicate detection, full addresses. */
final class DeliveryScenarios {
    private static final String DUPLICATE_ID = "_AMQ_DUPL_ID";

    private DeliveryScenarios() {
    }

    static void addTo(Map<String, Scenario> all) {
        all.put("delivery-priority", DeliveryScenarios::priority);
        all.put("delivery-expiry-by-broker", DeliveryScenarios::expiryByBroker);
        all.put("delivery-expiry-by-client", DeliveryScenarios::expiryByClient);
        all.put("delivery-scheduled", DeliveryScenarios::scheduled);
        all.put("delivery-dead-letter", DeliveryScenarios::deadLetter);
        all.put("delivery-dead-letter-topic", DeliveryScenarios::deadLetterOfSubscription);
        all.put("delivery-duplicate-id", DeliveryScenarios::duplicateId);
        all.put("delivery-duplicate-id-tx", DeliveryScenarios::duplicateIdInTransaction);
        all.put("delivery-full-address-fail", DeliveryScenarios::fullAddressFails);
        all.put("delivery-full-address-block", DeliveryScenarios::fullAddressBlocks);
    }

    private static void priority(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        for (int round = 0; round < 2; round++) {
            for (int priority = 0; priority < 10; priority++) {
                producer.send(session.createTextMessage("p" + priority + "." + round), 2, priority, 0);
            }
        }
        MessageConsumer consumer = session.createConsumer(queue);
        for (int priority = 9; priority >= 0; priority--) {
            for (int round = 0; round < 2; round++) {
                Message message = Context.next(consumer);
                Context.equal("p" + priority + "." + round, ((TextMessage) message).getText(), "order");
                Context.equal(priority, message.getJMSPriority(), "JMSPriority");
            }
        }
    }

    /** A copy in the expiry or dead letter queue carries where it came from. */
    private static void copied(Message copy, Message original, String address, String queue) throws JMSException {
        Context.equal(address, copy.getStringProperty("_AMQ_ORIG_ADDRESS"), "_AMQ_ORIG_ADDRESS");
        Context.equal(queue, copy.getStringProperty("_AMQ_ORIG_QUEUE"), "_AMQ_ORIG_QUEUE");
        Context.equal(original.getJMSMessageID(), copy.getJMSMessageID(), "JMSMessageID of the copy");
        Context.require(copy.getLongProperty("_AMQ_ORIG_MESSAGE_ID") > 0, "_AMQ_ORIG_MESSAGE_ID");
        Context.equal(0L, copy.getJMSExpiration(), "expiration of the copy");
    }

    private static MessageConsumer originatingFrom(Session session, String collector, String address) throws JMSException {
        return session.createConsumer(session.createQueue(collector), "_AMQ_ORIG_ADDRESS = '" + address + "'");
    }

    private static void expiryByBroker(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        TextMessage expiring = session.createTextMessage("expires");
        producer.send(expiring, 2, 4, 100);
        producer.send(session.createTextMessage("stays"), 2, 4, 60_000);
        Message copy = Context.next(originatingFrom(session, "ExpiryQueue", queue.getQueueName()));
        Context.equal("expires", ((TextMessage) copy).getText(), "text");
        copied(copy, expiring, queue.getQueueName(), queue.getQueueName());
        Context.require(copy.getLongProperty("_AMQ_ACTUAL_EXPIRY") >= expiring.getJMSExpiration(), "_AMQ_ACTUAL_EXPIRY");
        MessageConsumer consumer = session.createConsumer(queue);
        Context.nextTexts(consumer, "stays");
        Context.nothing(consumer);
    }

    private static void expiryByClient(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageConsumer consumer = session.createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        TextMessage expiring = session.createTextMessage("expires in the buffer of the client");
        producer.send(expiring, 1, 4, 60);
        Context.sendTexts(session, producer, "stays");
        Thread.sleep(120);
        Context.nextTexts(consumer, "stays");
        Message copy = Context.next(originatingFrom(session, "ExpiryQueue", queue.getQueueName()));
        copied(copy, expiring, queue.getQueueName(), queue.getQueueName());
    }

    private static void scheduled(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        // The delays differ by more than a send may take on a slow disk, and the shorter one lasts longer than two sends and a stall.
        producer.setDeliveryDelay(7_000);
        TextMessage late = session.createTextMessage("late");
        producer.send(late);
        producer.setDeliveryDelay(4_500);
        Context.sendTexts(session, producer, "sooner");
        producer.setDeliveryDelay(0);
        Context.sendTexts(session, producer, "now");
        Context.equal(1, Collections.list(session.createBrowser(queue).getEnumeration()).size(), "browsed");
        MessageConsumer consumer = session.createConsumer(queue);
        Context.nextTexts(consumer, "now", "sooner");
        Message last = Context.next(consumer);
        Context.equal("late", ((TextMessage) last).getText(), "text");
        Context.equal(late.getJMSDeliveryTime(), last.getJMSDeliveryTime(), "JMSDeliveryTime");
        Context.require(System.currentTimeMillis() >= late.getJMSDeliveryTime() - 5, "not before its time");
    }

    private static void deadLetter(Context context) throws Exception {
        Connection connection = context.connect("");
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue("interop.dead.q");
        TextMessage bad = session.createTextMessage("bad");
        bad.setIntProperty("n", 7);
        MessageProducer producer = session.createProducer(queue);
        producer.send(bad);
        Context.sendTexts(session, producer, "good");
        session.commit();
        MessageConsumer consumer = session.createConsumer(queue);
        for (int attempt = 1; attempt <= 2; attempt++) {
            Context.delivered(Context.next(consumer), "bad", attempt);
            session.rollback();
        }
        Message good = Context.next(consumer);
        Context.equal("good", ((TextMessage) good).getText(), "text");
        session.commit();
        Context.nothing(consumer);
        Message copy = Context.next(originatingFrom(connection.createSession(), "DLQ", "interop.dead.q"));
        copied(copy, bad, "interop.dead.q", "interop.dead.q");
        Context.delivered(copy, "bad", 1);
        Context.equal(7, copy.getIntProperty("n"), "application property");
    }

    private static void deadLetterOfSubscription(Context context) throws Exception {
        Connection connection = context.connectAs("dead.client", "");
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Topic topic = session.createTopic("interop.dead.t");
        MessageConsumer consumer = session.createDurableConsumer(topic, "d");
        TextMessage bad = session.createTextMessage("bad");
        session.createProducer(topic).send(bad);
        session.commit();
        for (int attempt = 1; attempt <= 2; attempt++) {
            Context.delivered(Context.next(consumer), "bad", attempt);
            session.rollback();
        }
        Context.nothing(consumer);
        Message copy = Context.next(originatingFrom(connection.createSession(), "DLQ", "interop.dead.t"));
        copied(copy, bad, "interop.dead.t", "dead\\.client.d");
    }

    private static void duplicateId(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        for (String id : List.of("a", "a", "b")) {
            TextMessage message = session.createTextMessage(id);
            message.setStringProperty(DUPLICATE_ID, id);
            producer.send(message);
        }
        MessageConsumer consumer = session.createConsumer(queue);
        Context.nextTexts(consumer, "a", "b");
        Context.nothing(consumer);
        TextMessage later = session.createTextMessage("after it was consumed");
        later.setStringProperty(DUPLICATE_ID, "a");
        producer.send(later);
        Context.nothing(consumer);
    }

    private static void duplicateIdInTransaction(Context context) throws Exception {
        Connection connection = context.connect("");
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        TextMessage first = session.createTextMessage("first");
        first.setStringProperty(DUPLICATE_ID, "x");
        producer.send(first);
        session.rollback();
        producer.send(first);
        session.commit();
        TextMessage again = session.createTextMessage("again");
        again.setStringProperty(DUPLICATE_ID, "x");
        producer.send(again);
        Context.sendTexts(session, producer, "falls with it");
        JMSException thrown = Context.refused(JMSException.class, session::commit, "committing a duplicate");
        Context.equal("DUPLICATE_ID_REJECTED", Context.coreCode(thrown), "error code");
        MessageConsumer consumer = connection.createSession().createConsumer(queue);
        Context.nextTexts(consumer, "first");
        Context.nothing(consumer);
    }

    private static void fullAddressFails(Context context) throws Exception {
        Session session = context.connect("producerWindowSize=1000").createSession();
        Queue queue = session.createQueue("interop.full.fail.q");
        MessageProducer producer = session.createProducer(queue);
        JMSException thrown = Context.refused(JMSException.class, () -> {
            for (int i = 0; i < 100; i++) {
                BytesMessage message = session.createBytesMessage();
                message.writeBytes(new byte[1000]);
                producer.send(message);
            }
        }, "sending 100 KB to an address of 20 KB");
        Context.equal("ADDRESS_FULL", Context.coreCode(thrown), "error code");
        MessageConsumer consumer = session.createConsumer(queue);
        int count = 0;
        while (consumer.receiveNoWait() != null) {
            count++;
        }
        Context.require(count > 3 && count < 30, "some were taken: " + count);
        Context.eventually(() -> taken(session, producer, "there is room again"), "room for a message");
        Context.nextTexts(consumer, "there is room again");
    }

    private static boolean taken(Session session, MessageProducer producer, String text) {
        try {
            Context.sendTexts(session, producer, text);
            return true;
        } catch (JMSException full) {
            return false;
        }
    }

    private static void fullAddressBlocks(Context context) throws Exception {
        Session session = context.connect("producerWindowSize=1000").createSession();
        Session receiving = context.connect("").createSession();
        Queue queue = session.createQueue("interop.full.block.q");
        MessageProducer producer = session.createProducer(queue);
        int[] sent = {0};
        Thread sender = new Thread(() -> {
            try {
                for (; sent[0] < 60; sent[0]++) {
                    BytesMessage message = session.createBytesMessage();
                    message.writeBytes(new byte[1000]);
                    producer.send(message);
                }
            } catch (JMSException stopped) {
                sent[0] = -1;
            }
        });
        sender.start();
        int blockedAt;
        do {
            blockedAt = sent[0];
            sender.join(500);
        } while (sender.isAlive() && (sent[0] != blockedAt || blockedAt <= 3));
        Context.require(sender.isAlive() && blockedAt > 3 && blockedAt < 40, "the producer is blocked, has sent " + blockedAt);
        MessageConsumer consumer = receiving.createConsumer(queue);
        for (int i = 0; i < 60; i++) {
            Context.next(consumer);
        }
        sender.join(Context.RECEIVE_MS);
        Context.equal(60, sent[0], "sent in the end");
    }
}
