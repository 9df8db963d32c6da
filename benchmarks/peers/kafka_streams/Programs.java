package benchmarks;

import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** The benchmark's programs, each as a Kafka Streams topology. */
final class Programs {
    private static final double SMALLEST_AMOUNT = 100.0;

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

    private static KStream<String, Payment> payments(StreamsBuilder builder, Arguments arguments) {
        Serde<Payment> serde = JsonSerde.of(Payment.class);
        return builder.stream(arguments.input(), Consumed.with(Serdes.String(), serde));
    }

    private static Serde<ConvertedPayment> converted() {
        return JsonSerde.of(ConvertedPayment.class);
    }
}
