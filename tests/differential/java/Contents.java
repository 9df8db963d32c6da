package differential;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Instant;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/** What the stores answer at the end, by question. tests/differential/contents.py says the same in Python. */
final class Contents {
    private final TopologyTestDriver driver;
    private final JsonNode asked;
    private final String low;
    private final String high;
    private final Instant first;
    private final Instant last;

    /** Asks for keys from low to high, and for times from first to last; of versions for every key and moment. */
    Contents(TopologyTestDriver driver, JsonNode asked) {
        this.driver = driver;
        this.asked = asked;
        low = asked.get("low").asText();
        high = asked.get("high").asText();
        first = Instant.ofEpochMilli(asked.get("first").asLong());
        last = Instant.ofEpochMilli(asked.get("last").asLong());
    }

    void of(String name, ObjectNode answers) {
        KeyValueStore<Object, ValueAndTimestamp<Object>> timed = driver.getTimestampedKeyValueStore(name);
        KeyValueStore<Object, Object> values = driver.getKeyValueStore(name);
        VersionedKeyValueStore<Object, Object> versions = driver.getVersionedKeyValueStore(name);
        WindowStore<Object, ValueAndTimestamp<Object>> windows = driver.getTimestampedWindowStore(name);
        SessionStore<Object, Object> sessions = driver.getSessionStore(name);
        if (timed != null) {
            keys(timed, answers);
        } else if (values != null) {
            keys(values, answers);
        } else if (versions != null) {
            versions(versions, answers);
        } else if (windows != null) {
            windows(windows, answers);
        } else {
            sessions(sessions, answers);
        }
    }

    private <V> void keys(KeyValueStore<Object, V> store, ObjectNode answers) {
        rows(answers, "all", store.all());
        rows(answers, "reverse_all", store.reverseAll());
        if (plain(store)) {
            rows(answers, "range", store.range(low, high));
            rows(answers, "reverse_range", store.reverseRange(low, high));
            rows(answers, "prefix_scan", store.prefixScan(low, new StringSerializer()));
        }
    }

    /** Tells whether keys are texts: those of windows have no letters to ask for. */
    private static boolean plain(KeyValueStore<Object, ?> store) {
        try (KeyValueIterator<Object, ?> all = store.all()) {
            return all.hasNext() && all.peekNextKey() instanceof String;
        }
    }

    private void versions(VersionedKeyValueStore<Object, Object> store, ObjectNode answers) {
        ArrayNode newest = answers.putArray("get");
        ArrayNode past = answers.putArray("get as of");
        for (JsonNode key : asked.get("keys")) {
            version(newest, key.asText(), null, store.get(key.asText()));
            for (JsonNode moment : asked.get("moments")) {
                version(past, key.asText(), moment.asLong(), store.get(key.asText(), moment.asLong()));
            }
        }
    }

    private static void version(ArrayNode rows, String key, Long moment, VersionedRecord<Object> found) {
        if (found != null) {
            rows.addArray().add(key).add(moment).add(String.valueOf(found.value()))
                .add(found.timestamp());
        }
    }

    private void windows(WindowStore<Object, ValueAndTimestamp<Object>> store, ObjectNode answers) {
        rows(answers, "all", store.all());
        rows(answers, "backward_all", store.backwardAll());
        rows(answers, "fetch_all", store.fetchAll(first, last));
        rows(answers, "backward_fetch_all", store.backwardFetchAll(first, last));
        rows(answers, "fetch_range", store.fetch(low, high, first, last));
        rows(answers, "backward_fetch_range", store.backwardFetch(low, high, first, last));
        for (JsonNode key : asked.get("keys")) {
            rows(answers, "fetch " + key.asText(), store.fetch(key.asText(), first, last));
            rows(answers, "backward_fetch " + key.asText(), store.backwardFetch(key.asText(), first, last));
            ValueAndTimestamp<Object> one = store.fetch(key.asText(), first.toEpochMilli());
            if (one != null) {
                row(answers.putArray("get " + key.asText()), first.toEpochMilli(), one);
            }
        }
    }

    private void sessions(SessionStore<Object, Object> store, ObjectNode answers) {
        rows(answers, "fetch_range", store.fetch(null, null));
        rows(answers, "backward_fetch_range", store.backwardFetch(null, null));
        rows(answers, "find_sessions_range", store.findSessions(low, high, first, last));
        rows(answers, "backward_find_sessions_range", store.backwardFindSessions(low, high, first, last));
        for (JsonNode key : asked.get("keys")) {
            rows(answers, "fetch " + key.asText(), store.fetch(key.asText()));
            rows(answers, "backward_fetch " + key.asText(), store.backwardFetch(key.asText()));
            rows(answers, "find_sessions " + key.asText(), store.findSessions(key.asText(), first, last));
            rows(answers, "backward_find_sessions " + key.asText(),
                store.backwardFindSessions(key.asText(), first, last));
        }
    }

    private static <V> void rows(ObjectNode answers, String question, WindowStoreIterator<V> found) {
        ArrayNode rows = answers.putArray(question);
        try (found) {
            while (found.hasNext()) {
                KeyValue<Long, V> next = found.next();
                row(rows, next.key, next.value);
            }
        }
    }

    private static <V> void rows(ObjectNode answers, String question, KeyValueIterator<?, V> found) {
        ArrayNode rows = answers.putArray(question);
        try (found) {
            while (found.hasNext()) {
                KeyValue<?, V> next = found.next();
                row(rows, next.key, next.value);
            }
        }
    }

    private static void row(ArrayNode rows, Object key, Object value) {
        ArrayNode row = rows.addArray();
        if (key instanceof Long start) {
            row.add(start);
        } else {
            row.add(String.valueOf(Functions.text(key)));
        }
        if (value instanceof ValueAndTimestamp<?> timed) {
            row.add(String.valueOf(timed.value())).add(timed.timestamp());
        } else {
            row.add(String.valueOf(value));
        }
    }
}
