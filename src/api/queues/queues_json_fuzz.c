/*
 * Goal: no body of a worker makes the parser crash, read past its input or let through what is out
 * of bounds. Method: the first byte chooses the kind, the rest is the body; what is accepted must
 * hold its own rules.
 */
#include "api/queues/queues_json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void queues_json_fuzz_check(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum queue_kind kind = size ? (enum queue_kind)(data[0] % 4) : QUEUE_LEASE;
    size_t length = size ? size - 1 : 0;
    char *copy = malloc(length + !length); /* so that a look past it is seen */

    queues_json_fuzz_check(copy != NULL);
    if (length)
        memcpy(copy, data + 1, length);
    struct queues_ask ask;
    struct problem problem;
    if (queues_json_parse((struct bytes){copy, length}, kind, 20000, &ask, &problem)) {
        queues_json_fuzz_check(problem.code == ERROR_INVALID || problem.code == ERROR_NOT_JSON);
    } else {
        queues_json_fuzz_check(ask.items_max >= 1 && ask.items_max <= QUEUES_ITEMS_MAX);
        queues_json_fuzz_check(ask.wait_ms <= 20000 &&
                               ask.outcome.retry_after_ms <= QUEUES_DELAY_MS_MAX);
        queues_json_fuzz_check(ask.lease_ms >= QUEUES_LEASE_MS_MIN &&
                               ask.lease_ms <= QUEUES_LEASE_MS_MAX);
        queues_json_fuzz_check(ask.receipt_count <= QUEUES_RECEIPTS_MAX);
        queues_json_fuzz_check((kind == QUEUE_LEASE) == (ask.receipt_count == 0));
        queues_json_fuzz_check(memchr(ask.outcome.error, '\0', sizeof(ask.outcome.error)) != NULL);
        queues_json_fuzz_check(ask.outcome.result == DELIVERY_FAILED ||
                               ask.outcome.result == DELIVERY_ENDED);
        queues_json_fuzz_check(kind == QUEUE_NACK || ask.outcome.result == DELIVERY_FAILED);
        free(ask.receipts);
    }
    free(copy);
    return 0;
}
