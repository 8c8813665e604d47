/* disk.c - the simulated storage: takes reads, delays or fails them; and the faults of the disk. */
#include "disk.h"

#include "wheel_disk.h"
#include "world.h"

#include <assert.h>
#include <stdlib.h>

void disk_init(struct world *world)
{
    struct disk *disk = &world->disk;

    *disk = (struct disk){.storage = NULL};
    list_init(&disk->tickets);
    if (world->settings->store == PLAN_STORE_WHEEL) {
        disk->files = wheel_disk_create(world->settings->seed);
        disk->storage = wheel_disk_open(disk->files, world->plan.partition_count);
        return;
    }
    disk->storage = memory_storage_create(world->plan.partition_count);
    assert(disk->storage);
    memory_storage_hold(disk->storage);
}

void disk_deinit(struct world *world)
{
    storage_close(world->disk.storage);
    free(world->disk.files);
}

void disk_sync(struct world *world)
{
    if (world->disk.files)
        wheel_disk_sync(world->disk.files, world->disk.storage);
    else
        memory_storage_sync(world->disk.storage);
}

void disk_lose(struct world *world)
{
    struct disk *disk = &world->disk;

    if (disk->files)
        disk->storage = wheel_disk_crash(disk->files, disk->storage, world->plan.partition_count);
    else
        memory_storage_crash(disk->storage,
                             world_below(world, memory_storage_held(disk->storage) + 1));
}

/* Damage of the files of the store on a wheel is diskwheel_damage_test's. */
bool disk_damage(struct world *world, const struct timer_id *id)
{
    return !world->disk.files && memory_storage_damage(world->disk.storage, id);
}

void disk_check(struct world *world)
{
    if (!world->disk.files)
        memory_storage_check(world->disk.storage);
}

uint64_t disk_later(struct world *world, uint64_t *last_ms, uint64_t delay_ms)
{
    const uint64_t at_ms = world_ms(world) + world_skewed(world, delay_ms);

    if (*last_ms < at_ms)
        *last_ms = at_ms;
    return *last_ms;
}

/* Draws whether this call of the storage fails, and how. */
static enum error_code fault(struct world *world, uint32_t permille, bool is_commit)
{
    static const enum error_code CODES[] = {ERROR_IO, ERROR_IO, ERROR_DISK_FULL, ERROR_NO_MEMORY};
    const bool is_out = world_ms(world) < world->disk.outage_end_ms;

    if (is_out && world->disk.is_full && is_commit)
        return ERROR_DISK_FULL;
    if ((!is_out || world->disk.is_full) && (world->is_quiet || !world_chance(world, permille)))
        return ERROR_NONE;
    return CODES[world_below(world, sizeof(CODES) / sizeof(*CODES))];
}

enum error_code disk_draw_fault(struct world *world)
{
    return fault(world, world->plan.commit_fail_permille, true);
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
    world_post_at(world, disk_later(world, &disk->read_ms, world->plan.read_delay_ms), EVENT_READ,
                  world->host.life, ticket);
}

static void read_now(struct world *world, struct ticket *ticket)
{
    struct disk *disk = &world->disk;
    const enum error_code code = fault(world, world->plan.read_fail_permille, false);
    struct engine_read *answer = &ticket->answer;

    if (!disk->files)
        memory_storage_fail_read(disk->storage, code ? 1 : 0, code);
    *answer = *ticket->read;
    if (code && disk->files)
        answer->result = code;
    else
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
    world_post_at(world, disk_later(world, &disk->read_end_ms, world->plan.message_delay_ms),
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
    if (event->kind == EVENT_READ)
        read_now(world, event->subject);
    else
        read_done(world, event->subject);
}

/* ---- what goes wrong ---- */

void disk_outage(struct world *world)
{
    world->disk.outage_end_ms = world_ms(world) + world_skewed(world, 2000);
    world->disk.is_full = world_chance(world, 300);
    world->totals->outages++;
    world->totals->full += world->disk.is_full;
    world_note(world, "outage", 0, 0, world->disk.outage_end_ms, 0);
}

void disk_crash(struct world *world)
{
    for (struct list *link; (link = list_pop(&world->disk.tickets));) {
        struct ticket *ticket = list_item(link, struct ticket, link);

        timer_free(ticket->answer.timer);
        storage_page_free(&ticket->answer.page);
        free(ticket->answer.names.ids);
        host_discard_read(world, ticket->partition, ticket->read);
        free(ticket);
    }
}
