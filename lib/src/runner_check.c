/* runner_check.c - checks every invariant of a runner that no thread uses, for tests. */
#include "runner_private.h"

#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition)                                                          \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

/* The places in which a cell may be found, each at most once. */
enum { SEEN_FREE = 1, SEEN_QUEUED = 2 };

static void runner_check_seen(const struct tw_runner_wheel *wheel, unsigned char *seen,
                              uint32_t index, unsigned char as)
{
    REQUIRE(index < atomic_load(&wheel->cell_count));
    REQUIRE(!(seen[index] & as));
    seen[index] |= as;
}

static size_t runner_check_block(const struct tw_runner_wheel *wheel, unsigned char *seen,
                                 const struct runner_block *block)
{
    for (uint32_t i = 0; i < block->count; i++)
        runner_check_seen(wheel, seen, block->cells[i], SEEN_QUEUED);
    return block->count;
}

static size_t runner_check_stripes(struct tw_runner_wheel *wheel, unsigned char *seen)
{
    size_t blocks = 0;
    for (unsigned i = 0; i < STRIPES; i++) {
        struct runner_stripe *stripe = &wheel->stripes[i];
        size_t messages = 0;
        REQUIRE(atomic_load(&stripe->lock) == 0);
        REQUIRE(stripe->free_count <= STRIPE_FREE_MAX);
        for (uint32_t j = 0; j < stripe->free_count; j++)
            runner_check_seen(wheel, seen, stripe->free[j], SEEN_FREE);
        for (struct runner_block *block = stripe->blocks; block; block = block->next) {
            REQUIRE(block->count <= BLOCK_CELLS);
            REQUIRE(block == stripe->blocks || block->count == BLOCK_CELLS);
            REQUIRE(block->next || block == stripe->blocks_last);
            messages += runner_check_block(wheel, seen, block);
            blocks++;
        }
        REQUIRE(messages == atomic_load(&stripe->message_count));
        const struct runner_unread *unread = &wheel->unread[i];
        REQUIRE((unread->blocks != NULL) == (wheel->unread_mask >> i & 1));
        for (struct runner_block *block = unread->blocks; block; block = block->next) {
            REQUIRE(runner_check_block(wheel, seen, block) == BLOCK_CELLS);
            blocks++;
        }
        REQUIRE(messages == 0 || (atomic_load(&wheel->dirty) >> i & 1));
    }
    return blocks;
}

static void runner_check_depot(struct tw_runner_wheel *wheel, unsigned char *seen,
                               size_t stripe_blocks)
{
    size_t blocks = stripe_blocks, used = wheel->piece_used;
    for (uint32_t i = wheel->depot_free; i != CELLS_MAX; i = tw__runner_body(wheel, i)->next_free)
        runner_check_seen(wheel, seen, i, SEEN_FREE);
    for (uint32_t i = atomic_load(&wheel->returned_free); i != CELLS_MAX;
         i = tw__runner_body(wheel, i)->next_free)
        runner_check_seen(wheel, seen, i, SEEN_FREE);
    for (struct runner_block *block = wheel->depot_blocks; block; block = block->next)
        blocks++;
    for (struct runner_block *block = atomic_load(&wheel->returned_blocks); block;
         block = block->next)
        blocks++;
    for (unsigned i = 0; i < wheel->piece_next; i++)
        used += tw__runner_piece_blocks(i);
    REQUIRE(blocks == used);
    REQUIRE(wheel->piece_count > wheel->segment_count);
}

/* Checks one cell and adds it to the counts. */
static void runner_check_cell(struct tw_runner_wheel *wheel, uint32_t index, unsigned char seen,
                              struct tw_runner_stats *counted)
{
    struct runner_cell *cell = tw__runner_cell(wheel, index);
    uint64_t word = atomic_load(&cell->word);
    uint64_t look_at_ns = atomic_load(&cell->look_at_ns);
    uint64_t deadline_ns = atomic_load(&tw__runner_body(wheel, index)->deadline_ns);
    unsigned state = word & STATE_MASK;
    REQUIRE(state != STATE_MOVING && !(word & FLAG_RUNNING));
    uint32_t queued = atomic_load(&tw__runner_body(wheel, index)->queued);
    REQUIRE((queued != 0) == !!(seen & SEEN_QUEUED));
    if (tw__word_generation(word) == GENERATION_LAST)
        REQUIRE(state == STATE_FREE && !(seen & SEEN_FREE));
    else
        REQUIRE((state == STATE_FREE) == !!(seen & SEEN_FREE));
    REQUIRE(state != STATE_IDLE || word & FLAG_OPENED);
    counted->held += state != STATE_FREE;
    counted->pending += state == STATE_PENDING;
    if (state != STATE_PENDING || deadline_ns == NEVER_NS)
        return;
    /* The central invariant: a reminder or a message makes the runner look in time. */
    REQUIRE(deadline_ns >= look_at_ns ||
            (queued && (deadline_ns >= atomic_load(&wheel->stripes[queued - 1].earliest_ns) ||
                        deadline_ns >= wheel->unread[queued - 1].earliest_ns)));
}

/* The number of reminders that are set. */
static size_t runner_count_reminders(struct tw_runner_wheel *wheel)
{
    size_t count = 0;
    for (uint32_t i = 0; i < atomic_load(&wheel->cell_count); i++)
        count += atomic_load(&tw__runner_cell(wheel, i)->look_at_ns) != NEVER_NS;
    return count;
}

void tw_runner_check(const struct tw_runner *runner)
{
    struct tw_runner_wheel *wheel =
        atomic_load((struct tw_runner_wheel * _Atomic *)(uintptr_t)&runner->wheels);
    for (; wheel; wheel = wheel->next) {
        uint32_t count = atomic_load(&wheel->cell_count);
        unsigned char *seen = calloc(count + 1u, 1);
        struct tw_runner_stats stats, counted = {0};
        REQUIRE(seen);
        runner_check_depot(wheel, seen, runner_check_stripes(wheel, seen));
        for (uint32_t i = 0; i < count; i++)
            runner_check_cell(wheel, i, seen[i], &counted);
        tw_runner_wheel_stats(wheel, &stats);
        REQUIRE(stats.held == counted.held && stats.pending == counted.pending);
        REQUIRE(tw_wheel_count(wheel->wheel) == runner_count_reminders(wheel));
        tw_wheel_check(wheel->wheel);
        free(seen);
    }
}
