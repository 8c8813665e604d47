/* Tables of paused targets: names, changes, their bytes, and the board that shows the latest. */
#include "timer/target_pauses.h"

#include "base/checksum.h"
#include "base/utf8.h"
#include "timer/queue_target.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- names ---- */

static size_t target_pause_append(char room[TARGET_PAUSE_NAME_SIZE_MAX], size_t at,
                                  struct bytes text)
{
    for (size_t i = 0; i < text.size && at + i < TARGET_PAUSE_NAME_SIZE_MAX; i++) {
        const char c = text.data[i];

        room[at + i] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    }
    return at + text.size;
}

static size_t target_pause_name_url(struct bytes text, const struct target *target,
                                    char room[TARGET_PAUSE_NAME_SIZE_MAX])
{
    const bool is_http = target->kind == TARGET_HTTP;
    size_t size = target_pause_append(room, 0, target_scheme(target->kind));

    size = target_pause_append(room, size, target_slice(text, target->name));
    if (target->port != (is_http ? 80 : 443)) {
        char port[8];

        snprintf(port, sizeof(port), ":%u", (unsigned)target->port);
        size = target_pause_append(room, size, bytes_of(port));
    }
    return size;
}

bool target_pause_name(struct bytes text, const struct target *target,
                       char room[TARGET_PAUSE_NAME_SIZE_MAX], struct bytes *ret_name)
{
    const bool is_url = target_is_webhook(target);
    struct bytes name = target_origin(text, target);

    if (target->kind == TARGET_QUEUE) /* the name of a queue has no priority */
        name.size = (size_t)(target->name.at + target->name.size);
    const size_t size = is_url ? target_pause_name_url(text, target, room) : name.size;
    if (size > TARGET_PAUSE_NAME_SIZE_MAX)
        return false;
    if (!is_url && size)
        memcpy(room, name.data, size);
    *ret_name = (struct bytes){room, size};
    return true;
}

/* Parses the client's name of a target. The origin of a broker is first completed to a whole target
 * in `whole`, because the parser requires a path. */
static enum error_code target_pause_parse_origin(struct bytes text, char *whole, size_t whole_size,
                                                 struct target *ret_target, struct error *ret_error)
{
    static const char *const tails[] = {"", "/x", "/x/x"};
    struct error reason;

    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        const size_t size =
            (size_t)snprintf(whole, whole_size, "%.*s%s", (int)text.size, text.data, tails[i]);

        if (!target_parse((struct bytes){whole, size}, ret_target, i ? NULL : &reason) &&
            (i == 0 || target_sharing(ret_target) == TARGET_SHARES_CONNECTION))
            return ERROR_NONE;
    }
    return error_set(ret_error, ERROR_INVALID, "%s", reason.text);
}

enum error_code target_pause_parse_name(struct bytes text, char room[TARGET_PAUSE_NAME_SIZE_MAX],
                                        struct bytes *ret_name, struct error *ret_error)
{
    char whole[TARGET_PAUSE_NAME_SIZE_MAX + 8];
    struct target target;

    if (text.size == 0 || text.size > TARGET_PAUSE_NAME_SIZE_MAX || memchr(text.data, 0, text.size))
        return error_set(ret_error, ERROR_INVALID, "it must be a target of 1 to %d bytes",
                         TARGET_PAUSE_NAME_SIZE_MAX);
    enum error_code code =
        target_pause_parse_origin(text, whole, sizeof(whole), &target, ret_error);
    if (code)
        return code;
    if (target.kind == TARGET_QUEUE)
        return error_set(ret_error, ERROR_INVALID,
                         "a queue is paused by POST /v1/queues/NAME/pause");
    const bool has_slash = text.size == target.origin_size + 1u && text.data[text.size - 1] == '/';
    if (target.origin_size != text.size && !has_slash)
        return error_set(ret_error, ERROR_INVALID,
                         "a target is paused as a whole: leave out what follows %.*s",
                         (int)target.origin_size, text.data);
    if (target_sharing(&target) == TARGET_SHARES_CONNECTION && target.name.size == 0)
        return error_set(ret_error, ERROR_INVALID, "it must name a connection");
    if (!target_pause_name(bytes_of(whole), &target, room, ret_name))
        return error_set(ret_error, ERROR_INVALID, "it is too long");
    return ERROR_NONE;
}

/* ---- tables ---- */

static int target_pauses_order(struct bytes a, struct bytes b)
{
    const size_t shared = a.size < b.size ? a.size : b.size;
    const int order = shared ? memcmp(a.data, b.data, shared) : 0;

    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static int target_pauses_compare(const struct target_pause *row, struct bytes tenant,
                                 struct bytes name)
{
    const int order = target_pauses_order(row->tenant, tenant);

    return order ? order : target_pauses_order(row->name, name);
}

/* Returns the index of the first row that is not before the name in the order. */
static size_t target_pauses_place(const struct target_pauses *pauses, struct bytes tenant,
                                  struct bytes name)
{
    size_t low = 0, high = pauses->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (target_pauses_compare(&pauses->rows[middle], tenant, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct bytes target_pauses_copy(char **texts, struct bytes text)
{
    const struct bytes copy = {*texts, text.size};

    if (text.size)
        memcpy(*texts, text.data, text.size);
    *texts += text.size;
    return copy;
}

/* Makes a table with copies of these rows, in their order; NULL if out of memory. */
static struct target_pauses *target_pauses_make(const struct target_pause *rows, size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += rows[i].tenant.size + rows[i].name.size + rows[i].note.size;
    struct target_pauses *pauses =
        malloc(sizeof(*pauses) + count * sizeof(pauses->rows[0]) + bytes + 1);
    if (!pauses)
        return NULL;
    char *texts = (char *)&pauses->rows[count];
    pauses->count = count;
    atomic_init(&pauses->holders_, 1);
    for (size_t i = 0; i < count; i++) {
        struct target_pause *row = &pauses->rows[i];

        *row = rows[i];
        row->tenant = target_pauses_copy(&texts, rows[i].tenant);
        row->name = target_pauses_copy(&texts, rows[i].name);
        row->note = target_pauses_copy(&texts, rows[i].note);
    }
    return pauses;
}

struct target_pauses *target_pauses_create(void)
{
    return target_pauses_make(NULL, 0);
}

struct target_pauses *target_pauses_hold(struct target_pauses *pauses)
{
    atomic_fetch_add(&pauses->holders_, 1);
    return pauses;
}

void target_pauses_leave(struct target_pauses *pauses)
{
    if (pauses && atomic_fetch_sub(&pauses->holders_, 1) == 1)
        free(pauses);
}

/* Makes a table of the pauses in force, except that with this name. If `put` is not NULL, it takes
 * the place of that pause. */
static enum error_code target_pauses_change(const struct target_pauses *pauses, struct wall now,
                                            struct bytes tenant, struct bytes name,
                                            const struct target_pause *put,
                                            struct target_pauses **ret_pauses)
{
    struct target_pause *rows = calloc(pauses->count + 1, sizeof(*rows));
    const size_t place = target_pauses_place(pauses, tenant, name);
    size_t count = 0, own = 0;

    if (!rows)
        return ERROR_NO_MEMORY;
    for (size_t i = 0; i <= pauses->count; i++) {
        const struct target_pause *row = i < pauses->count ? &pauses->rows[i] : NULL;
        const bool is_it = row && target_pauses_compare(row, tenant, name) == 0;

        if (i == place && put)
            rows[count++] = *put;
        if (i == place && put && is_it && target_pause_is_in_force(row, now))
            rows[count - 1].since = row->since;
        if (!is_it && target_pause_is_in_force(row, now))
            rows[count++] = *row;
    }
    for (size_t i = 0; i < count; i++)
        own += bytes_equal(rows[i].tenant, tenant);
    const bool is_over = put && (count > TARGET_PAUSES_MAX || own > TARGET_PAUSES_TENANT_MAX);
    struct target_pauses *made = is_over ? NULL : target_pauses_make(rows, count);
    free(rows);
    if (!made)
        return is_over ? ERROR_TOO_MANY : ERROR_NO_MEMORY;
    *ret_pauses = made;
    return ERROR_NONE;
}

enum error_code target_pauses_put(const struct target_pauses *pauses, struct wall now,
                                  const struct target_pause *pause,
                                  struct target_pauses **ret_pauses)
{
    assert(pause->name.size > 0 && pause->name.size <= TARGET_PAUSE_NAME_SIZE_MAX);
    assert(pause->tenant.size <= TENANT_SIZE_MAX);
    assert(pause->note.size <= TARGET_PAUSE_NOTE_SIZE_MAX);
    return target_pauses_change(pauses, now, pause->tenant, pause->name, pause, ret_pauses);
}

enum error_code target_pauses_remove(const struct target_pauses *pauses, struct wall now,
                                     struct bytes tenant, struct bytes name,
                                     struct target_pauses **ret_pauses)
{
    return target_pauses_change(pauses, now, tenant, name, NULL, ret_pauses);
}

const struct target_pause *target_pauses_find(const struct target_pauses *pauses,
                                              struct bytes tenant, struct bytes name)
{
    const size_t place = target_pauses_place(pauses, tenant, name);

    if (place == pauses->count || target_pauses_compare(&pauses->rows[place], tenant, name) != 0)
        return NULL;
    return &pauses->rows[place];
}

const struct target_pause *target_pauses_of(const struct target_pauses *pauses, struct bytes tenant,
                                            struct bytes text, const struct target *target)
{
    char room[TARGET_PAUSE_NAME_SIZE_MAX];
    struct bytes name;

    if (pauses->count == 0 || !target_pause_name(text, target, room, &name))
        return NULL;
    return target_pauses_find(pauses, tenant, name);
}

/* ---- bytes: a mark, the number of rows, the rows, a checksum ---- */

static const char target_pauses_mark[8] = {'T', 'W', 'P', 'A', 'U', 'S', 'E', '1'};

enum { PAUSES_HEAD_SIZE = 12, PAUSES_ROW_SIZE = 21, PAUSES_END_SIZE = 4 };

void target_pauses_encode(const struct target_pauses *pauses, struct buffer *out)
{
    const size_t from = out->size;

    buffer_append(out, target_pauses_mark, sizeof(target_pauses_mark));
    buffer_append_le(out, pauses->count, 4);
    for (size_t i = 0; i < pauses->count; i++) {
        const struct target_pause *row = &pauses->rows[i];

        buffer_append_le(out, row->tenant.size, 1);
        buffer_append_le(out, row->name.size, 2);
        buffer_append_le(out, row->note.size, 2);
        buffer_append_le(out, row->since.ms, 8);
        buffer_append_le(out, row->until.ms, 8);
        buffer_append_bytes(out, row->tenant);
        buffer_append_bytes(out, row->name);
        buffer_append_bytes(out, row->note);
    }
    if (!buffer_failed(out))
        buffer_append_le(out, checksum_crc32c(0, out->data + from, out->size - from), 4);
}

static bool target_pauses_is_text(struct bytes text)
{
    return utf8_is_text(text.data, text.data + text.size);
}

/* True if the text can be the name of a target. */
static bool target_pauses_is_name(struct bytes text)
{
    char room[TARGET_PAUSE_NAME_SIZE_MAX];
    struct target target;
    struct bytes name = {0};

    if (bytes_has_prefix(text, BYTES("queue:"))) {
        const bool is_queue = !target_parse(text, &target, NULL);

        return is_queue && target_pause_name(text, &target, room, &name) && bytes_equal(name, text);
    }
    return !target_pause_parse_name(text, room, &name, NULL) && bytes_equal(name, text);
}

static struct bytes target_pauses_cut(struct bytes *rest, size_t size)
{
    const struct bytes part = {rest->data, size};

    *rest = (struct bytes){rest->data + size, rest->size - size};
    return part;
}

/* Decodes the first row and removes it from the bytes. */
static bool target_pauses_decode_row(struct bytes *rest, struct target_pause *ret_row)
{
    if (rest->size < PAUSES_ROW_SIZE)
        return false;
    const char *head = target_pauses_cut(rest, PAUSES_ROW_SIZE).data;
    const size_t tenant = get_le(head, 1), name = get_le(head + 1, 2), note = get_le(head + 3, 2);
    if (name > TARGET_PAUSE_NAME_SIZE_MAX || note > TARGET_PAUSE_NOTE_SIZE_MAX ||
        rest->size < tenant + name + note)
        return false;
    ret_row->since.ms = get_le(head + 5, 8);
    ret_row->until.ms = get_le(head + 13, 8);
    ret_row->tenant = target_pauses_cut(rest, tenant);
    ret_row->name = target_pauses_cut(rest, name);
    ret_row->note = target_pauses_cut(rest, note);
    return (tenant == 0 || tenant_is_valid(ret_row->tenant)) &&
           target_pauses_is_name(ret_row->name) && target_pauses_is_text(ret_row->note) &&
           ret_row->since.ms <= WALL_MS_MAX &&
           (ret_row->until.ms <= WALL_MS_MAX || ret_row->until.ms == WALL_NEVER.ms);
}

static bool target_pauses_decode_rows(struct bytes rest, struct target_pause *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!target_pauses_decode_row(&rest, &rows[i]) ||
            (i > 0 && target_pauses_compare(&rows[i - 1], rows[i].tenant, rows[i].name) >= 0))
            return false;
    return rest.size == 0;
}

enum error_code target_pauses_decode(struct bytes bytes, struct target_pauses **ret_pauses)
{
    if (bytes.size < PAUSES_HEAD_SIZE + PAUSES_END_SIZE ||
        memcmp(bytes.data, target_pauses_mark, sizeof(target_pauses_mark)) != 0)
        return ERROR_CORRUPT;
    const size_t size = bytes.size - PAUSES_END_SIZE;
    const size_t count = get_le(bytes.data + sizeof(target_pauses_mark), 4);
    if (checksum_crc32c(0, bytes.data, size) != get_le(bytes.data + size, 4) ||
        count > TARGET_PAUSES_MAX)
        return ERROR_CORRUPT;
    struct target_pause *rows = calloc(count + 1, sizeof(*rows));
    if (!rows)
        return ERROR_NO_MEMORY;
    const struct bytes rest = {bytes.data + PAUSES_HEAD_SIZE, size - PAUSES_HEAD_SIZE};
    const bool is_valid = target_pauses_decode_rows(rest, rows, count);
    struct target_pauses *made = is_valid ? target_pauses_make(rows, count) : NULL;
    free(rows);
    if (!made)
        return is_valid ? ERROR_NO_MEMORY : ERROR_CORRUPT;
    *ret_pauses = made;
    return ERROR_NONE;
}

/* ---- the board ---- */

void target_pause_board_init(struct target_pause_board *board)
{
    pthread_mutex_init(&board->lock_, NULL);
    board->current_ = board->resets_ = NULL;
    atomic_init(&board->version, 0);
}

void target_pause_board_deinit(struct target_pause_board *board)
{
    target_pauses_leave(board->current_);
    target_pauses_leave(board->resets_);
    pthread_mutex_destroy(&board->lock_);
}

static void target_pause_board_put(struct target_pause_board *board, struct target_pauses **place,
                                   struct target_pauses *pauses)
{
    pthread_mutex_lock(&board->lock_);
    struct target_pauses *last = *place;
    *place = pauses;
    atomic_fetch_add(&board->version, 1);
    pthread_mutex_unlock(&board->lock_);
    target_pauses_leave(last);
}

void target_pause_board_show(struct target_pause_board *board, struct target_pauses *pauses)
{
    target_pause_board_put(board, &board->current_, pauses);
}

void target_pause_board_show_resets(struct target_pause_board *board, struct target_pauses *resets)
{
    target_pause_board_put(board, &board->resets_, resets);
}

struct target_pauses *target_pause_board_take(struct target_pause_board *board,
                                              uint64_t *ret_version)
{
    pthread_mutex_lock(&board->lock_);
    struct target_pauses *pauses = board->current_;
    if (pauses)
        target_pauses_hold(pauses);
    *ret_version = atomic_load(&board->version);
    pthread_mutex_unlock(&board->lock_);
    return pauses;
}

struct target_pauses *target_pause_board_take_resets(struct target_pause_board *board)
{
    pthread_mutex_lock(&board->lock_);
    struct target_pauses *resets = board->resets_;
    if (resets)
        target_pauses_hold(resets);
    pthread_mutex_unlock(&board->lock_);
    return resets;
}
