/* Goal: no stored bytes make the ledger of sources leave its bounds, and what is accepted is kept.
 * Method: a reader begins, which has the ledger written; that is read and written again, and gives
 * equal bytes. */
#include "engine/ledger.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads the ledger and writes it with the epoch of a further reader. Returns false if the bytes are
 * refused. */
static bool ledger_fuzz_write(struct bytes stored, struct buffer *to)
{
    struct command_ledger asked = {.source = 1, .epoch = UINT64_MAX};
    struct command command = {.kind = COMMAND_LEDGER, .ledger = &asked};
    struct ledger *ledger = ledger_create(stored);
    struct list answered;

    if (!ledger)
        return false;
    list_init(&command.link);
    list_init(&answered);
    assert(ledger_begin(ledger, &command) == ERROR_NONE && ledger_wants_batch(ledger));
    assert(ledger_take(ledger, to) && to->size > 0);
    ledger_settle(ledger, ERROR_NONE, &answered);
    assert(list_pop(&answered) == &command.link && command.error == ERROR_NONE);
    for (size_t i = 0; i < asked.count; i++)
        assert(asked.rows[i].error < ERROR_COUNT);
    ledger_check(ledger);
    free(asked.rows);
    ledger_destroy(ledger);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer first, second;

    buffer_init(&first);
    buffer_init(&second);
    if (ledger_fuzz_write((struct bytes){(const char *)data, size}, &first)) {
        assert(ledger_fuzz_write(buffer_bytes(&first), &second));
        assert(bytes_equal(buffer_bytes(&first), buffer_bytes(&second)));
    }
    buffer_deinit(&first);
    buffer_deinit(&second);
    return 0;
}
