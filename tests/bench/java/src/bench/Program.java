package bench;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Map.Entry;
import java.util.stream.Collectors;

/**
 * Runs workloads, one after the other, in one virtual machine, so that it is as warm for one broker as for the other.
 *
 * <p>Each line of standard input is {@code URL WORKLOAD NAME=NUMBER...}. The answers are lines of JSON: {@code {"event": "measuring"}} and
 * {@code {"event": "measured"}} around the measured time, {@code {"event": "holding"}} while something is held until the next line of
 * input, and at the end of each workload one line with {@code "result"} or {@code "error"}.
 */
public final class Program {
    static final String USER = "admin";
    static final String PASSWORD = "secret";
    private static final PrintStream OUT = System.out;
    private static final BufferedReader IN = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private static final Map<String, Workload> WORKLOADS = Map.ofEntries(
            entry("blocking", Flows::blocking),
            entry("transacted", Flows::transacted),
            entry("large", Flows::large),
            entry("selectors", Flows::selectors),
            entry("request-reply", Flows::requestReply),
            entry("forward", Flows::forward),
            entry("forward-waiting", Flows::forwardWaiting),
            entry("follow", Following::follow),
            entry("put", Amounts::put),
            entry("drain", Amounts::drain),
            entry("idle", Amounts::idle),
            entry("queues", Amounts::queues));

    private Program() {
    }

    private static Entry<String, Workload> entry(String name, Workload workload) {
        return Map.entry(name, workload);
    }

    public static void main(String[] arguments) throws Exception {
        for (String line = IN.readLine(); line != null; line = IN.readLine()) {
            String[] words = line.split(" ");
            perform(words[0], words[1], Arrays.copyOfRange(words, 2, words.length));
        }
        Runtime.getRuntime().halt(0);  // client threads of a failed workload must not hold the process
    }

    private static void perform(String url, String name, String[] words) {
        Map<String, String> options = new HashMap<>();
        for (String word : words) {
            options.put(word.substring(0, word.indexOf('=')), word.substring(word.indexOf('=') + 1));
        }
        Bench bench = new Bench(url, options);
        Map<String, Object> line = new LinkedHashMap<>();
        try (bench) {
            WORKLOADS.get(name).run(bench);
            line.put("result", bench.result);
        } catch (Exception failed) {
            Throwable cause = failed.getCause() == null ? failed : failed.getCause();
            line.put("error", cause + " at " + Arrays.stream(cause.getStackTrace()).limit(6).map(Object::toString).toList());
        }
        OUT.println(json(line));
        OUT.flush();
    }

    static void event(String name) {
        OUT.println(json(Map.of("event", name)));
        OUT.flush();
    }

    /** Says that something is held, with figures about it, and waits for the harness to go on. */
    static void hold(Map<String, Object> figures) throws Exception {
        Map<String, Object> line = new LinkedHashMap<>(figures);
        line.put("event", "holding");
        OUT.println(json(line));
        OUT.flush();
        IN.readLine();
    }

    private static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream().map(Program::member).collect(Collectors.joining(", ", "{", "}"));
        }
        if (value instanceof Number) {
            return value.toString();
        }
        return '"' + value.toString().replaceAll("[\\\\\"\\p{Cntrl}]", "'") + '"';
    }

    private static String member(Entry<?, ?> entry) {
        return json(entry.getKey()) + ": " + json(entry.getValue());
    }
}
