/* Goal: no bytes make the readers of holds leave their bounds, and what is accepted is the only
 * encoding of its contents. Method: what is accepted is written again and gives equal bytes; a
 * change is made, too. */
#include "cluster/holds.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool fuzz_change(struct bytes body, struct buffer *to)
{
    struct holds_change change;
    struct holds holds;

    if (holds_change_decode(body, &change))
        return false;
    holds_change_encode(&change, to);
    assert(holds_init(&holds));
    const enum error_code code = holds_apply(&holds, &change);
    assert(!code || code == ERROR_NOT_FOUND || code == ERROR_VERSION_MISMATCH);
    assert(!code || change.kind == HOLDS_DEFINE || change.kind == HOLDS_UNDEFINE);
    assert(holds.definitions->count <= 1 && holds.pauses->count <= 1 &&
           holds.note_size <= HOLDS_NOTE_SIZE_MAX);
    holds_deinit(&holds);
    holds_change_deinit(&change);
    return true;
}

static bool fuzz_copy(struct bytes body, struct buffer *to)
{
    struct holds holds;
    uint64_t read_to;

    if (holds_decode(body, &holds, &read_to))
        return false;
    holds_encode(&holds, read_to, to);
    holds_deinit(&holds);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + !size);
    assert(copy);
    memcpy(copy, data, size);
    const struct bytes body = {copy, size};
    struct buffer buffer;
    buffer_init(&buffer);
    if (fuzz_change(body, &buffer) || fuzz_copy(body, &buffer))
        assert(bytes_equal(buffer_bytes(&buffer), body));
    buffer_deinit(&buffer);
    free(copy);
    return 0;
}
