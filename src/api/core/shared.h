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

#include <pthread.h>
#include <stdatomic.h>

/* The memory and the batches that all requests in flight may take together. */
struct api_budget {
    size_t bodies_bytes_max;  /* memory for bodies, but small ones and those of batches */
    size_t answers_bytes_max; /* memory for answers, until they are sent */
    size_t batches_max;       /* batches at a time */
};

#define API_BUDGET_DEFAULT ((struct api_budget){256 << 20, 512 << 20, 256})

struct api {
    struct api_options options;
    const struct route *routes; /* the table */
    size_t route_count;
    struct buffer openapi, openapi_strict; /* the documents, as they are served */
    struct timer_json_limits limits;
    struct http_server *server;
    /* Requests to the node that wait until the turn has read all that is ready, a list for each
     * shard's thread and only touched by it. */
    struct list *outboxes;
    struct access *access;
    struct api_budget budget;
    _Atomic size_t bodies_bytes, answers_bytes; /* against the budget */
    pthread_mutex_t lock;
    pthread_cond_t batch_ended;
    struct list held;           /* calls, by held_link; guarded by lock */
    _Atomic unsigned forecasts; /* under way */
    struct concurrency lists;   /* that are read */
    struct concurrency tallies; /* surveys of all partitions */
    size_t batches;             /* guarded by lock; they may outlive their requests */
};

/* Takes the tokens in the options, in any case. ERROR_NO_MEMORY: nothing to undo. */
enum error_code shared_init(struct api *api, const struct api_options *options);

/* Waits for the last batch. */
void shared_deinit(struct api *api);

/* Reserves a place for one more batch. False: batches_max are under way. */
bool shared_enter_batch(struct api *api);
void shared_leave_batch(struct api *api);

#endif
