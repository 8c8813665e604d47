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
    struct targets *targets;              /* breakers of the targets */
    struct definition_board *definitions; /* what tenants define by name; NULL means nothing */
    void (*done)(void *context, struct list *deliveries); /* becomes the owner of the deliveries */
    void *context;
};

/* A sender, as a table of functions. NULL means that there is nothing to do; without `check`, every
 * target of its kinds is accepted. */
struct sender {
    /* Starts the sender. `ret_self` is the first argument of the other functions; may be NULL. */
    enum error_code (*start)(const struct sender_options *options, void **ret_self,
                             struct error *ret_error);

    /* Starts the sender's thread. Called before the first post, so that a sender without work has
     * no thread. If it fails, the next post calls it again. */
    enum error_code (*begin)(void *self, struct error *ret_error);

    /* Checks whether the tenant may create a timer with this target; an empty tenant is none.
     * ERROR_INVALID has the reason. */
    enum error_code (*check)(void *self, struct bytes tenant, struct bytes text,
                             const struct target *target, struct error *ret_error);

    /* Takes the deliveries of a list that is not empty, and empties it. Does not wait. */
    void (*post)(void *self, struct list *deliveries);

    /* Returns the state of the target. NULL if the kind has no breaker. */
    void (*status)(void *self, const struct timer *timer, struct target_status *ret_status);

    /* Applies the secrets and trusted certificates of `config`. Other settings stay as they were at
     * the start. On an error nothing changes. `reloads` names what is applied, for the log. */
    const char *reloads;
    enum error_code (*reload)(void *self, const struct config *config, struct error *ret_error);

    /* Gives deliveries back soon that cannot be sent now. */
    void (*drain)(void *self);

    /* Stops the sender. Deliveries that were not sent come back before this returns. */
    void (*stop)(void *self);
};

struct senders;

/* Starts every sender. If one fails, those that were started are stopped. */
enum error_code senders_start(const struct sender_options *options, struct senders **ret_senders,
                              struct error *ret_error);

enum error_code senders_check(const struct senders *senders, struct bytes tenant, struct bytes text,
                              const struct target *target, struct error *ret_error);

/* Takes the deliveries and empties the list. A delivery that no sender takes comes back as ENDED.
 * If its sender gets no thread, it comes back as POSTPONED. */
void senders_post(struct senders *senders, struct list *deliveries);

/* Returns the state of the timer's target. False if its kind has no breaker. */
bool senders_status(const struct senders *senders, const struct timer *timer,
                    struct target_status *ret_status);

/* Called with the result of one reload; `what` names the settings that were applied. */
typedef void (*senders_told)(void *context, const char *what, enum error_code code,
                             const struct error *error);

/* Reloads each sender that can reload, and calls `told` for each. */
void senders_reload(struct senders *senders, const struct config *config, senders_told told,
                    void *context);

void senders_drain(struct senders *senders);
void senders_stop(struct senders *senders);

/* Appends the public keys of the tokens of webhooks, as a JWK set. `self` is that of TARGET_HTTPS.
 * May be called from any thread. */
void sender_webhook_append_key_set(void *self, struct buffer *out);

/* Returns the named targets of the sender of webhooks, which `self` is. */
struct named *webhook_sender_named(void *self);

/* Returns `ret_self` of the sender of this kind. */
void *senders_find(const struct senders *senders, enum target_kind kind);

#endif
