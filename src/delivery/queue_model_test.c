/*
 * Goal: the queue does what its header says, whatever is done in whatever order. Method: random
 * calls to it and to a model too simple to be wrong, arrays that are searched from end to end;
 * after each call both must have answered the same workers with the same items. TEST_SEED replays a
 * run.
 */
#include "delivery/queue.h"

#include "base/random.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { NAMES = 3, ITEMS = 64, WORKERS = 12, RECEIPTS_MAX = 6, STEPS = 4000, RUNS = 60 };

static const struct bytes names[NAMES] = {
    {"a", 1}, {"mail", 4}, {"a-name-that-is-longer-than-8", 28}};

enum item_place {
    ITEM_NOWHERE, /* free to be made ready */
    ITEM_READY,   /* with the engine */
    ITEM_LEASED,
    ITEM_ENDED, /* its outcome is to be recorded */
};

struct model_item {
    struct timer timer;
    enum item_place place;
    int name;
    uint64_t ready_order;
    struct queue_receipt receipt; /* LEASED; kept afterwards, stale */
    uint64_t end_ms;
    enum delivery_result want; /* ENDED */
    struct delivery *delivery; /* ENDED: waits for queue_recorded */
};

struct model_worker {
    struct queue_request request;
    bool is_out;
    int name;
    uint64_t order, until_ms; /* LEASE */
    /* what the model says that the answer is */
    bool is_answered;
    int items[ITEMS];
    size_t item_count;
    struct queue_receipt receipts[RECEIPTS_MAX];
    enum queue_verdict verdicts[RECEIPTS_MAX], wanted[RECEIPTS_MAX];
    size_t unrecorded;
};

struct queue_model {
    struct random random;
    struct queue *queue;
    struct model_item items[ITEMS];
    struct model_worker workers[WORKERS];
    uint64_t now_ms, order;
    uint64_t leased, stale, extended, ended; /* how often it came to that */
};

static uint64_t below(struct queue_model *model, uint64_t bound)
{
    return random_below(&model->random, bound);
}

static struct instant queue_model_test_now_of(const struct queue_model *model)
{
    return (struct instant){model->now_ms * 1000000};
}

static int item_index(const struct queue_model *model, const struct timer *timer)
{
    return (int)(list_item(timer, struct model_item, timer) - model->items);
}

/* ---- the model ---- */

static int first_ready(const struct queue_model *model, int name)
{
    int first = -1;

    for (int i = 0; i < ITEMS; i++)
        if (model->items[i].place == ITEM_READY && model->items[i].name == name &&
            (first < 0 || model->items[i].ready_order < model->items[first].ready_order))
            first = i;
    return first;
}

static struct model_worker *first_waiting(struct queue_model *model, int name)
{
    struct model_worker *first = NULL;

    for (int i = 0; i < WORKERS; i++) {
        struct model_worker *worker = &model->workers[i];

        if (worker->is_out && !worker->is_answered && worker->request.kind == QUEUE_LEASE &&
            worker->name == name && (!first || worker->order < first->order))
            first = worker;
    }
    return first;
}

/* Who is first takes all that it may have; then the next. */
static void model_serve(struct queue_model *model, int name)
{
    struct model_worker *worker;
    int index;

    while ((worker = first_waiting(model, name)) && (index = first_ready(model, name)) >= 0) {
        size_t bytes = 0;

        while (index >= 0 && worker->item_count < worker->request.items_max &&
               bytes < worker->request.bytes_max) {
            struct model_item *item = &model->items[index];

            item->place = ITEM_LEASED;
            item->end_ms = model->now_ms + worker->request.lease_ms;
            bytes += item->timer.footprint;
            worker->items[worker->item_count++] = index;
            model->leased++;
            index = first_ready(model, name);
        }
        worker->is_answered = true;
    }
}

static void model_settle(struct queue_model *model)
{
    for (int name = 0; name < NAMES; name++)
        model_serve(model, name);
    for (int i = 0; i < WORKERS; i++) {
        struct model_worker *worker = &model->workers[i];

        if (worker->is_out && worker->request.kind == QUEUE_LEASE &&
            worker->until_ms <= model->now_ms)
            worker->is_answered = true;
    }
}

/* ---- the queue, and its driver ---- */

static struct delivery *queue_model_test_pull(struct queue_model *model, struct bytes name)
{
    int index = -1;

    /* The model has leased it already, so it goes by the order in which that was. */
    for (int n = 0; n < NAMES; n++)
        if (bytes_equal(names[n], name))
            index = first_ready(model, n);
    if (index < 0)
        return NULL;
    struct delivery *delivery = calloc(1, sizeof(*delivery));
    delivery->timer = &model->items[index].timer;
    model->items[index].place = ITEM_LEASED;
    return delivery;
}

static void check_lease(struct queue_model *model, struct model_worker *worker)
{
    size_t count = 0;

    LIST_FOR_EACH (worker->request.leases, link) {
        struct queue_lease *lease = list_item(link, struct queue_lease, link);
        int index = item_index(model, lease->delivery->timer);

        assert_true(count < worker->item_count);
        assert_int_equal(worker->items[count++], index);
        model->items[index].receipt = lease->receipt;
    }
    assert_int_equal(count, worker->item_count);
}

static void queue_model_test_take_replies(struct queue_model *model)
{
    struct queue_request *request;

    while ((request = queue_take_reply(model->queue))) {
        struct model_worker *worker = list_item(request, struct model_worker, request);

        assert_true(worker->is_out && worker->is_answered && worker->unrecorded == 0);
        assert_int_equal(request->error, ERROR_NONE);
        if (request->kind == QUEUE_LEASE)
            check_lease(model, worker);
        else
            for (size_t i = 0; i < request->receipt_count; i++)
                assert_int_equal(worker->verdicts[i], worker->wanted[i]);
        worker->is_out = false;
    }
    for (int i = 0; i < WORKERS; i++)
        assert_false(model->workers[i].is_out && model->workers[i].is_answered &&
                     model->workers[i].unrecorded == 0);
}

static void queue_model_test_take_ended(struct queue_model *model)
{
    struct delivery *delivery;

    while ((delivery = queue_take_ended(model->queue))) {
        struct model_item *item = &model->items[item_index(model, delivery->timer)];

        assert_int_equal(item->place, ITEM_ENDED);
        assert_null(item->delivery);
        assert_int_equal(delivery->outcome.result, item->want);
        if (delivery->wants_record) {
            item->delivery = delivery;
        } else {
            free(delivery);
            item->place = ITEM_NOWHERE;
        }
    }
    for (int i = 0; i < ITEMS; i++)
        assert_false(model->items[i].place == ITEM_ENDED && !model->items[i].delivery);
}

/* What the queue takes from the engine it takes from a copy of what was ready before the model. */
static void drive(struct queue_model *model)
{
    struct model_item before[ITEMS];

    memcpy(before, model->items, sizeof(before));
    model_settle(model);
    for (int i = 0; i < ITEMS; i++)
        if (before[i].place == ITEM_READY)
            model->items[i].place = ITEM_READY;
    struct bytes name;
    while (queue_wants(model->queue, &name))
        queue_give(model->queue, queue_model_test_now_of(model),
                   queue_model_test_pull(model, name));
    queue_advance(model->queue, queue_model_test_now_of(model));
    queue_model_test_take_replies(model);
    queue_model_test_take_ended(model);
    queue_check(model->queue);
}

/* ---- what happens ---- */

static struct model_worker *idle_worker(struct queue_model *model)
{
    for (int i = 0; i < WORKERS; i++)
        if (!model->workers[i].is_out) {
            model->workers[i] = (struct model_worker){.is_out = true, .order = ++model->order};
            return &model->workers[i];
        }
    return NULL;
}

static void do_lease(struct queue_model *model)
{
    struct model_worker *worker = idle_worker(model);

    if (!worker)
        return;
    worker->name = (int)below(model, NAMES);
    worker->until_ms = model->now_ms + (below(model, 3) ? below(model, 50) : 0);
    worker->request = (struct queue_request){
        .kind = QUEUE_LEASE,
        .queue = names[worker->name],
        .items_max = 1 + (uint32_t)below(model, 5),
        .bytes_max = below(model, 3) ? SIZE_MAX : 1 + below(model, 300),
        .wait_until = {worker->until_ms * 1000000},
        .lease_ms = 1 + below(model, 40),
    };
    queue_submit(model->queue, queue_model_test_now_of(model), &worker->request);
}

/* Which item a receipt is of, if it may be spoken of: leased, of this queue, and still this lease.
 */
static int item_of(const struct queue_model *model, struct queue_receipt receipt, int name)
{
    for (int i = 0; i < ITEMS; i++) {
        const struct model_item *item = &model->items[i];

        if (item->place == ITEM_LEASED && item->name == name &&
            item->receipt.number == receipt.number && item->receipt.proof == receipt.proof)
            return i;
    }
    return -1;
}

/* Mostly one of a lease of this queue; else of any item, or of none. */
static struct queue_receipt draw_receipt(struct queue_model *model, int name)
{
    size_t index = below(model, ITEMS);

    for (int i = 0; i < ITEMS && below(model, 30); i++)
        if (model->items[index].place != ITEM_LEASED || model->items[index].name != name)
            index = (index + 1) % ITEMS;
    struct queue_receipt receipt = model->items[index].receipt;

    if (below(model, 20) == 0)
        receipt.proof ^= UINT64_C(1) << below(model, 64);
    if (below(model, 20) == 0)
        receipt.number += 1 + below(model, 3);
    return receipt;
}

static void do_speak(struct queue_model *model)
{
    struct model_worker *worker = idle_worker(model);

    if (!worker)
        return;
    worker->name = (int)below(model, NAMES);
    struct queue_request *request = &worker->request;
    *request = (struct queue_request){
        .kind = QUEUE_ACK + (enum queue_kind)below(model, 3),
        .queue = names[worker->name],
        .receipts = worker->receipts,
        .verdicts = worker->verdicts,
        .receipt_count = 1 + below(model, RECEIPTS_MAX),
        .lease_ms = 1 + below(model, 40),
        .outcome = {.result = below(model, 2) ? DELIVERY_FAILED : DELIVERY_ENDED},
    };
    worker->is_answered = true;
    for (size_t i = 0; i < request->receipt_count; i++) {
        worker->receipts[i] = draw_receipt(model, worker->name);
        int index = item_of(model, worker->receipts[i], worker->name);
        worker->wanted[i] = index < 0 ? QUEUE_STALE : QUEUE_OK;
        model->stale += index < 0;
        if (index < 0)
            continue;
        if (request->kind == QUEUE_EXTEND) {
            model->items[index].end_ms = model->now_ms + request->lease_ms;
            model->extended++;
            continue;
        }
        model->items[index].place = ITEM_ENDED;
        model->items[index].want =
            request->kind == QUEUE_ACK ? DELIVERY_DONE : request->outcome.result;
        worker->unrecorded++;
    }
    queue_submit(model->queue, queue_model_test_now_of(model), request);
}

static void do_ready(struct queue_model *model)
{
    struct model_item *item = &model->items[below(model, ITEMS)];

    if (item->place != ITEM_NOWHERE)
        return;
    item->place = ITEM_READY;
    item->name = (int)below(model, NAMES);
    item->ready_order = ++model->order;
    item->timer.footprint = 1 + below(model, 100);
    queue_wake(model->queue, names[item->name]);
}

static void do_pass_time(struct queue_model *model)
{
    model->now_ms += 1 + below(model, 30);
    for (int i = 0; i < ITEMS; i++) {
        struct model_item *item = &model->items[i];

        if (item->place != ITEM_LEASED || item->end_ms > model->now_ms)
            continue;
        item->place = ITEM_ENDED;
        item->want = DELIVERY_FAILED;
        model->ended++;
    }
    queue_advance(model->queue, queue_model_test_now_of(model));
}

static void do_record(struct queue_model *model)
{
    struct model_item *item = &model->items[below(model, ITEMS)];
    bool fails = below(model, 5) == 0;

    if (!item->delivery)
        return;
    struct queue_lease *lease = item->delivery->holder;
    for (int i = 0; i < WORKERS; i++) {
        struct model_worker *worker = &model->workers[i];

        if (lease->request_ != &worker->request)
            continue;
        worker->unrecorded--;
        if (fails)
            worker->wanted[lease->index_] = QUEUE_UNKNOWN;
    }
    item->delivery->recorded = fails ? ERROR_IO : ERROR_NONE;
    queue_recorded(model->queue, item->delivery);
    item->delivery = NULL;
    item->place = ITEM_NOWHERE;
}

static void queue_model_test_run(uint64_t seed)
{
    static void (*const things[])(struct queue_model *) = {
        do_lease, do_lease,     do_speak,  do_speak,  do_ready,  do_ready,
        do_ready, do_pass_time, do_record, do_record, do_record,
    };
    struct queue_model *model = calloc(1, sizeof(*model));

    model->random = random_seeded(seed);
    model->now_ms = below(model, 2) ? (UINT64_C(1) << 32) - 100 : 1000;
    uint8_t secret[QUEUE_SECRET_SIZE] = {0};
    put_le(secret, seed, 8);
    model->queue = queue_create(secret, 0, queue_model_test_now_of(model));
    for (int step = 0; step < STEPS; step++) {
        things[below(model, sizeof(things) / sizeof(*things))](model);
        drive(model);
    }
    assert_true(model->leased > 100 && model->stale > 100 && model->extended > 10 &&
                model->ended > 10);
    for (int i = 0; i < ITEMS; i++)
        if (model->items[i].delivery) {
            free(model->items[i].delivery->holder);
            free(model->items[i].delivery);
        }
    queue_destroy(model->queue);
    free(model);
}

/* proves: lease */
static void test_model(void **state)
{
    uint64_t seed = testing_seed();
    const int runs = getenv("TEST_SEED") ? 1 : RUNS;

    (void)state;
    for (int i = 0; i < runs; i++, seed++) {
        testing_seed_print(seed);
        queue_model_test_run(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
