package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Runs scenarios against one broker and prints one JSON line for each.
 *
 * <p>Usage: {@code Driver URL PROXY_URL all|SCENARIO...}. {@code Driver list} prints the names. A scenario asks the harness for help
 * (cutting connections, for example) with a line {@code {"ask": ...}} and waits for one line on standard input.
 * The exit status is 1 when a scenario failed.
 */
public final class Driver {
    private static final int SCENARIO_SECONDS = 60;
    private static final PrintStream OUT = System.out;
    private static final BufferedReader IN = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private Driver() {
    }

    static Map<String, Scenario> catalogue() {
        Map<String, Scenario> all = new LinkedHashMap<>();
        MessageScenarios.addTo(all);
        QueueScenarios.addTo(all);
        TopicScenarios.addTo(all);
        AcknowledgeScenarios.addTo(all);
        TransactionScenarios.addTo(all);
        DeliveryScenarios.addTo(all);
        LargeScenarios.addTo(all);
        FlowScenarios.addTo(all);
        ConnectionScenarios.addTo(all);
        XaScenarios.addTo(all);
        ReconnectScenarios.addTo(all);
        return all;
    }

    static synchronized String ask(String question) throws Exception {
        print(Map.of("ask", question));
        String answer = IN.readLine();
        if (answer == null) {
            throw new Mismatch("the harness did not answer " + question);
        }
        return answer;
    }

    static void print(Map<String, ?> line) {
        OUT.println(Json.write(line));
        OUT.flush();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Scenario> all = catalogue();
        if (arguments[0].equals("list")) {
            all.keySet().forEach(OUT::println);
            return;
        }
        List<String> names = new ArrayList<>(List.of(arguments).subList(2, arguments.length));
        if (names.equals(List.of("all"))) {
            names = new ArrayList<>(all.keySet());
            names.removeIf(name -> name.startsWith("exchange-"));
        }
        ExecutorService thread = Executors.newCachedThreadPool(task -> {
            Thread made = new Thread(task);
            made.setDaemon(true);
            return made;
        });
        boolean good = true;
        for (String name : names) {
            good &= perform(thread, name, all.get(name), new Context(name, arguments[0], arguments[1]));
        }
        OUT.flush();
        Runtime.getRuntime().halt(good ? 0 : 1);  // client threads of a failed scenario must not hold the process
    }

    private static boolean perform(ExecutorService thread, String name, Scenario scenario, Context context) throws Exception {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("scenario", name);
        long begin = System.nanoTime();
        Future<?> running = thread.submit(() -> {
            try (context) {
                scenario.run(context);
            }
            return null;
        });
        try {
            running.get(SCENARIO_SECONDS, TimeUnit.SECONDS);
            line.put("ok", true);
        } catch (TimeoutException slow) {
            line.put("ok", false);
            line.put("error", "not finished after " + SCENARIO_SECONDS + " s, at:\n" + context.whereabouts());
        } catch (Exception failed) {
            line.put("ok", false);
            line.put("error", trace(failed.getCause() == null ? failed : failed.getCause()));
        }
        line.put("ms", (System.nanoTime() - begin) / 1_000_000);
        line.putAll(context.results());
        print(line);
        return Boolean.TRUE.equals(line.get("ok"));
    }

    static String trace(Throwable thrown) {
        StringWriter text = new StringWriter();
        thrown.printStackTrace(new PrintWriter(text));
        String full = text.toString();
        return full.length() > 4000 ? full.substring(0, 4000) : full;
    }
}
