package benchmarks;

import java.util.Locale;

/** What the benchmark harness hears from this process: one JSON object a line on standard output. */
final class Events {
    private Events() {
    }

    /** Say that something happened now. */
    static void emit(String event) {
        emit(event, "");
    }

    /** Say that something happened now, with more fields: {@code "\"name\": value"}, comma separated. */
    static synchronized void emit(String event, String fields) {
        double now = System.currentTimeMillis() / 1000.0;
        String more = fields.isEmpty() ? "" : ", " + fields;
        System.out.println(
            String.format(Locale.ROOT, "{\"event\": \"%s\", \"time\": %.3f%s}", event, now, more));
        System.out.flush();
    }
}
