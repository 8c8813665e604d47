/* live.c - counts live timers by tenant, state and target origin. */
#include "engine/live.h"

#include "base/check.h"
#include "base/map.h"
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
    struct map tenants; /* tenant_key -> live_tenant; tenants are never removed */
    struct map rows;    /* hash of a tenant and origin -> first row with that hash */
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
    return live;
}

void live_destroy(struct live *live)
{
    size_t cursor = 0;

    if (!live)
        return;
    for (struct live_tenant *tenant; (tenant = map_next(&live->tenants, &cursor));) {
        LIST_FOR_EACH (&tenant->rows, link)
            free(list_item(link, struct live_row, link_));
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
    if (row->total == 0 && row->origin_size)
        live_remove(live, row);
}

/* ---- timers in memory ---- */

void live_show(struct live *live, struct live_mark *mark, const struct timer *timer)
{
    struct live_row *row = timer_is_final(timer->state) ? NULL : live_row_of(live, timer);
    const struct live_mark before = *mark;

    *mark = (struct live_mark){.as = LIVE_AS_NOTHING};
    if (!timer_is_final(timer->state)) {
        *mark = (struct live_mark){row, LIVE_AS_TIMER, (uint8_t)timer->state};
        live_count(live, row, timer->state);
    }
    if (before.as == LIVE_AS_TIMER)
        live_uncount(live, before.row, (enum timer_state)before.state);
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
    return row->counts[timer->state] > 0 ? row : NULL;
}

void live_take_in(struct live *live, struct live_mark *mark, const struct timer *timer)
{
    struct live_row *row = mark->as == LIVE_AS_ROW ? live_counted(live, timer) : NULL;

    if (row)
        *mark = (struct live_mark){row, LIVE_AS_TIMER, (uint8_t)timer->state};
    else
        live_show(live, mark, timer);
}

void live_leave(struct live *live, struct live_mark *mark, struct storage_position position)
{
    if (!storage_position_before(position, live->cursor))
        live_forget(live, mark);
    *mark = (struct live_mark){.as = LIVE_AS_ROW};
}

void live_forget(struct live *live, struct live_mark *mark)
{
    if (mark->as == LIVE_AS_TIMER)
        live_uncount(live, mark->row, (enum timer_state)mark->state);
    *mark = (struct live_mark){.as = LIVE_AS_NOTHING};
}

/* ---- rows of a walk ---- */

void live_walk_row(struct live *live, const struct timer *timer)
{
    const struct storage_position position = {timer->at, timer->id.serial};

    if (!storage_position_before(position, live->cursor))
        live_count(live, live_row_of(live, timer), timer->state);
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
            CHECK(row->total == total && (total > 0 || row == tenant->others));
        }
}
