/*
 * purgatory.h - operations that wait for an event or for their time-out, whichever comes first.
 *
 * An operation is anything of the caller's that cannot be finished yet: a request that waits for
 * replicas, a long poll that waits for data. It is watched under one or many keys. Whoever changes
 * what an operation may wait for then tries the key, that is each operation under it:
 *
 *     bool try_complete(void *context, void *operation) // has it all that it waits for?
 *     {
 *         struct request *request = operation;
 *         (void)context;
 *         return atomic_load(&request->acks) >= request->acks_wanted;
 *     }
 *
 *     void complete(void *context, void *operation, enum tw_completion why) // once, and last
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
 * An operation that was accepted is completed exactly once, however events and its time-out race.
 * No event is missed: what happened before try_key began is seen by a try of each operation that
 * was watched under the key by then, or that is still being submitted.
 *
 * To complete a single operation, whatever it waits for, watch it under a key of its own too; to
 * give up all operations of a connection, under the connection's.
 *
 * The design is that of Kafka's request purgatory as it was redesigned around timing wheels; what
 * differs is told in docs/purgatory.md.
 *
 * Keys       64 bits that the caller makes of whatever it watches: a number, an address, a hash of
 *            bytes. Two things with one key only cost tries, but complete_key takes both. Hash what
 *            strangers choose with a secret of yours, or they may choose keys that collide.
 * Time       Absolute ticks since any epoch, 64 bits, handed in; no clock is read. No time-out
 *            before its deadline.
 * Errors     Only create and submit can fail, for want of memory or over a limit. Misuse is a bug
 *            in the caller: assert() reports it.
 * Ownership  A submitted operation is the purgatory's until complete() is called for it, which is
 *            the last that the purgatory does with it: free it there. Do not touch it after submit
 *            has returned true, for it may be gone. One that was refused stays the caller's.
 * Memory     When an operation is over, its watch under the first key goes at once, and the one by
 *            which it was found; the others stay in their lists until they are met or purged, at 48
 *            bytes each, and never hold the operation itself. They are kept at about half of all,
 *            see `dead_percent_max`. Memory follows the most held at once; destroy frees it.
 * Threads    Any thread may call anything at any time, but for create, destroy and check (alone).
 *            Callbacks run on the thread that calls, no lock is held meanwhile, and those of one
 *            operation never overlap. They may call anything but destroy; only, a try_complete that
 *            always tries its own operation's key is tried for ever.
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

/* So many dead watches are never worth a purge. */
#define TW_PURGATORY_DEAD_MIN 1024

/* Watches and keys that a call looks at, at most, for each watch that it adds or that dies by it,
 * while a purge is under way. */
#define TW_PURGATORY_LOOKS_MAX 16

/* The most that `shard_count` may be. */
#define TW_PURGATORY_SHARDS_MAX 1024

struct tw_purgatory;

/* Why an operation is over. */
enum tw_completion {
    TW_COMPLETED_AT_ONCE,    /* its first try succeeded, before it was watched at all */
    TW_COMPLETED_BY_EVENT,   /* a later try succeeded, or complete_key was called */
    TW_COMPLETED_BY_TIMEOUT, /* its deadline came first */
    TW_COMPLETED_BY_DESTROY  /* it was still waiting */
};

/* Zero means the default in every field but the first two. */
struct tw_purgatory_options {
    /* Whether the operation has all that it waits for. Has no side effect that may not happen
     * twice: it may be asked again and again, and after a true answer complete() follows. */
    bool (*try_complete)(void *context, void *operation);

    /* Ends the operation: called exactly once for each that was accepted. */
    void (*complete)(void *context, void *operation, enum tw_completion why);

    /* Tells whoever sleeps until the last wake_at that it has become `wake_at`, earlier. Called
     * within submit. Default: nobody is told. */
    void (*on_sooner)(void *context, uint64_t wake_at);

    /* Handed to the callbacks. */
    void *context;

    /* The time at which the purgatory starts. Default 0. */
    uint64_t start;

    /* The most operations, and the most watches of them, that wait at once: over it submit refuses.
     * Default, and most: 2^31 - 1 each. */
    size_t operation_count_max;
    size_t watch_count_max;

    /* Into how many parts, each with its lock and its wheel, the keys are divided: a power of two
     * of at most TW_PURGATORY_SHARDS_MAX. Each takes 130 KB to begin with. Default 16. */
    unsigned shard_count;

    /* The share of the watches that may be of completed operations before a purge begins, 10 .. 90.
     * A purge is done in small steps by whoever submits and completes, so meanwhile the share may
     * rise by an eighth of all. Default 50. */
    unsigned dead_percent_max;

    /* Where memory comes from, for callers that count it or own it: from any thread. `allocate`
     * returns NULL when there is none, else `size` bytes on a multiple of `alignment`, a power of
     * two of at most 2 MiB; `release` takes it back. Both or neither; both are handed
     * `memory_context`. Default: the C library. */
    void *(*allocate)(void *context, size_t alignment, size_t size);
    void (*release)(void *context, void *memory, size_t size);
    void *memory_context;
};

/* What the purgatory holds, and has done since it was created. */
struct tw_purgatory_stats {
    size_t delayed;          /* operations that wait */
    size_t watched;          /* watches in the lists, dead ones too */
    size_t dead;             /* the estimate of those of completed operations */
    size_t keys;             /* that have a list */
    size_t memory;           /* bytes allocated */
    uint64_t by_event_count; /* operations completed: by an event */
    uint64_t by_timeout_count;
    uint64_t purged_count; /* dead watches taken out of their lists */
    uint64_t look_count;   /* watches and keys that purges have looked at: what they cost */
};

/* A purgatory of no operations. `options` is copied. NULL when out of memory. */
struct tw_purgatory *tw_purgatory_create(const struct tw_purgatory_options *options);

/* Completes what still waits and frees the purgatory; NULL is fine. The completions may submit, and
 * are refused. */
void tw_purgatory_destroy(struct tw_purgatory *purgatory);

/* Tries the operation; if it cannot be completed at once, watches it under `key_count` keys, at
 * least one, until `deadline` (TW_NEVER: until an event), and tries it again, for what happened
 * meanwhile. Returns false, with the operation left to the caller, over a limit or when out of
 * memory; true means that complete() has been or will be called. */
bool tw_purgatory_submit(struct tw_purgatory *purgatory, void *operation, const uint64_t *keys,
                         size_t key_count, uint64_t deadline);

/* Tries each operation that is watched under `key`, in the order in which they were submitted, and
 * completes those that can be. One that another thread is just trying is tried once more by that
 * thread. Returns how many this call has completed. O(watches under the key). */
size_t tw_purgatory_try_key(struct tw_purgatory *purgatory, uint64_t key);

/* Completes each operation that is watched under `key`, without trying, as by an event. One that
 * another thread is just trying is completed by that thread. Returns how many this call has
 * completed. */
size_t tw_purgatory_complete_key(struct tw_purgatory *purgatory, uint64_t key);

/* Completes up to `limit` operations whose deadline is not after `now`; of those in one shard, in
 * order of deadline. One that another thread is just trying is completed by that thread, unless its
 * try succeeds. Returns how many this call has completed; fewer than `limit` means that none was
 * left. */
size_t tw_purgatory_expire(struct tw_purgatory *purgatory, uint64_t now, size_t limit);

/* When to call expire again: never later than the earliest deadline, possibly sooner. TW_NEVER if
 * no operation has a deadline. From here on on_sooner() tells of earlier ones. O(shards). */
uint64_t tw_purgatory_wake_at(struct tw_purgatory *purgatory);

/* Gauges and counts. Each is right, if not all of the same moment. O(shards). */
void tw_purgatory_get_stats(struct tw_purgatory *purgatory, struct tw_purgatory_stats *ret_stats);

/* For tests: aborts unless every invariant of the purgatory holds, whether or not assert() is
 * compiled in. No other thread and no callback may be inside. O(operations + watches). */
void tw_purgatory_check(struct tw_purgatory *purgatory);

#ifdef __cplusplus
}
#endif

#endif
