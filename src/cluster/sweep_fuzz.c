/* Goal: no bytes make the reader of a sweep's records leave its bounds, and an accepted record is
 * the only encoding of its contents. Method: what is accepted is written again, and gives equal
 * bytes. */
#include "cluster/sweep.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1);
    struct sweep_record record;

    assert(copy);
    if (size)
        memcpy(copy, data, size);
    const struct bytes body = {copy, size};
    if (sweep_decode(body, &record)) {
        struct buffer again;

        buffer_init(&again);
        sweep_encode(&record, &again);
        buffer_append_bytes(&again, record.rows);
        assert(bytes_equal(buffer_bytes(&again), body));
        buffer_deinit(&again);
    }
    free(copy);
    return 0;
}
