package differential;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.state.Stores;

/** Builds a Kafka Streams topology from its description, step by step. */
@SuppressWarnings({"unchecked", "rawtypes"})
final class Steps {
    private static final Serde<String> TEXT = Serdes.String();
    private final StreamsBuilder builder;
    private final Map<String, Object> made = new HashMap<>();
    private final Map<String, Serde> keys = new HashMap<>();
    private final Set<String> stores = new LinkedHashSet<>();
    private String kept;

    Steps(TopologyConfig settings) {
        builder = new StreamsBuilder(settings);
    }

    Topology build(JsonNode steps) {
        for (JsonNode step : steps) {
            Object result = make(step);
            if (result != null) {
                made.put(step.get("id").asText(), result);
                keys.putIfAbsent(step.get("id").asText(), keyOf(step));
            }
        }
        return builder.build();
    }

    private Serde keyOf(JsonNode step) {
        return switch (step.get("op").asText()) {
            case "table_filter", "table_filter_not", "table_map_values", "table_map_values_with_key",
                "transform_values", "suppress_time", "suppress_window", "table_join" -> keys.get(input(step, 0));
            default -> TEXT;
        };
    }

    private String input(JsonNode step, int index) {
        return step.get("in").get(index).asText();
    }

    private KStream<Object, Object> stream(JsonNode step, int index) {
        return (KStream<Object, Object>) made.get(input(step, index));
    }

    private KTable<Object, Object> table(JsonNode step, int index) {
        return (KTable<Object, Object>) made.get(input(step, index));
    }

    private Object make(JsonNode step) {
        String op = step.get("op").asText();
        String f = step.path("f").asText();
        return switch (op) {
            case "stream" -> builder.stream(step.get("topic").asText(), Consumed.with(TEXT, TEXT));
            case "table" -> sourceTable(step);
            case "global_table" -> globalTable(step);
            case "filter" -> stream(step, 0).filter((k, v) -> Functions.test(f, k, v));
            case "filter_not" -> stream(step, 0).filterNot((k, v) -> Functions.test(f, k, v));
            case "map_values" -> stream(step, 0).mapValues(v -> Functions.mapValue(f, null, v));
            case "map_values_with_key" -> stream(step, 0).mapValues((k, v) -> Functions.mapValue(f, k, v));
            case "map" -> stream(step, 0).map((k, v) -> Functions.mapPair(f, k, v));
            case "flat_map" -> stream(step, 0).flatMap((k, v) -> Functions.flatPairs(f, k, v));
            case "flat_map_values" -> stream(step, 0).flatMapValues(v -> Functions.flatValues(f, v));
            case "select_key" -> stream(step, 0).selectKey((k, v) -> Functions.mapKey(f, k, v));
            case "merge" -> stream(step, 0).merge(stream(step, 1));
            case "repartition" -> stream(step, 0).repartition((Repartitioned) Repartitioned.with(TEXT, TEXT));
            case "split" -> split(step);
            case "process_values" -> stream(step, 0).processValues(Processors.fixed(f, kept(store(step))), kept);
            case "process" -> stream(step, 0).process(Processors.free(f, kept(store(step))), kept);
            case "to_table" -> stream(step, 0).toTable(stored(step, TEXT));
            case "to_stream" -> table(step, 0).toStream();
            case "to_stream_key" -> table(step, 0).toStream((k, v) -> Functions.mapKey(f, k, v));
            case "aggregate" -> aggregate(step);
            case "cogroup" -> cogroup(step);
            case "table_filter" -> tableFilter(step, f, false);
            case "table_filter_not" -> tableFilter(step, f, true);
            case "table_map_values" -> tableMap(step, f, false);
            case "table_map_values_with_key" -> tableMap(step, f, true);
            case "transform_values" -> transform(step, f);
            case "table_aggregate" -> tableAggregate(step, f);
            case "suppress_time" -> table(step, 0).suppress(untilTime(step));
            case "suppress_window" -> table(step, 0).suppress((Suppressed) Suppressed.untilWindowCloses(strict(step)));
            case "stream_join" -> streamJoin(step);
            case "stream_table_join" -> streamTableJoin(step);
            case "global_join" -> globalJoin(step, f);
            case "table_join" -> tableJoin(step);
            case "fk_join" -> foreignJoin(step, f);
            case "to" -> sink(step);
            default -> throw new IllegalArgumentException("no step " + op);
        };
    }

    private Object sink(JsonNode step) {
        stream(step, 0).to(step.get("topic").asText(), (Produced) Produced.with(TEXT, TEXT));
        return null;
    }

    private Object sourceTable(JsonNode step) {
        String topic = step.get("topic").asText();
        Consumed consumed = Consumed.with(TEXT, TEXT);
        if (step.hasNonNull("versioned")) {
            return builder.table(topic, consumed, versioned(step));
        }
        return step.path("store").asBoolean()
            ? builder.table(topic, consumed, stored(step, TEXT))
            : builder.table(topic, consumed);
    }

    private Object globalTable(JsonNode step) {
        String topic = step.get("topic").asText();
        Consumed consumed = Consumed.with(TEXT, TEXT);
        return step.path("store").asBoolean()
            ? builder.globalTable(topic, consumed, stored(step, TEXT))
            : builder.globalTable(topic, consumed);
    }

    private Materialized versioned(JsonNode step) {
        Duration history = Duration.ofMillis(step.get("versioned").asLong());
        return Materialized.as(Stores.persistentVersionedKeyValueStore(store(step), history))
            .withKeySerde((Serde) TEXT).withValueSerde((Serde) TEXT);
    }

    private String store(JsonNode step) {
        String name = "store-" + step.get("id").asText();
        stores.add(name);
        return name;
    }

    /** The names of all stores that have one. */
    Set<String> stores() {
        return stores;
    }

    /** Adds the store of a processor. */
    private String kept(String name) {
        kept = name;
        builder.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), TEXT, TEXT));
        return name;
    }

    private Materialized stored(JsonNode step, Serde key) {
        if (step.hasNonNull("versioned")) {
            return versioned(step);
        }
        Materialized options = step.path("store").asBoolean() ? Materialized.as(store(step)) : Materialized.with(null, null);
        return kept(step, options.withKeySerde(key).withValueSerde(TEXT));
    }

    private static Materialized kept(JsonNode step, Materialized options) {
        return step.hasNonNull("retention") ? options.withRetention(ms(step, "retention")) : options;
    }

    private Object split(JsonNode step) {
        BranchedKStream<Object, Object> split = stream(step, 0).split(Named.as("split" + step.get("id").asText() + "-"));
        int count = 0;
        for (JsonNode name : step.get("predicates")) {
            split = split.branch((k, v) -> Functions.test(name.asText(), k, v), Branched.as("" + count++));
        }
        Map<String, KStream<Object, Object>> parts = split.defaultBranch(Branched.as("rest"));
        return parts.get("split" + step.get("id").asText() + "-" + step.get("branch").asText());
    }

    private KGroupedStream<Object, Object> grouped(JsonNode step, int index) {
        Grouped options = Grouped.with(step.get("id").asText() + "-" + index, TEXT, TEXT);
        if (!step.hasNonNull("by")) {
            return stream(step, index).groupByKey(options);
        }
        String by = step.get("by").asText();
        return stream(step, index).groupBy((k, v) -> Functions.mapKey(by, k, v), options);
    }

    private static Duration ms(JsonNode node, String name) {
        return Duration.ofMillis(node.get(name).asLong());
    }

    private static SlidingWindows sliding(JsonNode w) {
        return SlidingWindows.ofTimeDifferenceAndGrace(ms(w, "diff"), ms(w, "grace"));
    }

    private static SessionWindows session(JsonNode w) {
        return SessionWindows.ofInactivityGapAndGrace(ms(w, "gap"), ms(w, "grace"));
    }

    private static Windows timed(JsonNode w) {
        if ("unlimited".equals(w.get("type").asText())) {
            return UnlimitedWindows.of().startOn(java.time.Instant.ofEpochMilli(w.get("start").asLong()));
        }
        return TimeWindows.ofSizeAndGrace(ms(w, "size"), ms(w, "grace")).advanceBy(ms(w, "advance"));
    }

    private Object aggregate(JsonNode step) {
        KGroupedStream<Object, Object> grouped = grouped(step, 0);
        String kind = step.get("kind").asText();
        String f = step.path("f").asText();
        Aggregator<Object, Object, Object> adder = (k, v, total) -> Functions.add(f, k, v, total);
        Reducer<Object> reducer = (total, v) -> Functions.reduce(f, total, v);
        Initializer<Object> start = () -> "0";
        if (!step.hasNonNull("window")) {
            Materialized options = stored(step, TEXT);
            return switch (kind) {
                case "count" -> texts(grouped.count(counted(step)), TEXT);
                case "reduce" -> grouped.reduce(reducer, options);
                default -> grouped.aggregate(start, adder, options);
            };
        }
        JsonNode w = step.get("window");
        EmitStrategy emit = "close".equals(step.path("emit").asText())
            ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
        keys.put(step.get("id").asText(), windowSerde(w));
        if ("session".equals(w.get("type").asText())) {
            SessionWindowedKStream<Object, Object> windowed = grouped.windowedBy(session(w)).emitStrategy(emit);
            Merger<Object, Object> merger = (k, left, right) -> Functions.merge(left, right);
            return switch (kind) {
                case "count" -> texts(windowed.count(counted(step)), windowSerde(w));
                case "reduce" -> windowed.reduce(reducer, stored(step, TEXT));
                default -> windowed.aggregate(start, adder, merger, stored(step, TEXT));
            };
        }
        TimeWindowedKStream<Object, Object> windowed =
            ("sliding".equals(w.get("type").asText()) ? grouped.windowedBy(sliding(w)) : grouped.windowedBy(timed(w)))
                .emitStrategy(emit);
        return switch (kind) {
            case "count" -> texts(windowed.count(counted(step)), windowSerde(w));
            case "reduce" -> windowed.reduce(reducer, stored(step, TEXT));
            default -> windowed.aggregate(start, adder, stored(step, TEXT));
        };
    }

    private Materialized counted(JsonNode step) {
        Materialized options = step.path("store").asBoolean() ? Materialized.as(store(step)) : Materialized.with(null, null);
        return kept(step, options.withKeySerde(TEXT).withValueSerde(Serdes.Long()));
    }

    /** Counts become texts, as all values are. */
    private KTable texts(KTable counts, Serde key) {
        return counts.mapValues(n -> n == null ? null : String.valueOf(n), Materialized.with(key, TEXT));
    }

    private static Serde windowSerde(JsonNode w) {
        return switch (w.get("type").asText()) {
            case "session" -> WindowedSerdes.sessionWindowedSerdeFrom(String.class);
            case "sliding" -> WindowedSerdes.timeWindowedSerdeFrom(String.class, w.get("diff").asLong());
            case "unlimited" -> WindowedSerdes.timeWindowedSerdeFrom(String.class, Long.MAX_VALUE);
            default -> WindowedSerdes.timeWindowedSerdeFrom(String.class, w.get("size").asLong());
        };
    }

    private Object cogroup(JsonNode step) {
        String f = step.path("f").asText();
        CogroupedKStream<Object, Object> cogrouped = grouped(step, 0)
            .cogroup((k, v, total) -> Functions.add(f, k, v, total));
        for (int i = 1; i < step.get("in").size(); i++) {
            String sign = "/" + i + "/";
            cogrouped = cogrouped.cogroup(grouped(step, i), (k, v, total) -> total + sign + v);
        }
        Initializer<Object> start = () -> "0";
        Materialized options = stored(step, TEXT);
        if (!step.hasNonNull("window")) {
            return cogrouped.aggregate(start, options);
        }
        JsonNode w = step.get("window");
        keys.put(step.get("id").asText(), windowSerde(w));
        return switch (w.get("type").asText()) {
            case "session" -> cogrouped.windowedBy(session(w))
                .aggregate(start, (k, left, right) -> Functions.merge(left, right), options);
            case "sliding" -> cogrouped.windowedBy(sliding(w)).aggregate(start, options);
            default -> cogrouped.windowedBy(timed(w)).aggregate(start, options);
        };
    }

    private Object tableFilter(JsonNode step, String f, boolean not) {
        KTable<Object, Object> table = table(step, 0);
        Predicate<Object, Object> test = (k, v) -> Functions.test(f, k, v);
        if (step.path("store").asBoolean()) {
            Materialized options = stored(step, keys.get(input(step, 0)));
            return not ? table.filterNot(test, options) : table.filter(test, options);
        }
        return not ? table.filterNot(test) : table.filter(test);
    }

    private Object tableMap(JsonNode step, String f, boolean withKey) {
        KTable<Object, Object> table = table(step, 0);
        ValueMapperWithKey<Object, Object, Object> mapper = (k, v) -> Functions.mapValue(f, withKey ? k : null, v);
        return step.path("store").asBoolean()
            ? table.mapValues(mapper, stored(step, keys.get(input(step, 0))))
            : table.mapValues(mapper);
    }

    private Object transform(JsonNode step, String f) {
        ValueTransformerWithKeySupplier<Object, Object, Object> supplier = () -> new ValueTransformerWithKey<>() {
            @Override
            public void init(org.apache.kafka.streams.processor.ProcessorContext context) {
            }

            @Override
            public Object transform(Object key, Object value) {
                return Functions.mapValue(f, key, value);
            }

            @Override
            public void close() {
            }
        };
        return step.path("store").asBoolean()
            ? table(step, 0).transformValues(supplier, stored(step, keys.get(input(step, 0))))
            : table(step, 0).transformValues(supplier);
    }

    private Object tableAggregate(JsonNode step, String f) {
        String g = step.path("g").asText();
        KGroupedTable<Object, Object> grouped = table(step, 0)
            .groupBy((k, v) -> Functions.mapPair(f, k, v), (Grouped) Grouped.with(TEXT, TEXT));
        Initializer<Object> start = () -> "0";
        return switch (step.get("kind").asText()) {
            case "count" -> texts(grouped.count(counted(step)), TEXT);
            case "reduce" -> grouped.reduce(
                (total, v) -> Functions.add(g, null, v, total), (total, v) -> Functions.subtract(g, null, v, total),
                stored(step, TEXT));
            default -> grouped.aggregate(start,
                (k, v, total) -> Functions.add(g, k, v, total), (k, v, total) -> Functions.subtract(g, k, v, total),
                stored(step, TEXT));
        };
    }

    /** A buffer that lets the oldest go on when it is full. */
    private static Suppressed.EagerBufferConfig early(JsonNode step) {
        boolean records = step.hasNonNull("max_records");
        Suppressed.EagerBufferConfig buffer = records
            ? Suppressed.BufferConfig.maxRecords(step.get("max_records").asLong())
            : Suppressed.BufferConfig.maxBytes(step.get("max_bytes").asLong());
        return records && step.hasNonNull("max_bytes") ? buffer.withMaxBytes(step.get("max_bytes").asLong()) : buffer;
    }

    /** A buffer that stops the application when it is full. */
    private static Suppressed.StrictBufferConfig strict(JsonNode step) {
        boolean bounded = step.hasNonNull("max_records") || step.hasNonNull("max_bytes");
        return bounded ? early(step).shutDownWhenFull() : Suppressed.BufferConfig.unbounded();
    }

    private static Suppressed untilTime(JsonNode step) {
        Suppressed.BufferConfig buffer = "early".equals(step.path("when_full").asText()) ? early(step) : strict(step);
        return Suppressed.untilTimeLimit(ms(step, "limit"), buffer);
    }

    private Object streamJoin(JsonNode step) {
        JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(Duration.ZERO, ms(step, "grace"))
            .after(ms(step, "after")).before(ms(step, "before"));
        StreamJoined options = StreamJoined.with(TEXT, TEXT, TEXT);
        ValueJoiner<Object, Object, Object> joiner = Functions::join;
        KStream<Object, Object> left = stream(step, 0);
        KStream<Object, Object> right = stream(step, 1);
        return switch (step.get("how").asText()) {
            case "inner" -> left.join(right, joiner, windows, options);
            case "left" -> left.leftJoin(right, joiner, windows, options);
            default -> left.outerJoin(right, joiner, windows, options);
        };
    }

    private Object streamTableJoin(JsonNode step) {
        Joined options = Joined.with(TEXT, TEXT, TEXT);
        if (step.hasNonNull("grace")) {
            options = options.withGracePeriod(ms(step, "grace"));
        }
        ValueJoiner<Object, Object, Object> joiner = Functions::join;
        return "left".equals(step.get("how").asText())
            ? stream(step, 0).leftJoin(table(step, 1), joiner, options)
            : stream(step, 0).join(table(step, 1), joiner, options);
    }

    private Object globalJoin(JsonNode step, String f) {
        GlobalKTable<Object, Object> table = (GlobalKTable<Object, Object>) made.get(input(step, 1));
        KeyValueMapper<Object, Object, Object> select = (k, v) -> Functions.mapKey(f, k, v);
        ValueJoiner<Object, Object, Object> joiner = Functions::join;
        return "left".equals(step.get("how").asText())
            ? stream(step, 0).leftJoin(table, select, joiner)
            : stream(step, 0).join(table, select, joiner);
    }

    private Object tableJoin(JsonNode step) {
        KTable<Object, Object> left = table(step, 0);
        KTable<Object, Object> right = table(step, 1);
        ValueJoiner<Object, Object, Object> joiner = Functions::join;
        String how = step.get("how").asText();
        if (step.path("store").asBoolean()) {
            Materialized options = stored(step, keys.get(input(step, 0)));
            return switch (how) {
                case "inner" -> left.join(right, joiner, options);
                case "left" -> left.leftJoin(right, joiner, options);
                default -> left.outerJoin(right, joiner, options);
            };
        }
        return switch (how) {
            case "inner" -> left.join(right, joiner);
            case "left" -> left.leftJoin(right, joiner);
            default -> left.outerJoin(right, joiner);
        };
    }

    private Object foreignJoin(JsonNode step, String f) {
        java.util.function.Function<Object, Object> extractor = v -> Functions.foreignKey(f, v);
        ValueJoiner<Object, Object, Object> joiner = Functions::join;
        Materialized options = stored(step, TEXT);
        return "left".equals(step.get("how").asText())
            ? table(step, 0).leftJoin(table(step, 1), extractor, joiner, options)
            : table(step, 0).join(table(step, 1), extractor, joiner, options);
    }
}
