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
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** The benchmark's programs, each as a Kafka Streams topology. */
final class Programs {
    private static final double SMALLEST_AMOUNT = 100.0;
    private static final int JOINED_BYTES = 64;
    private static final int CUSTOMER_BYTES = 17;
    private static final byte[] NOBODY = "nobody".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] NOTHING = "-".getBytes(StandardCharsets.US_ASCII);
    private static final Duration GRACE = Duration.ofSeconds(5);
    private static final TimeWindows TUMBLING =
        TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), GRACE);
    private static final JoinWindows PAYMENT_WINDOWS =
        JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(5), Duration.ofSeconds(10));

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
            case "orders" -> orders(builder, arguments);
            case "table_join" -> tableJoin(builder, arguments);
            case "global_join" -> globalJoin(builder, arguments);
            case "foreign_key_join" -> foreignKeyJoin(builder, arguments);
            case "stream_join" -> streamJoin(builder, arguments);
            case "stream_left_join" -> streamLeftJoin(builder, arguments);
            case "stream_outer_join" -> streamOuterJoin(builder, arguments);
            case "windows" -> windows(builder, arguments, TUMBLING);
            case "hopping" -> windows(builder, arguments, TUMBLING.advanceBy(Duration.ofSeconds(2)));
            case "sessions" -> sessions(builder, arguments);
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

    /** The table that is asked. */
    private static void orders(StreamsBuilder builder, Arguments arguments) {
        builder.table(
            arguments.input(),
            Consumed.with(Serdes.String(), JsonSerde.of(Order.class)),
            Materialized.as("orders"));
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

    /** Each order with the row of the customer whom it names. */
    private static void foreignKeyJoin(StreamsBuilder builder, Arguments arguments) {
        Consumed<String, byte[]> consumed = Consumed.with(Serdes.String(), Serdes.ByteArray());
        KTable<String, byte[]> customers = builder.table(
            arguments.input() + "-customers", consumed, Materialized.as("customers"));
        KTable<String, byte[]> orders =
            builder.table(arguments.input(), consumed, Materialized.as("orders"));
        orders
            .join(customers, Programs::customerOf, (order, row) -> joined(order, '|', row))
            .toStream()
            .to(arguments.output(), Produced.with(Serdes.String(), Serdes.ByteArray()));
    }

    private static String customerOf(byte[] order) {
        return new String(order, 0, CUSTOMER_BYTES, StandardCharsets.US_ASCII);
    }

    /** Orders with their payments. */
    private static void streamJoin(StreamsBuilder builder, Arguments arguments) {
        stream(builder, arguments.input())
            .join(paid(builder, arguments), Programs::together, PAYMENT_WINDOWS, sides())
            .to(arguments.output(), Produced.with(Serdes.String(), Serdes.ByteArray()));
    }

    private static void streamLeftJoin(StreamsBuilder builder, Arguments arguments) {
        stream(builder, arguments.input())
            .leftJoin(paid(builder, arguments), Programs::together, PAYMENT_WINDOWS, sides())
            .to(arguments.output(), Produced.with(Serdes.String(), Serdes.ByteArray()));
    }

    private static void streamOuterJoin(StreamsBuilder builder, Arguments arguments) {
        stream(builder, arguments.input())
            .outerJoin(paid(builder, arguments), Programs::together, PAYMENT_WINDOWS, sides())
            .to(arguments.output(), Produced.with(Serdes.String(), Serdes.ByteArray()));
    }

    private static KStream<String, byte[]> stream(StreamsBuilder builder, String topic) {
        return builder.stream(topic, Consumed.with(Serdes.String(), Serdes.ByteArray()));
    }

    private static KStream<String, byte[]> paid(StreamsBuilder builder, Arguments arguments) {
        return stream(builder, arguments.input() + "-payments");
    }

    private static StreamJoined<String, byte[], byte[]> sides() {
        return StreamJoined.with(Serdes.String(), Serdes.ByteArray(), Serdes.ByteArray());
    }

    private static byte[] together(byte[] order, byte[] payment) {
        return joined(order == null ? NOTHING : order, '+', payment == null ? NOTHING : payment);
    }

    private static byte[] joined(byte[] left, char between, byte[] right) {
        byte[] joined = new byte[left.length + 1 + right.length];
        System.arraycopy(left, 0, joined, 0, left.length);
        joined[left.length] = (byte) between;
        System.arraycopy(right, 0, joined, left.length + 1, right.length);
        return joined;
    }

    /** One row for each key and window, when the window is over. */
    private static void windows(
            StreamsBuilder builder, Arguments arguments, TimeWindows windows) {
        builder
            .stream(arguments.input(), Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
            .windowedBy(windows)
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

    /** One row for each session, when nothing can be added to it any more. */
    private static void sessions(StreamsBuilder builder, Arguments arguments) {
        builder
            .stream(arguments.input(), Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(5), GRACE))
            .aggregate(Summary::new, (key, value, summary) -> summary.add(value),
                (key, summary, other) -> summary.merge(other),
                Materialized.<String, Summary, SessionStore<Bytes, byte[]>>as("summaries")
                    .withKeySerde(Serdes.String())
                    .withValueSerde(Summary.serde()))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
            .toStream()
            .map((session, summary) -> KeyValue.pair(name(session), summary.toString()))
            .to(arguments.output(), Produced.with(Serdes.String(), Serdes.String()));
    }

    private static String name(Windowed<String> session) {
        return session.key() + "@" + session.window().start() + "-" + session.window().end();
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
