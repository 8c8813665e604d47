package tickwheel;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * Leases the items of a queue, runs a function for each on threads of its own, and acknowledges: an item whose function
 * returns is done; one whose function throws is given back, and comes again as the timer's retry says. Leases are
 * extended meanwhile. An item comes at least once: drop known ids in the transaction of the work.
 *
 * A stop lets what was begun end, for the time of `drain`. Then the functions that still run are interrupted, and their
 * items are named in the log and come again when their lease ends. The threads are daemons: what ignores the interrupt
 * does not keep the process from ending.
 */
public final class Worker {
    private static final System.Logger LOG = System.getLogger(Worker.class.getName());
    private static final Duration WAIT = Duration.ofSeconds(5); // for a first item; a stop is noticed at its end
    private static final long PAUSE_MS = 1000; // after the service was not reachable, beyond the client's retries
    private static final int ERROR_BYTES_MAX = 159; // of the reason of a failure, which the service stores

    private final Client client;
    private final String queue;
    private final Function function;
    private final int concurrency;
    private final Duration lease;
    private final Duration drain;
    private final Map<String, String> underWay = new ConcurrentHashMap<>(); // receipts, with the ids of their items
    private volatile boolean isStopping;

    /** What is done with an item. */
    @FunctionalInterface
    public interface Function {
        void run(Item item) throws Exception;
    }

    /** Thrown by a function: the item comes again after the delay. */
    public static final class Retry extends Exception {
        private static final long serialVersionUID = 1;
        private final Duration delay;

        public Retry(Duration delay, String reason) {
            super(reason);
            this.delay = delay;
        }
    }

    /** Thrown by a function: the item becomes a dead letter at once. */
    public static final class Dead extends Exception {
        private static final long serialVersionUID = 1;

        public Dead(String reason) {
            super(reason);
        }
    }

    /** One with leases of 30 seconds, and 30 seconds for a stop. */
    public Worker(Client client, String queue, int concurrency, Function function) {
        this(client, queue, concurrency, Duration.ofSeconds(30), Duration.ofSeconds(30), function);
    }

    /** `lease` is extended at a third of it; `drain` is how long a stop waits for what was begun; then it is interrupted. */
    public Worker(Client client, String queue, int concurrency, Duration lease, Duration drain, Function function) {
        if (concurrency < 1 || lease.compareTo(Duration.ofSeconds(1)) < 0)
            throw new IllegalArgumentException("a worker needs a concurrency of 1, and a lease of a second, or more");
        this.client = client;
        this.queue = queue;
        this.concurrency = concurrency;
        this.lease = lease;
        this.drain = drain;
        this.function = function;
    }

    /** Ends {@link #run}, once what was begun is finished. Any thread. */
    public void stop() {
        isStopping = true;
    }

    /** Works until stopped or interrupted. */
    public void run() throws InterruptedException {
        ExecutorService threads = Executors.newFixedThreadPool(concurrency, task -> daemon(task, "tickwheel-worker"));
        var heart = Executors.newSingleThreadScheduledExecutor(task -> daemon(task, "tickwheel-extend"));
        heart.scheduleAtFixedRate(this::extend, lease.toMillis() / 3, lease.toMillis() / 3, TimeUnit.MILLISECONDS);
        Semaphore free = new Semaphore(concurrency);
        try {
            while (!isStopping) {
                if (!free.tryAcquire(WAIT.toMillis(), TimeUnit.MILLISECONDS))
                    continue;
                int places = 1 + free.drainPermits();
                List<Item> items = leaseItems(places);
                for (Item item : items)
                    threads.execute(() -> {
                        try {
                            handle(item);
                        } finally {
                            free.release();
                        }
                    });
                free.release(places - items.size());
            }
            threads.shutdown();
            if (!threads.awaitTermination(drain.toMillis(), TimeUnit.MILLISECONDS))
                nameLeft();
        } finally {
            threads.shutdownNow();
            heart.shutdownNow();
        }
    }

    private static Thread daemon(Runnable task, String name) {
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        return thread;
    }

    private void nameLeft() {
        for (String id : underWay.values())
            LOG.log(System.Logger.Level.WARNING,
                    "item " + id + " still runs after " + drain + ": it comes again when its lease ends");
    }

    private List<Item> leaseItems(int max) throws InterruptedException {
        try {
            List<Item> items = client.lease(queue, max, WAIT, lease);
            items.forEach(item -> underWay.put(item.receipt(), item.id()));
            return items;
        } catch (TickwheelException error) {
            LOG.log(System.Logger.Level.WARNING, "lease of " + queue + ": " + error.getMessage());
            Thread.sleep(PAUSE_MS);
            return List.of();
        }
    }

    /** What the function throws; null: it is done. */
    private Exception failureOf(Item item) {
        try {
            function.run(item);
            return null;
        } catch (Exception error) {
            return error;
        }
    }

    private void handle(Item item) {
        List<String> receipt = List.of(item.receipt());
        try {
            Exception failure = failureOf(item);
            Duration delay = failure instanceof Retry retry ? retry.delay : null;
            List<String> results = failure == null ? client.ack(queue, receipt)
                    : client.nack(queue, receipt, delay, reason(failure), failure instanceof Dead);
            if (!results.equals(List.of("ok")))
                LOG.log(System.Logger.Level.WARNING, "item " + item.id() + ": its lease was over; it may come again");
        } catch (RuntimeException error) {
            LOG.log(System.Logger.Level.WARNING,
                    "item " + item.id() + ": its end could not be told, so it comes again: " + error.getMessage());
        } finally {
            underWay.remove(item.receipt());
        }
    }

    private static String reason(Exception error) {
        String text = error.getMessage() == null ? error.getClass().getSimpleName() : error.getMessage();
        ByteBuffer bytes = ByteBuffer.allocate(ERROR_BYTES_MAX);
        CharBuffer chars = CharBuffer.wrap(text);
        StandardCharsets.UTF_8.newEncoder().encode(chars, bytes, true); // stops before a character that does not fit
        return text.substring(0, chars.position());
    }

    private void extend() {
        List<String> receipts = new ArrayList<>(underWay.keySet());
        for (int begin = 0; begin < receipts.size(); begin += 1000)
            try {
                client.extend(queue, receipts.subList(begin, Math.min(begin + 1000, receipts.size())), lease);
            } catch (RuntimeException error) {
                LOG.log(System.Logger.Level.WARNING, "leases could not be extended: " + error.getMessage());
            }
    }
}
