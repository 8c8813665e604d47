/* Look-ups of names, and the locks of names that creates are about to take. */
#include "engine/lookup.h"

#include "base/check.h"
#include "base/map.h"
#include "engine/effects.h"
#include "engine/engine_core.h"

#include "timer/labels.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>

/* maximum of timers examined for a name that only one timer can have */
enum { CANDIDATES_MAX = 8 };

#define STEP_BEFORE_FIRST UINT_MAX /* step before the first: the next step is 0 */

/* Lock of a name that a create is about to use. Between its look-up and its write no other command
 * may use that name. */
struct lookup_lock {
    uint64_t hash;
    struct list waiters; /* commands that wait for the lock, in order */
};

struct lookup {
    struct map locks; /* hash -> lookup_lock */
};

/* A name that a command looks for. */
struct lookup_name {
    enum name_kind kind;
    struct bytes text;
    uint64_t hash;
};

struct lookup *lookup_create(void)
{
    struct lookup *lookup = calloc(1, sizeof(*lookup));

    if (lookup)
        map_init(&lookup->locks);
    return lookup;
}

void lookup_destroy(struct lookup *lookup)
{
    if (!lookup)
        return;
    size_t cursor = 0;
    for (struct lookup_lock *lock; (lock = map_next(&lookup->locks, &cursor));)
        free(lock);
    map_deinit(&lookup->locks);
    free(lookup);
}

/* ---- candidates ---- */

void lookup_forget_candidates(struct command *command)
{
    assert(command->names_.next <= command->names_.count);
    assert(command->names_.ids || command->names_.count == 0);
    free(command->names_.ids);
    command->names_.ids = NULL;
    command->names_.count = command->names_.next = 0;
}

void lookup_set_candidates(struct command *command, struct timer_id *ids, size_t count)
{
    assert(command->names_.count == 0 && command->names_.next == 0);
    assert(ids || count == 0);
    assert(!command->names_.ids);
    command->names_.ids = ids;
    command->names_.count = count;
}

void lookup_take(struct command *command, struct engine_read *read)
{
    assert(!read->names.count || read->names.ids);
    assert(read->kind == ENGINE_READ_LOOKUP && read->result == ERROR_NONE);
    lookup_set_candidates(command, read->names.ids, read->names.count);
    read->names = (struct storage_names){0};
}

/* ---- reads ---- */

static bool lookup_read(struct engine *engine, struct command *command, uint64_t hash,
                        uint64_t serial_below, size_t count_max)
{
    assert(count_max > 0);

    struct engine_read *read = calloc(1, sizeof(*read));
    if (!read)
        return false;
    read->kind = ENGINE_READ_LOOKUP;
    read->lookup =
        (struct storage_lookup){engine->options.partition, hash, serial_below, count_max};
    read->command_ = command;
    effects_read(engine, read);
    return true;
}

bool lookup_watchers(struct engine *engine, struct command *command, uint64_t serial_below,
                     size_t count_max)
{
    const struct name_space space = {engine->options.partition, command->tenant};

    assert(count_max <= engine->options.scan_rows_max);
    assert(command->kind == COMMAND_COMPLETE && command->name.size);
    return lookup_read(engine, command, name_hash(space, NAME_WATCH, command->name), serial_below,
                       count_max);
}

/* Returns the name of this step; false if there is no such step. A create first checks whether its
 * Idempotency-Key was used, and then whether its key is free. */
static bool lookup_name_at(const struct engine *engine, const struct command *command,
                           unsigned step, struct lookup_name *ret_name)
{
    struct name_space space = {engine->options.partition, command->tenant};

    assert(!command_is_create(command) || command->timer_count == 1);
    if (!command_is_create(command)) {
        *ret_name = (struct lookup_name){NAME_KEY, command->name,
                                         name_hash(space, NAME_KEY, command->name)};
        return step == 0;
    }
    const struct timer_texts *texts = &command->timers[0]->texts;
    const struct bytes request = name_of_request(texts->request);
    space.tenant = texts->tenant;
    if (texts->request.size && step-- == 0) {
        *ret_name = (struct lookup_name){NAME_REQUEST, request,
                                         name_hash_request(space, texts->key, request)};
        return true;
    }
    *ret_name = (struct lookup_name){NAME_KEY, texts->key, name_hash(space, NAME_KEY, texts->key)};
    return texts->key.size && step == 0;
}

static enum lookup_step lookup_read_step(struct engine *engine, struct command *command)
{
    assert(command->kind != COMMAND_COMPLETE);
    lookup_forget_candidates(command);
    /* the newest timer with the key must be the dead letter */
    if (command->kind == COMMAND_REDRIVE)
        return lookup_read(engine, command, command->names_.lock, UINT64_MAX, 1) ? LOOKUP_WAITS
                                                                                 : LOOKUP_NO_MEMORY;
    command->names_.is_searching = true;
    struct lookup_name name;
    if (!lookup_name_at(engine, command, command->names_.step, &name)) {
        command->names_.is_searching = false;
        return LOOKUP_NONE;
    }
    return lookup_read(engine, command, name.hash, UINT64_MAX, CANDIDATES_MAX) ? LOOKUP_WAITS
                                                                               : LOOKUP_NO_MEMORY;
}

enum lookup_step lookup_next(struct engine *engine, struct command *command)
{
    struct command_names *names = &command->names_;

    assert(command->kind != COMMAND_REDRIVE);
    assert(names->is_searching && names->next <= names->count);
    if (names->next < names->count) {
        command->id = names->ids[names->next++];
        return LOOKUP_CANDIDATE;
    }
    /* a part whose timer is given by its id */
    if (command->parent_ && !command_is_create(command)) {
        names->is_searching = false;
        return LOOKUP_NONE;
    }
    names->step++;
    return lookup_read_step(engine, command);
}

/* ---- locks ---- */

static enum lookup_step lookup_lock(struct engine *engine, struct command *command, uint64_t hash)
{
    struct map *locks = &engine->lookup->locks;
    struct lookup_lock *held = map_get(locks, hash);

    assert(!command->names_.is_searching && !command->names_.ids);
    assert(command_is_create(command) || command->kind == COMMAND_REDRIVE);
    assert(!command->names_.is_locked);
    command->names_.lock = hash;
    command->names_.is_locked = true;
    if (held) {
        list_push(&held->waiters, &command->link);
        return LOOKUP_WAITS;
    }
    held = malloc(sizeof(*held));
    if (held) {
        held->hash = hash;
        list_init(&held->waiters);
    }
    if (!held || !map_put(locks, hash, held)) {
        free(held);
        command->names_.is_locked = false;
        return LOOKUP_NO_MEMORY;
    }
    return lookup_read_step(engine, command);
}

enum lookup_step lookup_release(struct engine *engine, struct command *command,
                                struct command **ret_next)
{
    struct map *locks = &engine->lookup->locks;

    assert(!command->names_.is_searching);
    *ret_next = NULL;
    lookup_forget_candidates(command);
    if (!command->names_.is_locked)
        return LOOKUP_NONE;
    command->names_.is_locked = false;
    struct lookup_lock *held = map_get(locks, command->names_.lock);
    assert(held);
    struct list *next = list_pop(&held->waiters);
    if (next) {
        *ret_next = list_item(next, struct command, link);
        return lookup_read_step(engine, *ret_next);
    }
    map_remove(locks, held->hash);
    free(held);
    return LOOKUP_NONE;
}

/* ---- beginnings ---- */

enum lookup_step lookup_begin(struct engine *engine, struct command *command)
{
    assert(!command_is_create(command) || command->timer_count == 1);
    assert(command->kind != COMMAND_COMPLETE && command->kind != COMMAND_REDRIVE);
    command->names_ = (struct command_names){0};
    if (!command_is_create(command))
        return lookup_read_step(engine, command);
    struct lookup_name name;
    uint64_t hash = 0;
    /* The lock is of the last name: the key if there is one, otherwise the Idempotency-Key. */
    for (unsigned step = 0; lookup_name_at(engine, command, step, &name); step++)
        hash = name.hash;
    return lookup_lock(engine, command, hash);
}

void lookup_recalled(struct command *command, const struct timer_id *id)
{
    assert(!command_is_create(command) && command->name.size);
    command->names_ = (struct command_names){.is_searching = true, .step = STEP_BEFORE_FIRST};
    command->id = *id;
}

enum lookup_step lookup_begin_redrive(struct engine *engine, const struct timer *timer,
                                      struct command *command)
{
    assert(timer->state == TIMER_DEAD);
    assert(command->kind == COMMAND_REDRIVE && timer->texts.key.size);
    return lookup_lock(engine, command,
                       name_hash(name_space_of(timer), NAME_KEY, timer->texts.key));
}

bool lookup_fits(const struct command *command, const struct timer *timer)
{
    const struct command *parent = command->parent_;

    assert(command->names_.next > 0 || parent || command->names_.step == STEP_BEFORE_FIRST);
    assert(command->names_.is_searching);
    if (parent && parent->kind == COMMAND_COMPLETE)
        return parent->name.size ? name_fits(timer, NAME_WATCH, parent->name)
                                 : labels_have_all(timer->texts.labels, parent->labels);
    if (!command_is_create(command))
        return name_fits(timer, NAME_KEY, command->name);

    const struct timer_texts *texts = &command->timers[0]->texts;
    const struct bytes request = name_of_request(texts->request);
    if (texts->request.size && command->names_.step == 0)
        return name_fits(timer, NAME_REQUEST, request) && name_fits(timer, NAME_KEY, texts->key);
    return name_fits(timer, NAME_KEY, texts->key);
}

void lookup_check(const struct engine *engine)
{
    const struct map *locks = &engine->lookup->locks;
    size_t cursor = 0;

    for (const struct lookup_lock *lock; (lock = map_next(locks, &cursor));) {
        CHECK(map_get(locks, lock->hash) == lock);
        LIST_FOR_EACH (&lock->waiters, link) {
            const struct command *command = list_item(link, struct command, link);

            CHECK(command->names_.is_locked && command->names_.lock == lock->hash);
            CHECK(!command->names_.is_searching && !command->names_.ids);
        }
    }
}
