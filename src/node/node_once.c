/* node_once.c - the thread that makes transactions of a partition; see node_once.h. */
#include "node/node_once.h"

#include "delivery/broker_message.h"
#include "delivery/lapse.h"
#include "sys/process.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ONCE_ROUND_MESSAGES = 10000, /* maximum of messages in a transaction */
    ONCE_POSTPONE_MS = 1000,
    ONCE_APART_MS = 10000, /* time for which the messages to a destination that refused are apart */
    ONCE_APART = 256,
    /* maximum of queued events: of a claim, of a commit, of what was staged, and of its loss */
    ONCE_EVENTS = 4,
};

/* Which other messages may share a transaction with a message after a transaction failed. */
enum once_company { ONCE_WITH_ALL, ONCE_WITH_ITS_DESTINATION, ONCE_ALONE, ONCE_COMPANIES };

/* A destination that has refused a message, until another one has its place in the table. */
struct once_refuser {
    uint64_t hash;
    struct instant until;
};

struct node_once {
    struct node_once_options options;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;

    /* Guarded by lock. */
    struct list queue; /* deliveries that wait */
    bool is_ending, is_claiming, is_taking;
    struct node_once_event events[ONCE_EVENTS]; /* oldest first */
    size_t event_count;
    bool is_staged;       /* messages are staged, and a commit or the end of the round is awaited */
    struct bytes *frames; /* frames of the commit; NULL if no commit is requested */
    struct buffer frame_text;
    struct log_once_commit commit;
    uint64_t ticket;

    /* The thread's. */
    struct log_once *transactions; /* NULL if none are open */
    struct broker_builder builder;
    struct delivery *round[ONCE_ROUND_MESSAGES];
    struct log_once_report reports[ONCE_ROUND_MESSAGES];
    size_t count;
    enum once_company company; /* of the round, or the last one */
    struct once_refuser refusers[ONCE_APART];
};

/* ---- events ---- */

/* Queues an event; the caller holds the lock. */
static void once_tell(struct node_once *once, struct node_once_event event)
{
    assert(once->event_count < ONCE_EVENTS);
    once->events[once->event_count++] = event;
    once->options.told(once->options.context);
}

struct node_once_event node_once_take(struct node_once *once)
{
    struct node_once_event event = {.kind = ONCE_NOTHING};

    pthread_mutex_lock(&once->lock);
    if (once->event_count > 0) {
        event = once->events[0];
        once->event_count--;
        memmove(once->events, once->events + 1, once->event_count * sizeof(event));
    }
    pthread_mutex_unlock(&once->lock);
    return event;
}

/* ---- deliveries ---- */

/* Returns the connection, and the topic or table. */
static struct bytes once_destination_of(const struct delivery *delivery)
{
    const struct timer *timer = delivery->timer;
    const struct target_slice *path = &timer->target.paths[timer->target.path_count - 1];

    return (struct bytes){timer->texts.target.data, (size_t)path->at + path->size};
}

static struct once_refuser *once_refuser_of(struct node_once *once, const struct delivery *delivery,
                                            uint64_t *ret_hash)
{
    *ret_hash = bytes_hash(0, once_destination_of(delivery));
    return &once->refusers[*ret_hash % ONCE_APART];
}

/* Notes that the destination has refused the message. */
static void once_set_apart(struct node_once *once, const struct delivery *delivery)
{
    uint64_t hash;
    struct once_refuser *refuser = once_refuser_of(once, delivery, &hash);

    *refuser = (struct once_refuser){hash, instant_add_ms(instant_now(), ONCE_APART_MS)};
}

/* A call of a function is alone, because its time is the user's. */
static enum once_company once_company_of(struct node_once *once, const struct delivery *delivery,
                                         struct instant now)
{
    const struct target *target = &delivery->timer->target;
    const enum once_company own = (enum once_company)(uintptr_t)delivery->holder;
    uint64_t hash;

    if (target->kind == TARGET_POSTGRES && target->path_count > 1)
        return ONCE_ALONE;
    const struct once_refuser *refuser = once_refuser_of(once, delivery, &hash);
    if (own > ONCE_WITH_ALL || refuser->hash != hash || now.ns >= refuser->until.ns)
        return own;
    return ONCE_WITH_ITS_DESTINATION;
}

static void once_end(struct list *ended, struct delivery *delivery, enum delivery_result result,
                     const char *reason)
{
    delivery->outcome = (struct delivery_outcome){
        .result = result, .retry_after_ms = result == DELIVERY_POSTPONED ? ONCE_POSTPONE_MS : 0};
    snprintf(delivery->outcome.error, sizeof(delivery->outcome.error), "%.*s",
             (int)sizeof(delivery->outcome.error) - 1, reason);
    if (result == DELIVERY_POSTPONED)
        delivery->started_us = 0;
    delivery->ended_us = wall_now_us();
    list_push(ended, &delivery->link);
}

static void once_post_ended(struct node_once *once, struct list *ended)
{
    if (!list_is_empty(ended))
        partition_post_outcomes(once->options.partitions, ended);
}

static void once_return_all(struct node_once *once, struct list *deliveries)
{
    LIST_FOR_EACH (deliveries, link)
        delivery_return(list_item(link, struct delivery, link));
    once_post_ended(once, deliveries);
}

/* ---- a round: one transaction ---- */

/* `company` is that of the delivery. */
static bool once_may_join(const struct node_once *once, const struct delivery *delivery,
                          enum once_company company)
{
    if (once->count == 0)
        return true;
    if (once->company == ONCE_ALONE || once->company != company)
        return false;
    return company == ONCE_WITH_ALL ||
           bytes_equal(once_destination_of(once->round[0]), once_destination_of(delivery));
}

/* Takes deliveries that may share a transaction, whose company is below `end`. Lapsed ones go to
 * `returned`. The caller holds the lock. */
static void once_gather_some(struct node_once *once, enum once_company end, struct list *returned)
{
    const uint64_t bytes_max = once->options.config->broker_inflight_bytes_max;
    const struct instant now = instant_now();
    uint64_t bytes = 0;

    LIST_FOR_EACH (&once->queue, link) {
        struct delivery *delivery = list_item(link, struct delivery, link);
        const enum once_company company = once_company_of(once, delivery, now);

        if (once->count == ONCE_ROUND_MESSAGES || bytes >= bytes_max ||
            (once->count > 0 && once->company == ONCE_ALONE))
            return;
        if (delivery_has_lapsed(delivery)) {
            list_remove(link);
            list_push(returned, link);
        } else if (company < end && once_may_join(once, delivery, company)) {
            list_remove(link);
            bytes += delivery->timer->texts.payload.size;
            once->round[once->count++] = delivery;
            once->company = company;
        }
    }
}

/* Takes those of the next round. After one with less company, those with more have their turn. */
static void once_gather(struct node_once *once, struct list *returned)
{
    const enum once_company last = once->company;

    once->count = 0;
    once_gather_some(once, last, returned);
    if (once->count == 0)
        once_gather_some(once, ONCE_COMPANIES, returned);
}

static void once_put(struct node_once *once, size_t index)
{
    struct delivery *delivery = once->round[index];
    struct broker_message message;
    struct error error;

    delivery->started_us = wall_now_us();
    if (broker_message_build(&once->builder, delivery, &message, &error))
        return; /* the commit will fail */
    brokers_stage(once->options.brokers, &delivery->timer->target, once->transactions, index,
                  &message);
}

static void once_close(struct node_once *once)
{
    log_once_close(once->transactions);
    once->transactions = NULL;
}

static enum error_code once_open(struct node_once *once, struct error *ret_error)
{
    const struct node_once_options *options = &once->options;

    return once->transactions
               ? ERROR_NONE
               : cluster_log_open_once(options->client, options->partition, options->log,
                                       options->config->cluster_lease_ms, &once->transactions,
                                       ret_error);
}

/* Returns true if the servers have all messages. Otherwise the reports or `error` have the
 * cause. */
static bool once_stage(struct node_once *once, struct error *error)
{
    enum error_code code = once_open(once, error);

    for (size_t i = 0; i < once->count; i++)
        once->reports[i] = (struct log_once_report){LOG_ONCE_UNKNOWN, error->text};
    if (!code)
        code = log_once_begin(once->transactions, once->company != ONCE_WITH_ALL, error);
    for (size_t i = 0; i < once->count && !code; i++)
        once_put(once, i);
    return !code && log_once_settle(once->transactions, once->reports, once->count);
}

/* Stages the message with these others at most from now on. */
static void once_keep_to(struct delivery *delivery, enum once_company company)
{
    if ((enum once_company)(uintptr_t)delivery->holder < company)
        delivery->holder = (void *)(uintptr_t)company;
}

/* Decides about a delivery whose transaction failed, and therefore had no effect. Returns true
 * if it got an outcome; false if its message is staged again, with fewer others if the refusal
 * may be caused by this message. */
static bool once_judge(struct node_once *once, size_t index, bool is_refused, struct list *ended)
{
    struct delivery *delivery = once->round[index];
    const struct log_once_report *report = &once->reports[index];
    enum once_company company = ONCE_WITH_ALL;

    switch (report->fate) {
    case LOG_ONCE_NEVER:
        once_set_apart(once, delivery);
        once_end(ended, delivery, DELIVERY_ENDED, report->reason);
        return true;
    case LOG_ONCE_REFUSED:
        once_set_apart(once, delivery);
        once_end(ended, delivery, DELIVERY_FAILED, report->reason);
        return true;
    case LOG_ONCE_LATER:
        once_set_apart(once, delivery);
        once_end(ended, delivery, DELIVERY_POSTPONED, report->reason);
        return true;
    case LOG_ONCE_SUSPECT:
        company = ONCE_WITH_ITS_DESTINATION;
        break;
    case LOG_ONCE_CROWDED:
        once_set_apart(once, delivery);
        company = ONCE_ALONE;
        break;
    case LOG_ONCE_UNKNOWN:
        if (is_refused) { /* another message caused it, and a third may be wrong too */
            once_keep_to(delivery, ONCE_WITH_ITS_DESTINATION);
            return false;
        }
        once_end(ended, delivery, DELIVERY_POSTPONED, report->reason);
        return true;
    case LOG_ONCE_TAKEN:
        return false;
    }
    if (once->count > 1 && once->company < company) {
        once_keep_to(delivery, company);
        return false;
    }
    once_set_apart(once, delivery);
    once_end(ended, delivery, DELIVERY_FAILED, report->reason);
    return true;
}

static void once_sort_out(struct node_once *once)
{
    struct list ended, again;
    bool is_refused = false;

    list_init(&ended);
    list_init(&again);
    for (size_t i = 0; i < once->count; i++)
        is_refused |= once->reports[i].fate > LOG_ONCE_TAKEN;
    for (size_t i = 0; i < once->count; i++)
        if (!once_judge(once, i, is_refused, &ended))
            list_push(&again, &once->round[i]->link);
    pthread_mutex_lock(&once->lock);
    const bool is_taking = once->is_taking;
    if (is_taking) {
        list_join(&again, &once->queue);
        list_join(&once->queue, &again);
    }
    pthread_mutex_unlock(&once->lock);
    once_post_ended(once, &ended);
    once_return_all(once, &again);
}

/* ---- the end of a transaction ---- */

/* Reports the messages before it gives their deliveries back, so that the replica knows them
 * before the outcomes. Returns false if this node no longer owns the partition. */
static bool once_tell_staged(struct node_once *once)
{
    struct list done;

    list_init(&done);
    for (size_t i = 0; i < once->count; i++)
        list_push(&done, &once->round[i]->link);
    pthread_mutex_lock(&once->lock);
    assert(once->count > 0 && !once->is_staged && !once->frames);
    const bool is_taking = once->is_taking;
    once->is_staged = is_taking;
    if (is_taking)
        once_tell(once, (struct node_once_event){.kind = ONCE_STAGED, .count = once->count});
    pthread_mutex_unlock(&once->lock);
    if (!is_taking) {
        once_return_all(once, &done);
        return false;
    }
    LIST_FOR_EACH (&done, link) {
        struct delivery *delivery = list_item(link, struct delivery, link);

        delivery->outcome = (struct delivery_outcome){.result = DELIVERY_DONE};
        delivery->is_in_transaction = true;
        delivery->ended_us = wall_now_us();
    }
    once_post_ended(once, &done);
    return true;
}

/* Returns true if a commit was requested; the caller holds the lock. */
static bool once_await_commit(struct node_once *once)
{
    const uint64_t wait_ms = 2 * once->options.config->cluster_lease_ms;
    struct timespec until = instant_timespec(instant_add_ms(instant_now(), wait_ms));
    int timed_out = 0;

    while (once->is_staged && !once->frames && !timed_out)
        timed_out = pthread_cond_timedwait(&once->changed, &once->lock, &until);
    if (once->frames)
        return true;
    if (once->is_staged)
        once_tell(once, (struct node_once_event){.kind = ONCE_GONE});
    once->is_staged = once->is_taking = false; /* until the next claim */
    return false;
}

static void once_finish(struct node_once *once)
{
    struct node_once_event event = {.kind = ONCE_FAILED};
    struct error error;

    pthread_mutex_lock(&once->lock);
    const bool is_wanted = once_await_commit(once);
    pthread_mutex_unlock(&once->lock);
    if (is_wanted && !log_once_commit(once->transactions, &once->commit, &event.offset, &error))
        event.kind = ONCE_LANDED;
    if (event.kind == ONCE_FAILED)
        once_close(once);
    if (!is_wanted)
        return;
    pthread_mutex_lock(&once->lock);
    event.ticket = once->ticket;
    once->is_taking &= event.kind == ONCE_LANDED;
    free(once->frames);
    once->frames = NULL;
    once_tell(once, event);
    pthread_mutex_unlock(&once->lock);
}

/* ---- the thread ---- */

static void once_stage_round(struct node_once *once)
{
    struct error error = {.text = ""};

    if (!once_stage(once, &error)) {
        once_sort_out(once); /* before the close: it reads the reasons */
        once_close(once);
    } else if (once_tell_staged(once)) {
        once_finish(once);
    } else {
        once_close(once);
    }
}

/* Ends the open transactions of former owners before a claim, and the node's own. */
static void once_open_for_claim(struct node_once *once)
{
    struct error error;

    once_close(once);
    const enum error_code code = once_open(once, &error);
    pthread_mutex_lock(&once->lock);
    once->is_taking = !code;
    once_tell(once, (struct node_once_event){.kind = code ? ONCE_REFUSED : ONCE_READY});
    pthread_mutex_unlock(&once->lock);
}

/* Waits for work. Returns false at the end. */
static bool once_await_work(struct node_once *once, bool *ret_is_claim, struct list *returned)
{
    pthread_mutex_lock(&once->lock);
    while (!once->is_ending && !once->is_claiming && list_is_empty(&once->queue))
        pthread_cond_wait(&once->changed, &once->lock);
    const bool is_ending = once->is_ending;
    *ret_is_claim = once->is_claiming;
    once->is_claiming = false;
    once->count = 0;
    if (is_ending || !once->is_taking)
        list_join(returned, &once->queue);
    else if (!*ret_is_claim)
        once_gather(once, returned);
    pthread_mutex_unlock(&once->lock);
    return !is_ending;
}

static void *once_run(void *argument)
{
    struct node_once *once = argument;
    bool is_claim;

    for (bool goes_on = true; goes_on;) {
        struct list returned;

        list_init(&returned);
        goes_on = once_await_work(once, &is_claim, &returned);
        once_return_all(once, &returned);
        if (goes_on && is_claim)
            once_open_for_claim(once);
        else if (goes_on && once->count > 0)
            once_stage_round(once);
    }
    once_close(once);
    return NULL;
}

/* ---- calls ---- */

void node_once_claim(struct node_once *once)
{
    pthread_mutex_lock(&once->lock);
    once->is_claiming = true;
    once->is_staged = false;
    once->event_count = 0;
    pthread_cond_broadcast(&once->changed);
    pthread_mutex_unlock(&once->lock);
}

void node_once_post(struct node_once *once, struct list *deliveries)
{
    pthread_mutex_lock(&once->lock);
    list_join(&once->queue, deliveries);
    pthread_cond_broadcast(&once->changed);
    pthread_mutex_unlock(&once->lock);
}

void node_once_drain(struct node_once *once)
{
    struct list waiting;

    list_init(&waiting);
    pthread_mutex_lock(&once->lock);
    list_join(&waiting, &once->queue);
    pthread_mutex_unlock(&once->lock);
    once_return_all(once, &waiting);
}

/* If allocation fails, aborts the transaction. The commit then stays in doubt until its time
 * limit. */
void node_once_commit(struct node_once *once, const struct replica_transaction *transaction)
{
    struct bytes *frames = calloc(transaction->frame_count, sizeof(*frames));

    assert(transaction->frame_count > 0 && transaction->from <= transaction->to);
    pthread_mutex_lock(&once->lock);
    buffer_clear(&once->frame_text);
    for (size_t i = 0; i < transaction->frame_count; i++)
        buffer_append_bytes(&once->frame_text, transaction->frames[i]);
    once->ticket = transaction->ticket;
    if (!frames || !once->is_staged || buffer_failed(&once->frame_text)) {
        once_tell(once, (struct node_once_event){.kind = ONCE_FAILED, .ticket = once->ticket});
        free(frames);
        frames = NULL;
    }
    for (size_t i = 0, at = 0; frames && i < transaction->frame_count; i++) {
        frames[i] = (struct bytes){once->frame_text.data + at, transaction->frames[i].size};
        at += frames[i].size;
    }
    once->frames = frames;
    once->is_staged = false;
    once->commit = (struct log_once_commit){
        .frames = frames,
        .frame_count = transaction->frame_count,
        .from = transaction->from,
        .to = transaction->to,
        .timeout_ms = 2 * once->options.config->cluster_lease_ms,
    };
    pthread_cond_broadcast(&once->changed);
    pthread_mutex_unlock(&once->lock);
}

void node_once_leave(struct node_once *once)
{
    pthread_mutex_lock(&once->lock);
    once->is_taking = once->is_staged = false;
    pthread_cond_broadcast(&once->changed);
    pthread_mutex_unlock(&once->lock);
    node_once_drain(once);
}

static void once_free(struct node_once *once)
{
    pthread_cond_destroy(&once->changed);
    pthread_mutex_destroy(&once->lock);
    broker_builder_deinit(&once->builder);
    buffer_deinit(&once->frame_text);
    free(once->frames);
    free(once);
}

enum error_code node_once_start(const struct node_once_options *options,
                                struct node_once **ret_once, struct error *ret_error)
{
    struct node_once *once = calloc(1, sizeof(*once));

    if (!once)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    once->options = *options;
    list_init(&once->queue);
    buffer_init(&once->frame_text);
    broker_builder_init(&once->builder);
    pthread_mutex_init(&once->lock, NULL);
    instant_condition_init(&once->changed);
    if (!thread_start(&once->thread, once_run, once, "tw-once-%u", options->partition)) {
        *ret_once = once;
        return ERROR_NONE;
    }
    once_free(once);
    return error_set(ret_error, ERROR_IO, "no thread for transactions");
}

void node_once_stop(struct node_once *once)
{
    if (!once)
        return;
    pthread_mutex_lock(&once->lock);
    once->is_ending = true;
    once->is_taking = once->is_staged = false;
    pthread_cond_broadcast(&once->changed);
    pthread_mutex_unlock(&once->lock);
    pthread_join(once->thread, NULL);
    node_once_drain(once);
    once_free(once);
}
