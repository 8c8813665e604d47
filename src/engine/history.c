/* The last deliveries of each tenant, found by the timer's serial. */
#include "engine/history.h"

#include "base/check.h"
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>

struct history {
    struct map map; /* serial -> entry */
    struct history_entry *entries;
    size_t count_max, count; /* entries in use, each of them on `latest` */
    struct tenant_latest latest;
};

const char *wait_text(enum wait_reason reason)
{
    static const char *const texts[] = {
#define X(name, text) text,
        WAIT_REASON_LIST(X)
#undef X
    };

    return texts[reason];
}

const char *lateness_text(enum lateness_stage stage)
{
    static const char *const texts[] = {
#define X(name, text, words) text,
        LATENESS_LIST(X)
#undef X
    };

    return texts[stage];
}

const char *lateness_words(enum lateness_stage stage)
{
    static const char *const words_of[] = {
#define X(name, text, words) words,
        LATENESS_LIST(X)
#undef X
    };

    return words_of[stage];
}

struct history *history_create(size_t count_max)
{
    struct history *history = calloc(1, sizeof(*history));

    if (!history)
        return NULL;
    history->count_max = count_max;
    map_init(&history->map);
    tenant_latest_init(&history->latest);
    return history;
}

void history_destroy(struct history *history)
{
    if (!history)
        return;
    map_deinit(&history->map);
    tenant_latest_deinit(&history->latest);
    free(history->entries);
    free(history);
}

struct history_entry *history_find(const struct history *history, uint64_t serial)
{
    struct history_entry *entry = map_get(&history->map, serial);

    assert(!entry || entry->serial == serial);
    assert(!entry || entry < history->entries + history->count);
    return entry;
}

void history_forget(struct history *history, uint64_t serial)
{
    struct history_entry *entry = map_remove(&history->map, serial);

    assert(!entry || entry->serial == serial);
    if (entry)
        *entry = (struct history_entry){.place_ = entry->place_};
}

/* Returns an unused entry; if there is none, the one that is to be replaced. */
static struct history_entry *history_next(struct history *history, uint64_t tenant, uint64_t serial)
{
    const bool is_full = history->count == history->count_max;

    assert(history->count <= history->count_max);
    if (!history->entries && history->count_max > 0)
        history->entries = calloc(history->count_max, sizeof(*history->entries));
    if (!history->entries)
        return NULL;
    struct history_entry *entry =
        is_full ? list_item(tenant_latest_first(&history->latest), struct history_entry, place_)
                : &history->entries[history->count];
    if (is_full && map_get(&history->map, entry->serial) == entry)
        map_remove(&history->map, entry->serial);
    if (!map_put(&history->map, serial, entry))
        return NULL;
    if (is_full)
        tenant_latest_remove(&history->latest, &entry->place_);
    else
        history->count++;
    tenant_latest_add(&history->latest, tenant, &entry->place_, 1);
    return entry;
}

struct history_entry *history_begin(struct history *history, uint64_t tenant, uint64_t serial)
{
    struct history_entry *entry = history_find(history, serial);

    assert(history->count <= history->count_max);
    if (!entry)
        entry = history_next(history, tenant, serial);
    if (entry)
        *entry = (struct history_entry){.serial = serial,
                                        .place_ = entry->place_,
                                        .carry = entry->serial == serial
                                                     ? entry->carry
                                                     : (struct history_carry){{0}, {0}, {0}}};
    return entry;
}

static void history_carry_to(struct history_carry *carry, enum lateness_stage stage, struct wall to)
{
    const uint64_t ms = wall_since(carry->to, to);
    const uint64_t sum = carry->ms[stage] + (ms < UINT32_MAX ? ms : UINT32_MAX);

    assert(stage < LATENESS_HANDOFF);
    carry->ms[stage] = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
    carry->to = wall_max(carry->to, to);
}

void history_put_off(struct history *history, const struct timer *timer, enum lateness_stage stage)
{
    struct history_entry *entry = history_find(history, timer->id.serial);

    if (!entry || entry->lateness.attempt == 0)
        return;
    entry->carry.base = entry->carry.to = history_base(timer);
    for (size_t i = 0; i < LATENESS_HANDOFF; i++) {
        entry->carry.ms[i] = entry->lateness.ms[i];
        entry->carry.to = wall_add(entry->carry.to, entry->lateness.ms[i]);
    }
    history_carry_to(&entry->carry, stage, timer->at);
}

void history_wait(struct history *history, const struct timer *timer, enum lateness_stage stage,
                  struct wall since)
{
    const struct wall base = history_base(timer);
    struct history_entry *entry = history_find(history, timer->id.serial);

    if (timer->at.ms <= base.ms)
        return; /* the timer is not delayed */
    if (!entry)
        entry = history_begin(history, tenant_key(timer->texts.tenant), timer->id.serial);
    if (!entry)
        return;
    if (entry->carry.base.ms != base.ms || entry->carry.to.ms > timer->at.ms)
        entry->carry = (struct history_carry){.base = base, .to = base};
    history_carry_to(&entry->carry, timer->attempts ? LATENESS_RETRIES : LATENESS_SET_LATE,
                     wall_min(since, timer->at));
    history_carry_to(&entry->carry, stage, timer->at);
}

static uint64_t history_span_ms(uint64_t from_us, uint64_t to_us)
{
    return from_us && to_us > from_us ? (to_us - from_us) / 1000 : 0;
}

void history_returned(struct history *history, const struct delivery *delivery, struct wall now)
{
    uint64_t serial = delivery->timer->id.serial;
    struct history_entry *entry = history_find(history, serial);

    assert(delivery->attempt > 0);
    if (!entry)
        return;
    assert(entry->ended_at.ms == 0 && entry->lateness.attempt == delivery->attempt);
    if (delivery->outcome.result == DELIVERY_RETURNED) {
        entry->lateness = (struct lateness){0};
        return;
    }
    lateness_add(&entry->lateness, LATENESS_HANDOFF,
                 history_span_ms(delivery->handed_us, delivery->started_us));
    lateness_add(&entry->lateness, LATENESS_DELIVERY,
                 history_span_ms(delivery->started_us, delivery->ended_us));
    entry->ended_at = now;
}

void history_committed(struct history *history, uint64_t serial, struct wall now)
{
    struct history_entry *entry = history_find(history, serial);

    if (!entry || !entry->ended_at.ms)
        return;
    assert(entry->lateness.attempt > 0);
    lateness_add(&entry->lateness, LATENESS_COMMIT, wall_since(entry->ended_at, now));
    entry->ended_at.ms = 0;
}

void history_check(const struct history *history)
{
    CHECK(history->count <= history->count_max && history->latest.amount == history->count);
    CHECK(map_count(&history->map) <= history->count);
    size_t cursor = 0;
    for (const struct history_entry *entry; (entry = map_next(&history->map, &cursor));)
        CHECK(history_find(history, entry->serial) == entry);
}
