/* Goal: every verdict on a record, and every result of an own commit, is that of a judge too simple
 * to be wrong. Method: a log of random records: claims and commits of other nodes in and out of
 * turn, copies, and the appends of one machine, which land late, twice, or after they were given
 * up; the judge counts through the whole log for each answer. TEST_SEED, TEST_SEEDS. */
#include "base/check.h"
#include "cluster/ownership.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { RECORDS = 120, NODES = 3, ME = 0, UNDER_WAY = 8, LEASE_MS = 1000 };

struct contest {
    struct random random;
    struct ownership own;
    struct instant now;
    struct frame log[RECORDS];
    bool is_valid[RECORDS]; /* as the judge says */
    uint64_t size, read;
    struct frame under_way[UNDER_WAY]; /* appends of the machine that may still land */
    size_t under_way_count;
    struct frame sent; /* the append in flight */
    uint64_t ticket;   /* 0: none is in flight */
    uint64_t durable, failed, in_doubt, valid, refused, repeated;
};

static bool is_one(struct contest *model, uint32_t bound)
{
    return random_below(&model->random, bound) == 0;
}

/* ---- the judge ---- */

static bool is_of(const struct frame *frame, const struct frame *claim)
{
    return frame->epoch == claim->epoch && frame->node == claim->node &&
           frame->incarnation == claim->incarnation;
}

static bool is_alike(const struct frame *a, const struct frame *b)
{
    return is_of(a, b) && a->kind == b->kind && a->seq == b->seq;
}

/* Whether a record behind the first `count` ones would be valid. */
static bool judge(const struct contest *model, uint64_t count, const struct frame *frame)
{
    const struct frame *claim = NULL;
    uint64_t claims = 0, behind = 0;
    bool is_released = false;

    for (uint64_t i = 0; i < count; i++) {
        if (!model->is_valid[i])
            continue;
        if (model->log[i].kind == FRAME_CLAIM) {
            claim = &model->log[i];
            claims++;
        }
        behind = model->log[i].kind == FRAME_CLAIM ? 0 : behind + 1;
        is_released = model->log[i].kind == FRAME_RELEASE;
    }
    if (frame->kind == FRAME_CLAIM)
        return frame->epoch == claims + 1;
    return claim && is_of(frame, claim) && frame->seq == behind + 1 && !is_released;
}

static bool has_valid_copy(const struct contest *model, const struct frame *frame)
{
    for (uint64_t i = 0; i < model->size; i++)
        if (model->is_valid[i] && is_alike(&model->log[i], frame))
            return true;
    return false;
}

/* ---- the log ---- */

static void push(struct contest *model, const struct frame *frame)
{
    if (model->size == RECORDS)
        return;
    model->is_valid[model->size] = judge(model, model->size, frame);
    model->log[model->size++] = *frame;
}

static uint64_t claims_of(const struct contest *model, const struct frame **ret_last,
                          uint64_t *ret_seq)
{
    uint64_t claims = 0;

    *ret_last = NULL;
    *ret_seq = 0;
    for (uint64_t i = 0; i < model->size; i++)
        if (model->is_valid[i]) {
            if (model->log[i].kind == FRAME_CLAIM)
                *ret_last = &model->log[i];
            claims += model->log[i].kind == FRAME_CLAIM;
            *ret_seq = model->log[i].seq;
        }
    return claims;
}

/* Another node appends: in its turn, or long after it. */
static void push_other(struct contest *model)
{
    const struct frame *claim;
    uint64_t seq, claims = claims_of(model, &claim, &seq);

    if (model->size > 0 && is_one(model, 4)) {
        struct frame copy = model->log[random_below(&model->random, model->size)];
        if (copy.node != ME)
            push(model, &copy);
        return;
    }
    struct frame frame = {.node = 1 + (uint32_t)random_below(&model->random, NODES - 1)};
    frame.incarnation = frame.node;
    if (claim && claim->node != ME && !is_one(model, 4)) {
        frame = *claim;
        frame.kind = is_one(model, 12) ? FRAME_RELEASE : FRAME_COMMIT;
        frame.seq = seq + 1;
    } else {
        frame.kind = FRAME_CLAIM;
        frame.epoch = is_one(model, 3) && claims > 0 ? claims : claims + 1;
    }
    push(model, &frame);
}

/* ---- the machine ---- */

static void show_next(struct contest *model)
{
    if (model->read == model->size)
        return;
    const struct frame *frame = &model->log[model->read];
    enum ownership_verdict verdict = ownership_read(&model->own, model->read, frame, model->now);
    CHECK(ownership_state(&model->own) != OWNERSHIP_BROKEN);
    CHECK((verdict == OWNERSHIP_VALID) == model->is_valid[model->read]);
    model->valid += verdict == OWNERSHIP_VALID;
    model->refused += verdict == OWNERSHIP_REFUSED;
    model->repeated += verdict == OWNERSHIP_REPEATED;
    model->read++;
}

/* Its own commit is what it says; the log may still change that of one in doubt. */
static void check_result(struct contest *model)
{
    enum ownership_result result = ownership_take_result(&model->own);

    if (result == OWNERSHIP_DURABLE)
        CHECK(has_valid_copy(model, &model->sent));
    if (result == OWNERSHIP_FAILED)
        CHECK(!has_valid_copy(model, &model->sent));
    model->durable += result == OWNERSHIP_DURABLE;
    model->failed += result == OWNERSHIP_FAILED;
    model->in_doubt += result == OWNERSHIP_IN_DOUBT;
}

/* One of its appends lands; the answer comes at once, later, or never. */
static void land_own(struct contest *model)
{
    if (model->under_way_count == 0 || model->size == RECORDS)
        return;
    size_t which = random_below(&model->random, model->under_way_count);
    struct frame frame = model->under_way[which];
    push(model, &frame);
    if (is_one(model, 4))
        push(model, &frame); /* twice */
    model->under_way[which] = model->under_way[--model->under_way_count];
    for (uint32_t i = (uint32_t)random_below(&model->random, 4); i > 0; i--)
        show_next(model);
    if (frame.sent.ms == model->ticket)
        ownership_landed(&model->own, model->ticket, model->size - 1, model->now);
}

static void append_own(struct contest *model)
{
    enum ownership_offer offer = is_one(model, 4) ? OWNERSHIP_NOTHING : OWNERSHIP_COMMIT;
    struct frame frame;

    if (model->under_way_count == UNDER_WAY)
        return;
    uint64_t ticket = ownership_append(&model->own, offer, model->now, &frame);
    if (ticket == 0)
        return;
    frame.sent.ms = ticket;
    model->ticket = ticket;
    model->sent = frame;
    model->under_way[model->under_way_count++] = frame;
}

static void step(struct contest *model)
{
    switch (random_below(&model->random, 12)) {
    case 0:
        push_other(model);
        break;
    case 1:
        model->now = instant_add_ms(model->now, random_below(&model->random, LEASE_MS));
        ownership_advance(&model->own, model->now);
        break;
    case 2:
        if (is_one(model, 8))
            ownership_failed(&model->own, model->ticket, model->now);
        break;
    case 3:
        if (is_one(model, 8))
            ownership_plan(&model->own, (uint32_t)random_below(&model->random, 2), model->now);
        ownership_recovered(&model->own);
        ownership_left(&model->own);
        break;
    case 4:
    case 5:
    case 6:
        append_own(model);
        break;
    case 7:
    case 8:
        land_own(model);
        break;
    default:
        show_next(model);
    }
    ownership_check(&model->own);
    check_result(model);
}

static void run_seed(uint64_t seed, struct contest *model)
{
    const struct ownership_options options = {
        .node = ME, .incarnation = 7, .lease_ms = LEASE_MS, .handover_ms = 100, .seed = seed};

    *model = (struct contest){.random = random_seeded(seed), .now = {seed}};
    ownership_init(&model->own, &options, &(struct ownership_place){0}, model->now);
    ownership_restored(&model->own);
    ownership_plan(&model->own, ME, model->now);
    for (uint32_t i = 0; i < 5000 && model->read < RECORDS; i++)
        step(model);
}

int main(void)
{
    const char *first = getenv("TEST_SEED"), *count = getenv("TEST_SEEDS");
    uint64_t seed = first ? strtoull(first, NULL, 10) : 1;
    uint64_t seeds = count ? strtoull(count, NULL, 10) : 3000;
    struct contest sum = {0};

    for (uint64_t i = 0; i < seeds; i++) {
        static struct contest model;

        /* Told first, so that the output ends with the seed that failed. */
        if (seeds < 10)
            printf("seed %" PRIu64 "\n", seed + i);
        run_seed(seed + i, &model);
        sum.durable += model.durable;
        sum.failed += model.failed;
        sum.in_doubt += model.in_doubt;
        sum.valid += model.valid;
        sum.refused += model.refused;
        sum.repeated += model.repeated;
    }
    printf("%" PRIu64 " seeds: %" PRIu64 " valid, %" PRIu64 " refused, %" PRIu64
           " repeated; commits: %" PRIu64 " durable, %" PRIu64 " failed, %" PRIu64 " in doubt\n",
           seeds, sum.valid, sum.refused, sum.repeated, sum.durable, sum.failed, sum.in_doubt);
    CHECK(seeds < 100 || (sum.durable > 0 && sum.failed > 0 && sum.in_doubt > 0));
    return 0;
}
