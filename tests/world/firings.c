/* firings.c - keeps the last firings of each twin, and compares them with the runs of its timer and
 * with reports. */
#include "firings.h"

#include "model.h"
#include "world.h"

#include "calendar/rfc3339.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static struct firing firings_add(struct twin *twin, const struct firing *firing)
{
    struct firings *firings = &twin->row.firings;
    struct rhythm *rhythm = &twin->row.content.rhythm;

    if (!rhythm_recurs(rhythm))
        return *firing;
    if (firing->outcome != RUN_SKIPPED)
        rhythm_take_done(rhythm);
    const size_t kept = firings->count < RUNS_MAX ? firings->count : RUNS_MAX - 1;
    memmove(&firings->last[1], &firings->last[0], kept * sizeof(struct firing));
    firings->count = kept + 1;
    return firings->last[0] = *firing;
}

static uint64_t error_sum(const char *error)
{
    return bytes_hash(0, bytes_of(error));
}

struct firing firings_add_answered(struct twin *twin)
{
    static const enum run_outcome OUTCOMES[] = {
        [DELIVERY_DONE] = RUN_DONE, [DELIVERY_FAILED] = RUN_FAILED, [DELIVERY_ENDED] = RUN_ENDED};
    const struct delivery_outcome *outcome = &twin->outcome;
    /* if the clock steps while the request is out, the duration may exceed the room of a run */
    const uint64_t duration_ms = wall_since(twin->out_at, twin->outcome_at);

    return firings_add(
        twin, &(struct firing){
                  .planned_ms = twin->row.content.due.ms,
                  .started_ms = twin->out_at.ms,
                  .duration_ms = duration_ms < UINT32_MAX ? duration_ms : UINT32_MAX,
                  .error_sum = error_sum(outcome->result == DELIVERY_DONE ? "" : outcome->error),
                  .attempts = twin->row.attempts + 1,
                  .status = outcome->status,
                  .outcome = OUTCOMES[outcome->result],
              });
}

struct firing firings_add_unanswered(struct twin *twin, const char *error)
{
    const struct sim_row *row = &twin->row;

    return firings_add(twin, &(struct firing){
                                 .planned_ms = row->content.due.ms,
                                 .error_sum = *error ? error_sum(error) : 0,
                                 .attempts = row->attempts,
                                 .outcome = *error ? RUN_FAILED : RUN_DROPPED,
                             });
}

void firings_add_begun(struct twin *twin, const struct timer_id *id)
{
    char text[TIMER_ID_TEXT_SIZE];

    timer_id_format(id, text);
    firings_add(twin, &(struct firing){.planned_ms = twin->row.content.due.ms,
                                       .error_sum = error_sum(text),
                                       .outcome = RUN_BEGUN});
}

void firings_add_skipped(struct twin *twin, struct wall from, struct wall to)
{
    const struct rhythm *rhythm = &twin->row.content.rhythm;
    struct firing *newest = &twin->row.firings.last[0];

    if (!rhythm_recurs(rhythm))
        return;
    /* No instant is planned in 1970's first millisecond. */
    const struct wall first = {rhythm->cron ? 1 : rhythm->from.ms};
    from = wall_max(from, wall_add(first, rhythm->spread_ms));
    const uint64_t count = wall_since(from, to) / rhythm->period_ms;
    if (!count)
        return;
    struct firing firing = {.planned_ms = to.ms - count * rhythm->period_ms,
                            .started_ms = to.ms - rhythm->period_ms,
                            .duration_ms = count,
                            .outcome = RUN_SKIPPED};
    const uint64_t counted_max = rhythm->cron ? SCHEDULE_COUNTED : UINT32_MAX;
    if (firing.duration_ms > counted_max)
        firing.duration_ms = counted_max;
    if (twin->row.firings.count && newest->outcome == RUN_SKIPPED) {
        newest->started_ms = firing.started_ms;
        newest->duration_ms += firing.duration_ms;
        if (newest->duration_ms > UINT32_MAX)
            newest->duration_ms = UINT32_MAX;
    } else {
        firings_add(twin, &firing);
    }
}

/* ---- reports ---- */

struct report_text {
    char text[1024];
    size_t size;
};

__attribute__((format(printf, 2, 3))) static void report_add(struct report_text *to,
                                                             const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    to->size +=
        (size_t)vsnprintf(to->text + to->size, sizeof(to->text) - to->size, format, arguments);
    va_end(arguments);
    assert(to->size < sizeof(to->text));
}

static void report_add_time(struct report_text *to, const char *name, uint64_t ms)
{
    char text[RFC3339_TEXT_SIZE];

    rfc3339_format((struct wall){ms < WALL_MS_MAX ? ms : WALL_MS_MAX}, text);
    report_add(to, ",\"%s\":\"%s\"", name, text);
}

/* Writes the body of a report, up to its error. */
static void report_write(struct report_text *to, const struct twin *twin,
                         const struct firing *firing)
{
    static const char *const OUTCOMES[] = {[RUN_DONE] = "done",
                                           [RUN_FAILED] = "failed",
                                           [RUN_ENDED] = "ended",
                                           [RUN_DROPPED] = "dropped"};
    const struct content *content = &twin->row.content;
    char id[TIMER_ID_TEXT_SIZE], key[CONTENT_NAME_SIZE], labels[CONTENT_LABELS_SIZE];

    timer_id_format(&twin->id, id);
    report_add(to, "{\"id\":\"%s\"", id);
    if (content->key)
        report_add(to, ",\"key\":\"%s\"", content_key_text(content->key, key).data);
    if (content->firing_of.serial) {
        timer_id_format(&content->firing_of, id);
        report_add(to, ",\"firing_of\":\"%s\"", id);
    }
    const struct bytes text = content_labels_text(content, labels);
    if (text.size)
        report_add(to, ",\"labels\":%s", text.data);
    report_add_time(to, "planned", firing->planned_ms);
    if (firing->started_ms) {
        report_add_time(to, "started", firing->started_ms);
        report_add(to, ",\"duration_ms\":%" PRIu64, firing->duration_ms);
    }
    report_add(to, ",\"attempts\":%" PRIu32 ",\"outcome\":\"%s\"", firing->attempts,
               OUTCOMES[firing->outcome]);
    if (firing->status)
        report_add(to, ",\"status\":%" PRIu32, firing->status);
}

bool firings_are_reported(const struct twin *twin, const struct firing *firing, const char *error,
                          const struct timer *report)
{
    const struct bytes body = report->texts.payload;
    struct report_text want = {.size = 0};

    report_write(&want, twin, firing);
    if (firing->outcome == RUN_DROPPED) {
        report_add(&want, ",\"error\":\"dropped: it was "); /* followed by how late it was */
        return bytes_has_prefix(body, (struct bytes){want.text, want.size});
    }
    if (*error)
        report_add(&want, ",\"error\":\"%s\"", error);
    report_add(&want, "}");
    return bytes_equal(body, (struct bytes){want.text, want.size});
}

static const char TOLD[] = "a firing that is given up is told";

void firings_told(struct world *world, struct sim_partition *partition,
                  const struct given_up *given_up)
{
    struct twin *twin = model_find(world, &given_up->id);

    if (!twin)
        world_fail(world, 0, TOLD, "a timer that is not there");
    if (!*given_up->origin || !*given_up->error)
        world_fail(world, twin->number, TOLD, "without origin or error");
    partition->told += 1 + given_up->more;
    partition->has_untold |= given_up->more > 0;
    twin->told_due = given_up->due;
}

void firings_check_told(struct world *world, const struct twin *twin)
{
    if (twin->told_due.ms != twin->row.content.due.ms &&
        !world->host.partitions[twin->partition].has_untold)
        world_fail(world, twin->number, TOLD, "the one due at %llu is not",
                   (unsigned long long)twin->row.content.due.ms);
}

/* Returns the firing that a run describes. How late a dropped firing was, and why some were
 * skipped, is not compared. */
static struct firing firing_of(const struct run *run)
{
    const bool is_skipped = run->outcome == RUN_SKIPPED;

    return (struct firing){
        .planned_ms = run->planned.ms,
        .started_ms = is_skipped ? run->until.ms : run->started.ms,
        .duration_ms = is_skipped ? run->count : run->duration_ms,
        .error_sum = is_skipped || run->outcome == RUN_DROPPED ? 0 : bytes_hash(0, run->error),
        .attempts = run->attempts,
        .status = run->status,
        .outcome = run->outcome,
    };
}

static struct firings firings_of(const struct timer *timer)
{
    struct firings firings = {0};
    struct bytes rest = timer->texts.runs;
    struct run run;

    while (firings.count < RUNS_MAX && runs_next(&rest, &run))
        firings.last[firings.count++] = firing_of(&run);
    return firings;
}

static uint64_t firing_sum(uint64_t sum, const struct firing *firing)
{
    const uint64_t parts[] = {firing->planned_ms, firing->started_ms, firing->duration_ms,
                              firing->error_sum,  firing->attempts,   firing->status,
                              firing->outcome};

    return bytes_hash(sum, (struct bytes){(const char *)parts, sizeof(parts)});
}

uint64_t firings_sum(const struct firings *firings)
{
    uint64_t sum = firings->count;

    for (size_t i = 0; i < firings->count; i++)
        sum = firing_sum(sum, &firings->last[i]);
    return sum;
}

uint64_t firings_sum_shown(const struct timer *timer)
{
    const struct firings shown = firings_of(timer);

    return firings_sum(&shown);
}

bool firings_match(const struct firings *firings, const struct timer *timer)
{
    return runs_is_valid(timer->texts.runs) && firings_sum(firings) == firings_sum_shown(timer);
}
