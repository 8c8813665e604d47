/* deals.c - a log with transactions; see deals.h. */
#include "deals.h"

#include "base/check.h"

static void deals_move(struct deals *deals)
{
    while (deals->stable < deals->size) {
        const uint32_t deal = deals->log[deals->stable].deal;

        if (deal && !deals->deals[deal - 1].is_marked)
            return;
        deals->stable++;
    }
}

static uint64_t deals_add(struct deals *deals, uint32_t append, uint32_t deal)
{
    const uint64_t offset = deals->size++;

    CHECK(offset < RECORDS_MAX + DEALS_MAX);
    deals->log[offset].append = append;
    deals->log[offset].deal = deal;
    deals_move(deals);
    return offset;
}

uint64_t deals_append(struct deals *deals, uint32_t append)
{
    return deals_add(deals, append, 0);
}

void deals_cut(struct deals *deals, uint64_t size)
{
    CHECK(deals->count == 0 && size <= deals->size);
    deals->size = deals->stable = size;
}

bool deals_append_frame(struct deals *deals, struct deal *deal, uint32_t append)
{
    if (deal->state != DEAL_OPEN || deal->producer != deals->producer)
        return false;
    const uint64_t offset = deals_add(deals, append, (uint32_t)(deal - deals->deals) + 1);
    if (deal->landed++ == 0)
        deal->first = deal->next = offset;
    deal->is_torn |= offset != deal->next;
    deal->next = offset + 1;
    return true;
}

bool deals_fits(const struct deal *deal)
{
    return !deal->is_torn && deal->first >= deal->from && deal->first <= deal->to;
}

uint64_t deals_init(struct deals *deals)
{
    if (deals->count > 0) {
        struct deal *last = &deals->deals[deals->count - 1];

        if (last->state == DEAL_OPEN)
            last->state = DEAL_ABORTED;
        deals_mark(deals, last);
    }
    return ++deals->producer;
}

bool deals_may_begin(const struct deals *deals, uint64_t producer)
{
    return producer == deals->producer &&
           (deals->count == 0 || deals->deals[deals->count - 1].is_marked);
}

struct deal *deals_begin(struct deals *deals, uint64_t producer)
{
    struct deal *deal = &deals->deals[deals->count++];

    CHECK(deals->count <= DEALS_MAX);
    *deal = (struct deal){.producer = producer};
    return deal;
}

bool deals_end(struct deals *deals, struct deal *deal, enum deal_state state)
{
    if (deal->state == DEAL_OPEN && deal->producer == deals->producer)
        deal->state = state;
    return deal->state == state;
}

void deals_mark(struct deals *deals, struct deal *deal)
{
    CHECK(deal->state != DEAL_OPEN);
    if (deal->is_marked)
        return;
    deal->is_marked = true;
    if (deal->landed > 0)
        deals_add(deals, UINT32_MAX, 0);
    deals_move(deals);
}

enum deal_state deals_fate(const struct deals *deals, uint64_t offset)
{
    const uint32_t deal = deals->log[offset].deal;

    if (deals->log[offset].append == UINT32_MAX)
        return DEAL_ABORTED;
    return deal ? deals->deals[deal - 1].state : DEAL_COMMITTED;
}

uint64_t deals_visible(const struct deals *deals, uint64_t next)
{
    while (next < deals->stable && deals_fate(deals, next) != DEAL_COMMITTED)
        next++;
    return next;
}
