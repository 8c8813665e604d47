/* Goal: no bytes make a reader of the log read out of bounds or accept what a writer would not
 * write. Method: the input is a body, whose checksum is made to fit half of the time; what is
 * accepted must encode to equal bytes again. */
#include "base/checksum.h"
#include "store/rowop.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void rowop_fuzz_again(struct buffer *again, const struct rowop *op)
{
    if (op->kind == ROWOP_DELETE) {
        rowop_delete(again, op->table, op->key);
        return;
    }
    if (op->kind == ROWOP_DELETE_RANGE) {
        rowop_delete_range(again, op->table, op->key, op->value);
        return;
    }
    const size_t value = rowop_put(again, op->kind, op->table, op->key);
    buffer_append_bytes(again, op->value);
    rowop_put_end(again, value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct buffer body;
    buffer_init(&body);
    buffer_append(&body, data + 1, size - 1);
    if (data[0] & 1)
        rowop_end(&body, 0);
    struct bytes rest = buffer_bytes(&body);
    if (rowop_open(&rest)) {
        struct buffer again;
        buffer_init(&again);
        rowop_begin(&again);
        struct rowop op;
        while (rowop_next(&rest, &op))
            rowop_fuzz_again(&again, &op);
        rowop_end(&again, 0);
        assert(bytes_equal(buffer_bytes(&again), buffer_bytes(&body)));
        buffer_deinit(&again);
    }
    buffer_deinit(&body);
    return 0;
}
