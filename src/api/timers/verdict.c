/*
 * verdict.c - answers GET /v1/verdict: what is the matter now, and who waits for what.
 *
 * Each partition tells which of its dispatch queues wait for which reason. Those of one reason,
 * tenant and origin are one line, in the words of an explanation (explain_text.h).
 */
#include "api/timers/explain_text.h"

#include "api/core/tally.h"
#include "base/json_write.h"
#include "calendar/duration.h"
#include "calendar/rfc3339.h"
#include "sys/clock.h"

#include <stdlib.h>

enum { VERDICT_LINES = 10 }; /* lines of an answer */

#define VERDICT_LATE_MS 1000 /* timers that wait for less are not worth a line */

/* Timers that wait for one reason and target. */
struct verdict_line {
    struct survey_held held; /* of its first row */
    struct timer timer;      /* a stand-in with this tenant and target */
    uint64_t count, inflight;
    struct wall oldest;
};

/* For each reason its rank, the most urgent first, and whether its timers are late, rather than
 * left to wait. */
static const struct {
    unsigned rank;
    bool is_late;
} verdict_reasons[WAIT_REASONS] = {
    [WAIT_MAINTENANCE] = {0, true},  [WAIT_STOPPING] = {1, true}, [WAIT_BREAKER] = {2, true},
    [WAIT_TARGET_LIMIT] = {3, true}, [WAIT_ROOM] = {4, true},     [WAIT_RATE] = {5, true},
    [WAIT_CATCH_UP] = {6, false},    [WAIT_LEASES] = {7, false},  [WAIT_LEASE_MEMORY] = {8, false},
    [WAIT_WORKER] = {9, false},      [WAIT_PAUSED] = {10, false}, [WAIT_FLOW] = {11, false},
};

static int verdict_compare(const void *left, const void *right)
{
    const struct verdict_line *a = left, *b = right;
    const unsigned rank_a = verdict_reasons[a->held.reason].rank;
    const unsigned rank_b = verdict_reasons[b->held.reason].rank;

    return rank_a != rank_b ? (rank_a < rank_b ? -1 : 1)
                            : (a->oldest.ms > b->oldest.ms) - (a->oldest.ms < b->oldest.ms);
}

static bool verdict_is_same(const struct verdict_line *a, const struct verdict_line *b)
{
    return a->held.reason == b->held.reason && bytes_equal(a->held.tenant, b->held.tenant) &&
           bytes_equal(timer_target_origin(&a->timer), timer_target_origin(&b->timer));
}

/* Makes the lines of the rows, which are sorted by name. Returns how many have been late since
 * VERDICT_LATE_MS before `now`, the most urgent first. */
static size_t verdict_make_lines(const struct survey *sum, struct wall now,
                                 struct verdict_line *ret_lines)
{
    size_t count = 0, late = 0;

    for (size_t i = 0; i < sum->row_count; i++) {
        const struct survey_row *row = &sum->rows[i];
        struct verdict_line line = {
            .count = row->ready, .inflight = row->taken, .oldest = row->oldest};

        if (!survey_get_held(survey_name(sum, row), &line.held))
            continue;
        if (line.held.reason == WAIT_MAINTENANCE || line.held.reason == WAIT_STOPPING)
            line.held.tenant = line.held.target = (struct bytes){0}; /* it holds all of them */
        line.timer.texts.tenant = line.held.tenant;
        line.timer.texts.target = line.held.target;
        if (target_parse(line.held.target, &line.timer.target, NULL))
            line.timer.target = target_unknown(line.held.target);
        if (count > 0 && verdict_is_same(&ret_lines[count - 1], &line)) {
            ret_lines[count - 1].count += line.count;
            ret_lines[count - 1].inflight += line.inflight;
            ret_lines[count - 1].oldest = wall_min(ret_lines[count - 1].oldest, line.oldest);
        } else {
            ret_lines[count++] = line;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (wall_since(ret_lines[i].oldest, now) > VERDICT_LATE_MS)
            ret_lines[late++] = ret_lines[i];
    if (late)
        qsort(ret_lines, late, sizeof(*ret_lines), verdict_compare);
    return late;
}

static void verdict_say(struct node *node, const struct target_pauses *pauses, struct wall now,
                        const struct verdict_line *line, struct buffer *out)
{
    const struct timer *timer = &line->timer;
    const struct explained explained = {.place = PLACE_QUEUED,
                                        .reason = line->held.reason,
                                        .now = now,
                                        .until = WALL_NEVER,
                                        .inflight = (uint32_t)line->inflight};
    struct target_status status;
    const bool has_status =
        line->held.reason == WAIT_BREAKER && node_target_status(node, timer, &status);
    const struct explain_view view = {
        .timer = timer,
        .explained = &explained,
        .target = has_status ? &status : NULL,
        .pause = target_pauses_of(pauses, line->held.tenant, line->held.target, &timer->target),
    };
    char waited[DURATION_TEXT_SIZE];

    duration_format_rough(wall_since(line->oldest, now), waited);
    buffer_printf(out, "%llu timer%s wait%s, %sfor %s.", (unsigned long long)line->count,
                  line->count == 1 ? "" : "s", line->count == 1 ? "s" : "",
                  line->count == 1 ? "" : "the first ", waited);
    explain_say_why(&view, out);
}

static void verdict_append_line(const struct verdict_line *line, struct bytes text,
                                struct buffer *out)
{
    json_open(out, NULL, '{');
    json_put_text(out, "for", wait_text(line->held.reason));
    json_put_number(out, "count", line->count);
    rfc3339_put(out, "oldest", line->oldest);
    json_put_some(out, "tenant", line->held.tenant);
    json_put_some(out, "target", timer_shown_origin(&line->timer));
    json_put_string(out, "text", text);
    json_close(out, '}');
}

/* Appends the lines. Returns true if one of them says that timers are late. */
static bool verdict_append_lines(struct node *node, const struct verdict_line *lines, size_t count,
                                 struct wall now, struct buffer *out)
{
    struct target_pauses *pauses = node_pauses(node);
    struct buffer text;
    bool is_late = false;

    buffer_init(&text);
    json_open(out, "waiting", '[');
    for (size_t i = 0; i < count; i++) {
        is_late = is_late || verdict_reasons[lines[i].held.reason].is_late;
        if (i >= VERDICT_LINES)
            continue;
        buffer_clear(&text);
        verdict_say(node, pauses, now, &lines[i], &text);
        verdict_append_line(&lines[i], buffer_bytes(&text), out);
    }
    json_close(out, ']');
    out->failed |= buffer_failed(&text);
    buffer_deinit(&text);
    target_pauses_leave(pauses);
    return is_late;
}

/* Answers with these lines; `reason` is why the node is not ready, or empty. */
static void verdict_answer(struct call *call, const char *reason, const struct verdict_line *lines,
                           size_t count, bool is_complete)
{
    const struct wall now = wall_now();
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    rfc3339_put(&body, "now", now);
    if (clock_is_virtual())
        json_put_text(&body, "clock", "virtual");
    call_put_node(call, &body);
    const bool is_late = verdict_append_lines(call->api->options.node, lines, count, now, &body);
    json_put_text(&body, "state", *reason ? "unready" : is_late ? "late" : "on-time");
    json_put_some(&body, "reason", bytes_of(reason));
    json_put_flag(&body, "complete", is_complete && count <= VERDICT_LINES);
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}

static void verdict_finish(struct node_tally *tally)
{
    struct call *call = tally->call;

    survey_merge(&tally->sum);
    struct verdict_line *lines = calloc(tally->sum.row_count + 1, sizeof(*lines));
    if (!lines || buffer_failed(&tally->sum.names)) {
        free(lines);
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    const size_t count = verdict_make_lines(&tally->sum, wall_now(), lines);
    verdict_answer(call, "", lines, count, !tally->sum.is_cut);
    free(lines);
}

/* A node that is not ready may not answer what its partitions are asked. */
void verdict_get(struct call *call)
{
    struct node_health health;

    node_health(call->api->options.node, &health);
    if (health.is_ready)
        tally_ask(call, SURVEY_HELD, (struct bytes){0}, 0, NULL, verdict_finish);
    else
        verdict_answer(call, health.reason, NULL, 0, true);
}
