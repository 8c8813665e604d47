/* holds.c - see holds.h; docs/cluster-design.md has the layouts in tables. A pause is written as a
 * table of one row: tables check their names and texts. */
#include "cluster/holds.h"

#include "base/utf8.h"

enum { CHANGE_HEAD_SIZE = 18, COPY_HEAD_SIZE = 12 };

bool holds_init(struct holds *holds)
{
    *holds = (struct holds){.pauses = target_pauses_create()};
    return holds->pauses != NULL;
}

void holds_deinit(struct holds *holds)
{
    target_pauses_leave(holds->pauses);
    holds->pauses = NULL;
}

/* ---- changes ---- */

static bool holds_fit(const struct target_pauses *pauses)
{
    struct buffer bytes;

    buffer_init(&bytes);
    target_pauses_encode(pauses, &bytes);
    const bool is_fit = !buffer_failed(&bytes) && bytes.size <= HOLDS_BYTES_MAX;
    buffer_deinit(&bytes);
    return is_fit;
}

static enum error_code holds_change_pauses(struct holds *holds, const struct holds_change *change)
{
    const struct target_pause *pause = &change->pause;
    struct target_pauses *next;
    enum error_code code =
        change->kind == HOLDS_PAUSE
            ? target_pauses_put(holds->pauses, change->at, pause, &next)
            : target_pauses_remove(holds->pauses, change->at, pause->tenant, pause->name, &next);

    if (code)
        return code;
    if (change->kind == HOLDS_PAUSE && !holds_fit(next)) {
        target_pauses_leave(next);
        return ERROR_TOO_MANY;
    }
    target_pauses_leave(holds->pauses);
    holds->pauses = next;
    return ERROR_NONE;
}

enum error_code holds_apply(struct holds *holds, const struct holds_change *change)
{
    if (change->kind == HOLDS_PAUSE || change->kind == HOLDS_RESUME)
        return holds_change_pauses(holds, change);
    if (change->kind == HOLDS_RESET)
        return ERROR_NONE;
    holds->is_maintained = change->kind == HOLDS_MAINTAIN;
    holds->note_size = holds->is_maintained ? change->pause.note.size : 0;
    if (holds->note_size)
        memcpy(holds->note, change->pause.note.data, holds->note_size);
    return ERROR_NONE;
}

/* ---- bytes ---- */

bool holds_is_form(struct bytes body, enum holds_form form)
{
    return body.size > 0 && (uint8_t)body.data[0] == form;
}

static bool holds_has_row(const struct holds_change *change)
{
    return change->kind == HOLDS_PAUSE || change->kind == HOLDS_RESUME ||
           change->kind == HOLDS_RESET;
}

/* Makes a table with only this row; NULL if out of memory. */
static struct target_pauses *holds_make_row(const struct holds_change *change)
{
    struct target_pauses *none = target_pauses_create(), *row = NULL;
    struct target_pause pause = change->pause;

    if (change->kind != HOLDS_PAUSE)
        pause = (struct target_pause){
            .tenant = pause.tenant, .name = pause.name, .since = change->at, .until = WALL_NEVER};
    if (none && target_pauses_put(none, (struct wall){0}, &pause, &row))
        row = NULL;
    target_pauses_leave(none);
    return row;
}

void holds_change_encode(const struct holds_change *change, struct buffer *to)
{
    buffer_append_le(to, HOLDS_CHANGE, 1);
    buffer_append_le(to, change->ask, 8);
    buffer_append_le(to, change->kind, 1);
    buffer_append_le(to, change->at.ms, 8);
    if (change->kind == HOLDS_MAINTAIN)
        buffer_append_bytes(to, change->pause.note);
    if (!holds_has_row(change))
        return;
    struct target_pauses *row = holds_make_row(change);
    if (row)
        target_pauses_encode(row, to);
    else
        to->failed = true;
    target_pauses_leave(row);
}

static bool holds_is_note(struct bytes note)
{
    return note.size <= HOLDS_NOTE_SIZE_MAX && utf8_is_text(note.data, note.data + note.size);
}

static enum error_code holds_decode_row(struct bytes rest, struct holds_change *ret_change)
{
    const enum error_code code = target_pauses_decode(rest, &ret_change->row_);

    if (code)
        return code;
    if (ret_change->row_->count != 1) {
        target_pauses_leave(ret_change->row_);
        return ERROR_CORRUPT;
    }
    const struct target_pause *row = &ret_change->row_->rows[0];
    ret_change->pause = *row;
    if (ret_change->kind == HOLDS_PAUSE ||
        (row->note.size == 0 && row->since.ms == ret_change->at.ms && row->until.ms == UINT64_MAX))
        return ERROR_NONE;
    target_pauses_leave(ret_change->row_);
    return ERROR_CORRUPT;
}

enum error_code holds_change_decode(struct bytes body, struct holds_change *ret_change)
{
    if (!holds_is_form(body, HOLDS_CHANGE) || body.size < CHANGE_HEAD_SIZE)
        return ERROR_CORRUPT;
    const struct bytes rest = {body.data + CHANGE_HEAD_SIZE, body.size - CHANGE_HEAD_SIZE};
    struct holds_change change = {.ask = get_le(body.data + 1, 8),
                                  .kind = (enum holds_kind)get_le(body.data + 9, 1),
                                  .at = {get_le(body.data + 10, 8)}};
    enum error_code code = ERROR_CORRUPT;

    if (change.at.ms > WALL_MS_MAX)
        return ERROR_CORRUPT;
    if (holds_has_row(&change))
        code = holds_decode_row(rest, &change);
    else if (change.kind == HOLDS_MAINTAIN && holds_is_note(rest))
        code = ERROR_NONE;
    else if (change.kind == HOLDS_END && rest.size == 0)
        code = ERROR_NONE;
    if (change.kind == HOLDS_MAINTAIN)
        change.pause.note = rest;
    if (!code)
        *ret_change = change;
    return code;
}

void holds_change_deinit(struct holds_change *change)
{
    target_pauses_leave(change->row_);
    change->row_ = NULL;
}

void holds_encode(const struct holds *holds, uint64_t read_to, struct buffer *to)
{
    buffer_append_le(to, HOLDS_COPY, 1);
    buffer_append_le(to, read_to, 8);
    buffer_append_le(to, holds->is_maintained, 1);
    buffer_append_le(to, holds->note_size, 2);
    buffer_append(to, holds->note, holds->note_size);
    target_pauses_encode(holds->pauses, to);
}

enum error_code holds_decode(struct bytes body, struct holds *ret_holds, uint64_t *ret_read_to)
{
    struct holds holds = {.pauses = NULL};

    if (!holds_is_form(body, HOLDS_COPY) || body.size < COPY_HEAD_SIZE)
        return ERROR_CORRUPT;
    const uint64_t is_maintained = get_le(body.data + 9, 1);
    const struct bytes note = {body.data + COPY_HEAD_SIZE, get_le(body.data + 10, 2)};
    if (is_maintained > 1 || body.size - COPY_HEAD_SIZE < note.size || !holds_is_note(note) ||
        (note.size && !is_maintained))
        return ERROR_CORRUPT;
    const size_t head = COPY_HEAD_SIZE + note.size;
    const enum error_code code =
        target_pauses_decode((struct bytes){body.data + head, body.size - head}, &holds.pauses);
    if (code)
        return code;
    holds.is_maintained = is_maintained;
    holds.note_size = note.size;
    memcpy(holds.note, note.data, note.size);
    *ret_read_to = get_le(body.data + 1, 8);
    *ret_holds = holds;
    return ERROR_NONE;
}
