/*
 * deliveries.c - GET /v1/deliveries: what became of each attempt, from the delivery logs of all
 * nodes, newest first.
 *
 * Each node gives the newest entries that it finds, and says how far back it has searched. What
 * lies before the place to which all of them have come is on a later page.
 */
#include "api/timers/timers.h"

#include "api/core/cursor.h"
#include "api/core/query.h"
#include "api/core/tally.h"
#include "base/json_write.h"
#include "base/number.h"
#include "calendar/rfc3339.h"
#include "delivery_log/delivery_query.h"
#include "engine/explain.h"

#include <stdio.h>
#include <stdlib.h>

#define DELIVERIES_LIMIT_DEFAULT 50

/* A delivery of an answer. */
struct deliveries_row {
    struct delivery_entry entry;
    uint32_t node;
};

/* What the call asks for. */
struct deliveries_asked {
    uint32_t limit;
    char encoded[]; /* the question for the nodes */
};

/* ---- the query ---- */

enum {
    DELIVERIES_TIMER,
    DELIVERIES_KEY,
    DELIVERIES_TARGET,
    DELIVERIES_ORIGIN,
    DELIVERIES_OUTCOME,
    DELIVERIES_STATUS,
    DELIVERIES_SINCE,
    DELIVERIES_LIMIT,
    DELIVERIES_CURSOR,
    DELIVERIES_PARAMETERS,
};

static const char *const deliveries_parameters[] = {
    "timer", "key", "target", "origin", "outcome", "status", "since", "limit", "cursor"};

static void deliveries_take_outcome(struct delivery_query *query, struct bytes value,
                                    struct problem *problem)
{
    for (enum run_outcome i = RUN_DONE; i <= RUN_ENDED; i++)
        if (bytes_equal(value, bytes_of(run_outcome_text(i)))) {
            query->outcomes |= 1u << i;
            return;
        }
    query_fault(problem, "outcome", "It must be done, failed or ended");
}

/* Reads a status such as 503, or a class such as 5xx. */
static void deliveries_take_status(struct delivery_query *query, struct bytes value,
                                   struct problem *problem)
{
    const bool is_class = value.size == 3 && value.data[1] == 'x' && value.data[2] == 'x';
    uint64_t status = 0;

    if (value.size != 3 ||
        !number_parse((struct bytes){value.data, is_class ? 1 : 3}, 10, &status) ||
        status < (is_class ? 1 : 100)) {
        query_fault(problem, "status", "It must be a status such as 503, or a class such as 5xx");
        return;
    }
    query->status_min = (uint16_t)(is_class ? 100 * status : status);
    query->status_max = (uint16_t)(query->status_min + (is_class ? 99 : 0));
}

static void deliveries_take_text(size_t index, struct bytes value, struct bytes *ret_text,
                                 struct problem *problem)
{
    *ret_text = value;
    if (!value.size)
        query_fault(problem, deliveries_parameters[index], "It is empty");
}

static void deliveries_take(void *context, size_t index, struct bytes value,
                            struct problem *problem)
{
    struct delivery_query *query = context;
    struct bytes *texts[] = {&query->timer, &query->key, &query->target, &query->origin};
    uint64_t limit = query->limit;
    struct wall since = {0};
    struct cursor cursor;

    switch (index) {
    case DELIVERIES_OUTCOME:
        deliveries_take_outcome(query, value, problem);
        break;
    case DELIVERIES_STATUS:
        deliveries_take_status(query, value, problem);
        break;
    case DELIVERIES_SINCE:
        query_wall("since", value, &since, problem);
        query->since = since.ms < UINT64_MAX / 1000 ? since.ms * 1000 : UINT64_MAX;
        break;
    case DELIVERIES_LIMIT:
        query_number("limit", value, 1, DELIVERY_QUERY_COUNT_MAX, &limit, problem);
        query->limit = (uint32_t)limit;
        break;
    case DELIVERIES_CURSOR:
        if (cursor_parse_order(value, CURSOR_ORDER_DELIVERIES, &cursor))
            query_fault(problem, "cursor", "It is not one that this server gave");
        else
            query->before = cursor.at.ms;
        break;
    default:
        deliveries_take_text(index, value, texts[index], problem);
    }
}

/* ---- the answer ---- */

static int deliveries_compare(const void *left, const void *right)
{
    const struct deliveries_row *a = left, *b = right;

    if (a->entry.stamp != b->entry.stamp)
        return a->entry.stamp > b->entry.stamp ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

/* Reads the answers of the nodes. Returns the rows, which the caller frees, or NULL if out of
 * memory. `ret_bound` is the least stamp to which all nodes have searched; 0 if that is all. */
static struct deliveries_row *deliveries_gather(const struct node_tally *tally, size_t *ret_count,
                                                uint64_t *ret_bound, bool *ret_is_kept)
{
    const uint32_t self = tally->call->api->options.config->cluster_node_id;
    size_t capacity = 1;

    for (size_t i = 0; i < tally->part_count; i++)
        capacity += tally->parts[i].survey.row_count;
    struct deliveries_row *rows = malloc(capacity * sizeof(*rows));
    *ret_count = 0;
    *ret_bound = 0;
    *ret_is_kept = false;
    for (size_t i = 0; rows && i < tally->part_count; i++) {
        const struct survey *survey = &tally->parts[i].survey;

        for (size_t j = 0; j < survey->row_count; j++) {
            const struct survey_row *row = &survey->rows[j];
            struct deliveries_row *added = &rows[*ret_count];

            if (row->name_size == 0) {
                *ret_is_kept = true;
                *ret_bound = row->ready > *ret_bound ? row->ready : *ret_bound;
            } else if (delivery_entry_decode(survey_name(survey, row), &added->entry)) {
                added->node = survey->node ? survey->node : self;
                ++*ret_count;
            }
        }
    }
    if (rows)
        qsort(rows, *ret_count, sizeof(*rows), deliveries_compare);
    return rows;
}

static void deliveries_append_stages(const struct delivery_entry *entry, struct buffer *out)
{
    json_open(out, "ms", '{');
    for (enum lateness_stage i = 0; i < LATENESS_STAGES; i++)
        if (entry->stage_ms[i] || i == LATENESS_DELIVERY)
            json_put_number(out, lateness_text(i), entry->stage_ms[i]);
    json_close(out, '}');
}

static void deliveries_append(const struct deliveries_row *row, struct buffer *out)
{
    const struct delivery_entry *entry = &row->entry;

    json_open(out, NULL, '{');
    json_put_name(out, "id");
    buffer_printf(out, "\"%016llx-%u\"", (unsigned long long)entry->stamp, row->node);
    rfc3339_put(out, "at", (struct wall){entry->ended_us / 1000});
    json_put_string(out, "timer", entry->texts[DELIVERY_TEXT_timer]);
    json_put_some(out, "key", entry->texts[DELIVERY_TEXT_key]);
    json_put_string(out, "target", entry->texts[DELIVERY_TEXT_target]);
    json_put_number(out, "attempt", entry->attempt);
    json_put_text(out, "outcome", run_outcome_text(entry->outcome));
    if (entry->status)
        json_put_number(out, "status", entry->status);
    deliveries_append_stages(entry, out);
    json_put_some(out, "error", entry->texts[DELIVERY_TEXT_error]);
    json_put_some(out, "answer", entry->texts[DELIVERY_TEXT_answer]);
    json_close(out, '}');
}

/* Appends rows down to the limit, and further ones with the stamp of the last, so that no cursor
 * lies between them. Returns the stamp before which the next page begins; 0 if this is the last.
 */
static uint64_t deliveries_append_page(const struct deliveries_row *rows, size_t count,
                                       uint64_t bound, size_t limit, struct buffer *out)
{
    size_t i = 0;

    for (; i < count && rows[i].entry.stamp >= bound; i++) {
        if (i >= limit && rows[i].entry.stamp != rows[i - 1].entry.stamp)
            return rows[i - 1].entry.stamp;
        deliveries_append(&rows[i], out);
    }
    return bound;
}

/* Appends the nodes that are of an earlier version, if there are any. */
static void deliveries_append_missing(const struct node_tally *tally, struct buffer *out)
{
    bool is_open = false;

    for (size_t i = 0; i < tally->part_count; i++) {
        if (!tally->parts[i].is_missing)
            continue;
        if (!is_open)
            json_open(out, "missing", '[');
        is_open = true;
        json_put_number(out, NULL, tally->parts[i].survey.node);
    }
    if (is_open)
        json_close(out, ']');
}

static void deliveries_answer(struct node_tally *tally, const struct deliveries_row *rows,
                              size_t count, uint64_t bound)
{
    const struct deliveries_asked *asked = tally->room;
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_open(&body, "deliveries", '[');
    const uint64_t next = deliveries_append_page(rows, count, bound, asked->limit, &body);
    json_close(&body, ']');
    json_put_name(&body, "next");
    if (next) {
        const struct cursor cursor = {.at = {next}}; /* a stamp, in place of a time */
        char text[CURSOR_TEXT_SIZE];

        cursor_format_order(&cursor, CURSOR_ORDER_DELIVERIES, text);
        buffer_printf(&body, "\"%s\"", text);
    } else {
        buffer_append_text(&body, "null");
    }
    deliveries_append_missing(tally, &body);
    json_close(&body, '}');
    call_answer_json(tally->call, 200, &body);
}

static void deliveries_finish(struct node_tally *tally)
{
    size_t count;
    uint64_t bound;
    bool is_kept;
    struct deliveries_row *rows = deliveries_gather(tally, &count, &bound, &is_kept);

    if (!rows)
        call_answer_error(tally->call, ERROR_NO_MEMORY, "");
    else if (!is_kept)
        call_answer_error(tally->call, ERROR_NOT_FOUND,
                          "No deliveries are kept: delivery_log_bytes is below 1M");
    else if (!call_refuses_large_answer(tally->call))
        deliveries_answer(tally, rows, count, bound);
    free(rows);
}

void deliveries_list(struct call *call)
{
    static const struct query_form form = {
        deliveries_parameters, DELIVERIES_PARAMETERS, .repeatable = 1u << DELIVERIES_OUTCOME,
        .parameters_max = QUERY_PARAMETERS, .take = deliveries_take};
    struct delivery_query query;
    struct buffer encoded;

    delivery_query_init(&query);
    const unsigned any = query.outcomes;
    query.outcomes = 0;
    query.limit = DELIVERIES_LIMIT_DEFAULT;
    if (!call_read_query(call, &form, &query))
        return;
    if (!query.outcomes)
        query.outcomes = any;
    buffer_init(&encoded);
    delivery_query_encode(&query, &encoded);
    struct deliveries_asked *asked =
        buffer_failed(&encoded) ? NULL : malloc(sizeof(*asked) + encoded.size);
    if (asked) {
        asked->limit = query.limit;
        memcpy(asked->encoded, encoded.data, encoded.size);
        tally_ask(call, SURVEY_DELIVERIES, (struct bytes){asked->encoded, encoded.size}, 0, asked,
                  deliveries_finish);
    } else {
        call_answer_error(call, ERROR_NO_MEMORY, "");
    }
    buffer_deinit(&encoded);
}
