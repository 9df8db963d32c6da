package benchmarks;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** Count, sum, smallest and largest of a window, stored in 32 bytes. */
final class Summary {
    private static final int BYTES = 4 * Long.BYTES;

    private long count;
    private long total;
    private long low;
    private long high;

    Summary add(byte[] value) {
        long number = Long.parseLong(new String(value, StandardCharsets.US_ASCII));
        low = count == 0 ? number : Math.min(low, number);
        high = count == 0 ? number : Math.max(high, number);
        count++;
        total += number;
        return this;
    }

    Summary merge(Summary other) {
        if (other.count > 0) {
            low = count == 0 ? other.low : Math.min(low, other.low);
            high = count == 0 ? other.high : Math.max(high, other.high);
            count += other.count;
            total += other.total;
        }
        return this;
    }

    static Serde<Summary> serde() {
        return Serdes.serdeFrom(
            (topic, summary) -> summary == null ? null : summary.bytes(),
            (topic, bytes) -> bytes == null ? null : of(bytes));
    }

    private byte[] bytes() {
        return ByteBuffer.allocate(BYTES)
            .putLong(count).putLong(total).putLong(low).putLong(high).array();
    }

    private static Summary of(byte[] bytes) {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        Summary summary = new Summary();
        summary.count = buffer.getLong();
        summary.total = buffer.getLong();
        summary.low = buffer.getLong();
        summary.high = buffer.getLong();
        return summary;
    }

    @Override
    public String toString() {
        return count + "," + total + "," + low + "," + high;
    }
}
