/* node_calendars.c - the table of calendars, made of files and of definitions. */
#include "node/node_calendars.h"

#include "calendar/dates.h"
#include "sys/files.h"

#include <stdio.h>
#include <stdlib.h>

void node_calendars_init(struct node_calendars *calendars)
{
    *calendars = (struct node_calendars){0};
    pthread_mutex_init(&calendars->lock, NULL);
    calendars_board_init(&calendars->board);
}

void node_calendars_deinit(struct node_calendars *calendars)
{
    calendars_leave(calendars->files);
    definitions_leave(calendars->definitions);
    calendars_board_deinit(&calendars->board);
    pthread_mutex_destroy(&calendars->lock);
}

/* ---- files ---- */

/* Reads one file into `ret_row`, whose texts are those of the setting. */
static enum error_code node_calendars_read(struct bytes name, struct bytes path,
                                           struct calendars_row *ret_row, struct error *ret_error)
{
    char file[4096];
    struct buffer text;
    struct error error;

    if ((size_t)snprintf(file, sizeof(file), "%.*s", (int)path.size, path.data) >= sizeof(file))
        return error_set(ret_error, ERROR_INVALID, "calendars: the path of %.*s is too long",
                         (int)name.size, name.data);
    buffer_init(&text);
    enum error_code code = files_read_regular(file, HOLIDAYS_BYTES_MAX, &text, &error);
    if (!code)
        code = holidays_parse(buffer_bytes(&text), &ret_row->days, &error);
    buffer_deinit(&text);
    if (code)
        return error_set(ret_error, code == ERROR_TOO_MANY ? ERROR_INVALID : code,
                         "calendars: %.*s (%.80s): %.120s", (int)name.size, name.data, file,
                         error.text);
    ret_row->is_shared = true;
    ret_row->name = name;
    ret_row->source = path;
    return ERROR_NONE;
}

static enum error_code node_calendars_read_word(struct bytes word, struct calendars_row *rows,
                                                size_t count, struct error *ret_error)
{
    struct bytes path = word;
    const struct bytes name = bytes_cut(&path, '=');

    if (!dates_is_name(name) || name.size == word.size || !path.size)
        return error_set(ret_error, ERROR_INVALID,
                         "calendars: \"%.*s\" is not NAME=FILE, with a name of A-Z a-z 0-9 . _ -",
                         (int)(word.size < 60 ? word.size : 60), word.data);
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(rows[i].name, name))
            return error_set(ret_error, ERROR_INVALID, "calendars: %.*s is there twice",
                             (int)name.size, name.data);
    return node_calendars_read(name, path, &rows[count], ret_error);
}

static enum error_code node_calendars_read_all(struct bytes setting, struct calendars_row *rows,
                                               size_t *count, struct error *ret_error)
{
    enum error_code code = ERROR_NONE;
    struct bytes word;

    while (!code && bytes_next_word(&setting, &word)) {
        if (*count == NODE_CALENDARS_MAX)
            return error_set(ret_error, ERROR_INVALID, "calendars: there may be at most %d",
                             NODE_CALENDARS_MAX);
        code = node_calendars_read_word(word, rows, *count, ret_error);
        *count += !code;
    }
    return code;
}

/* ---- the table ---- */

/* Returns the days of a definition: those of the shown table if it has the same version. NULL if
 * they cannot be read; the API lets no such definition in. */
static struct holidays *node_calendars_days(const struct calendars *shown,
                                            const struct definition *row)
{
    const struct bytes name = definition_name(row);
    const struct calendars_row *last = calendars_find(shown, row->tenant, name);
    struct holidays *days = NULL;

    if (last && !last->is_shared && last->version == row->version)
        return holidays_hold(last->days);
    return holidays_parse(row->value, &days, NULL) ? NULL : days;
}

/* Shows the table of files and definitions. The caller holds the lock. */
static enum error_code node_calendars_show(struct node_calendars *calendars)
{
    const struct calendars *files = calendars->files;
    const struct definitions *definitions = calendars->definitions;
    const size_t file_count = files ? files->count : 0;
    const size_t capacity = file_count + (definitions ? definitions->count : 0);
    struct calendars_row *rows = calloc(capacity + 1, sizeof(*rows));
    struct calendars *shown = calendars_board_take(&calendars->board), *made = NULL;
    size_t count = 0;

    for (; rows && count < file_count; count++) {
        rows[count] = files->rows[count];
        holidays_hold(rows[count].days);
    }
    for (size_t i = 0; rows && definitions && i < definitions->count; i++) {
        const struct definition *row = &definitions->rows[i];
        struct holidays *days =
            definition_kind(row) == DEFINITION_CALENDAR ? node_calendars_days(shown, row) : NULL;

        if (days)
            rows[count++] = (struct calendars_row){.owner = row->tenant,
                                                   .name = definition_name(row),
                                                   .version = row->version,
                                                   .days = days};
    }
    const enum error_code code = rows ? calendars_create(rows, count, &made) : ERROR_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        holidays_leave(rows[i].days);
    free(rows);
    calendars_leave(shown);
    for (size_t i = 0; made && i < made->count; i++)
        absent_forget(&calendars->absent, made->rows[i].name);
    if (!code)
        calendars_board_show(&calendars->board, made);
    return code;
}

enum error_code node_calendars_load(struct node_calendars *calendars, const char *setting,
                                    struct error *ret_error)
{
    struct calendars_row *rows = calloc(NODE_CALENDARS_MAX, sizeof(*rows));
    struct calendars *files = NULL;
    size_t count = 0;

    if (!rows)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory for calendars");
    enum error_code code = node_calendars_read_all(bytes_of(setting), rows, &count, ret_error);
    if (!code && calendars_create(rows, count, &files))
        code = error_set(ret_error, ERROR_NO_MEMORY, "out of memory for calendars");
    for (size_t i = 0; i < count; i++)
        holidays_leave(rows[i].days);
    free(rows);
    if (code)
        return code;
    pthread_mutex_lock(&calendars->lock);
    struct calendars *last = calendars->files;
    calendars->files = files;
    code = node_calendars_show(calendars);
    if (code)
        calendars->files = last;
    pthread_mutex_unlock(&calendars->lock);
    calendars_leave(code ? files : last);
    return code ? error_set(ret_error, code, "out of memory for calendars") : ERROR_NONE;
}

/* True if both tables have the same calendars. */
static bool node_calendars_are_same(const struct definitions *a, const struct definitions *b)
{
    size_t i = 0, k = 0;

    if (!a || !b)
        return false;
    for (;; i++, k++) {
        while (i < a->count && definition_kind(&a->rows[i]) != DEFINITION_CALENDAR)
            i++;
        while (k < b->count && definition_kind(&b->rows[k]) != DEFINITION_CALENDAR)
            k++;
        if (i == a->count || k == b->count)
            return i == a->count && k == b->count;
        if (a->rows[i].version != b->rows[k].version)
            return false;
    }
}

void node_calendars_define(struct node_calendars *calendars, struct definitions *definitions)
{
    pthread_mutex_lock(&calendars->lock);
    struct definitions *last = calendars->definitions;
    calendars->definitions = definitions_hold(definitions);
    if (!node_calendars_are_same(last, definitions) && node_calendars_show(calendars)) {
        calendars->definitions = last; /* the next change tries again */
        last = definitions;
    }
    pthread_mutex_unlock(&calendars->lock);
    definitions_leave(last);
}

/* ---- missing ones ---- */

void node_calendars_lack(struct node_calendars *calendars, struct bytes name)
{
    pthread_mutex_lock(&calendars->lock);
    absent_note(&calendars->absent, name);
    pthread_mutex_unlock(&calendars->lock);
}

void node_calendars_missing(struct node_calendars *calendars, struct absent_names *ret_missing)
{
    pthread_mutex_lock(&calendars->lock);
    *ret_missing = *absent_names(&calendars->absent);
    pthread_mutex_unlock(&calendars->lock);
}

void node_calendars_age(struct node_calendars *calendars)
{
    pthread_mutex_lock(&calendars->lock);
    absent_age(&calendars->absent);
    pthread_mutex_unlock(&calendars->lock);
}
