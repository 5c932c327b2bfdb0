package bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import javax.jms.CompletionListener;
import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.artemis.api.core.QueueConfiguration;
import org.apache.activemq.artemis.api.core.RoutingType;
import org.apache.activemq.artemis.api.core.client.ClientSession;
import org.apache.activemq.artemis.jms.client.ActiveMQSession;

/** Loads of so many: messages, connections, queues. */
final class Amounts {
    private static final int OPEN = 1_000;
    private static final long STUCK_MS = 30_000;
    private static final int CONNECTORS = 8;
    private static final String QUEUE = "bench.amount";

    private Amounts() {
    }

    /** Releases a place for each answered send; keeps the first failure. */
    private static final class Answers implements CompletionListener {
        private final Semaphore open = new Semaphore(OPEN);
        private final AtomicReference<Exception> failure = new AtomicReference<>();
        private final Meter meter;

        Answers(Meter meter) {
            this.meter = meter;
        }

        void take(int places) throws Exception {
            if (!open.tryAcquire(places, STUCK_MS, TimeUnit.MILLISECONDS)) {
                throw new IllegalStateException("a send was not answered for " + STUCK_MS + " ms");
            }
            if (failure.get() != null) {
                throw failure.get();
            }
        }

        @Override
        public void onCompletion(Message message) {
            meter.count(1);
            open.release();
        }

        @Override
        public void onException(Message message, Exception exception) {
            failure.compareAndSet(null, exception);
            open.release();
        }
    }

    /** Durable sends that the broker answers, at most 1 000 of them open. */
    static void put(Bench bench) throws Exception {
        int threads = bench.option("threads");
        int each = bench.option("count") / threads;
        byte[] body = new byte[bench.option("size")];
        List<Callable<Void>> tasks = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            Session session = bench.connect("confirmationWindowSize=1048576").createSession();
            MessageProducer producer = session.createProducer(session.createQueue(QUEUE));
            tasks.add(() -> {
                Answers answers = new Answers(bench.meter);
                for (int sent = 0; sent < each; sent++) {
                    answers.take(1);
                    producer.send(Flows.bytes(session, body), answers);
                }
                answers.take(OPEN);
                return null;
            });
        }
        bench.untilDone(tasks, bench.option("limit"));
    }

    static void drain(Bench bench) throws Exception {
        int count = bench.option("count");
        AtomicInteger received = new AtomicInteger();
        List<Callable<Void>> tasks = new ArrayList<>();
        for (int i = 0; i < bench.option("threads"); i++) {
            Session session = bench.session(false);
            MessageConsumer consumer = session.createConsumer(session.createQueue(QUEUE));
            tasks.add(() -> {
                long last = System.nanoTime();
                while (received.get() < count) {
                    if (consumer.receive(100) != null) {
                        received.incrementAndGet();
                        bench.meter.count(1);
                        last = System.nanoTime();
                    } else if (System.nanoTime() - last > STUCK_MS * 1_000_000) {
                        throw new IllegalStateException("nothing came for " + STUCK_MS + " ms after " + received + " messages");
                    }
                }
                session.close();
                return null;
            });
        }
        bench.untilDone(tasks, bench.option("limit"));
    }

    /** Connections with a session and a consumer on one queue each; held until the next line of input. */
    static void idle(Bench bench) throws Exception {
        int count = bench.option("count");
        AtomicInteger next = new AtomicInteger();
        List<Callable<Void>> tasks = new ArrayList<>();
        for (int i = 0; i < CONNECTORS; i++) {
            tasks.add(() -> {
                for (int number = next.getAndIncrement(); number < count; number = next.getAndIncrement()) {
                    Connection connection = bench.connect("");
                    Session session = connection.createSession();
                    session.createConsumer(session.createQueue("bench.idle." + number % 100));
                    bench.meter.count(1);
                }
                return null;
            });
        }
        bench.untilDone(tasks, bench.option("limit"));
        Program.hold(Map.of("connections", count));
    }

    /** Durable queues without messages; held until the next line of input, then deleted. */
    static void queues(Bench bench) throws Exception {
        ClientSession session = ((ActiveMQSession) bench.session(false)).getCoreSession();
        int count = bench.option("count");
        bench.untilDone(List.of(() -> {
            for (int i = 0; i < count; i++) {
                session.createQueue(QueueConfiguration.of("bench.queue." + i).setRoutingType(RoutingType.ANYCAST).setDurable(true));
                bench.meter.count(1);
            }
            return null;
        }), bench.option("limit"));
        Program.hold(Map.of("queues", count));
        for (int i = 0; i < count; i++) {
            session.deleteQueue("bench.queue." + i);
        }
    }
}
