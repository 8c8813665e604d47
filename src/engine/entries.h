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
#include "store/storage.h"
#include "timer/name.h"
#include "timer/timer.h"

enum entry_phase {
    ENTRY_ABSENT,    /* not in the map */
    ENTRY_LOADING,   /* its row is being read: the timer is a placeholder, or in doubt */
    ENTRY_WRITING,   /* a batch carries it; no command changes it */
    ENTRY_SCHEDULED, /* in the wheel */
    ENTRY_QUEUED,    /* due, in a dispatch queue */
    ENTRY_INFLIGHT,  /* being delivered: its timer is lent */
    ENTRY_EVICTABLE, /* durable and not needed */
    ENTRY_PHASE_COUNT,
};

enum entry_flag {
    ENTRY_IS_COUNTED = 1 << 0,   /* its footprint is in entries_near_bytes */
    ENTRY_WAS_RETRYING = 1 << 1, /* INFLIGHT: its timer's state before */
    ENTRY_IN_DOUBT = 1 << 2,     /* a write of it failed, and may be on disk nevertheless */
    ENTRY_IS_SPILLING = 1 << 3,  /* WRITING because it was spilled */
    ENTRY_IS_FORGOTTEN = 1 << 4, /* a dead letter that goes, or is gone */
    ENTRY_IS_UNPROVEN = 1 << 5,  /* INFLIGHT: its target was unproven (shares.h) when it began */
    ENTRY_WAS_NAMED = 1 << 6,    /* a client created or named it with a key: it may again */
    ENTRY_HAS_MESSAGE = 1 << 7,  /* WRITING: its message is in a transaction that waits for it */
};

/* What the engine knows of a timer that is in memory. */
struct entry {
    struct timer *timer;
    struct timer
        *successor;       /* WRITING by a command: replaces `timer` once it is durable; or NULL */
    struct entry *report; /* WRITING: the new timer that reports its outcome, written with it; or
                             NULL */
    struct list link;     /* LOADING, WRITING, INFLIGHT, EVICTABLE: on a list of the map, unless
                                another module has moved it to its own. QUEUED: its queue's */
    struct list waiters;  /* LOADING, WRITING: commands that go on when the phase is over */
    union {
        uint64_t wheel_handle; /* SCHEDULED */
        uint64_t ticket;       /* LOADING, or in doubt: of the read that it waits for */
        uint32_t waited_ms[4]; /* QUEUED: the sums of its queue, by reason, when it joined */
    };
    struct wall row_at;        /* where its row is; 0: it has none yet */
    struct wall loaded;        /* when it was read from the storage; 0: it was made here */
    struct wall found_due;     /* QUEUED, INFLIGHT: when it was found due */
    uint64_t queue;            /* QUEUED, INFLIGHT: the key of its dispatch queue */
    struct delivery *recorded; /* WRITING: to be handed back when the write is durable; or NULL */
    uint32_t flags;            /* of enum entry_flag */
    uint8_t phase;             /* of enum entry_phase; set by entries_set_phase alone */
    uint8_t outcome;           /* WRITING: what the feed is told when it is durable, of enum
                                  feed_kind; NONE: what the write says */
};

struct entries;

/* `recent_bytes_max` is for timers that left memory (recent.h). NULL when out of memory. */
struct entries *entries_create(size_t recent_bytes_max);

/* From now on the memory of each tenant is counted, too. Before the first entry. */
void entries_count_tenants(struct entries *entries);

/* Frees every entry with its timers and its recorded delivery. */
void entries_destroy(struct entries *entries);

/* An entry for a timer that has none yet, in phase LOADING or WRITING; it takes the timer. NULL,
 * and the timer is still the caller's, when out of memory. */
struct entry *entries_add(struct entries *entries, struct timer *timer, enum entry_phase phase);

/* NULL when the timer is not in memory. */
struct entry *entries_find(const struct entries *entries, uint64_t serial);

/* Moves an entry to another phase, and off any list of the phase before. LOADING, WRITING and
 * INFLIGHT: onto the list of the busy. ABSENT: out of the map, and freed by entries_free_gone. */
void entries_set_phase(struct entries *entries, struct entry *entry, enum entry_phase to);

/* Puts another timer in place of the entry's, which stays until entries_free_gone. */
void entries_replace(struct entries *entries, struct entry *entry, struct timer *timer);

/* A timer that is in no entry any more, and that a reply may still show. */
void entries_retire(struct entries *entries, struct timer *timer);

/* Whether the entry's footprint counts against what may be in memory; both may be repeated. */
void entries_count(struct entries *entries, struct entry *entry);
void entries_uncount(struct entries *entries, struct entry *entry);

/* All EVICTABLE become ABSENT. Live ones that WAS_NAMED are kept without an entry (recent.h), as
 * long as there is room. */
void entries_evict(struct entries *entries);

/* Takes the timer with this key that was kept, to give it an entry; NULL: there is none. It is the
 * only live one with the key. */
struct timer *entries_recall(struct entries *entries, struct name_space space, struct bytes key);

/* Frees retired timers, and entries that have left the map. */
void entries_free_gone(struct entries *entries);

/* The bytes of memory of all entries that are counted. */
size_t entries_near_bytes(const struct entries *entries);

/* True if a timer of the tenant may take so many bytes more, of `max` for all of them, where `held`
 * bytes of it are counted already. */
bool entries_have_room(const struct entries *entries, struct bytes tenant, size_t max, size_t held,
                       size_t needed);

size_t entries_size(const struct entries *entries);
bool entries_has_evictable(const struct entries *entries);

/* LOADING, WRITING, INFLIGHT, but for those that another module has on a list of its own. */
const struct list *entries_busy(const struct entries *entries);

/* Walks all of them in no order: start with *cursor = 0; NULL at the end. None may come or go
 * between calls. */
struct entry *entries_next(const struct entries *entries, size_t *cursor);

/* For tests: aborts unless every invariant holds. */
void entries_check(const struct entries *entries);

static inline struct entry *entry_of(struct list *link)
{
    return list_item(link, struct entry, link);
}

/* The memory that an entry and its timer take. */
static inline size_t entry_footprint(const struct entry *entry)
{
    return footprint_of(sizeof(struct entry)) + entry->timer->footprint;
}

/* The memory that a timer will take once it has an entry. */
static inline size_t entry_footprint_of(const struct timer *timer)
{
    return footprint_of(sizeof(struct entry)) + timer->footprint;
}

static inline struct storage_position position_of(const struct timer *timer)
{
    return (struct storage_position){timer->at, timer->id.serial};
}

#endif
