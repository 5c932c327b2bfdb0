package bench;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.Session;

/** What one run of a workload works with: its options, connections that are closed after it, the meter and the clock of the run. */
final class Bench implements AutoCloseable {
    static final long FINISH_SECONDS = 60;
    private static final long IDLE_MS = 500;

    final Meter meter = new Meter();
    final Map<String, Object> result = new LinkedHashMap<>();
    private final String url;
    private final Map<String, String> options;
    private final List<AutoCloseable> opened = new ArrayList<>();
    private volatile boolean stopping;

    Bench(String url, Map<String, String> options) {
        this.url = url;
        this.options = options;
    }

    int option(String name) {
        return Integer.parseInt(text(name));
    }

    private String text(String name) {
        String value = options.get(name);
        if (value == null) {
            throw new IllegalArgumentException("the option " + name + " is missing");
        }
        return value;
    }

    /** Tasks with a time limit end when this is true. */
    boolean stopping() {
        return stopping;
    }

    Connection connect(String parameters) throws JMSException {
        return connect(url, parameters);
    }

    private Connection connect(String where, String parameters) throws JMSException {
        ConnectionFactory factory = Factories.of(where, parameters);
        String user = options.getOrDefault("user", Program.USER);
        Connection connection = factory.createConnection(user, options.getOrDefault("password", Program.PASSWORD));
        synchronized (opened) {
            if (factory instanceof AutoCloseable closeable) {
                opened.add(closeable);
            }
            opened.add(connection);
        }
        connection.start();
        return connection;
    }

    /** At the broker whose URL is this option. */
    Session sessionAt(String name) throws JMSException {
        return connect(text(name), "useTopologyForLoadBalancing=false").createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    Session session(boolean transacted) throws JMSException {
        return connect("").createSession(transacted, transacted ? Session.SESSION_TRANSACTED : Session.AUTO_ACKNOWLEDGE);
    }

    /** Runs the tasks at once: `warm` seconds without, then `seconds` with measurement, then they are told to stop. */
    void during(List<Callable<Void>> tasks) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(tasks.size());
        try {
            List<Future<Void>> running = tasks.stream().map(threads::submit).toList();
            pause(option("warm"), running);
            Program.event("measuring");
            meter.begin();
            pause(option("seconds"), running);
            meter.end();
            Program.event("measured");
            stopping = true;
            for (Future<Void> each : running) {
                each.get(FINISH_SECONDS, TimeUnit.SECONDS);
            }
        } finally {
            stopping = true;
            threads.shutdownNow();
        }
        meter.reportInto(result);
    }

    /** Waits, but not when a task has failed. */
    private static void pause(int seconds, List<Future<Void>> running) throws Exception {
        for (long end = System.nanoTime() + seconds * 1_000_000_000L; System.nanoTime() < end; Thread.sleep(20)) {
            for (Future<Void> each : running) {
                if (each.isDone()) {
                    each.get();
                    throw new CancellationException("a task ended before its time");
                }
            }
        }
    }

    /** Runs tasks that end by themselves, with measurement from the first to the last. */
    void untilDone(List<Callable<Void>> tasks, long mostSeconds) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(tasks.size());
        try {
            Program.event("measuring");
            meter.begin();
            List<Future<Void>> running = tasks.stream().map(threads::submit).toList();
            long end = System.nanoTime() + mostSeconds * 1_000_000_000L;
            for (Future<Void> each : running) {
                each.get(Math.max(1, end - System.nanoTime()), TimeUnit.NANOSECONDS);
            }
            meter.end();
            Program.event("measured");
        } finally {
            stopping = true;
            threads.shutdownNow();
        }
        meter.reportInto(result);
    }

    /** Takes what is left in a queue. */
    void empty(String queue) throws JMSException {
        Session session = session(false);
        MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
        while (consumer.receive(IDLE_MS) != null) {
            // until nothing comes
        }
        session.close();
    }

    @Override
    public void close() {
        for (int i = opened.size() - 1; i >= 0; i--) {
            try {
                opened.get(i).close();
            } catch (Exception broken) {
                result.put("close_error", broken.toString());
            }
        }
    }
}
