package differential;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.errors.StreamsException;
import org.apache.kafka.streams.processor.internals.NoOpProcessorWrapper;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.test.TestRecord;

/** Answers each line of standard input, a topology with its inputs, with what Kafka Streams writes. */
public final class Main {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Main() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        int count = 0;
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            // A run that fails may leave its stores open: each has a directory of its own.
            Path directory = Path.of(arguments[0], String.valueOf(count++));
            try {
                run(JSON.readTree(line), directory, answer);
            } catch (Exception problem) {
                answer.removeAll();
                Throwable cause = problem;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                answer.put("error", cause.getClass().getSimpleName() + ": " + cause.getMessage());
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    private static void run(JsonNode question, Path directory, ObjectNode answer) {
        Properties settings = settings(question, directory);
        Steps steps = new Steps(new TopologyConfig(new StreamsConfig(settings)));
        Topology topology = steps.build(question.get("steps"));
        ArrayNode outputs = answer.putArray("outputs");
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, settings, Instant.ofEpochSecond(1))) {
            List<TestOutputTopic<String, String>> sinks = new ArrayList<>();
            for (JsonNode step : question.get("steps")) {
                if ("to".equals(step.get("op").asText())) {
                    sinks.add(driver.createOutputTopic(
                        step.get("topic").asText(), new StringDeserializer(), new StringDeserializer()));
                }
            }
            for (JsonNode input : question.get("inputs")) {
                TestInputTopic<String, String> topic = driver.createInputTopic(
                    input.get(0).asText(), new StringSerializer(), new StringSerializer());
                try {
                    topic.pipeInput(new TestRecord<>(
                        input.get(1).textValue(), input.get(2).textValue(), headers(input.get(4)),
                        input.get(3).asLong()));
                } catch (StreamsException problem) {
                    if (!isFull(problem)) {
                        throw problem;
                    }
                    return;
                }
                ArrayNode written = outputs.addArray();
                for (int i = 0; i < sinks.size(); i++) {
                    for (TestRecord<String, String> record : sinks.get(i).readRecordsToList()) {
                        ArrayNode row = written.addArray();
                        row.add(i).add(record.key()).add(record.value()).add(record.timestamp());
                        told(record.headers(), row.addArray());
                    }
                }
            }
            answer.put("whole", true);
            Contents contents = new Contents(driver, question.get("asked"));
            ObjectNode stores = answer.putObject("stores");
            for (String name : steps.stores()) {
                contents.of(name, stores.putObject(name));
            }
        }
    }

    /** Tells whether a suppression buffer stopped the application. */
    private static boolean isFull(Throwable problem) {
        return problem != null
            && (String.valueOf(problem.getMessage()).contains("buffer exceeded its max capacity")
                || isFull(problem.getCause()));
    }

    private static Headers headers(JsonNode named) {
        Headers headers = new RecordHeaders();
        for (JsonNode header : named) {
            String value = header.get(1).textValue();
            headers.add(header.get(0).asText(), value == null ? null : value.getBytes(StandardCharsets.UTF_8));
        }
        return headers;
    }

    private static void told(Headers headers, ArrayNode named) {
        for (Header header : headers) {
            byte[] value = header.value();
            named.addArray().add(header.key()).add(value == null ? null : new String(value, StandardCharsets.UTF_8));
        }
    }

    private static Properties settings(JsonNode question, Path directory) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "differential");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
        settings.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        settings.put(StreamsConfig.PROCESSOR_WRAPPER_CLASS_CONFIG,
            question.path("counted").asBoolean() ? Counted.class : NoOpProcessorWrapper.class);
        settings.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG,
            question.path("on_disk").asBoolean()
                ? BuiltInDslStoreSuppliers.RocksDBDslStoreSuppliers.class
                : BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        return settings;
    }
}
