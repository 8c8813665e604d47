/*
 * routes.c - the table of routes.
 */
#include "api/routes.h"

#include "api/core/scatter.h"
#include "api/operations/admin.h"
#include "api/operations/service.h"
#include "api/queues/queues.h"
#include "api/timers/batch.h"
#include "api/timers/bulk.h"
#include "api/timers/dead.h"
#include "api/timers/explain.h"
#include "api/timers/forecast.h"
#include "api/timers/keys.h"
#include "api/timers/list.h"
#include "api/timers/preview.h"
#include "api/timers/timers.h"
#include "api/timers/watch.h"

/* What each needs of its caller stands in openapi.json too; a test compares.
 * A path with a literal segment stands before the one with a parameter in its place. */
const struct route routes[] = {
    {"POST", "/v1/timers", ACCESS_SCHEDULE, METRIC_ROUTE_TIMER_CREATE, timers_create_begin,
     call_collect, timers_create, NULL, NULL},
    {"GET", "/v1/timers", ACCESS_READ, METRIC_ROUTE_TIMER_LIST, NULL, NULL, list_end, NULL,
     list_closed},
    {"POST", "/v1/timers/batch", ACCESS_SCHEDULE, METRIC_ROUTE_TIMER_BATCH, batch_begin, batch_body,
     batch_end, batch_resumed, batch_closed},
    {"POST", "/v1/timers/cancel", ACCESS_SCHEDULE, METRIC_ROUTE_TIMER_CANCEL, bulk_begin,
     call_collect, bulk_cancel, NULL, scatter_closed},
    {"POST", "/v1/timers/reschedule", ACCESS_SCHEDULE, METRIC_ROUTE_TIMER_RESCHEDULE, bulk_begin,
     call_collect, bulk_reschedule, NULL, scatter_closed},
    {"POST", "/v1/timers/touch", ACCESS_SCHEDULE, METRIC_ROUTE_TIMER_TOUCH_MANY, bulk_begin,
     call_collect, bulk_touch, NULL, scatter_closed},
    {"GET", "/v1/timers/{id}", ACCESS_READ, METRIC_ROUTE_TIMER_GET, NULL, NULL, timers_get, NULL,
     NULL},
    {"GET", "/v1/timers/{id}/explain", ACCESS_READ, METRIC_ROUTE_TIMER_EXPLAIN, NULL, NULL,
     explain_end, NULL, NULL},
    {"PATCH", "/v1/timers/{id}", ACCESS_SCHEDULE, METRIC_ROUTE_TIMER_PATCH, timers_patch_begin,
     call_collect, timers_patch, NULL, NULL},
    {"DELETE", "/v1/timers/{id}", ACCESS_SCHEDULE, METRIC_ROUTE_TIMER_DELETE, timers_delete_begin,
     NULL, timers_delete, NULL, NULL},
    {"POST", "/v1/timers/{id}/touch", ACCESS_SCHEDULE, METRIC_ROUTE_TIMER_TOUCH, timers_touch_begin,
     call_collect, timers_touch, NULL, NULL},
    {"POST", "/v1/keys/{key}/touch", ACCESS_SCHEDULE, METRIC_ROUTE_KEY_TOUCH, timers_touch_begin,
     call_collect, keys_touch, NULL, NULL},
    {"PUT", "/v1/keys/{key}/timer", ACCESS_SCHEDULE, METRIC_ROUTE_KEY_PUT, keys_put_begin,
     call_collect, keys_put, NULL, NULL},
    {"GET", "/v1/keys/{key}/timer", ACCESS_READ, METRIC_ROUTE_KEY_GET, NULL, NULL, keys_get, NULL,
     NULL},
    {"PATCH", "/v1/keys/{key}/timer", ACCESS_SCHEDULE, METRIC_ROUTE_KEY_PATCH, timers_patch_begin,
     call_collect, keys_patch, NULL, NULL},
    {"DELETE", "/v1/keys/{key}/timer", ACCESS_SCHEDULE, METRIC_ROUTE_KEY_DELETE,
     timers_delete_begin, NULL, keys_delete, NULL, NULL},
    {"POST", "/v1/watch/complete", ACCESS_SCHEDULE, METRIC_ROUTE_WATCH_COMPLETE_MANY,
     watch_complete_many_begin, call_collect, watch_complete_many, NULL, scatter_closed},
    {"POST", "/v1/watch/{key}/complete", ACCESS_SCHEDULE, METRIC_ROUTE_WATCH_COMPLETE,
     watch_complete_begin, call_collect, watch_complete, NULL, scatter_closed},
    {"GET", "/v1/schedule/preview", ACCESS_READ, METRIC_ROUTE_PREVIEW, NULL, NULL, preview_end,
     NULL, NULL},
    {"GET", "/v1/forecast", ACCESS_READ, METRIC_ROUTE_FORECAST, NULL, NULL, forecast_end_of, NULL,
     forecast_closed},
    {"POST", "/v1/queues/{name}/lease", ACCESS_SCHEDULE, METRIC_ROUTE_QUEUE_LEASE, queues_begin,
     call_collect, queues_lease, NULL, queues_closed},
    {"POST", "/v1/queues/{name}/ack", ACCESS_SCHEDULE, METRIC_ROUTE_QUEUE_ACK, queues_begin,
     call_collect, queues_ack, NULL, queues_closed},
    {"POST", "/v1/queues/{name}/nack", ACCESS_SCHEDULE, METRIC_ROUTE_QUEUE_NACK, queues_begin,
     call_collect, queues_nack, NULL, queues_closed},
    {"POST", "/v1/queues/{name}/extend", ACCESS_SCHEDULE, METRIC_ROUTE_QUEUE_EXTEND, queues_begin,
     call_collect, queues_extend, NULL, queues_closed},
    {"GET", "/v1/dead", ACCESS_READ, METRIC_ROUTE_DEAD_LIST, NULL, NULL, dead_list, NULL,
     list_closed},
    {"POST", "/v1/dead/redrive", ACCESS_SCHEDULE, METRIC_ROUTE_DEAD_REDRIVE, dead_redrive_begin,
     call_collect, dead_redrive, NULL, dead_redrive_closed},
    {"POST", "/v1/admin/backup", ACCESS_ADMIN, METRIC_ROUTE_BACKUP, NULL, NULL, admin_backup, NULL,
     admin_closed},
    {"GET", "/healthz", ACCESS_OPEN, METRIC_ROUTE_HEALTHZ, NULL, NULL, service_healthz, NULL, NULL},
    {"GET", "/readyz", ACCESS_OPEN, METRIC_ROUTE_READYZ, NULL, NULL, service_readyz, NULL, NULL},
    {"GET", "/metrics", ACCESS_ADMIN, METRIC_ROUTE_METRICS, NULL, NULL, service_metrics, NULL,
     NULL},
    {"GET", "/openapi.json", ACCESS_OPEN, METRIC_ROUTE_OPENAPI, NULL, NULL, service_openapi, NULL,
     NULL},
    {"GET", "/", ACCESS_OPEN, METRIC_ROUTE_OTHER, NULL, NULL, service_index, NULL, NULL},
};

const size_t routes_count = sizeof(routes) / sizeof(routes[0]);
