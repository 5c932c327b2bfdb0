package bench;

import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.LongAdder;

/** Counts and times what happens between {@link #begin} and {@link #end}. */
final class Meter {
    private final LongAdder count = new LongAdder();
    private final Queue<Samples> parts = new ConcurrentLinkedQueue<>();
    private final ThreadLocal<Samples> mine = ThreadLocal.withInitial(() -> {
        Samples made = new Samples();
        parts.add(made);
        return made;
    });
    private volatile boolean on;
    private long begun;
    private double seconds;

    void begin() {
        begun = System.nanoTime();
        on = true;
    }

    void end() {
        on = false;
        seconds = (System.nanoTime() - begun) / 1e9;
    }

    void count(long messages) {
        if (on) {
            count.add(messages);
        }
    }

    void time(long nanos) {
        if (on) {
            mine.get().add(nanos);
        }
    }

    /** One message that took so long. */
    void done(long nanos) {
        count(1);
        time(nanos);
    }

    void reportInto(Map<String, Object> result) {
        result.put("messages", count.sum());
        result.put("seconds", seconds);
        long[] sorted = Samples.sorted(parts);
        if (sorted.length > 0) {
            result.put("p50_ms", Samples.percentileMs(sorted, 0.5));
            result.put("p99_ms", Samples.percentileMs(sorted, 0.99));
            result.put("p999_ms", Samples.percentileMs(sorted, 0.999));
        }
    }
}
