package benchmarks;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/** Reads keys of the store "counts" at random, one after the other, and tells what it took. */
final class Gets {
    private static final int KEYS_MAX = 10_000;
    private static final int WARM_UP = 2_000;

    private Gets() {
    }

    static void measure(KafkaStreams streams, int count) {
        ReadOnlyKeyValueStore<String, Long> store = streams.store(
            StoreQueryParameters.fromNameAndType("counts", QueryableStoreTypes.keyValueStore()));
        List<String> keys = new ArrayList<>();
        try (KeyValueIterator<String, Long> rows = store.all()) {
            while (rows.hasNext() && keys.size() < KEYS_MAX) {
                keys.add(rows.next().key);
            }
        }
        Random random = new Random(1);
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long[] latencies = new long[count];
        long before = 0;
        for (int number = 0; number < WARM_UP + count; number++) {
            if (number == WARM_UP) {
                before = threads.getCurrentThreadCpuTime();
            }
            String key = keys.get(random.nextInt(keys.size()));
            long began = System.nanoTime();
            Long found = store.get(key);
            long lasted = System.nanoTime() - began;
            if (found == null) {
                throw new IllegalStateException("no count of " + key);
            }
            if (number >= WARM_UP) {
                latencies[number - WARM_UP] = lasted;
            }
        }
        double cpu = (threads.getCurrentThreadCpuTime() - before) / 1000.0 / count;
        Arrays.sort(latencies);
        Events.emit("gets", String.format(Locale.ROOT,
            "\"gets\": %d, \"p50_us\": %.1f, \"p99_us\": %.1f, \"cpu_us\": %.1f", count,
            latencies[count / 2] / 1000.0, latencies[count * 99 / 100] / 1000.0, cpu));
    }
}
