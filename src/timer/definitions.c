/* Tables of definitions: their keys and limits; named_rows.c makes the tables. */
#include "timer/definitions.h"

#include <assert.h>
#include <stddef.h>

static_assert(sizeof(struct definition) == sizeof(struct named_row) &&
                  offsetof(struct definition, value) == offsetof(struct named_row, text) &&
                  offsetof(struct definition, version) == offsetof(struct named_row, number) &&
                  offsetof(struct definitions, rows) == offsetof(struct named_rows, rows),
              "a definition is a named row");
static_assert(DEFINITION_NAME_SIZE_MAX == TENANT_SIZE_MAX, "names are those of tenants");

/* ---- keys ---- */

bool definition_name_is_valid(struct bytes name)
{
    return tenant_is_valid(name);
}

struct bytes definition_key(enum definition_kind kind, struct bytes name,
                            char room[DEFINITION_KEY_SIZE_MAX])
{
    assert(name.size <= DEFINITION_NAME_SIZE_MAX);
    room[0] = (char)kind;
    if (name.size)
        memcpy(room + 1, name.data, name.size);
    return (struct bytes){room, name.size + 1};
}

static bool definitions_is_kind(char byte)
{
#define X(name, value)   \
    if (byte == (value)) \
        return true;
    DEFINITION_KIND_LIST(X)
#undef X
    return false;
}

static bool definitions_is_valid(const struct named_row *row)
{
    const struct bytes key = row->name;

    return key.size > 0 && definitions_is_kind(key.data[0]) &&
           definition_name_is_valid((struct bytes){key.data + 1, key.size - 1});
}

static bool definitions_is_kept(const struct named_row *row, struct wall now)
{
    (void)row, (void)now;
    return true;
}

/* ---- tables ---- */

static const struct named_rows_form definitions_form = {
    .mark = {'T', 'W', 'D', 'E', 'F', 'I', 'N', '1'},
    .text_size = 3,
    .name_max = DEFINITION_KEY_SIZE_MAX,
    .text_max = DEFINITIONS_BYTES_TENANT_MAX,
    .group_size = 1,
    .rows_max = DEFINITIONS_BYTES_MAX,
    .rows_tenant_max = DEFINITIONS_TENANT_MAX,
    .texts_tenant_max = DEFINITIONS_BYTES_TENANT_MAX,
    .is_valid = definitions_is_valid,
    .is_kept = definitions_is_kept,
};

struct definitions *definitions_create(void)
{
    return (struct definitions *)named_rows_create();
}

struct definitions *definitions_hold(struct definitions *definitions)
{
    named_rows_hold((struct named_rows *)definitions);
    return definitions;
}

void definitions_leave(struct definitions *definitions)
{
    named_rows_leave((struct named_rows *)definitions);
}

static bool definitions_fit(const struct definitions *definitions)
{
    struct buffer bytes;

    buffer_init(&bytes);
    definitions_encode(definitions, &bytes);
    const bool is_fit = !buffer_failed(&bytes) && bytes.size <= DEFINITIONS_BYTES_MAX;
    buffer_deinit(&bytes);
    return is_fit;
}

enum error_code definitions_put(const struct definitions *definitions, const struct definition *row,
                                struct definitions **ret_definitions)
{
    const struct named_rows_edit edit = {
        .tenant = row->tenant, .name = row->key, .put = (const struct named_row *)row};
    struct named_rows *made;

    assert(row->tenant.size <= TENANT_SIZE_MAX && definitions_is_valid(edit.put));
    const enum error_code code =
        named_rows_change(&definitions_form, (const struct named_rows *)definitions, &edit, &made);
    if (code)
        return code;
    if (!definitions_fit((struct definitions *)made)) {
        named_rows_leave(made);
        return ERROR_TOO_MANY;
    }
    *ret_definitions = (struct definitions *)made;
    return ERROR_NONE;
}

enum error_code definitions_remove(const struct definitions *definitions, struct bytes tenant,
                                   struct bytes key, struct definitions **ret_definitions)
{
    return named_rows_change(&definitions_form, (const struct named_rows *)definitions,
                             &(struct named_rows_edit){.tenant = tenant, .name = key},
                             (struct named_rows **)ret_definitions);
}

struct definitions *definitions_join(const struct definitions *under,
                                     const struct definitions *over)
{
    return (struct definitions *)named_rows_join((const struct named_rows *)under,
                                                 (const struct named_rows *)over);
}

const struct definition *definitions_at(const struct definitions *definitions, struct bytes tenant,
                                        struct bytes key)
{
    return (const struct definition *)named_rows_find((const struct named_rows *)definitions,
                                                      tenant, key);
}

const struct definition *definitions_find(const struct definitions *definitions,
                                          struct bytes tenant, enum definition_kind kind,
                                          struct bytes name)
{
    char room[DEFINITION_KEY_SIZE_MAX];

    if (name.size > DEFINITION_NAME_SIZE_MAX)
        return NULL;
    return definitions_at(definitions, tenant, definition_key(kind, name, room));
}

const struct definition *definitions_of(const struct definitions *definitions, struct bytes tenant,
                                        enum definition_kind kind, size_t *ret_count)
{
    const struct named_rows *table = (const struct named_rows *)definitions;
    const char bounds[] = {(char)kind, (char)(kind + 1)};
    const size_t first = named_rows_place(table, tenant, (struct bytes){&bounds[0], 1});

    *ret_count = named_rows_place(table, tenant, (struct bytes){&bounds[1], 1}) - first;
    return &definitions->rows[first];
}

void definitions_encode(const struct definitions *definitions, struct buffer *out)
{
    named_rows_encode(&definitions_form, (const struct named_rows *)definitions, out);
}

enum error_code definitions_decode(struct bytes bytes, struct definitions **ret_definitions)
{
    return named_rows_decode(&definitions_form, bytes, (struct named_rows **)ret_definitions);
}

/* ---- the board ---- */

void definition_board_init(struct definition_board *board)
{
    named_board_init(&board->board);
}

void definition_board_deinit(struct definition_board *board)
{
    named_board_deinit(&board->board);
}

void definition_board_show(struct definition_board *board, struct definitions *definitions)
{
    named_board_show(&board->board, 0, (struct named_rows *)definitions);
}

struct definitions *definition_board_take(struct definition_board *board, uint64_t *ret_version)
{
    return (struct definitions *)named_board_take(&board->board, 0, ret_version);
}
