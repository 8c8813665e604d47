/* Names of targets that are paused, and their tables, which named_rows.c makes. */
#include "timer/target_pauses.h"

#include "base/utf8.h"
#include "timer/flow.h"
#include "timer/queue_target.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>

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

struct bytes target_pause_origin(const struct timer *timer, char room[TARGET_PAUSE_NAME_SIZE_MAX])
{
    struct bytes origin = timer_target_origin(timer);

    target_pause_name(timer->texts.target, &timer->target, room, &origin);
    return origin;
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

/* Scheme of the names of flows. */
#define TARGET_PAUSE_FLOW "flow:"

struct bytes target_pause_flow(struct bytes name)
{
    const size_t size = sizeof(TARGET_PAUSE_FLOW) - 1;

    if (!bytes_has_prefix(name, BYTES(TARGET_PAUSE_FLOW)))
        return (struct bytes){0};
    return (struct bytes){name.data + size, name.size - size};
}

struct bytes target_pause_name_flow(struct bytes key, char room[TARGET_PAUSE_NAME_SIZE_MAX])
{
    const size_t size = sizeof(TARGET_PAUSE_FLOW) - 1;

    assert(key.size <= FLOW_KEY_SIZE_MAX);
    memcpy(room, TARGET_PAUSE_FLOW, size);
    memcpy(room + size, key.data, key.size);
    return (struct bytes){room, size + key.size};
}

/* ---- tables ---- */

static_assert(sizeof(struct target_pause) == sizeof(struct named_row) &&
                  offsetof(struct target_pause, note) == offsetof(struct named_row, text) &&
                  offsetof(struct target_pause, until) == offsetof(struct named_row, number) &&
                  offsetof(struct target_pauses, rows) == offsetof(struct named_rows, rows),
              "a pause is a named row");

/* True if the text can be the name of a target. */
static bool target_pauses_is_name(struct bytes text)
{
    char room[TARGET_PAUSE_NAME_SIZE_MAX];
    struct target target;
    struct bytes name = {0};

    if (bytes_has_prefix(text, BYTES(TARGET_PAUSE_FLOW)))
        return flow_key_is_valid(target_pause_flow(text));
    if (bytes_has_prefix(text, BYTES("queue:"))) {
        const bool is_queue = !target_parse(text, &target, NULL);

        return is_queue && target_pause_name(text, &target, room, &name) && bytes_equal(name, text);
    }
    return !target_pause_parse_name(text, room, &name, NULL) && bytes_equal(name, text);
}

static bool target_pauses_is_valid(const struct named_row *row)
{
    return target_pauses_is_name(row->name) &&
           utf8_is_text(row->text.data, row->text.data + row->text.size) &&
           (row->number <= WALL_MS_MAX || row->number == WALL_NEVER.ms);
}

static bool target_pauses_is_kept(const struct named_row *row, struct wall now)
{
    return target_pause_is_in_force((const struct target_pause *)row, now);
}

static const struct named_rows_form target_pauses_form = {
    .mark = {'T', 'W', 'P', 'A', 'U', 'S', 'E', '1'},
    .text_size = 2,
    .name_max = TARGET_PAUSE_NAME_SIZE_MAX,
    .text_max = TARGET_PAUSE_NOTE_SIZE_MAX,
    .rows_max = TARGET_PAUSES_MAX,
    .rows_tenant_max = TARGET_PAUSES_TENANT_MAX,
    .texts_tenant_max = SIZE_MAX,
    .is_valid = target_pauses_is_valid,
    .is_kept = target_pauses_is_kept,
};

struct target_pauses *target_pauses_create(void)
{
    return (struct target_pauses *)named_rows_create();
}

struct target_pauses *target_pauses_hold(struct target_pauses *pauses)
{
    named_rows_hold((struct named_rows *)pauses);
    return pauses;
}

void target_pauses_leave(struct target_pauses *pauses)
{
    named_rows_leave((struct named_rows *)pauses);
}

enum error_code target_pauses_put(const struct target_pauses *pauses, struct wall now,
                                  const struct target_pause *pause,
                                  struct target_pauses **ret_pauses)
{
    const struct target_pause *last = target_pauses_find(pauses, pause->tenant, pause->name);
    struct target_pause row = *pause;

    assert(pause->name.size > 0 && pause->name.size <= TARGET_PAUSE_NAME_SIZE_MAX);
    assert(pause->tenant.size <= TENANT_SIZE_MAX);
    assert(pause->note.size <= TARGET_PAUSE_NOTE_SIZE_MAX);
    if (target_pause_is_in_force(last, now))
        row.since = last->since;
    return named_rows_change(
        &target_pauses_form, (const struct named_rows *)pauses,
        &(struct named_rows_edit){now, pause->tenant, pause->name, (const struct named_row *)&row},
        (struct named_rows **)ret_pauses);
}

enum error_code target_pauses_remove(const struct target_pauses *pauses, struct wall now,
                                     struct bytes tenant, struct bytes name,
                                     struct target_pauses **ret_pauses)
{
    return named_rows_change(&target_pauses_form, (const struct named_rows *)pauses,
                             &(struct named_rows_edit){now, tenant, name, NULL},
                             (struct named_rows **)ret_pauses);
}

const struct target_pause *target_pauses_find(const struct target_pauses *pauses,
                                              struct bytes tenant, struct bytes name)
{
    return (const struct target_pause *)named_rows_find((const struct named_rows *)pauses, tenant,
                                                        name);
}

const struct target_pause *target_pauses_of_flow(const struct target_pauses *pauses,
                                                 struct bytes tenant, struct bytes key)
{
    char room[TARGET_PAUSE_NAME_SIZE_MAX];

    if (pauses->count == 0 || key.size == 0 || key.size > FLOW_KEY_SIZE_MAX)
        return NULL;
    return target_pauses_find(pauses, tenant, target_pause_name_flow(key, room));
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

void target_pauses_encode(const struct target_pauses *pauses, struct buffer *out)
{
    named_rows_encode(&target_pauses_form, (const struct named_rows *)pauses, out);
}

enum error_code target_pauses_decode(struct bytes bytes, struct target_pauses **ret_pauses)
{
    return named_rows_decode(&target_pauses_form, bytes, (struct named_rows **)ret_pauses);
}

const struct target_pause *target_pauses_of_both(const struct target_pauses *pauses,
                                                 struct bytes tenant, struct bytes flow,
                                                 struct bytes text, const struct target *target)
{
    const struct target_pause *of_flow = target_pauses_of_flow(pauses, tenant, flow_key(flow));
    const struct target_pause *of_target = target_pauses_of(pauses, tenant, text, target);

    return of_flow && (!of_target || of_flow->until.ms >= of_target->until.ms) ? of_flow
                                                                               : of_target;
}

/* ---- the board ---- */

enum { PAUSE_BOARD_CURRENT, PAUSE_BOARD_RESETS };

void target_pause_board_init(struct target_pause_board *board)
{
    named_board_init(&board->board);
}

void target_pause_board_deinit(struct target_pause_board *board)
{
    named_board_deinit(&board->board);
}

void target_pause_board_show(struct target_pause_board *board, struct target_pauses *pauses)
{
    named_board_show(&board->board, PAUSE_BOARD_CURRENT, (struct named_rows *)pauses);
}

void target_pause_board_show_resets(struct target_pause_board *board, struct target_pauses *resets)
{
    named_board_show(&board->board, PAUSE_BOARD_RESETS, (struct named_rows *)resets);
}

struct target_pauses *target_pause_board_take(struct target_pause_board *board,
                                              uint64_t *ret_version)
{
    return (struct target_pauses *)named_board_take(&board->board, PAUSE_BOARD_CURRENT,
                                                    ret_version);
}

struct target_pauses *target_pause_board_take_resets(struct target_pause_board *board)
{
    uint64_t version;

    return (struct target_pauses *)named_board_take(&board->board, PAUSE_BOARD_RESETS, &version);
}
