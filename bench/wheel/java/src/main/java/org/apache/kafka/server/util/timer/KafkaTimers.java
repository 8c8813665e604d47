package org.apache.kafka.server.util.timer;

import java.util.concurrent.DelayQueue;
import java.util.concurrent.atomic.AtomicInteger;
import tickwheel.bench.Timers;

/** Kafka's wheel as SystemTimer drives it; in its package, as some of that is not public. */
public final class KafkaTimers extends Timers {
    private final class Task extends TimerTask {
        private final int id;

        private Task(int id) {
            super(0);
            this.id = id;
        }

        @Override
        public void run() {
            fire(id);
        }
    }

    private final DelayQueue<TimerTaskList> queue = new DelayQueue<>();
    private final TimingWheel wheel;
    private final Task[] tasks;

    public KafkaTimers(int count, long start) {
        super(count);
        wheel = new TimingWheel(1, 512, start, new AtomicInteger(), queue);
        tasks = new Task[count];
        for (int i = 0; i < count; i++)
            tasks[i] = new Task(i);
    }

    private void add(TimerTaskEntry entry) {
        if (!wheel.add(entry) && !entry.cancelled())
            entry.timerTask.run();
    }

    @Override
    public void place(int id, long deadline) {
        add(new TimerTaskEntry(tasks[id], deadline));
    }

    @Override
    public void cancel(int id) {
        tasks[id].cancel();
    }

    /** A new entry takes out the task's old one. */
    @Override
    public void move(int id, long deadline) {
        place(id, deadline);
    }

    /** Not DelayQueue.poll, which would ask the real clock whether the bucket is due. */
    @Override
    public void advance(long now) {
        for (TimerTaskList bucket; (bucket = queue.peek()) != null && bucket.getExpiration() <= now;) {
            queue.remove(bucket);
            wheel.advanceClock(bucket.getExpiration());
            bucket.flush(this::add);
        }
    }
}
