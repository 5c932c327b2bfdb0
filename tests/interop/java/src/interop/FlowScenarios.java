package interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.jms.CompletionListener;
import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;

/** Windows and credits on both sides, blocking and non-blocking sends, completion listeners. */
final class FlowScenarios {
    private static final int COUNT = 100;

    private FlowScenarios() {
    }

    static void addTo(Map<String, Scenario> all) {
        for (String parameters : List.of("consumerWindowSize=0", "consumerWindowSize=1", "consumerWindowSize=300", "consumerWindowSize=-1")) {
            all.put("flow-" + parameters, context -> through(context, parameters));
        }
        all.put("flow-consumer-window-0-fair", FlowScenarios::slowConsumersShare);
        all.put("flow-consumer-window-0-listener", FlowScenarios::slowListener);
        for (String parameters : List.of("producerWindowSize=1000", "producerWindowSize=-1", "blockOnDurableSend=false",
                "blockOnNonDurableSend=true", "confirmationWindowSize=1000", "confirmationWindowSize=1000000&blockOnAcknowledge=true",
                "confirmationWindowSize=1000&blockOnDurableSend=false", "preAcknowledge=true", "ackBatchSize=500")) {
            all.put("flow-" + parameters, context -> through(context, parameters));
        }
        all.put("flow-message-above-window", FlowScenarios::aboveTheWindow);
        all.put("send-async", context -> completion(context, ""));
        all.put("send-async-confirmed", context -> completion(context, "confirmationWindowSize=10000"));
        all.put("send-async-tx", FlowScenarios::completionInTransaction);
    }

    private static void through(Context context, String parameters) throws Exception {
        Connection connection = context.connect(parameters);
        Session session = connection.createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = connection.createSession().createConsumer(queue);
        for (int i = 0; i < COUNT; i++) {
            producer.setDeliveryMode(1 + i % 2);
            producer.send(session.createTextMessage("m" + i));
        }
        for (int i = 0; i < COUNT; i++) {
            Context.equal("m" + i, Context.nextText(consumer), "order");
        }
        Context.nothing(consumer);
        Context.equal(null, consumer.receiveNoWait(), "empty");
        Context.sendTexts(session, producer, "after a time-out");
        Context.nextTexts(consumer, "after a time-out");
        connection.close();
        Session other = context.connect("").createSession();
        Context.equal(0, Collections.list(other.createBrowser(queue).getEnumeration()).size(), "left in the queue");
    }

    private static void slowConsumersShare(Context context) throws Exception {
        Connection connection = context.connect("consumerWindowSize=0");
        Session session = connection.createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageConsumer idle = connection.createSession().createConsumer(queue);
        MessageConsumer busy = connection.createSession().createConsumer(queue);
        Context.sendTexts(session, session.createProducer(queue), "one", "two", "three");
        Context.nextTexts(busy, "one", "two", "three");
        Context.nothing(idle);
    }

    private static void slowListener(Context context) throws Exception {
        Connection connection = context.connect("consumerWindowSize=0");
        Session session = connection.createSession();
        Queue queue = session.createQueue(context.name("q"));
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch all = new CountDownLatch(20);
        MessageProducer producer = session.createProducer(queue);
        for (int i = 0; i < 20; i++) {
            producer.send(session.createTextMessage("m" + i));
        }
        connection.createSession().createConsumer(queue).setMessageListener(message -> {
            try {
                seen.add(((TextMessage) message).getText());
            } catch (Exception broken) {
                seen.add(broken.toString());
            }
            all.countDown();
        });
        Context.require(all.await(10, TimeUnit.SECONDS), "all came, saw " + seen);
        Context.equal("m19", seen.get(19), "order");
    }

    private static void aboveTheWindow(Context context) throws Exception {
        Session session = context.connect("producerWindowSize=1000&consumerWindowSize=1000").createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue);
        for (int i = 0; i < 10; i++) {
            Context.sendTexts(session, producer, i + "x".repeat(5_000));
        }
        for (int i = 0; i < 10; i++) {
            Context.nextTexts(consumer, i + "x".repeat(5_000));
        }
    }

    /** Notes what was completed. */
    private static final class Completions implements CompletionListener {
        private final List<String> texts = Collections.synchronizedList(new ArrayList<>());
        private final CountDownLatch all;

        Completions(int count) {
            all = new CountDownLatch(count);
        }

        @Override
        public void onCompletion(Message message) {
            try {
                texts.add(((TextMessage) message).getText());
            } catch (Exception broken) {
                texts.add(broken.toString());
            }
            all.countDown();
        }

        @Override
        public void onException(Message message, Exception exception) {
            texts.add(exception.toString());
            all.countDown();
        }

        void check() throws InterruptedException {
            Context.require(all.await(10, TimeUnit.SECONDS), "all completed, saw " + texts.size());
            for (int i = 0; i < texts.size(); i++) {
                Context.equal("m" + i, texts.get(i), "order of completion");
            }
        }
    }

    private static void completion(Context context, String parameters) throws Exception {
        Session session = context.connect(parameters).createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        Completions completions = new Completions(COUNT);
        for (int i = 0; i < COUNT; i++) {
            producer.send(session.createTextMessage("m" + i), completions);
        }
        completions.check();
        MessageConsumer consumer = session.createConsumer(queue);
        for (int i = 0; i < COUNT; i++) {
            Context.equal("m" + i, Context.nextText(consumer), "order");
        }
    }

    private static void completionInTransaction(Context context) throws Exception {
        Session session = context.connect("confirmationWindowSize=10000").createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        Completions completions = new Completions(10);
        for (int i = 0; i < 10; i++) {
            producer.send(session.createTextMessage("m" + i), completions);
        }
        session.commit();
        completions.check();
        MessageConsumer consumer = session.createConsumer(queue);
        for (int i = 0; i < 10; i++) {
            Context.equal("m" + i, Context.nextText(consumer), "order");
        }
        session.commit();
    }
}
