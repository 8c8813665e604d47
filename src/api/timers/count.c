/*
 * count.c - counts the live timers of the caller, by state, by target origin, or by both.
 *
 * Each partition tells its counts by state and origin (engine/live.h); they are summed up here.
 * Nothing counts labels: count_labels.c reads the timers.
 */
#include "api/timers/timers.h"

#include "api/core/query.h"
#include "api/core/tally.h"
#include "base/json_write.h"

#include <stdlib.h>

static const char *const count_parameters[] = {"by"};

/* Takes one word of `by`. Returns false if it is none, or was there before. */
static bool count_take_word(struct count_by *by, struct bytes word)
{
    const struct bytes label = BYTES("label:");
    bool *const flag = bytes_equal(word, BYTES("state"))    ? &by->state
                       : bytes_equal(word, BYTES("origin")) ? &by->origin
                                                            : NULL;

    if (flag) {
        const bool is_new = !*flag;

        *flag = true;
        return is_new;
    }
    if (!bytes_has_prefix(word, label) || word.size == label.size || by->label.data)
        return false;
    by->label = (struct bytes){word.data + label.size, word.size - label.size};
    return true;
}

static void count_take(void *context, size_t index, struct bytes value, struct problem *problem)
{
    bool is_right = value.size > 0 && value.data[value.size - 1] != ',';

    while (is_right && value.size)
        is_right = count_take_word(context, bytes_cut(&value, ','));
    if (!is_right)
        query_fault(problem, count_parameters[index],
                    "It must be state, origin, label:NAME, or some of them with commas between");
}

/* ---- the answer ---- */

/* Cuts the name of a row, "STATE ORIGIN", to what is counted apart. Returns false if the row counts
 * among the others: its origin has no row of its own. */
static bool count_name(const struct count_by *by, const struct survey *sum, struct survey_row *row)
{
    struct bytes origin = survey_name(sum, row);
    const struct bytes state = bytes_cut(&origin, ' ');

    if (by->origin && !origin.size)
        return false;
    if (!by->origin)
        row->name_size = state.size;
    if (!by->state) {
        row->name_at += state.size + 1;
        row->name_size = origin.size;
    }
    return true;
}

/* Keeps the rows of the groups. Returns the number of all timers. */
static uint64_t count_group(const struct count_by *by, struct survey *sum, bool *ret_is_complete)
{
    uint64_t total = 0;
    size_t kept = 0;

    *ret_is_complete = true;
    for (size_t i = 0; i < sum->row_count; i++) {
        struct survey_row row = sum->rows[i];

        total += row.ready;
        if (!row.name_size)
            *ret_is_complete = false;
        else if ((by->state || by->origin) && count_name(by, sum, &row))
            sum->rows[kept++] = row;
    }
    sum->row_count = kept;
    survey_merge(sum);
    return total;
}

/* Appends the groups, and what none of them has. */
static void count_append_groups(const struct count_by *by, const struct survey *sum, uint64_t total,
                                struct buffer *out)
{
    json_open(out, "groups", '[');
    for (size_t i = 0; i < sum->row_count; i++) {
        struct bytes name = survey_name(sum, &sum->rows[i]);

        json_open(out, NULL, '{');
        if (by->state)
            json_put_string(out, "state", bytes_cut(&name, ' '));
        if (by->origin)
            json_put_string(out, "origin", name);
        json_put_number(out, "count", sum->rows[i].ready);
        json_close(out, '}');
        total -= sum->rows[i].ready;
    }
    json_close(out, ']');
    json_put_number(out, "others", total);
}

static void count_finish(struct node_tally *tally)
{
    bool is_complete;
    const uint64_t total = count_group(tally->room, &tally->sum, &is_complete);

    if (buffer_failed(&tally->sum.names)) {
        call_answer_error(tally->call, ERROR_NO_MEMORY, "");
        return;
    }
    struct buffer body;
    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_put_number(&body, "count", total);
    count_append_groups(tally->room, &tally->sum, total, &body);
    json_put_flag(&body, "complete", is_complete);
    json_close(&body, '}');
    call_answer_json(tally->call, 200, &body);
}

void timers_count(struct call *call)
{
    static const struct query_form form = {count_parameters, 1, .parameters_max = QUERY_PARAMETERS,
                                           .take = count_take};
    struct count_by *by = calloc(1, sizeof(*by));

    if (!by)
        call_answer_error(call, ERROR_NO_MEMORY, "");
    else if (!call_read_query(call, &form, by))
        free(by);
    else if (by->label.data) {
        count_labels(call, by);
        free(by);
    } else
        tally_ask(call, SURVEY_LIVE, (struct bytes){0}, 0, by, count_finish);
}

void timers_count_closed(struct call *call)
{
    if (call->walk)
        count_labels_closed(call);
    else
        tally_closed(call);
}
