/* delivery_log.c - the thread of the delivery log, and what is handed to it. */
#include "delivery_log/delivery_log.h"

#include "sys/clock.h"
#include "sys/mailbox.h"
#include "sys/process.h"
#include "timer/tenant.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LOG_WRITE_NS (DELIVERY_LOG_WRITE_MS * UINT64_C(1000000))
#define LOG_IDLE_NS  UINT64_C(60000000000) /* interval in which old deliveries are dropped */

enum { LOG_URGENT_BYTES = 64 << 10 }; /* stays in the caches until it is written */

/* Entries of a thread that wait to be written. */
struct log_feeder {
    _Alignas(64) pthread_mutex_t lock; /* held while bytes are copied or taken, never for I/O */
    /* for each entry the size of the tenant's name 1, the name, and the encoded entry */
    struct buffer filled;
};

struct delivery_log {
    struct log_feeder *feeders;
    unsigned feeder_count;
    struct mailbox asked;    /* struct delivery_query */
    atomic_bool has_entries; /* the first entry was added to an empty feeder */
    atomic_bool is_urgent;   /* a feeder has more than LOG_URGENT_BYTES */
    atomic_bool ends;
    _Atomic uint64_t refused;                 /* number of entries for which a feeder had no room */
    _Atomic uint64_t bytes, dropped, damaged; /* statistics of the ring after the last write */
    _Atomic uint64_t failed;                  /* as well */
    pthread_mutex_t lock;                     /* guards `failure`, and held to start the thread */
    struct error failure;                     /* cause of the last write that failed */
    pthread_t thread;
    atomic_bool has_thread;
    /* The thread's. */
    struct delivery_ring *ring;
    struct turns queries;
    struct buffer taken;
};

/* ---- the thread ---- */

static void delivery_log_add_all(struct delivery_log *log, struct bytes entries)
{
    while (entries.size) {
        const struct bytes tenant = {entries.data + 1, (uint8_t)entries.data[0]};
        const size_t head = 1 + tenant.size;
        const struct bytes rest = {entries.data + head, entries.size - head};
        const size_t size = delivery_entry_size(rest);

        assert(size > 0 && size <= rest.size);
        delivery_ring_add(log->ring, tenant, (struct bytes){rest.data, size});
        entries = (struct bytes){rest.data + size, rest.size - size};
    }
}

static void delivery_log_write(struct delivery_log *log)
{
    struct delivery_ring_stats stats;

    atomic_store(&log->is_urgent, false);
    for (unsigned i = 0; i < log->feeder_count; i++) {
        struct log_feeder *feeder = &log->feeders[i];

        pthread_mutex_lock(&feeder->lock);
        const struct buffer filled = feeder->filled;
        feeder->filled = log->taken;
        pthread_mutex_unlock(&feeder->lock);
        log->taken = filled;
        delivery_log_add_all(log, buffer_bytes(&log->taken));
        buffer_clear(&log->taken);
    }
    delivery_ring_flush(log->ring, wall_now());
    delivery_ring_stats(log->ring, &stats);
    atomic_store(&log->bytes, stats.bytes);
    atomic_store(&log->dropped, stats.dropped);
    atomic_store(&log->damaged, stats.damaged);
    pthread_mutex_lock(&log->lock);
    if (atomic_exchange(&log->failed, stats.failed) != stats.failed)
        log->failure = *delivery_ring_failure(log->ring);
    pthread_mutex_unlock(&log->lock);
}

/* Answers the next query that waits. Returns false if none waits. */
static bool delivery_log_answer(struct delivery_log *log)
{
    struct turn_link *turn = turns_pop(&log->queries);

    if (!turn)
        return false;
    struct delivery_query *query = list_item(turn, struct delivery_query, turn_);
    delivery_ring_search(log->ring, query, wall_now());
    query->done(query);
    return true;
}

static void delivery_log_take_queries(struct delivery_log *log)
{
    struct list queries;

    list_init(&queries);
    mailbox_take(&log->asked, &queries);
    for (struct list *link; (link = list_pop(&queries));) {
        struct delivery_query *query = list_item(link, struct delivery_query, turn_.link);

        turns_push(&log->queries, &query->turn_, tenant_key(query->tenant));
    }
}

/* Flags are set before the mailbox is woken, and read after it was emptied, so that none is missed.
 */
static void *delivery_log_run(void *argument)
{
    struct delivery_log *log = argument;
    uint64_t write_at_ns = 0; /* time of the next write if no entries come */

    for (;;) {
        delivery_log_take_queries(log);
        const bool ends = atomic_load(&log->ends);
        if (ends)
            delivery_log_take_queries(log); /* queries that were submitted before the stop */
        const struct instant now = instant_now();
        if (atomic_exchange(&log->has_entries, false) && write_at_ns > now.ns + LOG_WRITE_NS)
            write_at_ns = now.ns + LOG_WRITE_NS;
        if (ends || !turns_is_empty(&log->queries) || atomic_load(&log->is_urgent) ||
            now.ns >= write_at_ns) {
            delivery_log_write(log);
            write_at_ns = now.ns + LOG_IDLE_NS;
        }
        if (delivery_log_answer(log))
            continue;
        if (ends)
            return NULL;
        mailbox_wait(&log->asked, instant_since_ns(now, (struct instant){write_at_ns}));
    }
}

/* ---- its face ---- */

/* Starts the thread unless it runs. Returns false if the system refuses. */
static bool delivery_log_begin(struct delivery_log *log)
{
    if (atomic_load(&log->has_thread))
        return true;
    pthread_mutex_lock(&log->lock);
    if (!atomic_load(&log->has_thread))
        atomic_store(&log->has_thread,
                     thread_start(&log->thread, delivery_log_run, log, "tw-deliveries") == 0);
    pthread_mutex_unlock(&log->lock);
    return atomic_load(&log->has_thread);
}

/* True if the folder has deliveries, or files that are to be reported. */
static bool delivery_log_has_old(const struct delivery_log *log)
{
    struct delivery_ring_stats stats;

    delivery_ring_stats(log->ring, &stats);
    return stats.bytes || stats.damaged || stats.failed || stats.dropped;
}

static void delivery_log_destroy(struct delivery_log *log)
{
    for (unsigned i = 0; i < log->feeder_count; i++) {
        pthread_mutex_destroy(&log->feeders[i].lock);
        buffer_deinit(&log->feeders[i].filled);
    }
    free(log->feeders);
    buffer_deinit(&log->taken);
    delivery_ring_close(log->ring);
    pthread_mutex_destroy(&log->lock);
    free(log);
}

enum error_code delivery_log_start(const struct delivery_log_options *options,
                                   struct delivery_log **ret_log, struct error *ret_error)
{
    struct delivery_log *log = calloc(1, sizeof(*log));

    if (!log)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    pthread_mutex_init(&log->lock, NULL);
    turns_init(&log->queries);
    log->feeders = aligned_alloc(64, options->feeders * sizeof(*log->feeders));
    for (unsigned i = 0; log->feeders && i < options->feeders; i++) {
        log->feeders[i] = (struct log_feeder){.filled = {0}};
        pthread_mutex_init(&log->feeders[i].lock, NULL);
        log->feeder_count++;
    }
    enum error_code code = log->feeders ? ERROR_NONE : ERROR_NO_MEMORY;
    if (!code)
        code = delivery_ring_open(&options->ring, &log->ring, ret_error);
    if (!code)
        code = mailbox_init(&log->asked);
    if (!code && delivery_log_has_old(log) && !delivery_log_begin(log)) {
        mailbox_deinit(&log->asked);
        code = error_set(ret_error, ERROR_NO_MEMORY, "no thread for the delivery log");
    }
    if (code)
        delivery_log_destroy(log);
    else
        *ret_log = log;
    return code;
}

void delivery_log_stop(struct delivery_log *log)
{
    if (!log)
        return;
    atomic_store(&log->ends, true);
    if (atomic_load(&log->has_thread)) {
        mailbox_wake(&log->asked);
        pthread_join(log->thread, NULL);
    } else {
        delivery_log_write(log); /* what no thread was got for */
    }
    mailbox_deinit(&log->asked);
    delivery_log_destroy(log);
}

void delivery_log_add(struct delivery_log *log, unsigned number, struct bytes tenant,
                      const struct delivery_entry *entry)
{
    struct log_feeder *feeder = &log->feeders[number];
    struct buffer *filled = &feeder->filled;

    assert(number < log->feeder_count && tenant.size <= TENANT_SIZE_MAX);
    pthread_mutex_lock(&feeder->lock);
    const size_t before = filled->size;
    if (before < DELIVERY_LOG_FEEDER_BYTES) {
        buffer_append_le(filled, tenant.size, 1);
        buffer_append_bytes(filled, tenant);
        delivery_entry_encode(entry, filled);
    }
    const bool is_added = before < filled->size && !buffer_failed(filled);
    if (!is_added) {
        filled->size = before;
        filled->failed = false;
    }
    const size_t size = filled->size;
    pthread_mutex_unlock(&feeder->lock);
    const bool is_news = (size > LOG_URGENT_BYTES && !atomic_exchange(&log->is_urgent, true)) ||
                         (before == 0 && !atomic_exchange(&log->has_entries, true));
    if (!is_added)
        atomic_fetch_add(&log->refused, 1);
    else if ((is_news || !atomic_load(&log->has_thread)) && delivery_log_begin(log))
        mailbox_wake(&log->asked);
}

void delivery_log_ask(struct delivery_log *log, struct delivery_query *query)
{
    list_init(&query->turn_.link);
    if (!delivery_log_begin(log)) {
        query->found.failed = true;
        query->done(query);
        return;
    }
    mailbox_post(&log->asked, &query->turn_.link);
}

void delivery_log_stats(const struct delivery_log *log, struct delivery_ring_stats *ret_stats)
{
    *ret_stats = (struct delivery_ring_stats){.bytes = atomic_load(&log->bytes),
                                              .dropped = atomic_load(&log->dropped) +
                                                         atomic_load(&log->refused),
                                              .failed = atomic_load(&log->failed),
                                              .damaged = atomic_load(&log->damaged)};
}

uint64_t delivery_log_failed(struct delivery_log *log, struct error *ret_cause)
{
    pthread_mutex_lock(&log->lock);
    const uint64_t failed = atomic_load(&log->failed);
    *ret_cause = log->failure;
    pthread_mutex_unlock(&log->lock);
    return failed;
}
