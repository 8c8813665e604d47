/* Goal: no bytes make mending a table read or write out of bounds, and what was mended is whole.
 * Method: the input is a table; half of the time its blocks get checksums that fit, so that what
 * lies behind is reached. */
#include "store/tableblock.h"
#include "store/tablefile.h"

#include <assert.h>
#include <stdlib.h>

enum { TABLE_BYTES_MAX = 1300 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make_blocks_whole(char *table, size_t size, size_t block_size)
{
    for (size_t at = 0; at + block_size + TABLEBLOCK_TRAILER <= size;
         at += block_size + TABLEBLOCK_TRAILER)
        tableblock_seal(table + at, block_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4 || size > TABLE_BYTES_MAX)
        return 0;
    const size_t table_size = size - 4;
    char *table = malloc(table_size + 1);
    struct tablefile_repair repair;

    assert(table);
    memcpy(table, data + 4, table_size);
    if (data[3] & 1)
        make_blocks_whole(table, table_size, (size_t)data[3] + 8);
    if (tablefile_mend(table, table_size, &repair)) {
        assert(tablefile_is_sound(table, table_size));
        assert(tablefile_mend(table, table_size, &repair) && tablefile_was_sound(&repair));
    }
    (void)tablefile_is_sound(table, table_size);
    free(table);
    return 0;
}
