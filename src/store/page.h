/*
 * page.h - the rows of one scan, gathered from whatever order a backend keeps them in.
 *
 * Ownership  The builder owns the page until page_builder_finish or page_builder_drop.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_STORE_PAGE_H
#define TICKWHEEL_STORE_PAGE_H

#include "store/record.h"

struct page_builder {
    const struct storage_scan *scan;
    struct storage_page page;
    size_t capacity, bytes;
    struct storage_position last; /* last row examined */
    struct wall over_before;      /* timers that ended before it are skipped, except dead letters */
};

static inline void page_builder_init(struct page_builder *builder, const struct storage_scan *scan,
                                     struct wall over_before)
{
    *builder = (struct page_builder){.scan = scan, .over_before = over_before};
}

/* Adds the next row, in order; skips rows that the scan does not want. ERROR_CORRUPT if the row
 * is damaged: the scan continues. ERROR_NO_MEMORY ends the scan. */
enum error_code page_builder_add(struct page_builder *builder, struct record_key key,
                                 struct bytes value);

/* True if the limits of the scan are reached: add no more. */
static inline bool page_builder_is_full(const struct page_builder *builder)
{
    const struct storage_scan *scan = builder->scan;
    const struct storage_page *page = &builder->page;

    return page->count >= scan->rows_max || (scan->looks_max && page->looked >= scan->looks_max) ||
           (builder->bytes && builder->bytes >= scan->bytes_max);
}

/* Returns the page. If it is full the scan continues after its last row. */
void page_builder_finish(struct page_builder *builder, struct storage_page *ret_page);

/* Frees the page after an error. */
void page_builder_drop(struct page_builder *builder);

#endif
