/* The breakers of webhook targets: a bounded map from origins and paths, under one lock. */
#include "delivery/targets.h"

#include "base/map.h"
#include "base/random.h"
#include "base/share.h"
#include "calendar/duration.h"
#include "timer/tenant_tallies.h"

#include "timer/target_pauses.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct target_breaker {
    uint64_t key;
    enum target_scope scope;
    struct breaker breaker;
    uint8_t tenant_size, error_size;
    uint16_t origin_size, path_size; /* the path's text begins with the origin */
    char error[TARGETS_ERROR_SIZE];
    char text[]; /* tenant, then the origin or the path */
};

struct targets {
    struct targets_options options;
    pthread_mutex_t lock; /* guards the fields below */
    struct map map;       /* key -> target_breaker */
    size_t counts[TARGET_SCOPES];
    struct tenant_tallies tenants[TARGET_SCOPES]; /* number of breakers of each tenant */
    struct instant swept_at;
    struct targets_stats stats;
};

/* Minimum interval between searches for breakers to drop, while the table is full. */
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
    for (size_t i = 0; i < TARGET_SCOPES; i++)
        tenant_tallies_init(&targets->tenants[i]);
    return targets;
}

void targets_destroy(struct targets *targets)
{
    if (!targets)
        return;
    struct target_breaker *target;
    size_t cursor = 0;
    while ((target = map_next(&targets->map, &cursor)))
        free(target);
    map_deinit(&targets->map);
    for (size_t i = 0; i < TARGET_SCOPES; i++)
        tenant_tallies_clear(&targets->tenants[i]);
    pthread_mutex_destroy(&targets->lock);
    free(targets);
}

/* Returns the URL of the timer without its query, which may differ from timer to timer. */
static struct bytes targets_path(const struct timer *timer)
{
    const struct bytes text = timer->texts.target;
    const char *query = text.size ? memchr(text.data, '?', text.size) : NULL;

    return (struct bytes){text.data, query ? (size_t)(query - text.data) : text.size};
}

static uint64_t targets_key_of(const struct targets *targets, const struct timer *timer,
                               enum target_scope scope)
{
    const uint64_t tenant = random_mix(bytes_hash(targets->options.seed, timer->texts.tenant));
    char room[TARGET_PAUSE_NAME_SIZE_MAX];
    const uint64_t origin = random_mix(bytes_hash(tenant, target_pause_origin(timer, room)));

    if (scope == TARGET_ORIGIN)
        return origin;
    const struct bytes path = targets_path(timer);
    const size_t size = timer_target_origin(timer).size; /* with which the path begins */
    return random_mix(bytes_hash(~origin, (struct bytes){path.data + size, path.size - size}));
}

static struct target_breaker *targets_find(const struct targets *targets, const struct timer *timer,
                                           enum target_scope scope)
{
    /* Usually no target fails, so no text has to be hashed. */
    return map_count(&targets->map) == 0
               ? NULL
               : map_get(&targets->map, targets_key_of(targets, timer, scope));
}

/* Returns the state of a breaker; NULL means that there is none. `path` is used if its scope is
 * TARGET_PATH. */
static struct target_status targets_status_of(const struct targets *targets,
                                              const struct target_breaker *target,
                                              struct bytes origin, struct bytes path,
                                              struct instant now)
{
    struct target_status status = {.origin = origin};

    if (target) {
        status.scope = target->scope;
        if (target->scope == TARGET_PATH)
            status.path = path;
        status.state = target->breaker.state;
        status.failures = target->breaker.failures;
        status.wait_ms = breaker_wait_ms(&target->breaker, &targets->options.breaker, now);
        status.error_size = target->error_size;
        memcpy(status.error, target->error, target->error_size);
    }
    return status;
}

static struct target_status targets_status_for(const struct targets *targets,
                                               const struct target_breaker *target,
                                               const struct timer *timer, struct instant now)
{
    return targets_status_of(targets, target, timer_target_origin(timer), targets_path(timer), now);
}

void target_status_say(const struct target_status *status, struct buffer *out)
{
    char wait[DURATION_TEXT_SIZE];

    buffer_append_bytes(out, status->scope == TARGET_PATH ? status->path : status->origin);
    buffer_printf(out, " failed %u %s", (unsigned)status->failures,
                  status->failures == 1 ? "time" : "times in a row");
    if (status->error_size > 0)
        buffer_printf(out, ", the last time with \"%.*s\"", (int)status->error_size, status->error);
    if (status->state == BREAKER_CLOSED)
        return;
    duration_format_rough(status->wait_ms, wait);
    if (status->wait_ms > 0)
        buffer_printf(out, "; it is left alone for %s more", wait);
    else
        buffer_append_text(out, "; one delivery tries it again");
}

static void targets_forget(struct targets *targets, struct target_breaker *target)
{
    targets->counts[target->scope]--;
    tenant_tallies_subtract(&targets->tenants[target->scope],
                            (struct bytes){target->text, target->tenant_size}, 1);
    map_remove(&targets->map, target->key);
    free(target);
}

static bool targets_may_add(const struct targets *targets, enum target_scope scope,
                            struct bytes tenant)
{
    return share_allows(targets->options.count_max, targets->counts[scope],
                        tenant_tallies_bytes(&targets->tenants[scope], tenant), 1);
}

/* True if there is room for another breaker, possibly after dropping breakers without failures. A
 * breaker that has opened is kept until the target has recovered, so that results of earlier
 * deliveries are recognized. */
static bool targets_has_room(struct targets *targets, enum target_scope scope, struct bytes tenant,
                             struct instant now)
{
    if (targets_may_add(targets, scope, tenant))
        return true;
    if (targets->swept_at.ns && instant_since_ns(targets->swept_at, now) < SWEEP_NS)
        return false;
    targets->swept_at = now;
    uint64_t *keys = malloc(map_count(&targets->map) * sizeof(*keys));
    if (!keys)
        return false;
    struct target_breaker *target;
    size_t cursor = 0, count = 0;
    while ((target = map_next(&targets->map, &cursor)))
        if (target->breaker.state == BREAKER_CLOSED && target->breaker.failures == 0)
            keys[count++] = target->key;
    for (size_t i = 0; i < count; i++)
        targets_forget(targets, map_get(&targets->map, keys[i]));
    free(keys);
    return targets_may_add(targets, scope, tenant);
}

static struct target_breaker *target_breaker_create(const struct timer *timer,
                                                    enum target_scope scope)
{
    const struct bytes tenant = timer->texts.tenant, origin = timer_target_origin(timer);
    struct bytes text = scope == TARGET_ORIGIN ? origin : targets_path(timer);

    if (scope == TARGET_PATH && text.size > origin.size + TARGETS_PATH_SIZE)
        text.size = origin.size + TARGETS_PATH_SIZE;
    assert(bytes_has_prefix(text, origin) && text.size <= UINT16_MAX);
    struct target_breaker *target = calloc(1, sizeof(*target) + tenant.size + text.size);
    if (!target)
        return NULL;
    target->scope = scope;
    target->tenant_size = (uint8_t)tenant.size;
    target->origin_size = (uint16_t)origin.size;
    target->path_size = (uint16_t)text.size;
    if (tenant.size)
        memcpy(target->text, tenant.data, tenant.size);
    memcpy(target->text + tenant.size, text.data, text.size);
    return target;
}

/* Adds a breaker. Returns NULL if there is no room, or out of memory. */
static struct target_breaker *targets_add(struct targets *targets, const struct timer *timer,
                                          enum target_scope scope, struct instant now)
{
    if (!targets_has_room(targets, scope, timer->texts.tenant, now))
        return NULL;
    struct target_breaker *target = target_breaker_create(timer, scope);
    if (!target)
        return NULL;
    target->key = targets_key_of(targets, timer, scope);
    if (!map_put(&targets->map, target->key, target)) {
        free(target);
        return NULL;
    }
    targets->counts[scope]++;
    tenant_tallies_add(&targets->tenants[scope], timer->texts.tenant, 1);
    return target;
}

/* The path is checked first. Otherwise a delivery that is held back because of its path could
 * become the probe of its origin. */
bool targets_enter(struct targets *targets, const struct timer *timer, struct instant now,
                   struct target_ticket *ret_ticket, struct target_status *ret_status)
{
    static const enum target_scope order[] = {TARGET_PATH, TARGET_ORIGIN};
    const struct breaker_options *options = &targets->options.breaker;
    const enum breaker_entrant entrant =
        timer->retry.timeout_ms < TARGETS_TIMEOUT_MS_MIN ? BREAKER_MINOR : BREAKER_WITNESS;

    *ret_ticket = (struct target_ticket){0};
    if (options->failures_max == 0)
        return true;
    pthread_mutex_lock(&targets->lock);
    struct target_breaker *path = NULL;
    bool may = true;
    for (size_t i = 0; i < TARGET_SCOPES && may; i++) {
        struct target_breaker *target = targets_find(targets, timer, order[i]);

        if (!target)
            continue;
        may = breaker_enter(&target->breaker, options, now, entrant, &ret_ticket->passes[order[i]]);
        if (!may) {
            targets->stats.postponed++;
            *ret_status = targets_status_for(targets, target, timer, now);
            if (path) /* the delivery is not the path's probe after all */
                breaker_leave(&path->breaker, options, now, ret_ticket->passes[TARGET_PATH],
                              BREAKER_UNKNOWN);
        }
        path = target;
    }
    pthread_mutex_unlock(&targets->lock);
    return may;
}

/* Passes a result to a breaker. Returns true if it opened or closed. */
static bool targets_judge(struct targets *targets, struct target_breaker *target, uint32_t pass,
                          struct instant now, enum breaker_verdict verdict)
{
    struct breaker *breaker = &target->breaker;
    const bool was_closed = breaker->state == BREAKER_CLOSED;

    if (!breaker_leave(breaker, &targets->options.breaker, now, pass, verdict))
        return false;
    const bool is_closed = breaker->state == BREAKER_CLOSED;
    targets->stats.opened += !is_closed;
    targets->stats.open += (uint64_t)was_closed - (uint64_t)is_closed;
    return true;
}

static void target_breaker_note(struct target_breaker *target, struct bytes error)
{
    const size_t size = error.size < sizeof(target->error) ? error.size : sizeof(target->error);

    target->error_size = (uint8_t)size;
    if (size)
        memcpy(target->error, error.data, size);
}

void targets_leave(struct targets *targets, const struct target_ticket *ticket,
                   const struct timer *timer, struct instant now, struct target_verdict verdict,
                   struct bytes error)
{
    if (targets->options.breaker.failures_max == 0)
        return;
    pthread_mutex_lock(&targets->lock);
    struct target_status changed[TARGET_SCOPES];
    size_t count = 0;
    for (enum target_scope scope = TARGET_ORIGIN; scope < TARGET_SCOPES; scope++) {
        struct target_breaker *target = targets_find(targets, timer, scope);

        if (!target && verdict.of[scope] == BREAKER_FAILED)
            target = targets_add(targets, timer, scope, now);
        if (!target)
            continue;
        if (verdict.of[scope] == BREAKER_FAILED)
            target_breaker_note(target, error);
        if (targets_judge(targets, target, ticket->passes[scope], now, verdict.of[scope]))
            changed[count++] = targets_status_for(targets, target, timer, now);
        if (target->breaker.state == BREAKER_CLOSED && target->breaker.failures == 0 &&
            target->breaker.generation == 0)
            targets_forget(targets, target);
    }
    pthread_mutex_unlock(&targets->lock);
    for (size_t i = 0; i < count && targets->options.changed; i++)
        targets->options.changed(targets->options.context, &changed[i]);
}

void targets_status(struct targets *targets, const struct timer *timer, struct instant now,
                    struct target_status *ret_status)
{
    pthread_mutex_lock(&targets->lock);
    const struct target_breaker *origin = targets_find(targets, timer, TARGET_ORIGIN);
    const struct target_breaker *path = targets_find(targets, timer, TARGET_PATH);
    const bool origin_fails = origin && origin->breaker.state != BREAKER_CLOSED;

    *ret_status = targets_status_for(targets, path && !origin_fails ? path : origin, timer, now);
    pthread_mutex_unlock(&targets->lock);
}

static bool target_breaker_is_named(const struct target_breaker *target, struct bytes tenant,
                                    struct bytes name)
{
    const struct bytes origin = {target->text + target->tenant_size, target->origin_size};
    char room[TARGET_PAUSE_NAME_SIZE_MAX];
    struct bytes own;

    return bytes_equal(tenant, (struct bytes){target->text, target->tenant_size}) &&
           !target_pause_parse_name(origin, room, &own, NULL) && bytes_equal(own, name);
}

size_t targets_reset(struct targets *targets, struct bytes tenant, struct bytes name)
{
    size_t count = 0, closed = 0, cursor = 0;

    pthread_mutex_lock(&targets->lock);
    for (struct target_breaker *target; (target = map_next(&targets->map, &cursor));) {
        struct breaker *breaker = &target->breaker;

        if ((breaker->state == BREAKER_CLOSED && breaker->failures == 0) ||
            !target_breaker_is_named(target, tenant, name))
            continue;
        count++;
        closed += breaker->state != BREAKER_CLOSED;
        breaker_reset(breaker);
    }
    targets->stats.open -= closed;
    pthread_mutex_unlock(&targets->lock);
    if (closed && targets->options.changed)
        targets->options.changed(targets->options.context, &(struct target_status){.origin = name});
    return count;
}

void targets_each(struct targets *targets, struct bytes tenant, struct instant now,
                  void (*tell)(void *context, const struct target_status *status), void *context)
{
    pthread_mutex_lock(&targets->lock);
    size_t cursor = 0;
    for (const struct target_breaker *target; (target = map_next(&targets->map, &cursor));) {
        const char *text = target->text + target->tenant_size;
        const struct bytes origin = {text, target->origin_size}, path = {text, target->path_size};

        if (!bytes_equal(tenant, (struct bytes){target->text, target->tenant_size}) ||
            (target->breaker.state == BREAKER_CLOSED && target->breaker.failures == 0))
            continue;
        const struct target_status status = targets_status_of(targets, target, origin, path, now);
        tell(context, &status);
    }
    pthread_mutex_unlock(&targets->lock);
}

void targets_stats(struct targets *targets, struct targets_stats *ret_stats)
{
    pthread_mutex_lock(&targets->lock);
    *ret_stats = targets->stats;
    pthread_mutex_unlock(&targets->lock);
}
