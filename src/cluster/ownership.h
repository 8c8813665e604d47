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

/* A clock gains or loses at most one part in this number against another one. */
#define OWNERSHIP_DRIFT 64

/* Leases within which the log answers an append, or tells that it is in doubt: 12 s, for brokers
 * that give up a dead one after 9 s. Then an owner goes on at once, and needs no claim. */
#define OWNERSHIP_APPEND_LEASES 6

enum ownership_state {
    OWNERSHIP_RESTORING,  /* reads what the log has */
    OWNERSHIP_STANDBY,    /* follows the log */
    OWNERSHIP_CLAIMING,   /* its claim is on its way */
    OWNERSHIP_RECOVERING, /* owns it: the engine starts, the lease before ends */
    OWNERSHIP_ACTIVE,     /* answers and delivers */
    OWNERSHIP_DRAINING,   /* delivers no more, takes outcomes, and then releases */
    OWNERSHIP_LEAVING,    /* owns it no more; the engine waits for deliveries that it has lent */
    OWNERSHIP_BROKEN,
};

/* Of a record that is read. */
enum ownership_verdict {
    OWNERSHIP_VALID,
    OWNERSHIP_REPEATED, /* read before, at this offset or an earlier one */
    OWNERSHIP_REFUSED,  /* of a former owner, a claim that came late, or outside of the sequence */
};

/* Of a commit that was appended. */
enum ownership_result {
    OWNERSHIP_NO_RESULT, /* none has come since the last was taken */
    OWNERSHIP_DURABLE,   /* every reader takes it */
    OWNERSHIP_FAILED,    /* no reader does */
    OWNERSHIP_IN_DOUBT,
};

/* What the caller has to append by itself. */
enum ownership_offer {
    OWNERSHIP_NOTHING,
    OWNERSHIP_COMMIT,
};

struct ownership_options {
    uint32_t node;
    uint64_t incarnation;
    uint64_t lease_ms;    /* from the sending of the last valid record on */
    uint64_t handover_ms; /* for outcomes, before a release */
    uint64_t seed;        /* for pauses between claims */
};

/* Where a reader of the log stands: kept with the rows that were applied up to there. */
struct ownership_place {
    uint64_t next;  /* the offset of the record that it reads next */
    uint64_t epoch; /* 0: no valid claim yet */
    uint64_t seq;   /* of the last valid record */
    uint64_t incarnation;
    uint32_t owner;
    bool is_released; /* the last valid record is a release */
};

struct ownership {
    struct ownership_options options_;
    struct random random_;
    enum ownership_state state_;
    const char *why_;  /* the log broke it; NULL: it did not */
    uint32_t planned_; /* the node that is to own the partition */
    bool is_planned_;

    struct ownership_place place_;
    struct instant heard_;    /* when the last valid record was read, or the machine began */
    struct instant claim_at_; /* not before */

    /* As owner. */
    uint64_t epoch_, seq_; /* of the own claim, and of the last own record that is valid */
    uint64_t last_;        /* its offset */
    uint64_t markers_;     /* of transactions, that lie behind it; 0: perhaps, and perhaps none */
    struct instant keep_at_, valid_until_, serve_at_, drain_until_;
    bool is_recovered_, is_drained_;

    /* The append in flight. */
    bool is_sent_, is_landed_;
    uint64_t ticket_;
    enum frame_kind sent_kind_;
    uint64_t sent_seq_, sent_offset_; /* of its last frame */
    size_t sent_frames_;              /* of a transaction; 0: it is none */
    struct instant sent_at_;
    /* Its bytes were read: last at this offset, valid or not; and whether they ever were valid. */
    bool is_met_, is_met_valid_, is_met_durable_;
    uint64_t met_offset_;
    struct instant met_serve_at_; /* of a claim: when the lease before it is over */

    enum ownership_result result_;
};

/* Begins at `place`; all 0 is the start of the log, whose first offset is 0. */
void ownership_init(struct ownership *ownership, const struct ownership_options *options,
                    const struct ownership_place *place, struct instant now);

/* Judges the record at `offset`: the first one that the log has from place.next on, or one that was
 * read before. The state may be OWNERSHIP_BROKEN afterwards: then the record is refused. */
enum ownership_verdict ownership_read(struct ownership *ownership, uint64_t offset,
                                      const struct frame *frame, struct instant now);

/* Everything that was in the log at some time since the start is read. */
void ownership_restored(struct ownership *ownership);

/* A record is damaged: nothing behind it can be judged. */
void ownership_break(struct ownership *ownership);

/* Why the log broke the machine, in words; empty if ownership_break did, or nothing. */
const char *ownership_why(const struct ownership *ownership);

/* The node that is to own the partition, by the plan. */
void ownership_plan(struct ownership *ownership, uint32_t node, struct instant now);

/* Of an owner: the first page is in memory; all outcomes are committed; all
 * deliveries that the engine lent are back. */
void ownership_recovered(struct ownership *ownership);
void ownership_drained(struct ownership *ownership);
void ownership_left(struct ownership *ownership);

/* Lets the time pass: states change by it. */
void ownership_advance(struct ownership *ownership, struct instant now);

/* Asks for a record to be appended now, and fills the head of `ret_frame` (not partition, sent,
 * has_more and body). Answers a ticket for the two calls below; 0: nothing is to be appended. A
 * commit is asked for only if one is offered. One append is in flight at a time. Advance first. */
uint64_t ownership_append(struct ownership *ownership, enum ownership_offer offer,
                          struct instant now, struct frame *ret_frame);

/* The commit that was asked for last goes out as a transaction of `frames` frames, whose seqs rise
 * from that of `ret_frame` on. It may be committed only if its frames lie one behind the other, and
 * the first one between `follows_from` and `follows_to`: then no other record lies before them. The
 * offset of its last frame is told by ownership_landed, when the transaction is committed. */
void ownership_transact(struct ownership *ownership, size_t frames);
uint64_t ownership_follows_from(const struct ownership *ownership);
uint64_t ownership_follows_to(const struct ownership *ownership);

/* The owner cannot commit what its engine takes for done: ownership is lost. */
void ownership_give_up(struct ownership *ownership, struct instant now);

/* The append is in the log at this offset; or it is in doubt: it will be there, or not. An
 * append that was given up meanwhile is passed over, and so is a second answer: it landed twice. */
void ownership_landed(struct ownership *ownership, uint64_t ticket, uint64_t offset,
                      struct instant now);
void ownership_failed(struct ownership *ownership, uint64_t ticket, struct instant now);

/* The result of a commit, once. */
enum ownership_result ownership_take_result(struct ownership *ownership);

/* Whether a delivery may begin, or a read be answered, at this moment. */
bool ownership_may_act(const struct ownership *ownership, struct instant now);

/* Until when that holds, if nothing else happens; {0}: it does not. */
struct instant ownership_acts_until(const struct ownership *ownership);

/* When to advance and append again, at the latest, if nothing else happens; later than `now`, at
 * which both were done. */
struct instant ownership_wake_at(const struct ownership *ownership, struct instant now);

/* No append is in flight. An active owner then appends the commit that is offered. */
static inline bool ownership_is_free(const struct ownership *ownership)
{
    return !ownership->is_sent_;
}

static inline enum ownership_state ownership_state(const struct ownership *ownership)
{
    return ownership->state_;
}

/* Of the own claim, while it is the owner. */
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
