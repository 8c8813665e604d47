/* live.c - counts live timers by tenant, state and target origin. */
#include "engine/live.h"

#include "base/check.h"
#include "base/map.h"
#include "timer/fanout.h"
#include "timer/tenant.h"

#include <assert.h>
#include <stdlib.h>

struct live_tenant {
    uint64_t key;            /* tenant_key */
    struct list rows;        /* all rows of the tenant, `others` first */
    size_t row_count;        /* number of rows besides `others` */
    struct live_row *others; /* row for all origins that have no row of their own */
};

struct live {
    struct map tenants;    /* tenant_key -> live_tenant; tenants are never removed */
    struct map rows;       /* hash of a tenant and origin -> first row with that hash */
    struct list postponed; /* of the rows that have some */
    struct storage_position cursor;
    bool is_lost;  /* a timer could not be counted for want of memory */
    bool is_wrong; /* a timer was uncounted that had not been counted: a bug */
};

struct live *live_create(void)
{
    struct live *live = calloc(1, sizeof(*live));

    if (!live)
        return NULL;
    map_init(&live->tenants);
    map_init(&live->rows);
    list_init(&live->postponed);
    return live;
}

void live_destroy(struct live *live)
{
    size_t cursor = 0;

    if (!live)
        return;
    for (struct live_tenant *tenant; (tenant = map_next(&live->tenants, &cursor));) {
        LIST_FOR_EACH (&tenant->rows, link) {
            free(list_item(link, struct live_row, link_)->postponed_);
            free(list_item(link, struct live_row, link_));
        }
        free(tenant);
    }
    map_deinit(&live->rows);
    map_deinit(&live->tenants);
    free(live);
}

/* ---- rows ---- */

static struct bytes live_origin(const struct live_row *row)
{
    return (struct bytes){row->origin, row->origin_size};
}

static uint64_t live_key(const struct live_tenant *tenant, struct bytes origin)
{
    return random_mix(bytes_hash(tenant->key, origin));
}

/* Makes a row without adding it. Returns NULL if out of memory. */
static struct live_row *live_row_alloc(struct live_tenant *tenant, struct bytes origin)
{
    struct live_row *row = calloc(1, sizeof(*row) + origin.size);

    if (!row)
        return NULL;
    row->tenant_ = tenant;
    list_init(&row->link_);
    row->origin_size = origin.size;
    if (origin.size)
        memcpy(row->origin, origin.data, origin.size);
    return row;
}

/* Returns the tenant of that name, and makes it if needed. NULL if out of memory. */
static struct live_tenant *live_tenant(struct live *live, struct bytes name)
{
    const uint64_t key = tenant_key(name);
    struct live_tenant *tenant = map_get(&live->tenants, key);

    if (tenant)
        return tenant;
    tenant = calloc(1, sizeof(*tenant));
    if (!tenant)
        return NULL;
    tenant->key = key;
    tenant->others = live_row_alloc(tenant, (struct bytes){0});
    list_init(&tenant->rows);
    if (tenant->others && map_put(&live->tenants, key, tenant)) {
        list_push(&tenant->rows, &tenant->others->link_);
        return tenant;
    }
    free(tenant->others);
    free(tenant);
    return NULL;
}

/* Returns the tenant's row for the origin; NULL if there is none. */
static struct live_row *live_find(const struct live *live, const struct live_tenant *tenant,
                                  struct bytes origin)
{
    struct live_row *row = map_get(&live->rows, live_key(tenant, origin));

    while (row && (row->tenant_ != tenant || !bytes_equal(live_origin(row), origin)))
        row = row->next_;
    return row;
}

/* Makes and adds a row for the origin. Returns NULL if out of memory. */
static struct live_row *live_add(struct live *live, struct live_tenant *tenant, struct bytes origin)
{
    const uint64_t key = live_key(tenant, origin);
    struct live_row *row = live_row_alloc(tenant, origin);

    if (!row)
        return NULL;
    row->next_ = map_get(&live->rows, key);
    if (!map_put(&live->rows, key, row)) {
        free(row);
        return NULL;
    }
    list_push(&tenant->rows, &row->link_);
    tenant->row_count++;
    return row;
}

/* Removes and frees a row that counts no timer. */
static void live_remove(struct live *live, struct live_row *row)
{
    const uint64_t key = live_key(row->tenant_, live_origin(row));
    struct live_row *first = map_get(&live->rows, key);

    assert(first && row->total == 0);
    row->tenant_->row_count--;
    list_remove(&row->link_);
    if (first == row && !row->next_) {
        map_remove(&live->rows, key);
    } else if (first == row) {
        const bool is_put = map_put(&live->rows, key, row->next_);

        assert(is_put);
        (void)is_put;
    } else {
        while (first->next_ != row)
            first = first->next_;
        first->next_ = row->next_;
    }
    free(row);
}

/* Returns the row in which a timer with this tenant and origin is counted. NULL if out of
 * memory. */
static struct live_row *live_row_of(struct live *live, const struct timer *timer)
{
    struct live_tenant *tenant = live_tenant(live, timer->texts.tenant);
    const struct bytes origin = timer_shown_origin(timer);

    if (!tenant)
        return NULL;
    struct live_row *row = live_find(live, tenant, origin);
    if (!row && origin.size && tenant->others->total == 0 && tenant->row_count < LIVE_ORIGINS_MAX)
        row = live_add(live, tenant, origin);
    return row ? row : tenant->others;
}

/* ---- postponed timers ---- */

/* Width of a slot, as a power of two of milliseconds. Timers return within twice the time for which
 * a breaker stays open. So a slot is empty soon after, and its oldest due time is forgotten. */
#define LIVE_SLOT_BITS 14

static size_t live_slot(const struct timer *timer)
{
    return (timer->at.ms >> LIVE_SLOT_BITS) % LIVE_SLOTS;
}

static struct live_postponed *live_postponed_create(const struct live_row *row,
                                                    const struct timer *timer)
{
    const struct bytes tenant = timer->texts.tenant;
    struct bytes rest = timer->texts.target;
    const struct bytes url = row->origin_size ? bytes_cut(&rest, '?') : (struct bytes){0};
    struct live_postponed *postponed = calloc(1, sizeof(*postponed) + tenant.size + url.size);

    if (!postponed)
        return NULL;
    list_init(&postponed->link_);
    postponed->tenant_size = tenant.size;
    postponed->url_size = url.size;
    if (tenant.size)
        memcpy(postponed->text, tenant.data, tenant.size);
    if (url.size)
        memcpy(postponed->text + tenant.size, url.data, url.size);
    return postponed;
}

/* Forgets that timers of the row are postponed. */
static void live_postponed_drop(struct live_row *row)
{
    if (row->postponed_)
        list_remove(&row->postponed_->link_);
    free(row->postponed_);
    row->postponed_ = NULL;
}

/* Counts the timer in a slot if it is postponed. Without memory the count is too low. */
static void live_postpone(struct live *live, struct live_mark *mark, const struct timer *timer)
{
    struct live_row *row = mark->row;

    mark->slot = 0;
    if (!row || !timer_is_postponed(timer))
        return;
    if (!row->postponed_) {
        row->postponed_ = live_postponed_create(row, timer);
        if (!row->postponed_)
            return;
        list_push(&live->postponed, &row->postponed_->link_);
    }
    struct live_postponed *postponed = row->postponed_;
    const size_t i = live_slot(timer);
    postponed->slots_[i].oldest = postponed->slots_[i].count++
                                      ? wall_min(postponed->slots_[i].oldest, timer->due)
                                      : timer->due;
    postponed->count++;
    mark->slot = (uint8_t)(i + 1);
}

/* A slot may be empty already if there was no memory to count its timers. */
static void live_unpostpone(struct live_mark *mark)
{
    struct live_row *row = mark->row;

    if (row && row->postponed_ && mark->slot && row->postponed_->slots_[mark->slot - 1].count) {
        row->postponed_->slots_[mark->slot - 1].count--;
        if (--row->postponed_->count == 0)
            live_postponed_drop(row);
    }
    mark->slot = 0;
}

/* ---- counts ---- */

static void live_count(struct live *live, struct live_row *row, enum timer_state state)
{
    if (!row) {
        live->is_lost = true;
        return;
    }
    row->counts[state]++;
    row->total++;
}

static void live_uncount(struct live *live, struct live_row *row, enum timer_state state)
{
    if (!row || row->counts[state] == 0) {
        live->is_wrong = live->is_wrong || !live->is_lost;
        live->is_lost = true;
        return;
    }
    row->counts[state]--;
    row->total--;
    if (row->counts[TIMER_RETRYING] == 0)
        live_postponed_drop(row);
    if (row->total == 0 && row->origin_size)
        live_remove(live, row);
}

/* ---- timers in memory ---- */

/* Returns the state with which a live timer is counted: as clients see it, but for deliveries that
 * are in flight. */
static enum timer_state live_state(const struct timer *timer)
{
    return fanout_shown_state(timer);
}

void live_show(struct live *live, struct live_mark *mark, const struct timer *timer)
{
    struct live_row *row = timer_is_final(timer->state) ? NULL : live_row_of(live, timer);
    struct live_mark before = *mark;

    *mark = (struct live_mark){.as = LIVE_AS_NOTHING};
    if (!timer_is_final(timer->state)) {
        *mark = (struct live_mark){row, LIVE_AS_TIMER, (uint8_t)live_state(timer), 0};
        live_count(live, row, live_state(timer));
        live_postpone(live, mark, timer);
    }
    live_forget(live, &before);
}

/* Returns the row that counts the timer because its row was before the cursor; NULL if it is not
 * counted. A row before the cursor is counted unless another program wrote it. */
static struct live_row *live_counted(const struct live *live, const struct timer *timer)
{
    const struct storage_position position = {timer->at, timer->id.serial};
    const struct live_tenant *tenant = map_get(&live->tenants, tenant_key(timer->texts.tenant));

    if (timer_is_final(timer->state) || !tenant || !storage_position_before(position, live->cursor))
        return NULL;
    struct live_row *row = live_find(live, tenant, timer_shown_origin(timer));
    if (!row)
        row = tenant->others;
    return row->counts[live_state(timer)] > 0 ? row : NULL;
}

void live_take_in(struct live *live, struct live_mark *mark, const struct timer *timer)
{
    struct live_row *row = mark->as == LIVE_AS_ROW ? live_counted(live, timer) : NULL;

    if (row)
        *mark = (struct live_mark){row, LIVE_AS_TIMER, (uint8_t)live_state(timer),
                                   timer_is_postponed(timer) ? (uint8_t)(live_slot(timer) + 1) : 0};
    else
        live_show(live, mark, timer);
}

void live_queue(struct live *live, struct live_mark *mark)
{
    assert(mark->as == LIVE_AS_TIMER || live->is_lost);
    live_unpostpone(mark);
}

/* A row that is not in memory is counted as live_walk_row counts it. So a timer that was in a
 * dispatch queue is counted as postponed again. */
void live_leave(struct live *live, struct live_mark *mark, const struct timer *timer)
{
    const struct storage_position position = {timer->at, timer->id.serial};

    if (!storage_position_before(position, live->cursor)) {
        live_forget(live, mark);
    } else if (mark->as == LIVE_AS_TIMER && mark->state == TIMER_RETRYING) {
        struct live_mark before = *mark;

        live_postpone(live, mark, timer);
        live_unpostpone(&before);
    }
    *mark = (struct live_mark){.as = LIVE_AS_ROW};
}

void live_forget(struct live *live, struct live_mark *mark)
{
    if (mark->as == LIVE_AS_TIMER) {
        live_unpostpone(mark);
        live_uncount(live, mark->row, (enum timer_state)mark->state);
    }
    *mark = (struct live_mark){.as = LIVE_AS_NOTHING};
}

/* ---- rows of a walk ---- */

void live_walk_row(struct live *live, const struct timer *timer)
{
    const struct storage_position position = {timer->at, timer->id.serial};

    if (storage_position_before(position, live->cursor))
        return;
    struct live_mark mark = {.row = live_row_of(live, timer)};
    live_count(live, mark.row, live_state(timer));
    live_postpone(live, &mark, timer);
}

void live_walked(struct live *live, struct storage_position from, struct storage_position to)
{
    if (!storage_position_before(live->cursor, from) && storage_position_before(live->cursor, to))
        live->cursor = to;
    if (live->cursor.at.ms >= STORAGE_DEAD_FROM.ms)
        live->cursor.at = WALL_NEVER;
}

/* ---- questions ---- */

bool live_is_complete(const struct live *live)
{
    return live->cursor.at.ms == WALL_NEVER.ms && !live->is_lost;
}

const struct live_row *live_next(const struct live *live, struct bytes tenant,
                                 const struct live_row *row)
{
    const struct live_tenant *of = map_get(&live->tenants, tenant_key(tenant));

    if (!of)
        return NULL;
    struct list *next = row ? row->link_.next : of->rows.next;

    return next == &of->rows ? NULL : list_item(next, struct live_row, link_);
}

const struct live_postponed *live_next_postponed(const struct live *live,
                                                 const struct live_postponed *last)
{
    struct list *next = last ? last->link_.next : live->postponed.next;

    return next == &live->postponed ? NULL : list_item(next, struct live_postponed, link_);
}

struct wall live_postponed_oldest(const struct live_postponed *postponed)
{
    struct wall oldest = WALL_NEVER;

    for (size_t i = 0; i < LIVE_SLOTS; i++)
        if (postponed->slots_[i].count)
            oldest = wall_min(oldest, postponed->slots_[i].oldest);
    return oldest;
}

static void live_postponed_check(const struct live_row *row)
{
    uint64_t count = 0;

    if (!row->postponed_)
        return;
    for (size_t i = 0; i < LIVE_SLOTS; i++)
        count += row->postponed_->slots_[i].count;
    CHECK(count > 0 && count == row->postponed_->count);
    CHECK(count <= row->counts[TIMER_RETRYING]);
}

void live_check(const struct live *live)
{
    size_t cursor = 0;

    CHECK(!live->is_wrong);
    for (const struct live_tenant *tenant; (tenant = map_next(&live->tenants, &cursor));)
        for (const struct live_row *row = tenant->others; row;
             row = row->link_.next == &tenant->rows
                       ? NULL
                       : list_item(row->link_.next, struct live_row, link_)) {
            uint64_t total = 0;

            for (size_t i = 0; i < LIVE_STATES; i++)
                total += row->counts[i];
            live_postponed_check(row);
            CHECK(row->total == total && (total > 0 || row == tenant->others));
        }
}
