package benchmarks;

import java.util.HashMap;
import java.util.Map;

/**
 * The command line that every peer of the benchmarks takes: pairs of {@code --name value}.
 *
 * <p>With a port, the program is one of several instances, and answers queries there.
 */
record Arguments(
    String program,
    String bootstrap,
    String applicationId,
    String input,
    String output,
    String guarantee,
    long commitMs,
    int threads,
    String stateDir,
    int port,
    boolean tuned) {

    static Arguments parse(String[] words) {
        Map<String, String> given = new HashMap<>();
        for (int i = 0; i + 1 < words.length; i += 2) {
            given.put(words[i].substring(2), words[i + 1]);
        }
        return new Arguments(
            required(given, "program"),
            required(given, "bootstrap"),
            required(given, "app-id"),
            required(given, "input"),
            required(given, "output"),
            required(given, "guarantee"),
            Long.parseLong(required(given, "commit-ms")),
            Integer.parseInt(required(given, "threads")),
            required(given, "state-dir"),
            Integer.parseInt(given.getOrDefault("port", "0")),
            Boolean.parseBoolean(given.getOrDefault("tuned", "false")));
    }

    private static String required(Map<String, String> given, String name) {
        String value = given.get(name);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return value;
    }
}
