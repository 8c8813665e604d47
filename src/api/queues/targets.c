/* targets.c - tells of deliveries to each target, and of targets that are left alone. */
#include "api/queues/queues.h"

#include "api/core/tally.h"
#include "base/json.h"
#include "calendar/rfc3339.h"
#include "sys/clock.h"

#include <stdlib.h>

/* What fails, copied; the texts are in `texts`, one after the other. */
struct target_failing {
    size_t at, origin_size, path_size, error_size;
    enum breaker_state state;
    uint32_t failures;
    uint64_t wait_ms;
};

struct target_report {
    struct target_failing *failing;
    size_t count, capacity;
    struct buffer texts; /* failed: out of memory */
};

static struct bytes report_text(const struct target_report *report, size_t at, size_t size)
{
    return (struct bytes){report->texts.data + at, size};
}

static struct bytes report_origin(const struct target_report *report,
                                  const struct target_failing *failing)
{
    return report_text(report, failing->at, failing->origin_size);
}

static void report_take(void *context, const struct target_view *view)
{
    struct target_report *report = context;

    if (report->count == report->capacity) {
        const size_t capacity = report->capacity ? 2 * report->capacity : 16;
        struct target_failing *failing = realloc(report->failing, capacity * sizeof(*failing));

        if (!failing) {
            report->texts.failed = true;
            return;
        }
        report->failing = failing;
        report->capacity = capacity;
    }
    report->failing[report->count++] = (struct target_failing){
        .at = report->texts.size,
        .origin_size = view->origin.size,
        .path_size = view->path.size,
        .error_size = view->error.size,
        .state = view->state,
        .failures = view->failures,
        .wait_ms = view->wait_ms,
    };
    buffer_append_bytes(&report->texts, view->origin);
    buffer_append_bytes(&report->texts, view->path);
    buffer_append_bytes(&report->texts, view->error);
}

/* By origin, and of one the origin itself before its paths. */
static int report_compare(const void *left, const void *right, void *context)
{
    const struct target_failing *a = left, *b = right;
    const struct bytes x = report_text(context, a->at, a->origin_size + a->path_size);
    const struct bytes y = report_text(context, b->at, b->origin_size + b->path_size);
    const size_t shared = a->origin_size < b->origin_size ? a->origin_size : b->origin_size;
    int order = memcmp(x.data, y.data, shared);

    if (!order)
        order = (a->origin_size > b->origin_size) - (a->origin_size < b->origin_size);
    if (order)
        return order;
    order = memcmp(x.data, y.data, x.size < y.size ? x.size : y.size);
    return order ? order : (x.size > y.size) - (x.size < y.size);
}

/* ---- the answer ---- */

static void report_append_breaker(const struct target_report *report,
                                  const struct target_failing *failing, struct wall now,
                                  struct buffer *out)
{
    static const struct target_failing healthy = {.state = BREAKER_CLOSED};

    failing = failing ? failing : &healthy;
    buffer_printf(out, "\"breaker\":\"%s\",\"failures\":%u", breaker_state_text(failing->state),
                  (unsigned)failing->failures);
    if (failing->state != BREAKER_CLOSED) {
        char text[RFC3339_TEXT_SIZE];

        rfc3339_format(wall_add(now, failing->wait_ms), text);
        buffer_printf(out, ",\"tried_at\":\"%s\"", text);
    }
    if (failing->error_size) {
        buffer_append_text(out, ",\"last_error\":");
        json_append_string(out, report_text(report,
                                            failing->at + failing->origin_size + failing->path_size,
                                            failing->error_size));
    }
}

/* Of an origin, whose failures begin at `*index`, which is moved behind them. */
static void report_append_failures(const struct target_report *report, struct bytes origin,
                                   size_t *index, struct wall now, struct buffer *out)
{
    const struct target_failing *failing = report->failing + *index;
    const struct target_failing *end = report->failing + report->count;
    const bool has_own = failing < end && failing->path_size == 0 &&
                         bytes_equal(report_origin(report, failing), origin);
    const char *separator = "";

    buffer_append_text(out, ",");
    report_append_breaker(report, has_own ? failing++ : NULL, now, out);
    buffer_append_text(out, ",\"paths\":[");
    for (; failing < end && bytes_equal(report_origin(report, failing), origin); failing++) {
        buffer_printf(out, "%s{\"path\":", separator);
        json_append_string(
            out, report_text(report, failing->at + failing->origin_size, failing->path_size));
        buffer_append_text(out, ",");
        report_append_breaker(report, failing, now, out);
        buffer_append_text(out, "}");
        separator = ",";
    }
    buffer_append_text(out, "]");
    *index = (size_t)(failing - report->failing);
}

/* Of a connection to a broker: whether it is up. */
static void targets_append_broker(const struct node *node, struct bytes origin, struct buffer *out)
{
    struct broker_status status;

    for (size_t i = 0; node_broker_status(node, i, &status); i++) {
        const struct bytes name = bytes_of(status.name);
        const char *error = status.cause;

        if (origin.size <= name.size + 3 ||
            memcmp(origin.data + origin.size - name.size - 3, "://", 3) != 0 ||
            memcmp(origin.data + origin.size - name.size, name.data, name.size) != 0)
            continue;
        buffer_printf(out, ",\"connected\":%s", status.is_up ? "true" : "false");
        if (!status.is_up && *error) {
            buffer_append_text(out, ",\"last_error\":");
            json_append_string(out, bytes_of(error));
        }
        return;
    }
}

static void targets_append_row(const struct node_tally *tally, const struct tally_row *row,
                               struct buffer *out)
{
    buffer_append_text(out, "{\"target\":");
    json_append_string(out, tally_name(tally, row));
    buffer_printf(out, ",\"waiting\":%llu,\"in_flight\":%llu,\"more_on_disk\":%s",
                  (unsigned long long)row->ready, (unsigned long long)row->taken,
                  row->is_spilled ? "true" : "false");
    if (row->oldest.ms != WALL_NEVER.ms) {
        char text[RFC3339_TEXT_SIZE];

        rfc3339_format(row->oldest, text);
        buffer_printf(out, ",\"oldest\":\"%s\"", text);
    }
}

/* Of the target, which may be written in other ways. */
static void targets_append_paused(const struct node_tally *tally,
                                  const struct target_pauses *pauses, struct bytes origin,
                                  struct buffer *out)
{
    char room[TARGET_PAUSE_NAME_SIZE_MAX];
    struct bytes name;

    if (pauses->count && !target_pause_parse_name(origin, room, &name, NULL))
        timer_json_append_pause(
            target_pauses_find(pauses, caller_tenant(&tally->call->caller), name), wall_now(), out);
}

/* The targets of the tenant that are paused, and for which nothing waits perhaps. */
static void targets_add_paused(struct node_tally *tally, const struct target_pauses *pauses)
{
    const struct bytes tenant = caller_tenant(&tally->call->caller);

    for (size_t i = 0; i < pauses->count; i++)
        if (bytes_equal(pauses->rows[i].tenant, tenant) &&
            !bytes_has_prefix(pauses->rows[i].name, BYTES("queue:")) &&
            target_pause_is_in_force(&pauses->rows[i], wall_now()))
            tally_add(tally, pauses->rows[i].name);
}

static bool is_webhook(struct bytes origin)
{
    return bytes_has_prefix(origin, BYTES("http://")) ||
           bytes_has_prefix(origin, BYTES("https://"));
}

/* Rows and failures are sorted by origin, and each failure has a row unless rows were cut. */
static void targets_format(const struct node_tally *tally, const struct target_report *report,
                           const struct target_pauses *pauses, struct buffer *out)
{
    const struct config *config = tally->call->api->options.config;
    const struct wall now = wall_now();
    size_t index = 0;

    buffer_append_text(out, "{\"targets\":[");
    for (size_t i = 0; i < tally->row_count; i++) {
        const struct bytes origin = tally_name(tally, &tally->rows[i]);

        buffer_append_text(out, i ? "," : "");
        targets_append_row(tally, &tally->rows[i], out);
        if (is_webhook(origin))
            report_append_failures(report, origin, &index, now, out);
        else
            targets_append_broker(tally->call->api->options.node, origin, out);
        targets_append_paused(tally, pauses, origin, out);
        buffer_append_text(out, "}");
    }
    buffer_append_text(out, "]");
    call_append_node(tally->call, out);
    buffer_printf(out, ",\"in_flight_max\":%u,\"rate_max\":%u,\"complete\":%s}",
                  (unsigned)config->target_deliveries_max, (unsigned)config->target_rate_max,
                  tally->is_cut ? "false" : "true");
}

static void targets_finish(struct node_tally *tally)
{
    struct call *call = tally->call;
    struct target_report report = {0};

    node_targets(call->api->options.node, caller_tenant(&call->caller), report_take, &report);
    if (report.count)
        qsort_r(report.failing, report.count, sizeof(*report.failing), report_compare, &report);
    for (size_t i = 0; i < report.count; i++)
        tally_add(tally, report_origin(&report, &report.failing[i]));
    struct target_pauses *pauses = node_pauses(call->api->options.node);
    targets_add_paused(tally, pauses);
    tally_sum(tally);
    if (buffer_failed(&tally->names) || buffer_failed(&report.texts)) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
    } else {
        struct buffer body;

        buffer_init(&body);
        targets_format(tally, &report, pauses, &body);
        call_answer_json(call, 200, &body);
    }
    target_pauses_leave(pauses);
    free(report.failing);
    buffer_deinit(&report.texts);
}

void targets_list(struct call *call)
{
    tally_ask(call, SURVEY_TARGETS, (struct bytes){0}, 0, NULL, targets_finish);
}
