/* calendars.c - tables of calendars, and the board that shows the current one. */
#include "calendar/calendars.h"

#include <stdlib.h>

static int calendars_compare(const struct calendars_row *a, bool is_shared, struct bytes owner,
                             struct bytes name)
{
    if (a->is_shared != is_shared)
        return a->is_shared ? 1 : -1;
    const int order = bytes_compare(a->owner, owner);

    return order ? order : bytes_compare(a->name, name);
}

static int calendars_compare_rows(const void *left, const void *right)
{
    const struct calendars_row *row = right;

    return calendars_compare(left, row->is_shared, row->owner, row->name);
}

static struct bytes calendars_copy(char **to, struct bytes text)
{
    const struct bytes copy = {*to, text.size};

    if (text.size)
        memcpy(*to, text.data, text.size);
    *to += text.size;
    return copy;
}

enum error_code calendars_create(struct calendars_row *rows, size_t count,
                                 struct calendars **ret_calendars)
{
    size_t texts = 0;

    for (size_t i = 0; i < count; i++)
        texts += rows[i].owner.size + rows[i].name.size + rows[i].source.size;
    struct calendars *calendars = malloc(sizeof(*calendars) + count * sizeof(*rows) + texts);
    if (!calendars)
        return ERROR_NO_MEMORY;
    if (count)
        qsort(rows, count, sizeof(*rows), calendars_compare_rows);
    calendars->count = count;
    atomic_init(&calendars->holders_, 1);
    char *to = (char *)&calendars->rows[count];
    for (size_t i = 0; i < count; i++) {
        struct calendars_row *row = &calendars->rows[i];

        *row = rows[i];
        row->owner = calendars_copy(&to, rows[i].owner);
        row->name = calendars_copy(&to, rows[i].name);
        row->source = calendars_copy(&to, rows[i].source);
        holidays_hold(row->days);
    }
    *ret_calendars = calendars;
    return ERROR_NONE;
}

struct calendars *calendars_hold(struct calendars *calendars)
{
    atomic_fetch_add(&calendars->holders_, 1);
    return calendars;
}

void calendars_leave(struct calendars *calendars)
{
    if (!calendars || atomic_fetch_sub(&calendars->holders_, 1) != 1)
        return;
    for (size_t i = 0; i < calendars->count; i++)
        holidays_leave(calendars->rows[i].days);
    free(calendars);
}

static const struct calendars_row *calendars_find_row(const struct calendars *calendars,
                                                      bool is_shared, struct bytes owner,
                                                      struct bytes name)
{
    size_t low = 0, high = calendars->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct calendars_row *row = &calendars->rows[middle];
        const int order = calendars_compare(row, is_shared, owner, name);

        if (order == 0)
            return row;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct calendars_row *calendars_find(const struct calendars *calendars, struct bytes owner,
                                           struct bytes name)
{
    if (!calendars)
        return NULL;
    const struct calendars_row *row = calendars_find_row(calendars, false, owner, name);

    return row ? row : calendars_find_row(calendars, true, (struct bytes){0}, name);
}

/* ---- the board ---- */

void calendars_board_init(struct calendars_board *board)
{
    *board = (struct calendars_board){0};
    pthread_mutex_init(&board->lock_, NULL);
}

void calendars_board_deinit(struct calendars_board *board)
{
    calendars_leave(board->current_);
    pthread_mutex_destroy(&board->lock_);
}

void calendars_board_show(struct calendars_board *board, struct calendars *calendars)
{
    pthread_mutex_lock(&board->lock_);
    struct calendars *last = board->current_;
    board->current_ = calendars;
    atomic_fetch_add(&board->version, 1);
    pthread_mutex_unlock(&board->lock_);
    calendars_leave(last);
}

struct calendars *calendars_board_take(struct calendars_board *board)
{
    pthread_mutex_lock(&board->lock_);
    struct calendars *calendars = board->current_ ? calendars_hold(board->current_) : NULL;
    pthread_mutex_unlock(&board->lock_);
    return calendars;
}
