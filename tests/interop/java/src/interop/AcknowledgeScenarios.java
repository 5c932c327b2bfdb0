package interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;

/** Acknowledgement modes, what is redelivered after each, recover, listeners. */
final class AcknowledgeScenarios {
    private AcknowledgeScenarios() {
    }

    static void addTo(Map<String, Scenario> all) {
        all.put("ack-auto", context -> leftAfterThree(context, Session.AUTO_ACKNOWLEDGE, "", "m3"));
        all.put("ack-auto-blocking", context -> leftAfterThree(context, Session.AUTO_ACKNOWLEDGE, "blockOnAcknowledge=true", "m3"));
        all.put("ack-dups-ok", context -> leftAfterThree(context, Session.DUPS_OK_ACKNOWLEDGE, "dupsOKBatchSize=300", "m3"));
        all.put("ack-pre", context -> leftAfterThree(context, Context.PRE_ACKNOWLEDGE, ""));
        all.put("ack-client-none", context -> leftAfterThree(context, Session.CLIENT_ACKNOWLEDGE, "", "m0", "m1", "m2", "m3"));
        all.put("ack-client", context -> client(context, ""));
        all.put("ack-client-blocking", context -> client(context, "blockOnAcknowledge=true"));
        all.put("ack-individual", AcknowledgeScenarios::individual);
        all.put("ack-mixed-priorities", AcknowledgeScenarios::mixedPriorities);
        all.put("ack-recover", AcknowledgeScenarios::recover);
        all.put("ack-close-counts", AcknowledgeScenarios::closeCounts);
        all.put("listener", AcknowledgeScenarios::listener);
        all.put("listener-redelivery", AcknowledgeScenarios::listenerRedelivery);
    }

    private static Queue filled(Context context, int count) throws Exception {
        Session session = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        for (int i = 0; i < count; i++) {
            producer.send(session.createTextMessage("m" + i));
        }
        return queue;
    }

    private static void remain(Context context, Queue queue, String... expected) throws Exception {
        Session session = context.connect("").createSession();
        Context.eventually(() -> left(session, queue).equals(List.of(expected)), "left in the queue " + List.of(expected));
    }

    private static List<String> left(Session session, Queue queue) throws Exception {
        List<String> texts = new ArrayList<>();
        for (Object message : Collections.list(session.createBrowser(queue).getEnumeration())) {
            texts.add(((TextMessage) message).getText());
        }
        return texts;
    }

    private static void leftAfterThree(Context context, int mode, String parameters, String... expected) throws Exception {
        Queue queue = filled(context, 4);
        Connection connection = context.connect(parameters);
        MessageConsumer consumer = connection.createSession(false, mode).createConsumer(queue);
        Context.nextTexts(consumer, "m0", "m1", "m2");
        connection.close();
        remain(context, queue, expected);
    }

    private static void client(Context context, String parameters) throws Exception {
        Queue queue = filled(context, 4);
        Connection connection = context.connect(parameters);
        MessageConsumer consumer = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE).createConsumer(queue);
        Context.nextTexts(consumer, "m0");
        Message second = Context.next(consumer);
        second.acknowledge();
        Context.nextTexts(consumer, "m2");
        connection.close();
        remain(context, queue, "m2", "m3");
    }

    private static void individual(Context context) throws Exception {
        Queue queue = filled(context, 5);
        Connection connection = context.connect("");
        MessageConsumer consumer = connection.createSession(false, Context.INDIVIDUAL_ACKNOWLEDGE).createConsumer(queue);
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            messages.add(Context.next(consumer));
        }
        messages.get(3).acknowledge();
        messages.get(1).acknowledge();
        connection.close();
        remain(context, queue, "m0", "m2", "m4");
    }

    private static void mixedPriorities(Context context) throws Exception {
        Connection connection = context.connect("");
        Session session = connection.createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        for (int priority : new int[] {4, 9, 0, 4, 9}) {
            producer.send(session.createTextMessage("p" + priority), 2, priority, 0);
        }
        MessageConsumer consumer = connection.createSession(false, Session.AUTO_ACKNOWLEDGE).createConsumer(queue);
        Context.nextTexts(consumer, "p9", "p9", "p4");
        connection.close();
        remain(context, queue, "p4", "p0");
    }

    private static void recover(Context context) throws Exception {
        Queue queue = filled(context, 3);
        Session session = context.connect("").createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(queue);
        Context.next(consumer).acknowledge();
        Context.delivered(Context.next(consumer), "m1", 1);
        session.recover();
        Context.delivered(Context.next(consumer), "m1", 2);
        Message last = Context.next(consumer);
        Context.equal("m2", ((TextMessage) last).getText(), "text");
        context.result("count_of_buffered_after_recover", Context.deliveryCount(last));
        last.acknowledge();
        Context.nothing(consumer);
    }

    private static void closeCounts(Context context) throws Exception {
        Queue queue = filled(context, 3);
        Connection connection = context.connect("");
        MessageConsumer consumer = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE).createConsumer(queue);
        Context.delivered(Context.next(consumer), "m0", 1);
        connection.close();
        MessageConsumer again = context.connect("").createSession().createConsumer(queue);
        Message first = Context.next(again);
        Context.equal("m0", ((TextMessage) first).getText(), "order is kept");
        context.result("count_after_close", Context.deliveryCount(first));
        Context.delivered(Context.next(again), "m1", 1);
        Context.delivered(Context.next(again), "m2", 1);
    }

    private static void listener(Context context) throws Exception {
        Queue queue = filled(context, 50);
        Connection connection = context.connect("");
        MessageConsumer consumer = connection.createSession().createConsumer(queue);
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch all = new CountDownLatch(50);
        consumer.setMessageListener(message -> {
            try {
                seen.add(((TextMessage) message).getText());
            } catch (Exception broken) {
                seen.add(broken.toString());
            }
            all.countDown();
        });
        Context.require(all.await(10, TimeUnit.SECONDS), "all came to the listener, saw " + seen.size());
        for (int i = 0; i < 50; i++) {
            Context.equal("m" + i, seen.get(i), "order");
        }
        connection.close();
        remain(context, queue);
    }

    private static void listenerRedelivery(Context context) throws Exception {
        Queue queue = filled(context, 3);
        MessageConsumer consumer = context.connect("").createSession().createConsumer(queue);
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch all = new CountDownLatch(4);
        consumer.setMessageListener(message -> {
            try {
                seen.add(((TextMessage) message).getText() + "/" + Context.deliveryCount(message));
            } catch (Exception broken) {
                seen.add(broken.toString());
            }
            all.countDown();
            if (seen.size() == 2) {
                throw new IllegalStateException("thrown by the listener once, on purpose");
            }
        });
        Context.require(all.await(10, TimeUnit.SECONDS), "redelivered to the listener, saw " + seen);
        Context.equal(List.of("m0/1", "m1/1", "m1/2", "m2/1"), List.copyOf(seen), "deliveries");
    }
}
