package tickwheel.testing;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.ToIntFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import tickwheel.Client;

/**
 * Tests of schedules: a daemon whose clock stands until it is moved, and a receiver that records.
 *
 * <pre>{@code
 * try (VirtualTickwheel tickwheel = VirtualTickwheel.start("2027-03-01T00:00Z")) {
 *     tickwheel.client().create(Create.to(tickwheel.url("/remind")).cron("0 9 * * *", "Europe/Berlin"));
 *     tickwheel.advance(Duration.ofDays(31));
 *     assertEquals(31, tickwheel.delivered("/remind").size());
 * }
 * }</pre>
 *
 * <p>The daemon is the program that TICKWHEELD names, or {@code tickwheeld} in PATH. {@link TickwheelExtension} starts one
 * for each test of JUnit 5.
 */
public final class VirtualTickwheel implements AutoCloseable {
    private static final Duration START_MAX = Duration.ofMinutes(1);
    private static final Pattern STARTED = Pattern.compile("event=started listen=(\\S+)");
    private static final ObjectMapper JSON = new ObjectMapper();
    private final HttpClient http = HttpClient.newHttpClient();
    private final List<Delivery> received = new CopyOnWriteArrayList<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final Path folder;
    private final Process daemon;
    private final HttpServer hooks;
    private String url;
    private Client client;
    private volatile ToIntFunction<String> answer = path -> 200;

    /** A webhook that arrived: when it was due, and the status that it was answered. */
    public record Delivery(String path, Instant due, int attempt, Map<String, List<String>> headers, String body,
                           int status) {
    }

    /** What happened since the last advance; {@code failed} counts attempts. */
    public record Advanced(Instant now, int fired, int delivered, int failed) {
    }

    private VirtualTickwheel(String start, String... flags) throws IOException {
        String program = System.getenv("TICKWHEELD");
        folder = Files.createTempDirectory("tickwheel-virtual-");
        List<String> command = new ArrayList<>(List.of(program == null || program.isEmpty() ? "tickwheeld" : program,
                "--clock", "virtual=" + start, "--listen-port", "0", "--data-folder", folder.resolve("data").toString()));
        command.addAll(List.of(flags));
        hooks = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        hooks.setExecutor(threads);
        hooks.createContext("/", this::take);
        ProcessBuilder builder = new ProcessBuilder(command).redirectError(folder.resolve("log").toFile())
                .redirectOutput(ProcessBuilder.Redirect.DISCARD);
        builder.environment().keySet().removeIf(name -> name.startsWith("TICKWHEEL_")); // settings of the daemon
        daemon = builder.start();
        hooks.start();
    }

    /** Starts a daemon whose clock stands at {@code start}, such as 2027-03-01T00:00Z; {@code flags} are further ones of it. */
    public static VirtualTickwheel start(String start, String... flags) {
        VirtualTickwheel made = null;
        try {
            made = new VirtualTickwheel(start, flags);
            made.url = made.awaitStart();
            made.client = Client.builder().url(made.url).build();
            return made;
        } catch (IOException error) {
            if (made != null)
                made.close();
            throw new UncheckedIOException(error);
        } catch (RuntimeException error) {
            if (made != null)
                made.close();
            throw error;
        }
    }

    private String awaitStart() throws IOException {
        for (Instant until = Instant.now().plus(START_MAX); Instant.now().isBefore(until); pause()) {
            String log = Files.readString(folder.resolve("log"));
            if (!daemon.isAlive())
                throw new IllegalStateException("tickwheeld ended: " + log);
            Matcher found = STARTED.matcher(log);
            if (!found.find())
                continue;
            String base = "http://" + found.group(1);
            if (send(HttpRequest.newBuilder(URI.create(base + "/readyz")).build()).statusCode() == 200)
                return base;
        }
        throw new IllegalStateException("tickwheeld did not start");
    }

    private static void pause() {
        try {
            Thread.sleep(5);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(interrupted);
        }
    }

    private HttpResponse<String> send(HttpRequest request) {
        try {
            return http.send(request, HttpResponse.BodyHandlers.ofString());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(interrupted);
        }
    }

    private void take(HttpExchange exchange) throws IOException {
        try (exchange) {
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            String path = exchange.getRequestURI().toString();
            int status = answer.applyAsInt(path);
            received.add(new Delivery(path, Instant.parse(exchange.getRequestHeaders().getFirst("tickwheel-due")),
                    Integer.parseInt(exchange.getRequestHeaders().getFirst("tickwheel-attempt")),
                    Map.copyOf(exchange.getRequestHeaders()), body, status));
            exchange.sendResponseHeaders(status, -1);
        }
    }

    /** A client of the daemon. */
    public Client client() {
        return client;
    }

    /** The target of webhooks that are recorded. */
    public String url(String path) {
        return "http://127.0.0.1:" + hooks.getAddress().getPort() + path;
    }

    /** Sets the status of the answer to a webhook by its path; it is 200 at first. */
    public void answer(ToIntFunction<String> status) {
        answer = status;
    }

    private static JsonNode parse(String text) {
        try {
            return JSON.readTree(text);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** The time of timers. */
    public Instant now() {
        return Instant.parse(parse(send(HttpRequest.newBuilder(URI.create(url + "/v1/clock")).build()).body())
                .get("now").asText());
    }

    /** Lets time pass. Returns when everything that is due has been done. */
    public Advanced advance(Duration by) {
        return move("by", by.toMillis() + "ms");
    }

    /** Moves the clock to a time. */
    public Advanced advanceTo(Instant to) {
        return move("to", to.toString());
    }

    /** Moves the clock to the next firing or retry. */
    public Advanced advanceToNext() {
        return move("to", "next");
    }

    private Advanced move(String name, String value) {
        int fired = 0;
        int delivered = 0;
        int failed = 0;
        for (;;) {
            String body = JSON.createObjectNode().put(name, value).toString();
            HttpResponse<String> response = send(HttpRequest.newBuilder(URI.create(url + "/v1/clock/advance"))
                    .header("Content-Type", "application/json").POST(HttpRequest.BodyPublishers.ofString(body)).build());
            JsonNode found = parse(response.body());
            if (response.statusCode() != 200)
                throw new IllegalArgumentException(found.path("detail").asText());
            fired += found.get("fired").asInt();
            delivered += found.get("delivered").asInt();
            failed += found.get("failed").asInt();
            if (found.get("done").asBoolean())
                return new Advanced(Instant.parse(found.get("now").asText()), fired, delivered, failed);
            name = "to";
            value = found.get("to").asText();
        }
    }

    /** Every webhook of this path that came, in order. */
    public List<Delivery> received(String path) {
        return received.stream().filter(one -> one.path().equals(path)).toList();
    }

    /** Those of {@link #received} that were answered with success. */
    public List<Delivery> delivered(String path) {
        return received(path).stream().filter(one -> one.status() >= 200 && one.status() < 300).toList();
    }

    /** Ends the daemon and the receiver, and removes the folder. */
    @Override
    public void close() {
        daemon.destroyForcibly().onExit().join();
        hooks.stop(0);
        threads.shutdownNow();
        try (Stream<Path> paths = Files.walk(folder)) {
            paths.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
