/* Goal: no bytes make the reader of pages, and of asks for them, leave its bounds, and what is
 * accepted is the only encoding of its contents. Method: the checksum of the input is made to fit;
 * what is accepted is written again, and gives equal bytes. */
#include "base/checksum.h"
#include "cluster/copy.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 4);
    struct storage_export export;
    struct wire_reader reader;
    struct copy_page page;
    struct buffer again;

    assert(copy);
    if (size)
        memcpy(copy, data, size);
    put_le(copy + size, checksum_crc32c(0, copy, size), 4);
    const struct bytes message = {copy, size + 4};
    buffer_init(&again);
    if (wire_open(message, &reader, NULL) == ERROR_NONE) {
        if (reader.head.kind == WIRE_COPY_ASK && copy_take_ask(&reader, &export))
            copy_put_ask(&again, &reader.head, &export);
        else if (reader.head.kind == WIRE_COPY_PAGE && copy_take_page(&reader, &page))
            copy_put_page(&again, &reader.head, &page);
        assert(!again.size || bytes_equal(buffer_bytes(&again), message));
    }
    buffer_deinit(&again);
    free(copy);
    return 0;
}
