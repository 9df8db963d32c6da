package benchmarks;

import java.util.Map;
import java.util.Properties;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.CompressionType;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.WriteBufferManager;

/**
 * What somebody sets who knows Kafka Streams well and gives it memory: a large record cache, fewer
 * and larger requests, and RocksDB with one bounded block cache, larger memtables and filters.
 */
final class Tuning {
    private static final long RECORD_CACHE_BYTES = 256L * 1024 * 1024;
    private static final int BATCH_BYTES = 256 * 1024;

    private Tuning() {
    }

    static void apply(Properties properties) {
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, RECORD_CACHE_BYTES);
        properties.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, Store.class);
        properties.put(StreamsConfig.BUFFERED_RECORDS_PER_PARTITION_CONFIG, 10_000);
        properties.put(StreamsConfig.consumerPrefix("max.poll.records"), 5_000);
        properties.put(StreamsConfig.consumerPrefix("fetch.max.bytes"), 64 * 1024 * 1024);
        properties.put(StreamsConfig.producerPrefix("linger.ms"), 100);
        properties.put(StreamsConfig.producerPrefix("batch.size"), BATCH_BYTES);
        properties.put(StreamsConfig.producerPrefix("compression.type"), "lz4");
    }

    /** One block cache and one budget for memtables, shared by all stores of the process. */
    public static final class Store implements RocksDBConfigSetter {
        private static final LRUCache CACHE = new LRUCache(128L * 1024 * 1024);
        private static final WriteBufferManager BUFFERS =
            new WriteBufferManager(64L * 1024 * 1024, CACHE);
        private static final BloomFilter FILTER = new BloomFilter(10);

        @Override
        public void setConfig(String store, Options options, Map<String, Object> configs) {
            BlockBasedTableConfig table = (BlockBasedTableConfig) options.tableFormatConfig();
            table.setBlockCache(CACHE);
            table.setFilterPolicy(FILTER);
            table.setCacheIndexAndFilterBlocks(true);
            table.setPinL0FilterAndIndexBlocksInCache(true);
            table.setBlockSize(16 * 1024);
            options.setTableFormatConfig(table);
            options.setWriteBufferManager(BUFFERS);
            options.setWriteBufferSize(32L * 1024 * 1024);
            options.setMaxWriteBufferNumber(4);
            options.setCompressionType(CompressionType.LZ4_COMPRESSION);
            options.setIncreaseParallelism(2);
        }

        @Override
        public void close(String store, Options options) {
            // Cache, budget and filter are shared, and live as long as the process.
        }
    }
}
