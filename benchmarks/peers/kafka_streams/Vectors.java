package benchmarks;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.internals.ProcessorMetadata;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.processor.internals.TopicPartitionMetadata;
import org.apache.kafka.streams.state.internals.BufferValue;
import org.apache.kafka.streams.state.internals.SessionKeySchema;
import org.apache.kafka.streams.state.internals.TimestampedKeyAndJoinSide;
import org.apache.kafka.streams.state.internals.TimestampedKeyAndJoinSideSerializer;
import org.apache.kafka.streams.state.internals.WindowKeySchema;

/** Prints what Kafka Streams' own classes make of some rows, in hexadecimal, as one JSON document. */
public final class Vectors {
    private static final long DUE = 120_000L;
    private static final long TIME = 61_234L;

    private Vectors() {
    }

    public static void main(String[] words) throws Exception {
        Bytes ann = Bytes.wrap(bytes("ann"));
        StringBuilder out = new StringBuilder("{\n");
        add(out, "window", WindowKeySchema.toStoreKeyBinary(ann, 60_000L, 0).get());
        add(out, "window_third", WindowKeySchema.toStoreKeyBinary(ann, 60_000L, 3).get());
        add(out, "session", SessionKeySchema.toBinary(ann, 1_000L, 8_000L).get());
        add(out, "left", sided(TimestampedKeyAndJoinSide.makeLeft("ann", TIME)));
        add(out, "right", sided(TimestampedKeyAndJoinSide.makeRight("ann", TIME)));
        Headers headers = new RecordHeaders().add("from", bytes("web")).add("none", null);
        add(out, "suppressed", buffered(bytes("p"), bytes("o"), bytes("new"), headers));
        add(out, "suppressed_same", buffered(bytes("o"), bytes("o"), bytes("new"), headers));
        add(out, "suppressed_first", buffered(null, null, bytes("new"), new RecordHeaders()));
        add(out, "suppressed_gone", buffered(bytes("p"), bytes("p"), null, new RecordHeaders()));
        text(out, "commit", new TopicPartitionMetadata(TIME, new ProcessorMetadata()).encode());
        text(out, "commit_more", new TopicPartitionMetadata(
            TIME, new ProcessorMetadata(Map.of("close", 5L))).encode());
        text(out, "commit_none", new TopicPartitionMetadata(-1L, new ProcessorMetadata()).encode());
        out.setLength(out.length() - 2);
        System.out.println(out.append("\n}"));
    }

    private static byte[] buffered(byte[] prior, byte[] old, byte[] now, Headers headers)
            throws Exception {
        ProcessorRecordContext context =
            new ProcessorRecordContext(TIME, 17L, 2, "visits", headers);
        Constructor<?> make = BufferValue.class.getDeclaredConstructors()[0];
        make.setAccessible(true);
        Object value = make.newInstance(prior, old, now, context);
        Method serialize = BufferValue.class.getDeclaredMethod("serialize", int.class);
        serialize.setAccessible(true);
        ByteBuffer row = (ByteBuffer) serialize.invoke(value, Long.BYTES);
        return row.putLong(DUE).array(); // as InMemoryTimeOrderedKeyValueChangeBuffer logs it
    }

    private static byte[] sided(TimestampedKeyAndJoinSide<String> key) throws Exception {
        Constructor<?> make =
            TimestampedKeyAndJoinSideSerializer.class.getDeclaredConstructors()[0];
        make.setAccessible(true);
        @SuppressWarnings("unchecked")
        var sides = (TimestampedKeyAndJoinSideSerializer<String>)
            make.newInstance(Serdes.String().serializer());
        return sides.serialize("topic", key);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void add(StringBuilder out, String name, byte[] row) {
        text(out, name, HexFormat.of().formatHex(row));
    }

    private static void text(StringBuilder out, String name, String text) {
        out.append("  \"").append(name).append("\": \"").append(text).append("\",\n");
    }
}
