/*
 * copy.h - a copy of a partition from another node, page by page, as messages (wire.h).
 *
 * The giver keeps nothing between two pages. So a page says where the next one begins, and at
 * which place of the log its rows are. Pages of one copy may be of several places, and of several
 * nodes; docs/cluster-design.md says why they fit together.
 *
 *     copy_put_ask(&buffer, &head, &export);
 *     copy_put_page(&buffer, &head, &page);
 *
 *     if (wire_open(bytes, &reader, &error) == ERROR_NONE && reader.head.kind == WIRE_COPY_PAGE &&
 *         copy_take_page(&reader, &page))
 *         ... page.rows borrow from the bytes ...
 *
 * A message that is accepted is the only encoding of its contents. wire.h has the
 * head; the golden bytes of the tests show the rest.
 *
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_CLUSTER_COPY_H
#define TICKWHEEL_CLUSTER_COPY_H

#include "cluster/wire.h"

enum {
    COPY_ROWS_MAX = 4096,       /* maximum of rows and other records of a page */
    COPY_BYTES_MAX = 256 << 10, /* maximum size of a page, not counting its last row */
};

struct copy_page {
    struct storage_export at; /* partition, place of the rows, and position of the next page */
    struct bytes rows;        /* input of storage_apply; empty if there is none */
    uint32_t row_count;       /* number of those rows, for statistics */
};

/* Appends a request for the page at which the export stands. `head` has the cluster and the
 * sender. */
void copy_put_ask(struct buffer *to, const struct wire_head *head,
                  const struct storage_export *export);

/* Reads such a request, and limits the export to a page. Returns false if it is damaged. */
bool copy_take_ask(struct wire_reader *reader, struct storage_export *ret_export);

/* Appends a page; NULL says that this node gives none. */
void copy_put_page(struct buffer *to, const struct wire_head *head, const struct copy_page *page);

/* Reads a page. Returns false if it is damaged or says that there is none. */
bool copy_take_page(struct wire_reader *reader, struct copy_page *ret_page);

/* True if the rows at this place are all rows of the log before it. */
static inline bool copy_is_whole(const struct storage_place *place)
{
    return place->next && !place->sweep_end && !place->copy_end;
}

#endif
