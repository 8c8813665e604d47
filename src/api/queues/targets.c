/* targets.c - tells of deliveries to each target, and of targets that are left alone. */
#include "api/core/call.h"

#include "api/core/tally.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "sys/clock.h"

/* ---- the answer ---- */

static void targets_failure_append(const struct survey *survey,
                                   const struct survey_failure *failure, struct wall now,
                                   struct buffer *out)
{
    static const struct survey_failure healthy = {.state = BREAKER_CLOSED};

    failure = failure ? failure : &healthy;
    json_put_text(out, "breaker", breaker_state_text((enum breaker_state)failure->state));
    json_put_number(out, "failures", failure->failures);
    if (failure->state != BREAKER_CLOSED)
        rfc3339_put(out, "tried_at", wall_add(now, failure->wait_ms));
    if (failure->error_size)
        json_put_string(out, "last_error", survey_error(survey, failure));
}

/* Failures of an origin, which are contiguous: the first, and the end. */
struct targets_failures {
    const struct survey *survey;
    const struct survey_failure *begin, *end;
};

/* Returns the failures of an origin. Failures and requested origins are sorted; `*index` begins
 * with 0. */
static struct targets_failures targets_failures_of(const struct survey *survey, struct bytes origin,
                                                   size_t *index)
{
    const struct survey_failure *failures = survey->failures;
    const size_t count = survey->failure_count;
    size_t at = *index;

    while (at < count && bytes_compare(survey_origin(survey, &failures[at]), origin) < 0)
        at++;
    const size_t begin = at;
    while (at < count && bytes_equal(survey_origin(survey, &failures[at]), origin))
        at++;
    *index = at;
    return (struct targets_failures){survey, failures + begin, failures + at};
}

static void targets_append_webhook(const struct targets_failures *found, struct wall now,
                                   struct buffer *out)
{
    const struct survey_failure *failure = found->begin;
    const bool has_own = failure < found->end && failure->path_size == 0;

    targets_failure_append(found->survey, has_own ? failure++ : NULL, now, out);
    json_open(out, "paths", '[');
    for (; failure < found->end; failure++) {
        json_open(out, NULL, '{');
        json_put_string(out, "path", survey_path(found->survey, failure));
        targets_failure_append(found->survey, failure, now, out);
        json_close(out, '}');
    }
    json_close(out, ']');
}

/* Appends whether a broker connection is up at all nodes. */
static void targets_append_broker(const struct node *node, const struct targets_failures *found,
                                  struct bytes origin, struct buffer *out)
{
    const bool is_up = found->begin == found->end;
    struct broker_status status;

    for (size_t i = 0; node_broker_status(node, i, &status); i++) {
        const struct bytes name = bytes_of(status.name);

        if (origin.size <= name.size + 3 ||
            memcmp(origin.data + origin.size - name.size - 3, "://", 3) != 0 ||
            memcmp(origin.data + origin.size - name.size, name.data, name.size) != 0)
            continue;
        json_put_flag(out, "connected", is_up);
        if (!is_up && found->begin->error_size)
            json_put_string(out, "last_error", survey_error(found->survey, found->begin));
        return;
    }
}

static void targets_append_row(const struct node_tally *tally, const struct survey_row *row,
                               struct buffer *out)
{
    json_put_string(out, "target", survey_name(&tally->sum, row));
    json_put_number(out, "waiting", row->ready);
    json_put_number(out, "in_flight", row->taken);
    json_put_flag(out, "more_on_disk", row->is_spilled);
    if (row->oldest.ms != WALL_NEVER.ms)
        rfc3339_put(out, "oldest", row->oldest);
}

/* Appends the pause of a target, which may be written in several ways. */
static void targets_append_paused(const struct node_tally *tally,
                                  const struct target_pauses *pauses, struct bytes origin,
                                  struct buffer *out)
{
    char room[TARGET_PAUSE_NAME_SIZE_MAX];
    struct bytes name;

    if (pauses->count && !target_pause_parse_name(origin, room, &name, NULL))
        timer_json_put_pause(target_pauses_find(pauses, caller_tenant(&tally->call->caller), name),
                             wall_now(), out);
}

/* Adds the paused targets of the tenant, for which nothing may wait. */
static void targets_add_paused(struct node_tally *tally, const struct target_pauses *pauses)
{
    const struct bytes tenant = caller_tenant(&tally->call->caller);

    for (size_t i = 0; i < pauses->count; i++)
        if (bytes_equal(pauses->rows[i].tenant, tenant) &&
            !bytes_has_prefix(pauses->rows[i].name, BYTES("queue:")) &&
            !target_pause_flow(pauses->rows[i].name).size &&
            target_pause_is_in_force(&pauses->rows[i], wall_now()))
            survey_append(&tally->sum, pauses->rows[i].name);
}

static bool targets_is_webhook(struct bytes origin)
{
    return bytes_has_prefix(origin, BYTES("http://")) ||
           bytes_has_prefix(origin, BYTES("https://"));
}

static void targets_format(const struct node_tally *tally, const struct target_pauses *pauses,
                           struct buffer *out)
{
    const struct config *config = tally->call->api->options.config;
    const struct wall now = wall_now();
    size_t index = 0;

    json_open(out, NULL, '{');
    json_open(out, "targets", '[');
    for (size_t i = 0; i < tally->sum.row_count; i++) {
        const struct bytes origin = survey_name(&tally->sum, &tally->sum.rows[i]);

        json_open(out, NULL, '{');
        targets_append_row(tally, &tally->sum.rows[i], out);
        const struct targets_failures found = targets_failures_of(&tally->sum, origin, &index);
        if (targets_is_webhook(origin))
            targets_append_webhook(&found, now, out);
        else
            targets_append_broker(tally->call->api->options.node, &found, origin, out);
        targets_append_paused(tally, pauses, origin, out);
        json_close(out, '}');
    }
    json_close(out, ']');
    call_put_node(tally->call, out);
    json_put_number(out, "in_flight_max", config->target_deliveries_max);
    json_put_number(out, "rate_max", config->target_rate_max);
    json_put_flag(out, "complete", !tally->sum.is_cut);
    json_close(out, '}');
}

static void targets_finish(struct node_tally *tally)
{
    struct call *call = tally->call;
    struct survey *sum = &tally->sum;

    for (size_t i = 0; i < sum->failure_count; i++) {
        const struct survey_failure *failure = &sum->failures[i];

        /* a connection is shown where timers wait for it */
        struct survey_row *row = targets_is_webhook(survey_origin(sum, failure))
                                     ? survey_append(sum, (struct bytes){0})
                                     : NULL;
        if (row) {
            row->name_at = failure->at;
            row->name_size = failure->origin_size;
        }
    }
    struct target_pauses *pauses = node_pauses(call->api->options.node);
    targets_add_paused(tally, pauses);
    survey_merge(sum);
    const bool is_short = buffer_failed(&sum->names);
    struct buffer body;
    buffer_init(&body);
    if (!is_short)
        targets_format(tally, pauses, &body);
    target_pauses_leave(pauses);
    if (is_short)
        call_answer_error(call, ERROR_NO_MEMORY, "");
    else
        call_answer_json(call, 200, &body);
}

void targets_list(struct call *call)
{
    tally_ask(call, SURVEY_TARGETS, (struct bytes){0}, 0, NULL, targets_finish);
}
