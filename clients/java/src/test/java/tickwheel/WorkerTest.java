package tickwheel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Workers and the check of webhooks, on a real daemon. */
@EnabledIfEnvironmentVariable(named = "TICKWHEEL_CONTRACT", matches = ".+")
class WorkerTest {
    private static final int COUNT = 60;
    private final Client client = Client.builder().retries(5, Duration.ofMillis(10)).build();
    private final String queue = UUID.randomUUID().toString().substring(0, 8);
    private Worker worker;

    private List<String> makeItems(int count) {
        return client.batch(IntStream.range(0, count)
                .mapToObj(n -> Create.to("queue:" + queue).after(Duration.ZERO).payload(n)).iterator())
                .stream().map(Answers.BatchResult::id).toList();
    }

    private String finalState(String id) {
        try {
            return client.get(Client.Ref.id(id)).state();
        } catch (Problem.Gone gone) {
            return gone.timer().orElseThrow().state();
        }
    }

    private static boolean isTwice(int n) {
        return n % 3 == 0 && n % 10 != 0;
    }

    /** Every item ends as its function says, and no more than the concurrency run at a time. */
    @Test
    void worker() throws Exception {
        List<String> ids = makeItems(COUNT);
        int wanted = COUNT + (int) IntStream.range(0, COUNT).filter(WorkerTest::isTwice).count();
        AtomicIntegerArray seen = new AtomicIntegerArray(COUNT);
        AtomicInteger calls = new AtomicInteger();
        AtomicInteger running = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        worker = new Worker(client, queue, 5, item -> {
            most.accumulateAndGet(running.incrementAndGet(), Math::max);
            int n = item.payload().asInt();
            seen.incrementAndGet(n);
            running.decrementAndGet();
            if (calls.incrementAndGet() == wanted)
                worker.stop();
            if (n % 10 == 0)
                throw new Worker.Dead("tenth");
            if (isTwice(n) && item.attempt() == 1)
                throw new Worker.Retry(Duration.ZERO, "third");
        });
        worker.run();
        for (int n = 0; n < COUNT; n++) {
            assertEquals(n % 10 == 0 ? "dead" : "fired", finalState(ids.get(n)), "item " + n);
            assertEquals(isTwice(n) ? 2 : 1, seen.get(n), "item " + n);
        }
        assertTrue(most.get() <= 5, most + " at a time");
    }

    /** An item whose function takes longer than the lease is not given to another worker meanwhile. */
    @Test
    void leaseIsExtended() throws Exception {
        List<String> ids = makeItems(1);
        List<Integer> attempts = new CopyOnWriteArrayList<>();
        worker = new Worker(client, queue, 2, Duration.ofSeconds(3), Duration.ofSeconds(30), item -> {
            attempts.add(item.attempt());
            Thread.sleep(4000); // longer than the lease
            worker.stop();
        });
        worker.run();
        assertEquals(List.of(1), attempts);
        assertEquals("fired", finalState(ids.get(0)));
    }

    /** A function that ignores its interrupt does not keep `run`, nor the process; its item comes again. */
    @Test
    void hangs() throws Exception {
        List<String> ids = makeItems(1);
        AtomicReference<Thread> thread = new AtomicReference<>();
        CountDownLatch over = new CountDownLatch(1);
        worker = new Worker(client, queue, 1, Duration.ofSeconds(1), Duration.ofMillis(200), item -> {
            thread.set(Thread.currentThread());
            worker.stop();
            while (over.getCount() > 0)
                try {
                    over.await();
                } catch (InterruptedException ignored) {
                    Thread.onSpinWait();
                }
        });
        worker.run();
        assertTrue(thread.get().isAlive() && thread.get().isDaemon());
        List<Item> items = client.lease(queue, 1, Duration.ofSeconds(20), Duration.ofSeconds(30));
        over.countDown();
        assertEquals(ids, items.stream().map(Item::id).toList());
    }

    @Test
    void refusesWhatCannotWork() {
        assertThrows(IllegalArgumentException.class, () -> new Worker(client, "q", 0, item -> { }));
        assertThrows(IllegalArgumentException.class,
                () -> new Worker(client, "q", 1, Duration.ofMillis(10), Duration.ZERO, item -> { }));
        for (String url : List.of("ftp://shop.example", "shop", "http:///x"))
            assertThrows(IllegalArgumentException.class, () -> Client.of(url));
        for (String secret : List.of("", "whsec_", "whsec_%"))
            assertThrows(IllegalArgumentException.class, () -> new WebhookVerifier(secret));
        assertThrows(IllegalArgumentException.class,
                () -> client.create(Create.to("log:").after(Duration.ZERO).payload(new Object())));
    }

    private static int post(URI uri, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(uri).POST(HttpRequest.BodyPublishers.ofString(body)).build();
        return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.discarding()).statusCode();
    }

    /** A webhook of the daemon reaches the handler with its body; others do not. */
    @Test
    void webhook() throws Exception {
        BlockingQueue<String> bodies = new ArrayBlockingQueue<>(10);
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/hook", new WebhookVerifier(System.getenv("TICKWHEEL_SECRET")).handler(exchange -> {
            bodies.add(new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8));
            exchange.sendResponseHeaders(204, -1);
            exchange.close();
        }));
        server.start();
        try {
            String url = "http://127.0.0.1:" + server.getAddress().getPort() + "/hook";
            client.create(Create.to(url).after(Duration.ZERO).payload(Map.of("order", 42)));
            assertEquals("{\"order\":42}", bodies.poll(60, TimeUnit.SECONDS));
            assertEquals(401, post(URI.create(url), "x"));
            assertEquals(0, bodies.size());
        } finally {
            server.stop(0);
        }
    }
}
