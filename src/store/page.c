/* page.c - fills the page of a scan, within its limits. */
#include "store/page.h"

#include "timer/labels.h"

#include <assert.h>
#include <stdlib.h>

static bool page_reserve_one(struct page_builder *builder)
{
    size_t capacity = builder->capacity ? 2 * builder->capacity : 16;

    if (builder->page.count < builder->capacity)
        return true;
    struct timer **timers = realloc(builder->page.timers, capacity * sizeof(*timers));
    if (!timers)
        return false;
    builder->page.timers = timers;
    builder->capacity = capacity;
    return true;
}

/* True if the scan skips the timer because of its state. */
static bool page_is_over(const struct page_builder *builder, const struct timer *view)
{
    return timer_is_final(view->state) &&
           (builder->scan->kind == STORAGE_SCAN_LIVE ||
            (view->ended.ms < builder->over_before.ms && !storage_is_dead_letter(view)));
}

static bool page_is_own(const struct storage_scan *scan, const struct timer *view)
{
    return !scan->looks_max || bytes_equal(view->texts.tenant, scan->tenant);
}

/* True if a timer of the scan's tenant has its labels and fits its filter. */
static bool page_is_wanted(const struct storage_scan *scan, const struct timer *view)
{
    return !scan->looks_max || (labels_have_all(view->texts.labels, scan->labels) &&
                                (!scan->filter || timer_filter_fits(scan->filter, view)));
}

enum error_code page_builder_add(struct page_builder *builder, struct record_key key,
                                 struct bytes value)
{
    const struct storage_scan *scan = builder->scan;
    struct timer view;
    enum error_code code = record_row_decode(key, value, &view, NULL);

    assert(!page_builder_is_full(builder));
    if (code)
        return code;
    const bool is_over = page_is_over(builder, &view);
    builder->last = record_row_position(key);
    const bool is_own = !is_over && page_is_own(scan, &view);
    builder->page.looked += !is_over;
    builder->page.own += is_own;
    if (!is_own || !page_is_wanted(scan, &view)) {
        builder->bytes += scan->looks_max ? value.size : 0;
        return ERROR_NONE;
    }
    struct timer *timer = page_reserve_one(builder) ? timer_copy(&view, &view.texts) : NULL;
    if (!timer)
        return ERROR_NO_MEMORY;
    builder->page.timers[builder->page.count++] = timer;
    builder->bytes += timer->footprint + scan->row_bytes;
    return ERROR_NONE;
}

static struct storage_position page_position_after(struct storage_position position)
{
    if (position.serial < UINT64_MAX)
        return (struct storage_position){position.at, position.serial + 1};
    return (struct storage_position){wall_add(position.at, 1), 0};
}

void page_builder_finish(struct page_builder *builder, struct storage_page *ret_page)
{
    builder->page.next =
        page_builder_is_full(builder) ? page_position_after(builder->last) : builder->scan->to;
    *ret_page = builder->page;
}

void page_builder_drop(struct page_builder *builder)
{
    storage_page_free(&builder->page);
}

void storage_page_free(struct storage_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        timer_free(page->timers[i]);
    free(page->timers);
    page->timers = NULL;
    page->count = 0;
}
