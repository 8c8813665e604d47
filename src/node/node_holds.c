/* node_holds.c - maintenance and pauses of a node; see node_holds.h. */
#include "node/node_holds.h"

#include "delivery/named_file.h"
#include "sys/clock.h"
#include "sys/files.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

void node_holds_init(struct node_holds *holds, void (*changed)(void *context), void *context)
{
    holds->changed = changed;
    holds->context = context;
    pthread_mutex_init(&holds->lock, NULL);
    list_init(&holds->requests);
    buffer_init(&holds->bytes);
    target_pause_board_init(&holds->pauses);
    definition_board_init(&holds->definitions);
}

void node_holds_deinit(struct node_holds *holds)
{
    holds_deinit(&holds->made);
    holds_deinit(&holds->next); /* of a change that a stop overtook */
    buffer_deinit(&holds->bytes);
    definitions_leave(holds->stored);
    definitions_leave(holds->configured);
    pthread_mutex_destroy(&holds->lock);
    target_pause_board_deinit(&holds->pauses);
    definition_board_deinit(&holds->definitions);
}

enum error_code node_holds_start(struct node_holds *holds, struct feed *feed,
                                 struct targets *targets, struct node_calendars *calendars,
                                 const char *folder, struct error *ret_error)
{
    static const char *const names[] = {"PAUSES", "MAINTENANCE"};
    struct holds none;
    char path[PATH_MAX];

    if (!holds_init(&none))
        return error_set(ret_error, ERROR_NO_MEMORY, "no memory for what is paused");
    holds->feed = feed;
    holds->targets = targets;
    holds->calendars = calendars;
    target_pause_board_show(&holds->pauses, none.pauses);
    holds->stored = definitions_hold(none.definitions);
    definition_board_show(&holds->definitions, none.definitions);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        if (files_exists(path))
            return error_set(ret_error, ERROR_INVALID,
                             "%.150s is of a build before the first release, and is not read: "
                             "remove it, and pause again what was paused",
                             path);
    }
    return ERROR_NONE;
}

struct target_pauses *node_holds_pauses(struct node_holds *holds)
{
    uint64_t version;

    return target_pause_board_take(&holds->pauses, &version);
}

struct definitions *node_holds_definitions(struct node_holds *holds)
{
    uint64_t version;

    return definition_board_take(&holds->definitions, &version);
}

struct definitions *node_holds_stored(struct node_holds *holds)
{
    pthread_mutex_lock(&holds->lock);
    struct definitions *stored = holds->stored ? definitions_hold(holds->stored) : NULL;
    pthread_mutex_unlock(&holds->lock);
    return stored;
}

/* Shows these two tables as one, and becomes the holder of both. The definitions of the
 * configuration hide those of the log with their names. Returns false if out of memory: then
 * nothing has changed, and the caller stays the holder. The caller has the lock. */
static bool node_holds_join(struct node_holds *holds, struct definitions *stored,
                            struct definitions *configured)
{
    struct definitions *shown =
        configured ? definitions_join(stored, configured) : definitions_hold(stored);

    if (!shown)
        return false;
    definition_board_show(&holds->definitions, shown);
    if (stored != holds->stored)
        definitions_leave(holds->stored);
    if (configured != holds->configured)
        definitions_leave(holds->configured);
    holds->stored = stored;
    holds->configured = configured;
    return true;
}

enum error_code node_holds_configure(struct node_holds *holds, struct named *named,
                                     const char *path, struct error *ret_error)
{
    struct definitions *configured = NULL;

    if (!*path)
        return ERROR_NONE;
    const uint64_t version = DEFINITION_CONFIGURED | (holds->configured_count + 1);
    const enum error_code code =
        named_file_load(named, path, wall_now(), version, &configured, ret_error);
    if (code)
        return code;
    pthread_mutex_lock(&holds->lock);
    const bool is_shown = node_holds_join(holds, holds->stored, configured);
    holds->configured_count += is_shown;
    pthread_mutex_unlock(&holds->lock);
    if (!is_shown) {
        definitions_leave(configured);
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory for named targets");
    }
    holds->changed(holds->context);
    return ERROR_NONE;
}

/* ---- showing ---- */

/* Reports whether the queue or target of that name is paused now. */
static void node_holds_tell(struct node_holds *holds, const struct target_pauses *pauses,
                            struct bytes tenant, struct bytes name)
{
    const struct target_pause *pause = target_pauses_find(pauses, tenant, name);
    const struct target_pause none = {.tenant = tenant, .name = name};

    if (bytes_has_prefix(name, BYTES("queue:")))
        feed_tell_hold(holds->feed, pause ? FEED_QUEUE_PAUSED : FEED_QUEUE_RESUMED,
                       pause ? pause : &none, 0);
    else
        feed_tell_hold(holds->feed, pause ? FEED_TARGET_PAUSED : FEED_TARGET_RESUMED,
                       pause ? pause : &none, 0);
}

static void node_holds_show_pauses(struct node_holds *holds, const struct holds *made,
                                   const struct holds_change *change)
{
    struct target_pauses *last = node_holds_pauses(holds);

    target_pause_board_show(&holds->pauses, target_pauses_hold(made->pauses));
    if (change) {
        const struct target_pause *pause = &change->pause;
        const struct target_pause *was = target_pauses_find(last, pause->tenant, pause->name);

        if (change->kind == HOLDS_PAUSE || target_pause_is_in_force(was, wall_now()))
            node_holds_tell(holds, made->pauses, pause->tenant, pause->name);
    }
    target_pauses_leave(last);
}

/* The calendars are ready before the definitions show, so that who defined one can use it. */
static void node_holds_show_definitions(struct node_holds *holds, struct definitions *definitions)
{
    node_calendars_define(holds->calendars, definitions);
    definitions_hold(definitions);
    pthread_mutex_lock(&holds->lock);
    const bool is_shown = node_holds_join(holds, definitions, holds->configured);
    pthread_mutex_unlock(&holds->lock);
    if (!is_shown) /* the next change tries again */
        definitions_leave(definitions);
}

static void node_holds_show_maintenance(struct node_holds *holds, const struct holds *made)
{
    static const struct target_pause none;
    const bool is_held = made->is_maintained;

    pthread_mutex_lock(&holds->lock);
    holds->note_size = made->note_size;
    memcpy(holds->note, made->note, made->note_size);
    const bool was_held = atomic_exchange(&holds->is_maintained, is_held);
    pthread_mutex_unlock(&holds->lock);
    if (is_held != was_held)
        feed_tell_hold(holds->feed, is_held ? FEED_MAINTENANCE_BEGUN : FEED_MAINTENANCE_ENDED,
                       &none, 0);
}

bool node_holds_is_drained(struct node_holds *holds, uint32_t node)
{
    bool is_drained = false;

    pthread_mutex_lock(&holds->lock);
    for (size_t i = 0; i < holds->drained_count && !is_drained; i++)
        is_drained = holds->drained[i] == node;
    pthread_mutex_unlock(&holds->lock);
    return is_drained;
}

static void node_holds_show_drained(struct node_holds *holds, const struct holds *made)
{
    pthread_mutex_lock(&holds->lock);
    holds->drained_count = made->drained_count;
    memcpy(holds->drained, made->drained, made->drained_count * sizeof(made->drained[0]));
    pthread_mutex_unlock(&holds->lock);
}

void node_holds_show(struct node_holds *holds, const struct holds *made,
                     const struct holds_change *change)
{
    const bool is_pause = change && (change->kind == HOLDS_PAUSE || change->kind == HOLDS_RESUME);
    const bool is_definition =
        change && (change->kind == HOLDS_DEFINE || change->kind == HOLDS_UNDEFINE);

    if (!change || is_pause)
        node_holds_show_pauses(holds, made, change);
    if (!change || is_definition)
        node_holds_show_definitions(holds, made->definitions);
    if (!is_pause && !is_definition) {
        node_holds_show_maintenance(holds, made);
        node_holds_show_drained(holds, made);
    }
    holds->changed(holds->context);
}

/* ---- resets ---- */

static enum error_code node_holds_refuse_definition(enum error_code code, struct error *ret_error)
{
    if (code == ERROR_TOO_MANY)
        return error_set(ret_error, code,
                         "A tenant has at most %d definitions of a kind, with %d bytes, and all "
                         "tenants have %d bytes",
                         DEFINITIONS_TENANT_MAX, DEFINITIONS_BYTES_TENANT_MAX,
                         DEFINITIONS_BYTES_MAX);
    if (code == ERROR_VERSION_MISMATCH)
        return error_set(ret_error, code, "It was changed: read it again, and send its ETag");
    if (code == ERROR_NOT_FOUND)
        return error_set(ret_error, code, "There is no definition of that name");
    return error_set(ret_error, code, "%s", "");
}

enum error_code node_holds_refuse(enum holds_kind kind, enum error_code code,
                                  struct error *ret_error)
{
    if (kind == HOLDS_DEFINE || kind == HOLDS_UNDEFINE)
        return node_holds_refuse_definition(code, ret_error);
    if (code == ERROR_INVALID)
        return error_set(ret_error, code, "%s",
                         "Another node was drained at the same time: look at the nodes, and try "
                         "again");
    if (code == ERROR_TOO_MANY && kind == HOLDS_DRAIN)
        return error_set(ret_error, code,
                         "%d nodes are drained already: undrain those that are gone",
                         HOLDS_DRAINED_MAX);
    if (code == ERROR_TOO_MANY)
        return error_set(ret_error, code,
                         "At most %d queues and targets of a tenant are paused, and %d of all",
                         TARGET_PAUSES_TENANT_MAX, TARGET_PAUSES_MAX);
    return error_set(ret_error, code, "%s", "");
}

static enum error_code node_holds_refuse_reset(enum error_code code, struct error *ret_error)
{
    if (code == ERROR_TOO_MANY)
        return error_set(ret_error, code,
                         "At most %d targets of a tenant are reset in a minute, and %d of all",
                         NODE_RESETS_TENANT_MAX, NODE_RESETS_MAX);
    return error_set(ret_error, code, "%s", "");
}

/* Engines read the reset from the board. A later reset removes this row when all have read it. */
enum error_code node_holds_reset(struct node_holds *holds, struct bytes tenant, struct bytes name,
                                 struct wall now, size_t *ret_count, struct error *ret_error)
{
    const struct target_pause reset = {
        .tenant = tenant, .name = name, .since = now, .until = wall_add(now, NODE_RESET_MS)};
    struct target_pauses *last = target_pause_board_take_resets(&holds->pauses), *without, *next;

    if (!last)
        last = target_pauses_create();
    enum error_code code = last ? ERROR_NONE : ERROR_NO_MEMORY;
    if (!code) /* so that `since` is the time of this reset */
        code = target_pauses_remove(last, now, tenant, name, &without);
    if (!code) {
        code = target_pauses_put(without, now, &reset, &next);
        target_pauses_leave(without);
    }
    target_pauses_leave(last);
    if (code)
        return node_holds_refuse_reset(code, ret_error);
    *ret_count = targets_reset(holds->targets, tenant, name);
    target_pause_board_show_resets(&holds->pauses, next);
    feed_tell_hold(holds->feed, FEED_TARGET_RESET, &reset, *ret_count);
    holds->changed(holds->context);
    return ERROR_NONE;
}
