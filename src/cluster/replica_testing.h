/*
 * replica_testing.h - a log that is an array, two replicas on storages in memory, and a clock that
 * the test sets.
 */
#ifndef TICKWHEEL_CLUSTER_REPLICA_TESTING_H
#define TICKWHEEL_CLUSTER_REPLICA_TESTING_H

#include "cluster/replica_copy.h"
#include "cluster/replica_private.h"
#include "store/storage_testing.h"

#define CLUSTER  UINT64_C(7)
#define LEASE_MS 1000

enum { LOG_MAX = 600, SWEEP_LOG_BYTES = 12000 };

struct replica_log {
    struct buffer records[LOG_MAX];
    uint64_t begin, size; /* records before `begin` are dropped */
};

struct replica_host {
    struct storage *storage;
    struct replica *replica;
    struct replica_log *log;
    uint64_t ticket; /* ticket of the append that is to be answered; 0 if none */
    uint64_t landed; /* where */
    bool is_silent;  /* appends get lost */
    bool is_far;     /* another record precedes each transaction */
    unsigned begins, drains, leaves, durable, refused, transactions;
    struct storage_meta meta;
};

static inline void host_append(void *context, uint64_t ticket, struct bytes bytes)
{
    struct replica_host *host = context;

    if (host->is_silent)
        return;
    assert_true(host->log->size < LOG_MAX);
    buffer_init(&host->log->records[host->log->size]);
    buffer_append_bytes(&host->log->records[host->log->size], bytes);
    host->landed = host->log->size++;
    host->ticket = ticket;
}

/* A marker takes the offset after the frames. */
static inline void host_transact(void *context, const struct replica_transaction *transaction)
{
    struct replica_host *host = context;
    const uint64_t at = host->log->size;

    host->transactions++;
    if (host->is_far || at < transaction->from || at > transaction->to) {
        replica_failed(host->replica, transaction->ticket, (struct instant){0});
        return;
    }
    for (size_t i = 0; i < transaction->frame_count; i++)
        host_append(host, transaction->ticket, transaction->frames[i]);
    buffer_init(&host->log->records[host->log->size++]);
}

static inline void host_begin(void *context, const struct storage_meta *meta)
{
    ((struct replica_host *)context)->meta = *meta;
    ((struct replica_host *)context)->begins++;
}

static inline void host_drain(void *context)
{
    ((struct replica_host *)context)->drains++;
}

static inline void host_leave(void *context)
{
    ((struct replica_host *)context)->leaves++;
}

static inline void host_committed(void *context, struct storage_batch *batch)
{
    struct replica_host *host = context;

    assert_true(batch->result == ERROR_NONE || batch->result == ERROR_IO);
    host->durable += batch->result == ERROR_NONE;
    host->refused += batch->result != ERROR_NONE;
}

static inline void host_trim(void *context, uint64_t before)
{
    struct replica_host *host = context;

    assert_true(before >= host->log->begin && before < host->log->size);
    host->log->begin = before;
}

static inline void host_start(struct replica_host *host, uint32_t node, struct instant now)
{
    const struct replica_options options = {.node = node,
                                            .cluster = CLUSTER,
                                            .lease_ms = LEASE_MS,
                                            .handover_ms = 100,
                                            .seed = node,
                                            .body_bytes_max = 300,
                                            .address = BYTES("a.example:1"),
                                            .sweep = {SWEEP_LOG_BYTES, 2, 2},
                                            .copy_records_min = 10,
                                            .storage = host->storage};
    const struct replica_events events = {host,           host_append, host_transact,
                                          host_begin,     host_drain,  host_leave,
                                          host_committed, NULL,        host_trim};

    assert_int_equal(replica_create(&options, &events, now, &host->replica, NULL), ERROR_NONE);
}

/* Returns the offset to read next; `size` if there is none. Markers are skipped, as by a reader. */
static inline uint64_t host_seek(struct replica_host *host)
{
    replica_take_rewind(host->replica);
    if (!replica_seeks(host->replica) && replica_next(host->replica) < host->log->begin) {
        replica_lost(host->replica);
        replica_take_rewind(host->replica);
    }
    if (replica_is_failing(host->replica) || replica_state(host->replica) == OWNERSHIP_BROKEN)
        return host->log->size;
    uint64_t next = replica_seeks(host->replica) ? host->log->begin : replica_next(host->replica);
    while (next < host->log->size && host->log->records[next].size == 0)
        next++;
    return next;
}

/* Lets the host read what is in the log and do what it wants, until it wants nothing more. */
static inline void host_run(struct replica_host *host, struct instant now)
{
    do {
        if (host->ticket)
            replica_landed(host->replica, host->ticket, host->landed, now);
        host->ticket = 0;
        for (uint64_t next; (next = host_seek(host)) < host->log->size;)
            replica_read(host->replica, next, buffer_bytes(&host->log->records[next]), now);
        replica_restored(host->replica);
        replica_turn(host->replica, now, (struct wall){1});
        replica_check(host->replica);
    } while (host->ticket || host_seek(host) < host->log->size);
}

struct replica_fixture {
    struct replica_log log;
    struct replica_host hosts[2];
    struct instant now;
};

static inline void fixture_run(struct replica_fixture *fixture, uint64_t ms)
{
    fixture->now = instant_add_ms(fixture->now, ms);
    for (size_t i = 0; i < 2; i++)
        host_run(&fixture->hosts[i], fixture->now);
}

/* The first host owns the partition, and is active. */
static inline int replica_set_up(void **state)
{
    struct replica_fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    fixture->now.ns = UINT64_C(1000000000000);
    for (uint32_t i = 0; i < 2; i++) {
        fixture->hosts[i].log = &fixture->log;
        fixture->hosts[i].storage = memory_storage_create(1);
        assert_non_null(fixture->hosts[i].storage);
        memory_storage_hold(fixture->hosts[i].storage);
        host_start(&fixture->hosts[i], i + 1, fixture->now);
        replica_plan(fixture->hosts[i].replica, 1, fixture->now);
    }
    for (int i = 0; i < 30; i++) {
        fixture_run(fixture, LEASE_MS / 4);
        if (fixture->hosts[0].begins)
            replica_recovered(fixture->hosts[0].replica);
    }
    assert_int_equal(replica_state(fixture->hosts[0].replica), OWNERSHIP_ACTIVE);
    assert_true(replica_may_act(fixture->hosts[0].replica, fixture->now));
    assert_true(fixture->hosts[0].begins == 1 && fixture->hosts[0].meta.epoch == 1);
    assert_int_equal(fixture->hosts[1].begins, 0);
    *state = fixture;
    return 0;
}

static inline int replica_tear_down(void **state)
{
    struct replica_fixture *fixture = *state;

    for (size_t i = 0; i < 2; i++) {
        replica_stop(fixture->hosts[i].replica);
        replica_destroy(fixture->hosts[i].replica);
        storage_close(fixture->hosts[i].storage);
    }
    for (uint64_t i = 0; i < fixture->log.size; i++)
        buffer_deinit(&fixture->log.records[i]);
    free(fixture);
    return 0;
}

/* A batch that writes one timer with a payload of two frames. */
struct replica_work {
    struct timer *timer;
    struct storage_write write;
    struct storage_batch batch;
};

static inline void work_prepare(struct replica_work *work, uint64_t serial)
{
    char payload[500];
    const struct timer_texts texts = {.target = BYTES("log:"),
                                      .payload = {payload, sizeof(payload)}};

    memset(payload, 'p', sizeof(payload));
    work->timer = timer_alloc(&texts);
    assert_non_null(work->timer);
    work->timer->id = (struct timer_id){{1000}, 0, serial};
    work->timer->at = work->timer->due = (struct wall){1000};
    work->write = (struct storage_write){.timer = work->timer};
    work->batch = (struct storage_batch){.meta.epoch = 1, .writes = &work->write, .write_count = 1};
    list_init(&work->batch.link);
}

static inline void work_commit(struct replica_work *work, struct replica_host *host,
                               uint64_t serial)
{
    work_prepare(work, serial);
    replica_commit(host->replica, &work->batch);
}

/* Commits a batch with the outcome of a message. */
static inline void work_commit_message(struct replica_work *work, struct replica_host *host,
                                       uint64_t serial)
{
    work_prepare(work, serial);
    work->batch.messages = 1;
    replica_commit(host->replica, &work->batch);
}

static inline bool host_has(const struct replica_host *host, const struct replica_work *work)
{
    struct timer *timer = NULL;
    const enum error_code code = storage_find(host->storage, &work->timer->id, &timer, NULL);

    timer_free(timer);
    return !code;
}

static inline struct replica_stats host_stats(const struct replica_host *host)
{
    struct replica_stats stats;

    replica_get_stats(host->replica, &stats);
    return stats;
}

#endif
