package tickwheel.bench;

import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.TimeUnit;

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
