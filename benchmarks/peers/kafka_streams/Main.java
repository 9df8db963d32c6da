package benchmarks;

import com.sun.net.httpserver.HttpServer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.processor.StateRestoreListener;

/** Kafka Streams as a peer of the benchmarks: runs one program until standard input says stop. */
public final class Main {
    private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(60);
    private static final long CACHE_BYTES = 10L * 1024 * 1024;

    private Main() {
    }

    public static void main(String[] words) throws Exception {
        Events.emit("main");
        Arguments arguments = Arguments.parse(words);
        KafkaStreams streams = start(arguments);
        HttpServer server =
            arguments.port() == 0 ? null : Answers.serve(streams, arguments.port());
        BufferedReader control =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String command = control.readLine();
        while (command != null && !command.equals("stop")) {
            if (command.equals("restart")) {
                Events.emit("restart");
                streams.close(CLOSE_TIMEOUT);
                Events.emit("closed");
                streams = start(arguments);
            } else if (command.startsWith("gets ")) {
                Gets.measure(streams, Integer.parseInt(command.substring(5).trim()));
            }
            command = control.readLine();
        }
        if (server != null) {
            server.stop(0);
        }
        streams.close(CLOSE_TIMEOUT);
        Events.emit("closed");
    }

    private static KafkaStreams start(Arguments arguments) {
        Properties properties = properties(arguments);
        StreamsBuilder builder = new StreamsBuilder(
            new TopologyConfig(new StreamsConfig(properties)));
        Programs.build(builder, arguments);
        Topology topology = builder.build(properties);
        KafkaStreams streams = new KafkaStreams(topology, properties);
        Events.emit("session");
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                Events.emit("running");
            } else if (now == KafkaStreams.State.ERROR) {
                Events.emit("error");
            }
        });
        streams.setGlobalStateRestoreListener(new RestoreEvents());
        streams.start();
        return streams;
    }

    private static Properties properties(Arguments arguments) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments.applicationId());
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments.bootstrap());
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
            arguments.guarantee().equals("eos")
                ? StreamsConfig.EXACTLY_ONCE_V2
                : StreamsConfig.AT_LEAST_ONCE);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, arguments.commitMs());
        properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, arguments.threads());
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, CACHE_BYTES);
        properties.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.OPTIMIZE);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments.stateDir());
        properties.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        // A static member gets its partitions back at once when it comes again; any other one
        // waits until the group has given it up.
        properties.put(StreamsConfig.mainConsumerPrefix("group.instance.id"),
            "bench" + (arguments.port() == 0 ? "" : arguments.port()));
        if (arguments.port() != 0) {
            properties.put(StreamsConfig.APPLICATION_SERVER_CONFIG,
                "127.0.0.1:" + arguments.port());
        }
        if (arguments.tuned()) {
            Tuning.apply(properties);
        }
        return properties;
    }

    /** Tells the harness when a restore began, what it read, and when it ended. */
    private static final class RestoreEvents implements StateRestoreListener {
        private final AtomicLong restored = new AtomicLong();

        @Override
        public void onRestoreStart(TopicPartition partition, String store, long from, long to) {
            Events.emit("restore_start", "\"partition\": " + partition.partition());
        }

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long end, long count) {
            restored.addAndGet(count);
        }

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long total) {
            Events.emit("restore_end",
                "\"partition\": " + partition.partition() + ", \"records\": " + restored.get());
        }
    }
}
