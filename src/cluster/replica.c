/* replica.c - one partition on one node; see replica.h.
 *
 * A commit of the owner is applied when its last frame is durable, before its batches go back to
 * the engine. Usually that is known from the place at which the append landed; the record is read
 * later, and changes nothing then. So `applied` may be ahead of the reading.
 *
 * Claims and keeps move the place in the storage, so that a start reads little of a quiet log. A
 * release does not, for a place does not say that it is released: a start reads it again.
 *
 * When the log lacks the next record (replica_lost), its first record decides. A log that begins
 * behind the next record, with the begin of a sweep, was trimmed: the partition is emptied, and
 * begins there. A log that begins with another record, or ends before the next one, has lost
 * records: the replica is broken. A fail-over may undo a trim. So a log that begins before the next
 * record is read from the place once more, and has lost nothing if it has the record before that.
 * A sweep belongs to one claim. So a claim that is valid before the end of the sweep leaves rows
 * missing for good: the replica is broken.
 *
 * An import (import.h) is a sweep that stands at the beginning of the log, without a claim. */
#include "cluster/replica_private.h"

#include "base/check.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    COMMIT_BATCHES = 1024,  /* maximum of batches in a commit */
    COMMIT_WRITES = 1024,   /* number of writes from which no more batches join a commit */
    SWEEP_PAUSE_MS = 60000, /* pause after a failed sweep */
    SWEEP_RESTS = 9,        /* a sweep rests this many times as long as its last part took */
    SWEEP_REST_MS_MAX = 1000,
};

/* ---- the storage ---- */

/* Notes a failure of the storage, which may lack records that were read. */
static void replica_fail(struct replica *replica, const struct error *error)
{
    replica->error = *error;
    replica->is_failing = replica->has_failed = true;
}

/* Completes the restore: all rows are there. The replica becomes a standby at the end of the
 * log. */
static void replica_become_whole(struct replica *replica)
{
    if (replica->has_ended && replica_is_whole(replica))
        ownership_restored(&replica->own);
}

/* Writes the rows of a record with its place. An empty body moves only the place. */
static void replica_store(struct replica *replica, uint64_t offset, const struct frame *frame,
                          struct bytes body, enum storage_body kind)
{
    if (offset + 1 >= replica->copy_end)
        replica->copy_end = 0;
    const struct storage_place place = {.next = offset + 1,
                                        .epoch = frame->epoch,
                                        .seq = frame->seq,
                                        .incarnation = frame->incarnation,
                                        .node = frame->node,
                                        .log_bytes = replica->log.bytes,
                                        .live_bytes = replica->log.live_bytes,
                                        .sweep_end = replica->log.missing_end,
                                        .copy_end = replica->copy_end};
    struct error error = {.text = ""};
    const enum error_code code = storage_apply_body(
        replica->options.storage, replica->options.partition, body, kind, &place, &error);

    if (code == ERROR_CORRUPT) {
        replica->error = error;
        ownership_break(&replica->own);
    } else if (code) {
        replica_fail(replica, &error);
    } else {
        replica_become_whole(replica);
    }
}

/* Breaks the partition: its log or its storage is not consistent. */
static void replica_break(struct replica *replica, const char *reason)
{
    error_set(&replica->error, ERROR_CORRUPT, "the log has lost records: %.150s", reason);
    ownership_break(&replica->own);
}

static void replica_apply_sweep(struct replica *replica, uint64_t offset, const struct frame *frame,
                                struct bytes body)
{
    struct bytes rows = {0};
    struct sweep_record record;

    if (!sweep_decode(body, &record)) {
        replica_break(replica, "a part of a sweep is damaged");
        return;
    }
    switch (sweep_read(&replica->log, offset, &record)) {
    case SWEEP_BROKEN:
        replica_break(replica, "it begins with a sweep that was not finished");
        return;
    case SWEEP_APPLY:
        rows = record.rows;
        break;
    case SWEEP_PASS:
        break;
    }
    replica_store(replica, offset, frame, rows, STORAGE_BODY_READ);
    if (record.kind == SWEEP_END)
        replica->trim_next = offset + 1;
}

/* Applies a valid record, unless it was applied when its append was confirmed. */
static void replica_apply(struct replica *replica, uint64_t offset, const struct frame *frame,
                          enum storage_body kind)
{
    if (offset < replica->applied || replica->is_failing)
        return;
    replica->applied = offset + 1;
    if (frame->kind == FRAME_CLAIM && replica->log.missing_end) {
        replica_break(replica, "it begins with a sweep that was not finished");
        return;
    }
    if (frame->kind == FRAME_CLAIM)
        buffer_clear(&replica->part);
    const bool is_part = replica->part.size > 0 || frame->has_more;
    if (frame->kind == FRAME_COMMIT && is_part)
        buffer_append_bytes(&replica->part, frame->body);
    if (buffer_failed(&replica->part)) {
        struct error error;

        error_set(&error, ERROR_NO_MEMORY, "a commit of %zu bytes", replica->part.size);
        replica_fail(replica, &error);
        return;
    }
    if (frame->kind == FRAME_COMMIT && !frame->has_more) {
        const struct bytes body = is_part ? buffer_bytes(&replica->part) : frame->body;

        if (frame->is_sweep)
            replica_apply_sweep(replica, offset, frame, body);
        else
            replica_store(replica, offset, frame, body, kind);
        buffer_clear(&replica->part);
    } else if (frame->kind == FRAME_CLAIM || (frame->kind == FRAME_KEEP && !replica->part.size)) {
        replica_store(replica, offset, frame, (struct bytes){0}, kind);
    }
}

void replica_begin_ownership(struct replica *replica, const struct storage_place *place,
                             struct instant now)
{
    const struct ownership_options options = {
        .node = replica->options.node,
        .incarnation = random_next(&replica->random),
        .lease_ms = replica->options.lease_ms,
        .handover_ms = replica->options.handover_ms,
        .seed = random_next(&replica->random),
        .is_private = replica->options.is_private,
    };
    const struct ownership_place at = {.next = place->next,
                                       .epoch = place->epoch,
                                       .seq = place->seq,
                                       .incarnation = place->incarnation,
                                       .owner = place->node};

    ownership_init(&replica->own, &options, &at, now);
    replica->told = ownership_state(&replica->own);
    replica->applied = place->next;
    replica->reading = REPLICA_FOLLOWS;
    replica->is_at_place = place->epoch && place->sweep_end != place->next + 1;
    replica->has_ended = false;
    replica->copy_end = place->copy_end;
    sweep_log_init(&replica->log, place);
    replica->own_ticket = 0;
    buffer_clear(&replica->part);
}

void replica_start_over(struct replica *replica)
{
    replica->reading = REPLICA_EMPTIES;
    replica->first = (struct storage_place){0};
    replica->is_failing = true; /* until the storage is emptied */
}

/* ---- commits ---- */

static void replica_give_back(struct replica *replica, struct list *batches, enum error_code result)
{
    for (struct list *link; (link = list_pop(batches));) {
        struct storage_batch *batch = list_item(link, struct storage_batch, link);

        batch->result = result;
        replica->events.committed(replica->events.context, batch);
    }
}

/* Gives back the batches of the commit in flight, none of which is in the log. */
static void replica_refuse_commit(struct replica *replica, enum error_code code)
{
    struct list batches;

    list_init(&batches);
    list_join(&batches, &replica->committing);
    buffer_clear(&replica->body);
    replica->body_sent = replica->part_size = 0;
    replica_give_back(replica, &batches, code);
}

/* Gives back all batches as not durable, and ends the sweep. */
static void replica_fail_commits(struct replica *replica)
{
    sweep_give_up(&replica->sweep);
    replica->staged = replica->messages_waiting = 0;
    list_join(&replica->committing, &replica->waiting);
    replica_refuse_commit(replica, ERROR_IO);
}

/* Returns the next batch to commit. NULL if none waits, or its transaction still lacks outcomes. */
static struct storage_batch *replica_first(const struct replica *replica)
{
    if (list_is_empty(&replica->waiting))
        return NULL;
    struct storage_batch *batch = list_item(replica->waiting.next, struct storage_batch, link);
    const bool is_whole = replica->staged > 0 && replica->messages_waiting == replica->staged;
    return batch->messages == 0 || is_whole ? batch : NULL;
}

static bool replica_has_commit(const struct replica *replica)
{
    return !list_is_empty(&replica->committing) || replica_first(replica);
}

/* Makes one commit of waiting batches: the first ones without a transaction, or those of a
 * transaction and all between them. Returns false if the storage failed. Then another node may
 * take the partition. If there is none only these batches fail, unless the storage has lost
 * records, which are read again. Until the engine has left, nobody reads what is lost: the place
 * is loaded after that. */
static bool replica_prepare(struct replica *replica)
{
    struct storage_batch *batches[COMMIT_BATCHES], *batch = replica_first(replica);
    size_t count = 0, write_count = 0, messages = batch ? batch->messages : 0;
    struct error error = {.text = ""};

    assert(list_is_empty(&replica->committing) && replica->body.size == 0);
    replica->is_transaction = messages > 0;
    while (count < COMMIT_BATCHES && !list_is_empty(&replica->waiting)) {
        batch = list_item(replica->waiting.next, struct storage_batch, link);
        if (replica->is_transaction ? replica->messages_waiting == 0
                                    : batch->messages > 0 || write_count >= COMMIT_WRITES)
            break;
        replica->messages_waiting -= batch->messages;
        write_count += batch->write_count;
        batches[count++] = batch;
        list_push(&replica->committing, list_pop(&replica->waiting));
    }
    if (replica->is_transaction)
        replica->staged = 0;
    CHECK(!replica->is_transaction || replica->messages_waiting == 0);
    buffer_clear(&replica->body);
    replica->body_sent = replica->part_size = 0;
    replica->is_sweep = false;
    const enum error_code code =
        storage_prepare(replica->options.storage, batches, count, &replica->body, &error);
    if (!code)
        return true;
    if (!replica->options.is_private || code == ERROR_UNREADABLE) {
        replica_fail(replica, &error);
    } else {
        replica->error = error;
        replica_refuse_commit(replica, code);
    }
    return false;
}

/* Makes the next part of the sweep the body, if there is one. No append is in flight, and the
 * storage has applied all records. So a reader of the log has equal rows before the part. */
static void replica_sweep(struct replica *replica, struct instant now)
{
    struct error error = {.text = ""};

    if (!sweep_is_going(&replica->sweep) && now.ns >= replica->sweep_at.ns &&
        sweep_is_due(&replica->options.sweep, &replica->log)) {
        sweep_start(&replica->sweep, &replica->options.sweep, replica->options.partition);
        replica->sweep_part_at = now;
    }
    if (!sweep_is_going(&replica->sweep) || now.ns < replica->sweep_part_at.ns)
        return;
    replica->sweep_sent_at = now;
    buffer_clear(&replica->body);
    replica->body_sent = replica->part_size = 0;
    replica->is_sweep = true;
    replica->is_transaction = false;
    const uint64_t rows = replica->sweep.export_.rows;
    if (!sweep_next(&replica->sweep, replica->options.storage, &replica->body, &error)) {
        replica->stats.rows += replica->sweep.export_.rows - rows;
        return;
    }
    buffer_clear(&replica->body);
    sweep_give_up(&replica->sweep);
    replica->sweep_at = instant_add_ms(now, SWEEP_PAUSE_MS);
    replica->stats.sweep_failures++;
}

/* Notes that the part of the sweep is durable. */
static void replica_swept(struct replica *replica)
{
    const bool was_going = sweep_is_going(&replica->sweep);

    replica->is_sweep_landed = true;
    sweep_advance(&replica->sweep, &replica->log);
    replica->stats.sweeps += was_going && !sweep_is_going(&replica->sweep);
}

/* Lets the sweep rest after a part, for longer if the part took longer: commits wait while a part
 * is in flight, and readers must keep up. A sweep that is too slow rests as long as the part
 * took. */
static void replica_rest(struct replica *replica, struct instant now)
{
    if (!replica->is_sweep_landed)
        return;
    replica->is_sweep_landed = false;
    const bool is_slow = sweep_is_slow(&replica->sweep, &replica->options.sweep, &replica->log);
    const uint64_t took_ms = instant_since_ns(replica->sweep_sent_at, now) / 1000000;
    const uint64_t rest_ms = is_slow ? took_ms : SWEEP_RESTS * took_ms;
    replica->sweep_part_at =
        instant_add_ms(now, rest_ms < SWEEP_REST_MS_MAX ? rest_ms : SWEEP_REST_MS_MAX);
}

/* Continues after the frame in flight has become durable. */
static void replica_go_on(struct replica *replica)
{
    replica->body_sent += replica->part_size;
    assert(replica->body_sent <= replica->body.size);
    replica->part_size = 0;
    if (replica->body_sent < replica->body.size || replica->is_failing ||
        replica_state(replica) == OWNERSHIP_BROKEN)
        return;
    struct list done;
    list_init(&done);
    list_join(&done, &replica->committing);
    buffer_clear(&replica->body);
    replica->body_sent = 0;
    replica->was_sweep = replica->is_sweep;
    if (replica->is_sweep)
        replica_swept(replica);
    replica_give_back(replica, &done, ERROR_NONE);
}

/* Returns a frame of the transaction; all but the last have equal sizes. */
static struct bytes replica_sent_frame(const struct replica *replica, size_t index)
{
    const size_t whole = replica->options.body_bytes_max + FRAME_SIZE_OVERHEAD;
    const size_t at = index * whole, left = replica->sent.size - at;

    return (struct bytes){replica->sent.data + at, left < whole ? left : whole};
}

/* Applies the frames of the append in flight, whose last one is at `offset`. */
static void replica_apply_sent(struct replica *replica, uint64_t offset)
{
    assert(replica->sent_frames > 0 && offset >= replica->sent_frames - 1);
    offset -= replica->sent_frames - 1;
    for (size_t i = 0; i < replica->sent_frames; i++) {
        const struct bytes bytes = replica_sent_frame(replica, i);
        struct frame frame = replica->last_sent;

        CHECK(replica->sent_frames == 1 ||
              frame_decode(bytes, replica->options.cluster, &frame, NULL) == ERROR_NONE);
        sweep_count(&replica->log, offset + i, bytes.size);
        replica_apply(replica, offset + i, &frame, STORAGE_BODY_PREPARED);
    }
}

/* Takes the result of the commit's frame in flight, which is at `offset` unless it was read
 * before. */
static void replica_take_result(struct replica *replica, uint64_t offset)
{
    const enum ownership_result result = ownership_take_result(&replica->own);

    if (result != OWNERSHIP_NO_RESULT && replica->events.settled && !replica->is_sweep)
        replica->events.settled(replica->events.context, result);
    if (result != OWNERSHIP_DURABLE)
        return; /* batches go back when the node leaves */
    if (offset >= ownership_place(&replica->own)->next)
        replica_apply_sent(replica, offset);
    replica_go_on(replica);
}

/* ---- the append ---- */

/* Fills a frame with the body from `at` on, as much as fits. */
static void replica_fill(const struct replica *replica, size_t at, struct frame *frame)
{
    const size_t left = replica->body.size - at, max = replica->options.body_bytes_max;

    frame->has_more = left > max;
    frame->body = (struct bytes){replica->body.data + at, left < max ? left : max};
}

static bool replica_encode(struct replica *replica, struct frame *frame, struct wall wall)
{
    frame->partition = replica->options.partition;
    frame->sent = wall;
    replica->sent_frames = 1;
    if (frame->kind == FRAME_CLAIM)
        frame->body = replica->options.address;
    if (frame->kind == FRAME_COMMIT) {
        frame->is_sweep = replica->is_sweep;
        replica_fill(replica, replica->body_sent, frame);
        replica->part_size = frame->body.size;
    }
    buffer_clear(&replica->sent);
    frame_encode(frame, replica->options.cluster, &replica->sent);
    while (frame->kind == FRAME_COMMIT && replica->is_transaction && frame->has_more) {
        replica_fill(replica, replica->part_size, frame);
        replica->part_size += frame->body.size;
        replica->sent_frames++;
        frame->seq++;
        frame_encode(frame, replica->options.cluster, &replica->sent);
    }
    replica->last_sent = *frame;
    if (frame->body.size)
        replica->last_sent.body = frame_body(replica_sent_frame(replica, replica->sent_frames - 1));
    return !buffer_failed(&replica->sent);
}

/* Asks the caller to append a transaction. Returns false if out of memory; nothing is sent. */
static bool replica_send_transaction(struct replica *replica)
{
    struct bytes *frames = malloc(replica->sent_frames * sizeof(*frames));

    if (!frames)
        return false;
    for (size_t i = 0; i < replica->sent_frames; i++)
        frames[i] = replica_sent_frame(replica, i);
    const struct replica_transaction transaction = {
        .ticket = replica->ticket,
        .frames = frames,
        .frame_count = replica->sent_frames,
        .from = ownership_follows_from(&replica->own),
        .to = ownership_follows_to(&replica->own),
    };
    ownership_transact(&replica->own, replica->sent_frames);
    replica->events.transact(replica->events.context, &transaction);
    free(frames);
    return true;
}

/* True if a frame of a commit shall be appended. Commits of the engine and parts of a sweep
 * alternate. */
static bool replica_offer(struct replica *replica, struct instant now)
{
    if (replica->told < OWNERSHIP_RECOVERING || replica->told > OWNERSHIP_DRAINING)
        return false;
    if (replica->body.size == 0 && ownership_is_free(&replica->own) &&
        replica->told == OWNERSHIP_ACTIVE && ownership_state(&replica->own) == OWNERSHIP_ACTIVE &&
        !(replica->was_sweep && replica_has_commit(replica)))
        replica_sweep(replica, now);
    return replica->body.size > 0 || replica_has_commit(replica);
}

static void replica_append(struct replica *replica, struct instant now, struct wall wall)
{
    const bool is_offered = replica_offer(replica, now);
    struct frame frame;
    const uint64_t ticket = ownership_append(
        &replica->own, is_offered ? OWNERSHIP_COMMIT : OWNERSHIP_NOTHING, now, &frame);

    if (!ticket)
        return;
    replica->own_ticket = ticket;
    replica->ticket++;
    const bool is_begun = frame.kind == FRAME_COMMIT && replica->body.size == 0;
    bool is_sent = (!is_begun || replica_prepare(replica)) && replica_encode(replica, &frame, wall);
    if (is_sent && frame.kind == FRAME_COMMIT && replica->is_transaction)
        is_sent = replica_send_transaction(replica);
    else if (is_sent)
        replica->events.append(replica->events.context, replica->ticket,
                               buffer_bytes(&replica->sent));
    if (is_sent)
        return;
    if (replica->options.is_private)
        ownership_refused(&replica->own, ticket, now);
    else
        ownership_failed(&replica->own, ticket, now);
    replica->own_ticket = 0;
}

void replica_stage(struct replica *replica, size_t messages)
{
    assert(messages > 0 && replica->staged == 0);
    replica->staged = messages;
}

void replica_give_up(struct replica *replica, struct instant now)
{
    ownership_give_up(&replica->own, now);
}

/* ---- states ---- */

static void replica_tell_begin(struct replica *replica)
{
    struct storage_meta meta;
    struct error error = {.text = ""};
    const enum error_code code =
        storage_load_meta(replica->options.storage, replica->options.partition, &meta, &error);

    if (code) {
        replica_fail(replica, &error);
        return;
    }
    meta.epoch = ownership_epoch(&replica->own);
    replica->has_engine = true;
    replica->is_leaving = false;
    replica->events.begin(replica->events.context, &meta);
    if (replica->options.is_private) /* its engine alone can answer, even while it recovers */
        ownership_recovered(&replica->own);
}

static void replica_tell_leave(struct replica *replica)
{
    if (replica->has_engine && !replica->is_leaving) {
        replica->is_leaving = true;
        replica->events.leave(replica->events.context);
    }
    replica_fail_commits(replica);
    if (!replica->has_engine)
        ownership_left(&replica->own);
}

/* Reports a new state. */
static void replica_note_state(struct replica *replica)
{
    const enum ownership_state state = ownership_state(&replica->own);

    if (state == replica->told)
        return;
    replica->told = state;
    if (state == OWNERSHIP_BROKEN && *ownership_why(&replica->own))
        error_set(&replica->error, ERROR_CORRUPT, "%s", ownership_why(&replica->own));
    if (state == OWNERSHIP_RECOVERING)
        replica_tell_begin(replica);
    else if (state == OWNERSHIP_DRAINING && replica->has_engine)
        replica->events.drain(replica->events.context);
    else if (state == OWNERSHIP_LEAVING || state == OWNERSHIP_BROKEN)
        replica_tell_leave(replica);
}

/* Loads the place at which reading begins. A partition without a record since it was emptied may
 * be emptied only in part, so it is emptied again. So is one with a copy that was not compared with
 * the log at its end. */
static enum error_code replica_load(struct replica *replica, struct storage_place *ret_place,
                                    struct error *ret_error)
{
    const struct replica_options *options = &replica->options;
    enum error_code code = ERROR_NONE;

    if (replica->reading == REPLICA_EMPTIES)
        *ret_place = replica->first;
    else
        code = storage_load_place(options->storage, options->partition, ret_place, ret_error);
    if (code)
        return code;
    const bool is_part = ret_place->copy_end > 0;
    if (is_part)
        *ret_place = (struct storage_place){0};
    if (!is_part && replica->reading != REPLICA_EMPTIES &&
        ret_place->sweep_end != ret_place->next + 1)
        return code;
    return storage_partition_clear(options->storage, options->partition, ret_place, ret_error);
}

/* Recovers from a failed storage, which may lack records that were read, or from a log that has
 * dropped unread records. The node gives up the partition, and reads from another place. */
static void replica_mend(struct replica *replica, struct instant now)
{
    struct storage_place place;
    struct error error = {.text = ""};

    if (replica->told != OWNERSHIP_LEAVING) {
        replica->told = OWNERSHIP_LEAVING;
        replica_tell_leave(replica);
    }
    if (replica->has_engine || now.ns < replica->retry_at.ns)
        return;
    replica->retry_at = instant_add_ms(now, REPLICA_STORAGE_PAUSE_MS);
    if (replica_load(replica, &place, &error)) {
        replica->error = error;
        replica->has_failed = true;
        return;
    }
    replica->stats.restarts += replica->reading == REPLICA_EMPTIES && replica->first.next;
    replica_begin_ownership(replica, &place, now);
    if (replica->is_planned)
        ownership_plan(&replica->own, replica->planned, now);
    replica->is_failing = replica->has_failed = false;
    replica->is_rewound = true;
}

/* Trims the records before a sweep, after this replica has read past the sweep: appends are
 * applied before they are read. */
static void replica_trim(struct replica *replica, struct instant now)
{
    /* a trim that waits is not put off by sweeps that end more often than the delay */
    if (replica->trim != replica->log.trim && (replica->is_trimmed || !replica->trim)) {
        replica->trim = replica->log.trim;
        replica->trim_at = instant_add_ms(now, replica->options.trim_delay_ms);
        replica->is_trimmed = false;
    }
    if (replica->is_trimmed || !replica->trim || !replica->events.trim ||
        replica->told != OWNERSHIP_ACTIVE || now.ns < replica->trim_at.ns ||
        ownership_place(&replica->own)->next < replica->trim_next)
        return;
    replica->is_trimmed = true;
    replica->events.trim(replica->events.context, replica->trim);
}

void replica_turn(struct replica *replica, struct instant now, struct wall wall)
{
    replica_take_result(replica, 0);
    if (!replica->is_failing) {
        ownership_advance(&replica->own, now);
        replica_take_result(replica, 0);
        replica_note_state(replica);
        ownership_advance(&replica->own, now); /* the engine may have begun, and may answer now */
        replica_note_state(replica);
    }
    replica_rest(replica, now);
    if (!replica->is_failing)
        replica_append(replica, now, wall);
    if (!replica->is_failing)
        replica_note_state(replica);
    if (replica->is_failing && replica->told != OWNERSHIP_BROKEN)
        replica_mend(replica, now);
    if (!replica->is_failing)
        replica_trim(replica, now);
    if (replica->is_leaving || !replica->has_engine)
        replica_fail_commits(replica);
}

/* ---- calls ---- */

/* True if the next records of the log can be used. */
static bool replica_reads(const struct replica *replica)
{
    return !replica->is_failing && !replica->is_rewound && replica->reading != REPLICA_COPIES &&
           replica_state(replica) != OWNERSHIP_BROKEN;
}

/* Takes a record of the log, whose frame has this size. */
static void replica_take(struct replica *replica, uint64_t offset, const struct frame *frame,
                         size_t size, enum storage_body kind, struct instant now)
{
    sweep_count(&replica->log, offset, size);
    const enum ownership_verdict verdict = ownership_read(&replica->own, offset, frame, now);
    if (verdict == OWNERSHIP_VALID)
        replica_apply(replica, offset, frame, kind);
    else if (replica->applied <= offset)
        replica->applied = offset + 1;
    replica->refused += verdict == OWNERSHIP_REFUSED;
    replica_take_result(replica, 0);
    if (!replica->is_failing)
        replica_note_state(replica);
}

void replica_landed(struct replica *replica, uint64_t ticket, uint64_t offset, struct instant now)
{
    if (ticket != replica->ticket || !replica->own_ticket)
        return;
    if (replica->options.is_private && replica_reads(replica))
        replica_take(replica, offset, &replica->last_sent, replica->sent.size,
                     STORAGE_BODY_PREPARED, now);
    ownership_landed(&replica->own, replica->own_ticket, offset, now);
    replica_take_result(replica, offset);
}

/* A part of a larger commit is in doubt: the parts before it are in the log. */
void replica_refused_append(struct replica *replica, uint64_t ticket, enum error_code code,
                            struct instant now)
{
    if (ticket != replica->ticket || !replica->own_ticket)
        return;
    if (replica->body_sent > 0) {
        replica_failed(replica, ticket, now);
        return;
    }
    ownership_refused(&replica->own, replica->own_ticket, now);
    replica->own_ticket = 0;
    replica_refuse_commit(replica, code);
}

void replica_fenced(struct replica *replica, uint64_t ticket, struct instant now)
{
    if (ticket == replica->ticket && replica->own_ticket)
        ownership_fenced(&replica->own, replica->own_ticket, now);
}

void replica_failed(struct replica *replica, uint64_t ticket, struct instant now)
{
    if (ticket == replica->ticket && replica->own_ticket)
        ownership_failed(&replica->own, replica->own_ticket, now);
}

static bool replica_is_begin(const struct frame *frame)
{
    struct sweep_record record;

    return frame->kind == FRAME_COMMIT && frame->is_sweep && !frame->has_more &&
           sweep_decode(frame->body, &record) && record.kind == SWEEP_BEGIN;
}

/* Begins anew at the begin of a sweep, after the partition was emptied. */
static void replica_begin_anew(struct replica *replica, uint64_t offset, const struct frame *frame)
{
    replica->first = (struct storage_place){.next = offset,
                                            .epoch = frame->epoch,
                                            .seq = frame->seq - 1,
                                            .incarnation = frame->incarnation,
                                            .node = frame->node,
                                            .sweep_end = offset + 1};
    replica->reading = REPLICA_EMPTIES;
    replica->is_failing = true; /* until the storage is emptied */
    replica->is_again = false;
}

static void replica_break_at_end(struct replica *replica)
{
    char text[100];

    snprintf(text, sizeof(text), "it ends before %llu", (unsigned long long)replica_next(replica));
    replica_break(replica, text);
}

/* Handles the first record of a log that has none at the offset to read. */
static void replica_find(struct replica *replica, uint64_t offset, const struct frame *frame)
{
    char text[100];

    if (offset + 1 < replica->log.missing_end) {
        replica_start_over(replica); /* the trim before the sweep was undone */
    } else if (offset + 1 == replica->log.missing_end && replica->has_ended) {
        replica->reading = REPLICA_FOLLOWS;
        replica->is_rewound = true;
    } else if (offset <= replica_next(replica) && !replica->is_again) {
        replica->reading = REPLICA_FOLLOWS;
        replica->is_failing = true; /* until the place is loaded from the storage */
        replica->is_again = true;
        replica->has_before = false;
    } else if (offset <= replica_next(replica)) {
        replica_break_at_end(replica);
    } else if (!replica_is_begin(frame)) {
        snprintf(text, sizeof(text), "it begins at %llu, and not with a sweep",
                 (unsigned long long)offset);
        replica_break(replica, text);
    } else {
        replica_begin_anew(replica, offset, frame);
    }
}

/* Compares the record before the place that was loaded with what the place says of it. A log that
 * lost its last records may have grown past that place since, and its next records tell nothing if
 * they are of an earlier epoch. Returns whether the record is another one. */
static bool replica_is_replaced(const struct replica *replica, uint64_t offset,
                                const struct frame *frame)
{
    const struct ownership_place *place = replica_place(replica);

    return replica->is_at_place && offset + 1 == place->next &&
           (frame->epoch != place->epoch || frame->seq != place->seq ||
            frame->incarnation != place->incarnation);
}

/* Compares the record before the place of the last page of a copy likewise: the giver may have
 * known records that the log has lost. */
static bool replica_is_miscopied(const struct replica *replica, uint64_t offset,
                                 const struct frame *frame)
{
    const struct storage_place *place = &replica->copy_last;

    return replica->copy_end && offset + 1 >= replica->copy_end &&
           (offset + 1 > replica->copy_end || frame->epoch != place->epoch ||
            frame->seq != place->seq || frame->incarnation != place->incarnation);
}

static void replica_drop_copy(struct replica *replica)
{
    replica->stats.copy_failures++;
    replica_start_over(replica);
}

/* True if the log was to return the record before the place, and has not yet. */
static bool replica_lacks_before(const struct replica *replica)
{
    return replica->is_again && !replica->has_before && replica_next(replica) > 0;
}

/* True if the first record that an empty partition reads is the begin of a sweep: the log was
 * trimmed, or is an import (import.h). */
static bool replica_begins_swept(const struct replica *replica, const struct frame *frame)
{
    return replica_next(replica) == 0 && !replica->log.missing_end && replica_is_begin(frame);
}

void replica_read(struct replica *replica, uint64_t offset, struct bytes bytes, struct instant now)
{
    struct frame frame;
    struct error error = {.text = ""};

    if (!replica_reads(replica))
        return;
    enum error_code code = frame_decode(bytes, replica->options.cluster, &frame, &error);
    if (!code && frame.partition != replica->options.partition)
        code = error_set(&error, ERROR_CORRUPT, "it has a record of partition %u", frame.partition);
    if (code) {
        replica->error = error;
        ownership_break(&replica->own);
        replica_note_state(replica);
        return;
    }
    if (replica->reading == REPLICA_SEEKS) {
        replica_find(replica, offset, &frame);
        replica_note_state(replica);
        return;
    }
    if (replica_begins_swept(replica, &frame)) {
        replica_begin_anew(replica, offset, &frame);
        return;
    }
    if (replica_lacks_before(replica) && offset + 1 != replica_next(replica))
        replica_break_at_end(replica);
    else if (replica_is_replaced(replica, offset, &frame))
        replica_break(replica, "its last record is another one than it was");
    if (replica_state(replica) == OWNERSHIP_BROKEN) {
        replica_note_state(replica);
        return;
    }
    if (replica_is_miscopied(replica, offset, &frame)) {
        replica_drop_copy(replica);
        return;
    }
    replica->is_at_place = false;
    replica->has_before = true;
    replica->is_again = replica->is_again && offset < replica_next(replica);
    replica_take(replica, offset, &frame, bytes.size, STORAGE_BODY_READ, now);
}

/* Lets the first record of the log be read next, to see where the log begins. */
static void replica_seek(struct replica *replica)
{
    replica->reading = REPLICA_SEEKS;
    replica->is_rewound = true;
}

void replica_lost(struct replica *replica)
{
    if (!replica_reads(replica))
        return;
    if (replica->reading == REPLICA_SEEKS) {
        replica_break(replica, "it cannot be read from its first record on");
        replica_note_state(replica);
        return;
    }
    replica->has_ended = false;
    replica_seek(replica);
}

void replica_restored(struct replica *replica)
{
    if (!replica_reads(replica))
        return;
    if (replica->reading == REPLICA_SEEKS) {
        replica_break(replica, "it has none");
        replica_note_state(replica);
        return;
    }
    if (replica_lacks_before(replica)) {
        replica_break_at_end(replica);
        replica_note_state(replica);
        return;
    }
    if (replica->copy_end) {
        replica_drop_copy(replica); /* the log ends before what was copied */
        return;
    }
    replica->is_again = false;
    /* A trim follows the end of its sweep, so a fail-over may have undone it. An import at the
     * beginning of the log is not over yet. */
    const bool lacks_sweep = replica->log.missing_end > 1 && !replica->has_ended;
    replica->has_ended = true;
    if (lacks_sweep)
        replica_seek(replica);
    else
        replica_become_whole(replica);
}

void replica_pass(struct replica *replica, uint64_t end)
{
    const struct ownership_place *place = ownership_place(&replica->own);

    if (!replica_reads(replica) || !ownership_is_free(&replica->own) || end <= place->next ||
        replica->part.size)
        return;
    const struct frame last = {.node = place->owner,
                               .incarnation = place->incarnation,
                               .epoch = place->epoch,
                               .seq = place->seq};
    ownership_pass(&replica->own, end);
    replica->applied = end;
    replica_store(replica, end - 1, &last, (struct bytes){0}, STORAGE_BODY_READ);
}

void replica_plan(struct replica *replica, uint32_t node, struct instant now)
{
    replica->is_planned = true;
    replica->planned = node;
    ownership_plan(&replica->own, node, now);
}

void replica_recovered(struct replica *replica)
{
    if (!replica->is_leaving)
        ownership_recovered(&replica->own);
}

void replica_drained(struct replica *replica)
{
    ownership_drained(&replica->own);
}

void replica_left(struct replica *replica)
{
    assert(replica->has_engine && replica->is_leaving);
    replica->has_engine = replica->is_leaving = false;
    ownership_left(&replica->own);
}

void replica_commit(struct replica *replica, struct storage_batch *batch)
{
    replica->messages_waiting += batch->messages;
    list_push(&replica->waiting, &batch->link);
}

void replica_stop(struct replica *replica)
{
    replica->own_ticket = 0;
    replica_fail_commits(replica);
}

bool replica_take_rewind(struct replica *replica)
{
    const bool is_rewound = replica->is_rewound;

    replica->is_rewound = false;
    return is_rewound;
}

enum error_code replica_create(const struct replica_options *options,
                               const struct replica_events *events, struct instant now,
                               struct replica **ret_replica, struct error *ret_error)
{
    struct replica *replica = calloc(1, sizeof(*replica));
    struct storage_place place;

    if (!replica)
        return error_set(ret_error, ERROR_NO_MEMORY, "replica");
    replica->options = *options;
    if (!replica->options.body_bytes_max)
        replica->options.body_bytes_max = FRAME_BODY_SIZE_MAX;
    replica->events = *events;
    replica->random = random_seeded(options->seed);
    list_init(&replica->waiting);
    list_init(&replica->committing);
    buffer_init(&replica->part);
    buffer_init(&replica->sent);
    buffer_init(&replica->body);
    const enum error_code code = replica_load(replica, &place, ret_error);
    if (code) {
        replica_destroy(replica);
        return code;
    }
    replica_begin_ownership(replica, &place, now);
    *ret_replica = replica;
    return ERROR_NONE;
}

void replica_destroy(struct replica *replica)
{
    if (!replica)
        return;
    buffer_deinit(&replica->part);
    buffer_deinit(&replica->sent);
    buffer_deinit(&replica->body);
    free(replica);
}
