/*
 * replica.h - one partition on one node of a cluster: joins the log of the partition, the ownership
 * (ownership.h), the storage that follows the log, and the commits of the engine.
 *
 * It reads the log into the storage, claims the partition when the plan names its node, appends the
 * engine's batches as frames, and answers each batch when it is durable. It has no clock, no thread
 * and no log of its own: the caller hands in records, results of appends and the time, and takes
 * the calls of struct replica_events, which it must not answer by calls of the replica from within,
 * but for replica_commit and those marked "from within".
 *
 *     replica_create(&options, &events, now, &replica, &error);
 *     ... for each record of the log from replica_next() on:
 *     replica_read(replica, offset, bytes, now);
 *     replica_restored(replica);                           the end of the log is reached
 *     replica_plan(replica, node, now);
 *     replica_commit(replica, batch);                      the engine's, while it owns
 *     replica_landed(replica, ticket, offset, now);        or replica_failed
 *     replica_turn(replica, now, wall);                    after each of them, and at wake_at
 *     if (replica_take_rewind(replica)) ...                follow the log anew
 *     if (replica_may_act(replica, now)) ...               begin a delivery, answer a read
 *
 * Time       Instants as ownership.h wants them; `wall` only goes into frames, for people.
 * While it owns the partition it sweeps the log (sweep.h) when that is large, and asks for the
 * records before the sweep to be dropped. A replica that then finds that the records which it is to
 * read next are gone empties its partition, and begins with the first record of the log, if a sweep
 * begins there.
 *
 * A replica without rows can begin with a copy of another node, before it follows the log:
 *
 *     if (replica_wants_copy(replica, next)) ...           `next` is that of another node
 *     while (... a page comes, and ...)
 *         replica_take_page(replica, &page, now);     the last one ends it: replica_take_rewind
 *     replica_end_copy(replica);                           no page comes: the log has all of them
 *
 * Errors     A log that lost records breaks it for good: OWNERSHIP_BROKEN. A storage that fails
 *            takes the ownership away, and the log is read again from the place of the storage:
 *            replica_take_rewind.
 * Ownership  Batches are the engine's, borrowed from replica_commit to `committed`.
 * Threads    None: one owner. replica_create and replica_destroy too.
 */
#ifndef TICKWHEEL_CLUSTER_REPLICA_H
#define TICKWHEEL_CLUSTER_REPLICA_H

#include "cluster/copy.h"
#include "cluster/ownership.h"
#include "cluster/sweep.h"

struct replica_options {
    uint32_t node;
    uint16_t partition;
    uint64_t cluster; /* id of the cluster, in each frame */
    uint64_t lease_ms, handover_ms;
    uint64_t seed;         /* random: of incarnations, and pauses between claims */
    size_t body_bytes_max; /* of a frame; 0: FRAME_BODY_SIZE_MAX */
    struct sweep_limits sweep;
    uint64_t trim_delay_ms; /* from the end of a sweep on: readers that are no later miss nothing */
    uint64_t copy_records_min; /* of a log, for a copy to be worth it; 0: none is */
    struct bytes address;      /* of the node, in its claims; borrowed */
    struct storage *storage;   /* borrowed; it may hold other partitions, too */
};

/* A commit that ends a transaction of messages (replica_stage): append the frames in it, and commit
 * it if they lie one behind the other, the first one between the offsets `from` and `to`; otherwise
 * abort it. Answer with the ticket and the offset of the last frame, or that it failed. */
struct replica_transaction {
    uint64_t ticket;
    const struct bytes *frames; /* valid during the call */
    size_t frame_count;
    uint64_t from, to;
};

/* The work of others. */
struct replica_events {
    void *context;
    /* Append the bytes to the log, which are valid until the replica's next call; answer with the
     * ticket, later. */
    void (*append)(void *context, uint64_t ticket, struct bytes bytes);
    /* NULL: no delivery is in a transaction. */
    void (*transact)(void *context, const struct replica_transaction *transaction);
    /* This node owns the partition: make its engine, of this metadata, and tell replica_recovered
     * when it is ready. */
    void (*begin)(void *context, const struct storage_meta *meta);
    /* Begin no delivery, and tell replica_drained when all outcomes are committed. */
    void (*drain)(void *context);
    /* This node owns it no more: the engine answers no one, and goes when all deliveries that it
     * lent are back: replica_left. */
    void (*leave)(void *context);
    /* A batch is back: result NONE, or IO when it is not durable, or not known to be. */
    void (*committed)(void *context, struct storage_batch *batch);
    /* A frame of a commit has come to this result: for counts. May be NULL. */
    void (*settled)(void *context, enum ownership_result result);
    /* Records before this offset are not needed: drop them. A failure does no harm. May be NULL. */
    void (*trim)(void *context, uint64_t before);
};

/* For counts: of this replica, but for those of the log, which are kept with the place. */
struct replica_stats {
    uint64_t log_bytes, live_bytes; /* of the log; of the copies of its last sweep; about */
    uint64_t sweeps, rows;          /* that have ended; rows that they copied */
    uint64_t sweep_failures;        /* the storage was damaged, or failed */
    uint64_t restarts;              /* from the first record of a log, with an empty partition */
    uint64_t copies, copy_rows;     /* of other nodes, whole; rows of their pages */
    uint64_t copy_failures;         /* that were given up, so that the log is read */
};

struct replica;

enum error_code replica_create(const struct replica_options *options,
                               const struct replica_events *events, struct instant now,
                               struct replica **ret_replica, struct error *ret_error);

/* Gives back all batches, as not durable. No other call but replica_destroy follows. */
void replica_stop(struct replica *replica);

/* After replica_stop, or without an engine. NULL is fine. */
void replica_destroy(struct replica *replica);

/* The offset of the record to read next, when the log is followed from its beginning or anew. */
uint64_t replica_next(const struct replica *replica);

/* True, once: the log is to be followed anew, from replica_next on; or, if replica_seeks, from its
 * first record, whatever the offset of that is. */
bool replica_take_rewind(struct replica *replica);
bool replica_seeks(const struct replica *replica);

/* The next record of the log, or a record that was read before. */
void replica_read(struct replica *replica, uint64_t offset, struct bytes bytes, struct instant now);

/* The log has no record at the offset that is to be read. */
void replica_lost(struct replica *replica);

/* Whether it has nothing of a log of which another node has read all before `next`, so that a copy
 * is worth more than to follow the log. False behind replica_end_copy and the last page. */
bool replica_wants_copy(const struct replica *replica, uint64_t next);

/* Whether a copy is under way: its first page has come, and its last one has not. The log is not
 * followed meanwhile. */
bool replica_is_copying(const struct replica *replica);

/* The next page. False: it does not fit to the pages before, or the storage fails; then the copy is
 * given up. */
bool replica_take_page(struct replica *replica, const struct copy_page *page, struct instant now);

/* The pages end. Those before are dropped, and the log is followed from its beginning:
 * replica_take_rewind. */
void replica_end_copy(struct replica *replica);

/* The end of the log is reached. */
void replica_restored(struct replica *replica);
void replica_plan(struct replica *replica, uint32_t node, struct instant now);
void replica_recovered(struct replica *replica);
void replica_drained(struct replica *replica);
void replica_left(struct replica *replica);

/* The append is in the log, at this offset; or it is in doubt. */
void replica_landed(struct replica *replica, uint64_t ticket, uint64_t offset, struct instant now);
void replica_failed(struct replica *replica, uint64_t ticket, struct instant now);

/* Takes a batch of the engine, from within too. It comes back by `committed`, in order; at once,
 * in the next turn, when the node does not own the partition. */
void replica_commit(struct replica *replica, struct storage_batch *batch);

/* `messages` messages wait in a transaction. The batches that end them (storage_batch.messages)
 * come after this call, and make one commit. Until it has its result, nothing else is staged. */
void replica_stage(struct replica *replica, size_t messages);

/* The transaction is gone, although the engine takes its messages for sent: this node gives the
 * partition up, and the log decides. */
void replica_give_up(struct replica *replica, struct instant now);

/* Does the work that is due. */
void replica_turn(struct replica *replica, struct instant now, struct wall wall);

/* When to call replica_turn again at the latest, if nothing else happens. */
struct instant replica_wake_at(const struct replica *replica, struct instant now);

/* Whether a delivery may begin, or a read be answered. */
bool replica_may_act(const struct replica *replica, struct instant now);

/* Until when that holds if nothing else happens; {0}: it does not. */
struct instant replica_acts_until(const struct replica *replica);

enum ownership_state replica_state(const struct replica *replica);
const struct ownership_place *replica_place(const struct replica *replica);

/* Whether it only reads: it may end here. */
bool replica_is_idle(const struct replica *replica);

/* Of the own claim, while it owns the partition. */
uint64_t replica_epoch(const struct replica *replica);

/* Records before this offset are in the storage, or changed nothing. */
uint64_t replica_applied(const struct replica *replica);

/* All rows are there that the log has had up to replica_applied. */
bool replica_is_whole(const struct replica *replica);

void replica_get_stats(const struct replica *replica, struct replica_stats *ret_stats);

/* How many records were read that changed nothing, because their node owned the partition no more
 * or not yet. */
uint64_t replica_refused(const struct replica *replica);

/* The storage failed, and its place is not loaded yet. */
bool replica_is_failing(const struct replica *replica);

/* The storage failed when it was asked last; replica_error says why. */
bool replica_storage_fails(const struct replica *replica);

/* Why the storage or the log failed last; empty text: they did not. */
const struct error *replica_error(const struct replica *replica);

/* For tests: aborts unless every invariant holds. */
void replica_check(const struct replica *replica);

#endif
