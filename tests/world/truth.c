/* truth.c - the promises of a cluster, with rules of its own on valid records; see truth.h. */
#include "truth.h"

#include "world.h"

#include "base/check.h"
#include "base/random.h"
#include "store/testing/memory.h"
#include "timer/fanout.h"

#include <inttypes.h>

static const char LOG[] = "a commit is what its log says";
static const char FOLLOWS[] = "a replica follows its log";
static const char ONCE[] = "a message is committed once, and only with its firing";
static const char READ[] = "an answer shows what is durable";
static const char OVER[] = "nothing after a timer is over";
static const char EARLY[] = "never early";
static const char EPOCH[] = "an owner delivers once at a time, and not after its successor";
static const char ENDS[] = "at least once";
static const char LOST[] = "acknowledged is never lost";

enum { EPOCH_SHIFT = 40 }; /* a serial begins with the epoch of the owner that made the timer */

/* True if the next record of the log is valid, by docs/cluster-design.md. */
static bool truth_accepts(const struct truth *truth, const struct frame *frame)
{
    if (frame->kind == FRAME_CLAIM)
        return frame->epoch == truth->epoch + 1;
    return frame->epoch == truth->epoch && frame->node == truth->node &&
           frame->incarnation == truth->incarnation && frame->seq == truth->seq + 1 &&
           !truth->has_acted;
}

void truth_land(struct truth *truth, const struct frame *frame)
{
    uint64_t offset = truth->size++;
    bool is_valid = truth_accepts(truth, frame);

    CHECK(offset < RECORDS_MAX);
    if (is_valid) {
        for (size_t i = 0; i < truth->failed_count; i++)
            if (truth->failed[i].epoch == frame->epoch && truth->failed[i].seq == frame->seq &&
                frame->kind == FRAME_COMMIT)
                world_fail(truth->world, 0, LOG,
                           "a commit that was answered as failed is valid at %" PRIu64, offset);
        if (frame->kind == FRAME_CLAIM) {
            truth->epoch = frame->epoch;
            truth->node = frame->node;
            truth->incarnation = frame->incarnation;
        }
        truth->seq = frame->seq;
        truth->has_acted = frame->kind == FRAME_RELEASE;
        mirror_apply(&truth->mirror, offset, frame);
    }
    truth->zombies += frame->kind != FRAME_CLAIM && frame->epoch < truth->epoch;
    truth->repeats += !is_valid && frame->epoch == truth->epoch;
    truth->records[offset].epoch = frame->epoch;
    truth->records[offset].seq = frame->seq;
    truth->records[offset].is_valid = is_valid;
    truth->records[offset].is_told = false;
    truth->records[offset].frame = *frame;
    if (truth->size % HASH_EVERY == 0)
        truth->records[offset].hash = mirror_hash(truth->mirror.storage);
}

void truth_skip(struct truth *truth)
{
    CHECK(truth->size++ < RECORDS_MAX);
    if (truth->size % HASH_EVERY == 0)
        truth->records[truth->size - 1].hash = mirror_hash(truth->mirror.storage);
}

void truth_message(struct truth *truth, uint64_t serial)
{
    struct tracked *tracked = truth_track(truth, serial);

    if (++tracked->messages > 1)
        world_fail(truth->world, 0, ONCE, "the message of %" PRIx64 " is in its topic twice",
                   serial);
    if (tracked->is_cancelled)
        world_fail(truth->world, 0, ONCE,
                   "the message of %" PRIx64 " is committed after its cancel", serial);
}

void truth_storage(const struct truth *truth, uint64_t next, struct storage *storage)
{
    if (next > truth->size)
        world_fail(truth->world, 0, FOLLOWS, "a replica is ahead of the log: %" PRIu64, next);
    if (next > 0 && next % HASH_EVERY == 0 && truth->records[next - 1].hash != mirror_hash(storage))
        world_fail(truth->world, 0, FOLLOWS, "a replica differs from the log before %" PRIu64,
                   next);
}

void truth_trim(const struct truth *truth, uint64_t before)
{
    struct mirror rest;

    if (before >= truth->size)
        world_fail(truth->world, 0, LOG, "the log is to be dropped, all of it");
    mirror_init(&rest);
    rest.takes_copies = true;
    for (uint64_t i = before; i < truth->size; i++)
        if (truth->records[i].is_valid)
            mirror_apply(&rest, i, &truth->records[i].frame);
    memory_storage_check(rest.storage);
    if (mirror_hash(rest.storage) != mirror_hash(truth->mirror.storage))
        world_fail(truth->world, 0, LOG,
                   "the log from %" PRIu64 " on does not say what all of it says", before);
    mirror_deinit(&rest);
}

/* Returns 1 + the offset of the valid record; 0 if there is none. */
static uint64_t truth_find(const struct truth *truth, const struct frame *frame)
{
    for (uint64_t i = truth->size; i > 0; i--)
        if (truth->records[i - 1].is_valid && truth->records[i - 1].epoch == frame->epoch &&
            truth->records[i - 1].seq == frame->seq)
            return i;
    return 0;
}

void truth_durable(struct truth *truth, const struct frame *frames, size_t count, uint64_t next)
{
    uint64_t place = 0;

    for (size_t i = 0; i < count; i++) {
        place = truth_find(truth, &frames[i]);
        if (place == 0)
            world_fail(truth->world, 0, LOG,
                       "a commit is acknowledged, and not valid in the log: epoch %" PRIu64
                       " seq %" PRIu64,
                       frames[i].epoch, frames[i].seq);
        truth->records[place - 1].is_told = true;
    }
    if (next < place)
        world_fail(truth->world, 0, LOG, "a commit is acknowledged, and not applied: %" PRIu64,
                   place - 1);
}

void truth_failed(struct truth *truth, const struct frame *frame)
{
    if (truth_find(truth, frame))
        world_fail(truth->world, 0, LOG,
                   "a commit is answered as failed, and valid in the log: epoch %" PRIu64
                   " seq %" PRIu64,
                   frame->epoch, frame->seq);
    CHECK(truth->failed_count < VERDICT_MAX);
    truth->failed[truth->failed_count].epoch = frame->epoch;
    truth->failed[truth->failed_count++].seq = frame->seq;
}

bool truth_matches(const struct truth *truth, const struct ownership_place *place)
{
    uint64_t at = place->next;

    if (at > truth->size)
        return false;
    while (at > 0 && !truth->records[at - 1].is_valid)
        at--;
    return at == 0 ? place->epoch == 0
                   : truth->records[at - 1].epoch == place->epoch &&
                         truth->records[at - 1].seq == place->seq &&
                         (place->epoch == 0 ||
                          truth->records[at - 1].frame.incarnation == place->incarnation);
}

/* ---- timers ---- */

struct tracked *truth_track(struct truth *truth, uint64_t serial)
{
    size_t at = random_mix(serial) % TRACKED_MAX;

    while (truth->tracked[at].serial && truth->tracked[at].serial != serial)
        at = (at + 1) % TRACKED_MAX;
    if (!truth->tracked[at].serial) {
        CHECK(++truth->tracked_count < TRACKED_MAX);
        truth->tracked[at].serial = serial;
    }
    return &truth->tracked[at];
}

/* Notes since when the timer is due, if a call has moved it to a time that is over. */
static void truth_note_ripe(const struct truth *truth, struct tracked *tracked,
                            const struct timer *timer)
{
    const struct wall now = world_now(truth->world);

    if (wall_max(timer->due, timer->at).ms > now.ms)
        tracked->ripe = (struct wall){0};
    else if (!tracked->ripe.ms)
        tracked->ripe = now;
}

void truth_batch(struct truth *truth, uint64_t epoch, const struct storage_batch *batch)
{
    for (size_t i = 0; i < batch->write_count; i++) {
        const struct timer *timer = batch->writes[i].timer;

        struct tracked *tracked = truth_track(truth, timer->id.serial);

        truth_note_ripe(truth, tracked, timer);
        if (timer_is_final(timer->state) && timer->version > tracked->ended_version) {
            tracked->ended_version = timer->version;
            tracked->ended_in = epoch;
        }
    }
}

/* True if both are one timer at one version. A timer that has ended may lack some texts. One that
 * is being delivered may show a later firing. */
static bool truth_is_same(const struct timer *row, const struct timer *timer)
{
    const struct timer_texts *a = &row->texts, *b = &timer->texts;

    if (timer_is_final(row->state) || timer_is_final(timer->state))
        return row->state == timer->state;
    return (row->due.ms == timer->due.ms || a->schedule.size > 0) &&
           row->created.ms == timer->created.ms && bytes_equal(a->target, b->target) &&
           bytes_equal(a->payload, b->payload) && bytes_equal(a->headers, b->headers) &&
           bytes_equal(a->labels, b->labels) && bytes_equal(a->tenant, b->tenant) &&
           bytes_equal(a->key, b->key) && bytes_equal(a->request, b->request) &&
           bytes_equal(a->watch, b->watch) && bytes_equal(a->schedule, b->schedule);
}

/* ---- a log that lost its last records ---- */

/* Forgets what clients were told of a timer whose changes are lost, in part or all. */
static void truth_lose(struct truth *truth, uint64_t serial)
{
    struct tracked *tracked = truth_track(truth, serial);

    *tracked = (struct tracked){.serial = serial,
                                .is_cancel_asked = tracked->is_cancel_asked,
                                .is_loose = true,
                                .is_moved = true,
                                .delivered_in = tracked->delivered_in,
                                .deliveries = tracked->deliveries,
                                .ripe = tracked->ripe};
    for (size_t i = truth->made_count; i > 0; i--)
        if (truth->made[i - 1].serial == serial)
            truth->made[i - 1] = truth->made[--truth->made_count];
}

/* Loses the timers that have a row in one of the storages which the other one has not. */
static void truth_lose_other(struct truth *truth, struct storage *one, struct storage *other)
{
    struct storage_page page = mirror_rows(one, STORAGE_SCAN_ALL);

    for (size_t i = 0; i < page.count; i++) {
        struct timer *row = NULL;

        if (storage_find(other, &page.timers[i]->id, &row, NULL) != ERROR_NONE ||
            row->version != page.timers[i]->version || row->state != page.timers[i]->state ||
            row->at.ms != page.timers[i]->at.ms)
            truth_lose(truth, page.timers[i]->id.serial);
        timer_free(row);
    }
    storage_page_free(&page);
}

/* Reads the first records again. */
static void truth_replay(struct truth *truth, uint64_t size)
{
    const uint64_t zombies = truth->zombies, repeats = truth->repeats;

    mirror_init(&truth->mirror);
    truth->size = truth->epoch = truth->incarnation = truth->seq = 0;
    truth->node = 0;
    truth->has_acted = false;
    while (truth->size < size) {
        const struct frame frame = truth->records[truth->size].frame;
        const bool is_told = truth->records[truth->size].is_told;

        truth_land(truth, &frame);
        truth->records[truth->size - 1].is_told = is_told;
    }
    truth->zombies = zombies;
    truth->repeats = repeats;
}

void truth_cut(struct truth *truth, uint64_t size, bool may_lose)
{
    struct mirror old = truth->mirror;

    for (uint64_t i = size; i < truth->size; i++)
        if (!may_lose && truth->records[i].is_told)
            world_fail(truth->world, 0, LOST, "record %" PRIu64 " was acknowledged and is lost", i);
    truth_replay(truth, size);
    truth_lose_other(truth, old.storage, truth->mirror.storage);
    truth_lose_other(truth, truth->mirror.storage, old.storage);
    mirror_deinit(&old);
    for (size_t i = 0; i < TRACKED_MAX; i++) {
        struct tracked *tracked = &truth->tracked[i];

        if (tracked->serial >> EPOCH_SHIFT > truth->epoch)
            truth_lose(truth, tracked->serial);
        if (tracked->delivered_in >= truth->epoch) {
            tracked->delivered_in = truth->epoch;
            tracked->is_out = false;
        }
    }
    for (size_t i = truth->made_count; i > 0; i--)
        if (truth->made[i - 1].size > size)
            truth->made[i - 1] = truth->made[--truth->made_count];
    for (size_t i = truth->failed_count; i > 0; i--)
        if (truth->failed[i - 1].epoch >= truth->epoch)
            truth->failed[i - 1] = truth->failed[--truth->failed_count];
}

/* ---- what is told ---- */

/* Checks a timer that an owner has shown: it is a row of the log, or was one. */
static void truth_check_shown(const struct truth *truth, const struct timer *timer)
{
    const uint32_t number = content_number(timer);
    struct timer *row;

    if (storage_find(truth->mirror.storage, &timer->id, &row, NULL) != ERROR_NONE) {
        if (!timer_is_final(timer->state))
            world_fail(truth->world, number, READ, "it is %s, and has no row",
                       timer_state_text(timer->state));
        return;
    }
    if (timer->version > row->version)
        world_fail(truth->world, number, READ, "version %" PRIu32 " was never durable",
                   timer->version);
    if (timer->version == row->version && !truth_is_same(row, timer))
        world_fail(truth->world, number, READ, "version %" PRIu32 " is something else: %s, not %s",
                   timer->version, timer_state_text(row->state), timer_state_text(timer->state));
    timer_free(row);
}

void truth_created(struct truth *truth, const struct timer_id *id, const struct content *asked)
{
    struct tracked *tracked = truth_track(truth, id->serial);
    struct timer *row;

    if (tracked->is_acked)
        world_fail(truth->world, 0, READ, "two timers have the serial %" PRIx64, id->serial);
    tracked->is_acked = true;
    if (storage_find(truth->mirror.storage, id, &row, NULL) == ERROR_NONE) {
        if (row->version == 1 && !content_matches(asked, row))
            world_fail(truth->world, asked->number, READ, "it is created as something else");
        timer_free(row);
    }
    if (tracked->version_acked)
        return; /* a later owner has answered a patch meanwhile */
    tracked->due = asked->due;
    tracked->version_acked = 1;
}

void truth_patched(struct truth *truth, const struct timer *timer)
{
    struct tracked *tracked = truth_track(truth, timer->id.serial);

    if (timer->version == tracked->version_patched)
        world_fail(truth->world, 0, READ, "two patches of %" PRIx64 " make it version %" PRIu32,
                   timer->id.serial, timer->version);
    if (timer->version < tracked->version_patched)
        return; /* a later owner has answered a patch meanwhile */
    tracked->version_patched = timer->version;
    tracked->due = timer->due;
    if (timer->version > tracked->version_acked)
        tracked->version_acked = timer->version;
}

void truth_cancelled(struct truth *truth, const struct timer_id *id)
{
    truth_track(truth, id->serial)->is_cancelled = true;
}

void truth_read(struct truth *truth, uint64_t epoch, const struct timer_id *id,
                const struct timer *timer, uint32_t version)
{
    const struct tracked *tracked = truth_track(truth, id->serial);
    struct timer *found;

    if (!timer && storage_find(truth->mirror.storage, id, &found, NULL) == ERROR_NONE) {
        if (!timer_is_final(found->state))
            world_fail(truth->world, 0, READ, "a read misses %" PRIx64 ", which has not ended",
                       id->serial);
        timer_free(found);
    }
    if (timer)
        truth_check_shown(truth, timer);
    if (timer && timer->version < version)
        world_fail(truth->world, 0, READ,
                   "a read shows version %" PRIu32 " of %" PRIx64 ", %" PRIu32 " was acknowledged",
                   timer->version, id->serial, version);
    if (timer && timer->version <= tracked->ended_version && tracked->ended_in <= epoch &&
        !timer_is_final(timer->state))
        world_fail(truth->world, 0, READ, "a read shows %" PRIx64 " alive after its end",
                   id->serial);
}

/* Checks that the engine made this timer once. Returns whether it is delivered for the first
 * time. */
static bool truth_check_once(struct truth *truth, uint64_t of, uint64_t what,
                             const struct timer *timer, const char *promise)
{
    for (size_t i = 0; i < truth->made_count; i++) {
        if (truth->made[i].of != of || truth->made[i].what != what)
            continue;
        if (truth->made[i].serial != timer->id.serial)
            world_fail(truth->world, content_number(timer), promise,
                       "%" PRIx64 " is a second one of %" PRIx64, timer->id.serial, of);
        return false;
    }
    CHECK(truth->made_count < MADE_MAX);
    truth->made[truth->made_count].of = of;
    truth->made[truth->made_count].what = what;
    truth->made[truth->made_count].size = truth->size;
    truth->made[truth->made_count++].serial = timer->id.serial;
    return true;
}

/* Checks that a firing which is a timer of its own is no second one of the same planned time. */
static void truth_check_firing(struct truth *truth, const struct timer *timer)
{
    struct timer_id of;

    /* a call may have given its planner the time of an earlier firing again */
    if (timer->version > 1 || timer_id_parse(timer->texts.firing_of, &of) ||
        truth->is_moved_by_name || truth_track(truth, of.serial)->is_moved)
        return;
    truth->world->totals->begun +=
        truth_check_once(truth, of.serial, timer->due.ms, timer, "a firing begins once");
}

/* Checks that a part is no second one for the same target. */
static void truth_check_part(struct truth *truth, const struct timer *timer)
{
    struct timer_id of;

    if (timer->texts.targets.size > 0)
        world_fail(truth->world, content_number(timer), "each of several targets has a part",
                   "%" PRIx64 " is delivered itself", timer->id.serial);
    if (timer->version == 1 && fanout_is_part(timer, &of)) /* later its target may be another */
        truth->world->totals->parts +=
            truth_check_once(truth, of.serial, bytes_hash(0, timer->texts.target), timer,
                             "each of several targets has one part");
}

void truth_deliver(struct truth *truth, uint64_t epoch, struct wall now, const struct timer *timer)
{
    struct tracked *tracked = truth_track(truth, timer->id.serial);
    const uint64_t serial = timer->id.serial;

    truth_check_shown(truth, timer);
    if (tracked->is_cancelled)
        world_fail(truth->world, 0, OVER, "%" PRIx64 " is delivered after its cancel was answered",
                   serial);
    if (timer->version <= tracked->ended_version)
        world_fail(truth->world, 0, OVER, "%" PRIx64 " is delivered after its end", serial);
    if (timer->due.ms > now.ms)
        world_fail(truth->world, 0, EARLY, "%" PRIx64 " is delivered %" PRIu64 " ms early", serial,
                   timer->due.ms - now.ms);
    if (tracked->is_acked && !tracked->is_loose && !tracked->patches_open &&
        timer->due.ms != tracked->due.ms)
        world_fail(truth->world, 0, EARLY,
                   "%" PRIx64 " is delivered for another time than was answered", serial);
    if (tracked->delivered_in > epoch)
        world_fail(truth->world, 0, EPOCH,
                   "%" PRIx64 " is delivered in epoch %" PRIu64 " after %" PRIu64, serial, epoch,
                   tracked->delivered_in);
    if (tracked->is_out && tracked->delivered_in == epoch)
        world_fail(truth->world, 0, EPOCH,
                   "%" PRIx64 " is delivered twice at a time in epoch %" PRIu64, serial, epoch);
    truth_check_firing(truth, timer);
    truth_check_part(truth, timer);
    world_note(truth->world, "delivery", 0, content_number(timer), serial, timer->version);
    truth->duplicates += tracked->delivered_in > 0 && tracked->delivered_in < epoch;
    tracked->delivered_in = epoch;
    tracked->is_out = true;
    tracked->deliveries++;
}

void truth_delivered(struct truth *truth, uint64_t epoch, uint64_t serial)
{
    struct tracked *tracked = truth_track(truth, serial);

    if (tracked->delivered_in == epoch)
        tracked->is_out = false;
}

/* Checks that a timer with several targets ended as its parts did, as far as the log has them. */
static void truth_check_parts(const struct truth *truth, const struct timer *timer)
{
    struct fanout fanout;

    if (!fanout_read(timer, &fanout))
        return;
    for (size_t i = 0; i < fanout.count && timer->state == TIMER_FIRED; i++) {
        struct timer *part;

        if (fanout.parts[i].state != FANOUT_FIRED || !fanout.parts[i].has_id)
            world_fail(truth->world, content_number(timer), ENDS,
                       "%" PRIx64 " fired, and its target %zu did not", timer->id.serial, i);
        if (storage_find(truth->mirror.storage, &fanout.parts[i].id, &part, NULL) != ERROR_NONE)
            continue;
        if (part->state != TIMER_FIRED)
            world_fail(truth->world, content_number(timer), ENDS,
                       "%" PRIx64 " fired, and its part %zu is %s", timer->id.serial, i,
                       timer_state_text(part->state));
        timer_free(part);
    }
}

static void truth_ended(struct truth *truth, const struct tracked *tracked,
                        const struct timer *timer)
{
    const enum timer_state state = timer->state;
    struct timer_id of;

    if (timer->texts.targets.size > 0) {
        truth_check_parts(truth, timer);
        return;
    }
    const bool is_asked_by_timer =
        fanout_is_part(timer, &of) && truth_track(truth, of.serial)->is_cancel_asked;
    const bool is_asked =
        state == TIMER_CANCELLED
            ? tracked->is_cancel_asked || is_asked_by_timer || truth->is_cancelled_by_name
        : state == TIMER_DEAD ? tracked->deliveries > 0 || tracked->is_loose || !tracked->is_acked
                              : tracked->deliveries > 0;

    if (!is_asked)
        world_fail(truth->world, 0, ENDS, "%" PRIx64 " ended as %s, which nobody asked for",
                   tracked->serial, timer_state_text(state));
}

/* Checks that at most one live timer has a key of its tenant. */
static void truth_check_keys(const struct truth *truth, const struct storage_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        const struct timer *a = page->timers[i];

        for (size_t k = 0; k < i && a->texts.key.size > 0 && !timer_is_final(a->state); k++) {
            const struct timer *b = page->timers[k];

            if (!timer_is_final(b->state) && bytes_equal(a->texts.key, b->texts.key) &&
                bytes_equal(a->texts.tenant, b->texts.tenant))
                world_fail(truth->world, content_number(a), "one live timer holds a key",
                           "timer #%" PRIu32 " has it too", content_number(b));
        }
    }
}

void truth_end(struct truth *truth, struct wall before)
{
    struct storage_page page = mirror_rows(truth->mirror.storage, STORAGE_SCAN_ALL);
    struct storage_meta meta;
    uint64_t alive = 0;

    memory_storage_check(truth->mirror.storage);
    truth_check_keys(truth, &page);
    for (size_t i = 0; i < page.count; i++) {
        const struct timer *timer = page.timers[i];
        struct tracked *tracked = truth_track(truth, timer->id.serial);

        alive += !timer_is_final(timer->state);
        if (tracked->is_once && tracked->messages != (timer->state == TIMER_FIRED))
            world_fail(truth->world, 0, ONCE, "%" PRIx64 " is %s, and has %" PRIu32 " messages",
                       timer->id.serial, timer_state_text(timer->state), tracked->messages);
        if (timer_is_final(timer->state))
            truth_ended(truth, tracked, timer);
        else if (wall_max(wall_max(timer->due, timer->at), tracked->ripe).ms < before.ms &&
                 timer->state != TIMER_PAUSED &&
                 !timer->texts.flow.size && /* it may wait long for others of its flow */
                 !(tracked->is_out && tracked->delivered_in == truth->epoch))
            world_fail(truth->world, content_number(timer), ENDS,
                       "%" PRIx64 " was not delivered until the end: %s, version %" PRIu32
                       ", attempts %" PRIu32 ", due %" PRIu64 ", at %" PRIu64,
                       timer->id.serial, timer_state_text(timer->state), timer->version,
                       timer->attempts, timer->due.ms, timer->at.ms);
        else
            tracked->is_acked = false; /* it is checked later in this loop */
    }
    CHECK(storage_load_meta(truth->mirror.storage, 0, &meta, NULL) == ERROR_NONE);
    if (meta.pending != alive)
        world_fail(truth->world, 0, READ, "%" PRIu64 " timers are counted, and %" PRIu64 " live",
                   meta.pending, alive);
    storage_page_free(&page);
    for (size_t i = 0; i < TRACKED_MAX; i++) {
        const struct tracked *tracked = &truth->tracked[i];

        if (tracked->is_acked && !tracked->deliveries && !tracked->is_cancel_asked &&
            !tracked->is_loose)
            world_fail(truth->world, 0, LOST, "%" PRIx64 " was acknowledged and is lost",
                       tracked->serial);
    }
}
