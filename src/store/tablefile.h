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

#define TABLEFILE_NAME_SIZE 32 /* of a column family, with its end */
#define TABLEFILE_BYTES_MAX ((size_t)1 << 30)

struct tablefile_block {
    uint64_t offset, size; /* without its trailer; size 0: none */
};

struct tablefile_repair {
    uint64_t bits;       /* that were turned back */
    bool has_new_end;    /* an index without filters */
    bool has_properties; /* without them RocksDB does not know whose table it is */
    uint64_t blocks_lost;
    uint64_t records_lost;           /* an estimate */
    struct tablefile_block damaged;  /* the first one */
    char table[TABLEFILE_NAME_SIZE]; /* the name of the column family; empty: not known */
};

/* Reads every block, and mends those that are damaged. Returns true and says that nothing was done
 * if all are whole. */
bool tablefile_mend(char *data, size_t size, struct tablefile_repair *ret_repair);

/* Whether nothing of the table had to be mended. */
static inline bool tablefile_was_sound(const struct tablefile_repair *repair)
{
    return !repair->bits && !repair->has_new_end;
}

/* Whether all its blocks are whole; reads each. */
bool tablefile_is_sound(const char *data, size_t size);

#endif
