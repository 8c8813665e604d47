/* ring_oracle.c - a ring as a plain list of items, and random commands that compare both. */
#include "oracles.h"

#include <tickwheel/ring.h>

enum { ITEMS = 128, BATCH = 16 };

struct ring_entry {
    bool is_used;
    bool is_waiting; /* to be taken, the ring having stopped at its sector */
    uint32_t sector;
    int64_t interval;
    tw_handle handle; /* stale ones stay, to be tried again */
};

struct ring_run {
    struct conformance_source *source;
    struct tw_ring *ring;
    uint32_t size;
    uint32_t tick;
    struct ring_entry entries[ITEMS];
    struct ring_tally tally;
};

static uint32_t sector_at(const struct ring_run *run, uint32_t sector, int64_t offset)
{
    int64_t steps = offset % (int64_t)run->size;

    for (; steps > 0; steps--)
        sector = sector + 1 == run->size ? 0 : sector + 1;
    for (; steps < 0; steps++)
        sector = sector == 0 ? run->size - 1 : sector - 1;
    return sector;
}

static size_t count_where(const struct ring_run *run, uint32_t sector)
{
    size_t count = 0;

    for (size_t i = 0; i < ITEMS; i++)
        count += run->entries[i].is_used && run->entries[i].sector == sector;
    return count;
}

static size_t count_waiting(const struct ring_run *run)
{
    size_t count = 0;

    for (size_t i = 0; i < ITEMS; i++)
        count += run->entries[i].is_used && run->entries[i].is_waiting;
    return count;
}

static size_t count_all(const struct ring_run *run)
{
    size_t count = 0;

    for (size_t i = 0; i < ITEMS; i++)
        count += run->entries[i].is_used;
    return count;
}

/* Reads one sector, another at each step, and finds each of its items in the model once. */
static void run_read(struct ring_run *run)
{
    struct tw_ring_item items[ITEMS];
    int64_t offset = (int64_t)(run->tally.steps % (3 * (uint64_t)run->size)) - run->size;
    uint32_t sector = sector_at(run, run->tick, offset);
    size_t count = tw_ring_read_at(run->ring, offset, items, ITEMS);
    bool is_seen[ITEMS] = {false};

    REQUIRE(count == count_where(run, sector));
    REQUIRE(tw_ring_read_at(run->ring, offset, items, count / 2) == count / 2);
    for (size_t i = 0; i < count; i++) {
        const struct ring_entry *entry = &run->entries[items[i].data];
        REQUIRE(entry->is_used && !is_seen[items[i].data] && entry->handle == items[i].item);
        REQUIRE(items[i].tick == sector && items[i].interval == entry->interval);
        is_seen[items[i].data] = true;
    }
}

static void run_compare(struct ring_run *run)
{
    uint64_t wake_in = TW_NEVER;

    tw_ring_check(run->ring);
    REQUIRE(tw_ring_size(run->ring) == run->size);
    REQUIRE(tw_ring_tick(run->ring) == run->tick);
    REQUIRE(tw_ring_count(run->ring) == count_all(run));
    run_read(run);
    for (int64_t offset = run->size; offset > 0; offset--)
        if (count_where(run, sector_at(run, run->tick, offset)))
            wake_in = (uint64_t)offset;
    REQUIRE(tw_ring_wake_in(run->ring) == (count_waiting(run) ? 0 : wake_in));

    size_t i = (size_t)conformance_below(run->source, ITEMS);
    const struct ring_entry *entry = &run->entries[i];
    struct tw_ring_item item;
    REQUIRE(tw_ring_find(run->ring, entry->handle, &item) == entry->is_used);
    if (entry->is_used)
        REQUIRE(item.data == i && item.tick == entry->sector && item.interval == entry->interval &&
                item.item == entry->handle);
}

static int64_t run_offset(struct ring_run *run)
{
    if (conformance_below(run->source, 8) == 0)
        return (int64_t)conformance_choose(run->source);
    return (int64_t)conformance_below(run->source, 4 * (uint64_t)run->size + 1) - 2 * run->size;
}

static int64_t run_interval(struct ring_run *run)
{
    if (conformance_below(run->source, 16) == 0)
        return (int64_t)conformance_choose(run->source);
    return (int64_t)conformance_below(run->source, 2 * (uint64_t)run->size + 5) - run->size - 2;
}

/* A free entry, or ITEMS. */
static size_t run_free(const struct ring_run *run)
{
    size_t i = 0;

    while (i < ITEMS && run->entries[i].is_used)
        i++;
    return i;
}

static void entry_add(struct ring_run *run, size_t i, tw_handle handle, int64_t offset,
                      int64_t interval)
{
    run->entries[i] = (struct ring_entry){
        .is_used = true,
        .sector = sector_at(run, run->tick, offset),
        .interval = interval,
        .handle = handle,
    };
}

static void run_add(struct ring_run *run)
{
    size_t i = run_free(run);
    int64_t offset = run_offset(run), interval = run_interval(run);

    if (i == ITEMS)
        return;
    if (conformance_below(run->source, 2)) {
        tw_handle handle = tw_ring_add(run->ring, offset, i);
        REQUIRE(handle != TW_NONE);
        entry_add(run, i, handle, offset, 0);
        return;
    }
    tw_handle handle = tw_ring_add_moving(run->ring, offset, interval, i);
    bool fits = interval >= -(int64_t)run->size && interval <= run->size;
    REQUIRE((handle != TW_NONE) == fits);
    if (fits)
        entry_add(run, i, handle, offset, interval);
}

static void run_add_many(struct ring_run *run)
{
    uint64_t data[BATCH];
    tw_handle handles[BATCH];
    size_t wanted = (size_t)conformance_below(run->source, BATCH + 1), count = 0;
    int64_t offset = run_offset(run);

    for (size_t i = 0; i < ITEMS && count < wanted; i++)
        if (!run->entries[i].is_used)
            data[count++] = i;
    REQUIRE(tw_ring_add_many(run->ring, offset, data, count, handles));
    for (size_t i = 0; i < count; i++)
        entry_add(run, (size_t)data[i], handles[i], offset, 0);
}

/* Removes one, many (some of them stale), or all of a sector. */
static void run_remove(struct ring_run *run)
{
    size_t first = (size_t)conformance_below(run->source, ITEMS);
    int64_t offset = run_offset(run);
    uint32_t sector = sector_at(run, run->tick, offset);
    tw_handle handles[BATCH];
    size_t count = 0, expected = 0;

    switch (conformance_below(run->source, 4)) {
    case 0:
        REQUIRE(tw_ring_remove_at(run->ring, offset) == count_where(run, sector));
        for (size_t i = 0; i < ITEMS; i++)
            run->entries[i].is_used = run->entries[i].is_used && run->entries[i].sector != sector;
        break;
    case 1:
        for (size_t i = first; i < ITEMS && count < BATCH; i += 3) {
            handles[count++] = run->entries[i].handle;
            expected += run->entries[i].is_used;
            run->entries[i].is_used = false;
        }
        REQUIRE(tw_ring_remove_many(run->ring, handles, count) == expected);
        break;
    default:
        REQUIRE(tw_ring_remove(run->ring, run->entries[first].handle) ==
                run->entries[first].is_used);
        run->entries[first].is_used = false;
    }
}

static void run_move(struct ring_run *run)
{
    struct ring_entry *entry = &run->entries[conformance_below(run->source, ITEMS)];
    int64_t offset = run_offset(run), interval = run_interval(run);

    if (conformance_below(run->source, 2)) {
        REQUIRE(tw_ring_reschedule(run->ring, entry->handle, offset) == entry->is_used);
        entry->sector = sector_at(run, run->tick, offset);
        entry->is_waiting = false;
        return;
    }
    bool fits = interval >= -(int64_t)run->size && interval <= run->size;
    REQUIRE(tw_ring_set_interval(run->ring, entry->handle, interval) == (entry->is_used && fits));
    if (entry->is_used && fits)
        entry->interval = interval;
}

static void run_change(struct ring_run *run)
{
    switch (conformance_below(run->source, 6)) {
    case 0:
    case 1:
        run_add(run);
        break;
    case 2:
        run_add_many(run);
        break;
    case 3:
        run_remove(run);
        break;
    default:
        run_move(run);
    }
    run_compare(run);
}

static void run_advance(struct ring_run *run)
{
    uint64_t ticks = conformance_below(run->source, 10) ? conformance_below(run->source, 8)
                                                        : conformance_choose(run->source);
    uint64_t moved = 0;

    if (count_waiting(run) == 0) {
        if (count_all(run) == 0) { /* nowhere to stop */
            run->tick = (uint32_t)((run->tick + ticks % run->size) % run->size);
            moved = ticks;
        }
        while (moved < ticks) {
            run->tick = sector_at(run, run->tick, 1);
            moved++;
            if (count_where(run, run->tick) > 0)
                break;
        }
        for (size_t i = 0; i < ITEMS; i++)
            run->entries[i].is_waiting =
                moved > 0 && run->entries[i].is_used && run->entries[i].sector == run->tick;
    }
    REQUIRE(tw_ring_advance(run->ring, ticks) == moved);
    run_compare(run);
}

static void run_take(struct ring_run *run)
{
    struct tw_ring_item items[BATCH];
    size_t limit = (size_t)conformance_below(run->source, BATCH + 1);
    size_t waiting_count = count_waiting(run);
    size_t count = tw_ring_take(run->ring, items, limit);

    REQUIRE(count == (waiting_count < limit ? waiting_count : limit));
    for (size_t i = 0; i < count; i++) {
        REQUIRE(items[i].data < ITEMS);
        struct ring_entry *entry = &run->entries[items[i].data];
        REQUIRE(entry->is_used && entry->is_waiting && entry->handle == items[i].item);
        REQUIRE(entry->sector == items[i].tick && entry->interval == items[i].interval);
        entry->is_waiting = false;
        entry->sector = sector_at(run, entry->sector, entry->interval);
        run->tally.taken++;
    }
    run_compare(run);
}

static void run_set_tick(struct ring_run *run)
{
    uint64_t tick = conformance_below(run->source, run->size + 2);

    if (conformance_below(run->source, 4) == 0) {
        tw_ring_reset(run->ring);
        tick = 0;
    } else {
        REQUIRE(tw_ring_set_tick(run->ring, tick) == (tick < run->size));
    }
    if (tick < run->size) {
        run->tick = (uint32_t)tick;
        for (size_t i = 0; i < ITEMS; i++)
            run->entries[i].is_waiting = false;
    }
    run_compare(run);
}

/* A ring, perhaps of items dealt out. */
/* Rescheduling items, dealt round, or as a list for each sector. */
static void run_create_moving(struct ring_run *run, const struct tw_ring_options *options,
                              size_t count, bool is_by_lists)
{
    struct tw_ring_entry entries[ITEMS];
    struct tw_ring_list lists[70];
    tw_handle handles[ITEMS];
    size_t done = 0, each = count / run->size + 1;

    for (size_t i = 0; i < count; i++)
        entries[i] = (struct tw_ring_entry){i, (int64_t)(i % (2 * run->size + 1)) - run->size};
    for (uint32_t i = 0; i < run->size; i++, done += lists[i - 1].count)
        lists[i] = (struct tw_ring_list){entries + done, count - done < each ? count - done : each};
    run->ring = is_by_lists ? tw_ring_create_from_lists(NULL, lists, run->size, handles)
                            : tw_ring_create_dealt_moving(options, entries, count, handles);
    for (size_t i = 0; i < count; i++) {
        size_t sector = is_by_lists ? i / each : i % run->size;
        entry_add(run, i, handles[i], (int64_t)sector, entries[i].interval);
    }
}

static void run_create(struct ring_run *run)
{
    uint64_t data[ITEMS];
    tw_handle handles[ITEMS];
    size_t count = (size_t)conformance_below(run->source, ITEMS);
    struct tw_ring_options options = {0};

    run->size = options.size = 1 + (uint32_t)conformance_below(run->source, 70);
    run->tick = 0;
    for (size_t i = 0; i < ITEMS; i++) {
        run->entries[i] = (struct ring_entry){0};
        data[i] = i;
    }
    if (conformance_below(run->source, 2)) {
        run->ring = tw_ring_create(&options);
    } else if (count % 3) {
        run_create_moving(run, &options, count, count % 3 == 1);
    } else {
        run->ring = tw_ring_create_dealt(&options, data, count, handles);
        for (size_t i = 0; i < count; i++)
            entry_add(run, i, handles[i], (int64_t)(i % run->size), 0);
    }
    REQUIRE(run->ring);
    run_compare(run);
}

struct ring_tally ring_model_run(struct conformance_source *source, uint64_t steps)
{
    struct ring_run run = {.source = source};

    while (run.tally.steps < steps && (!source->bytes || source->byte_count > 0)) {
        run_create(&run);
        uint64_t end = run.tally.steps + conformance_below(source, 1000);
        while (run.tally.steps++ < end && (!source->bytes || source->byte_count > 0)) {
            uint64_t what = conformance_below(source, 32);
            if (what == 0)
                run_set_tick(&run);
            else if (what < 8)
                run_advance(&run);
            else if (what < 18)
                run_take(&run);
            else
                run_change(&run);
        }
        tw_ring_destroy(run.ring);
    }
    return run.tally;
}
