package tickwheel.bench;

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
