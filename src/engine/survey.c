/* Counts the timers that wait or are in flight, by queue or by target. */
#include "engine/survey.h"

#include "engine/dispatch_queue.h"
#include "engine/live.h"
#include "engine/tenant.h"

#include <stdlib.h>

struct surveyor {
    struct engine *engine;
    const struct command *command;
    struct survey *survey;
    struct map rows; /* key of a dispatch queue -> index of its row, plus 1 */
};

/* Returns the row of a dispatch queue, and adds it if needed. NULL if there are too many rows, or
 * out of memory. */
static struct survey_row *survey_row_of(struct surveyor *surveyor, uint64_t key, struct bytes name)
{
    struct survey *survey = surveyor->survey;
    const size_t found = (size_t)(uintptr_t)map_get(&surveyor->rows, key);

    assert(found <= survey->row_count);
    if (found)
        return &survey->rows[found - 1];
    struct survey_row *row = survey_add(survey, name);
    if (!row || map_put(&surveyor->rows, key, (void *)(uintptr_t)survey->row_count))
        return row;
    survey->names.failed = true;
    return NULL;
}

static void survey_add_ready(struct survey_row *row, const struct timer *timer)
{
    row->ready++;
    row->oldest = wall_min(row->oldest, timer->due);
}

/* Adds all timers of a queue, in O(1) unless it is mixed. */
static void survey_add_queue(struct survey_row *row, const struct dispatch_queue *queue)
{
    row->ready += queue->count;
    row->is_spilled |= queue->backlog.scan != 0;
    LIST_FOR_EACH (&queue->timers, link) {
        row->oldest = wall_min(row->oldest, entry_of(link)->timer->due);
        if (!queue->is_mixed)
            break;
    }
}

/* ---- built-in queues ---- */

static void survey_queue(struct surveyor *surveyor, const struct dispatch_queue *queue)
{
    const struct bytes name = {queue->name, queue->name_size};
    const struct bytes wanted = surveyor->survey->queue;

    assert(queue->kind == DISPATCH_PULLED);
    if (!queue_own_name(surveyor->command->tenant, name).size ||
        (wanted.size && !bytes_equal(wanted, name)))
        return;
    struct survey_row *row = survey_row_of(surveyor, queue->key, name);
    if (!row)
        return;
    survey_add_queue(row, queue);
    row->taken += queue->inflight;
}

/* ---- targets ---- */

/* All timers of such a queue have one tenant and one target. */
static void survey_target(struct surveyor *surveyor, const struct dispatch_queue *queue)
{
    const struct timer *first = dispatch_first(queue)->timer;

    if (timer_is_pulled(first) || !tenant_owns(surveyor->command, first))
        return;
    const uint64_t key = queue->kind == DISPATCH_LANE ? queue->target_key : queue->key;
    struct survey_row *row = survey_row_of(surveyor, key, timer_target_origin(first));
    if (row)
        survey_add_queue(row, queue);
}

/* Overdue timers are of all tenants and targets. */
static void survey_overdue(struct surveyor *surveyor, const struct dispatch_queue *queue)
{
    LIST_FOR_EACH (&queue->timers, link) {
        const struct timer *timer = entry_of(link)->timer;
        struct dispatch_name name;

        if (!tenant_owns(surveyor->command, timer))
            continue;
        dispatch_name_of(surveyor->engine, timer, &name);
        struct survey_row *row = survey_row_of(surveyor, name.key, timer_target_origin(timer));
        if (row)
            survey_add_ready(row, timer);
    }
}

static void survey_inflight(struct surveyor *surveyor)
{
    LIST_FOR_EACH (entries_busy(surveyor->engine->entries), link) {
        const struct entry *entry = entry_of(link);

        if (entry->phase != ENTRY_INFLIGHT || timer_is_pulled(entry->timer) ||
            !tenant_owns(surveyor->command, entry->timer))
            continue;
        struct survey_row *row =
            survey_row_of(surveyor, entry->queue, timer_target_origin(entry->timer));
        if (row)
            row->taken++;
    }
}

/* ---- items ---- */

static void survey_items_of(const struct dispatch_queue *queue, struct survey *survey)
{
    if (!queue)
        return;
    LIST_FOR_EACH (&queue->timers, link) {
        if (survey->item_count == survey->items_max)
            return;
        survey->items[survey->item_count++] = entry_of(link)->timer;
    }
}

static void survey_items(const struct engine *engine, struct survey *survey)
{
    assert(survey->queue.size > 0);
    for (unsigned priority = QUEUE_PRIORITY_COUNT; priority-- > 0;)
        for (enum timer_order order = TIMER_ORDER_DUE; order <= TIMER_ORDER_STRICT; order++)
            survey_items_of(dispatch_queue_named(engine, survey->queue, priority, order), survey);
}

/* ---- live timers ---- */

static void survey_live(const struct engine *engine, struct bytes tenant, struct survey *survey)
{
    const struct live *live = entries_live(engine->entries);
    struct buffer name;

    if (!live_is_complete(live)) {
        struct survey_row *row = survey_add(survey, (struct bytes){0});

        if (row)
            row->is_spilled = true;
    }
    buffer_init(&name);
    for (const struct live_row *of = NULL; (of = live_next(live, tenant, of));)
        for (enum timer_state state = 0; state < LIVE_STATES; state++) {
            if (!of->counts[state])
                continue;
            buffer_clear(&name);
            buffer_printf(&name, "%s %.*s", timer_state_text(state), (int)of->origin_size,
                          of->origin);
            struct survey_row *row = survey_add(survey, buffer_bytes(&name));

            if (row)
                row->ready = of->counts[state];
        }
    survey->names.failed |= buffer_failed(&name);
    buffer_deinit(&name);
}

/* ---- what holds timers back ---- */

/* Returns what is the same for the timers of a row: a webhook's URL without its query, because a
 * path may fail by itself, or the origin. */
static struct bytes survey_held_target(const struct timer *timer)
{
    struct bytes url = timer->texts.target;

    return target_sharing(&timer->target) == TARGET_SHARES_ORIGIN ? bytes_cut(&url, '?')
                                                                  : timer_shown_origin(timer);
}

/* Adds the timers that a breaker postponed and that are in no queue. */
static void survey_postponed(struct surveyor *surveyor, struct buffer *name)
{
    const struct engine *engine = surveyor->engine;
    const struct live *live = entries_live(engine->entries);
    struct survey *survey = surveyor->survey;

    LIST_FOR_EACH (entries_busy(engine->entries), link) {
        const struct timer *timer = entry_of(link)->timer;
        const struct survey_held held = {WAIT_BREAKER, timer->texts.tenant,
                                         survey_held_target(timer)};

        if (!waiting_is_postponed(engine, entry_of(link)))
            continue;
        buffer_clear(name);
        survey_put_held(&held, name);
        struct survey_row *row = survey_row_of(surveyor, entry_of(link)->queue, buffer_bytes(name));
        if (row)
            survey_add_ready(row, timer);
    }
    for (const struct live_postponed *of = NULL; (of = live_next_postponed(live, of));) {
        const struct survey_held held = {waiting_postponed_reason(engine, of),
                                         live_postponed_tenant(of), live_postponed_url(of)};

        buffer_clear(name);
        survey_put_held(&held, name);
        struct survey_row *row = survey_add(survey, buffer_bytes(name));
        if (!row)
            break;
        row->ready = of->count;
        row->oldest = live_postponed_oldest(of);
    }
}

static void survey_held(struct surveyor *surveyor)
{
    struct engine *engine = surveyor->engine;
    struct survey *survey = surveyor->survey;
    struct buffer name;
    size_t cursor = 0;

    buffer_init(&name);
    for (struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));) {
        if (queue->count == 0)
            continue;
        const struct timer *first = dispatch_first(queue)->timer;
        struct survey_held held = {.reason = dispatch_reason(engine, queue)};
        if (queue->kind != DISPATCH_OVERDUE) {
            held.tenant = first->texts.tenant;
            held.target = survey_held_target(first);
        }
        buffer_clear(&name);
        survey_put_held(&held, &name);
        struct survey_row *row = survey_add(survey, buffer_bytes(&name));
        if (!row)
            break;
        survey_add_queue(row, queue);
        row->taken = queue->inflight;
    }
    survey_postponed(surveyor, &name);
    survey->names.failed |= buffer_failed(&name);
    buffer_deinit(&name);
}

/* ---- flows ---- */

static struct survey_row *survey_flow(struct surveyor *surveyor, const struct timer *timer)
{
    const struct bytes text = timer->texts.flow;

    return survey_row_of(surveyor, bytes_hash(0, text), text);
}

static void survey_flows(struct surveyor *surveyor)
{
    const struct engine *engine = surveyor->engine;
    size_t cursor = 0;

    for (const struct dispatch_queue *lane; (lane = dispatch_next(engine, &cursor));) {
        if (lane->kind != DISPATCH_LANE || lane->count == 0 ||
            !tenant_owns(surveyor->command, dispatch_first(lane)->timer))
            continue;
        struct survey_row *row = survey_flow(surveyor, dispatch_first(lane)->timer);
        if (row)
            survey_add_queue(row, lane);
    }
    LIST_FOR_EACH (entries_busy(engine->entries), link) {
        const struct entry *entry = entry_of(link);

        if (!(entry->flags & ENTRY_IS_IN_FLOW) || !tenant_owns(surveyor->command, entry->timer))
            continue;
        struct survey_row *row = survey_flow(surveyor, entry->timer);
        if (row)
            row->taken++;
    }
}

static void survey_queues(struct surveyor *surveyor)
{
    const bool of_targets = surveyor->survey->kind == SURVEY_TARGETS;
    size_t cursor = 0;

    for (const struct dispatch_queue *queue; (queue = dispatch_next(surveyor->engine, &cursor));) {
        if (!of_targets && queue->kind == DISPATCH_PULLED)
            survey_queue(surveyor, queue);
        else if (of_targets && queue->kind == DISPATCH_OVERDUE)
            survey_overdue(surveyor, queue);
        else if (of_targets && queue->count > 0)
            survey_target(surveyor, queue);
    }
    if (of_targets)
        survey_inflight(surveyor);
}

enum error_code dispatch_survey(struct engine *engine, struct command *command)
{
    struct survey *survey = command->survey;
    struct surveyor surveyor = {.engine = engine, .command = command, .survey = survey};

    assert(!survey_is_of_node(survey->kind));
    assert(!survey->rows && survey->row_count == 0 && survey->item_count == 0);
    dispatch_look_at_pauses(engine);
    buffer_init(&survey->names);
    if (survey->kind == SURVEY_ITEMS) {
        survey_items(engine, survey);
        return ERROR_NONE;
    }
    if (survey->kind == SURVEY_LIVE) {
        survey_live(engine, command->tenant, survey);
        return buffer_failed(&survey->names) ? ERROR_NO_MEMORY : ERROR_NONE;
    }
    map_init(&surveyor.rows);
    if (survey->kind == SURVEY_HELD)
        survey_held(&surveyor);
    else if (survey->kind == SURVEY_FLOWS)
        survey_flows(&surveyor);
    else
        survey_queues(&surveyor);
    map_deinit(&surveyor.rows);
    return buffer_failed(&survey->names) ? ERROR_NO_MEMORY : ERROR_NONE;
}
