/*
 * logs.c - the simulated private log and its replicas: writes appends late, refuses them, leaves
 * them in doubt, or cuts them off.
 */
#include "logs.h"

#include "world.h"

#include <assert.h>
#include <stdlib.h>

enum { NODE = 1, CLUSTER = 77, CLAIM_PAUSE_MS = 100, CLAIMS_REFUSED_MAX = 3 };

static struct replica *replica_of(struct world *world, uint16_t partition)
{
    return world->logs.replicas[partition].replica;
}

void logs_init(struct world *world)
{
    struct sim_logs *logs = &world->logs;

    *logs = (struct sim_logs){.clock = {1}};
    list_init(&logs->waiting);
    list_init(&logs->done);
    list_init(&logs->answers);
}

static void append_free(struct logs_append *append)
{
    buffer_deinit(&append->bytes);
    free(append);
}

static void drop_doubts(struct sim_logs *logs)
{
    while (logs->doubts.count > 0)
        append_free(logs->doubts.appends[--logs->doubts.count]);
}

void logs_deinit(struct world *world)
{
    struct sim_logs *logs = &world->logs;

    drop_doubts(logs);
    for (size_t i = 0; i < logs->count; i++)
        append_free(logs->records[i]);
    free(logs->records);
}

/* ---- the log ---- */

/* Makes the append a record. Returns its offset. */
static uint64_t add_record(struct sim_logs *logs, struct logs_append *append)
{
    if (logs->count == logs->capacity) {
        logs->capacity = logs->capacity ? 2 * logs->capacity : 64;
        logs->records = realloc(logs->records, logs->capacity * sizeof(struct logs_append *));
        assert(logs->records);
    }
    logs->records[logs->count] = append;
    return ++logs->count;
}

static void begin_later(struct world *world)
{
    struct sim_logs *logs = &world->logs;

    if (logs->is_busy || list_is_empty(&logs->waiting))
        return;
    logs->is_busy = true;
    world_post(world, world->plan.disk_delay_ms, EVENT_COMMIT_BEGIN, world->host.life, NULL);
}

/* Sends the batches that came back to their engines. */
static void answer_later(struct world *world)
{
    struct sim_logs *logs = &world->logs;

    if (list_is_empty(&logs->done))
        return;
    struct logs_answer *answer = calloc(1, sizeof(*answer));
    assert(answer);
    list_init(&answer->batches);
    list_join(&answer->batches, &logs->done);
    list_push(&logs->answers, &answer->link);
    world_post_at(world, disk_later(world, &logs->answer_ms, world->plan.message_delay_ms),
                  EVENT_COMMITTED, world->host.life, NULL);
}

/* Lets the replica append what waits. */
static void turn(struct world *world, uint16_t partition)
{
    struct replica *replica = replica_of(world, partition);

    replica_turn(replica, world->logs.clock, world_now(world));
    replica_check(replica);
    if (replica_state(replica) == OWNERSHIP_BROKEN || replica_is_failing(replica))
        world_fail(world, 0, "a private log loses nothing", "partition %u: %s", partition,
                   replica_error(replica)->text);
}

/* The append is durable: writes its rows into the tables, before the engine gets the result. */
static void land(struct world *world, struct logs_append *append)
{
    const uint64_t offset = add_record(&world->logs, append);

    replica_landed(replica_of(world, append->partition), append->ticket, offset, world->logs.clock);
    LIST_FOR_EACH (&world->logs.done, link)
        model_durable(world, list_item(link, struct storage_batch, link));
}

/* ---- what the replicas have others do ---- */

static void on_append(void *context, uint64_t ticket, struct bytes bytes)
{
    struct logs_replica *of = context;
    struct logs_append *append = calloc(1, sizeof(*append));

    assert(append);
    append->partition = (uint16_t)(of - of->world->logs.replicas);
    append->ticket = ticket;
    buffer_init(&append->bytes);
    buffer_append_bytes(&append->bytes, bytes);
    list_push(&of->world->logs.waiting, &append->link);
}

static void on_begin(void *context, const struct storage_meta *meta)
{
    struct logs_replica *of = context;

    of->has_begun = true;
    of->meta = *meta;
}

static void on_drain(void *context)
{
    (void)context; /* logs_drain knows */
}

static void on_leave(void *context)
{
    ((struct logs_replica *)context)->has_begun = false;
}

static void on_committed(void *context, struct storage_batch *batch)
{
    struct world *world = ((struct logs_replica *)context)->world;

    list_init(&batch->link);
    list_push(&world->logs.done, &batch->link);
}

/* ---- writing ---- */

/* Gives back the batches of a refused append. If it is kept, its rows may be read after a crash. */
static void refuse(struct world *world, const struct logs_append *append, enum error_code code,
                   bool is_kept)
{
    replica_refused_append(replica_of(world, append->partition), append->ticket, code,
                           world->logs.clock);
    LIST_FOR_EACH (&world->logs.done, link) {
        struct storage_batch *batch = list_item(link, struct storage_batch, link);

        world->totals->commits_failed++;
        host_disturb(world, batch->partition);
        world_note(world, "batch failed", batch->partition, 0, batch->write_count, code);
        if (is_kept)
            doubts_add(world, batch);
    }
    answer_later(world);
}

/* The appends fail. The previous write may have left some in doubt: this one removes them, or fails
 * before that. If it removes them, it may leave its own in doubt, up to one of them. */
static void fail(struct world *world, struct logs_append **appends, size_t count,
                 enum error_code code)
{
    struct sim_logs *logs = &world->logs;
    const bool is_refused =
        code == ERROR_NO_MEMORY || (logs->doubts.count > 0 && world_chance(world, 500));
    const bool is_torn = !is_refused && world_chance(world, world->plan.doubt_permille);
    const size_t kept = !is_torn                   ? 0
                        : world_chance(world, 600) ? count
                                                   : world_below(world, count + 1);

    if (!is_refused) {
        drop_doubts(logs);
        doubts_end(world);
    }
    if (kept > 0)
        doubts_begin(world);
    for (size_t i = 0; i < count; i++) {
        refuse(world, appends[i], code, i < kept);
        if (i >= kept) {
            append_free(appends[i]);
            continue;
        }
        doubts_keep(world);
        logs->doubts.appends[logs->doubts.count++] = appends[i];
    }
    if (kept == 0)
        return;
    doubts_put_back(world);
    if (world->plan.crash_gap_ms > 0 && world_chance(world, 300))
        world_post(world, world->plan.engine.storage_retry_ms, EVENT_CRASH, world->host.life, NULL);
}

/* Writes some appends in one call. */
static void write_appends(struct world *world, struct logs_append **appends, size_t count,
                          enum error_code code)
{
    struct sim_logs *logs = &world->logs;
    uint16_t partitions[PARTITIONS_MAX];

    for (size_t i = 0; i < count; i++)
        partitions[i] = appends[i]->partition;
    if (code) {
        fail(world, appends, count, code);
    } else {
        drop_doubts(logs);
        doubts_end(world);
        for (size_t i = 0; i < count; i++) {
            land(world, appends[i]);
            answer_later(world);
        }
    }
    for (size_t i = 0; i < count; i++)
        turn(world, partitions[i]);
    if (world_chance(world, 50))
        disk_sync(world);
}

static void commit_begin(struct world *world)
{
    struct sim_logs *logs = &world->logs;
    const size_t max =
        world_chance(world, 300) ? 1 + world_below(world, PARTITIONS_MAX) : PARTITIONS_MAX;

    while (logs->group.count < max && !list_is_empty(&logs->waiting))
        logs->group.appends[logs->group.count++] =
            list_item(list_pop(&logs->waiting), struct logs_append, link);
    world_tempt(world, world->plan.disk_delay_ms);
    world_post(world, world->plan.disk_delay_ms, EVENT_COMMIT_END, world->host.life, NULL);
}

static void commit_end(struct world *world)
{
    struct sim_logs *logs = &world->logs;
    struct logs_group group = logs->group;
    const size_t each = world_chance(world, 700) ? group.count : 1;

    logs->group.count = 0;
    logs->is_busy = false;
    world_tempt(world, world->plan.message_delay_ms);
    for (size_t i = 0; i < group.count; i += each)
        write_appends(world, group.appends + i, each, disk_draw_fault(world));
    begin_later(world);
}

static void committed(struct world *world)
{
    struct logs_answer *answer =
        list_item(list_pop(&world->logs.answers), struct logs_answer, link);

    for (struct list *link; (link = list_pop(&answer->batches));)
        host_committed(world, list_item(link, struct storage_batch, link));
    free(answer);
}

void logs_serve(struct world *world, const struct event *event)
{
    if (event->kind == EVENT_COMMIT_BEGIN)
        commit_begin(world);
    else if (event->kind == EVENT_COMMIT_END)
        commit_end(world);
    else
        committed(world);
}

/* ---- a partition begins and ends ---- */

/* Writes the claim or the release of the replica, if it has made one. Returns false if it is
 * refused. */
static bool write_now(struct world *world, uint16_t partition, enum error_code code)
{
    turn(world, partition);
    LIST_FOR_EACH (&world->logs.waiting, link) {
        struct logs_append *append = list_item(link, struct logs_append, link);

        if (append->partition != partition)
            continue;
        list_remove(link);
        write_appends(world, &append, 1, code);
        return !code;
    }
    return true;
}

/* Draws whether the next claim or release is refused. */
static enum error_code draw_refusal(struct world *world)
{
    return !world->is_quiet && world_chance(world, world->plan.commit_fail_permille) ? ERROR_IO
                                                                                     : ERROR_NONE;
}

void logs_open(struct world *world, uint16_t partition)
{
    struct sim_logs *logs = &world->logs;
    struct logs_replica *of = &logs->replicas[partition];
    const struct replica_options options = {
        .node = NODE,
        .partition = partition,
        .cluster = CLUSTER,
        .lease_ms = 1000,
        .handover_ms = UINT64_C(1) << 40,
        .seed = random_next(&world->random),
        .is_private = true,
        .storage = world->disk.storage,
    };
    const struct replica_events events = {
        .context = of,
        .append = on_append,
        .begin = on_begin,
        .drain = on_drain,
        .leave = on_leave,
        .committed = on_committed,
    };

    *of = (struct logs_replica){.world = world};
    enum error_code result = replica_create(&options, &events, logs->clock, &of->replica, NULL);
    assert(result == ERROR_NONE);
    (void)result;
    for (uint64_t i = replica_next(of->replica) ? replica_next(of->replica) - 1 : 0;
         i < logs->count; i++)
        if (logs->records[i]->partition == partition)
            replica_read(of->replica, i + 1, buffer_bytes(&logs->records[i]->bytes), logs->clock);
    replica_restored(of->replica);
    replica_pass(of->replica, logs->count + 1);
}

void logs_claim(struct world *world, uint16_t partition, struct storage_meta *ret_meta)
{
    struct logs_replica *of = &world->logs.replicas[partition];
    int refused = 0;

    replica_plan(of->replica, NODE, world->logs.clock);
    while (!of->has_begun) {
        const bool may_fail = refused < CLAIMS_REFUSED_MAX;

        if (!write_now(world, partition, may_fail ? draw_refusal(world) : ERROR_NONE))
            refused++;
        world->logs.clock = instant_add_ms(world->logs.clock, CLAIM_PAUSE_MS);
    }
    *ret_meta = of->meta;
    replica_recovered(of->replica);
    turn(world, partition);
}

void logs_take_batch(struct world *world, struct storage_batch *batch)
{
    world_note(world, "batch taken", batch->partition, 0, batch->write_count,
               batch->meta.watermark.ms);
    replica_commit(replica_of(world, batch->partition), batch);
    turn(world, batch->partition);
    begin_later(world);
}

void logs_drain(struct world *world, uint16_t partition)
{
    replica_plan(replica_of(world, partition), 0, world->logs.clock);
    turn(world, partition);
}

void logs_release(struct world *world, uint16_t partition)
{
    replica_drained(replica_of(world, partition));
    write_now(world, partition, draw_refusal(world));
    turn(world, partition);
    assert(!world->logs.replicas[partition].has_begun);
}

void logs_left(struct world *world, uint16_t partition)
{
    replica_left(replica_of(world, partition));
}

void logs_close(struct world *world, uint16_t partition)
{
    struct logs_replica *of = &world->logs.replicas[partition];

    replica_stop(of->replica);
    replica_destroy(of->replica);
    of->replica = NULL;
}

/* ---- the crash ---- */

static void discard(struct world *world, struct list *batches)
{
    for (struct list *link; (link = list_pop(batches));)
        host_discard_batch(world, list_item(link, struct storage_batch, link));
}

/* Decides the appends in doubt: the ones from some append on are lost. */
static void settle_doubts(struct world *world)
{
    struct sim_logs *logs = &world->logs;
    const size_t kept = logs->doubts.count ? world_below(world, logs->doubts.count + 1) : 0;

    for (size_t i = 0; i < logs->doubts.count; i++) {
        if (i < kept)
            add_record(logs, logs->doubts.appends[i]);
        else
            append_free(logs->doubts.appends[i]);
    }
    logs->doubts.count = 0;
    doubts_crash(world, kept);
}

/* Cuts the group off in a crash: a prefix of it has reached the disk. Its write has first removed
 * what was in doubt. */
static void cut_off(struct world *world)
{
    struct sim_logs *logs = &world->logs;
    const size_t kept = world_below(world, logs->group.count + 1);

    drop_doubts(logs);
    doubts_end(world);
    for (size_t i = 0; i < logs->group.count; i++) {
        if (i >= kept) {
            world->totals->commits_cut++;
            append_free(logs->group.appends[i]);
            continue;
        }
        land(world, logs->group.appends[i]);
        discard(world, &logs->done);
    }
    world_note(world, "commit cut off", 0, 0, logs->group.count, kept);
    logs->group.count = 0;
}

void logs_crash(struct world *world)
{
    struct sim_logs *logs = &world->logs;

    for (struct list *link; (link = list_pop(&logs->answers));) {
        struct logs_answer *answer = list_item(link, struct logs_answer, link);

        discard(world, &answer->batches);
        free(answer);
    }
    if (logs->group.count > 0 && (logs->doubts.count == 0 || world_chance(world, 500)))
        cut_off(world);
    settle_doubts(world);
    while (logs->group.count > 0)
        append_free(logs->group.appends[--logs->group.count]);
    for (struct list *link; (link = list_pop(&logs->waiting));)
        append_free(list_item(link, struct logs_append, link));
    for (uint16_t p = 0; p < world->plan.partition_count; p++) {
        replica_stop(replica_of(world, p));
        discard(world, &logs->done);
        replica_destroy(replica_of(world, p));
        logs->replicas[p].replica = NULL;
    }
    logs->is_busy = false;
    disk_lose(world);
}
