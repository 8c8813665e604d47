package tickwheel.bench;

/** One way to keep timers, as struct self in workloads.h: timers are numbers, times are ticks. */
public abstract class Timers {
    /** Whoever fired in the last advance; advance fills it. */
    public final int[] fired;
    public int firedCount;

    protected Timers(int count) {
        fired = new int[count];
    }

    protected final void fire(int id) {
        fired[firedCount++] = id;
    }

    public abstract void place(int id, long deadline);

    public abstract void cancel(int id);

    public abstract void move(int id, long deadline);

    /** One tick on; called for each. */
    public abstract void advance(long now);

    /** What the timer's own thread would do before its next tick, without moving time. */
    public void settle() {
    }

    /** False if one tick cannot hold all timers. */
    public boolean bursts() {
        return true;
    }

    /** False if what fires has no number of the caller's: it is counted and not re-armed. */
    public boolean knowsIds() {
        return true;
    }
}
