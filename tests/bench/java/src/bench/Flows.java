package bench;

import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import javax.jms.BytesMessage;
import javax.jms.CompletionListener;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TemporaryQueue;

/** Loads that run for a time. */
final class Flows {
    private static final int BATCH = 100;
    private static final int BATCHES_OPEN = 20;
    private static final int LARGE_OPEN = 3;
    private static final int SELECTED_OPEN = 200;
    private static final long RECEIVE_MS = 1_000;
    private static final int FORWARDED_OPEN = 2_000;
    private static final long KNOWN_MS = 1_500;
    private static final String SENT = "sent";

    private Flows() {
    }

    static Message bytes(Session session, byte[] body) throws JMSException {
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(body);
        return message;
    }

    static void blocking(Bench bench) throws Exception {
        String queue = "bench.blocking";
        List<Callable<Void>> tasks = new ArrayList<>();
        for (int i = 0; i < bench.option("threads"); i++) {
            Session session = bench.session(false);
            MessageProducer producer = session.createProducer(session.createQueue(queue));
            tasks.add(() -> {
                byte[] body = new byte[bench.option("size")];
                while (!bench.stopping()) {
                    long begin = System.nanoTime();
                    producer.send(bytes(session, body));
                    bench.meter.done(System.nanoTime() - begin);
                }
                return null;
            });
        }
        bench.during(tasks);
        bench.empty(queue);
    }

    /** Batches of 100: sent in a transaction, received in a transaction; the time is that of the sender's commit. */
    static void transacted(Bench bench) throws Exception {
        String queue = "bench.transacted";
        Semaphore open = new Semaphore(BATCHES_OPEN);
        AtomicLong sent = new AtomicLong();
        Session out = bench.session(true);
        MessageProducer producer = out.createProducer(out.createQueue(queue));
        Session in = bench.session(true);
        MessageConsumer consumer = in.createConsumer(in.createQueue(queue));
        byte[] body = new byte[bench.option("size")];
        bench.during(List.of(() -> {
            while (!bench.stopping()) {
                if (!open.tryAcquire(RECEIVE_MS, TimeUnit.MILLISECONDS)) {
                    continue;
                }
                for (int i = 0; i < BATCH; i++) {
                    producer.send(bytes(out, body));
                }
                long begin = System.nanoTime();
                out.commit();
                bench.meter.time(System.nanoTime() - begin);
                sent.addAndGet(BATCH);
            }
            return null;
        }, () -> {
            for (long received = 0; !bench.stopping() || received < sent.get();) {
                if (consumer.receive(RECEIVE_MS) != null && ++received % BATCH == 0) {
                    in.commit();
                    bench.meter.count(BATCH);
                    open.release();
                }
            }
            return null;
        }));
    }

    /** Bodies that are streamed in and out; the time is from the begin of the sending until the last byte has come. */
    static void large(Bench bench) throws Exception {
        String queue = "bench.large";
        int size = bench.option("size");
        Semaphore open = new Semaphore(LARGE_OPEN);
        AtomicLong sent = new AtomicLong();
        Session out = bench.session(false);
        MessageProducer producer = out.createProducer(out.createQueue(queue));
        Session in = bench.session(false);
        MessageConsumer consumer = in.createConsumer(in.createQueue(queue));
        bench.during(List.of(() -> {
            while (!bench.stopping()) {
                if (!open.tryAcquire(RECEIVE_MS, TimeUnit.MILLISECONDS)) {
                    continue;
                }
                BytesMessage message = out.createBytesMessage();
                message.setLongProperty(SENT, System.nanoTime());
                message.setObjectProperty("JMS_AMQ_InputStream", new Zeros(size));
                producer.send(message);
                sent.incrementAndGet();
            }
            return null;
        }, () -> {
            for (long received = 0; !bench.stopping() || received < sent.get();) {
                Message message = consumer.receive(RECEIVE_MS);
                if (message != null) {
                    message.setObjectProperty("JMS_AMQ_SaveStream", OutputStream.nullOutputStream());
                    received++;
                    bench.meter.done(System.nanoTime() - message.getLongProperty(SENT));
                    open.release();
                }
            }
            return null;
        }));
    }

    /** So many zeros. */
    private static final class Zeros extends InputStream {
        private int left;

        Zeros(int size) {
            left = size;
        }

        @Override
        public int read() {
            return left-- > 0 ? 0 : -1;
        }

        @Override
        public int read(byte[] into, int offset, int length) {
            if (left <= 0) {
                return -1;
            }
            int count = Math.min(left, length);
            left -= count;
            return count;
        }
    }

    /** One producer, and as many consumers with a selector each as there are kinds of messages. */
    static void selectors(Bench bench) throws Exception {
        String queue = "bench.selectors";
        int kinds = bench.option("consumers");
        byte[] body = new byte[bench.option("size")];
        Semaphore open = new Semaphore(SELECTED_OPEN);
        List<Callable<Void>> tasks = new ArrayList<>();
        for (int kind = 0; kind < kinds; kind++) {
            Session session = bench.session(false);
            MessageConsumer consumer = session.createConsumer(session.createQueue(queue), "kind = " + kind);
            tasks.add(() -> {
                while (!bench.stopping()) {
                    Message message = consumer.receive(RECEIVE_MS);
                    if (message != null) {
                        bench.meter.done(System.nanoTime() - message.getLongProperty(SENT));
                        open.release();
                    }
                }
                return null;
            });
        }
        Session session = bench.session(false);
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        tasks.add(() -> {
            for (int i = 0; !bench.stopping(); i++) {
                if (!open.tryAcquire(RECEIVE_MS, TimeUnit.MILLISECONDS)) {
                    continue;
                }
                Message message = bytes(session, body);
                message.setIntProperty("kind", i % kinds);
                message.setLongProperty(SENT, System.nanoTime());
                producer.send(message);
            }
            return null;
        });
        bench.during(tasks);
        bench.empty(queue);
    }

    /**
     * A producer at one broker of a cluster, consumers at others; the time is from the sending to the receiving. A limit on messages
     * under way keeps the producer from filling the queues between the brokers.
     */
    static void forward(Bench bench) throws Exception {
        CompletionListener answered = new Failures();
        forward(bench, (producer, message) -> producer.send(message, answered));
    }

    /** The same; the producer waits for the answer to each message. */
    static void forwardWaiting(Bench bench) throws Exception {
        forward(bench, MessageProducer::send);
    }

    private static void forward(Bench bench, Sender sender) throws Exception {
        String queue = "bench.forward";
        byte[] body = new byte[bench.option("size")];
        Semaphore open = new Semaphore(FORWARDED_OPEN);
        List<Callable<Void>> tasks = new ArrayList<>();
        for (int i = 0; i < bench.option("consumers"); i++) {
            Session session = bench.sessionAt("at" + i);
            MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
            tasks.add(() -> {
                for (Message message = consumer.receive(RECEIVE_MS); message != null || !bench.stopping();
                        message = consumer.receive(RECEIVE_MS)) {
                    if (message != null) {
                        bench.meter.done(System.nanoTime() - message.getLongProperty(SENT));
                        open.release();
                    }
                }
                return null;
            });
        }
        Thread.sleep(KNOWN_MS);  // until the producer's broker knows of the consumers
        Session session = bench.connect("confirmationWindowSize=1048576&useTopologyForLoadBalancing=false")
                .createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        tasks.add(() -> {
            while (!bench.stopping()) {
                if (!open.tryAcquire(RECEIVE_MS, TimeUnit.MILLISECONDS)) {
                    continue;
                }
                Message message = bytes(session, body);
                message.setLongProperty(SENT, System.nanoTime());
                sender.send(producer, message);
            }
            return null;
        });
        bench.during(tasks);
    }

    /** How a message is sent. */
    @FunctionalInterface
    private interface Sender {
        void send(MessageProducer producer, Message message) throws JMSException;
    }

    /** Nobody waits for the answers. */
    private static final class Failures implements CompletionListener {
        @Override
        public void onCompletion(Message message) {
            // the consumer counts it
        }

        @Override
        public void onException(Message message, Exception failed) {
            System.err.println(failed);
        }
    }

    /** One requester with a temporary queue, one that answers; non-durable. */
    static void requestReply(Bench bench) throws Exception {
        Session asking = bench.session(false);
        Session answering = bench.session(false);
        MessageConsumer requests = answering.createConsumer(answering.createQueue("bench.requests"));
        MessageProducer replier = answering.createProducer(null);
        replier.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        TemporaryQueue replyTo = asking.createTemporaryQueue();
        MessageConsumer replies = asking.createConsumer(replyTo);
        MessageProducer requester = asking.createProducer(asking.createQueue("bench.requests"));
        requester.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        byte[] body = new byte[bench.option("size")];
        bench.during(List.of(() -> {
            while (!bench.stopping()) {
                Message request = requests.receive(RECEIVE_MS);
                if (request != null) {
                    replier.send(request.getJMSReplyTo(), bytes(answering, body));
                }
            }
            return null;
        }, () -> {
            while (!bench.stopping()) {
                Message request = bytes(asking, body);
                request.setJMSReplyTo(replyTo);
                long begin = System.nanoTime();
                requester.send(request);
                if (replies.receive(RECEIVE_MS) != null) {
                    bench.meter.done(System.nanoTime() - begin);
                } else if (!bench.stopping()) {
                    throw new IllegalStateException("no reply within " + RECEIVE_MS + " ms");
                }
            }
            return null;
        }));
    }
}
