#include "disk.h"

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
static enum error_code fault(struct world *world, uint32_t permille)
{
    static const enum error_code CODES[] = {ERROR_IO, ERROR_IO, ERROR_DISK_FULL, ERROR_NO_MEMORY};

    if (world->time_ms >= world->disk.outage_end_ms &&
        (world->is_quiet || !world_chance(world, permille)))
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
    struct group *group = calloc(1, sizeof(*group));
    size_t waiting = 0, max;

    assert(group);
    LIST_FOR_EACH (&disk->waiting, link)
        waiting++;
    max = waiting < 5 && world_chance(world, 300) ? 1 + world_below(world, 3) : waiting;
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

/* Commits [from, to) of the group in one call, all or nothing. */
static void commit(struct world *world, struct group *group, size_t from, size_t to)
{
    struct storage *storage = world->disk.storage;
    const enum error_code code = fault(world, world->plan.commit_fail_permille);
    enum error_code result;

    memory_storage_fail_commit(storage, code ? 1 : 0, code);
    result = storage_commit(storage, group->batches + from, to - from, NULL);
    assert(result == code);
    for (size_t i = from; i < to; i++) {
        group->batches[i]->result = result;
        if (result) {
            world->totals->commits_failed++;
            host_disturb(world, group->batches[i]->partition);
        }
    }
}

static void commit_end(struct world *world)
{
    struct disk *disk = &world->disk;
    struct group *group = disk->group;
    const bool is_one_call = world_chance(world, 700);

    if (is_one_call)
        commit(world, group, 0, group->count);
    for (size_t i = 0; i < group->count && !is_one_call; i++)
        commit(world, group, i, i + 1);
    memory_storage_sync(disk->storage);
    for (size_t i = 0; i < group->count; i++) {
        if (group->batches[i]->result == ERROR_NONE)
            model_durable(world, group->batches[i]);
        else
            world_note(world, "batch failed", group->batches[i]->partition, 0,
                       group->batches[i]->write_count, group->batches[i]->result);
    }
    disk->group = NULL;
    disk->is_busy = false;
    world_tempt(world, world->plan.message_delay_ms);
    list_push(&disk->answers, &group->link);
    events_post(&world->events, later(world, &disk->answer_ms, world->plan.message_delay_ms),
                EVENT_COMMITTED, world->host.life, NULL);
    begin_later(world);
}

static void group_free(struct group *group)
{
    free(group->batches);
    free(group);
}

static void committed(struct world *world)
{
    struct group *group = list_item(list_pop(&world->disk.answers), struct group, link);

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
    world_note(world, read->kind == ENGINE_READ_FIND ? "find" : "scan", partition, 0,
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
    const enum error_code code = fault(world, world->plan.read_fail_permille);
    const struct engine_read *read = ticket->read;

    memory_storage_fail_read(disk->storage, code ? 1 : 0, code);
    ticket->result = read->kind == ENGINE_READ_FIND
                         ? storage_find(disk->storage, &read->id, &ticket->timer, NULL)
                         : storage_scan(disk->storage, &read->scan, &ticket->page, NULL);
    assert(!code || ticket->result == code);
    ticket->is_done = true;
    world->totals->reads++;
    world_note(world, "read", ticket->partition, ticket->timer ? content_number(ticket->timer) : 0,
               ticket->result, ticket->page.count);
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

    read->result = ticket->result;
    read->timer = ticket->timer;
    read->page = ticket->page;
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
    world->totals->outages++;
    world_note(world, "outage", 0, 0, world->disk.outage_end_ms, 0);
}

/* Of the group that was taken up, some batches reached the disk, and of those some in full. */
static void cut_off(struct world *world, struct group *group)
{
    struct storage *storage = world->disk.storage;
    const size_t written = world_below(world, group->count + 1);
    const size_t kept = world_below(world, written + 1);

    memory_storage_fail_commit(storage, 0, ERROR_NONE);
    for (size_t i = 0; i < written; i++) {
        enum error_code result = storage_commit(storage, group->batches + i, 1, NULL);

        assert(result == ERROR_NONE);
        (void)result;
    }
    assert(memory_storage_held(storage) == written);
    memory_storage_crash(storage, kept);
    for (size_t i = 0; i < kept; i++)
        model_durable(world, group->batches[i]);
    world->totals->commits_cut += group->count - kept;
    world_note(world, "commit cut off", 0, 0, group->count, kept);
}

static void discard_group(struct world *world, struct group *group)
{
    for (size_t i = 0; i < group->count; i++)
        host_discard_batch(world, group->batches[i]);
    group_free(group);
}

void disk_crash(struct world *world)
{
    struct disk *disk = &world->disk;
    struct list *link;

    if (disk->group)
        cut_off(world, disk->group);
    while ((link = list_pop(&disk->answers)))
        discard_group(world, list_item(link, struct group, link));
    if (disk->group)
        discard_group(world, disk->group);
    while ((link = list_pop(&disk->waiting)))
        host_discard_batch(world, list_item(link, struct storage_batch, link));
    while ((link = list_pop(&disk->tickets))) {
        struct ticket *ticket = list_item(link, struct ticket, link);

        timer_free(ticket->timer);
        storage_page_free(&ticket->page);
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
    enum error_code result;

    memory_storage_fail_commit(world->disk.storage, 0, ERROR_NONE);
    result = storage_commit(world->disk.storage, batches, 1, NULL);
    assert(result == ERROR_NONE);
    (void)result;
    memory_storage_sync(world->disk.storage);
    model_durable(world, &batch);
}
