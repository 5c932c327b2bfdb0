package bench;

import java.util.Arrays;
import java.util.Collection;

/** Times in ns that one thread has measured; at most {@link #MOST}, later ones are only counted by the meter. */
final class Samples {
    private static final int MOST = 4_000_000;
    private long[] values = new long[4096];
    private int size;

    void add(long nanos) {
        if (size == MOST) {
            return;
        }
        if (size == values.length) {
            values = Arrays.copyOf(values, Math.min(MOST, size * 2));
        }
        values[size++] = nanos;
    }

    /** All times of several threads, ascending. */
    static long[] sorted(Collection<Samples> parts) {
        long[] all = parts.stream().flatMapToLong(part -> Arrays.stream(part.values, 0, part.size)).toArray();
        Arrays.sort(all);
        return all;
    }

    /** The time in ms below or at which `share` (0 to 1) of the times lie. */
    static double percentileMs(long[] sorted, double share) {
        return sorted[Math.min(sorted.length - 1, (int) (share * sorted.length))] / 1e6;
    }
}
