package benchmarks;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.WindowStore;

/** The benchmark's programs, each as a Kafka Streams topology. */
final class Programs {
    private static final double SMALLEST_AMOUNT = 100.0;
    private static final int JOINED_BYTES = 64;
    private static final byte[] NOBODY = "nobody".getBytes(StandardCharsets.US_ASCII);

    private Programs() {
    }

    static void build(StreamsBuilder builder, Arguments arguments) {
        switch (arguments.program()) {
            case "passthrough" -> passthrough(builder, arguments);
            case "json" -> json(builder, arguments);
            case "advanced" -> advanced(builder, arguments);
            case "word_count" -> wordCount(builder, arguments);
            case "count" -> count(builder, arguments);
            case "latest" -> latest(builder, arguments);
            case "table_join" -> tableJoin(builder, arguments);
            case "global_join" -> globalJoin(builder, arguments);
            case "stream_join" -> streamJoin(builder, arguments);
            case "windows" -> windows(builder, arguments);
            case "rekeyed" -> rekeyed(builder, arguments);
            default -> throw new IllegalArgumentException("no program " + arguments.program());
        }
    }

    private static void passthrough(StreamsBuilder builder, Arguments arguments) {
        builder
            .stream(arguments.input(), Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
            .to(arguments.output(), Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
    }

    private static void json(StreamsBuilder builder, Arguments arguments) {
        payments(builder, arguments)
            .filter((key, payment) -> payment.amount >= SMALLEST_AMOUNT)
            .mapValues(ConvertedPayment::of)
            .to(arguments.output(), Produced.with(Serdes.String(), converted()));
    }

    /** map, flatMap, filter, a new key, and one of three topics for each record. */
    private static void advanced(StreamsBuilder builder, Arguments arguments) {
        String out = arguments.output();
        payments(builder, arguments)
            .map((key, payment) -> KeyValue.pair(key, ConvertedPayment.of(payment)))
            .flatMap((key, payment) -> List.of(
                KeyValue.pair(key, payment.withLeg(0)), KeyValue.pair(key, payment.withLeg(1))))
            .filter((key, payment) -> (payment.id + payment.leg) % 5 != 0)
            .selectKey((key, payment) -> payment.account_id)
            .to((key, payment, context) -> out + "-" + branch(payment.currency),
                Produced.with(Serdes.String(), converted()));
    }

    private static String branch(String currency) {
        return switch (currency) {
            case "EUR" -> "eur";
            case "USD" -> "usd";
            default -> "other";
        };
    }

    private static void wordCount(StreamsBuilder builder, Arguments arguments) {
        builder
            .stream(arguments.input(), Consumed.with(Serdes.ByteArray(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"))
            .toStream()
            .to(arguments.output(), Produced.with(Serdes.String(), Serdes.Long()));
    }

    private static void count(StreamsBuilder builder, Arguments arguments) {
        builder
            .stream(arguments.input(), Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
            .count(Materialized.as("counts"))
            .toStream()
            .to(arguments.output(), Produced.with(Serdes.String(), Serdes.Long()));
    }

    /** Keep the newest value of every key: the store that the restore workload fills. */
    private static void latest(StreamsBuilder builder, Arguments arguments) {
        builder
            .stream(arguments.input(), Consumed.with(Serdes.String(), Serdes.String()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .reduce((before, now) -> now, Materialized.as("latest"))
            .toStream()
            .to(arguments.output(), Produced.with(Serdes.String(), Serdes.String()));
    }

    /** Each record with the row of its customer. */
    private static void tableJoin(StreamsBuilder builder, Arguments arguments) {
        KTable<String, byte[]> rows = builder.table(
            arguments.input() + "-table",
            Consumed.with(Serdes.String(), Serdes.ByteArray()),
            Materialized.as("customers"));
        builder
            .stream(arguments.input(), Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .leftJoin(rows, Programs::withRow,
                Joined.with(Serdes.String(), Serdes.ByteArray(), Serdes.ByteArray()))
            .to(arguments.output(), Produced.with(Serdes.String(), Serdes.ByteArray()));
    }

    private static void globalJoin(StreamsBuilder builder, Arguments arguments) {
        GlobalKTable<String, byte[]> rows = builder.globalTable(
            arguments.input() + "-table",
            Consumed.with(Serdes.String(), Serdes.ByteArray()),
            Materialized.as("customers"));
        builder
            .stream(arguments.input(), Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .leftJoin(rows, (key, payment) -> key, Programs::withRow)
            .to(arguments.output(), Produced.with(Serdes.String(), Serdes.ByteArray()));
    }

    private static byte[] withRow(byte[] payment, byte[] row) {
        byte[] other = row == null ? NOBODY : row;
        byte[] joined = new byte[JOINED_BYTES + 1 + other.length];
        System.arraycopy(payment, 0, joined, 0, JOINED_BYTES);
        joined[JOINED_BYTES] = '|';
        System.arraycopy(other, 0, joined, JOINED_BYTES + 1, other.length);
        return joined;
    }

    /** Orders with their payments. */
    private static void streamJoin(StreamsBuilder builder, Arguments arguments) {
        Consumed<String, byte[]> consumed = Consumed.with(Serdes.String(), Serdes.ByteArray());
        KStream<String, byte[]> payments =
            builder.stream(arguments.input() + "-payments", consumed);
        builder
            .stream(arguments.input(), consumed)
            .join(payments, Programs::together,
                JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(5), Duration.ofSeconds(10)),
                StreamJoined.with(Serdes.String(), Serdes.ByteArray(), Serdes.ByteArray()))
            .to(arguments.output(), Produced.with(Serdes.String(), Serdes.ByteArray()));
    }

    private static byte[] together(byte[] order, byte[] payment) {
        byte[] joined = new byte[order.length + 1 + payment.length];
        System.arraycopy(order, 0, joined, 0, order.length);
        joined[order.length] = '+';
        System.arraycopy(payment, 0, joined, order.length + 1, payment.length);
        return joined;
    }

    /** One row for each key and window, when the window is over. */
    private static void windows(StreamsBuilder builder, Arguments arguments) {
        builder
            .stream(arguments.input(), Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(5)))
            .aggregate(Summary::new, (key, value, summary) -> summary.add(value),
                Materialized.<String, Summary, WindowStore<Bytes, byte[]>>as("summaries")
                    .withKeySerde(Serdes.String())
                    .withValueSerde(Summary.serde()))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
            .toStream()
            .map((window, summary) -> KeyValue.pair(
                window.key() + "@" + window.window().start(), summary.toString()))
            .to(arguments.output(), Produced.with(Serdes.String(), Serdes.String()));
    }

    /** Count by one key, then keep the newest count by another: two re-keyings. */
    private static void rekeyed(StreamsBuilder builder, Arguments arguments) {
        builder
            .stream(arguments.input(), Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .groupBy((key, value) -> "a" + key, Grouped.with(Serdes.String(), Serdes.ByteArray()))
            .count(Materialized.as("first"))
            .toStream()
            .groupBy((key, count) -> key.substring(1),
                Grouped.with(Serdes.String(), Serdes.Long()))
            .reduce((before, now) -> now, Materialized.as("second"))
            .toStream()
            .to(arguments.output(), Produced.with(Serdes.String(), Serdes.Long()));
    }

    private static KStream<String, Payment> payments(StreamsBuilder builder, Arguments arguments) {
        Serde<Payment> serde = JsonSerde.of(Payment.class);
        return builder.stream(arguments.input(), Consumed.with(Serdes.String(), serde));
    }

    private static Serde<ConvertedPayment> converted() {
        return JsonSerde.of(ConvertedPayment.class);
    }
}
