/* ownership.c - see ownership.h; docs/cluster-design.md has the rules with their reasons. */
#include "cluster/ownership.h"

#include "base/check.h"

#include <assert.h>

enum {
    OWNERSHIP_PAUSE_MS = 200,
    OWNERSHIP_PAUSE_SPREAD_MS = 300,
    /* leases after which a lack of success costs the ownership; the log has answered by then */
    OWNERSHIP_LOSE_LEASES = OWNERSHIP_APPEND_LEASES + 1,
};

static struct instant ownership_lease_after(const struct ownership *ownership,
                                            struct instant instant, uint64_t leases)
{
    if (ownership->options_.is_private)
        return (struct instant){UINT64_MAX};
    return instant_add_ms(instant, leases * ownership->options_.lease_ms);
}

/* Returns the end of another node's lease, allowing for the drift of the clocks. */
static struct instant ownership_foreign_end(const struct ownership *ownership,
                                            struct instant instant)
{
    uint64_t lease_ms = ownership->options_.lease_ms;

    return instant_add_ms(instant, lease_ms + lease_ms / (OWNERSHIP_DRIFT / 2) + 1);
}

/* Returns when the owner counts as silent; a live one appends four times a lease. */
static struct instant ownership_silent_at(const struct ownership *ownership)
{
    if (ownership->options_.is_private)
        return (struct instant){0}; /* there is no other owner */
    uint64_t lease_ms = ownership->options_.lease_ms;

    return instant_add_ms(ownership->heard_, lease_ms + lease_ms / 5);
}

static bool ownership_is_owner(const struct ownership *ownership)
{
    return ownership->state_ == OWNERSHIP_RECOVERING || ownership->state_ == OWNERSHIP_ACTIVE ||
           ownership->state_ == OWNERSHIP_DRAINING;
}

static bool ownership_is_planned(const struct ownership *ownership)
{
    return ownership->is_planned_ && ownership->planned_ == ownership->options_.node;
}

void ownership_init(struct ownership *ownership, const struct ownership_options *options,
                    const struct ownership_place *place, struct instant now)
{
    assert(options->lease_ms > 0);
    *ownership = (struct ownership){
        .options_ = *options,
        .random_ = random_seeded(options->seed),
        .state_ = OWNERSHIP_RESTORING,
        .place_ = *place,
        .heard_ = now,
        .claim_at_ = now,
    };
}

/* ---- the append in flight ---- */

/* Forgets the append in flight. A commit gets this result, unless its bytes were read as valid. */
static void ownership_forget(struct ownership *ownership, enum ownership_result result)
{
    if (ownership->is_sent_ && ownership->sent_kind_ == FRAME_COMMIT)
        ownership->result_ = ownership->is_met_durable_ ? OWNERSHIP_DURABLE : result;
    ownership->is_sent_ = ownership->is_landed_ = false;
    ownership->sent_frames_ = 0;
    ownership->is_met_ = ownership->is_met_valid_ = ownership->is_met_durable_ = false;
}

static void ownership_stand_by(struct ownership *ownership, struct instant now)
{
    ownership->state_ = OWNERSHIP_STANDBY;
    ownership->claim_at_ = instant_add_ms(
        now, OWNERSHIP_PAUSE_MS + random_below(&ownership->random_, OWNERSHIP_PAUSE_SPREAD_MS + 1));
}

/* Loses the ownership, and fails the append in flight. */
static void ownership_lose(struct ownership *ownership, enum ownership_result result,
                           struct instant now)
{
    ownership_forget(ownership, result);
    if (ownership->state_ == OWNERSHIP_CLAIMING)
        ownership_stand_by(ownership, now);
    else if (ownership_is_owner(ownership))
        ownership->state_ = OWNERSHIP_LEAVING;
}

void ownership_break(struct ownership *ownership)
{
    ownership_forget(ownership, OWNERSHIP_IN_DOUBT);
    ownership->state_ = OWNERSHIP_BROKEN;
}

static void ownership_break_by_log(struct ownership *ownership, const char *why)
{
    ownership->why_ = why;
    ownership_break(ownership);
}

const char *ownership_why(const struct ownership *ownership)
{
    return ownership->why_ ? ownership->why_ : "";
}

/* Returns a time at most a quarter of a lease after the last record. It is random, because
 * otherwise all partitions of a node keep their leases at once, and commits wait for the keeps. */
static struct instant ownership_next_keep(struct ownership *ownership)
{
    const uint64_t quarter_ms = ownership->options_.lease_ms / 4;

    if (ownership->options_.is_private)
        return (struct instant){UINT64_MAX};
    return instant_add_ms(ownership->sent_at_,
                          quarter_ms - random_below(&ownership->random_, quarter_ms / 4 + 1));
}

/* Completes the append: it is at its offset, and every reader accepts it. */
static void ownership_succeed(struct ownership *ownership)
{
    enum frame_kind kind = ownership->sent_kind_;

    assert(ownership->is_sent_ && ownership->is_landed_);
    assert(kind == FRAME_CLAIM ? ownership->state_ == OWNERSHIP_CLAIMING
                               : ownership_is_owner(ownership));
    assert(kind == FRAME_CLAIM || ownership->sent_offset_ > ownership->last_);
    /* The gap may be the marker or another record. */
    if (ownership->sent_frames_ > 0)
        ownership->markers_ = 1;
    else if (kind == FRAME_CLAIM || ownership->sent_offset_ != ownership->last_ + 1)
        ownership->markers_ = 0;
    ownership->last_ = ownership->sent_offset_;
    ownership->valid_until_ = ownership_lease_after(ownership, ownership->sent_at_, 1);
    ownership->keep_at_ = ownership_next_keep(ownership);
    if (kind == FRAME_CLAIM) {
        ownership->state_ = OWNERSHIP_RECOVERING;
        ownership->serve_at_ = ownership->met_serve_at_;
        ownership->seq_ = 0;
        ownership->is_recovered_ = ownership->is_drained_ = false;
    } else {
        ownership->seq_ = ownership->sent_seq_;
    }
    ownership_forget(ownership, OWNERSHIP_DURABLE);
    if (kind == FRAME_RELEASE)
        ownership->state_ = OWNERSHIP_LEAVING;
}

/* True if no other record can be between the last valid one and the append. A transaction begins
 * after the marker of the one before, so a gap of that size is the marker. */
static bool ownership_follows_on(const struct ownership *ownership, uint64_t offset)
{
    const uint64_t frames = ownership->sent_frames_;

    if (frames == 0)
        return offset == ownership->last_ + 1;
    return offset >= ownership->last_ + frames &&
           offset <= ownership->last_ + frames + ownership->markers_;
}

/* Decides on the append when its offset is known. It succeeds unread if it directly follows the
 * last valid record; otherwise the verdict on the record at this offset decides. */
static void ownership_settle(struct ownership *ownership, struct instant now)
{
    uint64_t offset = ownership->sent_offset_;

    if (ownership_is_owner(ownership) && offset <= ownership->last_)
        ownership_break_by_log(ownership,
                               "it gave an append the place of an acknowledged record: it has "
                               "lost records since");
    else if (ownership_is_owner(ownership) && ownership_follows_on(ownership, offset))
        ownership_succeed(ownership);
    else if (ownership->place_.next <= offset)
        return;
    else if (!ownership->is_met_)
        ownership_break_by_log(ownership,
                               "another record was read at the place of an own one: it is "
                               "another log now");
    else if (ownership->met_offset_ != offset)
        ownership_lose(ownership, OWNERSHIP_IN_DOUBT, now); /* the append is in the log twice */
    else if (ownership->is_met_valid_)
        ownership_succeed(ownership);
    else
        ownership_lose(ownership, OWNERSHIP_FAILED, now);
}

void ownership_landed(struct ownership *ownership, uint64_t ticket, uint64_t offset,
                      struct instant now)
{
    if (!ownership->is_sent_ || ownership->ticket_ != ticket || ownership->is_landed_)
        return;
    ownership->is_landed_ = true;
    ownership->sent_offset_ = offset;
    ownership_settle(ownership, now);
}

void ownership_failed(struct ownership *ownership, uint64_t ticket, struct instant now)
{
    if (ownership->is_sent_ && ownership->ticket_ == ticket)
        ownership_lose(ownership, OWNERSHIP_IN_DOUBT, now);
}

void ownership_refused(struct ownership *ownership, uint64_t ticket, struct instant now)
{
    if (!ownership->is_sent_ || ownership->ticket_ != ticket)
        return;
    if (ownership->sent_kind_ == FRAME_COMMIT)
        ownership_forget(ownership, OWNERSHIP_NO_RESULT);
    else
        ownership_lose(ownership, OWNERSHIP_NO_RESULT, now);
}

void ownership_fenced(struct ownership *ownership, uint64_t ticket, struct instant now)
{
    if (ownership->is_sent_ && ownership->ticket_ == ticket)
        ownership_lose(ownership, OWNERSHIP_FAILED, now);
}

void ownership_pass(struct ownership *ownership, uint64_t next)
{
    assert(!ownership->is_sent_);
    if (ownership->place_.next < next)
        ownership->place_.next = next;
}

enum ownership_result ownership_take_result(struct ownership *ownership)
{
    enum ownership_result result = ownership->result_;

    ownership->result_ = OWNERSHIP_NO_RESULT;
    return result;
}

/* ---- reading ---- */

/* Returns why the log cannot be the one that was read so far; NULL if it can. A frame whose
 * sender had read or appended more shows a loss of records. An epoch has one valid claim, and
 * only its node appends in it. So another node or incarnation has read another claim, in another
 * log. */
static const char *ownership_contradiction(const struct ownership_place *place,
                                           const struct frame *frame)
{
    if (frame->kind == FRAME_CLAIM)
        return frame->epoch > place->epoch + 1 ? "it has lost records before a claim" : NULL;
    if (frame->seq == 0 || frame->epoch < place->epoch)
        return NULL; /* a note has no sequence; other records here are late */
    if (frame->epoch > place->epoch)
        return "it has lost the claim of an owner";
    if (frame->incarnation != place->incarnation || frame->node != place->owner)
        return "it has records of the present epoch that another owner appended: it is not the log "
               "that this copy followed";
    return frame->seq > place->seq + 1 ? "it has lost records of its owner" : NULL;
}

static enum ownership_verdict ownership_judge(const struct ownership_place *place,
                                              const struct frame *frame)
{
    if (frame->kind == FRAME_CLAIM)
        return frame->epoch == place->epoch + 1 ? OWNERSHIP_VALID : OWNERSHIP_REFUSED;
    if (frame->seq == 0 || frame->epoch != place->epoch || frame->node != place->owner ||
        frame->incarnation != place->incarnation)
        return OWNERSHIP_REFUSED;
    if (frame->seq <= place->seq)
        return OWNERSHIP_REPEATED;
    return place->has_acted ? OWNERSHIP_REFUSED : OWNERSHIP_VALID;
}

static bool ownership_is_own(const struct ownership *ownership, const struct frame *frame)
{
    return frame->node == ownership->options_.node &&
           frame->incarnation == ownership->options_.incarnation;
}

/* True if an acknowledged record of this node is in a gap of the log before `offset`. Other gaps
 * are markers, and records of aborted transactions. */
static bool ownership_is_lost(const struct ownership *ownership, uint64_t offset)
{
    const uint64_t next = ownership->place_.next;

    return (ownership_is_owner(ownership) && ownership->last_ >= next &&
            ownership->last_ < offset) ||
           (ownership->is_landed_ && ownership->sent_offset_ >= next &&
            ownership->sent_offset_ < offset);
}

/* Notes that the bytes of the append in flight were read. A claim that was given up has equal
 * bytes. */
static void ownership_meet(struct ownership *ownership, uint64_t offset, const struct frame *frame,
                           enum ownership_verdict verdict)
{
    bool is_claim = frame->kind == FRAME_CLAIM;

    if (!ownership->is_sent_ || !ownership_is_own(ownership, frame) ||
        frame->kind != ownership->sent_kind_ || frame->epoch != ownership->epoch_ ||
        frame->seq != ownership->sent_seq_)
        return;
    if (ownership->is_landed_ && ownership->sent_offset_ != offset && is_claim)
        return;
    ownership->is_met_ = true;
    ownership->met_offset_ = offset;
    ownership->is_met_valid_ = verdict != OWNERSHIP_REFUSED;
    ownership->is_met_durable_ |= !is_claim && verdict == OWNERSHIP_VALID;
    if (is_claim && verdict == OWNERSHIP_VALID)
        ownership->met_serve_at_ = ownership->place_.has_acted || ownership->options_.is_private
                                       ? ownership->heard_
                                       : ownership_foreign_end(ownership, ownership->heard_);
}

static void ownership_follow(struct ownership *ownership, const struct frame *frame,
                             struct instant now)
{
    struct ownership_place *place = &ownership->place_;

    assert(frame->kind == FRAME_CLAIM
               ? frame->epoch == place->epoch + 1 && frame->seq == 0
               : frame->epoch == place->epoch && frame->seq == place->seq + 1);
    place->seq = frame->seq;
    place->has_acted = frame->kind == FRAME_RELEASE;
    ownership->heard_ = now;
    if (frame->kind != FRAME_CLAIM)
        return;
    place->epoch = frame->epoch;
    place->owner = frame->node;
    place->incarnation = frame->incarnation;
    if ((!ownership_is_owner(ownership) && !ownership->is_sent_) ||
        frame->epoch <= ownership->epoch_)
        return;
    /* All readers refuse a commit that was not read before this claim. */
    ownership_lose(ownership, OWNERSHIP_FAILED, now);
}

enum ownership_verdict ownership_read(struct ownership *ownership, uint64_t offset,
                                      const struct frame *frame, struct instant now)
{
    struct ownership_place *place = &ownership->place_;

    if (ownership->state_ == OWNERSHIP_BROKEN)
        return OWNERSHIP_REFUSED;
    if (offset < place->next)
        return OWNERSHIP_REPEATED;
    const char *why = ownership_is_lost(ownership, offset)
                          ? "it has lost a record that was acknowledged to this node"
                          : ownership_contradiction(place, frame);
    if (why) {
        ownership_break_by_log(ownership, why);
        return OWNERSHIP_REFUSED;
    }
    enum ownership_verdict verdict = ownership_judge(place, frame);
    ownership_meet(ownership, offset, frame, verdict);
    place->next = offset + 1;
    if (verdict == OWNERSHIP_VALID)
        ownership_follow(ownership, frame, now);
    if (!ownership->is_landed_ || ownership->sent_offset_ != offset)
        return verdict;
    if (!ownership->is_met_ || ownership->met_offset_ != offset)
        ownership_break_by_log(ownership, "another record lies at the place of an own one: it is "
                                          "another log now");
    else
        ownership_settle(ownership, now);
    return verdict;
}

void ownership_restored(struct ownership *ownership)
{
    if (ownership->state_ == OWNERSHIP_RESTORING)
        ownership->state_ = OWNERSHIP_STANDBY;
}

/* ---- the owner ---- */

void ownership_plan(struct ownership *ownership, uint32_t node, struct instant now)
{
    ownership->planned_ = node;
    ownership->is_planned_ = true;
    ownership_advance(ownership, now);
}

void ownership_recovered(struct ownership *ownership)
{
    ownership->is_recovered_ = true;
}

void ownership_drained(struct ownership *ownership)
{
    ownership->is_drained_ = true;
}

void ownership_left(struct ownership *ownership)
{
    if (ownership->state_ == OWNERSHIP_LEAVING)
        ownership->state_ = OWNERSHIP_STANDBY;
}

bool ownership_may_act(const struct ownership *ownership, struct instant now)
{
    return ownership->state_ == OWNERSHIP_ACTIVE && now.ns < ownership->valid_until_.ns;
}

struct instant ownership_acts_until(const struct ownership *ownership)
{
    return ownership->state_ == OWNERSHIP_ACTIVE ? ownership->valid_until_ : (struct instant){0};
}

/* Returns the time from which an append in flight, or the lack of one, costs the ownership. */
static struct instant ownership_lose_at(const struct ownership *ownership)
{
    return ownership->state_ == OWNERSHIP_CLAIMING
               ? ownership_lease_after(ownership, ownership->sent_at_, OWNERSHIP_LOSE_LEASES)
               : ownership_lease_after(ownership, ownership->valid_until_,
                                       OWNERSHIP_LOSE_LEASES - 1);
}

void ownership_advance(struct ownership *ownership, struct instant now)
{
    if ((ownership_is_owner(ownership) ||
         (ownership->state_ == OWNERSHIP_CLAIMING && ownership->is_sent_)) &&
        now.ns >= ownership_lose_at(ownership).ns)
        ownership_lose(ownership, OWNERSHIP_IN_DOUBT, now);
    if (ownership->state_ == OWNERSHIP_STANDBY && ownership_is_planned(ownership) &&
        now.ns >= ownership->claim_at_.ns &&
        (ownership->place_.has_acted || now.ns >= ownership_silent_at(ownership).ns))
        ownership->state_ = OWNERSHIP_CLAIMING;
    if (ownership->state_ == OWNERSHIP_RECOVERING && ownership->is_recovered_ &&
        now.ns >= ownership->serve_at_.ns && now.ns < ownership->valid_until_.ns)
        ownership->state_ = OWNERSHIP_ACTIVE;
    /* For all readers a release also ends the former owner's lease, so it must wait for the end
     * of that. */
    if ((ownership->state_ == OWNERSHIP_RECOVERING || ownership->state_ == OWNERSHIP_ACTIVE) &&
        !ownership_is_planned(ownership) && now.ns >= ownership->serve_at_.ns) {
        ownership->state_ = OWNERSHIP_DRAINING;
        ownership->drain_until_ = instant_add_ms(now, ownership->options_.handover_ms);
    }
}

/* Returns the kind of the record to append; 0 for none. */
static enum frame_kind ownership_kind(const struct ownership *ownership, enum ownership_offer offer,
                                      struct instant now)
{
    if (ownership->is_sent_)
        return 0;
    if (ownership->state_ == OWNERSHIP_CLAIMING)
        return FRAME_CLAIM;
    if (!ownership_is_owner(ownership))
        return 0;
    if (ownership->state_ == OWNERSHIP_DRAINING &&
        (ownership->is_drained_ || now.ns >= ownership->drain_until_.ns))
        return FRAME_RELEASE;
    if (offer == OWNERSHIP_COMMIT)
        return FRAME_COMMIT;
    return now.ns >= ownership->keep_at_.ns ? FRAME_KEEP : 0;
}

uint64_t ownership_append(struct ownership *ownership, enum ownership_offer offer,
                          struct instant now, struct frame *ret_frame)
{
    enum frame_kind kind = ownership_kind(ownership, offer, now);

    if (kind == 0)
        return 0;
    if (kind == FRAME_CLAIM)
        ownership->epoch_ = ownership->place_.epoch + 1;
    assert(ownership->epoch_ >= ownership->place_.epoch && !ownership->is_landed_);
    ownership->is_sent_ = true;
    ownership->sent_kind_ = kind;
    ownership->sent_seq_ = kind == FRAME_CLAIM ? 0 : ownership->seq_ + 1;
    ownership->sent_at_ = now;
    *ret_frame = (struct frame){
        .kind = kind,
        .node = ownership->options_.node,
        .incarnation = ownership->options_.incarnation,
        .epoch = ownership->epoch_,
        .seq = ownership->sent_seq_,
        .to = kind == FRAME_RELEASE ? ownership->planned_ : 0,
    };
    return ++ownership->ticket_;
}

void ownership_transact(struct ownership *ownership, size_t frames)
{
    assert(ownership->is_sent_ && ownership->sent_kind_ == FRAME_COMMIT && frames > 0);
    ownership->sent_frames_ = frames;
    ownership->sent_seq_ += frames - 1;
}

uint64_t ownership_follows_from(const struct ownership *ownership)
{
    return ownership->last_ + 1;
}

uint64_t ownership_follows_to(const struct ownership *ownership)
{
    return ownership->last_ + 1 + ownership->markers_;
}

void ownership_give_up(struct ownership *ownership, struct instant now)
{
    if (ownership_is_owner(ownership))
        ownership_lose(ownership, OWNERSHIP_IN_DOUBT, now);
}

struct instant ownership_wake_at(const struct ownership *ownership, struct instant now)
{
    struct instant at = {UINT64_MAX};
    struct instant waits[4] = {at, at, at, at};

    if (ownership->state_ == OWNERSHIP_STANDBY && ownership_is_planned(ownership)) {
        waits[0] =
            ownership->place_.has_acted ? ownership->claim_at_ : ownership_silent_at(ownership);
        if (waits[0].ns < ownership->claim_at_.ns)
            waits[0] = ownership->claim_at_;
    }
    if (ownership_is_owner(ownership) ||
        (ownership->state_ == OWNERSHIP_CLAIMING && ownership->is_sent_))
        waits[1] = ownership_lose_at(ownership);
    if (ownership_is_owner(ownership) && !ownership->is_sent_)
        waits[2] = ownership->keep_at_;
    if (ownership->state_ == OWNERSHIP_RECOVERING)
        waits[3] = ownership->serve_at_;
    else if (ownership->state_ == OWNERSHIP_DRAINING && !ownership->is_sent_)
        waits[3] = ownership->drain_until_;
    for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++)
        if (waits[i].ns > now.ns && waits[i].ns < at.ns)
            at = waits[i]; /* earlier deadlines wait for a record */
    return at;
}

void ownership_check(const struct ownership *ownership)
{
    bool is_owner = ownership_is_owner(ownership);

    CHECK(!ownership->is_sent_ || is_owner || ownership->state_ == OWNERSHIP_CLAIMING);
    CHECK(!ownership->is_sent_ ||
          (ownership->sent_kind_ == FRAME_CLAIM) == (ownership->state_ == OWNERSHIP_CLAIMING));
    CHECK(!ownership->is_landed_ || ownership->is_sent_);
    CHECK(!ownership->is_met_ || ownership->is_sent_);
    CHECK(!is_owner || ownership->epoch_ > 0);
    /* The owner has read its own claim, and no later one. */
    CHECK(!is_owner || ownership->place_.epoch == ownership->epoch_);
    CHECK(!is_owner || (ownership->place_.owner == ownership->options_.node &&
                        ownership->place_.incarnation == ownership->options_.incarnation));
    CHECK(!is_owner || ownership->place_.next > 0);
    CHECK(ownership->state_ != OWNERSHIP_LEAVING || !ownership->is_sent_);
}
