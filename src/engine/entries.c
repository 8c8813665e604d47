/* The map of timers in memory, and the table of the phases that may follow each other. */
#include "engine/entries.h"

#include "base/check.h"
#include "base/share.h"
#include "timer/tenant_tallies.h"
#include "base/map.h"
#include "engine/recent.h"

#include <assert.h>
#include <stdlib.h>

struct entries {
    struct map map;        /* serial -> entry */
    struct list busy;      /* LOADING, WRITING, INFLIGHT */
    struct list evictable; /* EVICTABLE */
    struct list gone;      /* ABSENT entries to be freed */
    struct timer *retired; /* timers to be freed, linked by `next` */
    size_t near_bytes;
    bool counts_tenants;
    struct tenant_tallies tenants; /* near_bytes by tenant, if counts_tenants */
    struct recent *recent;         /* timers that left memory, equal to their rows */
    struct live *live;
};

#define TO(phase) (1u << ENTRY_##phase)

/* For each phase, a bit for each phase that may follow it. */
static const unsigned entries_transitions[ENTRY_PHASE_COUNT] = {
    [ENTRY_ABSENT] = TO(LOADING) | TO(WRITING),
    [ENTRY_LOADING] =
        TO(LOADING) | TO(WRITING) | TO(SCHEDULED) | TO(QUEUED) | TO(EVICTABLE) | TO(ABSENT),
    [ENTRY_WRITING] = TO(WRITING) | TO(SCHEDULED) | TO(QUEUED) | TO(EVICTABLE) | TO(ABSENT),
    [ENTRY_SCHEDULED] = TO(SCHEDULED) | TO(WRITING) | TO(QUEUED) | TO(EVICTABLE),
    [ENTRY_QUEUED] = TO(QUEUED) | TO(INFLIGHT) | TO(WRITING) | TO(SCHEDULED) | TO(EVICTABLE),
    [ENTRY_INFLIGHT] = TO(WRITING) | TO(QUEUED) | TO(SCHEDULED) | TO(EVICTABLE),
    [ENTRY_EVICTABLE] = TO(WRITING) | TO(ABSENT),
};

struct entries *entries_create(size_t recent_bytes_max)
{
    struct entries *entries = calloc(1, sizeof(*entries));

    if (!entries)
        return NULL;
    entries->recent = recent_create(recent_bytes_max);
    entries->live = live_create();
    if (!entries->recent || !entries->live) {
        recent_destroy(entries->recent);
        live_destroy(entries->live);
        free(entries);
        return NULL;
    }
    map_init(&entries->map);
    tenant_tallies_init(&entries->tenants);
    list_init(&entries->busy);
    list_init(&entries->evictable);
    list_init(&entries->gone);
    return entries;
}

static void entries_entry_free(struct entry *entry)
{
    timer_free(entry->timer);
    timer_free(entry->successor);
    free(entry->recorded);
    free(entry);
}

void entries_destroy(struct entries *entries)
{
    if (!entries)
        return;
    entries_free_gone(entries);
    size_t cursor = 0;
    for (struct entry *entry; (entry = map_next(&entries->map, &cursor));)
        entries_entry_free(entry);
    map_deinit(&entries->map);
    tenant_tallies_clear(&entries->tenants);
    recent_destroy(entries->recent);
    live_destroy(entries->live);
    free(entries);
}

struct entry *entries_add(struct entries *entries, struct timer *timer, enum entry_phase phase)
{
    assert(!timer->next);
    assert(phase == ENTRY_LOADING || phase == ENTRY_WRITING);
    assert(!entries_find(entries, timer->id.serial));

    struct entry *entry = calloc(1, sizeof(*entry));
    if (!entry)
        return NULL;
    list_init(&entry->link);
    list_init(&entry->waiters);
    if (!map_put(&entries->map, timer->id.serial, entry)) {
        free(entry);
        return NULL;
    }
    struct timer *kept = recent_take(entries->recent, timer->id.serial);
    if (kept)
        entries_retire(entries, kept);
    entry->timer = timer;
    entry->live.as = phase == ENTRY_LOADING ? LIVE_AS_ROW : LIVE_AS_NOTHING;
    entries_set_phase(entries, entry, phase);
    return entry;
}

struct entry *entries_find(const struct entries *entries, uint64_t serial)
{
    struct entry *entry = map_get(&entries->map, serial);

    assert(!entry || entry->phase != ENTRY_ABSENT);
    return entry;
}

/* Removes the entry from the map. */
static void entries_remove(struct entries *entries, struct entry *entry)
{
    assert(entry->phase == ENTRY_ABSENT);
    assert(!(entry->flags & ENTRY_IS_SPILLING));
    assert(list_is_empty(&entry->waiters));
    assert(!entry->successor && !entry->recorded && !entry->report);

    struct entry *removed = map_remove(&entries->map, entry->timer->id.serial);
    assert(removed == entry);
    (void)removed;
    entries_uncount(entries, entry);
    live_leave(entries->live, &entry->live, entry->timer);
    list_push(&entries->gone, &entry->link);
    assert(!(entry->flags & ENTRY_IS_COUNTED));
}

void entries_set_phase(struct entries *entries, struct entry *entry, enum entry_phase to)
{
    assert(to == ENTRY_WRITING || (!entry->successor && !entry->recorded && !entry->report));
    assert((to != ENTRY_SCHEDULED && to != ENTRY_QUEUED) || !timer_is_final(entry->timer->state));
    assert(to == ENTRY_WRITING || !(entry->flags & ENTRY_IS_SPILLING));
    assert(entry->phase < ENTRY_PHASE_COUNT && to < ENTRY_PHASE_COUNT);
    assert(entries_transitions[entry->phase] & 1u << to);
    (void)entries_transitions; /* not used if assertions are off */

    list_remove(&entry->link);
    if (to == ENTRY_ABSENT && entry->phase == ENTRY_LOADING)
        live_forget(entries->live, &entry->live);
    entry->phase = (uint8_t)to;
    switch (to) {
    case ENTRY_LOADING:
    case ENTRY_WRITING:
    case ENTRY_INFLIGHT:
        list_push(&entries->busy, &entry->link);
        break;
    case ENTRY_EVICTABLE:
        entries_uncount(entries, entry);
        list_push(&entries->evictable, &entry->link);
        break;
    case ENTRY_ABSENT:
        entries_remove(entries, entry);
        break;
    default: /* SCHEDULED entries are on no list, QUEUED ones on that of their queue */
        break;
    }
}

void entries_retire(struct entries *entries, struct timer *timer)
{
    assert(timer != entries->retired);
    assert(!timer->next);
    timer->next = entries->retired;
    entries->retired = timer;
}

void entries_replace(struct entries *entries, struct entry *entry, struct timer *timer)
{
    assert(timer->id.partition == entry->timer->id.partition);
    assert(!entry->successor);
    assert(entry->phase != ENTRY_ABSENT);
    assert(!timer->next);
    assert(timer != entry->timer && timer->id.serial == entry->timer->id.serial);

    bool is_counted = entry->flags & ENTRY_IS_COUNTED;
    entries_uncount(entries, entry);
    entries_retire(entries, entry->timer);
    entry->timer = timer;
    entry->loaded = (struct wall){0};
    if (is_counted)
        entries_count(entries, entry);
}

void entries_count(struct entries *entries, struct entry *entry)
{
    assert(entry->phase != ENTRY_ABSENT);
    assert(entry->phase != ENTRY_EVICTABLE);
    if (entry->flags & ENTRY_IS_COUNTED)
        return;
    entry->flags |= ENTRY_IS_COUNTED;
    entries->near_bytes += entry_footprint(entry);
    if (entries->counts_tenants)
        tenant_tallies_add(&entries->tenants, entry->timer->texts.tenant, entry_footprint(entry));
    assert(entries->near_bytes >= entry_footprint(entry));
}

void entries_uncount(struct entries *entries, struct entry *entry)
{
    if (!(entry->flags & ENTRY_IS_COUNTED))
        return;
    assert(entries->near_bytes >= entry_footprint(entry));
    entry->flags &= ~(uint32_t)ENTRY_IS_COUNTED;
    entries->near_bytes -= entry_footprint(entry);
    if (entries->counts_tenants)
        tenant_tallies_subtract(&entries->tenants, entry->timer->texts.tenant,
                                entry_footprint(entry));
    assert(entries->near_bytes == 0 || map_count(&entries->map) > 0);
}

void entries_evict(struct entries *entries)
{
    LIST_FOR_EACH (&entries->evictable, link) {
        struct entry *entry = entry_of(link);
        const bool is_wanted = entry->flags & ENTRY_WAS_NAMED && entry->timer->texts.key.size &&
                               !timer_is_final(entry->timer->state);

        entries_set_phase(entries, entry, ENTRY_ABSENT);
        if (is_wanted && recent_keep(entries->recent, entry->timer))
            entry->timer = NULL;
    }
    for (struct timer *timer; (timer = recent_take_excess(entries->recent));)
        entries_retire(entries, timer);
    assert(list_is_empty(&entries->evictable));
}

struct timer *entries_recall(struct entries *entries, struct name_space space, struct bytes key)
{
    const struct timer *timer = recent_find(entries->recent, space, key);

    assert(!timer || !entries_find(entries, timer->id.serial));
    return timer ? recent_take(entries->recent, timer->id.serial) : NULL;
}

void entries_free_gone(struct entries *entries)
{
    for (struct list *link; (link = list_pop(&entries->gone));) {
        assert(entry_of(link)->phase == ENTRY_ABSENT);
        entries_entry_free(entry_of(link));
    }
    while (entries->retired) {
        struct timer *timer = entries->retired;

        entries->retired = timer->next;
        timer_free(timer);
    }
}

size_t entries_near_bytes(const struct entries *entries)
{
    return entries->near_bytes;
}

bool entries_have_room(const struct entries *entries, struct bytes tenant, size_t max, size_t held,
                       size_t needed)
{
    const size_t others = entries->near_bytes - held;

    assert(entries->near_bytes >= held);
    if (!entries->counts_tenants)
        return others <= max && needed <= max - others;
    const uint64_t own = tenant_tallies_bytes(&entries->tenants, tenant);
    return share_allows(max, others, own > held ? own - held : 0, needed);
}

void entries_count_tenants(struct entries *entries)
{
    assert(map_count(&entries->map) == 0);
    entries->counts_tenants = true;
}

void entries_show(struct entries *entries, struct entry *entry)
{
    live_show(entries->live, &entry->live, entry->timer);
}

void entries_queue(struct entries *entries, struct entry *entry)
{
    live_queue(entries->live, &entry->live);
}

void entries_take_in(struct entries *entries, struct entry *entry)
{
    live_take_in(entries->live, &entry->live, entry->timer);
}

struct live *entries_live(const struct entries *entries)
{
    return entries->live;
}

size_t entries_size(const struct entries *entries)
{
    return map_count(&entries->map);
}

bool entries_has_evictable(const struct entries *entries)
{
    assert(list_is_empty(&entries->evictable) || map_count(&entries->map) > 0);
    return !list_is_empty(&entries->evictable);
}

const struct list *entries_busy(const struct entries *entries)
{
    return &entries->busy;
}

struct entry *entries_next(const struct entries *entries, size_t *cursor)
{
    return map_next(&entries->map, cursor);
}

void entries_check(const struct entries *entries)
{
    size_t near_bytes = 0, cursor = 0;

    for (const struct entry *entry; (entry = map_next(&entries->map, &cursor));) {
        CHECK(entry->phase != ENTRY_ABSENT && entry->phase < ENTRY_PHASE_COUNT);
        CHECK(map_get(&entries->map, entry->timer->id.serial) == entry);
        CHECK(!recent_has(entries->recent, entry->timer->id.serial));
        CHECK(entry->phase == ENTRY_WRITING ||
              (!entry->successor && !entry->recorded && !entry->report));
        CHECK(entry->phase == ENTRY_LOADING || entry->phase == ENTRY_WRITING ||
              list_is_empty(&entry->waiters));
        if (entry->flags & ENTRY_IS_COUNTED)
            near_bytes += entry_footprint(entry);
    }
    CHECK(near_bytes == entries->near_bytes);
    live_check(entries->live);
    if (entries->counts_tenants)
        tenant_tallies_check(&entries->tenants);
}
