/*
 * ownership.h - which node owns one partition, as one of them sees it: the rules of
 * docs/cluster-design.md as a state machine.
 *
 * The caller hands in all records of the log in order, the results of its own appends, and the
 * time; it asks which record to append, whether it may deliver, and which state it is in:
 *
 *     verdict = ownership_read(&ownership, offset, &frame, now);     apply it if it is valid
 *     ownership_advance(&ownership, now);
 *     ticket = ownership_append(&ownership, OWNERSHIP_COMMIT, now, &frame);
 *     ...                                                   if not 0, append it; then one of
 *     ownership_landed(&ownership, ticket, offset, now);    it is in the log, at this offset
 *     ownership_failed(&ownership, ticket, now);            no answer, or an error: in doubt
 *     switch (ownership_take_result(&ownership)) ...      of the commit that was in flight
 *     if (ownership_may_act(&ownership, now)) ...         begin a delivery, answer a read
 *
 * Time       Instants of one clock of this node that goes on while the machine sleeps. It may run
 *            faster or slower than that of another node by OWNERSHIP_DRIFT.
 * Errors     A log that lost records or shows others than before breaks the machine: it stays in
 *            OWNERSHIP_BROKEN and does nothing.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_CLUSTER_OWNERSHIP_H
#define TICKWHEEL_CLUSTER_OWNERSHIP_H

#include "base/random.h"
#include "cluster/frame.h"

/* Two clocks drift apart by at most one part in this number. */
#define OWNERSHIP_DRIFT 64

/* Leases within which the log answers an append or reports it in doubt: 12 s, because brokers
 * give up a dead one after 9 s. The owner then continues at once, without a claim. */
#define OWNERSHIP_APPEND_LEASES 6

enum ownership_state {
    OWNERSHIP_RESTORING, /* reads the log up to its end */
    OWNERSHIP_STANDBY,   /* follows the log */
    OWNERSHIP_CLAIMING,  /* its claim is in flight */
    /* owns the partition; the engine starts, and the former owner's lease ends */
    OWNERSHIP_RECOVERING,
    OWNERSHIP_ACTIVE,   /* answers and delivers */
    OWNERSHIP_DRAINING, /* begins no delivery, commits outcomes, and then releases */
    OWNERSHIP_LEAVING,  /* owns it no longer; the engine waits for deliveries in flight */
    OWNERSHIP_BROKEN,
};

/* Verdict on a record that is read. */
enum ownership_verdict {
    OWNERSHIP_VALID,
    OWNERSHIP_REPEATED, /* was read before, at this offset or an earlier one */
    OWNERSHIP_REFUSED,  /* from a former owner, a late claim, or out of sequence */
};

/* Result of a commit. */
enum ownership_result {
    OWNERSHIP_NO_RESULT, /* none since the last one was taken */
    OWNERSHIP_DURABLE,   /* every reader accepts it */
    OWNERSHIP_FAILED,    /* no reader accepts it */
    OWNERSHIP_IN_DOUBT,
};

/* Record that the caller wants to append. */
enum ownership_offer {
    OWNERSHIP_NOTHING,
    OWNERSHIP_COMMIT,
};

struct ownership_options {
    uint32_t node;
    uint64_t incarnation;
    uint64_t lease_ms;    /* length of the lease, from the sending of the last valid record */
    uint64_t handover_ms; /* time limit for outcomes before a release */
    uint64_t seed;        /* random seed of the pauses between claims */
    /* no other node appends to the log: a claim holds at once, and no lease ends */
    bool is_private;
};

/* Position of a reader of the log, stored with the rows that it has applied. */
struct ownership_place {
    uint64_t next;  /* offset of the record to read next */
    uint64_t epoch; /* 0 before the first valid claim */
    uint64_t seq;   /* sequence number of the last valid record */
    uint64_t incarnation;
    uint32_t owner;
    bool has_acted; /* whether the last valid record is a release */
};

struct ownership {
    struct ownership_options options_;
    struct random random_;
    enum ownership_state state_;
    const char *why_;  /* why the log broke it; NULL if it did not */
    uint32_t planned_; /* node that shall own the partition */
    bool is_planned_;

    struct ownership_place place_;
    /* time at which the last valid record was read, or the machine began */
    struct instant heard_;
    struct instant claim_at_; /* earliest time of the next claim */

    /* As owner. */
    /* epoch of this node's claim; sequence number of its last valid record */
    uint64_t epoch_, seq_;
    uint64_t last_;    /* offset of that record */
    uint64_t markers_; /* transaction markers after last_; 0 if unknown */
    struct instant keep_at_, valid_until_, serve_at_, drain_until_;
    bool is_recovered_, is_drained_;

    /* The append in flight. */
    bool is_sent_, is_landed_;
    uint64_t ticket_;
    enum frame_kind sent_kind_;
    uint64_t sent_seq_, sent_offset_; /* sequence number and offset of its last frame */
    size_t sent_frames_;              /* number of frames of a transaction; 0 if it is none */
    struct instant sent_at_;
    /* Its bytes were read: validity of the last copy, at this offset; and whether any copy was
     * valid. */
    bool is_met_, is_met_valid_, is_met_durable_;
    uint64_t met_offset_;
    struct instant met_serve_at_; /* of a claim: end of the former owner's lease */

    enum ownership_result result_;
};

/* Begins at `place`; all 0 is the start of the log, whose first offset is 0. */
void ownership_init(struct ownership *ownership, const struct ownership_options *options,
                    const struct ownership_place *place, struct instant now);

/* Judges the record at `offset`: the first record of the log from place.next on, or one that was
 * read before. If the state is OWNERSHIP_BROKEN afterwards the record is refused. */
enum ownership_verdict ownership_read(struct ownership *ownership, uint64_t offset,
                                      const struct frame *frame, struct instant now);

/* Reports that all records present at start have been read. */
void ownership_restored(struct ownership *ownership);

/* Reports a damaged record: nothing after it can be judged. */
void ownership_break(struct ownership *ownership);

/* Returns why the log broke the machine; empty if it did not, or ownership_break did. */
const char *ownership_why(const struct ownership *ownership);

/* Sets the node that shall own the partition, by the plan. */
void ownership_plan(struct ownership *ownership, uint32_t node, struct instant now);

/* Progress of an owner: the first page is in memory; all outcomes are committed; all deliveries
 * of the engine are back. */
void ownership_recovered(struct ownership *ownership);
void ownership_drained(struct ownership *ownership);
void ownership_left(struct ownership *ownership);

/* Advances the time, which may change the state. */
void ownership_advance(struct ownership *ownership, struct instant now);

/* Returns the ticket of a record to append now, and fills the head of `ret_frame` (not
 * partition, sent, has_more and body); 0 if there is nothing to append. It asks for a commit
 * only if one is offered. One append is in flight at a time. Call ownership_advance first. */
uint64_t ownership_append(struct ownership *ownership, enum ownership_offer offer,
                          struct instant now, struct frame *ret_frame);

/* Sends the last commit as a transaction of `frames` frames, whose sequence numbers follow that
 * of `ret_frame`. The caller may commit it only if its frames are contiguous and the first is
 * between `follows_from` and `follows_to`: then no other record precedes them. ownership_landed
 * reports the offset of the last frame when the transaction is committed. */
void ownership_transact(struct ownership *ownership, size_t frames);
uint64_t ownership_follows_from(const struct ownership *ownership);
uint64_t ownership_follows_to(const struct ownership *ownership);

/* Gives up the ownership, because the owner cannot commit what its engine takes as done. */
void ownership_give_up(struct ownership *ownership, struct instant now);

/* Reports that the append is in the log at this offset, or that it is in doubt. Answers for
 * appends that were given up are ignored. So is a second answer, which means that the append is
 * there twice. */
void ownership_landed(struct ownership *ownership, uint64_t ticket, uint64_t offset,
                      struct instant now);
void ownership_failed(struct ownership *ownership, uint64_t ticket, struct instant now);

/* Reports that the append is not in the log and never will be. An owner stays the owner, and the
 * next append takes the sequence number. */
void ownership_refused(struct ownership *ownership, uint64_t ticket, struct instant now);

/* Reports that the append is not in the log and never will be, because another record has its
 * place. An owner has been succeeded. */
void ownership_fenced(struct ownership *ownership, uint64_t ticket, struct instant now);

/* Reports that the log has no record of this partition from place.next up to `next`. No append is
 * in flight. */
void ownership_pass(struct ownership *ownership, uint64_t next);

/* Returns the result of a commit, once. */
enum ownership_result ownership_take_result(struct ownership *ownership);

/* True if a delivery may begin, or a read may be answered, now. */
bool ownership_may_act(const struct ownership *ownership, struct instant now);

/* Returns until when that holds if nothing else happens; {0} if it does not. */
struct instant ownership_acts_until(const struct ownership *ownership);

/* Returns the latest time of the next ownership_advance and ownership_append, if nothing else
 * happens. It is later than `now`, at which both were called. */
struct instant ownership_wake_at(const struct ownership *ownership, struct instant now);

/* True if no append is in flight. An active owner then appends the commit that is offered. */
static inline bool ownership_is_free(const struct ownership *ownership)
{
    return !ownership->is_sent_;
}

static inline enum ownership_state ownership_state(const struct ownership *ownership)
{
    return ownership->state_;
}

/* Returns the epoch of this node's claim, while it is the owner. */
static inline uint64_t ownership_epoch(const struct ownership *ownership)
{
    return ownership->epoch_;
}

static inline const struct ownership_place *ownership_place(const struct ownership *ownership)
{
    return &ownership->place_;
}

/* For tests: aborts unless every invariant of the machine holds. */
void ownership_check(const struct ownership *ownership);

#endif
