package bench;

import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;

/** Senders that wait for each answer, and a receiver, while something happens to the brokers. */
final class Following {
    private static final String SENT = "sent";
    private static final long RECEIVE_MS = 100;

    private Following() {
    }

    /** The greatest of some times in ns. */
    private static final class Longest {
        private final AtomicLong nanos = new AtomicLong();

        void add(long time) {
            nanos.accumulateAndGet(time, Math::max);
        }

        void forget() {
            nanos.set(0);
        }

        double ms() {
            return nanos.get() / 1e6;
        }
    }

    /**
     * Holds until the next line of input, then until a message has come that was sent after it. The results are the longest times between
     * two messages that came, and of a send. Each call has a queue of its own, because senders may leave more than is received.
     */
    static void follow(Bench bench) throws Exception {
        byte[] body = new byte[bench.option("size")];
        Session in = bench.session(false);
        String queue = "bench.follow." + System.nanoTime();
        MessageConsumer consumer = in.createConsumer(in.createQueue(queue));
        Longest gap = new Longest();
        Longest send = new Longest();
        AtomicLong released = new AtomicLong(Long.MAX_VALUE);
        AtomicLong received = new AtomicLong();
        ExecutorService threads = Executors.newCachedThreadPool();
        try {
            Future<?> receiving = threads.submit(() -> {
                long last = System.nanoTime();
                while (true) {
                    Message message = next(consumer);
                    if (message != null) {
                        long now = System.nanoTime();
                        gap.add(now - last);
                        last = now;
                        received.incrementAndGet();
                        if (message.getLongProperty(SENT) - released.get() > 0) {
                            return null;
                        }
                    }
                }
            });
            for (int i = 0; i < bench.option("senders"); i++) {
                Session out = bench.session(false);
                threads.submit(() -> {
                    send(out, queue, body, send);
                    return null;
                });
            }
            TimeUnit.SECONDS.sleep(bench.option("warm"));
            gap.forget();
            send.forget();
            Program.hold(Map.of());
            released.set(System.nanoTime());
            receiving.get(bench.option("limit"), TimeUnit.SECONDS);
        } finally {
            threads.shutdownNow();
        }
        bench.result.put("gap_ms", gap.ms());
        bench.result.put("send_ms", send.ms());
        bench.result.put("received", received.get());
    }

    /** The next message; null when none came, or when an acknowledgement was lost with the broker, so that the message comes again. */
    private static Message next(MessageConsumer consumer) throws InterruptedException {
        try {
            return consumer.receive(RECEIVE_MS);
        } catch (JMSException lost) {
            Thread.sleep(1);
            return null;
        }
    }

    private static void send(Session session, String queue, byte[] body, Longest longest) throws Exception {
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        while (!Thread.currentThread().isInterrupted()) {
            long begin = System.nanoTime();
            try {
                Message message = Flows.bytes(session, body);
                message.setLongProperty(SENT, begin);
                producer.send(message);
                longest.add(System.nanoTime() - begin);
            } catch (JMSException lost) {
                Thread.sleep(1);  // nobody knows what became of it
            }
        }
    }
}
