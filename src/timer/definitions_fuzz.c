/*
 * definitions_fuzz - after a mark and before a checksum that are made to fit, bytes are a table
 * exactly if encoding what they say gives these bytes; its rows are in order, and each is found by
 * its name.
 */
#include "timer/definitions.h"

#include "base/checksum.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer bytes, again;
    struct definitions *definitions;
    char number[4];

    buffer_init(&bytes);
    buffer_append_text(&bytes, "TWDEFIN1");
    buffer_append(&bytes, data, size);
    put_le(number, checksum_crc32c(0, bytes.data, bytes.size), 4);
    buffer_append(&bytes, number, 4);
    const enum error_code code = definitions_decode(buffer_bytes(&bytes), &definitions);
    REQUIRE(code == ERROR_NONE || code == ERROR_CORRUPT || code == ERROR_NO_MEMORY);
    if (!code) {
        buffer_init(&again);
        definitions_encode(definitions, &again);
        REQUIRE(bytes_equal(buffer_bytes(&bytes), buffer_bytes(&again)));
        buffer_deinit(&again);
        for (size_t i = 0; i < definitions->count; i++) {
            const struct definition *row = &definitions->rows[i];
            size_t count;

            REQUIRE(definitions_find(definitions, row->tenant, definition_kind(row),
                                     definition_name(row)) == row);
            REQUIRE(definitions_of(definitions, row->tenant, definition_kind(row), &count) <= row);
            REQUIRE(count > 0);
        }
        definitions_leave(definitions);
    }
    buffer_deinit(&bytes);
    return 0;
}
