package differential;

import java.util.Map;
import java.util.Set;
import org.apache.kafka.streams.kstream.internals.Change;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.ProcessorWrapper;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.WrappedFixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.WrappedProcessorSupplier;
import org.apache.kafka.streams.processor.internals.InternalProcessorContext;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.state.StoreBuilder;

/**
 * Lets suppression buffers count what Mustela's count: a name of the same length for every topic, and no old values,
 * which Mustela keeps only where a step asks for them. None asks behind a buffer that is bounded by bytes here.
 */
public final class Counted implements ProcessorWrapper {
    /** With the 28 bytes that Kafka Streams counts for the rest, this makes a row's 100 of Mustela. */
    private static final String TOPIC = "t".repeat(72);

    @Override
    public void configure(Map<String, ?> settings) {
    }

    @Override
    @SuppressWarnings("unchecked")
    public <KIn, VIn, KOut, VOut> WrappedProcessorSupplier<KIn, VIn, KOut, VOut> wrapProcessorSupplier(
        String name, ProcessorSupplier<KIn, VIn, KOut, VOut> supplier) {
        if (!name.startsWith("KTABLE-SUPPRESS")) {
            return ProcessorWrapper.asWrapped(supplier);
        }
        return new WrappedProcessorSupplier<>() {
            @Override
            public Processor<KIn, VIn, KOut, VOut> get() {
                return (Processor<KIn, VIn, KOut, VOut>) new Suppress<>(
                    (Processor<Object, Change<Object>, KOut, VOut>) supplier.get());
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                return supplier.stores();
            }
        };
    }

    @Override
    public <KIn, VIn, VOut> WrappedFixedKeyProcessorSupplier<KIn, VIn, VOut> wrapFixedKeyProcessorSupplier(
        String name, FixedKeyProcessorSupplier<KIn, VIn, VOut> supplier) {
        return ProcessorWrapper.asWrappedFixedKey(supplier);
    }

    private static final class Suppress<KOut, VOut> implements Processor<Object, Change<Object>, KOut, VOut> {
        private final Processor<Object, Change<Object>, KOut, VOut> inner;
        private InternalProcessorContext<?, ?> context;

        Suppress(Processor<Object, Change<Object>, KOut, VOut> inner) {
            this.inner = inner;
        }

        @Override
        public void init(ProcessorContext<KOut, VOut> given) {
            context = (InternalProcessorContext<?, ?>) given;
            inner.init(given);
        }

        @Override
        public void process(Record<Object, Change<Object>> record) {
            ProcessorRecordContext came = context.recordContext();
            context.setRecordContext(new ProcessorRecordContext(
                came.timestamp(), came.offset(), came.partition(), TOPIC, came.headers()));
            try {
                inner.process(record.withValue(new Change<>(record.value().newValue, null)));
            } finally {
                context.setRecordContext(came);
            }
        }

        @Override
        public void close() {
            inner.close();
        }
    }
}
