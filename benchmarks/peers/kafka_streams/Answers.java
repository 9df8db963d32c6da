package benchmarks;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyQueryMetadata;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsMetadata;
import org.apache.kafka.streams.state.HostInfo;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * Interactive queries of the store "orders" over HTTP, over all instances, as its users write them.
 *
 * <p>A key is asked of the instance that has it. Ranges, scans and sums are asked of every instance:
 * {@code /own/…} is what one instance has itself. Rows are JSON, one a line.
 */
final class Answers {
    private static final String STORE = "orders";
    private static final int THREADS = 4;
    private static final int BUFFER_BYTES = 1 << 16;
    private static final ObjectMapper MAPPER =
        new ObjectMapper()
            .configure(JsonGenerator.Feature.AUTO_CLOSE_TARGET, false)
            .configure(JsonGenerator.Feature.FLUSH_PASSED_TO_STREAM, false);
    private static final ObjectWriter WRITER = MAPPER.writer();

    private final KafkaStreams streams;
    private final HostInfo self;
    private final HttpClient client =
        HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    private Answers(KafkaStreams streams, int port) {
        this.streams = streams;
        this.self = new HostInfo("127.0.0.1", port);
    }

    /** A row, as it is shown. */
    record Row(String key, String city, long total, String note) {
        static Row of(String key, Order order) {
            return new Row(key, order.city, order.total, order.note);
        }
    }

    static HttpServer serve(KafkaStreams streams, int port) throws IOException {
        Answers answers = new Answers(streams, port);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.setExecutor(Executors.newFixedThreadPool(THREADS, task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        }));
        server.createContext("/", answers::handle);
        server.start();
        return server;
    }

    private void handle(HttpExchange exchange) throws IOException {
        try (exchange; InputStream asked = exchange.getRequestBody()) {
            asked.readAllBytes();
            Map<String, String> given = given(exchange.getRequestURI().getRawQuery());
            switch (exchange.getRequestURI().getPath()) {
                case "/get" -> get(exchange, given.get("key"));
                case "/own/rows" -> ownRows(exchange, given.get("from"), given.get("to"));
                case "/range" -> range(exchange, given.get("from"), given.get("to"));
                case "/scan" -> scan(exchange);
                case "/own/sums" -> answer(exchange, WRITER.writeValueAsBytes(ownSums()));
                case "/sums" -> sums(exchange);
                case "/instances" -> answer(exchange,
                    String.valueOf(instances().size()).getBytes(StandardCharsets.US_ASCII));
                default -> exchange.sendResponseHeaders(404, -1);
            }
        } catch (IOException | RuntimeException error) {
            error.printStackTrace();
            throw error;
        } catch (InterruptedException error) {
            throw new IOException(error);
        }
    }

    private void get(HttpExchange exchange, String key) throws IOException, InterruptedException {
        KeyQueryMetadata place =
            streams.queryMetadataForKey(STORE, key, Serdes.String().serializer());
        if (!self.equals(place.activeHost())) {
            String path = "/get?key=" + URLEncoder.encode(key, StandardCharsets.UTF_8);
            answer(exchange, asked(place.activeHost(), path).readAllBytes());
            return;
        }
        Order order = store().get(key);
        answer(exchange, WRITER.writeValueAsBytes(order == null ? null : Row.of(key, order)));
    }

    private void ownRows(HttpExchange exchange, String from, String to) throws IOException {
        exchange.sendResponseHeaders(200, 0);
        try (OutputStream out = new BufferedOutputStream(exchange.getResponseBody(), BUFFER_BYTES);
                KeyValueIterator<String, Order> rows = own(from, to)) {
            while (rows.hasNext()) {
                KeyValue<String, Order> row = rows.next();
                WRITER.writeValue(out, Row.of(row.key, row.value));
                out.write('\n');
            }
        }
    }

    private void range(HttpExchange exchange, String from, String to)
            throws IOException, InterruptedException {
        TreeMap<String, byte[]> found = new TreeMap<>();
        try (KeyValueIterator<String, Order> rows = own(from, to)) {
            while (rows.hasNext()) {
                KeyValue<String, Order> row = rows.next();
                found.put(row.key, WRITER.writeValueAsBytes(Row.of(row.key, row.value)));
            }
        }
        String path = "/own/rows?from=" + URLEncoder.encode(from, StandardCharsets.UTF_8)
            + "&to=" + URLEncoder.encode(to, StandardCharsets.UTF_8);
        for (HostInfo other : others()) {
            BufferedReader lines = new BufferedReader(
                new InputStreamReader(asked(other, path), StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                byte[] row = line.getBytes(StandardCharsets.UTF_8);
                found.put(MAPPER.readValue(row, Row.class).key(), row);
            }
        }
        exchange.sendResponseHeaders(200, 0);
        try (OutputStream out = new BufferedOutputStream(exchange.getResponseBody(), BUFFER_BYTES)) {
            for (byte[] row : found.values()) {
                out.write(row);
                out.write('\n');
            }
        }
    }

    /** All rows in no order: those of the others are passed on as they come. */
    private void scan(HttpExchange exchange) throws IOException, InterruptedException {
        exchange.sendResponseHeaders(200, 0);
        try (OutputStream out = new BufferedOutputStream(exchange.getResponseBody(), BUFFER_BYTES)) {
            try (KeyValueIterator<String, Order> rows = own(null, null)) {
                while (rows.hasNext()) {
                    KeyValue<String, Order> row = rows.next();
                    WRITER.writeValue(out, Row.of(row.key, row.value));
                    out.write('\n');
                }
            }
            for (HostInfo other : others()) {
                asked(other, "/own/rows").transferTo(out);
            }
        }
    }

    private Map<String, long[]> ownSums() {
        Map<String, long[]> sums = new HashMap<>();
        try (KeyValueIterator<String, Order> rows = own(null, null)) {
            while (rows.hasNext()) {
                Order order = rows.next().value;
                long[] sum = sums.computeIfAbsent(order.city, city -> new long[2]);
                sum[0]++;
                sum[1] += order.total;
            }
        }
        return sums;
    }

    private void sums(HttpExchange exchange) throws IOException, InterruptedException {
        Map<String, long[]> found = ownSums();
        for (HostInfo other : others()) {
            MAPPER.readTree(asked(other, "/own/sums")).properties().forEach(sum -> {
                long[] here = found.computeIfAbsent(sum.getKey(), city -> new long[2]);
                here[0] += sum.getValue().get(0).asLong();
                here[1] += sum.getValue().get(1).asLong();
            });
        }
        answer(exchange, WRITER.writeValueAsBytes(found));
    }

    private KeyValueIterator<String, Order> own(String from, String to) {
        return from == null && to == null ? store().all() : store().range(from, to);
    }

    private ReadOnlyKeyValueStore<String, Order> store() {
        return streams.store(
            StoreQueryParameters.fromNameAndType(STORE, QueryableStoreTypes.keyValueStore()));
    }

    private List<StreamsMetadata> instances() {
        return new ArrayList<>(streams.streamsMetadataForStore(STORE));
    }

    private List<HostInfo> others() {
        return instances().stream()
            .map(StreamsMetadata::hostInfo)
            .filter(host -> !self.equals(host))
            .toList();
    }

    private InputStream asked(HostInfo other, String path)
            throws IOException, InterruptedException {
        URI address = URI.create("http://" + other.host() + ":" + other.port() + path);
        HttpResponse<InputStream> found = client.send(
            HttpRequest.newBuilder(address).build(), HttpResponse.BodyHandlers.ofInputStream());
        if (found.statusCode() != 200) {
            throw new IOException(address + " answered " + found.statusCode());
        }
        return found.body();
    }

    private static void answer(HttpExchange exchange, byte[] body) throws IOException {
        exchange.sendResponseHeaders(200, body.length);
        exchange.getResponseBody().write(body);
    }

    private static Map<String, String> given(String query) {
        Map<String, String> found = new HashMap<>();
        for (String part : query == null ? new String[0] : query.split("&")) {
            String[] pair = part.split("=", 2);
            found.put(pair[0], URLDecoder.decode(pair[1], StandardCharsets.UTF_8));
        }
        return found;
    }
}
