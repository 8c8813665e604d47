/*
 * Each queue name has a *line* while a worker waits for its items or holds a lease of one. A line
 * is awake while there may be something to pull. It falls asleep when a pull found nothing, and is
 * woken by a new worker or by the engine. So an idle queue costs nothing, and no worker waits while
 * there are items.
 *
 * Two wheels with ticks of a millisecond hold the ends of leases and of waits.
 */
#include "delivery/queue.h"

#include "base/hex.h"
#include "base/map.h"
#include "base/random.h"
#include "delivery/siphash.h"
#include "timer/queue_target.h"
#include "tickwheel/wheel.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#define NS_PER_MS         1000000
#define EXPIRE_BATCH      64
#define QUEUE_NUMBER_MAX  ((UINT64_C(1) << QUEUE_NUMBER_BITS) - 1)
#define QUEUE_INDEX_SHIFT (QUEUE_NUMBER_BITS - 8) /* a queue can number 2^40 leases */
#define ENDED_MESSAGE     "the lease ended without an answer"
#define RELEASED_MESSAGE  "the lease was released by a call"

struct line {
    struct list waiting; /* requests in order of arrival */
    struct list link;    /* on `wanting` while the line is awake and a worker waits */
    uint64_t hash;
    size_t lease_count;
    bool is_awake;
    uint8_t name_size;
    char name[QUEUE_FULL_NAME_SIZE_MAX];
};

struct queue {
    struct siphash *siphash; /* key with which receipts are proven */
    uint64_t hash_seed;      /* seed of the hashes of names */
    struct map lines;        /* hash of the name -> line */
    struct map leases;       /* number -> lease */
    /* hash of the timer's id -> lease, to find the holder of a timer; may be incomplete */
    struct map timers;
    struct list wanting;
    struct list ended;   /* deliveries to be taken by queue_take_ended */
    struct list replies; /* requests to be taken by queue_take_reply */
    struct list gone;    /* leases to be freed at the next call, because a reply may show them */
    struct list shown;   /* leases in the reply that was taken last */
    struct tw_wheel *lease_wheel, *wait_wheel;
    /* next lease, allocated before its timer is pulled, so that queue_give cannot fail */
    struct queue_lease *spare;
    struct line *wanted; /* line whose name queue_wants returned last */
    uint64_t number;     /* number of the last lease */
    bool is_stopping;    /* workers that find no item are answered at once */
    struct queue_stats stats;
};

/* ---- receipts ---- */

/* Computes the proof of a receipt: a keyed 64-bit hash of its number. A forger can check a guess
 * only by asking the server while the lease lasts. Returns false if out of memory. */
static bool queue_prove(const struct queue *queue, uint64_t number, uint64_t *ret_proof)
{
    uint8_t text[8];

    put_be(text, number, sizeof(text));
    return siphash_compute(queue->siphash, (struct bytes){(const char *)text, sizeof(text)},
                           ret_proof);
}

/* True if the proof is right. Compares in constant time, so that the time does not show how many
 * bytes match. */
static bool queue_is_proven(struct queue_receipt receipt, const struct queue_lease *lease)
{
    return CRYPTO_memcmp(&receipt.proof, &lease->receipt.proof, sizeof(receipt.proof)) == 0;
}

void queue_receipt_format(struct queue_receipt receipt, char ret_text[QUEUE_RECEIPT_SIZE])
{
    snprintf(ret_text, QUEUE_RECEIPT_SIZE, "%016llx%016llx", (unsigned long long)receipt.number,
             (unsigned long long)receipt.proof);
}

bool queue_receipt_parse(struct bytes text, struct queue_receipt *ret_receipt)
{
    struct queue_receipt receipt;

    if (text.size != QUEUE_RECEIPT_SIZE - 1 || !hex_read(text.data, 16, &receipt.number) ||
        !hex_read(text.data + 16, 16, &receipt.proof))
        return false;
    *ret_receipt = receipt;
    return true;
}

/* ---- time ---- */

static uint64_t queue_tick_of(struct instant now)
{
    return now.ns / NS_PER_MS;
}

/* Returns the first tick that is not before the instant. */
static uint64_t queue_tick_at(struct instant at)
{
    return at.ns / NS_PER_MS + (at.ns % NS_PER_MS != 0);
}

/* ---- lines ---- */

static uint64_t queue_hash_of(const struct queue *queue, struct bytes name)
{
    return random_mix(bytes_hash(queue->hash_seed, name));
}

static struct line *line_get(struct queue *queue, struct bytes name)
{
    uint64_t hash = queue_hash_of(queue, name);
    struct line *line = map_get(&queue->lines, hash);

    assert(name.size > 0 && name.size <= QUEUE_FULL_NAME_SIZE_MAX);
    if (line)
        return line;
    line = calloc(1, sizeof(*line));
    if (!line || !map_put(&queue->lines, hash, line)) {
        free(line);
        return NULL;
    }
    list_init(&line->waiting);
    list_init(&line->link);
    line->hash = hash;
    line->name_size = (uint8_t)name.size;
    memcpy(line->name, name.data, name.size);
    return line;
}

/* Puts the line onto `wanting` or takes it off, depending on its state. Frees the line if nothing
 * needs it. */
static void line_update(struct queue *queue, struct line *line)
{
    bool wants = line->is_awake && !list_is_empty(&line->waiting);

    if (!wants)
        list_remove(&line->link);
    else if (list_is_empty(&line->link))
        list_push(&queue->wanting, &line->link);
    if (!list_is_empty(&line->waiting) || line->lease_count > 0)
        return;
    if (queue->wanted == line)
        queue->wanted = NULL;
    map_remove(&queue->lines, line->hash);
    free(line);
}

static struct queue_request *queue_request_of(struct list *link)
{
    return list_item(link, struct queue_request, link);
}

static void queue_reply(struct queue *queue, struct queue_request *request, enum error_code error)
{
    request->error = error;
    list_push(&queue->replies, &request->link);
}

/* Answers a waiting worker. May free its line. */
static void queue_answer_waiting(struct queue *queue, struct line *line,
                                 struct queue_request *request)
{
    tw_wheel_cancel(queue->wait_wheel, request->wait_timer_);
    list_remove(&request->link);
    queue->stats.waiting--;
    queue_reply(queue, request, ERROR_NONE);
    line_update(queue, line);
}

/* ---- leases ---- */

static uint64_t queue_timer_hash(const struct timer_id *timer)
{
    return random_mix(random_mix(timer->partition) ^ timer->serial);
}

/* Records which lease holds the timer. If out of memory, the holder of the timer is unknown. */
static void queue_name_timer(struct queue *queue, struct queue_lease *lease)
{
    map_put(&queue->timers, queue_timer_hash(&lease->delivery->timer->id), lease);
}

static void queue_forget_timer(struct queue *queue, const struct queue_lease *lease)
{
    const uint64_t hash = queue_timer_hash(&lease->delivery->timer->id);

    if (map_get(&queue->timers, hash) == lease)
        map_remove(&queue->timers, hash);
}

static void queue_free_gone(struct queue *queue)
{
    while (list_pop(&queue->shown))
        ;
    struct list *link;
    while ((link = list_pop(&queue->gone)))
        free(list_item(link, struct queue_lease, link));
}

static bool queue_need_spare(struct queue *queue)
{
    if (queue->spare)
        return true;
    struct queue_lease *lease = calloc(1, sizeof(*lease));
    if (!lease || !map_reserve(&queue->leases, map_count(&queue->leases) + 1) ||
        !queue_prove(queue, queue->number + 1, &lease->receipt.proof)) {
        free(lease);
        return false;
    }
    lease->timer_ = tw_wheel_open(queue->lease_wheel, (uint64_t)(uintptr_t)lease);
    if (lease->timer_ == TW_NONE) {
        free(lease);
        return false;
    }
    list_init(&lease->link);
    queue->spare = lease;
    return true;
}

static void queue_arm(struct queue *queue, struct queue_lease *lease, struct instant now,
                      uint64_t lease_ms)
{
    uint64_t end = queue_tick_at(instant_add_ms(now, lease_ms));

    lease->end_ = end < TW_NEVER ? end : TW_NEVER - 1;
    tw_wheel_arm(queue->lease_wheel, lease->timer_, lease->end_);
}

static void queue_lease_begin(struct queue *queue, struct instant now, struct line *line,
                              struct delivery *delivery)
{
    struct queue_request *request = queue_request_of(line->waiting.next);
    struct queue_lease *lease = queue->spare;

    queue->spare = NULL;
    lease->delivery = lease->delivery_ = delivery;
    lease->line_ = line;
    lease->number_ = ++queue->number;
    lease->receipt.number = lease->number_ | (uint64_t)delivery->timer->id.partition
                                                 << QUEUE_NUMBER_BITS;
    /* cannot fail, because queue_need_spare has reserved room */
    map_put(&queue->leases, lease->number_, lease);
    queue_name_timer(queue, lease);
    lease->begun_ = now;
    lease->worker_size_ = (uint8_t)(request->worker.size < QUEUE_WORKER_SIZE ? request->worker.size
                                                                             : QUEUE_WORKER_SIZE);
    if (lease->worker_size_)
        memcpy(lease->worker_, request->worker.data, lease->worker_size_);
    queue_arm(queue, lease, now, request->lease_ms);
    if (request->items_ == 0)
        request->leased_until = instant_add_ms(now, request->lease_ms);
    list_push(&request->leases_, &lease->link);
    line->lease_count++;
    request->items_++;
    request->bytes_ += delivery->timer->footprint;
    queue->stats.leased++;
    queue->stats.leases++;
}

/* Ends the lease, and puts its delivery onto `ended` with its outcome. */
static void queue_lease_end(struct queue *queue, struct queue_lease *lease)
{
    struct line *line = lease->line_;

    map_remove(&queue->leases, lease->number_);
    queue_forget_timer(queue, lease);
    tw_wheel_close(queue->lease_wheel, lease->timer_);
    list_remove(&lease->link);
    list_init(&lease->delivery_->link);
    list_push(&queue->ended, &lease->delivery_->link);
    lease->line_ = NULL;
    queue->stats.leased--;
    line->lease_count--;
    line_update(queue, line);
}

/* Returns the outcome of a lease that ended without a report. */
static struct delivery_outcome queue_lapse(const char *error)
{
    struct delivery_outcome outcome = {.result = DELIVERY_FAILED, .pause = DELIVERY_PAUSE_EXACT};

    snprintf(outcome.error, sizeof(outcome.error), "%s", error);
    return outcome;
}

static void queue_lease_end_unseen(struct queue *queue, struct queue_lease *lease,
                                   struct delivery_outcome outcome)
{
    lease->delivery_->outcome = outcome;
    queue_lease_end(queue, lease);
    list_push(&queue->gone, &lease->link);
}

/* ---- requests ---- */

static void queue_wait_for_work(struct queue *queue, struct instant now,
                                struct queue_request *request)
{
    struct line *line = line_get(queue, request->queue);

    list_init(&request->leases_);
    request->items_ = request->bytes_ = 0;
    /* used if the answer has no leases */
    request->leased_until = instant_add_ms(now, request->lease_ms);
    request->wait_timer_ = TW_NONE;
    request->is_late_ = request->wait_until.ns <= now.ns || queue->is_stopping;
    if (line && !request->is_late_)
        request->wait_timer_ = tw_wheel_schedule(
            queue->wait_wheel, queue_tick_at(request->wait_until), (uint64_t)(uintptr_t)request);
    if (!line || (!request->is_late_ && request->wait_timer_ == TW_NONE)) {
        if (line)
            line_update(queue, line);
        queue_reply(queue, request, ERROR_NO_MEMORY);
        return;
    }
    list_push(&line->waiting, &request->link);
    queue->stats.waiting++;
    line->is_awake = true;
    line_update(queue, line);
}

/* Returns the lease of a receipt; NULL if it is not a lease of the request's queue. */
static struct queue_lease *queue_find(struct queue *queue, const struct queue_request *request,
                                      size_t index)
{
    struct queue_receipt receipt = request->receipts[index];
    struct queue_lease *lease = map_get(&queue->leases, receipt.number & QUEUE_NUMBER_MAX);

    if (!lease || !queue_is_proven(receipt, lease) ||
        !bytes_equal(request->queue, (struct bytes){lease->line_->name, lease->line_->name_size}))
        return NULL;
    return lease;
}

static void queue_settle(struct queue *queue, struct queue_request *request, size_t index,
                         struct queue_lease *lease)
{
    struct delivery *delivery = lease->delivery_;

    if (request->kind == QUEUE_NACK)
        delivery->outcome = request->outcome;
    else
        delivery->outcome = (struct delivery_outcome){.result = DELIVERY_DONE};
    delivery->wants_record = true;
    delivery->holder = lease;
    lease->request_ = request;
    lease->index_ = index;
    request->pending_++;
    if (request->kind == QUEUE_ACK)
        queue->stats.acks++;
    else
        queue->stats.nacks++;
    queue_lease_end(queue, lease);
}

static void queue_report(struct queue *queue, struct instant now, struct queue_request *request)
{
    request->pending_ = 0;
    list_init(&request->leases_);
    for (size_t i = 0; i < request->receipt_count; i++) {
        struct queue_lease *lease = queue_find(queue, request, i);

        request->verdicts[i] = lease ? QUEUE_OK : QUEUE_STALE;
        if (!lease)
            queue->stats.stales++;
        else if (request->kind == QUEUE_EXTEND)
            queue_arm(queue, lease, now, request->lease_ms);
        else
            queue_settle(queue, request, i, lease);
    }
    if (request->pending_ == 0)
        queue_reply(queue, request, ERROR_NONE);
}

void queue_submit(struct queue *queue, struct instant now, struct queue_request *request)
{
    queue_free_gone(queue);
    list_init(&request->link);
    if (request->kind == QUEUE_LEASE)
        queue_wait_for_work(queue, now, request);
    else
        queue_report(queue, now, request);
}

static const struct queue_lease *queue_lease_of(const struct queue *queue,
                                                const struct timer_id *timer)
{
    const struct queue_lease *lease = map_get(&queue->timers, queue_timer_hash(timer));

    return lease && timer_id_equal(&lease->delivery->timer->id, timer) ? lease : NULL;
}

struct delivery *queue_release(struct queue *queue, const struct timer_id *timer)
{
    struct queue_lease *lease = (struct queue_lease *)(uintptr_t)queue_lease_of(queue, timer);
    size_t cursor = 0;

    queue_free_gone(queue);
    /* `timers` lacks a lease if memory was out, or if another timer has an equal hash */
    for (struct queue_lease *each; !lease && (each = map_next(&queue->leases, &cursor));)
        if (timer_id_equal(&each->delivery->timer->id, timer))
            lease = each;
    if (!lease)
        return NULL;
    struct delivery *delivery = lease->delivery_;
    queue->stats.ended++;
    queue_lease_end_unseen(queue, lease, queue_lapse(RELEASED_MESSAGE));
    list_remove(&delivery->link);
    return delivery;
}

void queue_wake(struct queue *queue, struct bytes name)
{
    struct line *line = map_get(&queue->lines, queue_hash_of(queue, name));

    if (!line)
        return;
    line->is_awake = true;
    line_update(queue, line);
}

/* ---- work comes ---- */

bool queue_wants(struct queue *queue, struct bytes *ret_name)
{
    queue_free_gone(queue);
    if (list_is_empty(&queue->wanting) || !queue_need_spare(queue))
        return false;
    struct line *line = list_item(queue->wanting.next, struct line, link);
    queue->wanted = line;
    *ret_name = (struct bytes){line->name, line->name_size};
    return true;
}

/* Handles an empty queue: answers workers that already have items, and those that may not wait. */
static void queue_fall_asleep(struct queue *queue, struct line *line)
{
    line->is_awake = false;
    list_remove(&line->link);
    line->lease_count++; /* keeps the line from being freed while its workers are answered */
    LIST_FOR_EACH (&line->waiting, link) {
        struct queue_request *request = queue_request_of(link);

        if (request->items_ > 0 || request->is_late_)
            queue_answer_waiting(queue, line, request);
    }
    line->lease_count--;
    line_update(queue, line);
}

void queue_give(struct queue *queue, struct instant now, struct delivery *delivery)
{
    struct line *line = queue->wanted;

    assert(line && !list_is_empty(&line->waiting));
    queue->wanted = NULL;
    if (!delivery) {
        queue_fall_asleep(queue, line);
        return;
    }
    struct queue_request *first = queue_request_of(line->waiting.next);
    queue_lease_begin(queue, now, line, delivery);
    if (first->items_ >= first->items_max || first->bytes_ >= first->bytes_max) {
        if (!list_is_empty(&line->link)) { /* goes to the end, so that queues take turns */
            list_remove(&line->link);
            list_push(&queue->wanting, &line->link);
        }
        queue_answer_waiting(queue, line, first);
    }
}

bool queue_has_given(const struct queue *queue)
{
    assert(queue->wanted && !list_is_empty(&queue->wanted->waiting));
    return queue_request_of(queue->wanted->waiting.next)->items_ > 0;
}

/* ---- time passes ---- */

static void queue_end_leases(struct queue *queue, uint64_t tick)
{
    do {
        struct tw_expired due[EXPIRE_BATCH];
        size_t count = tw_wheel_expire(queue->lease_wheel, tick, due, EXPIRE_BATCH);

        for (size_t i = 0; i < count; i++) {
            queue->stats.ended++;
            queue_lease_end_unseen(queue, (struct queue_lease *)(uintptr_t)due[i].data,
                                   queue_lapse(ENDED_MESSAGE));
        }
    } while (tw_wheel_wake_at(queue->lease_wheel) <= tick);
}

/* Ends the waits whose time is over. A worker for whom a pull is pending is answered after that
 * pull. */
static void queue_end_waits(struct queue *queue, uint64_t tick)
{
    do {
        struct tw_expired due[EXPIRE_BATCH];
        size_t count = tw_wheel_expire(queue->wait_wheel, tick, due, EXPIRE_BATCH);

        for (size_t i = 0; i < count; i++) {
            struct queue_request *request = (struct queue_request *)(uintptr_t)due[i].data;
            struct line *line = map_get(&queue->lines, queue_hash_of(queue, request->queue));

            request->is_late_ = true;
            if (!line->is_awake)
                queue_answer_waiting(queue, line, request);
        }
    } while (tw_wheel_wake_at(queue->wait_wheel) <= tick);
}

void queue_advance(struct queue *queue, struct instant now)
{
    queue_free_gone(queue);
    queue_end_leases(queue, queue_tick_of(now));
    queue_end_waits(queue, queue_tick_of(now));
}

struct instant queue_wake_at(const struct queue *queue)
{
    uint64_t lease = tw_wheel_wake_at(queue->lease_wheel);
    uint64_t wait = tw_wheel_wake_at(queue->wait_wheel);
    uint64_t tick = lease < wait ? lease : wait;

    return (struct instant){tick < UINT64_MAX / NS_PER_MS ? tick * NS_PER_MS : UINT64_MAX};
}

/* ---- ends ---- */

struct delivery *queue_take_ended(struct queue *queue)
{
    struct list *link = list_pop(&queue->ended);

    return link ? list_item(link, struct delivery, link) : NULL;
}

struct queue_request *queue_take_reply(struct queue *queue)
{
    struct list *link = list_pop(&queue->replies);

    queue_free_gone(queue);
    if (!link)
        return NULL;
    struct queue_request *request = queue_request_of(link);
    /* the request may be freed earlier than its leases */
    list_join(&queue->shown, &request->leases_);
    request->leases = &queue->shown;
    return request;
}

void queue_recorded(struct queue *queue, struct delivery *delivery)
{
    struct queue_lease *lease = delivery->holder;
    struct queue_request *request = lease->request_;

    if (delivery->recorded != ERROR_NONE)
        request->verdicts[lease->index_] = QUEUE_UNKNOWN;
    if (--request->pending_ == 0)
        queue_reply(queue, request, ERROR_NONE);
    free(lease);
    free(delivery);
}

void queue_stop_waiting(struct queue *queue)
{
    queue_free_gone(queue);
    queue->is_stopping = true;
    struct list lines;
    list_init(&lines);
    size_t cursor = 0;
    struct line *line;
    while ((line = map_next(&queue->lines, &cursor))) {
        list_remove(&line->link);
        list_push(&lines, &line->link);
    }
    LIST_FOR_EACH (&lines, link) {
        line = list_item(link, struct line, link);
        list_remove(link);
        LIST_FOR_EACH (&line->waiting, waiting)
            queue_request_of(waiting)->is_late_ = true;
        if (!list_is_empty(&line->waiting))
            queue_fall_asleep(queue, line);
    }
}

static bool queue_is_of(const struct queue_lease *lease, int32_t partition)
{
    return partition < 0 || queue_receipt_partition(lease->receipt) == partition;
}

/* Ends all leases, or those of one partition, as if they had never been given. */
static void queue_return_leases(struct queue *queue, int32_t partition)
{
    struct delivery_outcome outcome = {.result = DELIVERY_RETURNED};

    queue_free_gone(queue);
    struct list leases;
    list_init(&leases);
    struct queue_lease *lease;
    size_t cursor = 0;
    while ((lease = map_next(&queue->leases, &cursor))) {
        if (!queue_is_of(lease, partition))
            continue;
        list_remove(&lease->link);
        list_push(&leases, &lease->link);
    }
    LIST_FOR_EACH (&leases, link)
        queue_lease_end_unseen(queue, list_item(link, struct queue_lease, link), outcome);
}

void queue_return_all(struct queue *queue)
{
    queue_return_leases(queue, -1);
}

void queue_return(struct queue *queue, uint16_t partition)
{
    queue_return_leases(queue, partition);
}

/* ---- life ---- */

struct queue *queue_create(const uint8_t secret[QUEUE_SECRET_SIZE], unsigned index,
                           struct instant now)
{
    struct queue *queue = calloc(1, sizeof(*queue));
    struct tw_wheel_options options = {.start = queue_tick_of(now)};

    if (!queue)
        return NULL;
    static_assert(QUEUE_SECRET_SIZE == SIPHASH_KEY_SIZE, "the secret is the key");
    queue->siphash = siphash_create(secret);
    queue->number = (uint64_t)index << QUEUE_INDEX_SHIFT;
    map_init(&queue->lines);
    map_init(&queue->leases);
    map_init(&queue->timers);
    list_init(&queue->wanting);
    list_init(&queue->ended);
    list_init(&queue->replies);
    list_init(&queue->gone);
    list_init(&queue->shown);
    queue->lease_wheel = tw_wheel_create(&options);
    queue->wait_wheel = tw_wheel_create(&options);
    if (!queue->lease_wheel || !queue->wait_wheel || !queue->siphash ||
        !queue_prove(queue, 0, &queue->hash_seed)) { /* number 0 is never given to a lease */
        queue_destroy(queue);
        return NULL;
    }
    return queue;
}

void queue_destroy(struct queue *queue)
{
    if (!queue)
        return;
    queue_free_gone(queue);
    struct queue_lease *lease;
    size_t cursor = 0;
    while ((lease = map_next(&queue->leases, &cursor))) {
        free(lease->delivery_);
        free(lease);
    }
    struct list *link;
    while ((link = list_pop(&queue->ended))) {
        struct delivery *delivery = list_item(link, struct delivery, link);

        if (delivery->wants_record)
            free(delivery->holder);
        free(delivery);
    }
    cursor = 0;
    struct line *line;
    while ((line = map_next(&queue->lines, &cursor)))
        free(line);
    free(queue->spare);
    map_deinit(&queue->lines);
    map_deinit(&queue->leases);
    map_deinit(&queue->timers);
    tw_wheel_destroy(queue->lease_wheel);
    tw_wheel_destroy(queue->wait_wheel);
    siphash_destroy(queue->siphash);
    free(queue);
}

/* ---- questions ---- */

void queue_stats(const struct queue *queue, struct queue_stats *ret_stats)
{
    *ret_stats = queue->stats;
}

bool queue_find_holder(const struct queue *queue, const struct timer_id *timer,
                       struct queue_holder *ret_holder)
{
    const struct queue_lease *lease = queue_lease_of(queue, timer);

    if (!lease)
        return false;
    *ret_holder = (struct queue_holder){.since = lease->begun_,
                                        .until = {lease->end_ * NS_PER_MS},
                                        .worker = {lease->worker_, lease->worker_size_}};
    return true;
}

void queue_stats_add(struct queue_stats *sum, const struct queue_stats *more)
{
    sum->leased += more->leased;
    sum->waiting += more->waiting;
    sum->leases += more->leases;
    sum->acks += more->acks;
    sum->nacks += more->nacks;
    sum->ended += more->ended;
    sum->stales += more->stales;
}

#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

void queue_check(const struct queue *queue)
{
    tw_wheel_check(queue->lease_wheel);
    tw_wheel_check(queue->wait_wheel);
    size_t cursor = 0;
    uint64_t proof;
    const struct queue_lease *lease;
    while ((lease = map_next(&queue->leases, &cursor))) {
        CHECK(lease->delivery == lease->delivery_ && lease->line_);
        CHECK(lease->number_ > 0 && lease->number_ == (lease->receipt.number & QUEUE_NUMBER_MAX));
        CHECK(queue_prove(queue, lease->number_, &proof) && lease->receipt.proof == proof);
        CHECK(map_get(&queue->lines, lease->line_->hash) == lease->line_);
    }
    cursor = 0;
    size_t leases = 0, waiting = 0, timed = 0;
    struct line *line;
    while ((line = map_next(&queue->lines, &cursor))) {
        CHECK(line->lease_count > 0 || !list_is_empty(&line->waiting));
        CHECK(list_is_empty(&line->link) == !(line->is_awake && !list_is_empty(&line->waiting)));
        leases += line->lease_count;
        LIST_FOR_EACH (&line->waiting, link) {
            const struct queue_request *request = queue_request_of(link);

            waiting++;
            timed += !request->is_late_;
            CHECK(line->is_awake || (request->items_ == 0 && !request->is_late_));
            CHECK(request->items_ < request->items_max);
        }
    }
    CHECK(leases == map_count(&queue->leases) && leases == queue->stats.leased);
    CHECK(leases == tw_wheel_count(queue->lease_wheel));
    CHECK(waiting == queue->stats.waiting && timed == tw_wheel_count(queue->wait_wheel));
}
