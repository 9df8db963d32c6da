package benchmarks;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** JSON bytes to and from one class, with the reader and writer that Jackson prepares once. */
final class JsonSerde {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private JsonSerde() {
    }

    static <T> Serde<T> of(Class<T> type) {
        ObjectReader reader = MAPPER.readerFor(type);
        ObjectWriter writer = MAPPER.writerFor(type);
        return Serdes.serdeFrom(
            (topic, value) -> {
                try {
                    return writer.writeValueAsBytes(value);
                } catch (JsonProcessingException error) {
                    throw new SerializationException(error);
                }
            },
            (topic, bytes) -> {
                try {
                    return reader.readValue(bytes);
                } catch (IOException error) {
                    throw new SerializationException(error);
                }
            });
    }
}
