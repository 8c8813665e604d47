/* tablefile.c - finds what is damaged in a table of RocksDB, and mends it. */
#include "store/tablefile.h"

#include "store/tableblock.h"
#include "store/varint.h"

#include <stdlib.h>

enum {
    FOOTER_SIZE = 53, /* checksum kind 1, two handles and zeros 40, version 4, magic 8 */
    FOOTER_VERSION_AT = 41,
    FOOTER_VERSION = 5,
    SUM_XXH3 = 4,
    INDEX_PLAIN = 0,     /* sorted, in one part */
    INDEX_TWO_LEVEL = 2, /* a list of its parts */
    KIND_DELETED = 0,
    KIND_VALUE = 1,
    KIND_MERGED = 2,
    KIND_RANGE = 15,
    KIND_SIZE = 8,       /* after a key: its kind 1 and its sequence number 7 */
    VALUE_SIZE_MIN = 13, /* minimum value of our records; values of an index are smaller */
    WHOLE_KEY_EACH = 16, /* entries of an index */
    MENDS_MAX = 16,
    SEARCH_BYTES_MAX = 32 << 10, /* searched for the next block after a damaged one */
    FOUND_BYTES_MAX = 16 << 10,  /* maximum size of a block found so: a common one */
};

#define FOOTER_MAGIC UINT64_C(0x88e241b785f4cff7)

#define PROPERTIES_NAME "rocksdb.properties"
#define RANGES_NAME     "rocksdb.range_del"
#define FILTER_NAME     "partitionedfilter." /* begin of the name */

/* ---- the end of a table ---- */

/* Positions of a table's blocks, by its end. */
struct table_end {
    struct tablefile_block list, index, properties, ranges, filter;
};

/* Reads a handle in its shortest form; a longer one is a flipped bit. */
static bool tablefile_next_handle(struct bytes *text, struct tablefile_block *ret_block)
{
    const char *offset = text->data;
    if (!varint_next(text, &ret_block->offset))
        return false;
    const char *size = text->data;
    return varint_next(text, &ret_block->size) && (size - offset == 1 || size[-1]) &&
           (text->data - size == 1 || text->data[-1]);
}

static bool tablefile_is_within(size_t size, const struct tablefile_block *block)
{
    return block->size && block->offset < size && block->size < size - block->offset &&
           size - block->offset - block->size >= TABLEBLOCK_TRAILER;
}

static struct bytes tablefile_bytes_of(const char *data, const struct tablefile_block *block)
{
    return (struct bytes){data + block->offset, (size_t)block->size + TABLEBLOCK_TRAILER};
}

static bool tablefile_is_whole(const char *data, size_t size, const struct tablefile_block *block)
{
    return tablefile_is_within(size, block) &&
           tableblock_is_whole(data + block->offset, (size_t)block->size);
}

/* Reads the footer, where the list of blocks ends. */
static bool tablefile_read_footer(const char *data, size_t size, struct table_end *ret_end)
{
    if (size < FOOTER_SIZE)
        return false;
    const char *footer = data + size - FOOTER_SIZE;
    struct bytes handles = {footer + 1, FOOTER_VERSION_AT - 1};

    *ret_end = (struct table_end){0};
    if (footer[0] != SUM_XXH3 || get_le(footer + FOOTER_VERSION_AT, 4) != FOOTER_VERSION ||
        get_le(footer + FOOTER_VERSION_AT + 4, 8) != FOOTER_MAGIC ||
        !tablefile_next_handle(&handles, &ret_end->list) ||
        !tablefile_next_handle(&handles, &ret_end->index))
        return false;
    for (size_t i = 0; i < handles.size; i++)
        if (handles.data[i])
            return false;
    return tablefile_is_within(size, &ret_end->list) &&
           tablefile_is_within(size, &ret_end->index) &&
           ret_end->list.offset + ret_end->list.size + TABLEBLOCK_TRAILER == size - FOOTER_SIZE &&
           ret_end->index.offset < ret_end->list.offset;
}

static bool tablefile_key_is(const struct tableblock_walk *entry, const char *name)
{
    return bytes_equal((struct bytes){entry->key, entry->key_size},
                       (struct bytes){name, strlen(name)});
}

/* Finds the first damaged block of those that are read when a table is opened; size 0 if none.
 * Returns false if their positions are unknown. */
static bool tablefile_find_damage(const char *data, size_t size, struct table_end *ret_end,
                                  struct tablefile_block *ret_damaged)
{
    struct tableblock_walk entry;
    struct tablefile_block block;

    *ret_damaged = (struct tablefile_block){0};
    if (!tablefile_read_footer(data, size, ret_end))
        return false;
    if (!tablefile_is_whole(data, size, &ret_end->list)) {
        *ret_damaged = ret_end->list;
        return true;
    }
    if (!tablefile_is_whole(data, size, &ret_end->index))
        *ret_damaged = ret_end->index;
    if (!tableblock_begin((struct bytes){data + ret_end->list.offset, (size_t)ret_end->list.size},
                          &entry))
        return false;
    while (tableblock_next(&entry)) {
        struct bytes handle = entry.value;

        if (!tablefile_next_handle(&handle, &block) || !tablefile_is_within(size, &block))
            return false;
        if (tablefile_key_is(&entry, PROPERTIES_NAME))
            ret_end->properties = block;
        if (tablefile_key_is(&entry, RANGES_NAME))
            ret_end->ranges = block;
        if (bytes_has_prefix((struct bytes){entry.key, entry.key_size}, BYTES(FILTER_NAME)))
            ret_end->filter = block;
        if (!ret_damaged->size && !tablefile_is_whole(data, size, &block))
            *ret_damaged = block;
    }
    return true;
}

/* Corrects a flipped bit of the footer, which has no checksum: the bit is right if the footer
 * then leads to a valid list, and to a valid block that ends where, by this list, the next
 * begins. */
static bool tablefile_turn_footer_bit(char *data, size_t size)
{
    for (size_t bit = 0; size >= FOOTER_SIZE && bit < 8 * FOOTER_SIZE; bit++) {
        char *byte = &data[size - FOOTER_SIZE + bit / 8];
        struct tablefile_block damaged;
        struct table_end end;

        *byte = (char)(*byte ^ 1 << bit % 8);
        if (tablefile_find_damage(data, size, &end, &damaged) &&
            tablefile_is_whole(data, size, &end.list) &&
            tablefile_is_whole(data, size, &end.index)) {
            const uint64_t next = end.index.offset + end.index.size + TABLEBLOCK_TRAILER;

            if (next == end.properties.offset || next == end.ranges.offset)
                return true;
        }
        *byte = (char)(*byte ^ 1 << bit % 8);
    }
    return false;
}

/* ---- properties ---- */

/* Returns the value of a property; empty if there is none. */
static struct bytes tablefile_property(const char *data, const struct tablefile_block *properties,
                                       const char *name)
{
    struct tableblock_walk entry;

    if (properties->size &&
        tableblock_begin((struct bytes){data + properties->offset, (size_t)properties->size},
                         &entry))
        while (tableblock_next(&entry))
            if (tablefile_key_is(&entry, name))
                return entry.value;
    return (struct bytes){0};
}

/* Finds the properties. If the list is damaged too, by how they begin. */
static struct tablefile_block tablefile_find_properties(const char *data, size_t size)
{
    static const char begin[] = "rocksdb.";

    for (size_t at = size; at-- > 3;) {
        if (size - at < sizeof(begin) || memcmp(data + at, begin, sizeof(begin) - 1) != 0)
            continue;
        const struct bytes rest = {data + at - 3,
                                   size - at < FOUND_BYTES_MAX ? size - at + 3 : FOUND_BYTES_MAX};
        const struct tablefile_block block = {at - 3, tableblock_find_end(rest)};

        if (block.size && tablefile_property(data, &block, "rocksdb.data.size").size)
            return block;
    }
    return (struct tablefile_block){0};
}

static void tablefile_note_table(const char *data, const struct tablefile_block *properties,
                                 struct tablefile_repair *repair)
{
    const struct bytes name = tablefile_property(data, properties, "rocksdb.column.family.name");

    if (name.size < sizeof(repair->table) && name.size)
        memcpy(repair->table, name.data, name.size);
}

/* ---- the blocks that an index names ---- */

/* Reads the next entry of an index: the handle of a block. An entry that shares bytes of its key
 * has the difference to the size of the block before, which it follows. */
static bool tablefile_next_named(struct bytes *entries, struct tablefile_block *block)
{
    uint64_t shared, rest, more;

    if (!varint_next(entries, &shared) || !varint_next(entries, &rest) || rest > entries->size)
        return false;
    *entries = (struct bytes){entries->data + rest, entries->size - (size_t)rest};
    if (!shared)
        return tablefile_next_handle(entries, block);
    if (!varint_next(entries, &more))
        return false;
    block->offset += block->size + TABLEBLOCK_TRAILER;
    block->size += more % 2 ? ~(more / 2) : more / 2;
    return true;
}

/* Finds the first damaged block that the index names, or with two levels that these name; size 0
 * if none. An index in another form names none. */
static struct tablefile_block tablefile_find_named(const char *data, size_t size,
                                                   const struct tablefile_block *index,
                                                   unsigned levels)
{
    struct tablefile_block block = {0}, damaged = {0};
    struct buffer room;
    struct bytes content;

    buffer_init(&room);
    if (tableblock_open(tablefile_bytes_of(data, index), &room, &content) && content.size >= 4) {
        const uint64_t restarts = get_le(content.data + content.size - 4, 4);

        content.size = restarts < content.size / 4 ? content.size - 4 * ((size_t)restarts + 1) : 0;
        while (!damaged.size && content.size && tablefile_next_named(&content, &block) &&
               tablefile_is_within(size, &block))
            if (!tablefile_is_whole(data, size, &block))
                damaged = block;
            else if (levels > 1)
                damaged = tablefile_find_named(data, size, &block, levels - 1);
    }
    buffer_deinit(&room);
    return damaged;
}

/* Finds the first damaged block of records, parts of the index and of the filter; size 0 if
 * none. */
static struct tablefile_block tablefile_find_inner(const char *data, size_t size,
                                                   const struct table_end *end)
{
    const struct bytes type =
        tablefile_property(data, &end->properties, "rocksdb.block.based.table.index.type");
    const bool has_parts = type.size == 4 && get_le(type.data, 4) == INDEX_TWO_LEVEL;
    const struct tablefile_block damaged =
        tablefile_find_named(data, size, &end->index, has_parts ? 2 : 1);

    return damaged.size || !end->filter.size ? damaged
                                             : tablefile_find_named(data, size, &end->filter, 1);
}

/* ---- blocks of records ---- */

struct table_rows {
    struct table_part *parts; /* blocks in order */
    size_t count, capacity;
    size_t end;       /* end of the last of them */
    uint64_t records; /* records in all of them */
    uint64_t bytes;
    bool shares_keys; /* whether two blocks have records of one key */
    struct buffer room;
};

struct table_part {
    struct tablefile_block block;
    uint64_t records;
    size_t first_size, last_size;
    char first[TABLEBLOCK_KEY_SIZE], last[TABLEBLOCK_KEY_SIZE]; /* keys, with their kinds */
};

/* Orders keys; of equal keys the newest record is first. */
static int tablefile_compare(const char *a, size_t a_size, const char *b, size_t b_size)
{
    const size_t a_key = a_size - KIND_SIZE, b_key = b_size - KIND_SIZE;
    const int order = memcmp(a, b, a_key < b_key ? a_key : b_key);

    if (order || a_key != b_key)
        return order ? order : a_key < b_key ? -1 : 1;
    const uint64_t a_number = get_le(a + a_key, KIND_SIZE), b_number = get_le(b + b_key, KIND_SIZE);
    return a_number > b_number ? -1 : a_number < b_number;
}

static bool tablefile_is_record(const struct tableblock_walk *entry)
{
    if (entry->key_size <= KIND_SIZE)
        return false;
    switch (entry->key[entry->key_size - KIND_SIZE]) {
    case KIND_VALUE:
    case KIND_MERGED:
        return entry->value.size >= VALUE_SIZE_MIN;
    case KIND_DELETED: /* one with a value fills a block that an older version set aside */
        return !entry->value.size || entry->value.size >= VALUE_SIZE_MIN;
    default:
        return false;
    }
}

/* Reads a block of records. Returns false if it is another one, or they are not in order. An
 * empty block replaces a lost one. */
static bool tablefile_read_part(const char *data, struct buffer *room, struct table_part *part)
{
    struct bytes content;
    struct tableblock_walk entry;

    if (!tableblock_open(tablefile_bytes_of(data, &part->block), room, &content) ||
        !tableblock_begin(content, &entry))
        return false;
    while (tableblock_next(&entry)) {
        if (part->records == 0 && entry.key_size == 0 && !entry.value.size)
            break;
        if (!tablefile_is_record(&entry) ||
            (part->records &&
             tablefile_compare(part->last, part->last_size, entry.key, entry.key_size) >= 0))
            return false;
        memcpy(part->last, entry.key, entry.key_size);
        part->last_size = entry.key_size;
        if (!part->records++) {
            memcpy(part->first, entry.key, entry.key_size);
            part->first_size = entry.key_size;
        }
    }
    for (size_t i = 0; !part->records && i < entry.rest.size; i++)
        if (entry.rest.data[i])
            return false;
    return !part->records || !entry.rest.size;
}

/* True if the block may follow those that were read. */
static bool tablefile_may_follow(const struct table_rows *rows, const struct table_part *part)
{
    const struct table_part *before = rows->count ? &rows->parts[rows->count - 1] : NULL;

    return !before || !part->records ||
           tablefile_compare(before->last, before->last_size, part->first, part->first_size) < 0;
}

static bool tablefile_add_part(struct table_rows *rows, const struct table_part *part)
{
    if (rows->count == rows->capacity) {
        const size_t capacity = rows->capacity ? 2 * rows->capacity : 256;
        struct table_part *parts = realloc(rows->parts, capacity * sizeof(*parts));

        if (!parts)
            return false;
        rows->parts = parts;
        rows->capacity = capacity;
    }
    if (rows->count) {
        const struct table_part *before = &rows->parts[rows->count - 1];

        rows->shares_keys |= before->last_size == part->first_size &&
                             !memcmp(before->last, part->first, part->first_size - KIND_SIZE);
    }
    rows->parts[rows->count++] = *part;
    rows->records += part->records;
    rows->bytes += part->block.size;
    return true;
}

/* Makes one block without entries of the bytes. */
static void tablefile_fill(char *data, uint64_t from, uint64_t to)
{
    memset(data + from, 0, (size_t)(to - from));
    if (to - from > TABLEBLOCK_TRAILER)
        tableblock_seal(data + from, (size_t)(to - from) - TABLEBLOCK_TRAILER);
}

static void tablefile_lose(char *data, const struct tablefile_block *block,
                           struct tablefile_repair *repair)
{
    if (!repair->blocks_lost++)
        repair->damaged = *block;
    repair->records_lost += block->size; /* in bytes until all records are known */
    tablefile_fill(data, block->offset, block->offset + block->size + TABLEBLOCK_TRAILER);
}

/* Finds the next block of records after a damaged one; size 0 if none is near. */
static struct tablefile_block tablefile_search(const char *data, size_t from, size_t to,
                                               struct table_rows *rows)
{
    for (size_t at = from; at + 4 < to && at - from < SEARCH_BYTES_MAX; at++) {
        if (!get_le(data + at, 4)) /* no block of records begins like this */
            continue;
        const size_t room = to - at < FOUND_BYTES_MAX ? to - at : FOUND_BYTES_MAX;
        struct table_part part = {
            .block = {at, tableblock_find_end((struct bytes){data + at, room})}};

        if (part.block.size && tablefile_read_part(data, &rows->room, &part) && part.records &&
            tablefile_may_follow(rows, &part))
            return part.block;
    }
    return (struct tablefile_block){0};
}

/* Reads all blocks of records up to `to`. With `is_end_known` all blocks there are records. */
static bool tablefile_read_rows(char *data, size_t to, bool is_end_known,
                                const struct tablefile_block *damaged, struct table_rows *rows,
                                struct tablefile_repair *repair)
{
    size_t at = 0;

    while (at + TABLEBLOCK_TRAILER < to) {
        struct table_part part = {.block = {at, 0}};

        if (damaged->size && damaged->offset == at)
            part.block.size = damaged->size;
        else
            part.block.size = tableblock_find_end((struct bytes){data + at, to - at});
        if (part.block.size && tablefile_is_whole(data, to, &part.block) &&
            tablefile_read_part(data, &rows->room, &part) && tablefile_may_follow(rows, &part)) {
            if (part.records && !tablefile_add_part(rows, &part))
                return false;
        } else {
            if (part.block.size && !is_end_known && damaged->offset != at)
                break;
            if (!part.block.size) {
                const struct tablefile_block next = tablefile_search(data, at + 1, to, rows);

                if (!next.size || next.offset - at <= TABLEBLOCK_TRAILER)
                    return false;
                part.block.size = next.offset - at - TABLEBLOCK_TRAILER;
            }
            tablefile_lose(data, &part.block, repair);
        }
        at += part.block.size + TABLEBLOCK_TRAILER;
    }
    rows->end = at;
    return rows->count > 0;
}

/* ---- a new end ---- */

static void tablefile_append_handle(struct buffer *to, uint64_t offset, uint64_t size)
{
    varint_append(to, offset);
    varint_append(to, size);
}

static void tablefile_append_fixed(struct buffer *to, uint64_t number, size_t size)
{
    char bytes[8];

    put_le(bytes, number, size);
    buffer_append(to, bytes, size);
}

/* Appends an entry with its whole key. */
static void tablefile_append_entry(struct buffer *to, const char *key, struct bytes value)
{
    varint_append(to, 0);
    varint_append(to, strlen(key));
    varint_append(to, value.size);
    buffer_append_text(to, key);
    buffer_append_bytes(to, value);
}

/* Ends a block of such entries, the first of which is at 0. */
static void tablefile_end_entries(struct buffer *to)
{
    tablefile_append_fixed(to, 0, 4);
    tablefile_append_fixed(to, 1, 4);
    tableblock_append_trailer(to);
}

/* Appends an index: an entry for each block with its last key, without the kind if no two blocks
 * share a key. Its value is the block's handle; after an entry that shares bytes of its key, the
 * difference to the size of the block before, which it follows. */
static void tablefile_append_index(struct buffer *to, const struct table_rows *rows)
{
    const size_t cut = rows->shares_keys ? 0 : KIND_SIZE;
    struct buffer restarts;
    uint32_t restart_count = 0;

    buffer_init(&restarts);
    for (size_t i = 0; i < rows->count; i++) {
        const struct table_part *part = &rows->parts[i], *before = i ? part - 1 : part;
        const bool follows = i && before->block.offset + before->block.size + TABLEBLOCK_TRAILER ==
                                      part->block.offset;
        const size_t key_size = part->last_size - cut;
        size_t shared = 0;

        if (!follows || i % WHOLE_KEY_EACH == 0) {
            tablefile_append_fixed(&restarts, to->size, 4);
            restart_count++;
        } else {
            while (shared < key_size && shared < before->last_size - cut &&
                   part->last[shared] == before->last[shared])
                shared++;
        }
        varint_append(to, shared);
        varint_append(to, key_size - shared);
        buffer_append(to, part->last + shared, key_size - shared);
        if (shared) {
            const int64_t more = (int64_t)part->block.size - (int64_t)before->block.size;

            varint_append(to, more < 0 ? 2 * (uint64_t)-more - 1 : 2 * (uint64_t)more);
        } else {
            tablefile_append_handle(to, part->block.offset, part->block.size);
        }
    }
    buffer_append_bytes(to, buffer_bytes(&restarts));
    tablefile_append_fixed(to, restart_count, 4);
    if (buffer_failed(&restarts))
        to->failed = true;
    buffer_deinit(&restarts);
    tableblock_append_trailer(to);
}

/* Appends properties that describe the index. The old ones describe the old index, with values
 * of equal sizes. */
static void tablefile_append_properties(struct buffer *to, const char *data,
                                        const struct tablefile_block *old,
                                        const struct table_rows *rows)
{
    const char plain[4] = {INDEX_PLAIN}, is_user_key = (char)!rows->shares_keys, is_delta = 1;
    const struct {
        const char *name;
        struct bytes value;
    } known[] = {
        {"rocksdb.block.based.table.index.type", {plain, sizeof(plain)}},
        {"rocksdb.index.key.is.user.key", {&is_user_key, 1}},
        {"rocksdb.index.value.is.delta.encoded", {&is_delta, 1}},
    };

    if (old->size)
        buffer_append(to, data + old->offset, (size_t)old->size);
    for (size_t i = 0; i < sizeof(known) / sizeof(*known) && !buffer_failed(to); i++) {
        const struct bytes was = tablefile_property(data, old, known[i].name);

        if (!old->size)
            tablefile_append_entry(to, known[i].name, known[i].value);
        else if (was.size == known[i].value.size)
            memcpy(to->data + (was.data - data) - old->offset, known[i].value.data, was.size);
        else
            to->failed = true;
    }
    if (old->size)
        tableblock_append_trailer(to);
    else
        tablefile_end_entries(to);
}

/* Finds the deleted ranges, which precede the properties. */
static struct tablefile_block tablefile_find_ranges(const char *data, size_t from,
                                                    const struct tablefile_block *properties)
{
    struct tableblock_walk entry;

    for (size_t at = properties->offset;
         at-- > from + TABLEBLOCK_TRAILER && properties->offset - at < SEARCH_BYTES_MAX;) {
        const struct tablefile_block block = {at, properties->offset - at - TABLEBLOCK_TRAILER};

        if (properties->offset - at <= TABLEBLOCK_TRAILER ||
            !tablefile_is_whole(data, (size_t)properties->offset, &block))
            continue;
        if (tableblock_begin((struct bytes){data + at, (size_t)block.size}, &entry) &&
            tableblock_next(&entry) && entry.key_size > KIND_SIZE &&
            entry.key[entry.key_size - KIND_SIZE] == KIND_RANGE)
            return block;
        break;
    }
    return (struct tablefile_block){0};
}

struct table_pieces {
    struct buffer ranges, index, properties, list;
};

/* Writes the pieces after the records, and list and footer at the end. */
static bool tablefile_place(char *data, size_t size, size_t from, struct table_pieces *pieces)
{
    const uint64_t index_at = from + pieces->ranges.size;
    const uint64_t properties_at = index_at + pieces->index.size;
    struct buffer handle, footer;

    buffer_init(&handle);
    buffer_init(&footer);
    tablefile_append_handle(&handle, properties_at, pieces->properties.size - TABLEBLOCK_TRAILER);
    tablefile_append_entry(&pieces->list, PROPERTIES_NAME, buffer_bytes(&handle));
    if (pieces->ranges.size) {
        buffer_clear(&handle);
        tablefile_append_handle(&handle, from, pieces->ranges.size - TABLEBLOCK_TRAILER);
        tablefile_append_entry(&pieces->list, RANGES_NAME, buffer_bytes(&handle));
    }
    tablefile_end_entries(&pieces->list);
    const uint64_t end = properties_at + pieces->properties.size;
    const uint64_t list_at = size - FOOTER_SIZE - pieces->list.size;
    tablefile_append_fixed(&footer, SUM_XXH3, 1);
    tablefile_append_handle(&footer, list_at, pieces->list.size - TABLEBLOCK_TRAILER);
    tablefile_append_handle(&footer, index_at, pieces->index.size - TABLEBLOCK_TRAILER);
    while (footer.size < FOOTER_VERSION_AT && !buffer_failed(&footer))
        tablefile_append_fixed(&footer, 0, 1);
    tablefile_append_fixed(&footer, FOOTER_VERSION, 4);
    tablefile_append_fixed(&footer, FOOTER_MAGIC, 8);
    const bool fits = !buffer_failed(&handle) && !buffer_failed(&footer) &&
                      !buffer_failed(&pieces->list) &&
                      end + pieces->list.size + FOOTER_SIZE <= size;
    if (fits) {
        tablefile_fill(data, end, list_at);
        if (pieces->ranges.size)
            memcpy(data + from, pieces->ranges.data, pieces->ranges.size);
        memcpy(data + index_at, pieces->index.data, pieces->index.size);
        memcpy(data + properties_at, pieces->properties.data, pieces->properties.size);
        memcpy(data + list_at, pieces->list.data, pieces->list.size);
        memcpy(data + size - FOOTER_SIZE, footer.data, FOOTER_SIZE);
    }
    buffer_deinit(&footer);
    buffer_deinit(&handle);
    return fits;
}

static bool tablefile_write_end(char *data, size_t size, const struct table_rows *rows,
                                const struct table_end *end)
{
    struct table_pieces pieces = {0};
    const struct tablefile_block ranges =
        tablefile_is_whole(data, size, &end->ranges)
            ? end->ranges
            : tablefile_find_ranges(data, rows->end, &end->properties);

    if (ranges.size)
        buffer_append_bytes(&pieces.ranges, tablefile_bytes_of(data, &ranges));
    tablefile_append_index(&pieces.index, rows);
    tablefile_append_properties(&pieces.properties, data, &end->properties, rows);
    const bool is_written = !buffer_failed(&pieces.ranges) && !buffer_failed(&pieces.index) &&
                            !buffer_failed(&pieces.properties) &&
                            tablefile_place(data, size, rows->end, &pieces);
    buffer_deinit(&pieces.ranges);
    buffer_deinit(&pieces.index);
    buffer_deinit(&pieces.properties);
    buffer_deinit(&pieces.list);
    return is_written;
}

static bool tablefile_make_end(char *data, size_t size, const struct tablefile_block *damaged,
                               struct table_end *end, struct tablefile_repair *repair)
{
    struct table_rows rows = {0};
    uint64_t rows_size = 0;

    if (!tablefile_is_whole(data, size, &end->properties))
        end->properties = tablefile_find_properties(data, size);
    struct bytes text = tablefile_property(data, &end->properties, "rocksdb.data.size");
    const bool is_end_known = varint_next(&text, &rows_size) && rows_size < size;
    tablefile_note_table(data, &end->properties, repair);
    bool is_made = tablefile_read_rows(data, is_end_known ? (size_t)rows_size : size, is_end_known,
                                       damaged, &rows, repair) &&
                   tablefile_write_end(data, size, &rows, end);
    if (repair->blocks_lost && rows.bytes)
        repair->records_lost = repair->records_lost * rows.records / rows.bytes + 1;
    repair->has_new_end = true;
    repair->has_properties = end->properties.size > 0;
    free(rows.parts);
    buffer_deinit(&rows.room);
    return is_made;
}

/* ---- mending ---- */

bool tablefile_mend(char *data, size_t size, struct tablefile_repair *ret_repair)
{
    struct tablefile_repair *repair = ret_repair;
    struct tablefile_block block = {0};
    struct table_end end = {0};

    *repair = (struct tablefile_repair){.has_properties = true};
    for (unsigned i = 0; i < MENDS_MAX; i++) {
        if (!repair->damaged.size)
            repair->damaged = block;
        if (block.size) {
            if (!tableblock_turn_bit(data + block.offset, (size_t)block.size))
                break;
            repair->bits++;
        }
        const bool is_known = tablefile_find_damage(data, size, &end, &block);
        if (is_known && !block.size)
            block = tablefile_find_inner(data, size, &end);
        if (is_known && !block.size) {
            tablefile_note_table(data, &end.properties, repair);
            return true;
        }
        if (is_known && tablefile_is_whole(data, size, &end.list) &&
            tablefile_is_whole(data, size, &end.index))
            continue;
        const bool is_footer_mended = tablefile_turn_footer_bit(data, size);
        if ((is_footer_mended || !is_known) && size > FOOTER_SIZE)
            repair->damaged = (struct tablefile_block){size - FOOTER_SIZE, FOOTER_SIZE};
        if (is_footer_mended) {
            repair->bits++;
            block.size = 0;
        } else if (!is_known) {
            break;
        }
    }
    return tablefile_make_end(data, size, &block, &end, repair) && tablefile_is_sound(data, size);
}

bool tablefile_is_sound(const char *data, size_t size)
{
    struct tablefile_block damaged;
    struct table_end end;

    return tablefile_find_damage(data, size, &end, &damaged) && !damaged.size &&
           !tablefile_find_inner(data, size, &end).size;
}
