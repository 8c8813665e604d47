/*
 * entries.h - the timers in memory: an entry around each, found by serial, in exactly one phase.
 *
 *     ABSENT ──a row is asked for, or a page brings it──► LOADING ──read──► settle
 *     ABSENT ──create──► WRITING ──durable──► settle
 *     settle: SCHEDULED when it lives and lies before the frontier, otherwise EVICTABLE
 *     SCHEDULED ──due──► QUEUED ──room──► INFLIGHT ──outcome──► WRITING ──durable──► settle
 *     SCHEDULED, QUEUED, EVICTABLE ──command──► WRITING
 *     EVICTABLE ──no scan is out──► ABSENT (the storage has it)
 *
 * An entry stays EVICTABLE while a scan is out, because that scan may return its row as it
 * was before: the entry is what tells the stale row apart.
 *
 * A phase changes in entries_set_phase alone, which asserts that the transition is in its table.
 *
 * Errors     Only entries_create and entries_add can fail, for want of memory.
 * Ownership  Entries belong to the map, and their timers to the entries. What leaves is freed by
 *            entries_free_gone: until then a reply may show it.
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_ENTRIES_H
#define TICKWHEEL_ENGINE_ENTRIES_H

#include "base/footprint.h"
#include "engine/live.h"
#include "store/storage.h"
#include "timer/name.h"
#include "timer/timer.h"

enum entry_phase {
    ENTRY_ABSENT,    /* not in the map */
    ENTRY_LOADING,   /* the row is being read; `timer` is a placeholder */
    ENTRY_WRITING,   /* in a batch; no command may change it */
    ENTRY_SCHEDULED, /* in the wheel */
    ENTRY_QUEUED,    /* due, in a dispatch queue */
    ENTRY_INFLIGHT,  /* being delivered; its timer is lent */
    ENTRY_EVICTABLE, /* durable and not needed */
    ENTRY_PHASE_COUNT,
};

enum entry_flag {
    ENTRY_IS_COUNTED = 1 << 0,   /* entries_near_bytes includes its memory */
    ENTRY_WAS_RETRYING = 1 << 1, /* INFLIGHT: the timer's state was RETRYING before the delivery */
    ENTRY_IS_SPILLING = 1 << 2,  /* WRITING because it was spilled */
    ENTRY_IS_FORGOTTEN = 1 << 3, /* a dead letter whose deletion is being written */
    /* INFLIGHT: its target was unproven (shares.h) when the delivery began */
    ENTRY_IS_UNPROVEN = 1 << 4,
    /* created or named with a key by a client, which is likely to name it again */
    ENTRY_WAS_NAMED = 1 << 5,
    /* WRITING: its message is in a transaction that is committed with this write */
    ENTRY_HAS_MESSAGE = 1 << 6,
    /* WRITING: its parts are asked how they stand when the write is durable (fanout.h) */
    ENTRY_WANTS_LOOK = 1 << 7,
    ENTRY_IS_CALLED = 1 << 8,  /* QUEUED: its lane (flows.c) called it to the queue of its target */
    ENTRY_IS_IN_FLOW = 1 << 9, /* INFLIGHT: it has a place of its flow */
    /* WRITING, SCHEDULED: it comes back to its place in strict order (order.h); until then
     * `found_due` is the end of its pause */
    ENTRY_KEEPS_PLACE = 1 << 10,
    ENTRY_IS_SET_ASIDE = 1 << 11, /* WRITING: counted in `spilling` of its queue (order.h) */
    ENTRY_IS_MADE = 1 << 12,      /* WRITING: made by the engine; commit_making_bytes */
};

/* A timer in memory. */
struct entry {
    struct timer *timer;
    struct timer
        /* WRITING by a command: the changed copy that replaces `timer` when durable; otherwise
         * NULL */
        *successor;
    /* WRITING: first of the new timers that are written in the same batch: a report of the outcome,
     * or the parts of a firing. Each has the next one in its own `report`. Otherwise NULL */
    struct entry *report;
    /* LOADING, WRITING, INFLIGHT, EVICTABLE: on a list of the map, unless another module has moved
     * it to its own. QUEUED: on the list of its queue */
    struct list link;
    struct list waiters; /* LOADING, WRITING: commands that wait for the phase to end */
    union {
        uint64_t wheel_handle; /* SCHEDULED: place in the wheel */
        uint64_t ticket;       /* LOADING: ticket of the read that will bring the row */
        /* QUEUED: its queue's `waited_ms` when it was queued; in a built-in queue, that time */
        uint32_t waited_ms[4];
    };
    struct wall row_at; /* position of its row; 0 if it has none */
    /* time at which its row was read; 0 if the timer was made by this engine */
    struct wall loaded;
    struct wall found_due; /* QUEUED, INFLIGHT: time at which it was found due */
    uint64_t queue;        /* QUEUED, INFLIGHT: key of its dispatch queue */
    /* how live.h counts its timer; changed by entries_show, entries_queue and entries_take_in */
    struct live_mark live;
    /* WRITING: delivery that goes back to its sender when the write has a result; otherwise NULL */
    struct delivery *recorded;
    uint32_t flags; /* bits of enum entry_flag */
    uint8_t phase;  /* enum entry_phase; only entries_set_phase changes it */
    /* WRITING: event for the feed when durable (enum feed_kind); NONE if the purpose of the write
     * decides */
    uint8_t outcome;
};

struct entries;

/* Makes an empty map; NULL if out of memory. `recent_bytes_max` limits the memory of timers that
 * are kept after they left the map (recent.h). */
struct entries *entries_create(size_t recent_bytes_max);

/* Enables counting the memory of each tenant. Called before the first entry. */
void entries_count_tenants(struct entries *entries);

/* Frees every entry with its timers and its recorded delivery. */
void entries_destroy(struct entries *entries);

/* Makes an entry for a timer, in phase LOADING or WRITING, and takes ownership of the timer.
 * Returns NULL if out of memory; then the caller still owns the timer. */
struct entry *entries_add(struct entries *entries, struct timer *timer, enum entry_phase phase);

/* Returns NULL if the timer is not in memory. */
struct entry *entries_find(const struct entries *entries, uint64_t serial);

/* Moves an entry to another phase, and off any list of the old one. LOADING, WRITING and INFLIGHT
 * entries go onto the list of entries_busy. ABSENT entries leave the map, and entries_free_gone
 * frees them. */
void entries_set_phase(struct entries *entries, struct entry *entry, enum entry_phase to);

/* Replaces the entry's timer. The old one stays valid until entries_free_gone. */
void entries_replace(struct entries *entries, struct entry *entry, struct timer *timer);

/* Keeps a timer that has no entry valid until entries_free_gone, because a reply may show it. */
void entries_retire(struct entries *entries, struct timer *timer);

/* Counts the entry's memory towards the limit; entries_uncount: no longer. A repeated call has no
 * effect. */
void entries_count(struct entries *entries, struct entry *entry);
void entries_uncount(struct entries *entries, struct entry *entry);

/* Makes all EVICTABLE entries ABSENT. Live timers with ENTRY_WAS_NAMED are kept in recent.h while
 * there is room. */
void entries_evict(struct entries *entries);

/* Returns the kept timer with this key, which the caller gives an entry; NULL if there is none. No
 * other live timer has the key. */
struct timer *entries_recall(struct entries *entries, struct name_space space, struct bytes key);

/* Frees retired timers and ABSENT entries. */
void entries_free_gone(struct entries *entries);

/* Returns the memory of all entries with ENTRY_IS_COUNTED, in bytes. */
size_t entries_near_bytes(const struct entries *entries);

/* True if the tenant may use `needed` more bytes for a timer. `max` is the limit for all tenants;
 * `held` bytes of the timer are counted already. */
bool entries_have_room(const struct entries *entries, struct bytes tenant, size_t max, size_t held,
                       size_t needed);

/* Counts the entry's timer in live.h as it is now: durable, or in delivery. */
void entries_show(struct entries *entries, struct entry *entry);

/* Counts the entry's timer in live.h as one in a dispatch queue. */
void entries_queue(struct entries *entries, struct entry *entry);

/* Counts the entry's timer in live.h after its row was read. */
void entries_take_in(struct entries *entries, struct entry *entry);

/* Returns the counts of live timers by tenant, state and origin. */
struct live *entries_live(const struct entries *entries);

size_t entries_size(const struct entries *entries);
bool entries_has_evictable(const struct entries *entries);

/* Returns the LOADING, WRITING and INFLIGHT entries, except those on another module's list. */
const struct list *entries_busy(const struct entries *entries);

/* Walks all entries in no order. The first call has *cursor 0; NULL is the end. No entry may be
 * added or removed between calls. */
struct entry *entries_next(const struct entries *entries, size_t *cursor);

/* For tests: aborts unless every invariant holds. */
void entries_check(const struct entries *entries);

static inline struct entry *entry_of(struct list *link)
{
    return list_item(link, struct entry, link);
}

/* Returns the memory of an entry and its timer. */
static inline size_t entry_footprint(const struct entry *entry)
{
    return footprint_of(sizeof(struct entry)) + entry->timer->footprint;
}

/* Returns the memory that a timer will take with an entry. */
static inline size_t entry_footprint_of(const struct timer *timer)
{
    return footprint_of(sizeof(struct entry)) + timer->footprint;
}

static inline struct storage_position position_of(const struct timer *timer)
{
    return (struct storage_position){timer->at, timer->id.serial};
}

#endif
