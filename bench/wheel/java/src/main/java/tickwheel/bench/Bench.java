package tickwheel.bench;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.kafka.server.util.timer.KafkaTimers;

/**
 * The workloads of workloads.h for the peers on a JVM: Bench SUBJECT [timers]. They run once with
 * fewer timers to warm up, then once for the figures. Time is what this thread has run, as for the
 * others: what the collector does on threads of its own is not in it.
 */
public final class Bench {
    private static final int HOUR = 3600000;
    private static final int TIMEOUT = 30000;
    private static final int PERIOD_MAX = 10000;
    private static final int OPS_PER_TICK = 1000;
    private static final int CHURN_OPS = 1 << 25;
    private static final int CHECKED = 16;
    private static final int PICKS = 1 << 22;
    private static final int WARM_UP = 100000;
    // Ticks: Netty and Agrona fire in the tick after, and Netty's deadlines, which are the real
    // time's, are later by a pause of the collector while it was filled.
    private static final int LATE_MAX = 10000;
    private static final long START = 1000000007;
    private static final long PATIENCE_NS = 1500000000;
    private static final long SLOW_STEP = 200000; // nanoseconds
    private static final long WARM_UP_PATIENCE_NS = 300000000;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private interface Maker {
        Timers make(int count, long start);
    }

    private final Maker maker;
    private final long patienceNs;
    private final int count;
    private final int[] delays;
    private final int[] order;
    private final int[] periods;
    private final int[] picks = new int[PICKS];
    private final Map<String, Double> figures = new LinkedHashMap<>();
    private final List<String> cut = new ArrayList<>();
    private long lateTicks = -1;
    private long churned;
    private long refired;
    private long state = 0x9e3779b97f4a7c15L;

    private Bench(Maker maker, int count, long patienceNs) {
        this.maker = maker;
        this.patienceNs = patienceNs;
        this.count = count;
        delays = new int[count];
        order = new int[count];
        periods = new int[count];
        for (int i = 0; i < count; i++) {
            delays[i] = 1 + below(HOUR);
            periods[i] = 1 + below(PERIOD_MAX);
            order[i] = i;
        }
        for (int i = count - 1; i > 0; i--) {
            int j = below(i + 1);
            int swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
        for (int i = 0; i < PICKS; i++)
            picks[i] = below(count);
    }

    private int below(int bound) {
        state ^= state << 13;
        state ^= state >>> 7;
        state ^= state << 17;
        return (int) ((state * 2685821657736338717L >>> 32) * bound >>> 32);
    }

    private static void must(boolean holds, String what) {
        if (!holds)
            throw new IllegalStateException(what);
    }

    private static long cpuTime() {
        return THREADS.getCurrentThreadCpuTime();
    }

    private double since(long began, long operations) {
        return (double) (cpuTime() - began) / operations;
    }

    private static long used() {
        for (int i = 0; i < 3; i++)
            System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    private double fill(Timers timers) {
        long began = cpuTime();
        for (int i = 0; i < count; i++)
            timers.place(i, START + delays[i]);
        timers.settle();
        return since(began, count);
    }

    private void fillAndCancel(boolean wantsBytes) {
        long before = wantsBytes ? used() : 0;
        Timers timers = maker.make(count, START);
        figures.put("fill", fill(timers));
        if (wantsBytes)
            figures.put("bytes", (double) (used() - before) / count - 4); // less `fired`
        long began = cpuTime();
        for (int i = 0; i < count; i++)
            timers.cancel(order[i]);
        timers.settle();
        figures.put("cancel", since(began, count));
    }

    private void expire() {
        Timers timers = maker.make(count, START);
        fill(timers);
        long sum = 0;
        long mix = 0;
        long began = cpuTime();
        for (long now = START; sum < count && now <= START + HOUR + LATE_MAX; now++) {
            timers.advance(now);
            for (int i = 0; i < timers.firedCount; i++)
                mix ^= timers.fired[i];
            sum += timers.firedCount;
            timers.firedCount = 0;
        }
        figures.put("expire", since(began, count));
        must(sum == count && mix != -1, "expire: not all fired");
    }

    private void slowSteps() {
        Timers timers = maker.make(count, START);
        fill(timers);
        int slow = 0;
        long last = cpuTime();
        for (long now = START; now <= START + HOUR; now++) {
            timers.advance(now);
            long time = cpuTime();
            slow += time - last > SLOW_STEP ? 1 : 0;
            last = time;
            if (timers.firedCount > 0) {
                for (int i = 0; i < timers.firedCount && timers.knowsIds(); i++) {
                    long late = now - START - delays[timers.fired[i]];
                    must(late >= 0, "expire: early");
                    lateTicks = Math.max(lateTicks, late);
                }
                timers.firedCount = 0;
                last = cpuTime();
            }
        }
        figures.put("slow_steps", (double) slow);
    }

    private long now;

    private int churnSome(Timers timers) {
        long end = cpuTime() + patienceNs;
        for (int op = 0; op < CHURN_OPS;) {
            for (int k = 0; k < OPS_PER_TICK; k++)
                timers.move(picks[(op + k) & (PICKS - 1)], now + TIMEOUT);
            timers.advance(++now);
            if (timers.knowsIds())
                for (int i = 0; i < timers.firedCount; i++)
                    timers.place(timers.fired[i], now + TIMEOUT);
            timers.firedCount = 0;
            op += OPS_PER_TICK;
            if (now % CHECKED == 0 && cpuTime() > end)
                return op;
        }
        return CHURN_OPS;
    }

    private void churn() {
        Timers timers = maker.make(count, START);
        now = START;
        for (int i = 0; i < count; i++)
            timers.place(i, now + 1 + delays[i] % TIMEOUT);
        timers.settle();
        boolean isCut = churnSome(timers) < CHURN_OPS;
        long began = cpuTime();
        churned = churnSome(timers);
        figures.put("churn", since(began, churned));
        if (isCut || churned < CHURN_OPS)
            cut.add("churn");
    }

    private long periodicSome(Timers timers, long first, long end) {
        long patience = cpuTime() + patienceNs;
        long tick = first;
        refired = 0;
        for (; tick < end && (tick % CHECKED != 0 || cpuTime() < patience); tick++) {
            timers.advance(START + tick);
            int fired = timers.firedCount;
            timers.firedCount = 0;
            refired += fired;
            for (int i = 0; i < fired; i++)
                timers.place(timers.fired[i], START + tick + periods[timers.fired[i]]);
        }
        return tick;
    }

    private void periodic() {
        Timers timers = maker.make(count, START);
        if (!timers.knowsIds())
            return;
        for (int i = 0; i < count; i++)
            timers.place(i, START + 1 + delays[i] % periods[i]);
        timers.settle();
        long tick = periodicSome(timers, 1, PERIOD_MAX / 5);
        boolean isCut = tick < PERIOD_MAX / 5;
        long began = cpuTime();
        tick = periodicSome(timers, tick, PERIOD_MAX + 1);
        figures.put("periodic", since(began, refired));
        if (isCut || tick <= PERIOD_MAX)
            cut.add("periodic");
    }

    private void burst() {
        Timers timers = maker.make(count, START);
        if (!timers.bursts())
            return;
        long due = START + 1000;
        for (int i = 0; i < count; i++)
            timers.place(order[i], due);
        timers.settle();
        for (long time = START; time < due; time++)
            timers.advance(time);
        must(timers.firedCount == 0, "burst: early");
        long mix = 0;
        long began = cpuTime();
        for (long time = due; timers.firedCount < count && time <= due + LATE_MAX; time++)
            timers.advance(time);
        for (int i = 0; i < timers.firedCount; i++)
            mix ^= timers.fired[i];
        figures.put("burst", since(began, count));
        must(timers.firedCount == count && mix != -1, "burst: not all fired");
    }

    private void run(boolean wantsBytes) {
        cut.clear();
        fillAndCancel(wantsBytes);
        System.gc();
        expire();
        System.gc();
        slowSteps();
        System.gc();
        churn();
        System.gc();
        periodic();
        System.gc();
        burst();
    }

    private void print(String name, String version, String note) {
        StringBuilder text = new StringBuilder();
        text.append(String.format("{\"name\": \"%s\", \"kind\": \"peer\", \"note\": \"%s\", ", name, note));
        if (lateTicks >= 0)
            text.append(String.format("\"late_ticks\": %d, ", lateTicks));
        text.append(String.format("\"version\": \"%s\", \"churn_count\": %d, ", version, churned));
        text.append(String.format("\"fired_count\": %d, \"cut\": [", refired));
        text.append(String.join(", ", cut.stream().map(key -> '"' + key + '"').toList()));
        text.append("], \"figures\": {");
        text.append(String.join(", ", figures.entrySet().stream()
            .map(entry -> String.format(Locale.ROOT, "\"%s\": %.3f", entry.getKey(), entry.getValue()))
            .toList()));
        System.out.println(text.append("}}"));
    }

    private static String versionOf(Class<?> type) {
        // The jar's name: not all of them say it in their manifest.
        String path = type.getProtectionDomain().getCodeSource().getLocation().getPath();
        return path.replaceAll(".*/[a-z-]+-([0-9][^/]*)\\.jar$", "$1");
    }

    public static void main(String[] arguments) {
        String subject = arguments[0];
        int count = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 1000000;
        Maker maker;
        String name;
        String version;
        String note;
        switch (subject) {
            case "netty" -> {
                maker = NettyTimers::new;
                name = "Netty HashedWheelTimer";
                version = versionOf(io.netty.util.HashedWheelTimer.class);
                note = "1 ms x 65,536; its worker's steps, called by the benchmark in virtual time; "
                    + "fires in the tick after";
            }
            case "kafka" -> {
                maker = KafkaTimers::new;
                name = "Kafka TimingWheel";
                version = versionOf(org.apache.kafka.common.utils.Time.class);
                note = "1 ms x 512; virtual time; without SystemTimer's lock";
            }
            case "agrona" -> {
                maker = AgronaTimers::new;
                name = "Agrona DeadlineTimerWheel";
                version = versionOf(org.agrona.DeadlineTimerWheel.class);
                note = "1 ms x 65,536; virtual time; fires in the tick after; hands back an id of "
                    + "its own, so nothing re-arms; a burst needs every spoke as long as the longest";
            }
            case "delayqueue" -> {
                maker = DelayQueueTimers::new;
                name = "java.util.concurrent.DelayQueue";
                version = "Java " + Runtime.version().feature();
                note = "virtual time; cancel only marks, as remove is O(n)";
            }
            default -> throw new IllegalArgumentException(Arrays.toString(arguments));
        }
        new Bench(maker, Math.min(count, WARM_UP), WARM_UP_PATIENCE_NS).run(false);
        Bench bench = new Bench(maker, count, PATIENCE_NS);
        bench.run(true);
        bench.print(name, version, note);
    }
}
