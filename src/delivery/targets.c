#include "delivery/targets.h"

#include "base/map.h"
#include "base/random.h"

#include <pthread.h>
#include <stdlib.h>

struct target_breaker {
    uint64_t key;
    struct breaker breaker;
};

struct targets {
    struct targets_options options;
    pthread_mutex_t lock; /* guards what follows */
    struct map map;       /* key -> target */
    struct instant swept_at;
    struct targets_stats stats;
};

/* How often the table is searched for what can go, at most, while it is full. */
#define SWEEP_NS UINT64_C(1000000000)

struct targets *targets_create(const struct targets_options *options)
{
    struct targets *targets = calloc(1, sizeof(*targets));

    if (!targets)
        return NULL;
    targets->options = *options;
    if (targets->options.count_max == 0)
        targets->options.count_max = TARGETS_MAX;
    pthread_mutex_init(&targets->lock, NULL);
    map_init(&targets->map);
    return targets;
}

void targets_destroy(struct targets *targets)
{
    struct target_breaker *target;
    size_t cursor = 0;

    if (!targets)
        return;
    while ((target = map_next(&targets->map, &cursor)))
        free(target);
    map_deinit(&targets->map);
    pthread_mutex_destroy(&targets->lock);
    free(targets);
}

static uint64_t key_of(const struct targets *targets, struct bytes origin)
{
    return random_mix(bytes_hash(targets->options.seed, origin));
}

static struct target_status status_of(const struct targets *targets,
                                      const struct target_breaker *target, struct bytes origin,
                                      struct instant now)
{
    struct target_status status = {.origin = origin};

    if (target) {
        status.state = target->breaker.state;
        status.failures = target->breaker.failures;
        status.wait_ms = breaker_wait_ms(&target->breaker, &targets->options.breaker, now);
    }
    return status;
}

static void forget(struct targets *targets, struct target_breaker *target)
{
    map_remove(&targets->map, target->key);
    free(target);
}

/* Makes room by forgetting those that recovered. One that opened once is kept until then, so that
 * deliveries from before are told apart. */
static bool has_room(struct targets *targets, struct instant now)
{
    struct target_breaker *target;
    size_t cursor = 0, count = 0;
    uint64_t *keys;

    if (map_count(&targets->map) < targets->options.count_max)
        return true;
    if (targets->swept_at.ns && instant_since_ns(targets->swept_at, now) < SWEEP_NS)
        return false;
    targets->swept_at = now;
    keys = malloc(map_count(&targets->map) * sizeof(*keys));
    if (!keys)
        return false;
    while ((target = map_next(&targets->map, &cursor)))
        if (target->breaker.state == BREAKER_CLOSED && target->breaker.failures == 0)
            keys[count++] = target->key;
    for (size_t i = 0; i < count; i++)
        forget(targets, map_get(&targets->map, keys[i]));
    free(keys);
    return map_count(&targets->map) < targets->options.count_max;
}

/* NULL: there is no room, or no memory. */
static struct target_breaker *add(struct targets *targets, uint64_t key, struct instant now)
{
    struct target_breaker *target;

    if (!has_room(targets, now))
        return NULL;
    target = calloc(1, sizeof(*target));
    if (!target)
        return NULL;
    target->key = key;
    if (!map_put(&targets->map, key, target)) {
        free(target);
        return NULL;
    }
    return target;
}

bool targets_enter(struct targets *targets, struct bytes origin, struct instant now,
                   struct target_ticket *ret_ticket, struct target_status *ret_status)
{
    struct target_breaker *target;
    bool may = true;

    *ret_ticket = (struct target_ticket){.key = key_of(targets, origin)};
    pthread_mutex_lock(&targets->lock);
    target = map_get(&targets->map, ret_ticket->key);
    if (target)
        may = breaker_enter(&target->breaker, &targets->options.breaker, now, &ret_ticket->pass);
    if (!may) {
        targets->stats.postponed++;
        *ret_status = status_of(targets, target, origin, now);
    }
    pthread_mutex_unlock(&targets->lock);
    return may;
}

void targets_leave(struct targets *targets, const struct target_ticket *ticket, struct bytes origin,
                   struct instant now, enum breaker_verdict verdict)
{
    const struct breaker_options *options = &targets->options.breaker;
    struct target_status status;
    bool has_changed = false;
    struct target_breaker *target;

    if (options->failures_max == 0)
        return;
    pthread_mutex_lock(&targets->lock);
    target = map_get(&targets->map, ticket->key);
    if (!target && verdict == BREAKER_FAILED)
        target = add(targets, ticket->key, now);
    if (target) {
        bool was_closed = target->breaker.state == BREAKER_CLOSED;

        has_changed = breaker_leave(&target->breaker, options, now, ticket->pass, verdict);
        status = status_of(targets, target, origin, now);
        if (has_changed) {
            bool is_closed = status.state == BREAKER_CLOSED;

            targets->stats.opened += !is_closed;
            targets->stats.open += (uint64_t)was_closed - (uint64_t)is_closed;
        }
        if (status.state == BREAKER_CLOSED && status.failures == 0 &&
            target->breaker.generation == 0)
            forget(targets, target);
    }
    pthread_mutex_unlock(&targets->lock);
    if (has_changed && targets->options.changed)
        targets->options.changed(targets->options.context, &status);
}

void targets_status(struct targets *targets, struct bytes origin, struct instant now,
                    struct target_status *ret_status)
{
    uint64_t key = key_of(targets, origin);

    pthread_mutex_lock(&targets->lock);
    *ret_status = status_of(targets, map_get(&targets->map, key), origin, now);
    pthread_mutex_unlock(&targets->lock);
}

void targets_stats(struct targets *targets, struct targets_stats *ret_stats)
{
    pthread_mutex_lock(&targets->lock);
    *ret_stats = targets->stats;
    pthread_mutex_unlock(&targets->lock);
}
