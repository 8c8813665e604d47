/*
 * purgatory.h - operations that wait for an event or for their time-out, whichever comes first.
 *
 * An operation is anything of the caller's that cannot be finished yet: a request that waits for
 * replicas, a long poll that waits for data. It is watched under one or many keys. A thread that
 * changes something for which operations may wait then tries its key, that is each operation under
 * it:
 *
 *     bool try_complete(void *context, void *operation) // can it be completed?
 *     {
 *         struct request *request = operation;
 *         (void)context;
 *         return atomic_load(&request->acks) >= request->acks_wanted;
 *     }
 *
 *     void complete(void *context, void *operation, enum tw_completion why) // called once
 *     {
 *         answer(context, operation, why == TW_COMPLETED_BY_TIMEOUT ? "timed out" : "done");
 *         free(operation);
 *     }
 *
 *     struct tw_purgatory *purgatory = tw_purgatory_create(
 *         &(struct tw_purgatory_options){.try_complete = try_complete, .complete = complete});
 *
 *     if (!tw_purgatory_submit(purgatory, request, &partition, 1, now + 30000))
 *         refuse(request);
 *
 *     atomic_fetch_add(&request->acks, 1); // the event; and then, on the same thread:
 *     tw_purgatory_try_key(purgatory, partition);
 *
 *     do // on any thread, now and then, or driven by wake_at and on_sooner
 *         tw_purgatory_expire(purgatory, now, 256);
 *     while (tw_purgatory_wake_at(purgatory) <= now);
 *
 * An accepted operation is completed exactly once, however events and its time-out race. No event
 * is missed: a change made before try_key began is seen by a try of each operation that was watched
 * under the key by then, or that is still being submitted.
 *
 * To complete a single operation, watch it also under a key of its own; to give up all operations
 * of a connection, watch them under the connection's key.
 *
 * The design is that of Kafka's request purgatory after its redesign around timing wheels.
 *
 * Keys       64 bits that the caller derives from the watched thing: a number, an address, a hash
 *            of bytes. Two things with equal keys cost needless tries, but complete_key completes
 *            the operations of both. Hash names that strangers choose with a secret, or they can
 *            choose names whose keys collide.
 * Time       Absolute, 64 bits, in a unit of the caller's, passed in; no clock is read. No
 *            operation times out before its deadline, or a `tick` after it.
 * Errors     Only create and submit can fail, when memory is short or over a limit. Misuse is a bug
 *            in the caller, which assert() reports.
 * Ownership  A submitted operation belongs to the purgatory until complete() is called for it,
 *            after which the purgatory does not touch it: free it there. Do not touch it after
 *            submit has returned true: it may be freed already. A refused operation stays the
 *            caller's.
 * Memory     When an operation is completed, its watch under the first key is freed at once, and so
 *            is the watch by which it was found. Its other watches stay in their lists until a walk
 *            or a purge finds them, at 48 bytes each, and never refer to the operation itself. A
 *            purge keeps such dead watches at about half of all, see `dead_percent_max`; with
 *            TW_UNLINK_AT_ONCE there are none. Memory follows the most held at once; destroy frees
 *            it.
 * Threads    Any thread may call any function at any time, except create, destroy and check (no
 *            other call at the same time). Callbacks run in the calling thread without a lock, and
 *            the callbacks of one operation never overlap. They may call any function but destroy;
 *            a try_complete that always tries its own operation's key never ends.
 */
#ifndef TICKWHEEL_PURGATORY_H
#define TICKWHEEL_PURGATORY_H

#include <tickwheel/wheel.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of dead watches up to which no purge starts. */
#define TW_PURGATORY_DEAD_MIN 1024

/* The most watches and keys that a call examines during a purge, for each watch that it adds or
 * makes dead. */
#define TW_PURGATORY_LOOKS_MAX 16

/* Upper limit of `shard_count`. */
#define TW_PURGATORY_SHARDS_MAX 1024

struct tw_purgatory;

/* Why an operation was completed. */
enum tw_completion {
    TW_COMPLETED_AT_ONCE,    /* its first try succeeded, before it was watched */
    TW_COMPLETED_BY_EVENT,   /* a later try succeeded, or complete_key was called */
    TW_COMPLETED_BY_TIMEOUT, /* its deadline came first */
    TW_COMPLETED_BY_DESTROY  /* it was still waiting when the purgatory was destroyed */
};

/* When the watches of a completed operation leave the lists of their keys. */
enum tw_purgatory_unlink {
    TW_UNLINK_BY_PURGE = 0, /* when a walk or a purge finds them, see Memory above */
    TW_UNLINK_AT_ONCE /* before complete() is called; takes a lock for each key, and 8 bytes more
                               for each watch */
};

/* Zero means the default in every field but the first two. */
struct tw_purgatory_options {
    /* Returns whether the operation can be completed. It may be called any number of times, so it
     * must have no side effect that may not be repeated; after a true answer complete() follows. */
    bool (*try_complete)(void *context, void *operation);

    /* Ends the operation: called exactly once for each accepted operation. */
    void (*complete)(void *context, void *operation, enum tw_completion why);

    /* Reports that the time to call expire has become `wake_at`, earlier than the last answer of
     * tw_purgatory_wake_at, for a thread that sleeps until then. Called within submit. Default: no
     * report. */
    void (*on_sooner)(void *context, uint64_t wake_at);

    /* Passed to the callbacks. */
    void *context;

    /* The time at which the purgatory starts. Default 0. */
    uint64_t start;

    /* How long a tick is: an operation times out at the first multiple of it that is not before its
     * deadline. Default 1. */
    uint64_t tick;

    /* Buckets of each wheel of a part's hierarchy (hierarchy.h): any number of at least 2. A wheel
     * that spans the usual time-out saves moves. Default 256. */
    uint32_t wheel_size;

    /* Default TW_UNLINK_BY_PURGE. */
    enum tw_purgatory_unlink unlink;

    /* The most operations, and the most watches of operations, held at once: over either submit
     * refuses. Default, and most: 2^31 - 1 each. */
    size_t operation_count_max;
    size_t watch_count_max;

    /* The number of parts, each with a lock and a wheel, into which the keys are divided: a power
     * of two of at most TW_PURGATORY_SHARDS_MAX. Each part takes at least 7 KB. Default 16. */
    unsigned shard_count;

    /* The percentage of watches that may be dead, that is of completed operations, before a purge
     * starts, 10 .. 90. The calls that submit and complete do the purge in small steps, so
     * meanwhile the share can rise by another eighth of all watches. Default 50. */
    unsigned dead_percent_max;

    /* The source of memory, for callers that count or own it; called from any thread. `allocate`
     * returns `size` bytes at a multiple of `alignment`, a power of two of at most 2 MiB; NULL
     * means out of memory. `release` gives the bytes back. Set both or neither; both receive
     * `memory_context`. Default: the C library. */
    void *(*allocate)(void *context, size_t alignment, size_t size);
    void (*release)(void *context, void *memory, size_t size);
    void *memory_context;
};

/* Gauges, and counts since creation. */
struct tw_purgatory_stats {
    size_t delayed;          /* waiting operations */
    size_t watched;          /* watches in the lists, dead ones too */
    size_t dead;             /* estimate of the watches of completed operations */
    size_t keys;             /* keys that have a list */
    size_t memory;           /* bytes allocated */
    uint64_t by_event_count; /* operations completed by an event */
    uint64_t by_timeout_count;
    uint64_t purged_count; /* dead watches removed from their lists */
    uint64_t look_count;   /* watches and keys that purges have examined: their cost */
};

/* An empty purgatory. `options` is copied. NULL when out of memory. */
struct tw_purgatory *tw_purgatory_create(const struct tw_purgatory_options *options);

/* Completes the operations that still wait and frees the purgatory; NULL is fine. A submit from
 * these completions is refused. */
void tw_purgatory_destroy(struct tw_purgatory *purgatory);

/* Tries the operation. If it cannot be completed at once, watches it under `key_count` keys, at
 * least one, until `deadline` (TW_NEVER: until an event), and tries it again, because of events
 * that happened meanwhile. Returns false, with the operation left to the caller, over a limit or
 * when out of memory; true means that complete() has been or will be called. */
bool tw_purgatory_submit(struct tw_purgatory *purgatory, void *operation, const uint64_t *keys,
                         size_t key_count, uint64_t deadline);

/* Tries each operation that is watched under `key`, in the order in which they were submitted, and
 * completes those that can be completed. An operation that another thread is trying at this moment
 * is tried once more by that thread. Returns the number completed by this call. O(watches under the
 * key). */
size_t tw_purgatory_try_key(struct tw_purgatory *purgatory, uint64_t key);

/* Completes each operation that is watched under `key`, without trying, as by an event. An
 * operation that another thread is trying at this moment is completed by that thread. Returns the
 * number completed by this call. */
size_t tw_purgatory_complete_key(struct tw_purgatory *purgatory, uint64_t key);

/* Completes up to `limit` operations whose deadline is not after `now`; in order of deadline within
 * a shard. An operation that another thread is trying at this moment is completed by that thread,
 * unless its try succeeds. Returns the number completed by this call; fewer than `limit` means that
 * none was left. */
size_t tw_purgatory_expire(struct tw_purgatory *purgatory, uint64_t now, size_t limit);

/* When to call expire again: never later than the tick of the earliest deadline, possibly sooner.
 * TW_NEVER if no operation has a deadline. From this call on, on_sooner() reports earlier times.
 * O(shards). */
uint64_t tw_purgatory_wake_at(struct tw_purgatory *purgatory);

/* Reads gauges and counts. Each is exact, but they are not read at one instant. O(shards). */
void tw_purgatory_get_stats(struct tw_purgatory *purgatory, struct tw_purgatory_stats *ret_stats);

/* For tests: aborts unless every invariant of the purgatory holds, whether or not assert() is
 * compiled in. No other thread and no callback may be inside. O(operations + watches). */
void tw_purgatory_check(struct tw_purgatory *purgatory);

#ifdef __cplusplus
}
#endif

#endif
