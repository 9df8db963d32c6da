package benchmarks;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.Stores;

/**
 * An application with a store of each kind that Mustela takes over.
 *
 * <p>Runs until standard input says stop. Words: bootstrap servers, application id, state
 * directory, guarantee, prefix of all topics.
 */
public final class Takeover {
    private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(60);
    private static final Serde<String> TEXT = Serdes.String();

    private Takeover() {
    }

    public static void main(String[] words) throws Exception {
        String prefix = words[4];
        StreamsBuilder builder = new StreamsBuilder();
        build(builder, prefix);
        Properties properties = new Properties();
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, words[0]);
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, words[1]);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, words[2]);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, words[3]);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 50);
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        properties.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        properties.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 5000);
        properties.put(StreamsConfig.mainConsumerPrefix("session.timeout.ms"), 6000);
        properties.put(StreamsConfig.mainConsumerPrefix("heartbeat.interval.ms"), 1000);
        properties.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        properties.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, 2000);
        KafkaStreams streams = new KafkaStreams(builder.build(properties), properties);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                Events.emit("running");
            } else if (now == KafkaStreams.State.ERROR) {
                Events.emit("error");
            }
        });
        streams.start();
        BufferedReader control =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String command = control.readLine();
        while (command != null && !command.equals("stop")) {
            command = control.readLine();
        }
        streams.close(CLOSE_TIMEOUT);
        Events.emit("closed");
    }

    private static void build(StreamsBuilder builder, String prefix) {
        Consumed<String, String> consumed = Consumed.with(TEXT, TEXT);
        Produced<String, Long> numbers = Produced.with(TEXT, Serdes.Long());
        Produced<String, String> texts = Produced.with(TEXT, TEXT);
        KStream<String, String> visits = builder.stream(prefix + "visits", consumed);
        KGroupedStream<String, String> grouped = visits.groupByKey(Grouped.with(TEXT, TEXT));

        grouped.count(Materialized.as("counts")).toStream().to(prefix + "counts", numbers);

        KTable<Windowed<String>, Long> minutes = grouped
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofSeconds(30)))
            .count(Materialized.as("minutes"));
        minutes.suppress(
                Suppressed.untilWindowCloses(BufferConfig.unbounded()).withName("final"))
            .toStream((key, count) -> key.key() + "@" + key.window().start())
            .to(prefix + "final", numbers);

        grouped
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(
                Duration.ofSeconds(20), Duration.ofSeconds(30)))
            .count(Materialized.as("sessions"))
            .toStream((key, count) ->
                key.key() + "@" + key.window().start() + "-" + key.window().end())
            .to(prefix + "sessions", numbers);

        KTable<String, String> prices = builder.table(prefix + "prices", consumed,
            Materialized.<String, String>as(
                    Stores.persistentVersionedKeyValueStore("prices", Duration.ofHours(1)))
                .withKeySerde(TEXT).withValueSerde(TEXT));
        visits.leftJoin(prices, (visit, price) -> visit + ":" + price,
            Joined.with(TEXT, TEXT, TEXT)).to(prefix + "priced", texts);

        KStream<String, String> payments = builder.stream(prefix + "payments", consumed);
        visits.join(payments, (visit, payment) -> visit + "+" + payment,
            JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofHours(1)),
            StreamJoined.with(TEXT, TEXT, TEXT).withName("paid").withStoreName("paid"))
            .to(prefix + "paid", texts);
        visits.outerJoin(payments, (visit, payment) -> visit + "|" + payment,
            JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(600), Duration.ofHours(1)),
            StreamJoined.with(TEXT, TEXT, TEXT).withName("alone").withStoreName("alone"))
            .to(prefix + "alone", texts);

        grouped
            .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(
                Duration.ofSeconds(15), Duration.ofSeconds(30)))
            .count(Materialized.as("sliding"))
            .toStream((key, count) -> key.key() + "@" + key.window().start())
            .to(prefix + "sliding", numbers);
    }
}
