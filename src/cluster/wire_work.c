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

static void wire_walk_receipt(struct wire_walk *walk, struct command_receipt *receipt)
{
    WIRE(walk, receipt->number, 8);
    WIRE(walk, receipt->proof, 8);
}

bool wire_work_fits(const struct command_work *work)
{
    return work->queue.size <= WIRE_TEXT_SIZE_MAX && work->items_max <= WIRE_COUNT_MAX &&
           work->receipt_count <= WIRE_COUNT_MAX;
}

static void wire_walk_outcome(struct wire_walk *walk, struct delivery_outcome *outcome)
{
    struct bytes error = bytes_of(outcome->error);

    WIRE_BELOW(walk, outcome->result, 1, DELIVERY_ENDED + 1);
    WIRE_BELOW(walk, outcome->pause, 1, DELIVERY_PAUSE_EXACT + 1);
    WIRE(walk, outcome->retry_after_ms, 8);
    wire_walk_text(walk, &error, sizeof(outcome->error) - 1);
    if (!walk->from)
        return;
    walk->from->failed_ |= outcome->result == DELIVERY_DONE ||
                           (error.size > 0 && memchr(error.data, '\0', error.size) != NULL);
    if (error.size > 0)
        memcpy(outcome->error, error.data, error.size);
}

/* Makes room for the receipts of a report that is read, and for their verdicts. */
static void wire_take_receipts(struct wire_reader *reader, struct command_work *work, size_t count)
{
    work->receipts = wire_take_room(reader, count, sizeof(*work->receipts));
    work->verdicts = wire_take_room(reader, count, sizeof(*work->verdicts));
    work->receipt_count = work->receipts && work->verdicts ? count : 0;
    reader->failed_ |= !work->receipt_count;
}

void wire_walk_work(struct wire_walk *walk, enum command_kind kind, struct command_work **ret_work)
{
    if (walk->from)
        *ret_work = wire_take_room(walk->from, 1, sizeof(**ret_work));
    struct command_work *work = *ret_work;
    if (!work)
        return;
    wire_walk_text(walk, &work->queue, WIRE_TEXT_SIZE_MAX);
    WIRE(walk, work->lease_ms, 8);
    if (kind == COMMAND_LEASE) {
        WIRE_BELOW(walk, work->items_max, 4, WIRE_COUNT_MAX + 1);
        WIRE(walk, work->bytes_max, 8);
        if (walk->from) {
            work->items = wire_take_room(walk->from, work->items_max, sizeof(*work->items));
            walk->from->failed_ |= !work->items;
        }
        return;
    }
    WIRE_BELOW(walk, work->report, 1, WORK_EXTEND + 1);
    if (work->report == WORK_NACK)
        wire_walk_outcome(walk, &work->outcome);
    size_t count = work->receipt_count;
    WIRE_BELOW(walk, count, 4, WIRE_COUNT_MAX + 1);
    if (walk->from)
        wire_take_receipts(walk->from, work, count);
    for (size_t i = 0; i < work->receipt_count; i++)
        wire_walk_receipt(walk, (struct command_receipt *)(uintptr_t)&work->receipts[i]);
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

void wire_walk_work_answer(struct wire_walk *walk, enum command_kind kind,
                           struct command_work *work)
{
    if (kind == COMMAND_REPORT) {
        const size_t verdicts = wire_walk_same(walk, work->receipt_count, 4);

        for (size_t i = 0; i < verdicts; i++)
            WIRE_BELOW(walk, work->verdicts[i], 1, WORK_UNKNOWN + 1);
        return;
    }
    size_t count = work->item_count;
    WIRE_BELOW(walk, count, 4, work->items_max + (uint64_t)1);
    for (size_t i = 0; i < count && !wire_has_failed(walk); i++) {
        struct command_work_item *item = &work->items[i];

        wire_walk_receipt(walk, &item->receipt);
        WIRE(walk, item->attempt, 4);
        const struct timer *timer = wire_walk_timer(walk, item->timer);
        if (walk->from && timer) {
            item->timer = timer;
            work->item_count++;
        }
    }
}

/* Clears everything about the command's leases. */
void wire_clear_work(struct command_work *work)
{
    work->item_count = 0;
    if (work->verdicts)
        memset(work->verdicts, WORK_UNKNOWN, work->receipt_count);
}
