/*
 * queue_fuzz - a text is a receipt exactly when it is what queue_receipt_format writes of it.
 */
#include "delivery/queue.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes text = {(const char *)data, size};
    bool is_written = size == 32;

    for (size_t i = 0; i < size; i++)
        is_written &= data[i] && strchr("0123456789abcdef", data[i]);
    struct queue_receipt receipt;
    if (queue_receipt_parse(text, &receipt) != is_written)
        abort();
    if (!is_written)
        return 0;
    char again[QUEUE_RECEIPT_SIZE];
    queue_receipt_format(receipt, again);
    if (!bytes_equal(text, bytes_of(again)))
        abort();
    return 0;
}
