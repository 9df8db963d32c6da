package differential;

import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;

/** The processors that topologies name. tests/differential/processors.py says the same in Python. */
final class Processors {
    private Processors() {
    }

    static FixedKeyProcessorSupplier<Object, Object, Object> fixed(String name, String store) {
        return () -> new ContextualFixedKeyProcessor<>() {
            @Override
            public void process(FixedKeyRecord<Object, Object> record) {
                if (record.key() == null) {
                    context().forward(record);
                    return;
                }
                KeyValueStore<Object, Object> values = context().getStateStore(store);
                Object before = values.get(record.key());
                Object after = after(name, record.key(), record.value(), before);
                if ("first".equals(name) && before != null && after != null) {
                    return;
                }
                values.put(record.key(), after);
                if ("both".equals(name)) {
                    context().forward(record.withValue(before));
                }
                context().forward(record.withValue(after));
            }
        };
    }

    static ProcessorSupplier<Object, Object, Object, Object> free(String name, String store) {
        return () -> new ContextualProcessor<>() {
            @Override
            public void process(Record<Object, Object> record) {
                if (record.key() == null) {
                    return;
                }
                KeyValueStore<Object, Object> values = context().getStateStore(store);
                Object before = values.get(record.key());
                Object after = after(name, record.key(), record.value(), before);
                values.put(record.key(), after);
                if ("both".equals(name)) {
                    context().forward(record.withKey(Functions.mapKey("upper", record.key(), null)).withValue(before));
                }
                context().forward(record.withValue(after).withTimestamp(record.timestamp() + 3));
            }
        };
    }

    private static Object after(String name, Object key, Object value, Object before) {
        return value == null || "first".equals(name) ? value : Functions.add("concat", key, value, before);
    }
}
