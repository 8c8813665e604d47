/*
 * disk.c - the simulated storage threads: takes batches and reads, delays, fails or cuts them off.
 */
#include "disk.h"

#include "store/storage_writing.h"
#include "world.h"

#include <assert.h>
#include <stdlib.h>

void disk_init(struct world *world)
{
    struct disk *disk = &world->disk;

    *disk = (struct disk){.storage = memory_storage_create(world->plan.partition_count)};
    assert(disk->storage);
    memory_storage_hold(disk->storage);
    list_init(&disk->waiting);
    list_init(&disk->answers);
    list_init(&disk->tickets);
}

void disk_deinit(struct world *world)
{
    storage_close(world->disk.storage);
}

/* After `*last_ms` and after up to `delay_ms` from now, so that order is kept. */
static uint64_t later(struct world *world, uint64_t *last_ms, uint64_t delay_ms)
{
    const uint64_t at_ms = world->time_ms + world_skewed(world, delay_ms);

    if (*last_ms < at_ms)
        *last_ms = at_ms;
    return *last_ms;
}

/* Whether this call of the storage fails, and how. */
static enum error_code fault(struct world *world, uint32_t permille, bool is_commit)
{
    static const enum error_code CODES[] = {ERROR_IO, ERROR_IO, ERROR_DISK_FULL, ERROR_NO_MEMORY};
    const bool is_out = world->time_ms < world->disk.outage_end_ms;

    if (is_out && world->disk.is_full && is_commit)
        return ERROR_DISK_FULL;
    if ((!is_out || world->disk.is_full) && (world->is_quiet || !world_chance(world, permille)))
        return ERROR_NONE;
    return CODES[world_below(world, sizeof(CODES) / sizeof(*CODES))];
}

/* ---- commits ---- */

static void begin_later(struct world *world)
{
    struct disk *disk = &world->disk;

    if (disk->is_busy || list_is_empty(&disk->waiting))
        return;
    disk->is_busy = true;
    world_post(world, world->plan.disk_delay_ms, EVENT_COMMIT_BEGIN, world->host.life, NULL);
}

void disk_take_batch(struct world *world, struct storage_batch *batch)
{
    world_note(world, "batch taken", batch->partition, 0, batch->write_count,
               batch->meta.watermark.ms);
    list_push(&world->disk.waiting, &batch->link);
    begin_later(world);
}

static void commit_begin(struct world *world)
{
    struct disk *disk = &world->disk;
    struct disk_group *group = calloc(1, sizeof(*group));

    assert(group);
    size_t waiting = 0;
    LIST_FOR_EACH (&disk->waiting, link)
        waiting++;
    size_t max = waiting < 5 && world_chance(world, 300) ? 1 + world_below(world, 3) : waiting;
    while (group->count < max && !list_is_empty(&disk->waiting)) {
        group->batches = realloc(group->batches, (group->count + 1) * sizeof(*group->batches));
        assert(group->batches);
        group->batches[group->count++] =
            list_item(list_pop(&disk->waiting), struct storage_batch, link);
    }
    disk->group = group;
    world_tempt(world, world->plan.disk_delay_ms);
    world_post(world, world->plan.disk_delay_ms, EVENT_COMMIT_END, world->host.life, NULL);
}

/* Committed batches stay, and so do earlier failed batches that are on disk nevertheless. */
static void sync(struct world *world)
{
    memory_storage_sync(world->disk.storage);
    doubts_end(world);
}

static void apply(struct world *world, struct storage_batch *const *batches, size_t count)
{
    memory_storage_fail_commit(world->disk.storage, 0, ERROR_NONE);
    enum error_code result = storage_write(world->disk.storage, batches, count, NULL);
    assert(result == ERROR_NONE);
    (void)result;
}

/* The call fails, but the log may hold its batches up to some point. */
static void fail(struct world *world, struct disk_group *group, size_t from, size_t to,
                 enum error_code code)
{
    const bool is_torn = code != ERROR_NO_MEMORY && world_chance(world, world->plan.doubt_permille);
    const size_t count = to - from;
    size_t kept = is_torn ? world_chance(world, 600) ? count : world_below(world, count + 1) : 0;

    for (size_t i = from; i < to; i++) {
        struct storage_batch *batch = group->batches[i];

        batch->result = code;
        world->totals->commits_failed++;
        host_disturb(world, batch->partition);
        world_note(world, "batch failed", batch->partition, 0, batch->write_count, code);
        if (kept == 0 || world->doubts.count == DOUBTS_MAX)
            continue;
        kept--;
        apply(world, &batch, 1);
        doubts_add(world, batch);
        if (world->plan.crash_gap_ms > 0 && world_chance(world, 300))
            world_post(world, world->plan.engine.storage_retry_ms, EVENT_CRASH, world->host.life,
                       NULL);
    }
}

/* Commits [from, to) of the group in one call. */
static void commit(struct world *world, struct disk_group *group, size_t from, size_t to)
{
    const enum error_code code = fault(world, world->plan.commit_fail_permille, true);

    if (code) {
        fail(world, group, from, to, code);
        return;
    }
    apply(world, group->batches + from, to - from);
    sync(world);
    for (size_t i = from; i < to; i++) {
        group->batches[i]->result = ERROR_NONE;
        model_durable(world, group->batches[i]);
    }
}

static void commit_end(struct world *world)
{
    struct disk *disk = &world->disk;
    struct disk_group *group = disk->group;
    const bool is_one_call = world_chance(world, 700);

    if (is_one_call)
        commit(world, group, 0, group->count);
    for (size_t i = 0; i < group->count && !is_one_call; i++)
        commit(world, group, i, i + 1);
    disk->group = NULL;
    disk->is_busy = false;
    world_tempt(world, world->plan.message_delay_ms);
    list_push(&disk->answers, &group->link);
    events_post(&world->events, later(world, &disk->answer_ms, world->plan.message_delay_ms),
                EVENT_COMMITTED, world->host.life, NULL);
    begin_later(world);
}

static void group_free(struct disk_group *group)
{
    free(group->batches);
    free(group);
}

static void committed(struct world *world)
{
    struct disk_group *group = list_item(list_pop(&world->disk.answers), struct disk_group, link);

    for (size_t i = 0; i < group->count; i++)
        host_committed(world, group->batches[i]);
    group_free(group);
}

/* ---- reads ---- */

void disk_take_read(struct world *world, uint16_t partition, struct engine_read *read)
{
    struct disk *disk = &world->disk;
    struct ticket *ticket = calloc(1, sizeof(*ticket));

    assert(ticket);
    static const char *const words[] = {
        [ENGINE_READ_FIND] = "find", [ENGINE_READ_SCAN] = "scan", [ENGINE_READ_LOOKUP] = "look up"};

    world_note(world, words[read->kind], partition, 0,
               read->kind == ENGINE_READ_FIND ? read->id.serial : read->scan.from.at.ms,
               read->kind == ENGINE_READ_FIND ? 0 : read->scan.to.at.ms);
    ticket->read = read;
    ticket->partition = partition;
    list_push(&disk->tickets, &ticket->link);
    events_post(&world->events, later(world, &disk->read_ms, world->plan.read_delay_ms), EVENT_READ,
                world->host.life, ticket);
}

static void read_now(struct world *world, struct ticket *ticket)
{
    struct disk *disk = &world->disk;
    const enum error_code code = fault(world, world->plan.read_fail_permille, false);
    struct engine_read *answer = &ticket->answer;

    memory_storage_fail_read(disk->storage, code ? 1 : 0, code);
    *answer = *ticket->read;
    engine_read_perform(answer, disk->storage);
    assert(!code || answer->result == code);
    ticket->is_done = true;
    world->totals->reads++;
    world_note(world, "read", ticket->partition, 0, answer->result,
               answer->page.count + answer->names.count);
    if (code) {
        world->totals->reads_failed++;
        host_disturb(world, ticket->partition);
    }
    if (disk->read_end_ms < disk->read_ms)
        disk->read_end_ms = disk->read_ms;
    events_post(&world->events, later(world, &disk->read_end_ms, world->plan.message_delay_ms),
                EVENT_READ_DONE, world->host.life, ticket);
}

static void read_done(struct world *world, struct ticket *ticket)
{
    struct engine_read *read = ticket->read;

    read->result = ticket->answer.result;
    read->timer = ticket->answer.timer;
    read->page = ticket->answer.page;
    read->names = ticket->answer.names;
    list_remove(&ticket->link);
    host_read_done(world, ticket->partition, read);
    free(ticket);
}

void disk_serve(struct world *world, const struct event *event)
{
    switch (event->kind) {
    case EVENT_COMMIT_BEGIN:
        commit_begin(world);
        break;
    case EVENT_COMMIT_END:
        commit_end(world);
        break;
    case EVENT_COMMITTED:
        committed(world);
        break;
    case EVENT_READ:
        read_now(world, event->subject);
        break;
    default:
        read_done(world, event->subject);
        break;
    }
}

/* ---- what goes wrong ---- */

void disk_outage(struct world *world)
{
    world->disk.outage_end_ms = world->time_ms + world_skewed(world, 2000);
    world->disk.is_full = world_chance(world, 300);
    world->totals->outages++;
    world->totals->full += world->disk.is_full;
    world_note(world, "outage", 0, 0, world->disk.outage_end_ms, 0);
}

/* Of the group that was taken up, some batches reached the disk, and of those some in full. */
static void cut_off(struct world *world, struct disk_group *group)
{
    struct storage *storage = world->disk.storage;
    const size_t written = world_below(world, group->count + 1);
    const size_t kept = world_below(world, written + 1);

    for (size_t i = 0; i < written; i++)
        apply(world, group->batches + i, 1);
    assert(memory_storage_held(storage) == written);
    memory_storage_crash(storage, kept);
    for (size_t i = 0; i < kept; i++)
        model_durable(world, group->batches[i]);
    world->totals->commits_cut += group->count - kept;
    world_note(world, "commit cut off", 0, 0, group->count, kept);
}

/* Batches in doubt are decided now: from some batch on they are lost. */
static void settle_doubts(struct world *world)
{
    const size_t count = world->doubts.count;
    const size_t kept = count > 0 ? world_below(world, count + 1) : 0;

    assert(memory_storage_held(world->disk.storage) == count);
    memory_storage_crash(world->disk.storage, kept);
    doubts_crash(world, kept);
}

static void discard_group(struct world *world, struct disk_group *group)
{
    for (size_t i = 0; i < group->count; i++)
        host_discard_batch(world, group->batches[i]);
    group_free(group);
}

void disk_crash(struct world *world)
{
    struct disk *disk = &world->disk;

    settle_doubts(world);
    if (disk->group)
        cut_off(world, disk->group);
    struct list *link;
    while ((link = list_pop(&disk->answers)))
        discard_group(world, list_item(link, struct disk_group, link));
    if (disk->group)
        discard_group(world, disk->group);
    while ((link = list_pop(&disk->waiting)))
        host_discard_batch(world, list_item(link, struct storage_batch, link));
    while ((link = list_pop(&disk->tickets))) {
        struct ticket *ticket = list_item(link, struct ticket, link);

        timer_free(ticket->answer.timer);
        storage_page_free(&ticket->answer.page);
        free(ticket->answer.names.ids);
        host_discard_read(world, ticket->partition, ticket->read);
        free(ticket);
    }
    disk->group = NULL;
    disk->is_busy = false;
}

void disk_write_meta(struct world *world, uint16_t partition, const struct storage_meta *meta)
{
    struct storage_batch batch = {.partition = partition, .meta = *meta};
    struct storage_batch *const batches[] = {&batch};

    apply(world, batches, 1);
    sync(world);
    model_durable(world, &batch);
}
