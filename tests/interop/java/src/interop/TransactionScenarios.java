package interop;

import java.util.Map;
import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;

/** Transacted sessions. */
final class TransactionScenarios {
    private TransactionScenarios() {
    }

    static void addTo(Map<String, Scenario> all) {
        all.put("tx-commit", TransactionScenarios::commit);
        all.put("tx-rollback", TransactionScenarios::rollback);
        all.put("tx-rollback-order", TransactionScenarios::rollbackOrder);
        all.put("tx-close-open", TransactionScenarios::closeWithOpenWork);
        all.put("tx-several-queues", TransactionScenarios::severalQueues);
        all.put("tx-topic", TransactionScenarios::topic);
        all.put("tx-redelivery-delay", TransactionScenarios::redeliveryDelay);
    }

    private static void commit(Context context) throws Exception {
        Connection connection = context.connect("");
        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = transacted.createQueue(context.name("q"));
        MessageConsumer observer = connection.createSession().createConsumer(queue);
        Context.sendTexts(transacted, transacted.createProducer(queue), "one", "two");
        Context.nothing(observer);
        transacted.commit();
        Context.nextTexts(observer, "one", "two");
        observer.close();
        transacted.commit();
        Context.sendTexts(transacted, transacted.createProducer(queue), "three");
        transacted.commit();
        MessageConsumer consumer = transacted.createConsumer(queue);
        Context.nextTexts(consumer, "three");
        transacted.commit();
        consumer.close();
        Context.nothing(connection.createSession().createConsumer(queue));
    }

    private static void rollback(Context context) throws Exception {
        Connection connection = context.connect("");
        Session plain = connection.createSession();
        Queue queue = plain.createQueue(context.name("q"));
        Context.sendTexts(plain, plain.createProducer(queue), "m0", "m1", "m2");
        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        Context.sendTexts(transacted, transacted.createProducer(queue), "never");
        MessageConsumer consumer = transacted.createConsumer(queue);
        Context.delivered(Context.next(consumer), "m0", 1);
        Context.delivered(Context.next(consumer), "m1", 1);
        transacted.rollback();
        Context.delivered(Context.next(consumer), "m0", 2);
        Context.delivered(Context.next(consumer), "m1", 2);
        Context.delivered(Context.next(consumer), "m2", 1);
        transacted.rollback();
        Context.delivered(Context.next(consumer), "m0", 3);
        Context.delivered(Context.next(consumer), "m1", 3);
        Context.delivered(Context.next(consumer), "m2", 2);
        transacted.commit();
        Context.nothing(consumer);
    }

    private static void rollbackOrder(Context context) throws Exception {
        Connection connection = context.connect("");
        Session plain = connection.createSession();
        Queue queue = plain.createQueue(context.name("q"));
        MessageProducer producer = plain.createProducer(queue);
        for (int i = 0; i < 30; i++) {
            producer.send(plain.createTextMessage("m" + i));
        }
        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageConsumer consumer = transacted.createConsumer(queue);
        for (int round = 1; round <= 3; round++) {
            for (int i = 0; i < 10 * round; i++) {
                Context.equal("m" + i, Context.nextText(consumer), "round " + round);
            }
            if (round < 3) {
                transacted.rollback();
            }
        }
        transacted.commit();
        Context.nothing(consumer);
    }

    private static void closeWithOpenWork(Context context) throws Exception {
        Connection connection = context.connect("");
        Session plain = connection.createSession();
        Queue queue = plain.createQueue(context.name("q"));
        Context.sendTexts(plain, plain.createProducer(queue), "m0", "m1");
        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        Context.sendTexts(transacted, transacted.createProducer(queue), "never");
        MessageConsumer consumer = transacted.createConsumer(queue);
        Context.nextTexts(consumer, "m0");
        transacted.close();
        MessageConsumer again = plain.createConsumer(queue);
        Message first = Context.next(again);
        Context.equal("m0", ((TextMessage) first).getText(), "back in its place");
        context.result("count_after_close", Context.deliveryCount(first));
        Context.nextTexts(again, "m1");
        Context.nothing(again);
    }

    private static void severalQueues(Context context) throws Exception {
        Connection connection = context.connect("");
        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue in = transacted.createQueue(context.name("in"));
        Queue out = transacted.createQueue(context.name("out"));
        MessageProducer anybody = transacted.createProducer(null);
        anybody.send(in, transacted.createTextMessage("job"));
        transacted.commit();
        MessageConsumer jobs = transacted.createConsumer(in);
        for (int attempt = 1; attempt <= 2; attempt++) {
            Message job = Context.next(jobs);
            Context.delivered(job, "job", attempt);
            anybody.send(out, transacted.createTextMessage("result " + attempt));
            if (attempt == 1) {
                transacted.rollback();
            } else {
                transacted.commit();
            }
        }
        MessageConsumer results = connection.createSession().createConsumer(out);
        Context.nextTexts(results, "result 2");
        Context.nothing(results);
        Context.nothing(jobs);
    }

    private static void topic(Context context) throws Exception {
        Connection connection = context.connectAs(context.name("client"), "");
        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        Topic topic = transacted.createTopic(context.name("t"));
        MessageConsumer durable = transacted.createDurableConsumer(topic, "d");
        MessageConsumer plain = connection.createSession().createConsumer(topic);
        Context.sendTexts(transacted, transacted.createProducer(topic), "one");
        transacted.commit();
        Context.nextTexts(plain, "one");
        Context.nextTexts(durable, "one");
        transacted.rollback();
        Context.delivered(Context.next(durable), "one", 2);
        transacted.commit();
        Context.nothing(plain);
    }

    private static void redeliveryDelay(Context context) throws Exception {
        Session session = context.connect("").createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue("interop.delayed.q");
        Context.sendTexts(session, session.createProducer(queue), "one");
        session.commit();
        MessageConsumer consumer = session.createConsumer(queue);
        Context.nextTexts(consumer, "one");
        session.rollback();
        long begin = System.nanoTime();
        Message again = Context.next(consumer);
        long waited = (System.nanoTime() - begin) / 1_000_000;
        Context.delivered(again, "one", 2);
        Context.require(waited >= 200, "redelivery-delay of 300 ms, came after " + waited);
        session.commit();
    }
}
