import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * Java's scheduled pool, with one thread, under the load of runner_bench.c, whose rows it prints: Pairs WINDOWS
 * newest|random THREADS. A cancelled task leaves the queue at once: otherwise it would stay for up to a minute.
 */
public final class Pairs {
    static final int OUTSTANDING = 100000;
    static final int PAIRS_PER_LOOK = 256;
    static final long WINDOW_NS = 5_000_000L;
    static final long WARM_NS = 2_000_000_000L; // until the code is compiled

    static final ScheduledThreadPoolExecutor POOL = new ScheduledThreadPoolExecutor(1);
    static volatile long grid;

    static final class Worker extends Thread {
        final int number;
        final int windows;
        final boolean isRandom;
        final Future<?>[] timers;
        final CountDownLatch ready;
        final CountDownLatch start;
        final StringBuilder rows = new StringBuilder();
        long random;

        Worker(int number, int threads, int windows, boolean isRandom, CountDownLatch ready, CountDownLatch start) {
            this.number = number;
            this.windows = windows;
            this.isRandom = isRandom;
            this.ready = ready;
            this.start = start;
            timers = new Future<?>[OUTSTANDING / threads];
            random = 88172645463325252L + number;
        }

        long draw() {
            random ^= random << 13;
            random ^= random >>> 7;
            random ^= random << 17;
            return random * 2685821657736338717L;
        }

        Future<?> schedule() {
            return POOL.schedule(() -> { }, 10000 + (draw() >>> 32) % 60000, TimeUnit.MILLISECONDS);
        }

        void pairs() {
            for (int i = 0; i < PAIRS_PER_LOOK; i++) {
                Future<?> timer = schedule();
                if (isRandom) {
                    int which = (int) ((draw() >>> 32) % timers.length);
                    Future<?> other = timers[which];
                    timers[which] = timer;
                    timer = other;
                }
                timer.cancel(false);
            }
        }

        /** How long the thread has waited for a processor. */
        static long waitedNs() {
            try {
                return Long.parseLong(Files.readString(Path.of("/proc/thread-self/schedstat")).split(" ")[1]);
            } catch (IOException missing) {
                return 0;
            }
        }

        @Override
        public void run() {
            for (int i = 0; i < timers.length; i++)
                timers[i] = schedule();
            ready.countDown();
            try {
                start.await();
            } catch (InterruptedException interrupted) {
                return;
            }
            long now = System.nanoTime();
            for (; now < grid; now = System.nanoTime())
                pairs();
            for (;;) {
                int which = (int) ((now - grid) / WINDOW_NS);
                if (which >= windows)
                    return;
                long began = now, waited = waitedNs(), count = 0, end = grid + (which + 1) * WINDOW_NS;
                for (; now < end; now = System.nanoTime()) {
                    pairs();
                    count += PAIRS_PER_LOOK;
                }
                rows.append(number + " " + which + " " + count + " " + (now - began) + " " + (waitedNs() - waited) + "\n");
            }
        }
    }

    static long cpuNs() {
        return ((com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory
            .getOperatingSystemMXBean()).getProcessCpuTime();
    }

    public static void main(String[] arguments) throws Exception {
        int threads = Integer.parseInt(arguments[2]);
        var ready = new CountDownLatch(threads);
        var start = new CountDownLatch(1);
        List<Worker> workers = new ArrayList<>();
        POOL.setRemoveOnCancelPolicy(true);
        for (int i = 0; i < threads; i++) {
            workers.add(new Worker(i, threads, Integer.parseInt(arguments[0]), arguments[1].equals("random"), ready, start));
            workers.get(i).start();
        }
        ready.await();
        grid = System.nanoTime() + WARM_NS;
        start.countDown();
        Thread.sleep(WARM_NS / 1_000_000);
        long began = cpuNs();
        for (Worker worker : workers) {
            worker.join();
            System.out.print(worker.rows);
        }
        System.out.println("cpu " + (cpuNs() - began));
        System.exit(0);
    }
}
