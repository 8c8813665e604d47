/* wire_work.c - leases and reports of workers, and their answers, as bytes; see
 * wire.h. */
#include "cluster/wire_private.h"

#include <assert.h>
#include <stdlib.h>

/* The order is the format. New ones are appended. */
_Static_assert(WORK_ACK == 0 && WORK_NACK == 1 && WORK_EXTEND == 2, "reports are sent as numbers");
_Static_assert(WORK_OK == 0 && WORK_STALE == 1 && WORK_UNKNOWN == 2, "verdicts are, too");
_Static_assert(DELIVERY_FAILED == 1 && DELIVERY_ENDED == 2, "results are, too");
_Static_assert(DELIVERY_PAUSE_POLICY == 0 && DELIVERY_PAUSE_EXACT == 1, "pauses are, too");

/* ---- questions ---- */

static void wire_put_receipt(struct buffer *to, const struct command_receipt *receipt)
{
    wire_put(to, receipt->number, 8);
    wire_put(to, receipt->proof, 8);
}

static struct command_receipt wire_take_receipt(struct wire_reader *reader)
{
    struct command_receipt receipt = {.number = wire_take(reader, 8)};

    receipt.proof = wire_take(reader, 8);
    return receipt;
}

bool wire_work_fits(const struct command_work *work)
{
    return work->queue.size <= WIRE_TEXT_SIZE_MAX && work->items_max <= WIRE_COUNT_MAX &&
           work->receipt_count <= WIRE_COUNT_MAX;
}

void wire_put_work(struct buffer *to, enum command_kind kind, const struct command_work *work)
{
    wire_put_text(to, work->queue);
    wire_put(to, work->lease_ms, 8);
    if (kind == COMMAND_LEASE) {
        wire_put(to, work->items_max, 4);
        wire_put(to, work->bytes_max, 8);
        return;
    }
    wire_put(to, work->report, 1);
    if (work->report == WORK_NACK) {
        wire_put(to, work->outcome.result, 1);
        wire_put(to, work->outcome.pause, 1);
        wire_put(to, work->outcome.retry_after_ms, 8);
        wire_put_text(to, bytes_of(work->outcome.error));
    }
    wire_put(to, work->receipt_count, 4);
    for (size_t i = 0; i < work->receipt_count; i++)
        wire_put_receipt(to, &work->receipts[i]);
}

static void wire_take_outcome(struct wire_reader *reader, struct delivery_outcome *outcome)
{
    outcome->result = (enum delivery_result)wire_take_below(reader, 1, DELIVERY_ENDED + 1);
    outcome->pause = (enum delivery_pause)wire_take_below(reader, 1, DELIVERY_PAUSE_EXACT + 1);
    outcome->retry_after_ms = wire_take(reader, 8);
    const struct bytes error = wire_take_text(reader, sizeof(outcome->error) - 1);
    reader->failed_ |= outcome->result == DELIVERY_DONE ||
                       (error.size > 0 && memchr(error.data, '\0', error.size) != NULL);
    if (error.size > 0)
        memcpy(outcome->error, error.data, error.size);
}

struct command_work *wire_take_work(struct wire_reader *reader, enum command_kind kind)
{
    struct command_work *work = wire_take_room(reader, 1, sizeof(*work));

    if (!work)
        return NULL;
    work->queue = wire_take_text(reader, WIRE_TEXT_SIZE_MAX);
    work->lease_ms = wire_take(reader, 8);
    if (kind == COMMAND_LEASE) {
        work->items_max = (uint32_t)wire_take_below(reader, 4, WIRE_COUNT_MAX + 1);
        work->bytes_max = wire_take(reader, 8);
        work->items = wire_take_room(reader, work->items_max, sizeof(*work->items));
        reader->failed_ |= !work->items;
        return work;
    }
    work->report = (enum work_report)wire_take_below(reader, 1, WORK_EXTEND + 1);
    if (work->report == WORK_NACK)
        wire_take_outcome(reader, &work->outcome);
    const size_t count = wire_take_below(reader, 4, WIRE_COUNT_MAX + 1);
    struct command_receipt *receipts = wire_take_room(reader, count, sizeof(*receipts));
    work->receipts = receipts;
    work->verdicts = wire_take_room(reader, count, sizeof(*work->verdicts));
    work->receipt_count = receipts && work->verdicts ? count : 0;
    for (size_t i = 0; i < work->receipt_count; i++)
        receipts[i] = wire_take_receipt(reader);
    reader->failed_ |= !work->receipt_count;
    return work;
}

void wire_work_free(struct command_work *work)
{
    if (!work)
        return;
    free(work->items);
    free((void *)(uintptr_t)work->receipts);
    free(work->verdicts);
    free(work);
}

/* ---- answers ---- */

void wire_put_work_answer(struct buffer *to, enum command_kind kind,
                          const struct command_work *work)
{
    if (kind == COMMAND_REPORT) {
        wire_put(to, work->receipt_count, 4);
        for (size_t i = 0; i < work->receipt_count; i++)
            wire_put(to, work->verdicts[i], 1);
        return;
    }
    wire_put(to, work->item_count, 4);
    for (size_t i = 0; i < work->item_count; i++) {
        const struct command_work_item *item = &work->items[i];

        wire_put_receipt(to, &item->receipt);
        wire_put(to, item->attempt, 4);
        wire_put_timer(to, item->timer);
    }
}

void wire_take_work_answer(struct wire_reader *reader, enum command_kind kind,
                           struct command_work *work, struct wire_held *held)
{
    if (kind == COMMAND_REPORT) {
        if (wire_take(reader, 4) != work->receipt_count)
            reader->failed_ = true;
        for (size_t i = 0; !reader->failed_ && i < work->receipt_count; i++)
            work->verdicts[i] = (uint8_t)wire_take_below(reader, 1, WORK_UNKNOWN + 1);
        return;
    }
    const size_t count = wire_take_below(reader, 4, work->items_max + (uint64_t)1);
    while (!reader->failed_ && work->item_count < count) {
        struct command_work_item item = {.receipt = wire_take_receipt(reader)};

        item.attempt = (uint32_t)wire_take(reader, 4);
        item.timer = wire_hold_timer(reader, held);
        if (item.timer)
            work->items[work->item_count++] = item;
    }
}

/* Clears everything about the command's leases. */
void wire_clear_work(struct command_work *work)
{
    work->item_count = 0;
    if (work->verdicts)
        memset(work->verdicts, WORK_UNKNOWN, work->receipt_count);
}
