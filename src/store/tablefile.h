/*
 * tablefile.h - mends a table of RocksDB (000012.sst) with damaged blocks, from the blocks that are
 * whole.
 *
 * A table is a list of blocks from offset 0: first the records in order of their keys, then filters
 * and the index, deleted ranges, properties, a list of the blocks that are no records, and a footer
 * that says where that list and the index are. RocksDB ends a read at each damaged block, and does
 * not open a table whose end is damaged. There are two remedies:
 *
 *   a bit       If turning one bit back makes the checksum of a block fit, nothing is lost.
 *   a new end   Otherwise the file gets a new index, made from the blocks of records: each begins
 *               where the one before ends, and ends where its checksum fits. Only the records of
 *               blocks that are damaged themselves are lost.
 *
 * The size of the file stays, since RocksDB compares it with its manifest.
 *
 *     struct tablefile_repair repair;
 *     if (tablefile_mend(bytes, size, &repair)) ... write the bytes
 *
 * Time       Proportional to the size; a second block that is damaged costs up to some seconds.
 * Errors     False: it cannot be mended, or memory is out. The bytes may have changed then.
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_STORE_TABLEFILE_H
#define TICKWHEEL_STORE_TABLEFILE_H

#include "base/bytes.h"

#define TABLEFILE_NAME_SIZE 32 /* size of a column family's name, with its NUL */
#define TABLEFILE_BYTES_MAX ((size_t)1 << 30)

struct tablefile_block {
    uint64_t offset, size; /* without its trailer; size 0 for none */
};

struct tablefile_repair {
    uint64_t bits;       /* flipped bits that were corrected */
    bool has_new_end;    /* has an index without filters */
    bool has_properties; /* without them RocksDB does not know the owner of the table */
    uint64_t blocks_lost;
    uint64_t records_lost;           /* an estimate */
    struct tablefile_block damaged;  /* the first damaged block */
    char table[TABLEFILE_NAME_SIZE]; /* name of the column family; empty if unknown */
};

/* Reads every block, and mends damaged ones. Returns true, without a repair, if all are valid. */
bool tablefile_mend(char *data, size_t size, struct tablefile_repair *ret_repair);

/* True if nothing of the table had to be mended. */
static inline bool tablefile_was_sound(const struct tablefile_repair *repair)
{
    return !repair->bits && !repair->has_new_end;
}

/* True if all blocks are valid; reads each. */
bool tablefile_is_sound(const char *data, size_t size);

#endif
