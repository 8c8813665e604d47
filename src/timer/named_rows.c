/* Tables of named rows: changes, their bytes, and the board that shows the latest. */
#include "timer/named_rows.h"

#include "base/checksum.h"
#include "timer/tenant.h"

#include <assert.h>
#include <stdlib.h>

/* ---- rows ---- */

static int named_rows_order(struct bytes a, struct bytes b)
{
    const size_t shared = a.size < b.size ? a.size : b.size;
    const int order = shared ? memcmp(a.data, b.data, shared) : 0;

    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static int named_rows_compare(const struct named_row *row, struct bytes tenant, struct bytes name)
{
    const int order = named_rows_order(row->tenant, tenant);

    return order ? order : named_rows_order(row->name, name);
}

size_t named_rows_place(const struct named_rows *table, struct bytes tenant, struct bytes name)
{
    size_t low = 0, high = table->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (named_rows_compare(&table->rows[middle], tenant, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct named_row *named_rows_find(const struct named_rows *table, struct bytes tenant,
                                        struct bytes name)
{
    const size_t place = named_rows_place(table, tenant, name);
    const struct named_row *row = place < table->count ? &table->rows[place] : NULL;

    return row && named_rows_compare(row, tenant, name) == 0 ? row : NULL;
}

/* ---- tables ---- */

static struct bytes named_rows_copy(char **texts, struct bytes text)
{
    const struct bytes copy = {*texts, text.size};

    if (text.size)
        memcpy(*texts, text.data, text.size);
    *texts += text.size;
    return copy;
}

/* Makes a table with copies of these rows, in their order; NULL if out of memory. */
static struct named_rows *named_rows_make(const struct named_row *rows, size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += rows[i].tenant.size + rows[i].name.size + rows[i].text.size;
    struct named_rows *table = malloc(sizeof(*table) + count * sizeof(*rows) + bytes + 1);
    if (!table)
        return NULL;
    char *texts = (char *)&table->rows[count];
    table->count = count;
    atomic_init(&table->holders_, 1);
    for (size_t i = 0; i < count; i++) {
        struct named_row *row = &table->rows[i];

        *row = rows[i];
        row->tenant = named_rows_copy(&texts, rows[i].tenant);
        row->name = named_rows_copy(&texts, rows[i].name);
        row->text = named_rows_copy(&texts, rows[i].text);
    }
    return table;
}

struct named_rows *named_rows_create(void)
{
    return named_rows_make(NULL, 0);
}

void named_rows_hold(struct named_rows *table)
{
    atomic_fetch_add(&table->holders_, 1);
}

void named_rows_leave(struct named_rows *table)
{
    if (!table || atomic_fetch_sub(&table->holders_, 1) != 1)
        return;
    for (size_t i = 0; i < table->count; i++) /* a definition of the configuration has secrets */
        if (table->rows[i].text.size)
            explicit_bzero((char *)(uintptr_t)table->rows[i].text.data, table->rows[i].text.size);
    free(table);
}

struct named_rows *named_rows_join(const struct named_rows *under, const struct named_rows *over)
{
    struct named_row *rows = calloc(under->count + over->count + 1, sizeof(*rows));
    size_t count = 0;

    if (!rows)
        return NULL;
    for (size_t i = 0, k = 0; i < under->count || k < over->count;) {
        const struct named_row *low = i < under->count ? &under->rows[i] : NULL;
        const struct named_row *high = k < over->count ? &over->rows[k] : NULL;
        const int order = !low ? 1 : !high ? -1 : named_rows_compare(low, high->tenant, high->name);

        rows[count++] = order < 0 ? *low : *high;
        i += order <= 0;
        k += order >= 0;
    }
    struct named_rows *made = named_rows_make(rows, count);
    free(rows);
    return made;
}

/* Writes the rows of the changed table to `rows`, which has room for one more than the table has.
 * Returns their number. */
static size_t named_rows_edit_rows(const struct named_rows_form *form,
                                   const struct named_rows *table,
                                   const struct named_rows_edit *edit, struct named_row *rows)
{
    const size_t place = named_rows_place(table, edit->tenant, edit->name);
    size_t count = 0;

    for (size_t i = 0; i <= table->count; i++) {
        const struct named_row *row = i < table->count ? &table->rows[i] : NULL;

        if (i == place && edit->put)
            rows[count++] = *edit->put;
        if (row && named_rows_compare(row, edit->tenant, edit->name) != 0 &&
            form->is_kept(row, edit->now))
            rows[count++] = *row;
    }
    return count;
}

enum error_code named_rows_change(const struct named_rows_form *form,
                                  const struct named_rows *table,
                                  const struct named_rows_edit *edit, struct named_rows **ret_table)
{
    struct named_row *rows = calloc(table->count + 1, sizeof(*rows));

    if (!rows)
        return ERROR_NO_MEMORY;
    const size_t count = named_rows_edit_rows(form, table, edit, rows);
    size_t own = 0, texts = 0;
    for (size_t i = 0; i < count; i++) {
        const bool is_own = bytes_equal(rows[i].tenant, edit->tenant);

        own += is_own && memcmp(rows[i].name.data, edit->name.data, form->group_size) == 0;
        texts += is_own ? rows[i].text.size : 0;
    }
    const bool is_over = edit->put && (count > form->rows_max || own > form->rows_tenant_max ||
                                       texts > form->texts_tenant_max);
    struct named_rows *made = is_over ? NULL : named_rows_make(rows, count);
    free(rows);
    if (!made)
        return is_over ? ERROR_TOO_MANY : ERROR_NO_MEMORY;
    *ret_table = made;
    return ERROR_NONE;
}

/* ---- bytes: a mark, the number of rows, the rows, a checksum ---- */

enum { ROWS_HEAD_SIZE = 12, ROWS_END_SIZE = 4 };

/* Size of the fields of a row before its texts. */
static size_t named_rows_fields_size(const struct named_rows_form *form)
{
    return 1 + 2 + form->text_size + 8 + 8;
}

void named_rows_encode(const struct named_rows_form *form, const struct named_rows *table,
                       struct buffer *out)
{
    const size_t from = out->size;

    buffer_append(out, form->mark, sizeof(form->mark));
    buffer_append_le(out, table->count, 4);
    for (size_t i = 0; i < table->count; i++) {
        const struct named_row *row = &table->rows[i];

        buffer_append_le(out, row->tenant.size, 1);
        buffer_append_le(out, row->name.size, 2);
        buffer_append_le(out, row->text.size, form->text_size);
        buffer_append_le(out, row->since.ms, 8);
        buffer_append_le(out, row->number, 8);
        buffer_append_bytes(out, row->tenant);
        buffer_append_bytes(out, row->name);
        buffer_append_bytes(out, row->text);
    }
    if (!buffer_failed(out))
        buffer_append_le(out, checksum_crc32c(0, out->data + from, out->size - from), 4);
}

static struct bytes named_rows_cut(struct bytes *rest, size_t size)
{
    const struct bytes part = {rest->data, size};

    *rest = (struct bytes){rest->data + size, rest->size - size};
    return part;
}

/* Decodes the first row and removes it from the bytes. */
static bool named_rows_decode_row(const struct named_rows_form *form, struct bytes *rest,
                                  struct named_row *ret_row)
{
    const size_t fields = named_rows_fields_size(form);

    if (rest->size < fields)
        return false;
    const char *head = named_rows_cut(rest, fields).data;
    const size_t tenant = get_le(head, 1), name = get_le(head + 1, 2);
    const size_t text = get_le(head + 3, form->text_size);
    if (name > form->name_max || text > form->text_max || rest->size < tenant + name + text)
        return false;
    ret_row->since.ms = get_le(head + 3 + form->text_size, 8);
    ret_row->number = get_le(head + 11 + form->text_size, 8);
    ret_row->tenant = named_rows_cut(rest, tenant);
    ret_row->name = named_rows_cut(rest, name);
    ret_row->text = named_rows_cut(rest, text);
    return (tenant == 0 || tenant_is_valid(ret_row->tenant)) && ret_row->since.ms <= WALL_MS_MAX &&
           form->is_valid(ret_row);
}

static bool named_rows_decode_rows(const struct named_rows_form *form, struct bytes rest,
                                   struct named_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!named_rows_decode_row(form, &rest, &rows[i]) ||
            (i > 0 && named_rows_compare(&rows[i - 1], rows[i].tenant, rows[i].name) >= 0))
            return false;
    return rest.size == 0;
}

enum error_code named_rows_decode(const struct named_rows_form *form, struct bytes bytes,
                                  struct named_rows **ret_table)
{
    if (bytes.size < ROWS_HEAD_SIZE + ROWS_END_SIZE ||
        memcmp(bytes.data, form->mark, sizeof(form->mark)) != 0)
        return ERROR_CORRUPT;
    const size_t size = bytes.size - ROWS_END_SIZE;
    const size_t count = get_le(bytes.data + sizeof(form->mark), 4);
    if (checksum_crc32c(0, bytes.data, size) != get_le(bytes.data + size, 4) ||
        count > form->rows_max || count > size / named_rows_fields_size(form))
        return ERROR_CORRUPT;
    struct named_row *rows = calloc(count + 1, sizeof(*rows));
    if (!rows)
        return ERROR_NO_MEMORY;
    const struct bytes rest = {bytes.data + ROWS_HEAD_SIZE, size - ROWS_HEAD_SIZE};
    const bool is_valid = named_rows_decode_rows(form, rest, rows, count);
    struct named_rows *made = is_valid ? named_rows_make(rows, count) : NULL;
    free(rows);
    if (!made)
        return is_valid ? ERROR_NO_MEMORY : ERROR_CORRUPT;
    *ret_table = made;
    return ERROR_NONE;
}

/* ---- the board ---- */

void named_board_init(struct named_board *board)
{
    pthread_mutex_init(&board->lock_, NULL);
    for (size_t i = 0; i < NAMED_BOARD_TABLES; i++)
        board->tables_[i] = NULL;
    atomic_init(&board->version, 0);
}

void named_board_deinit(struct named_board *board)
{
    for (size_t i = 0; i < NAMED_BOARD_TABLES; i++)
        named_rows_leave(board->tables_[i]);
    pthread_mutex_destroy(&board->lock_);
}

void named_board_show(struct named_board *board, size_t index, struct named_rows *table)
{
    assert(index < NAMED_BOARD_TABLES);
    pthread_mutex_lock(&board->lock_);
    struct named_rows *last = board->tables_[index];
    board->tables_[index] = table;
    atomic_fetch_add(&board->version, 1);
    pthread_mutex_unlock(&board->lock_);
    named_rows_leave(last);
}

struct named_rows *named_board_take(struct named_board *board, size_t index, uint64_t *ret_version)
{
    assert(index < NAMED_BOARD_TABLES);
    pthread_mutex_lock(&board->lock_);
    struct named_rows *table = board->tables_[index];
    if (table)
        named_rows_hold(table);
    *ret_version = atomic_load(&board->version);
    pthread_mutex_unlock(&board->lock_);
    return table;
}
