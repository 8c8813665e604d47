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
 * Errors     A log that lost records breaks it for good: OWNERSHIP_BROKEN. A storage that fails
 *            takes the ownership away, and the log is read again from the place of the storage:
 *            replica_take_rewind.
 * Ownership  Batches are the engine's, borrowed from replica_commit to `committed`.
 * Threads    None: one owner. replica_create and replica_destroy too.
 */
#ifndef TICKWHEEL_CLUSTER_REPLICA_H
#define TICKWHEEL_CLUSTER_REPLICA_H

#include "cluster/ownership.h"
#include "cluster/sweep.h"

struct replica_options {
    uint32_t node;
    uint16_t partition;
    uint64_t cluster; /* id of the cluster, which each frame has */
    uint64_t lease_ms, handover_ms;
    uint64_t seed;         /* random seed of incarnations and of pauses between claims */
    size_t body_bytes_max; /* maximum body of a frame; 0 means FRAME_BODY_SIZE_MAX */
    struct sweep_limits sweep;
    /* delay of a trim after the end of a sweep, so that readers this far behind miss nothing */
    uint64_t trim_delay_ms;
    uint64_t copy_records_min; /* records of a log from which a copy pays; 0 for no copies */
    struct bytes address;      /* address of the node, in its claims; borrowed */
    /* no other node appends to the log, which does not read back what this one appends
     * (log.h): a claim holds at once, and a failed storage gives the partition to nobody */
    bool is_private;
    struct storage *storage; /* borrowed; may hold other partitions too */
};

/* A commit that ends a transaction of messages (replica_stage). Append its frames, and commit if
 * they are contiguous and the first is between the offsets `from` and `to`; otherwise abort.
 * Report the ticket and the offset of the last frame, or the failure. */
struct replica_transaction {
    uint64_t ticket;
    const struct bytes *frames; /* valid during the call */
    size_t frame_count;
    uint64_t from, to;
};

/* Callbacks: I/O that the replica asks its caller to perform, and events. */
struct replica_events {
    void *context;
    /* Appends the bytes to the log, which are valid until the replica's next call. The caller
     * reports the result with the ticket later. */
    void (*append)(void *context, uint64_t ticket, struct bytes bytes);
    /* NULL if no delivery is part of a transaction. */
    void (*transact)(void *context, const struct replica_transaction *transaction);
    /* This node owns the partition: make its engine from this metadata, and call
     * replica_recovered when it is ready. */
    void (*begin)(void *context, const struct storage_meta *meta);
    /* Begin no more deliveries, and call replica_drained when all outcomes are committed. */
    void (*drain)(void *context);
    /* This node no longer owns the partition: the engine answers nobody. Destroy it when all its
     * deliveries are back, and call replica_left. */
    void (*leave)(void *context);
    /* Returns a batch with the result NONE, IO if it is not durable or its effect unknown, or the
     * code of a refusal, which had no effect. */
    void (*committed)(void *context, struct storage_batch *batch);
    /* Reports the result of a frame of a commit, for statistics. May be NULL. */
    void (*settled)(void *context, enum ownership_result result);
    /* Trims the records before this offset. A failure is harmless. May be NULL. */
    void (*trim)(void *context, uint64_t before);
};

/* Statistics of this replica; those of the log are stored with its place. */
struct replica_stats {
    /* approximate size of the log, and of the copies of its last sweep */
    uint64_t log_bytes, live_bytes;
    uint64_t sweeps, rows; /* finished sweeps; rows that they copied */
    /* sweeps that ended because the storage was damaged or failed */
    uint64_t sweep_failures;
    /* restarts from the first record of a log with an empty partition */
    uint64_t restarts;
    uint64_t copies, copy_rows; /* complete copies from other nodes, and their rows */
    uint64_t copy_failures;     /* copies that were given up for reading the log */
};

struct replica;

enum error_code replica_create(const struct replica_options *options,
                               const struct replica_events *events, struct instant now,
                               struct replica **ret_replica, struct error *ret_error);

/* Gives back all batches as not durable. Only replica_destroy may follow. */
void replica_stop(struct replica *replica);

/* Requires replica_stop, or that there is no engine. NULL is allowed. */
void replica_destroy(struct replica *replica);

/* Returns the offset of the record to read next, when the log is followed from its beginning or
 * anew. */
uint64_t replica_next(const struct replica *replica);

/* Returns true once if the log must be followed anew, from replica_next on. If replica_seeks,
 * from its first record at whatever offset: the log lacks the next one, or none was read. */
bool replica_take_rewind(struct replica *replica);
bool replica_seeks(const struct replica *replica);

/* Takes the next record of the log, or one that was read before. */
void replica_read(struct replica *replica, uint64_t offset, struct bytes bytes, struct instant now);

/* Reports that the log has no record at the offset to read. */
void replica_lost(struct replica *replica);

/* Reports that the end of the log was reached. */
void replica_restored(struct replica *replica);

/* Reports that all records before `end` were read, so that the place may move there: a log that
 * other partitions fill can then be trimmed. */
void replica_pass(struct replica *replica, uint64_t end);
void replica_plan(struct replica *replica, uint32_t node, struct instant now);
void replica_recovered(struct replica *replica);
void replica_drained(struct replica *replica);
void replica_left(struct replica *replica);

/* Reports that the append is in the log at this offset, or that it is in doubt. */
void replica_landed(struct replica *replica, uint64_t ticket, uint64_t offset, struct instant now);
void replica_failed(struct replica *replica, uint64_t ticket, struct instant now);

/* Reports that another record has the place of the append, which never will be in the log. */
void replica_fenced(struct replica *replica, uint64_t ticket, struct instant now);

/* Reports that the append is not in the log and never will be, for this reason. */
void replica_refused_append(struct replica *replica, uint64_t ticket, enum error_code code,
                            struct instant now);

/* Takes a batch of the engine, also from within a callback. It comes back by `committed`, in
 * order. If the node does not own the partition it comes back in the next turn. */
void replica_commit(struct replica *replica, struct storage_batch *batch);

/* Announces that `messages` messages wait in a transaction. The batches that end them
 * (storage_batch.messages) follow, and make one commit. Nothing else is staged before its
 * result. */
void replica_stage(struct replica *replica, size_t messages);

/* Gives up the partition because the transaction is lost, although the engine takes its messages
 * for sent. The log decides. */
void replica_give_up(struct replica *replica, struct instant now);

/* Does the work that is due. */
void replica_turn(struct replica *replica, struct instant now, struct wall wall);

/* Returns the latest time of the next replica_turn, if nothing else happens. */
struct instant replica_wake_at(const struct replica *replica, struct instant now);

/* True if a delivery may begin, or a read may be answered. */
bool replica_may_act(const struct replica *replica, struct instant now);

/* Returns until when that holds if nothing else happens; {0} if it does not. */
struct instant replica_acts_until(const struct replica *replica);

enum ownership_state replica_state(const struct replica *replica);
const struct ownership_place *replica_place(const struct replica *replica);

/* True if it only reads, so that it may be ended. */
bool replica_is_idle(const struct replica *replica);

/* Returns the epoch of this node's claim, while it owns the partition. */
uint64_t replica_epoch(const struct replica *replica);

/* Returns the offset before which all records are in the storage or changed nothing. */
uint64_t replica_applied(const struct replica *replica);

/* True if it has all rows that the log has had up to replica_applied. */
bool replica_is_whole(const struct replica *replica);

void replica_get_stats(const struct replica *replica, struct replica_stats *ret_stats);

/* Returns the number of records without effect, because their node did not own the partition. */
uint64_t replica_refused(const struct replica *replica);

/* True if the storage failed and its place has not been loaded since. */
bool replica_is_failing(const struct replica *replica);

/* True if the storage failed the last time; replica_error has the cause. */
bool replica_storage_fails(const struct replica *replica);

/* Returns why the storage or the log failed last; an empty text if neither did. */
const struct error *replica_error(const struct replica *replica);

/* For tests: aborts unless every invariant holds. */
void replica_check(const struct replica *replica);

#endif
