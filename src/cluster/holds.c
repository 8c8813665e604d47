/* holds.c - see holds.h; docs/cluster-design.md has the layouts in tables. A pause is written as a
 * table of one row: tables check their names and texts. */
#include "cluster/holds.h"

#include "base/utf8.h"

enum { CHANGE_HEAD_SIZE = 18, COPY_HEAD_SIZE = 12, COPY_DEFINED_HEAD_SIZE = 12 };

/* Flags of a copy. Builds before drains wrote the first alone, those before definitions two. */
enum { COPY_MAINTAINED = 1, COPY_DRAINED = 2, COPY_DEFINED = 4, COPY_FLAGS = 7 };

bool holds_init(struct holds *holds)
{
    *holds = (struct holds){.pauses = target_pauses_create(), .definitions = definitions_create()};
    if (holds->pauses && holds->definitions)
        return true;
    holds_deinit(holds);
    return false;
}

void holds_deinit(struct holds *holds)
{
    target_pauses_leave(holds->pauses);
    definitions_leave(holds->definitions);
    holds->pauses = NULL;
    holds->definitions = NULL;
}

struct holds holds_share(const struct holds *holds)
{
    target_pauses_hold(holds->pauses);
    definitions_hold(holds->definitions);
    return *holds;
}

/* ---- changes ---- */

static bool holds_fit(const struct target_pauses *pauses, const struct definitions *definitions)
{
    struct buffer bytes;

    buffer_init(&bytes);
    target_pauses_encode(pauses, &bytes);
    definitions_encode(definitions, &bytes);
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
    if (change->kind == HOLDS_PAUSE && !holds_fit(next, holds->definitions)) {
        target_pauses_leave(next);
        return ERROR_TOO_MANY;
    }
    target_pauses_leave(holds->pauses);
    holds->pauses = next;
    return ERROR_NONE;
}

/* Returns the place of the first drained node with this id or a higher one. */
static size_t holds_drained_at(const struct holds *holds, uint32_t node)
{
    size_t at = 0;

    while (at < holds->drained_count && holds->drained[at] < node)
        at++;
    return at;
}

bool holds_is_drained(const struct holds *holds, uint32_t node)
{
    const size_t at = holds_drained_at(holds, node);

    return at < holds->drained_count && holds->drained[at] == node;
}

static enum error_code holds_drain(struct holds *holds, const struct holds_change *change)
{
    const size_t at = holds_drained_at(holds, change->node);

    if (holds_is_drained(holds, change->node))
        return ERROR_NONE;
    if (holds_is_drained(holds, change->witness))
        return ERROR_INVALID;
    if (holds->drained_count == HOLDS_DRAINED_MAX)
        return ERROR_TOO_MANY;
    memmove(&holds->drained[at + 1], &holds->drained[at],
            (holds->drained_count++ - at) * sizeof(holds->drained[0]));
    holds->drained[at] = change->node;
    return ERROR_NONE;
}

static void holds_undrain(struct holds *holds, uint32_t node)
{
    const size_t at = holds_drained_at(holds, node);

    if (holds_is_drained(holds, node))
        memmove(&holds->drained[at], &holds->drained[at + 1],
                (--holds->drained_count - at) * sizeof(holds->drained[0]));
}

static enum error_code holds_check_version(const struct definition *row,
                                           const struct holds_change *change)
{
    const uint64_t expected = change->definition.version;

    if (!row && change->kind == HOLDS_UNDEFINE)
        return ERROR_NOT_FOUND;
    return expected == HOLDS_ANY_VERSION || expected == (row ? row->version : 0)
               ? ERROR_NONE
               : ERROR_VERSION_MISMATCH;
}

static enum error_code holds_define(struct holds *holds, const struct holds_change *change)
{
    struct definition row = change->definition;
    struct definitions *next;
    enum error_code code =
        holds_check_version(definitions_at(holds->definitions, row.tenant, row.key), change);

    row.since = change->at;
    row.version = holds->defined + 1;
    if (!code)
        code = change->kind == HOLDS_DEFINE
                   ? definitions_put(holds->definitions, &row, &next)
                   : definitions_remove(holds->definitions, row.tenant, row.key, &next);
    if (code)
        return code;
    if (change->kind == HOLDS_DEFINE && !holds_fit(holds->pauses, next)) {
        definitions_leave(next);
        return ERROR_TOO_MANY;
    }
    definitions_leave(holds->definitions);
    holds->definitions = next;
    holds->defined += change->kind == HOLDS_DEFINE;
    return ERROR_NONE;
}

enum error_code holds_apply(struct holds *holds, const struct holds_change *change)
{
    if (change->kind == HOLDS_DEFINE || change->kind == HOLDS_UNDEFINE)
        return holds_define(holds, change);
    if (change->kind == HOLDS_PAUSE || change->kind == HOLDS_RESUME)
        return holds_change_pauses(holds, change);
    if (change->kind == HOLDS_DRAIN)
        return holds_drain(holds, change);
    if (change->kind == HOLDS_UNDRAIN) {
        holds_undrain(holds, change->node);
        return ERROR_NONE;
    }
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

static bool holds_has_definition(const struct holds_change *change)
{
    return change->kind == HOLDS_DEFINE || change->kind == HOLDS_UNDEFINE;
}

/* Appends a table with only this row, whose version is the expected one. */
static void holds_encode_definition(const struct holds_change *change, struct buffer *to)
{
    struct definitions *none = definitions_create(), *row = NULL;
    struct definition definition = change->definition;

    definition.since = change->at;
    if (change->kind == HOLDS_UNDEFINE)
        definition.value = (struct bytes){0};
    if (none && !definitions_put(none, &definition, &row))
        definitions_encode(row, to);
    else
        to->failed = true;
    definitions_leave(row);
    definitions_leave(none);
}

void holds_change_encode(const struct holds_change *change, struct buffer *to)
{
    buffer_append_le(to, HOLDS_CHANGE, 1);
    buffer_append_le(to, change->ask, 8);
    buffer_append_le(to, change->kind, 1);
    buffer_append_le(to, change->at.ms, 8);
    if (change->kind == HOLDS_MAINTAIN)
        buffer_append_bytes(to, change->pause.note);
    if (change->kind == HOLDS_DRAIN || change->kind == HOLDS_UNDRAIN)
        buffer_append_le(to, change->node, 4);
    if (change->kind == HOLDS_DRAIN)
        buffer_append_le(to, change->witness, 4);
    if (holds_has_definition(change))
        holds_encode_definition(change, to);
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

static enum error_code holds_decode_definition(struct bytes rest, struct holds_change *ret_change)
{
    const enum error_code code = definitions_decode(rest, &ret_change->definition_row_);

    if (code)
        return code;
    const struct definition *row = &ret_change->definition_row_->rows[0];
    if (ret_change->definition_row_->count == 1 && row->since.ms == ret_change->at.ms &&
        (row->value.size > 0) == (ret_change->kind == HOLDS_DEFINE)) {
        ret_change->definition = *row;
        return ERROR_NONE;
    }
    definitions_leave(ret_change->definition_row_);
    return ERROR_CORRUPT;
}

static enum error_code holds_decode_drain(struct bytes rest, struct holds_change *ret_change)
{
    const bool is_drain = ret_change->kind == HOLDS_DRAIN;

    if (rest.size != (is_drain ? 8 : 4))
        return ERROR_CORRUPT;
    ret_change->node = (uint32_t)get_le(rest.data, 4);
    ret_change->witness = is_drain ? (uint32_t)get_le(rest.data + 4, 4) : 0;
    return ret_change->node == 0 || (is_drain && (ret_change->witness == 0 ||
                                                  ret_change->witness == ret_change->node))
               ? ERROR_CORRUPT
               : ERROR_NONE;
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
    else if (holds_has_definition(&change))
        code = holds_decode_definition(rest, &change);
    else if (change.kind == HOLDS_MAINTAIN && holds_is_note(rest))
        code = ERROR_NONE;
    else if (change.kind == HOLDS_END && rest.size == 0)
        code = ERROR_NONE;
    else if (change.kind == HOLDS_DRAIN || change.kind == HOLDS_UNDRAIN)
        code = holds_decode_drain(rest, &change);
    if (change.kind == HOLDS_MAINTAIN)
        change.pause.note = rest;
    if (!code)
        *ret_change = change;
    return code;
}

void holds_change_deinit(struct holds_change *change)
{
    target_pauses_leave(change->row_);
    definitions_leave(change->definition_row_);
    change->row_ = NULL;
    change->definition_row_ = NULL;
}

/* Appends the number of definitions made, the size of their table, and the table. */
static void holds_encode_definitions(const struct holds *holds, struct buffer *to)
{
    const size_t at = to->size;

    buffer_append_le(to, holds->defined, 8);
    buffer_append_le(to, 0, 4);
    definitions_encode(holds->definitions, to);
    if (!buffer_failed(to))
        put_le(to->data + at + 8, to->size - at - COPY_DEFINED_HEAD_SIZE, 4);
}

void holds_encode(const struct holds *holds, uint64_t read_to, struct buffer *to)
{
    buffer_append_le(to, HOLDS_COPY, 1);
    buffer_append_le(to, read_to, 8);
    buffer_append_le(to,
                     (holds->is_maintained ? COPY_MAINTAINED : 0) |
                         (holds->drained_count ? COPY_DRAINED : 0) |
                         (holds->defined ? COPY_DEFINED : 0),
                     1);
    buffer_append_le(to, holds->note_size, 2);
    buffer_append(to, holds->note, holds->note_size);
    if (holds->drained_count)
        buffer_append_le(to, holds->drained_count, 1);
    for (size_t i = 0; i < holds->drained_count; i++)
        buffer_append_le(to, holds->drained[i], 4);
    if (holds->defined)
        holds_encode_definitions(holds, to);
    target_pauses_encode(holds->pauses, to);
}

/* Reads the definitions from the beginning of `rest`, and removes them there. */
static enum error_code holds_decode_definitions(struct bytes *rest, struct holds *holds)
{
    if (rest->size < COPY_DEFINED_HEAD_SIZE)
        return ERROR_CORRUPT;
    holds->defined = get_le(rest->data, 8);
    const size_t size = get_le(rest->data + 8, 4);
    *rest =
        (struct bytes){rest->data + COPY_DEFINED_HEAD_SIZE, rest->size - COPY_DEFINED_HEAD_SIZE};
    if (holds->defined == 0 || size > rest->size)
        return ERROR_CORRUPT;
    const enum error_code code =
        definitions_decode((struct bytes){rest->data, size}, &holds->definitions);
    *rest = (struct bytes){rest->data + size, rest->size - size};
    for (size_t i = 0; !code && i < holds->definitions->count; i++) {
        const struct definition *row = &holds->definitions->rows[i];

        if (row->value.size == 0 || row->version == 0 || row->version > holds->defined)
            return ERROR_CORRUPT;
    }
    return code;
}

/* Reads the list of drained nodes from the beginning of `rest`, and removes it there. */
static bool holds_decode_drained(struct bytes *rest, struct holds *holds)
{
    const size_t count = rest->size ? (uint8_t)rest->data[0] : 0;

    if (count == 0 || count > HOLDS_DRAINED_MAX || rest->size < 1 + 4 * count)
        return false;
    for (size_t i = 0; i < count; i++) {
        holds->drained[i] = (uint32_t)get_le(rest->data + 1 + 4 * i, 4);
        if (holds->drained[i] <= (i ? holds->drained[i - 1] : 0))
            return false;
    }
    holds->drained_count = count;
    *rest = (struct bytes){rest->data + 1 + 4 * count, rest->size - 1 - 4 * count};
    return true;
}

/* Reads what follows the note of a copy. */
static enum error_code holds_decode_tables(struct bytes rest, uint64_t flags, struct holds *holds)
{
    enum error_code code = ERROR_NONE;

    if ((flags & COPY_DRAINED) && !holds_decode_drained(&rest, holds))
        return ERROR_CORRUPT;
    if (flags & COPY_DEFINED)
        code = holds_decode_definitions(&rest, holds);
    else if (!(holds->definitions = definitions_create()))
        code = ERROR_NO_MEMORY;
    return code ? code : target_pauses_decode(rest, &holds->pauses);
}

enum error_code holds_decode(struct bytes body, struct holds *ret_holds, uint64_t *ret_read_to)
{
    struct holds holds = {.pauses = NULL};

    if (!holds_is_form(body, HOLDS_COPY) || body.size < COPY_HEAD_SIZE)
        return ERROR_CORRUPT;
    const uint64_t flags = get_le(body.data + 9, 1);
    const bool is_maintained = flags & COPY_MAINTAINED;
    const struct bytes note = {body.data + COPY_HEAD_SIZE, get_le(body.data + 10, 2)};
    if (flags > COPY_FLAGS || body.size - COPY_HEAD_SIZE < note.size || !holds_is_note(note) ||
        (note.size && !is_maintained))
        return ERROR_CORRUPT;
    const size_t head = COPY_HEAD_SIZE + note.size;
    const enum error_code code =
        holds_decode_tables((struct bytes){body.data + head, body.size - head}, flags, &holds);
    if (code) {
        holds_deinit(&holds);
        return code;
    }
    holds.is_maintained = is_maintained;
    holds.note_size = note.size;
    memcpy(holds.note, note.data, note.size);
    *ret_read_to = get_le(body.data + 1, 8);
    *ret_holds = holds;
    return ERROR_NONE;
}
