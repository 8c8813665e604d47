#include "model.h"

#include "world.h"

#include <assert.h>
#include <stdlib.h>

static const char ROW[] = "a row says only what was asked or what happened";

void model_init(struct model *model)
{
    *model = (struct model){0};
}

void model_deinit(struct model *model)
{
    for (size_t i = 0; i < model->count; i++) {
        free(model->twins[i]->versions);
        free(model->twins[i]);
    }
    free(model->twins);
}

struct twin *model_ask(struct world *world, uint16_t partition, const struct content *content)
{
    struct model *model = &world->model;
    struct twin *twin = calloc(1, sizeof(*twin));

    assert(twin);
    if (model->count == model->capacity) {
        model->capacity = model->capacity ? 2 * model->capacity : 64;
        model->twins = realloc(model->twins, model->capacity * sizeof(struct twin *));
        assert(model->twins);
    }
    model->twins[model->count++] = twin;
    twin->number = (uint32_t)model->count;
    twin->partition = partition;
    twin->asked = *content;
    twin->calm_ms = world->time_ms;
    return twin;
}

struct twin *model_twin_of(struct world *world, uint16_t partition, const struct timer *timer)
{
    const uint32_t number = content_number(timer);
    struct twin *twin;

    if (number == 0 || number > world->model.count)
        world_fail(world, 0, ROW, "a timer that nobody asked for: number %u", number);
    twin = world->model.twins[number - 1];
    if (twin->partition != partition || timer->id.partition != partition)
        world_fail(world, number, ROW, "the timer is in partition %u", timer->id.partition);
    if (twin->life == TWIN_NEVER)
        world_fail(world, number, ROW, "its create was refused or lost");
    if (twin->life == TWIN_DURABLE && !timer_id_equal(&twin->id, &timer->id))
        world_fail(world, number, ROW, "it has another id");
    return twin;
}

void model_change_begin(struct twin *twin, struct change *change)
{
    assert(twin->change_count < CHANGES_MAX);
    twin->changes[twin->change_count++] = change;
}

void model_change_end(struct twin *twin, struct change *change)
{
    for (uint32_t i = 0; i < twin->change_count; i++)
        if (twin->changes[i] == change)
            twin->changes[i] = twin->changes[--twin->change_count];
}

bool model_change_swap(struct twin *twin, struct change *change)
{
    for (uint32_t i = 0; i < twin->change_count; i++) {
        struct change *other = twin->changes[i];

        const struct change *shown = change->is_applied ? other : change;

        if (other->is_applied == change->is_applied || other->kind != change->kind ||
            !content_equal(&shown->content, &twin->row.content, shown->fields))
            continue;
        other->is_applied = change->is_applied;
        change->is_applied = !other->is_applied;
        return true;
    }
    return false;
}

void model_tell_time(struct model *model, uint16_t partition, struct wall now)
{
    model->now_max[partition] = wall_max(model->now_max[partition], now);
    model->passed_ms[partition] += wall_since(model->now_last[partition], now);
    model->now_last[partition] = now;
}

bool model_may_forget(const struct world *world, const struct twin *twin)
{
    const struct model *model = &world->model;
    const uint64_t retain_ms = world->plan.engine.retain_ms;

    return timer_is_over(twin->row.state) &&
           (wall_since(twin->row.ended, model->now_max[twin->partition]) >= retain_ms ||
            model->passed_ms[twin->partition] - twin->end_passed_ms >= retain_ms);
}

const struct version *model_version(const struct twin *twin, uint32_t version)
{
    for (size_t i = twin->version_count; i-- > 0;)
        if (twin->versions[i].version == version)
            return &twin->versions[i];
    return NULL;
}

uint64_t model_live_count(const struct model *model, uint16_t partition, uint64_t *ret_damaged)
{
    uint64_t count = 0;

    *ret_damaged = 0;
    for (size_t i = 0; i < model->count; i++) {
        if (model->twins[i]->partition != partition)
            continue;
        count += twin_is_live(model->twins[i]);
        *ret_damaged += model->twins[i]->was_damaged;
    }
    return count;
}

uint64_t model_pending_max(const struct model *model, uint16_t partition)
{
    uint64_t damaged, count = model_live_count(model, partition, &damaged);

    count += damaged; /* nobody knows that they are lost */
    for (size_t i = 0; i < model->count; i++)
        count += model->twins[i]->partition == partition && model->twins[i]->life == TWIN_ASKED;
    return count;
}

/* ---- a row is written ---- */

/* What some of the changes in flight, in some order, make of a row. */
struct guess {
    struct content content;
    uint32_t version;
    bool is_cancelled, is_moved;
    uint32_t used; /* a bit for each change */
};

/* A moved timer begins anew, due or at once; any other stays where it was. */
static bool is_in_place(const struct world *world, const struct twin *twin,
                        const struct timer *timer, const struct guess *guess)
{
    const struct wall now_max = world->model.now_max[twin->partition];

    if (guess->is_cancelled)
        return true;
    if (!guess->is_moved)
        return timer->attempts == twin->row.attempts && timer->at.ms == twin->row.at.ms;
    return timer->attempts == 0 && timer->at.ms >= timer->due.ms &&
           timer->at.ms <= wall_max(timer->due, now_max).ms;
}

/* Whether the timer is `guess` with any more changes applied, each to the version that it names. */
static bool explain(const struct world *world, struct twin *twin, const struct timer *timer,
                    struct guess *guess)
{
    if (guess->used && guess->version == timer->version &&
        guess->is_cancelled == (timer->state == TIMER_CANCELLED) &&
        content_matches(&guess->content, twin->number, timer) &&
        is_in_place(world, twin, timer, guess))
        return true;
    if (guess->is_cancelled || guess->version >= timer->version)
        return false;
    for (uint32_t i = 0; i < twin->change_count; i++) {
        const struct change *change = twin->changes[i];
        struct guess next = *guess;

        if (change->is_applied || guess->used & 1u << i ||
            (change->if_version && change->if_version != guess->version))
            continue;
        next.version++;
        next.used |= 1u << i;
        if (change->kind == COMMAND_CANCEL) {
            next.is_cancelled = true;
        } else {
            content_patch(&next.content, change->fields, &change->content);
            next.is_moved |= (change->fields & PATCH_DUE) != 0;
        }
        if (explain(world, twin, timer, &next)) {
            *guess = next;
            return true;
        }
    }
    return false;
}

static void wrong(struct world *world, const struct twin *twin, const struct timer *timer,
                  const char *what)
{
    world_fail(world, twin->number, ROW,
               "%s: %s v%u attempts %u at %llu due %llu, after %s v%u attempts %u at %llu", what,
               timer_state_text(timer->state), timer->version, timer->attempts,
               (unsigned long long)timer->at.ms, (unsigned long long)timer->due.ms,
               timer_state_text(twin->row.state), twin->row.version, twin->row.attempts,
               (unsigned long long)twin->row.at.ms);
}

static void check_create(struct world *world, const struct twin *twin, const struct timer *timer)
{
    if (twin->life != TWIN_ASKED)
        wrong(world, twin, timer, "a row is made for a timer that had one");
    if (timer->version != 1 || timer->attempts != 0 || timer->state != TIMER_SCHEDULED ||
        timer->id.first.ms != timer->at.ms || !content_matches(&twin->asked, twin->number, timer))
        wrong(world, twin, timer, "the first row is not what was asked");
    if (timer->at.ms < timer->due.ms ||
        timer->at.ms > wall_max(timer->due, world->model.now_max[twin->partition]).ms)
        wrong(world, twin, timer, "the first position is neither due nor now");
}

/* The longest back-off that the policy and the receiver allow after that many attempts. */
static uint64_t delay_max_ms(const struct twin *twin, uint64_t asked_ms)
{
    const struct retry_policy *retry = &twin->row.content.retry;
    const uint32_t doublings = twin->row.attempts;
    uint64_t delay_ms = retry->cap_ms;

    if (doublings < 64 && retry->base_ms <= retry->cap_ms >> doublings)
        delay_ms = retry->base_ms << doublings;
    if (delay_ms < asked_ms)
        delay_ms = asked_ms;
    return delay_ms > 0 ? delay_ms : 1;
}

/* An attempt was made and its outcome is written. */
static void check_outcome(struct world *world, struct twin *twin, const struct timer *timer)
{
    const uint64_t day_ms = 24 * 3600 * 1000;
    const struct delivery_outcome *outcome = &twin->outcome;
    const uint64_t asked_ms = outcome->retry_after_ms < day_ms ? outcome->retry_after_ms : day_ms;
    const bool is_last = timer->attempts >= twin->row.content.retry.attempts_max;
    const enum timer_state want = outcome->result == DELIVERY_DONE               ? TIMER_FIRED
                                  : outcome->result == DELIVERY_ENDED || is_last ? TIMER_DEAD
                                                                                 : TIMER_RETRYING;

    if (!twin->has_outcome)
        wrong(world, twin, timer, "an attempt is counted that had no outcome");
    if (timer->state != want || timer->version != twin->row.version + 1 ||
        !content_matches(&twin->row.content, twin->number, timer))
        wrong(world, twin, timer, "the outcome is not what was handed in");
    if (want == TIMER_RETRYING && timer->at.ms < WALL_MS_MAX) {
        const struct wall least = wall_add(twin->outcome_at, asked_ms ? asked_ms : 1);
        const struct wall most = wall_add(twin->outcome_at, delay_max_ms(twin, asked_ms));

        if (timer->at.ms < least.ms || timer->at.ms > wall_max(most, timer->due).ms)
            wrong(world, twin, timer, "the back-off is out of bounds");
    }
    twin->has_outcome = false;
}

/* Nothing happened to the timer but that it is moved: put back for want of room at its target. */
static void check_spill(struct world *world, const struct twin *twin, const struct timer *timer)
{
    const uint64_t far_ms = 2 * world->plan.engine.window_ms + 2;

    if (timer->at.ms == twin->row.at.ms)
        return;
    if (timer->at.ms < timer->due.ms ||
        timer->at.ms > wall_add(world->model.now_max[twin->partition], far_ms).ms)
        wrong(world, twin, timer, "it moved without a reason");
    world->totals->spilled++;
}

static void check_changes(struct world *world, struct twin *twin, const struct timer *timer)
{
    struct guess guess = {twin->row.content, twin->row.version, false, false, 0};

    if (!explain(world, twin, timer, &guess))
        wrong(world, twin, timer, "no request in flight explains the row");
    for (uint32_t i = 0; i < twin->change_count; i++)
        twin->changes[i]->is_applied |= (guess.used & 1u << i) != 0;
    twin->row.content = guess.content;
}

static void check_next(struct world *world, struct twin *twin, const struct timer *timer)
{
    const struct row *row = &twin->row;

    if (!row->is_stored || timer_is_over(row->state))
        wrong(world, twin, timer, "a timer that is over is written again");
    if (timer->state == TIMER_DEAD && timer->attempts == row->attempts &&
        row->attempts >= row->content.retry.attempts_max &&
        content_matches(&row->content, twin->number, timer))
        return; /* a patch had taken away its last attempts */
    if (timer->attempts == row->attempts + 1)
        check_outcome(world, twin, timer);
    else if (timer->version == row->version && timer->state == row->state &&
             timer->attempts == row->attempts &&
             content_matches(&row->content, twin->number, timer))
        check_spill(world, twin, timer);
    else
        check_changes(world, twin, timer);
}

static void keep_version(struct twin *twin)
{
    if (twin->version_count == twin->version_capacity) {
        twin->version_capacity = twin->version_capacity ? 2 * twin->version_capacity : 4;
        twin->versions = realloc(twin->versions, twin->version_capacity * sizeof(*twin->versions));
        assert(twin->versions);
    }
    twin->versions[twin->version_count++] =
        (struct version){twin->row.version, twin->row.state, twin->row.content};
}

static void write_row(struct world *world, uint16_t partition, const struct storage_write *write)
{
    const struct timer *timer = write->timer;
    struct twin *twin = model_twin_of(world, partition, timer);
    struct row *row = &twin->row;
    const bool is_new = twin->life != TWIN_DURABLE;

    world_note(world, timer_state_text(timer->state), partition, twin->number, timer->version,
               timer->at.ms);
    if (write->was_at.ms != (is_new ? 0 : row->at.ms))
        wrong(world, twin, timer, "the row is sought where it is not");
    if (is_new)
        check_create(world, twin, timer);
    else
        check_next(world, twin, timer);
    if (is_new) {
        twin->life = TWIN_DURABLE;
        twin->id = timer->id;
        row->content = twin->asked;
    }
    if (is_new || row->at.ms != timer->at.ms || row->state != timer->state)
        row->written_step = world->step;
    row->is_stored = true;
    if (!timer_is_over(timer->state)) {
        row->at = timer->at;
        twin->end_passed_ms = world->model.passed_ms[partition];
    }
    row->ended = timer->ended;
    row->state = timer->state;
    row->version = timer->version;
    row->attempts = timer->attempts;
    row->written_ms = world->time_ms;
    twin->calm_ms = world->time_ms;
    twin->is_damaged = false;
    keep_version(twin);
    world->totals->fired += timer->state == TIMER_FIRED;
    world->totals->dead += timer->state == TIMER_DEAD;
}

/* ---- a batch is durable ---- */

/* Rows of [from, to) were dropped: all of them must have been over for long enough. */
static void trim(struct world *world, uint16_t partition, struct wall from, struct wall to)
{
    for (size_t i = 0; i < world->model.count; i++) {
        struct twin *twin = world->model.twins[i];
        struct row *row = &twin->row;

        if (twin->partition != partition || twin->life != TWIN_DURABLE || !row->is_stored ||
            row->at.ms < from.ms || row->at.ms >= to.ms)
            continue;
        if (!timer_is_over(row->state) && !twin->is_damaged)
            world_fail(world, twin->number, "acknowledged is never lost", "its row was trimmed");
        if (!model_may_forget(world, twin) && !twin->is_damaged)
            world_fail(world, twin->number, "a final state is kept", "it was trimmed too early");
        row->is_stored = false;
        row->written_step = world->step;
    }
}

static void check_watermark(struct world *world, uint16_t partition,
                            const struct storage_meta *meta)
{
    static const char PROMISE[] = "the watermark never passes a live timer";

    if (meta->trim.ms > meta->watermark.ms)
        world_fail(world, 0, PROMISE, "trim %llu is beyond watermark %llu",
                   (unsigned long long)meta->trim.ms, (unsigned long long)meta->watermark.ms);
    for (size_t i = 0; i < world->model.count; i++) {
        const struct twin *twin = world->model.twins[i];

        if (twin->partition == partition && twin_is_live(twin) && !twin->is_damaged &&
            twin->row.at.ms < meta->watermark.ms)
            world_fail(world, twin->number, PROMISE, "watermark %llu, row at %llu",
                       (unsigned long long)meta->watermark.ms, (unsigned long long)twin->row.at.ms);
    }
}

void model_durable(struct world *world, const struct storage_batch *batch)
{
    struct storage_meta *meta = &world->model.metas[batch->partition];

    world_note(world, "durable", batch->partition, 0, batch->write_count, batch->meta.watermark.ms);
    for (size_t i = 0; i < batch->write_count; i++)
        write_row(world, batch->partition, &batch->writes[i]);
    trim(world, batch->partition, meta->trim, batch->meta.trim);
    if (batch->meta.epoch < meta->epoch)
        world_fail(world, 0, "the epoch never falls", "%llu after %llu",
                   (unsigned long long)batch->meta.epoch, (unsigned long long)meta->epoch);
    *meta = batch->meta;
    check_watermark(world, batch->partition, meta);
    world->totals->commits++;
}

void model_told(struct world *world, const struct storage_batch *batch)
{
    for (size_t i = 0; i < batch->write_count; i++) {
        struct twin *twin = model_twin_of(world, batch->partition, batch->writes[i].timer);

        if (batch->writes[i].timer->version > twin->told_version)
            twin->told_version = batch->writes[i].timer->version;
        twin->calm_ms = world->time_ms;
    }
}

static void restart_twin(struct world *world, struct twin *twin)
{
    if (twin->life == TWIN_ASKED)
        twin->life = TWIN_NEVER;
    twin->told_version = twin->row.version;
    twin->change_count = 0;
    twin->is_out = false;
    twin->has_outcome = false;
    twin->calm_ms = world->time_ms;
}

void model_restart(struct world *world, uint16_t partition)
{
    for (size_t i = 0; i < world->model.count; i++)
        if (world->model.twins[i]->partition == partition)
            restart_twin(world, world->model.twins[i]);
}

void model_crash(struct world *world)
{
    for (size_t i = 0; i < world->model.count; i++)
        restart_twin(world, world->model.twins[i]);
}

/* ---- the storage against the twins ---- */

static void compare_row(struct world *world, uint16_t partition, const struct timer *timer)
{
    const struct twin *twin = model_twin_of(world, partition, timer);
    const struct row *row = &twin->row;

    if (twin->life != TWIN_DURABLE || !row->is_stored || timer->state != row->state ||
        timer->version != row->version || timer->attempts != row->attempts ||
        timer->due.ms != row->content.due.ms ||
        !content_matches(&row->content, twin->number, timer))
        wrong(world, twin, timer, "the storage has another row");
}

void model_compare(struct world *world)
{
    size_t stored = 0, found = 0;

    for (uint16_t p = 0; p < world->plan.partition_count; p++) {
        const struct storage_scan scan = {p,        STORAGE_SCAN_ALL, {{0}, 0}, {WALL_NEVER, 0},
                                          SIZE_MAX, SIZE_MAX};
        struct storage_page page;

        if (storage_scan(world->disk.storage, &scan, &page, NULL) != ERROR_NONE)
            world_fail(world, 0, ROW, "the storage cannot be scanned");
        for (size_t i = 0; i < page.count; i++)
            compare_row(world, p, page.timers[i]);
        found += page.count;
        storage_page_free(&page);
    }
    /* A damaged row is either set aside or was read before it was damaged. */
    for (size_t i = 0; i < world->model.count; i++) {
        const struct twin *twin = world->model.twins[i];

        stored += twin->life == TWIN_DURABLE && twin->row.is_stored && !twin->is_damaged;
    }
    if (found != stored)
        world_fail(world, 0, "acknowledged is never lost", "%zu rows in the storage, not %zu",
                   found, stored);
}
