/* copy.c - see copy.h; the golden bytes of copy_test.c show the layout. */
#include "cluster/copy.h"

#include "cluster/wire_private.h"

/* Number of the first table of a cursor. Builds before sent names in a table of their own, and
 * counted from 0: neither kind may go on with a copy that the other began. */
enum { COPY_TABLE_FIRST = 8 };

static void copy_put_cursor(struct buffer *to, const struct storage_export *export)
{
    uint8_t table;
    const struct bytes key = storage_export_cursor(export, &table);

    buffer_append_le(to, COPY_TABLE_FIRST + table, 1);
    buffer_append_le(to, key.size, 1);
    buffer_append_bytes(to, key);
}

/* Reads the position of the next page. After the last table it has no key, and there is no next
 * page. */
static bool copy_take_cursor(struct wire_reader *reader, struct storage_export *export)
{
    const uint8_t table = (uint8_t)wire_take(reader, 1);
    const size_t size = (size_t)wire_take(reader, 1);

    if (reader->failed_ || table < COPY_TABLE_FIRST || size > (size_t)(reader->end_ - reader->at_))
        return false;
    const struct bytes key = {reader->at_, size};
    reader->at_ += size;
    return storage_export_seek(export, table - COPY_TABLE_FIRST, key);
}

void copy_put_ask(struct buffer *to, const struct wire_head *head,
                  const struct storage_export *export)
{
    const size_t begin =
        wire_begin(to, &(struct wire_head){WIRE_COPY_ASK, head->cluster, head->node, 1});

    buffer_append_le(to, export->partition, 2);
    copy_put_cursor(to, export);
    wire_end(to, begin);
}

bool copy_take_ask(struct wire_reader *reader, struct storage_export *ret_export)
{
    struct storage_export export = {.partition = (uint16_t)wire_take(reader, 2),
                                    .rows_max = COPY_ROWS_MAX,
                                    .bytes_max = COPY_BYTES_MAX};

    if (reader->head.count != 1 || !copy_take_cursor(reader, &export) || export.is_done ||
        !wire_is_over(reader))
        return false;
    *ret_export = export;
    return true;
}

static void copy_walk_place(struct wire_walk *walk, struct storage_export *at)
{
    WIRE(walk, at->partition, 2);
    WIRE(walk, at->place.next, 8);
    WIRE(walk, at->place.epoch, 8);
    WIRE(walk, at->place.seq, 8);
    WIRE(walk, at->place.incarnation, 8);
    WIRE(walk, at->place.node, 4);
    WIRE(walk, at->place.log_bytes, 8);
    WIRE(walk, at->place.live_bytes, 8);
}

void copy_put_page(struct buffer *to, const struct wire_head *head, const struct copy_page *page)
{
    const struct wire_head own = {WIRE_COPY_PAGE, head->cluster, head->node, page ? 1 : 0};
    const size_t begin = wire_begin(to, &own);

    if (page) {
        struct storage_export at = page->at;

        copy_walk_place(&(struct wire_walk){.to = to}, &at);
        copy_put_cursor(to, &at);
        buffer_append_le(to, page->row_count, 4);
        wire_put_text(to, page->rows);
    }
    wire_end(to, begin);
}

bool copy_take_page(struct wire_reader *reader, struct copy_page *ret_page)
{
    struct copy_page page = {.row_count = 0};

    if (reader->head.count != 1)
        return false;
    copy_walk_place(&(struct wire_walk){.from = reader}, &page.at);
    if (!copy_take_cursor(reader, &page.at))
        return false;
    page.row_count = (uint32_t)wire_take(reader, 4);
    page.rows = wire_take_text(reader, WIRE_MESSAGE_SIZE_MAX);
    if (!wire_is_over(reader) || !page.at.place.next)
        return false;
    *ret_page = page;
    return true;
}
