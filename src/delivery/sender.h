/*
 * sender.h - how the deliveries of one kind of target leave, and all senders of a node by kind.
 *
 *     senders_start(&options, &senders, &error);
 *     senders_check(senders, tenant, text, &target, &error);    at creation: may it go there?
 *     senders_post(senders, &deliveries);                they come back through options.done
 *     senders_stop(senders);
 *
 * The table of kinds (timer/target.h) names the sender of each kind: `webhook` is sender_webhook,
 * which one file of this folder defines. Kinds that name one sender share it.
 *
 * Errors     Every delivery comes back with an outcome; none is dropped, at stop neither.
 * Threads    check, post and status from any thread; start, drain and stop from one. `done` is
 *            called from any thread, from within post and stop too.
 */
#ifndef TICKWHEEL_DELIVERY_SENDER_H
#define TICKWHEEL_DELIVERY_SENDER_H

#include "delivery/targets.h"
#include "engine/delivery.h"
#include "ops/config.h"

struct sender_options {
    const struct config *config; /* borrowed until stop, as are the next two */
    const char *user_agent;
    struct targets *targets;                              /* the breakers */
    void (*done)(void *context, struct list *deliveries); /* takes the whole list */
    void *context;
};

/* Members that are NULL do nothing: a sender without `check` takes every target of its kind. */
struct sender {
    /* `ret_self` is what the others are called with; NULL may be one. */
    enum error_code (*start)(const struct sender_options *options, void **ret_self,
                             struct error *ret_error);

    /* Whether the tenant, or no tenant, may create a timer with this target: ERROR_INVALID says why
     * not. */
    enum error_code (*check)(void *self, struct bytes tenant, struct bytes text,
                             const struct target *target, struct error *ret_error);

    /* Takes every delivery of the list, which is not empty before and is empty afterwards. Does not
     * wait. */
    void (*post)(void *self, struct list *deliveries);

    /* How the target stands. NULL: the kind has no breaker. */
    void (*status)(void *self, const struct timer *timer, struct target_status *ret_status);

    /* Takes over the secrets and the trusted certificates of these settings, whose other values are
     * those of the start. On an error the former ones stay in use. `reloads` names them. */
    const char *reloads;
    enum error_code (*reload)(void *self, const struct config *config, struct error *ret_error);

    /* Gives back soon whatever cannot leave now. */
    void (*drain)(void *self);

    /* Ends it. Whatever has not left yet comes back before this returns. */
    void (*stop)(void *self);
};

struct senders;

/* Starts every sender. On an error those that were started are stopped. */
enum error_code senders_start(const struct sender_options *options, struct senders **ret_senders,
                              struct error *ret_error);

enum error_code senders_check(const struct senders *senders, struct bytes tenant, struct bytes text,
                              const struct target *target, struct error *ret_error);

/* Takes every delivery of the list. A delivery that no sender takes comes back ENDED. */
void senders_post(const struct senders *senders, struct list *deliveries);

/* How the target of the timer stands; false when its kind has no breaker. */
bool senders_status(const struct senders *senders, const struct timer *timer,
                    struct target_status *ret_status);

/* The result of a reload; `what` names the settings that were taken over. */
typedef void (*senders_told)(void *context, const char *what, enum error_code code,
                             const struct error *error);

/* Reloads each sender that has something to reload, and tells of each. */
void senders_reload(struct senders *senders, const struct config *config, senders_told told,
                    void *context);

void senders_drain(struct senders *senders);
void senders_stop(struct senders *senders);

/* What the sender of this kind was started as. */
void *senders_find(const struct senders *senders, enum target_kind kind);

#endif
