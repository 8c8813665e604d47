import java.util.List;
import java.util.ArrayList;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.server.purgatory.DelayedOperation;
import org.apache.kafka.server.purgatory.DelayedOperationKey;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;

/**
 * Kafka's own purgatory under the load of purgatory_bench.c, as near as it goes: its timer reads the system's clock, so
 * time is real here, and how many are in flight follows from the rate that it reaches.
 *
 *     PurgatoryBench REQUESTS WARM TIMEOUT_MS   one thread submits; Kafka's reaper is another
 */
public final class PurgatoryBench {
    record Key(long value) implements DelayedOperationKey {
        @Override
        public String keyLabel() {
            return Long.toString(value);
        }
    }

    static final AtomicLong BY_TIMEOUT = new AtomicLong();
    static final AtomicLong BY_EVENT = new AtomicLong();

    static final class Request extends DelayedOperation {
        volatile boolean isReady;

        Request(long timeoutMs) {
            super(timeoutMs);
        }

        @Override
        public void onExpiration() {
            BY_TIMEOUT.incrementAndGet();
        }

        @Override
        public void onComplete() {
            BY_EVENT.incrementAndGet(); // both ways come by here
        }

        @Override
        public boolean tryComplete() {
            return isReady && forceComplete();
        }
    }

    static long mix(long value) {
        value += 0x9e3779b97f4a7c15L;
        value = (value ^ value >>> 30) * 0xbf58476d1ce4e5b9L;
        value = (value ^ value >>> 27) * 0x94d049bb133111ebL;
        return value ^ value >>> 31;
    }

    static long cpuNs() {
        return ((com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory
            .getOperatingSystemMXBean()).getProcessCpuTime();
    }

    public static void main(String[] arguments) throws Exception {
        int requests = Integer.parseInt(arguments[0]);
        int warm = Integer.parseInt(arguments[1]);
        long timeoutMs = Long.parseLong(arguments[2]);
        System.out.println("by event   keys | in flight requests/s  cpu ns |    watched   heap MB");
        for (int keyCount : new int[] {1, 3})
            for (int percent : new int[] {0, 50, 75, 100})
                run(requests, warm, timeoutMs, keyCount, percent);
        System.exit(0);
    }

    static void run(int requests, int warm, long timeoutMs, int keyCount, int percent) throws Exception {
        var purgatory = new DelayedOperationPurgatory<Request>("bench", 0);
        Request[] waiting = new Request[warm + requests];
        long[] submittedAt = new long[warm + requests];
        int next = 0; // whose event comes next, half a time-out after it was submitted
        int watchedMost = 0;
        long delayedSum = 0, samples = 0;
        BY_EVENT.set(0);
        BY_TIMEOUT.set(0);
        long cpu = 0, wall = 0;
        for (int i = 0; i < warm + requests; i++) {
            if (i == warm) {
                cpu = cpuNs();
                wall = System.nanoTime();
            }
            var request = new Request(timeoutMs);
            waiting[i] = request;
            submittedAt[i] = System.nanoTime();
            List<Key> keys = new ArrayList<>(keyCount);
            keys.add(new Key(i + 1000L));
            for (int k = 1; k < keyCount; k++)
                keys.add(new Key(Long.remainderUnsigned(mix(i * 3L + k), 1000)));
            purgatory.tryCompleteElseWatch(request, keys);
            for (; next < i && submittedAt[i] - submittedAt[next] >= timeoutMs * 500000; next++) {
                if (Long.remainderUnsigned(mix(next), 100) < percent) {
                    waiting[next].isReady = true;
                    purgatory.checkAndComplete(new Key(next + 1000L));
                }
                waiting[next] = null;
            }
            if (i % 16384 == 0) {
                watchedMost = Math.max(watchedMost, purgatory.watched());
                delayedSum += purgatory.numDelayed();
                samples++;
            }
        }
        cpu = cpuNs() - cpu;
        wall = System.nanoTime() - wall;
        var memory = Runtime.getRuntime();
        long used = (memory.totalMemory() - memory.freeMemory()) / 1000000;
        long late = BY_TIMEOUT.get(), all = BY_EVENT.get();
        System.out.printf("%6.1f %%  %5d | %9d %10.0f %7.0f | %10d %9d%n", 100.0 * (all - late) / Math.max(1, all),
            keyCount, delayedSum / samples, requests / (wall / 1e9), (double) cpu / requests, watchedMost, used);
        purgatory.shutdown();
    }
}
