/* sender.c - the senders by kind of target, as the table of kinds names them. */
#include "delivery/sender.h"

#include "sys/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

struct senders {
    struct sender_options options;
    size_t count;
    struct sender_running {
        const struct sender *sender;
        void *self;
    } running[TARGET_KIND_COUNT];
    size_t by_kind[TARGET_KIND_COUNT]; /* indices of `running` */
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

/* For targets that are pulled, or that this version does not know: never sent. */
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
        senders->running[senders->count++] = (struct sender_running){sender, self};
    return code;
}

enum error_code senders_start(const struct sender_options *options, struct senders **ret_senders,
                              struct error *ret_error)
{
    struct senders *senders = calloc(1, sizeof(*senders));

    if (!senders)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    senders->options = *options;
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

/* Gives back deliveries that no sender takes. */
static void senders_refuse(const struct senders *senders, struct list *deliveries)
{
    LIST_FOR_EACH (deliveries, link) {
        struct delivery *delivery = list_item(link, struct delivery, link);

        delivery->outcome = (struct delivery_outcome){.result = DELIVERY_ENDED};
        snprintf(delivery->outcome.error, sizeof(delivery->outcome.error),
                 "this version cannot deliver to this target");
        delivery->started_us = delivery->ended_us = wall_now_us();
    }
    senders->options.done(senders->options.context, deliveries);
}

/* Posts those of one sender together, because each post takes a lock. */
void senders_post(const struct senders *senders, struct list *deliveries)
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
        const struct sender_running *running = &senders->running[i];

        if (list_is_empty(&runs[i]))
            continue;
        if (running->sender->post)
            running->sender->post(running->self, &runs[i]);
        else
            senders_refuse(senders, &runs[i]);
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
    free(senders);
}

void *senders_find(const struct senders *senders, enum target_kind kind)
{
    return senders_running(senders, kind)->self;
}
