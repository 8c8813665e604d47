/*
 * metric_list.h - every metric of the service, in one table. It makes the enum and the text of
 * /metrics (ops/metrics.h), the counters of an engine and their sum (engine/engine_stats.h), the
 * reading of all parts (node/node.c), and docs/metrics.md.
 *
 * X(ID, field, kind, name, labels, scale, help): `field` is the member of the part's statistics
 * that holds the value; _ when metrics_add or metrics_set is called instead. Rows of one name stand
 * together and share the first help. The scale divides the stored integer: 1000 shows milliseconds
 * as seconds. An INFO is always 1; what it tells are its labels.
 */
#ifndef TICKWHEEL_BASE_METRIC_LIST_H
#define TICKWHEEL_BASE_METRIC_LIST_H

/* Fields of struct engine_stats: a COUNTER counts since the engine was made, a GAUGE is the
 * present value. Both are summed over engines. */
#define METRIC_ENGINE_LIST(X)                                                                   \
    X(TIMERS_PENDING, pending, GAUGE, "tickwheel_timers_pending", "", 1,                        \
      "Live timers, on disk and in memory.")                                                    \
    X(TIMERS_CREATED, created, COUNTER, "tickwheel_timers_created_total", "", 1,                \
      "Timers created, reports included.")                                                      \
    X(TIMERS_FIRED, fired, COUNTER, "tickwheel_timers_fired_total", "", 1,                      \
      "Firings delivered with success.")                                                        \
    X(TIMERS_CANCELLED, cancelled, COUNTER, "tickwheel_timers_cancelled_total", "", 1,          \
      "Timers cancelled.")                                                                      \
    X(TIMERS_DEAD, dead, COUNTER, "tickwheel_timers_dead_total", "", 1,                         \
      "Timers that became dead: out of attempts, or refused for good.")                         \
    X(FIRINGS_GIVEN_UP, given_up, COUNTER, "tickwheel_firings_given_up_total", "", 1,           \
      "Firings that ended without success; a timer that repeats goes on with its next.")        \
    X(DEAD_LETTERS, dead_letters, GAUGE, "tickwheel_dead_letters", "", 1,                       \
      "Dead letters that are kept.")                                                            \
    X(DEAD_BYTES, dead_bytes, GAUGE, "tickwheel_dead_bytes", "", 1,                             \
      "Size of the dead letters that are kept.")                                                \
    X(DEAD_DROPPED, dead_dropped, COUNTER, "tickwheel_dead_dropped_total", "", 1,               \
      "Dead letters dropped early because of dead_bytes_max.")                                  \
    X(TIMERS_PAUSED, paused, COUNTER, "tickwheel_timers_paused_total", "", 1, "Timers paused.") \
    X(TIMERS_RESUMED, resumed, COUNTER, "tickwheel_timers_resumed_total", "", 1,                \
      "Timers resumed, by a call or at their time.")                                            \
    X(TIMERS_DROPPED, dropped, COUNTER, "tickwheel_timers_dropped_total", "", 1,                \
      "Firings dropped because they were later than their timer allows.")                       \
    X(SCHEDULE_WAITS, schedule_waits, COUNTER, "tickwheel_schedule_waits_total", "", 1,         \
      "Due firings put off because their time zone is not on this machine.")                    \
    X(TIMERS_ZONELESS, zoneless, GAUGE, "tickwheel_timers_zoneless", "", 1,                     \
      "Live timers whose time zone is not on this machine, by the last scan.")                  \
    X(MISSED_FOUND, missed_found, COUNTER, "tickwheel_missed_found_total", "", 1,               \
      "Timers over ten minutes overdue that no phase of the engine held; above 0 is a bug.")    \
    X(TIMERS_TOUCHED, touched, COUNTER, "tickwheel_timers_touched_total", "", 1,                \
      "Due times extended by a short record beside the timer's row.")                           \
    X(TIMERS_MOVED_ON, rows_moved, COUNTER, "tickwheel_timers_moved_on_total", "", 1,           \
      "Rows of touched timers moved to their new time when the old time came.")                 \
    X(TIMERS_SPILLED, spilled, COUNTER, "tickwheel_timers_spilled_total", "", 1,                \
      "Due timers spilled to the storage because their dispatch queue had no room.")            \
    X(TIMERS_RELOADED, reloaded, COUNTER, "tickwheel_timers_reloaded_total", "", 1,             \
      "Spilled timers read back into memory when their dispatch queue had room.")               \
    X(TIMERS_IN_MEMORY, in_memory, GAUGE, "tickwheel_timers_in_memory", "", 1,                  \
      "Timers in memory.")                                                                      \
    X(NEAR_BYTES, near_bytes, GAUGE, "tickwheel_near_bytes", "", 1,                             \
      "Memory of the timers in memory.")                                                        \
    X(ATTEMPTS, attempts, COUNTER, "tickwheel_attempts_total", "", 1,                           \
      "Delivery attempts that were answered or timed out.")                                     \
    X(ATTEMPTS_FAILED, attempts_failed, COUNTER, "tickwheel_attempts_failed_total", "", 1,      \
      "Delivery attempts that failed and may be repeated.")                                     \
    X(DELIVERIES_INFLIGHT, inflight, GAUGE, "tickwheel_deliveries_inflight", "", 1,             \
      "Deliveries without an outcome yet.")                                                     \
    X(DELIVERIES_UNPROVEN, unproven, GAUGE, "tickwheel_deliveries_unproven", "", 1,             \
      "Webhooks in flight to targets that did not answer lately.")                              \
    X(DELIVERIES_LEASED, pulled, GAUGE, "tickwheel_deliveries_leased", "", 1,                   \
      "Deliveries in flight that workers have leased.")                                         \
    X(DELIVERIES_WAITING, waiting, GAUGE, "tickwheel_deliveries_waiting", "", 1,                \
      "Due timers that wait for room at their target, or for a worker.")                        \
    X(TIMERS_CATCHING_UP, catching_up, GAUGE, "tickwheel_timers_catching_up", "", 1,            \
      "Overdue timers that wait because of catch_up_rate_max.")                                 \
    X(PARTITIONS_UNREADABLE, unreadable, GAUGE, "tickwheel_partitions_unreadable", "", 1,       \
      "Partitions that cannot be read and refuse creates.")                                     \
    X(STORAGE_FAILURES, storage_failures, COUNTER, "tickwheel_storage_failures_total", "", 1,   \
      "Reads and commits that failed.")

/* struct targets_stats. */
#define METRIC_TARGETS_LIST(X)                                                             \
    X(ATTEMPTS_POSTPONED, postponed, COUNTER, "tickwheel_attempts_postponed_total", "", 1, \
      "Deliveries postponed because the breaker of their target was open.")                \
    X(BREAKERS_OPEN, open, GAUGE, "tickwheel_breakers_open", "", 1,                        \
      "Open breakers: their targets failed and are not called.")                           \
    X(BREAKERS_OPENED, opened, COUNTER, "tickwheel_breakers_opened_total", "", 1,          \
      "Times that a breaker opened.")

/* struct queue_stats. */
#define METRIC_QUEUE_LIST(X)                                                                 \
    X(QUEUE_LEASED, leased, GAUGE, "tickwheel_queue_leased", "", 1,                          \
      "Items that workers have leased.")                                                     \
    X(QUEUE_WAITING, waiting, GAUGE, "tickwheel_queue_waiting", "", 1,                       \
      "Workers that wait for items.")                                                        \
    X(QUEUE_LEASES, leases, COUNTER, "tickwheel_queue_leases_total", "", 1, "Leases given.") \
    X(QUEUE_ACKS, acks, COUNTER, "tickwheel_queue_acks_total", "", 1,                        \
      "Items acknowledged as done.")                                                         \
    X(QUEUE_NACKS, nacks, COUNTER, "tickwheel_queue_nacks_total", "", 1,                     \
      "Items given back by their worker.")                                                   \
    X(QUEUE_LEASES_ENDED, ended, COUNTER, "tickwheel_queue_leases_ended_total", "", 1,       \
      "Leases that ended without an answer of their worker.")                                \
    X(QUEUE_RECEIPTS_STALE, stales, COUNTER, "tickwheel_queue_receipts_stale_total", "", 1,  \
      "Receipts refused because their lease was over.")

/* struct storage_stats. */
#define METRIC_STORAGE_LIST(X)                                                             \
    X(RECORDS_CORRUPT, corrupt_records, COUNTER, "tickwheel_records_corrupt_total", "", 1, \
      "Damaged records set aside.")                                                        \
    X(BLOCKS_CORRUPT, corrupt_blocks, GAUGE, "tickwheel_storage_damaged_blocks", "", 1,    \
      "Damaged blocks of tables, mended or set aside.")                                    \
    X(STORAGE_LOST, is_lost, GAUGE, "tickwheel_storage_lost", "", 1,                       \
      "1 when the data folder was removed or replaced; every change is refused.")          \
    X(LOGS_TORN, torn_logs, GAUGE, "tickwheel_storage_torn_logs", "", 1,                   \
      "Logs that ended within a write at the last start, as after a power cut.")           \
    X(WRITES_LOST, lost_writes, GAUGE, "tickwheel_storage_lost_writes", "", 1,             \
      "Changes that the last start skipped with storage_damage = skip.")                   \
    X(DISK_BYTES, disk_bytes, GAUGE, "tickwheel_disk_bytes", "", 1,                        \
      "Disk space that the storage takes.")                                                \
    X(DISK_FREE_BYTES, disk_free_bytes, GAUGE, "tickwheel_disk_free_bytes", "", 1,         \
      "Free space on the disk of the storage.")

/* struct delivery_ring_stats; all 0 without a delivery log. */
#define METRIC_DELIVERY_LOG_LIST(X)                                                          \
    X(DELIVERY_LOG_BYTES, bytes, GAUGE, "tickwheel_delivery_log_bytes", "", 1,               \
      "Disk space that the delivery log takes.")                                             \
    X(DELIVERY_LOG_DROPPED, dropped, COUNTER, "tickwheel_delivery_log_dropped_total", "", 1, \
      "Deliveries missing in the delivery log because the disk was full or too slow.")       \
    X(DELIVERY_LOG_DAMAGED, damaged, COUNTER, "tickwheel_delivery_log_damaged_total", "", 1, \
      "Files of the delivery log of which a part is damaged and left out.")

/* Fields of struct node_cluster_stats; all 0 without a cluster. */
#define METRIC_CLUSTER_LIST(X)                                                                     \
    X(CLUSTER_NODES, nodes, GAUGE, "tickwheel_cluster_nodes", "", 1,                               \
      "Living nodes of the cluster.")                                                              \
    X(CLUSTER_PLANNER, is_planner, GAUGE, "tickwheel_cluster_planner", "", 1,                      \
      "1 while this node makes the plan of the cluster.")                                          \
    X(CLUSTER_PLANNED, planned, GAUGE, "tickwheel_cluster_partitions_planned", "", 1,              \
      "Partitions that the plan gives to this node.")                                              \
    X(CLUSTER_TOPICS_WRONG, topics_wrong, GAUGE, "tickwheel_cluster_topics_wrong", "", 1,          \
      "1 while a setting of the log's topics or database endangers timers; checked each minute.")  \
    X(CLUSTER_OWNED, owned, GAUGE, "tickwheel_cluster_partitions_owned", "", 1,                    \
      "Partitions that this node owns and serves.")                                                \
    X(CLUSTER_FOLLOWED, followed, GAUGE, "tickwheel_cluster_partitions_followed", "", 1,           \
      "Copies of partitions on this node, as owner or standby.")                                   \
    X(CLUSTER_RESTORING, restoring, GAUGE, "tickwheel_cluster_partitions_restoring", "", 1,        \
      "Copies that have not been read up to the end of their logs.")                               \
    X(CLUSTER_BROKEN, broken, GAUGE, "tickwheel_cluster_partitions_broken", "", 1,                 \
      "Copies that are not served because their log lost records or is damaged.")                  \
    X(CLUSTER_LEASE_MS, lease_ms, GAUGE, "tickwheel_cluster_lease_left_seconds", "", 1000,         \
      "Time left of the lease that ends first; 0 if this node serves no partition.")               \
    X(CLUSTER_EPOCH, epoch, GAUGE, "tickwheel_cluster_epoch", "", 1,                               \
      "Highest epoch of a partition; each new owner raises it.")                                   \
    X(CLUSTER_BEHIND, behind, GAUGE, "tickwheel_cluster_behind_records", "", 1,                    \
      "Records not read yet of the partition that is furthest behind.")                            \
    X(CLUSTER_CLAIMS, claims, COUNTER, "tickwheel_cluster_claims_total", "", 1,                    \
      "Partitions that this node came to own.")                                                    \
    X(CLUSTER_REFUSED, refused, COUNTER, "tickwheel_cluster_records_refused_total", "", 1,         \
      "Records of former owners, and late claims, which changed nothing.")                         \
    X(CLUSTER_LOG_BYTES, log_bytes, GAUGE, "tickwheel_cluster_log_bytes", "", 1,                   \
      "Approximate size of the logs of the partitions that this node follows.")                    \
    X(CLUSTER_SWEEPS, sweeps, COUNTER, "tickwheel_cluster_sweeps_total", "", 1,                    \
      "Sweeps of the log of a partition that this node has ended.")                                \
    X(CLUSTER_SWEEP_ROWS, sweep_rows, COUNTER, "tickwheel_cluster_sweep_rows_total", "", 1,        \
      "Records that sweeps have copied.")                                                          \
    X(CLUSTER_SWEEPS_FAILED, sweep_failures, COUNTER, "tickwheel_cluster_sweeps_failed_total", "", \
      1, "Sweeps that ended because the storage failed or has damage.")                            \
    X(CLUSTER_TRIMS, trims, COUNTER, "tickwheel_cluster_trims_total", "", 1,                       \
      "Trims: times that the log's servers deleted the records before a sweep.")                   \
    X(CLUSTER_TRIMS_FAILED, trim_failures, COUNTER, "tickwheel_cluster_trims_failed_total", "", 1, \
      "Trims that the log's servers refused; retried each minute.")                                \
    X(CLUSTER_RESTARTS, restarts, COUNTER, "tickwheel_cluster_partitions_restarted_total", "", 1,  \
      "Copies emptied and rebuilt because the log no longer had their next record.")               \
    X(CLUSTER_COPIES, copies, COUNTER, "tickwheel_cluster_copies_total", "", 1,                    \
      "Copies of partitions that this node got from other nodes.")                                 \
    X(CLUSTER_COPY_ROWS, copy_rows, COUNTER, "tickwheel_cluster_copy_rows_total", "", 1,           \
      "Records in the copies that this node got.")                                                 \
    X(CLUSTER_COPIES_FAILED, copy_failures, COUNTER, "tickwheel_cluster_copies_failed_total", "",  \
      1, "Copies from other nodes that failed, so that this node read the log.")                   \
    X(CLUSTER_COPIES_GIVEN, copies_given, COUNTER, "tickwheel_cluster_copies_given_total", "", 1,  \
      "Copies of partitions that other nodes got from this one.")

/* Metrics that are counted where they occur. */
#define METRIC_COUNTED_LIST(X)                                                                     \
    X(OLDEST_WEBHOOK_MS, _, GAUGE, "tickwheel_oldest_overdue_seconds", "kind=\"webhook\"", 1000,   \
      "Lateness of the latest due timer that waits or is in flight, by kind; 0 if none is late. "  \
      "`queue`: items without a worker; `catch_up`: timers held back by catch_up_rate_max.")       \
    X(OLDEST_BROKER_MS, _, GAUGE, "tickwheel_oldest_overdue_seconds", "kind=\"broker\"", 1000, "") \
    X(OLDEST_QUEUE_MS, _, GAUGE, "tickwheel_oldest_overdue_seconds", "kind=\"queue\"", 1000, "")   \
    X(OLDEST_CATCH_UP_MS, _, GAUGE, "tickwheel_oldest_overdue_seconds", "kind=\"catch_up\"", 1000, \
      "")                                                                                          \
    X(READY_WEBHOOK, _, GAUGE, "tickwheel_timers_ready", "kind=\"webhook\"", 1,                    \
      "Due timers in memory that wait, by kind.")                                                  \
    X(READY_BROKER, _, GAUGE, "tickwheel_timers_ready", "kind=\"broker\"", 1, "")                  \
    X(READY_QUEUE, _, GAUGE, "tickwheel_timers_ready", "kind=\"queue\"", 1, "")                    \
    X(READY_CATCH_UP, _, GAUGE, "tickwheel_timers_ready", "kind=\"catch_up\"", 1, "")              \
    X(WEBHOOKS_2XX, _, COUNTER, "tickwheel_webhook_attempts_total", "class=\"2xx\"", 1,            \
      "Attempts to deliver webhooks, by class of the status; `none`: no answer.")                  \
    X(WEBHOOKS_3XX, _, COUNTER, "tickwheel_webhook_attempts_total", "class=\"3xx\"", 1, "")        \
    X(WEBHOOKS_4XX, _, COUNTER, "tickwheel_webhook_attempts_total", "class=\"4xx\"", 1, "")        \
    X(WEBHOOKS_5XX, _, COUNTER, "tickwheel_webhook_attempts_total", "class=\"5xx\"", 1, "")        \
    X(WEBHOOKS_OTHER, _, COUNTER, "tickwheel_webhook_attempts_total", "class=\"other\"", 1, "")    \
    X(WEBHOOKS_NONE, _, COUNTER, "tickwheel_webhook_attempts_total", "class=\"none\"", 1, "")      \
    X(SOURCE_TAKEN, _, COUNTER, "tickwheel_source_rows_total", "result=\"taken\"", 1,              \
      "Rows of sources that were taken, or refused for good.")                                     \
    X(SOURCE_REFUSED, _, COUNTER, "tickwheel_source_rows_total", "result=\"refused\"", 1, "")      \
    X(SOURCE_AGE_MS, _, GAUGE, "tickwheel_source_oldest_seconds", "", 1000,                        \
      "Age of the oldest row of a source when it was last read; 0 if there was none.")             \
    X(SOURCES_READ, _, GAUGE, "tickwheel_sources_read", "", 1, "Sources that this node reads.")    \
    X(SOURCES_STILL, _, GAUGE, "tickwheel_sources_still", "", 1,                                   \
      "Sources not read: no connection, another reader, or an owner without them.")                \
    X(READY, _, GAUGE, "tickwheel_ready", "", 1, "1 when requests are served, as /readyz says.")   \
    X(MAINTENANCE, _, GAUGE, "tickwheel_maintenance", "", 1,                                       \
      "1 while maintenance holds all deliveries back.")                                            \
    X(PAUSES, _, GAUGE, "tickwheel_pauses", "", 1, "Queues and targets that are paused.")          \
    X(LOG_LINES_DROPPED, _, COUNTER, "tickwheel_log_lines_dropped_total", "", 1,                   \
      "Lines of the log that were dropped because their reader was too slow.")                     \
    X(SPANS_EXPORTED, _, COUNTER, "tickwheel_spans_exported_total", "", 1,                         \
      "Spans that the collector of otlp_endpoint took.")                                           \
    X(SPANS_QUEUE_FULL, _, COUNTER, "tickwheel_spans_dropped_total", "reason=\"queue\"", 1,        \
      "Spans dropped, by reason; `queue`: the collector is too slow.")                             \
    X(SPANS_REFUSED, _, COUNTER, "tickwheel_spans_dropped_total", "reason=\"refused\"", 1, "")     \
    X(SPANS_UNREACHABLE, _, COUNTER, "tickwheel_spans_dropped_total", "reason=\"unreachable\"", 1, \
      "")                                                                                          \
    X(COMMIT_WRITES, _, COUNTER, "tickwheel_commit_writes_total", "", 1,                           \
      "Rows written; divide by tickwheel_commit_seconds_count for the size of a commit.")          \
    X(BACKUPS, _, COUNTER, "tickwheel_backups_total", "", 1, "Backups finished.")                  \
    X(BACKUPS_FAILED, _, COUNTER, "tickwheel_backups_failed_total", "", 1, "Backups that failed.") \
    X(BACKUP_LAST_MS, _, GAUGE, "tickwheel_backup_last_timestamp_seconds", "", 1000,               \
      "Unix time of the last backup of this process; 0 when there is none.")                       \
    X(BACKUP_LAST_BYTES, _, GAUGE, "tickwheel_backup_last_bytes", "", 1,                           \
      "Size of the last backup.")                                                                  \
    X(REFUSED_OVERLOADED, _, COUNTER, "tickwheel_refused_total", "reason=\"overloaded\"", 1,       \
      "Requests and timers refused because of a limit or of the token, by reason.")                \
    X(REFUSED_TOO_MANY, _, COUNTER, "tickwheel_refused_total", "reason=\"too-many\"", 1, "")       \
    X(REFUSED_DISK_FULL, _, COUNTER, "tickwheel_refused_total", "reason=\"disk-full\"", 1, "")     \
    X(REFUSED_STOPPING, _, COUNTER, "tickwheel_refused_total", "reason=\"stopping\"", 1, "")       \
    X(REFUSED_TOO_LARGE, _, COUNTER, "tickwheel_refused_total", "reason=\"too-large\"", 1, "")     \
    X(REFUSED_UNAUTHENTICATED, _, COUNTER, "tickwheel_refused_total",                              \
      "reason=\"unauthenticated\"", 1, "")                                                         \
    X(REFUSED_FORBIDDEN, _, COUNTER, "tickwheel_refused_total", "reason=\"forbidden\"", 1, "")     \
    X(REFUSED_FOREIGN_SITE, _, COUNTER, "tickwheel_refused_total", "reason=\"foreign-site\"", 1,   \
      "")                                                                                          \
    X(REFUSED_CONNECTIONS, _, COUNTER, "tickwheel_refused_total", "reason=\"connections\"", 1, "")

#define METRIC_LIST(X)     \
    METRIC_ENGINE_LIST(X)  \
    METRIC_TARGETS_LIST(X) \
    METRIC_QUEUE_LIST(X)   \
    METRIC_STORAGE_LIST(X) \
    METRIC_DELIVERY_LOG_LIST(X) METRIC_CLUSTER_LIST(X) METRIC_COUNTED_LIST(X)

/* X(ID, name, labels, help) */
#define HISTOGRAM_LIST(X)                                                                          \
    X(LATENESS_SCHEDULE, "tickwheel_lateness_seconds", "stage=\"schedule\"",                       \
      "Lateness of first attempts by stage. Stages of the daemon: schedule (to take the timer "    \
      "from the wheel), queue (to hand it to the sender), transfer (to start the request). The "   \
      "others name what held the timer back, as in explain.")                                      \
    X(LATENESS_QUEUE, "tickwheel_lateness_seconds", "stage=\"queue\"", "")                         \
    X(LATENESS_TRANSFER, "tickwheel_lateness_seconds", "stage=\"transfer\"", "")                   \
    X(LATENESS_RETRIES, "tickwheel_lateness_seconds", "stage=\"retries\"", "")                     \
    X(LATENESS_SET_LATE, "tickwheel_lateness_seconds", "stage=\"set_late\"", "")                   \
    X(LATENESS_DOWN, "tickwheel_lateness_seconds", "stage=\"down\"", "")                           \
    X(LATENESS_PUT_BACK, "tickwheel_lateness_seconds", "stage=\"put_back\"", "")                   \
    X(LATENESS_CATCH_UP, "tickwheel_lateness_seconds", "stage=\"catch_up\"", "")                   \
    X(LATENESS_ROOM, "tickwheel_lateness_seconds", "stage=\"room\"", "")                           \
    X(LATENESS_TARGET_LIMIT, "tickwheel_lateness_seconds", "stage=\"target_limit\"", "")           \
    X(LATENESS_BREAKER, "tickwheel_lateness_seconds", "stage=\"breaker\"", "")                     \
    X(LATENESS_RATE, "tickwheel_lateness_seconds", "stage=\"rate\"", "")                           \
    X(LATENESS_FLOW, "tickwheel_lateness_seconds", "stage=\"flow\"", "")                           \
    X(LATENESS_WORKER, "tickwheel_lateness_seconds", "stage=\"worker\"", "")                       \
    X(LATENESS_PAUSED, "tickwheel_lateness_seconds", "stage=\"paused\"", "")                       \
    X(LATENESS_MAINTENANCE, "tickwheel_lateness_seconds", "stage=\"maintenance\"", "")             \
    X(DELIVERY_LATENESS, "tickwheel_delivery_lateness_seconds", "",                                \
      "From the due time of a timer to the start of its request.")                                 \
    X(ANSWER_WEBHOOK, "tickwheel_answer_seconds", "kind=\"webhook\"",                              \
      "From the start of a request to the answer of its target, by kind; unanswered requests are " \
      "not counted.")                                                                              \
    X(ANSWER_BROKER, "tickwheel_answer_seconds", "kind=\"broker\"", "")                            \
    X(COMMIT, "tickwheel_commit_seconds", "", "Commits of the storage, sync included.")            \
    X(ACKNOWLEDGE, "tickwheel_acknowledge_seconds", "",                                            \
      "From the submission of a command to its durable answer.")                                   \
    X(SOURCE, "tickwheel_source_seconds", "",                                                      \
      "From the write of a row of a source to its durable effect.")                                \
    X(HTTP_REQUEST, "tickwheel_http_request_seconds", "",                                          \
      "From the first byte of a request to its answer.")

/* Values computed when /metrics is read: X(ID, kind, name, names of labels, help). */
#define METRIC_FOUND_LIST(X)                                                                       \
    X(HTTP_REQUESTS, COUNTER, "tickwheel_http_requests_total", "route, class",                     \
      "Requests answered, by route and class of status.")                                          \
    X(QUEUE_READY, GAUGE, "tickwheel_queue_ready", "tenant, queue",                                \
      "Items in memory that wait for a worker, by queue; (others): of the queues without a row.")  \
    X(QUEUE_OLDEST, GAUGE, "tickwheel_queue_oldest_seconds", "tenant, queue",                      \
      "Lateness of the first such item; 0 if none waits.")                                         \
    X(TENANT_READY, GAUGE, "tickwheel_tenant_ready", "tenant",                                     \
      "Webhooks and items in memory that wait, by tenant; (others): of the tenants without a "     \
      "row.")                                                                                      \
    X(TENANT_OLDEST, GAUGE, "tickwheel_tenant_oldest_seconds", "tenant",                           \
      "Lateness of the first of them; 0 if none waits.")                                           \
    X(START_TIME, GAUGE, "process_start_time_seconds", "",                                         \
      "Unix time at which the process began.")                                                     \
    X(CPU, COUNTER, "process_cpu_seconds_total", "", "Processor time of the process.")             \
    X(RESIDENT_MEMORY, GAUGE, "process_resident_memory_bytes", "", "Resident memory.")             \
    X(OPEN_FILES, GAUGE, "process_open_fds", "", "Open files and sockets.")                        \
    X(FILES_MAX, GAUGE, "process_max_fds", "", "Limit of open files and sockets.")                 \
    X(BUILD_INFO, INFO, "tickwheel_build_info", "version", "The version that runs; always 1.")     \
    X(TZDATA_INFO, INFO, "tickwheel_tzdata_info", "version",                                       \
      "The version of the tz database of the machine; always 1.")                                  \
    X(ZONES_MISSING, GAUGE, "tickwheel_zone_missing", "zone",                                      \
      "1 for each time zone that timers need and that is not on the machine: their firings wait.") \
    X(CALENDARS_MISSING, GAUGE, "tickwheel_calendar_missing", "calendar",                          \
      "1 for each calendar that timers need and that is missing: their firings wait.")

#endif
