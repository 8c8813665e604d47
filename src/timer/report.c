/* report.c - makes timers that tell how firings ended. */
#include "timer/report.h"

#include "base/json_write.h"

#include <assert.h>

struct bytes report_target(const struct timer *timer, enum run_outcome outcome)
{
    return outcome == RUN_DONE ? timer->texts.on_success : timer->texts.on_dead;
}

static void report_append_body(struct buffer *out, struct bytes id, const struct timer_texts *texts,
                               const struct run *run)
{
    json_open(out, NULL, '{');
    json_put_string(out, "id", id);
    json_put_some(out, "key", texts->key);
    json_put_some(out, "firing_of", texts->firing_of);
    if (texts->labels.size)
        json_put_raw(out, "labels", texts->labels);
    run_put(run, out);
    json_close(out, '}');
}

struct timer *report_create(const struct timer *timer, const struct run *run)
{
    const struct bytes target = report_target(timer, run->outcome);
    char id[TIMER_ID_TEXT_SIZE];
    struct buffer body;

    assert(target.size > 0);
    timer_id_format(&timer->id, id);
    buffer_init(&body);
    report_append_body(&body, bytes_of(id), &timer->texts, run);
    struct timer *report = NULL;
    if (!buffer_failed(&body))
        report = timer_alloc(&(struct timer_texts){
            .target = target,
            .payload = buffer_bytes(&body),
            .tenant = timer->texts.tenant,
            .trace = timer->texts.trace,
            .report_of = bytes_of(id),
        });
    buffer_deinit(&body);
    return report;
}
