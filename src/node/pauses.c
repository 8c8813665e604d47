/* Pauses of queues and targets: a file in the data folder has those of all tenants, and the engines
 * find them on a board. The calls are rare, and wait for one small file as a commit does. */
#include "node/pauses.h"

#include "sys/files.h"

#include <stdio.h>

#define PAUSES_PATH_SIZE 4200

static enum error_code pauses_path(const char *folder, char path[PAUSES_PATH_SIZE],
                                   struct error *ret_error)
{
    if ((size_t)snprintf(path, PAUSES_PATH_SIZE, "%s/PAUSES", folder) >= PAUSES_PATH_SIZE)
        return error_set(ret_error, ERROR_IO, "%s: the path is too long", folder);
    return ERROR_NONE;
}

static enum error_code pauses_decode(const char *path, struct bytes bytes,
                                     struct target_pauses **ret_pauses, struct error *ret_error)
{
    const enum error_code code = target_pauses_decode(bytes, ret_pauses);

    if (code == ERROR_CORRUPT)
        return error_set(ret_error, code,
                         "%.150s is damaged: it says what is paused; copy it from a backup, or "
                         "remove it to start with no queue and no target paused",
                         path);
    return code ? error_set(ret_error, code, "no memory for what is paused") : ERROR_NONE;
}

/* Reads the pauses of the file; none if there is no file. */
static enum error_code pauses_read(const char *folder, struct target_pauses **ret_pauses,
                                   struct error *ret_error)
{
    char path[PAUSES_PATH_SIZE];
    enum error_code code = pauses_path(folder, path, ret_error);

    if (code)
        return code;
    if (!files_exists(path)) {
        *ret_pauses = target_pauses_create();
        return *ret_pauses ? ERROR_NONE
                           : error_set(ret_error, ERROR_NO_MEMORY, "no memory for what is paused");
    }
    struct buffer bytes;
    buffer_init(&bytes);
    code = files_read(path, TARGET_PAUSES_BYTES_MAX, &bytes, ret_error);
    if (!code || code == ERROR_TOO_LARGE)
        code = pauses_decode(path, buffer_bytes(&bytes), ret_pauses, ret_error);
    buffer_deinit(&bytes);
    return code;
}

static enum error_code pauses_write(const char *folder, const struct target_pauses *pauses,
                                    struct error *ret_error)
{
    char path[PAUSES_PATH_SIZE];
    struct buffer bytes;
    enum error_code code = pauses_path(folder, path, ret_error);

    buffer_init(&bytes);
    if (!code)
        target_pauses_encode(pauses, &bytes);
    if (!code && buffer_failed(&bytes))
        code = error_set(ret_error, ERROR_NO_MEMORY, "no memory for what is paused");
    if (!code)
        code = files_write(path, buffer_bytes(&bytes), ret_error);
    buffer_deinit(&bytes);
    return code;
}

enum error_code pauses_load(struct node_holds *holds, struct error *ret_error)
{
    const bool is_cluster = *holds->config->cluster_brokers;
    struct target_pauses *pauses = is_cluster ? target_pauses_create() : NULL;
    enum error_code code = ERROR_NONE;

    if (!is_cluster)
        code = pauses_read(holds->config->data_folder, &pauses, ret_error);
    else if (!pauses)
        code = error_set(ret_error, ERROR_NO_MEMORY, "no memory for what is paused");
    if (!code)
        target_pause_board_show(&holds->pauses, pauses);
    return code;
}

enum error_code pauses_back_up(struct node_holds *holds, const char *folder,
                               struct error *ret_error)
{
    struct target_pauses *pauses = pauses_take(holds);
    const enum error_code code =
        pauses->count ? pauses_write(folder, pauses, ret_error) : ERROR_NONE;

    target_pauses_leave(pauses);
    return code;
}

enum error_code node_check_pauses(const char *folder, struct error *ret_error)
{
    struct target_pauses *pauses;
    const enum error_code code = pauses_read(folder, &pauses, ret_error);

    if (!code)
        target_pauses_leave(pauses);
    return code;
}

struct target_pauses *pauses_take(struct node_holds *holds)
{
    uint64_t version;

    return target_pause_board_take(&holds->pauses, &version);
}

/* Writes the next table, which it takes, and publishes it. If that fails, the file may have it
 * already, so it writes the last table again. */
static enum error_code pauses_show(struct node_holds *holds, const struct target_pauses *last,
                                   struct target_pauses *next, struct error *ret_error)
{
    const char *folder = holds->config->data_folder;
    const enum error_code code = pauses_write(folder, next, ret_error);

    if (code) {
        pauses_write(folder, last, NULL);
        target_pauses_leave(next);
        return code;
    }
    target_pause_board_show(&holds->pauses, next);
    return ERROR_NONE;
}

enum error_code pauses_refuse(enum error_code code, struct error *ret_error)
{
    if (code == ERROR_TOO_MANY)
        return error_set(ret_error, code,
                         "At most %d queues and targets of a tenant are paused, and %d of all",
                         TARGET_PAUSES_TENANT_MAX, TARGET_PAUSES_MAX);
    return error_set(ret_error, code, "%s", "");
}

static enum error_code pauses_refuse_reset(enum error_code code, struct error *ret_error)
{
    if (code == ERROR_TOO_MANY)
        return error_set(ret_error, code,
                         "At most %d targets of a tenant are reset in a minute, and %d of all",
                         NODE_RESETS_TENANT_MAX, NODE_RESETS_MAX);
    return error_set(ret_error, code, "%s", "");
}

void pauses_tell(struct node_holds *holds, struct bytes tenant, struct bytes name)
{
    struct target_pauses *pauses = pauses_take(holds);
    const struct target_pause *pause = target_pauses_find(pauses, tenant, name);
    const struct target_pause none = {.tenant = tenant, .name = name};

    if (bytes_has_prefix(name, BYTES("queue:")))
        feed_tell_hold(holds->feed, pause ? FEED_QUEUE_PAUSED : FEED_QUEUE_RESUMED,
                       pause ? pause : &none, 0);
    else
        feed_tell_hold(holds->feed, pause ? FEED_TARGET_PAUSED : FEED_TARGET_RESUMED,
                       pause ? pause : &none, 0);
    target_pauses_leave(pauses);
}

enum error_code pauses_put(struct node_holds *holds, const struct target_pause *pause,
                           struct error *ret_error)
{
    pthread_mutex_lock(&holds->lock);
    struct target_pauses *last = pauses_take(holds), *next;
    enum error_code code = target_pauses_put(last, pause->since, pause, &next);
    code = code ? pauses_refuse(code, ret_error) : pauses_show(holds, last, next, ret_error);
    if (!code)
        pauses_tell(holds, pause->tenant, pause->name);
    target_pauses_leave(last);
    pthread_mutex_unlock(&holds->lock);
    holds->changed(holds->context);
    return code;
}

enum error_code pauses_remove(struct node_holds *holds, struct bytes tenant, struct bytes name,
                              struct wall now, struct error *ret_error)
{
    pthread_mutex_lock(&holds->lock);
    struct target_pauses *last = pauses_take(holds), *next;
    enum error_code code = ERROR_NONE;
    const struct target_pause *pause = target_pauses_find(last, tenant, name);
    if (pause) {
        code = target_pauses_remove(last, now, tenant, name, &next);
        code = code ? pauses_refuse(code, ret_error) : pauses_show(holds, last, next, ret_error);
        if (!code && target_pause_is_in_force(pause, now))
            pauses_tell(holds, tenant, name);
    }
    target_pauses_leave(last);
    pthread_mutex_unlock(&holds->lock);
    holds->changed(holds->context);
    return code;
}

/* Engines read the reset from the board. A later reset removes this row when all have read it. */
enum error_code pauses_reset(struct node_holds *holds, struct bytes tenant, struct bytes name,
                             struct wall now, size_t *ret_count, struct error *ret_error)
{
    const struct target_pause reset = {
        .tenant = tenant, .name = name, .since = now, .until = wall_add(now, NODE_RESET_MS)};

    pthread_mutex_lock(&holds->lock);
    struct target_pauses *last = target_pause_board_take_resets(&holds->pauses), *without, *next;
    if (!last)
        last = target_pauses_create();
    enum error_code code = last ? ERROR_NONE : ERROR_NO_MEMORY;
    if (!code) /* so that `since` is that of this pause */
        code = target_pauses_remove(last, now, tenant, name, &without);
    if (!code) {
        code = target_pauses_put(without, now, &reset, &next);
        target_pauses_leave(without);
    }
    if (!code) {
        *ret_count = targets_reset(holds->targets, tenant, name);
        target_pause_board_show_resets(&holds->pauses, next);
        feed_tell_hold(holds->feed, FEED_TARGET_RESET, &reset, *ret_count);
    } else {
        pauses_refuse_reset(code, ret_error);
    }
    target_pauses_leave(last);
    pthread_mutex_unlock(&holds->lock);
    holds->changed(holds->context);
    return code;
}
