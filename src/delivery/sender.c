/* sender.c - the senders by kind of target, as the table of kinds names them. */
#include "delivery/sender.h"

#include "sys/clock.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { SENDERS_POSTPONE_MS = 1000 }; /* delay of deliveries after the system refused a thread */

struct senders {
    struct sender_options options;
    pthread_mutex_t lock; /* held while the thread of a sender is started */
    size_t count;
    struct sender_running {
        const struct sender *sender;
        void *self;
        atomic_bool has_begun;
    } running[TARGET_KIND_COUNT];
    size_t by_kind[TARGET_KIND_COUNT]; /* index in `running` of the sender of each kind */
};

/* The only place that maps a kind to its sender. Kinds share senders, so each declaration is
 * local to its row, and some are repeated. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
static const struct sender *sender_of(enum target_kind kind)
{
    switch (kind) {
#define X(NAME, scheme, parser, sharing, by)    \
    case TARGET_##NAME: {                       \
        extern const struct sender sender_##by; \
        return &sender_##by;                    \
    }
        TARGET_KIND_LIST(X)
#undef X
    default: {
        extern const struct sender sender_none;
        return &sender_none;
    }
    }
}
#pragma GCC diagnostic pop

/* Sender of targets that are pulled, or that this version does not know. It is never used. */
const struct sender sender_none = {0};

static const struct sender_running *senders_running(const struct senders *senders,
                                                    enum target_kind kind)
{
    assert(kind < TARGET_KIND_COUNT);
    return &senders->running[senders->by_kind[kind]];
}

static enum error_code senders_start_one(struct senders *senders, enum target_kind kind,
                                         struct error *ret_error)
{
    const struct sender *sender = sender_of(kind);
    size_t index = 0;

    while (index < senders->count && senders->running[index].sender != sender)
        index++;
    senders->by_kind[kind] = index;
    if (index < senders->count)
        return ERROR_NONE;
    enum error_code code = ERROR_NONE;
    void *self = NULL;
    if (sender->start)
        code = sender->start(&senders->options, &self, ret_error);
    if (!code)
        senders->running[senders->count++] = (struct sender_running){sender, self, !sender->begin};
    return code;
}

enum error_code senders_start(const struct sender_options *options, struct senders **ret_senders,
                              struct error *ret_error)
{
    struct senders *senders = calloc(1, sizeof(*senders));

    if (!senders)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    senders->options = *options;
    pthread_mutex_init(&senders->lock, NULL);
    enum error_code code = ERROR_NONE;
    for (unsigned kind = 0; kind < TARGET_KIND_COUNT && !code; kind++)
        code = senders_start_one(senders, kind, ret_error);
    if (code) {
        senders_stop(senders);
        return code;
    }
    *ret_senders = senders;
    return ERROR_NONE;
}

enum error_code senders_check(const struct senders *senders, struct bytes tenant, struct bytes text,
                              const struct target *target, struct error *ret_error)
{
    const struct sender_running *running = senders_running(senders, target->kind);

    return running->sender->check
               ? running->sender->check(running->self, tenant, text, target, ret_error)
               : ERROR_NONE;
}

/* Starts the sender's thread at its first post. */
static enum error_code senders_begin(struct senders *senders, struct sender_running *running,
                                     struct error *ret_error)
{
    enum error_code code = ERROR_NONE;

    if (atomic_load_explicit(&running->has_begun, memory_order_acquire))
        return ERROR_NONE;
    pthread_mutex_lock(&senders->lock);
    if (!atomic_load(&running->has_begun))
        code = running->sender->begin(running->self, ret_error);
    if (!code)
        atomic_store(&running->has_begun, true);
    pthread_mutex_unlock(&senders->lock);
    return code;
}

/* Gives back deliveries that no sender takes. */
static void senders_refuse(const struct senders *senders, struct list *deliveries,
                           const struct delivery_outcome *outcome)
{
    LIST_FOR_EACH (deliveries, link) {
        struct delivery *delivery = list_item(link, struct delivery, link);

        delivery->outcome = *outcome;
        delivery->started_us = delivery->ended_us = wall_now_us();
    }
    senders->options.done(senders->options.context, deliveries);
}

static void senders_post_to(struct senders *senders, struct sender_running *running,
                            struct list *deliveries)
{
    struct delivery_outcome refused = {.result = DELIVERY_ENDED,
                                       .error = "this version cannot deliver to this target"};
    struct error error;

    if (!running->sender->post) {
        senders_refuse(senders, deliveries, &refused);
    } else if (senders_begin(senders, running, &error)) {
        refused.result = DELIVERY_POSTPONED;
        refused.retry_after_ms = SENDERS_POSTPONE_MS;
        snprintf(refused.error, sizeof(refused.error), "%.150s", error.text);
        senders_refuse(senders, deliveries, &refused);
    } else {
        running->sender->post(running->self, deliveries);
    }
}

/* Consecutive deliveries of one sender are posted together, because each post takes a lock. */
void senders_post(struct senders *senders, struct list *deliveries)
{
    struct list runs[TARGET_KIND_COUNT];

    for (size_t i = 0; i < senders->count; i++)
        list_init(&runs[i]);
    struct list *link;
    while ((link = list_pop(deliveries))) {
        const struct delivery *delivery = list_item(link, struct delivery, link);

        list_push(&runs[senders->by_kind[delivery->timer->target.kind]], link);
    }
    for (size_t i = 0; i < senders->count; i++) {
        if (list_is_empty(&runs[i]))
            continue;
        senders_post_to(senders, &senders->running[i], &runs[i]);
        assert(list_is_empty(&runs[i]));
    }
}

bool senders_status(const struct senders *senders, const struct timer *timer,
                    struct target_status *ret_status)
{
    const struct sender_running *running = senders_running(senders, timer->target.kind);

    if (!running->sender->status)
        return false;
    running->sender->status(running->self, timer, ret_status);
    return true;
}

void senders_reload(struct senders *senders, const struct config *config, senders_told told,
                    void *context)
{
    for (size_t i = 0; i < senders->count; i++) {
        const struct sender *sender = senders->running[i].sender;
        struct error error = {.text = ""};

        if (!sender->reload)
            continue;
        const enum error_code code = sender->reload(senders->running[i].self, config, &error);
        told(context, sender->reloads, code, &error);
    }
}

void senders_drain(struct senders *senders)
{
    for (size_t i = 0; i < senders->count; i++)
        if (senders->running[i].sender->drain)
            senders->running[i].sender->drain(senders->running[i].self);
}

void senders_stop(struct senders *senders)
{
    for (size_t i = 0; i < senders->count; i++)
        if (senders->running[i].sender->stop)
            senders->running[i].sender->stop(senders->running[i].self);
    pthread_mutex_destroy(&senders->lock);
    free(senders);
}

void *senders_find(const struct senders *senders, enum target_kind kind)
{
    return senders_running(senders, kind)->self;
}
