/*
 * shared.h - the state that all requests of one API share: options, limits, budgets.
 *
 * Threads    Any; each field says what guards it. Fields without a comment do not change after
 *            the start.
 */
#ifndef TICKWHEEL_API_CORE_SHARED_H
#define TICKWHEEL_API_CORE_SHARED_H

#include "api/core/access.h"
#include "api/core/concurrency.h"
#include "api/core/options.h"
#include "api/json/timer_json.h"
#include "timer/tenant_pot.h"

#include <pthread.h>
#include <stdatomic.h>

/* Maximum of forecasts at once: each reads up to some hundred thousand rows. */
enum { FORECASTS_MAX = 4 };

struct api {
    struct api_options options;
    const struct route *routes; /* the table */
    size_t route_count;
    struct buffer openapi, openapi_strict; /* documents as they are served */
    struct timer_json_limits limits;
    struct http_server *server;
    /* Requests to the node that wait until the turn has read all available input: a list for
     * each shard's thread, used only by it. */
    struct list *outboxes;
    struct access *access;
    /* Limits of all requests in flight; each tenant has a share. */
    struct tenant_pot bodies;      /* bytes of bodies, except small ones and those of batches */
    struct tenant_pot answers;     /* bytes of unsent answers */
    struct tenant_pot batches;     /* running batches, which may outlive their requests */
    struct tenant_pot connections; /* open connections on which a token was accepted */
    pthread_mutex_t lock;
    pthread_cond_t batch_ended;
    struct list held;             /* calls, by held_link; guarded by lock */
    struct concurrency lists;     /* list scans */
    struct concurrency tallies;   /* surveys of all partitions */
    struct concurrency forecasts; /* under way */
};

/* Takes the tokens in the options in any case. On ERROR_NO_MEMORY there is nothing to undo. */
enum error_code shared_init(struct api *api, const struct api_options *options);

/* Returns the limit of open connections without a token; 0 if there are no tokens. */
uint32_t shared_strangers_max(const struct api *api, const struct config *config);

/* Waits for the last batch. */
void shared_deinit(struct api *api);

/* Gives back the place of a batch that has ended. */
void shared_leave_batch(struct api *api, struct tenant_pot_share *share);

#endif
