package tickwheel.bench;

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.invoke.VarHandle;
import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.TimeUnit;
import org.agrona.DeadlineTimerWheel;

final class AgronaTimers extends Timers {
    private final DeadlineTimerWheel wheel;
    private final long[] timers;
    private final DeadlineTimerWheel.TimerHandler handler;

    AgronaTimers(int count, long start) {
        super(count);
        wheel = new DeadlineTimerWheel(TimeUnit.MILLISECONDS, start, 1, 65536, 16);
        timers = new long[count];
        handler = (unit, now, timer) -> {
            fire((int) timer);
            return true;
        };
    }

    @Override
    public boolean knowsIds() {
        return false;
    }

    /** Each of the spokes is as long as the longest. */
    @Override
    public boolean bursts() {
        return false;
    }

    @Override
    public void place(int id, long deadline) {
        timers[id] = wheel.scheduleTimer(deadline);
    }

    @Override
    public void cancel(int id) {
        wheel.cancelTimer(timers[id]);
    }

    @Override
    public void move(int id, long deadline) {
        wheel.cancelTimer(timers[id]);
        timers[id] = wheel.scheduleTimer(deadline);
    }

    @Override
    public void advance(long now) {
        while (wheel.currentTickTime() <= now)
            wheel.poll(now, handler, Integer.MAX_VALUE);
    }
}

final class DelayQueueTimers extends Timers {
    private final class Item implements Delayed {
        private final long due;
        private final int id;
        private boolean isCancelled;

        private Item(long due, int id) {
            this.due = due;
            this.id = id;
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return unit.convert(due - now, TimeUnit.MILLISECONDS);
        }

        @Override
        public int compareTo(Delayed other) {
            return Long.compare(due, ((Item) other).due);
        }
    }

    private final DelayQueue<Item> queue = new DelayQueue<>();
    private final Item[] items;
    private long now;

    DelayQueueTimers(int count, long start) {
        super(count);
        items = new Item[count];
        now = start;
    }

    @Override
    public void place(int id, long deadline) {
        items[id] = new Item(deadline, id);
        queue.add(items[id]);
    }

    @Override
    public void cancel(int id) {
        items[id].isCancelled = true;
    }

    @Override
    public void move(int id, long deadline) {
        items[id].isCancelled = true;
        place(id, deadline);
    }

    @Override
    public void advance(long time) {
        now = time;
        for (Item item; (item = queue.poll()) != null;)
            if (!item.isCancelled)
                fire(item.id);
    }
}

/**
 * Netty's wheel without its thread: what the worker does in each tick is called from here, and
 * `startTime` is set so that System.nanoTime() is the virtual time. Private parts, hence handles.
 */
final class NettyTimers extends Timers {
    private static final int WHEEL_SIZE = 65536;
    private static final int TRANSFERS_MAX = 100000; // a tick, says Netty
    private static final int RESET_EVERY = 256;
    private static final VarHandle START_TIME;
    private static final VarHandle STATE;
    private static final VarHandle TICK;
    private static final VarHandle WORKER;
    private static final VarHandle WHEEL;
    private static final MethodHandle TRANSFER;
    private static final MethodHandle PROCESS_CANCELLED;
    private static final MethodHandle EXPIRE;

    static {
        try {
            Class<?> timer = HashedWheelTimer.class;
            Class<?> worker = Class.forName(timer.getName() + "$Worker");
            Class<?> bucket = Class.forName(timer.getName() + "$HashedWheelBucket");
            MethodHandles.Lookup here = MethodHandles.lookup();
            MethodHandles.Lookup inTimer = MethodHandles.privateLookupIn(timer, here);
            MethodHandles.Lookup inWorker = MethodHandles.privateLookupIn(worker, here);
            MethodHandles.Lookup inBucket = MethodHandles.privateLookupIn(bucket, here);
            MethodType nothing = MethodType.methodType(void.class);
            START_TIME = inTimer.findVarHandle(timer, "startTime", long.class);
            STATE = inTimer.findVarHandle(timer, "workerState", int.class);
            WORKER = inTimer.findVarHandle(timer, "worker", worker);
            WHEEL = inTimer.findVarHandle(timer, "wheel", bucket.arrayType());
            TICK = inWorker.findVarHandle(worker, "tick", long.class);
            TRANSFER = inWorker.findVirtual(worker, "transferTimeoutsToBuckets", nothing)
                .asType(MethodType.methodType(void.class, Object.class));
            PROCESS_CANCELLED = inWorker.findVirtual(worker, "processCancelledTasks", nothing)
                .asType(MethodType.methodType(void.class, Object.class));
            EXPIRE = inBucket.findVirtual(bucket, "expireTimeouts",
                MethodType.methodType(void.class, long.class))
                .asType(MethodType.methodType(void.class, Object.class, long.class));
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final HashedWheelTimer timer;
    private final Object worker;
    private final Object[] wheel;
    private final Timeout[] timeouts;
    private final TimerTask[] tasks;
    private final long start;
    private long now;
    private long tick;
    private int placed;

    NettyTimers(int count, long start) {
        super(count);
        timer = new HashedWheelTimer(NettyTimers::daemon, 1, TimeUnit.MILLISECONDS, WHEEL_SIZE,
            false);
        STATE.set(timer, HashedWheelTimer.WORKER_STATE_STARTED);
        worker = WORKER.get(timer);
        wheel = (Object[]) WHEEL.get(timer);
        timeouts = new Timeout[count];
        tasks = new TimerTask[count];
        for (int i = 0; i < count; i++) {
            int id = i;
            tasks[i] = timeout -> fire(id);
        }
        this.start = start;
        now = start;
        resetTime();
    }

    /** Of a timer with any other thread Netty expects that it is stopped. */
    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    private void resetTime() {
        START_TIME.setVolatile(timer, System.nanoTime() - (now - start) * 1000000);
    }

    @Override
    public void place(int id, long deadline) {
        if (++placed % RESET_EVERY == 0)
            resetTime();
        timeouts[id] = timer.newTimeout(tasks[id], deadline - now, TimeUnit.MILLISECONDS);
    }

    @Override
    public void cancel(int id) {
        timeouts[id].cancel();
    }

    @Override
    public void move(int id, long deadline) {
        timeouts[id].cancel();
        place(id, deadline);
    }

    @Override
    public void settle() {
        try {
            PROCESS_CANCELLED.invokeExact(worker);
            for (int i = 0; i <= timeouts.length / TRANSFERS_MAX; i++)
                TRANSFER.invokeExact(worker);
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }

    /** As Worker.run: tick k is over, and its timers due, when k + 1 milliseconds are. */
    @Override
    public void advance(long time) {
        now = time;
        resetTime();
        try {
            while (tick + 1 <= now - start) {
                PROCESS_CANCELLED.invokeExact(worker);
                TRANSFER.invokeExact(worker);
                EXPIRE.invokeExact(wheel[(int) (tick & WHEEL_SIZE - 1)], (tick + 1) * 1000000);
                TICK.set(worker, ++tick);
            }
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }
}
