/* Maintenance: a file in the data folder says that all deliveries are held back, and why. The calls
 * are rare, and wait for one small file as a commit does. */
#include "node/maintenance.h"

#include "base/utf8.h"
#include "sys/files.h"

#include <stdio.h>
#include <string.h>

#define MAINTENANCE_PATH_SIZE 4200

static enum error_code maintenance_path(const struct node_holds *holds,
                                        char path[MAINTENANCE_PATH_SIZE], struct error *ret_error)
{
    if ((size_t)snprintf(path, MAINTENANCE_PATH_SIZE, "%s/MAINTENANCE",
                         holds->config->data_folder) >= MAINTENANCE_PATH_SIZE)
        return error_set(ret_error, ERROR_IO, "data_folder is too long");
    return ERROR_NONE;
}

static void maintenance_set(struct node_holds *holds, struct bytes note)
{
    holds->note_size = note.size;
    if (note.size)
        memcpy(holds->note, note.data, note.size);
}

/* A file that cannot be parsed also turns maintenance on. */
enum error_code maintenance_load(struct node_holds *holds, struct error *ret_error)
{
    char path[MAINTENANCE_PATH_SIZE];
    enum error_code code = maintenance_path(holds, path, ret_error);

    if (code || *holds->config->cluster_brokers || !files_exists(path))
        return code;
    struct buffer text;
    buffer_init(&text);
    code = files_read(path, NODE_NOTE_SIZE_MAX, &text, ret_error);
    const struct bytes note = buffer_bytes(&text);
    if (!code || code == ERROR_TOO_LARGE) {
        maintenance_set(holds, !code && utf8_is_text(note.data, note.data + note.size)
                                   ? note
                                   : (struct bytes){0});
        atomic_store(&holds->is_maintained, true);
        code = ERROR_NONE;
    }
    buffer_deinit(&text);
    return code;
}

void maintenance_show(struct node_holds *holds, bool is_held, struct bytes note)
{
    static const struct target_pause none;

    pthread_mutex_lock(&holds->note_lock);
    if (is_held)
        maintenance_set(holds, note);
    const bool was_held = atomic_exchange(&holds->is_maintained, is_held);
    pthread_mutex_unlock(&holds->note_lock);
    if (is_held != was_held)
        feed_tell_hold(holds->feed, is_held ? FEED_MAINTENANCE_BEGUN : FEED_MAINTENANCE_ENDED,
                       &none, 0);
    holds->changed(holds->context);
}

enum error_code maintenance_begin(struct node_holds *holds, struct bytes note,
                                  struct error *ret_error)
{
    char path[MAINTENANCE_PATH_SIZE];

    pthread_mutex_lock(&holds->lock);
    enum error_code code = maintenance_path(holds, path, ret_error);
    if (!code)
        code = files_write(path, note, ret_error);
    if (!code)
        maintenance_show(holds, true, note);
    pthread_mutex_unlock(&holds->lock);
    return code;
}

enum error_code maintenance_end(struct node_holds *holds, struct error *ret_error)
{
    char path[MAINTENANCE_PATH_SIZE];

    pthread_mutex_lock(&holds->lock);
    enum error_code code = maintenance_path(holds, path, ret_error);
    if (!code)
        code = files_remove(path, ret_error);
    if (!code)
        maintenance_show(holds, false, (struct bytes){0});
    pthread_mutex_unlock(&holds->lock);
    return code;
}

bool maintenance_is_on(struct node_holds *holds, char ret_note[NODE_NOTE_SIZE_MAX],
                       size_t *ret_size)
{
    pthread_mutex_lock(&holds->note_lock);
    const bool is_held = atomic_load(&holds->is_maintained);
    *ret_size = is_held ? holds->note_size : 0;
    memcpy(ret_note, holds->note, *ret_size);
    pthread_mutex_unlock(&holds->note_lock);
    return is_held;
}
