/*
 * metrics.h - what the service counts and measures, as one table, shown in Prometheus' text format.
 *
 *     metrics_add(metrics, METRIC_ATTEMPTS, 1);
 *     metrics_set(metrics, METRIC_TIMERS_PENDING, stats.pending);
 *     metrics_observe_us(metrics, HISTOGRAM_COMMIT, elapsed_us);
 *
 * Time       Durations go in as microseconds or, for gauges, milliseconds (the name says so) and
 *            are shown in seconds.
 * Errors     Only metrics_create fails, and only for want of memory.
 * Threads    Any, without locks: relaxed atomics, each on a cache line of its own. A reader may see
 *            one metric before another that was written first.
 */
#ifndef TICKWHEEL_OPS_METRICS_H
#define TICKWHEEL_OPS_METRICS_H

#include "base/bytes.h"
#include "base/time.h"

/* X(ID, kind, name, labels, scale, help); lines of one name stand together and share the first
 * help. The scale divides the stored integer: 1000 shows milliseconds as seconds. */
#define METRIC_LIST(X)                                                                            \
    X(TIMERS_PENDING, GAUGE, "tickwheel_timers_pending", "", 1,                                   \
      "Live timers, on disk and in memory.")                                                      \
    X(TIMERS_CREATED, COUNTER, "tickwheel_timers_created_total", "", 1, "Timers created.")        \
    X(TIMERS_FIRED, COUNTER, "tickwheel_timers_fired_total", "", 1,                               \
      "Timers delivered with success.")                                                           \
    X(TIMERS_CANCELLED, COUNTER, "tickwheel_timers_cancelled_total", "", 1, "Timers cancelled.")  \
    X(TIMERS_DEAD, COUNTER, "tickwheel_timers_dead_total", "", 1,                                 \
      "Timers that ran out of attempts or were refused for good.")                                \
    X(TIMERS_DROPPED, COUNTER, "tickwheel_timers_dropped_total", "", 1,                           \
      "Firings that were later than their timer allows.")                                         \
    X(TIMERS_TOUCHED, COUNTER, "tickwheel_timers_touched_total", "", 1,                           \
      "Times that were extended by a short record beside the timer's row.")                       \
    X(TIMERS_MOVED_ON, COUNTER, "tickwheel_timers_moved_on_total", "", 1,                         \
      "Rows of such timers that were moved when their old time came.")                            \
    X(TIMERS_SPILLED, COUNTER, "tickwheel_timers_spilled_total", "", 1,                           \
      "Due timers put back to the storage because their target had no room.")                     \
    X(TIMERS_CALLED_IN, COUNTER, "tickwheel_timers_called_in_total", "", 1,                       \
      "Timers that were put back so, and taken up as soon as there was room.")                    \
    X(TIMERS_IN_MEMORY, GAUGE, "tickwheel_timers_in_memory", "", 1, "Timers in memory.")          \
    X(NEAR_BYTES, GAUGE, "tickwheel_near_bytes", "", 1, "Memory that those timers take.")         \
    X(OLDEST_OVERDUE_MS, GAUGE, "tickwheel_oldest_overdue_seconds", "", 1000,                     \
      "How late the timer that is late by most is; 0 when none is late.")                         \
    X(ATTEMPTS, COUNTER, "tickwheel_attempts_total", "", 1, "Deliveries attempted.")              \
    X(ATTEMPTS_FAILED, COUNTER, "tickwheel_attempts_failed_total", "", 1,                         \
      "Deliveries that failed and may be tried again.")                                           \
    X(DELIVERIES_INFLIGHT, GAUGE, "tickwheel_deliveries_inflight", "", 1,                         \
      "Deliveries without an outcome yet.")                                                       \
    X(DELIVERIES_WAITING, GAUGE, "tickwheel_deliveries_waiting", "", 1,                           \
      "Due timers that wait for room at their target, or for a worker.")                          \
    X(ATTEMPTS_POSTPONED, COUNTER, "tickwheel_attempts_postponed_total", "", 1,                   \
      "Deliveries put off because the breaker of their target was open.")                         \
    X(BREAKERS_OPEN, GAUGE, "tickwheel_breakers_open", "", 1,                                     \
      "Targets that are left alone because they failed.")                                         \
    X(BREAKERS_OPENED, COUNTER, "tickwheel_breakers_opened_total", "", 1,                         \
      "How often the breaker of a target opened, again too.")                                     \
    X(TIMERS_CATCHING_UP, GAUGE, "tickwheel_timers_catching_up", "", 1,                           \
      "Overdue timers that wait because of catch_up_rate_max.")                                   \
    X(QUEUE_LEASED, GAUGE, "tickwheel_queue_leased", "", 1, "Items that workers hold.")           \
    X(QUEUE_WAITING, GAUGE, "tickwheel_queue_waiting", "", 1, "Workers that wait for work.")      \
    X(QUEUE_LEASES, COUNTER, "tickwheel_queue_leases_total", "", 1, "Items leased.")              \
    X(QUEUE_ACKS, COUNTER, "tickwheel_queue_acks_total", "", 1, "Items done.")                    \
    X(QUEUE_NACKS, COUNTER, "tickwheel_queue_nacks_total", "", 1, "Items given back.")            \
    X(QUEUE_LEASES_ENDED, COUNTER, "tickwheel_queue_leases_ended_total", "", 1,                   \
      "Leases that ended without an answer.")                                                     \
    X(QUEUE_RECEIPTS_STALE, COUNTER, "tickwheel_queue_receipts_stale_total", "", 1,               \
      "Receipts that were refused, for their lease was over.")                                    \
    X(COMMIT_WRITES, COUNTER, "tickwheel_commit_writes_total", "", 1,                             \
      "Rows written; divide by tickwheel_commit_seconds_count for the size of a commit.")         \
    X(STORAGE_FAILURES, COUNTER, "tickwheel_storage_failures_total", "", 1,                       \
      "Reads and commits that failed.")                                                           \
    X(RECORDS_CORRUPT, COUNTER, "tickwheel_records_corrupt_total", "", 1,                         \
      "Stored records that were damaged and set aside.")                                          \
    X(LOGS_TORN, GAUGE, "tickwheel_storage_torn_logs", "", 1,                                     \
      "Logs that ended within a write when the storage was opened, as a power cut leaves them.")  \
    X(WRITES_LOST, GAUGE, "tickwheel_storage_lost_writes", "", 1,                                 \
      "Changes that a damaged log cost when the storage was opened with storage_damage = skip.")  \
    X(BACKUPS, COUNTER, "tickwheel_backups_total", "", 1, "Backups finished.")                    \
    X(BACKUPS_FAILED, COUNTER, "tickwheel_backups_failed_total", "", 1, "Backups that failed.")   \
    X(BACKUP_LAST_MS, GAUGE, "tickwheel_backup_last_timestamp_seconds", "", 1000,                 \
      "When the last backup was finished, since 1970; 0: none by this process.")                  \
    X(BACKUP_LAST_BYTES, GAUGE, "tickwheel_backup_last_bytes", "", 1, "Size of the last backup.") \
    X(DISK_BYTES, GAUGE, "tickwheel_disk_bytes", "", 1, "Disk that the storage takes.")           \
    X(DISK_FREE_BYTES, GAUGE, "tickwheel_disk_free_bytes", "", 1,                                 \
      "Free disk where the storage lies.")                                                        \
    X(REFUSED_OVERLOADED, COUNTER, "tickwheel_refused_total", "reason=\"overloaded\"", 1,         \
      "Requests and timers refused because of a limit, by reason.")                               \
    X(REFUSED_TOO_MANY, COUNTER, "tickwheel_refused_total", "reason=\"too-many\"", 1, "")         \
    X(REFUSED_DISK_FULL, COUNTER, "tickwheel_refused_total", "reason=\"disk-full\"", 1, "")       \
    X(REFUSED_STOPPING, COUNTER, "tickwheel_refused_total", "reason=\"stopping\"", 1, "")         \
    X(REFUSED_TOO_LARGE, COUNTER, "tickwheel_refused_total", "reason=\"too-large\"", 1, "")       \
    X(REFUSED_UNAUTHENTICATED, COUNTER, "tickwheel_refused_total", "reason=\"unauthenticated\"",  \
      1, "")                                                                                      \
    X(REFUSED_FORBIDDEN, COUNTER, "tickwheel_refused_total", "reason=\"forbidden\"", 1, "")       \
    X(REFUSED_CONNECTIONS, COUNTER, "tickwheel_refused_total", "reason=\"connections\"", 1, "")   \
    X(READY, GAUGE, "tickwheel_ready", "", 1, "1 when requests are served, as /readyz says.")

/* X(ID, name, labels, help); the rules above hold here too. */
#define HISTOGRAM_LIST(X)                                                                          \
    X(LATENESS_SCHEDULE, "tickwheel_lateness_seconds", "stage=\"schedule\"",                       \
      "Where a delivery's lateness comes from: due to taken from the wheel (schedule), to handed " \
      "to the delivery thread (queue), to the request's start (transfer).")                        \
    X(LATENESS_QUEUE, "tickwheel_lateness_seconds", "stage=\"queue\"", "")                         \
    X(LATENESS_TRANSFER, "tickwheel_lateness_seconds", "stage=\"transfer\"", "")                   \
    X(DELIVERY_LATENESS, "tickwheel_delivery_lateness_seconds", "",                                \
      "From a timer's due time to the start of its request.")                                      \
    X(COMMIT, "tickwheel_commit_seconds", "", "One commit of the storage, sync included.")         \
    X(ACKNOWLEDGE, "tickwheel_acknowledge_seconds", "",                                            \
      "From a command's submission to its durable answer.")                                        \
    X(HTTP_REQUEST, "tickwheel_http_request_seconds", "",                                          \
      "From a request's first byte to its answer.")

/* The routes that requests are counted by: X(ID, label). */
#define METRIC_ROUTE_LIST(X)                      \
    X(TIMER_CREATE, "timer_create")               \
    X(TIMER_GET, "timer_get")                     \
    X(TIMER_EXPLAIN, "timer_explain")             \
    X(TIMER_PATCH, "timer_patch")                 \
    X(TIMER_DELETE, "timer_delete")               \
    X(TIMER_LIST, "timer_list")                   \
    X(TIMER_BATCH, "timer_batch")                 \
    X(TIMER_CANCEL, "timer_cancel")               \
    X(TIMER_RESCHEDULE, "timer_reschedule")       \
    X(TIMER_TOUCH, "timer_touch")                 \
    X(TIMER_TOUCH_MANY, "timer_touch_many")       \
    X(KEY_PUT, "key_put")                         \
    X(KEY_TOUCH, "key_touch")                     \
    X(KEY_GET, "key_get")                         \
    X(KEY_PATCH, "key_patch")                     \
    X(KEY_DELETE, "key_delete")                   \
    X(WATCH_COMPLETE, "watch_complete")           \
    X(WATCH_COMPLETE_MANY, "watch_complete_many") \
    X(PREVIEW, "schedule_preview")                \
    X(FORECAST, "forecast")                       \
    X(QUEUE_LEASE, "queue_lease")                 \
    X(QUEUE_ACK, "queue_ack")                     \
    X(QUEUE_NACK, "queue_nack")                   \
    X(QUEUE_EXTEND, "queue_extend")               \
    X(DEAD_LIST, "dead_list")                     \
    X(DEAD_REDRIVE, "dead_redrive")               \
    X(BACKUP, "backup")                           \
    X(HEALTHZ, "healthz")                         \
    X(READYZ, "readyz")                           \
    X(METRICS, "metrics")                         \
    X(OPENAPI, "openapi")                         \
    X(OTHER, "other")

enum metric {
#define X(id, kind, name, labels, scale, help) METRIC_##id,
    METRIC_LIST(X)
#undef X
        METRIC_COUNT
};

enum histogram {
#define X(id, name, labels, help) HISTOGRAM_##id,
    HISTOGRAM_LIST(X)
#undef X
        HISTOGRAM_COUNT
};

enum metric_route {
#define X(id, label) METRIC_ROUTE_##id,
    METRIC_ROUTE_LIST(X)
#undef X
        METRIC_ROUTE_COUNT
};

struct metrics;

/* All zero. `version` (borrowed) and `started` are shown. NULL when out of memory. */
struct metrics *metrics_create(const char *version, struct wall started);
void metrics_destroy(struct metrics *metrics);

void metrics_add(struct metrics *metrics, enum metric metric, uint64_t count);

/* For gauges, and for counters that are counted elsewhere. */
void metrics_set(struct metrics *metrics, enum metric metric, uint64_t value);

uint64_t metrics_get(const struct metrics *metrics, enum metric metric);

/* Counts one answered request; `status` is its HTTP status. */
void metrics_add_request(struct metrics *metrics, enum metric_route route, unsigned status);

void metrics_observe_us(struct metrics *metrics, enum histogram histogram, uint64_t us);

/* How many were observed. */
uint64_t metrics_observed(const struct metrics *metrics, enum histogram histogram);

/* The value that the share `quantile` (0..1) of all observations stays below, read off the buckets:
 * never too low, and above 100 µs at most twice the truth. 0 when nothing was observed, UINT64_MAX
 * above 2 h. */
uint64_t metrics_quantile_us(const struct metrics *metrics, enum histogram histogram,
                             double quantile);

/* Appends everything in Prometheus' text exposition format 0.0.4. */
void metrics_format(const struct metrics *metrics, struct buffer *buffer);

#endif
