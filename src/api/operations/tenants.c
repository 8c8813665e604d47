/*
 * tenants.c - GET /v1/tenants: the limits of each tenant, and what it uses of them on all nodes.
 *
 * A tenant is one of the tokens file, or one that has live timers. A caller without the scope of
 * operators is told of its own tenant alone. Both lists are bounded by what operators wrote, so
 * all rows are made, sorted by name, and one page of them is shown.
 */
#include "api/core/call.h"

#include "api/core/query.h"
#include "api/core/tally.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"

#include <stdlib.h>

enum {
    TENANTS_PAGE_DEFAULT = 100,
    TENANTS_PAGE_MAX = 1000,
    TENANTS_PARAMETERS_MAX = 8,
};

struct tenants_row {
    char name[TENANT_SIZE_MAX];
    uint8_t name_size;
    struct tenant_limits limits;
    uint64_t pending, ready, refused;
    struct wall oldest;       /* WALL_NEVER if nothing is ready */
    size_t told_incompletely; /* number of nodes that list only some tenants, and list this one */
};

struct tenants_report {
    const struct call *call;
    size_t limit;
    char cursor[TENANT_SIZE_MAX]; /* first name of the page */
    uint8_t cursor_size;
    struct tenants_row *rows;
    size_t count, capacity;
    bool is_short;     /* out of memory */
    size_t incomplete; /* nodes on which more tenants wait than the census has rows */
};

static struct bytes tenants_name(const struct tenants_row *row)
{
    return (struct bytes){row->name, row->name_size};
}

/* ---- the query ---- */

static const char *const tenants_parameters[] = {"limit", "cursor"};

static void tenants_take(void *context, size_t index, struct bytes value, struct problem *problem)
{
    struct tenants_report *report = context;
    uint64_t limit = TENANTS_PAGE_DEFAULT;

    if (index == 0) {
        query_number("limit", value, 1, TENANTS_PAGE_MAX, &limit, problem);
        report->limit = limit;
    } else if (!tenant_is_valid(value)) {
        query_fault(problem, "cursor", "is not the `next` of a page");
    } else {
        report->cursor_size = (uint8_t)value.size;
        memcpy(report->cursor, value.data, value.size);
    }
}

/* False: answered. */
static bool tenants_read_query(struct call *call, struct tenants_report *report)
{
    static const struct query_form form = {
        tenants_parameters, 2, .parameters_max = TENANTS_PARAMETERS_MAX, .take = tenants_take};

    return call_read_query(call, &form, report);
}

/* ---- the rows ---- */

/* Adds a row of zeros. NULL if the caller may not see the tenant, or out of memory. */
static struct tenants_row *tenants_add(struct tenants_report *report, struct bytes name)
{
    const struct caller *caller = &report->call->caller;

    if (!caller_may(caller, TOKEN_SCOPE_ADMIN) && !bytes_equal(name, caller_tenant(caller)))
        return NULL;
    if (report->count == report->capacity) {
        const size_t capacity = report->capacity ? 2 * report->capacity : 16;
        struct tenants_row *rows = realloc(report->rows, capacity * sizeof(*rows));

        if (!rows) {
            report->is_short = true;
            return NULL;
        }
        report->rows = rows;
        report->capacity = capacity;
    }
    struct tenants_row *row = &report->rows[report->count++];
    *row = (struct tenants_row){.name_size = (uint8_t)name.size, .oldest = WALL_NEVER};
    if (name.size > 0)
        memcpy(row->name, name.data, name.size);
    return row;
}

static void tenants_take_limits(void *context, const struct access_tenant *tenant)
{
    struct tenants_row *row = tenants_add(context, tenant->name);

    if (row)
        row->limits = tenant->limits;
}

static void tenants_take_pending(void *context, struct bytes name, uint64_t pending)
{
    struct tenants_row *row = tenants_add(context, name);

    if (row)
        row->pending = pending;
}

static int tenants_compare(const void *left, const void *right)
{
    return bytes_compare(tenants_name(left), tenants_name(right));
}

/* Sorts the rows by name, and merges those with equal names. */
static void tenants_merge(struct tenants_report *report)
{
    size_t kept = 0;

    if (report->count > 0)
        qsort(report->rows, report->count, sizeof(report->rows[0]), tenants_compare);
    for (size_t i = 0; i < report->count; i++) {
        const struct tenants_row *row = &report->rows[i];
        struct tenants_row *last = kept > 0 ? &report->rows[kept - 1] : NULL;

        if (!last || tenants_compare(last, row) != 0) {
            report->rows[kept++] = *row;
            continue;
        }
        /* One of them has the limits, the other the count; their other fields are 0. */
        last->pending += row->pending;
#define X(name, least, most) last->limits.name |= row->limits.name;
        TENANT_LIMIT_LIST(X)
#undef X
    }
    report->count = kept;
}

static int tenants_compare_key(const void *key, const void *row)
{
    return bytes_compare(*(const struct bytes *)key, tenants_name(row));
}

/* Adds a node's survey. Tenants without a row here are those that the caller may not see. */
static void tenants_take_survey(struct tenants_report *report, const struct survey *survey)
{
    report->incomplete += survey->is_cut;
    for (size_t i = 0; i < survey->row_count; i++) {
        const struct survey_row *from = &survey->rows[i];
        const struct bytes name = survey_name(survey, from);
        struct tenants_row *row = bsearch(&name, report->rows, report->count,
                                          sizeof(report->rows[0]), tenants_compare_key);

        if (!row)
            continue;
        row->refused += from->taken;
        row->ready += from->ready;
        row->oldest = wall_min(row->oldest, from->oldest);
        row->told_incompletely += survey->is_cut && !from->is_spilled;
    }
}

/* ---- the answer ---- */

/* Appends what waits; nothing if a node does not know, because more tenants wait there than it
 * has rows. */
static void tenants_append_waiting(const struct tenants_report *report,
                                   const struct tenants_row *row, struct buffer *out)
{
    if (row->told_incompletely < report->incomplete)
        return;
    json_put_number(out, "ready", row->ready);
    if (row->oldest.ms != WALL_NEVER.ms)
        rfc3339_put(out, "oldest", row->oldest);
}

static void tenants_append_limits(const struct tenant_limits *limits, struct buffer *out)
{
    json_open(out, "limits", '{');
#define X(name, least, most) \
    if (limits->name)        \
        json_put_number(out, #name, limits->name);
    TENANT_LIMIT_LIST(X)
#undef X
    json_close(out, '}');
}

static void tenants_format(const struct tenants_report *report, struct buffer *out)
{
    const struct bytes cursor = {report->cursor, report->cursor_size};
    size_t i = 0;

    while (i < report->count && cursor.size &&
           bytes_compare(tenants_name(&report->rows[i]), cursor) < 0)
        i++;
    const size_t end = report->count - i > report->limit ? i + report->limit : report->count;
    json_open(out, NULL, '{');
    json_open(out, "tenants", '[');
    for (size_t at = i; at < end; at++) {
        const struct tenants_row *row = &report->rows[at];
        const struct bytes name = tenants_name(row);

        json_open(out, NULL, '{');
        json_put_string(out, "name", name.size ? name : TOKEN_UNNAMED);
        json_put_number(out, "pending", row->pending);
        tenants_append_waiting(report, row, out);
        json_put_number(out, "rate_refused", row->refused);
        tenants_append_limits(&row->limits, out);
        json_close(out, '}');
    }
    json_close(out, ']');
    if (end < report->count)
        json_put_string(out, "next", tenants_name(&report->rows[end]));
    else
        json_put_raw(out, "next", BYTES("null"));
    call_put_node(report->call, out);
    json_close(out, '}');
}

static void tenants_finish(struct node_tally *tally)
{
    struct call *call = tally->call;
    struct tenants_report *report = tally->room;

    tenants_add(report, caller_tenant(&call->caller));
    access_tell_tenants(call->api->access, tenants_take_limits, report);
    node_tenants(call->api->options.node, tenants_take_pending, report);
    tenants_merge(report);
    for (size_t i = 0; i < tally->part_count && !report->is_short; i++)
        tenants_take_survey(report, &tally->parts[i].survey);
    const bool is_short = report->is_short;
    struct buffer body;
    buffer_init(&body);
    if (!is_short)
        tenants_format(report, &body);
    free(report->rows);
    if (is_short)
        call_answer_error(call, ERROR_NO_MEMORY, "");
    else
        call_answer_json(call, 200, &body);
}

void tenants_list(struct call *call)
{
    struct tenants_report *report = malloc(sizeof(*report));

    if (!report) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    *report = (struct tenants_report){.call = call, .limit = TENANTS_PAGE_DEFAULT};
    if (tenants_read_query(call, report))
        tally_ask(call, SURVEY_TENANTS, (struct bytes){0}, 0, report, tenants_finish);
    else
        free(report);
}
