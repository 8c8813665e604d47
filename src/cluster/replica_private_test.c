/* Goal: what a replica does when no other node appends to its log (log.h, is_private). Method: a
 * log that is an array and does not read back what was appended, a storage in memory, a clock that
 * the test sets. */
#include "cluster/replica.h"
#include "store/storage_testing.h"

enum { LOG_MAX = 100, LEASE_MS = 1000, YEAR_DAYS = 365 };

struct alone {
    struct storage *storage;
    struct replica *replica;
    struct buffer records[LOG_MAX];
    uint64_t size;
    uint64_t ticket; /* ticket of the append in flight; 0 if none */
    unsigned begins, leaves, durable;
    enum error_code refused; /* result of the last batch that came back with one */
    struct instant now;
};

static void alone_append(void *context, uint64_t ticket, struct bytes bytes)
{
    struct alone *alone = context;

    assert_true(alone->size < LOG_MAX);
    buffer_clear(&alone->records[alone->size]);
    buffer_append_bytes(&alone->records[alone->size], bytes);
    alone->ticket = ticket;
}

static void alone_begin(void *context, const struct storage_meta *meta)
{
    struct alone *alone = context;

    alone->begins++;
    assert_int_equal(meta->epoch, alone->begins);
}

static void alone_ignore(void *context)
{
    (void)context;
}

static void alone_leave(void *context)
{
    ((struct alone *)context)->leaves++;
}

static void alone_committed(void *context, struct storage_batch *batch)
{
    struct alone *alone = context;

    alone->durable += batch->result == ERROR_NONE;
    if (batch->result)
        alone->refused = batch->result;
}

static void alone_turn(struct alone *alone)
{
    replica_turn(alone->replica, alone->now, (struct wall){1});
    replica_check(alone->replica);
}

/* Makes the append in flight a record of the log. */
static void alone_land(struct alone *alone)
{
    const uint64_t ticket = alone->ticket;

    assert_true(ticket > 0);
    alone->ticket = 0;
    replica_landed(alone->replica, ticket, alone->size++, alone->now);
}

static void alone_refuse(struct alone *alone, enum error_code code)
{
    const uint64_t ticket = alone->ticket;

    assert_true(ticket > 0);
    alone->ticket = 0;
    replica_refused_append(alone->replica, ticket, code, alone->now);
}

/* Reads the log from where the storage is, up to its end. */
static void alone_read(struct alone *alone)
{
    for (uint64_t next; (next = replica_next(alone->replica)) < alone->size;)
        replica_read(alone->replica, next, buffer_bytes(&alone->records[next]), alone->now);
    replica_restored(alone->replica);
    replica_plan(alone->replica, 1, alone->now);
    alone_turn(alone);
}

/* Begins with the log from where the storage is. */
static void alone_start(struct alone *alone)
{
    const struct replica_options options = {.node = 1,
                                            .cluster = 7,
                                            .lease_ms = LEASE_MS,
                                            .handover_ms = 100,
                                            .seed = alone->begins + 1,
                                            .body_bytes_max = 300,
                                            .is_private = true,
                                            .storage = alone->storage};
    const struct replica_events events = {.context = alone,
                                          .append = alone_append,
                                          .begin = alone_begin,
                                          .drain = alone_ignore,
                                          .leave = alone_leave,
                                          .committed = alone_committed};

    alone->ticket = 0;
    assert_int_equal(replica_create(&options, &events, alone->now, &alone->replica, NULL), 0);
    alone_read(alone);
}

static void alone_stop(struct alone *alone)
{
    replica_stop(alone->replica);
    replica_destroy(alone->replica);
}

static int alone_set_up(void **state)
{
    struct alone *alone = calloc(1, sizeof(*alone));

    for (size_t i = 0; i < LOG_MAX; i++)
        buffer_init(&alone->records[i]);
    alone->storage = memory_storage_create(1);
    alone->now.ns = UINT64_C(1000000000000);
    alone_start(alone);
    alone_land(alone);
    alone_turn(alone);
    alone_turn(alone);
    *state = alone;
    return 0;
}

static int alone_tear_down(void **state)
{
    struct alone *alone = *state;

    alone_stop(alone);
    storage_close(alone->storage);
    for (size_t i = 0; i < LOG_MAX; i++)
        buffer_deinit(&alone->records[i]);
    free(alone);
    return 0;
}

/* A batch that writes one timer with a payload of this size. */
struct alone_work {
    struct timer *timer;
    struct storage_write write;
    struct storage_batch batch;
};

static void alone_commit(struct alone *alone, struct alone_work *work, uint64_t serial, size_t size)
{
    char payload[500];
    const struct timer_texts texts = {.target = BYTES("log:"), .payload = {payload, size}};

    memset(payload, 'p', sizeof(payload));
    work->timer = timer_alloc(&texts);
    work->timer->id = (struct timer_id){{1000}, 0, serial};
    work->timer->at = work->timer->due = (struct wall){1000};
    work->write = (struct storage_write){.timer = work->timer};
    work->batch = (struct storage_batch){.meta.epoch = 1, .writes = &work->write, .write_count = 1};
    list_init(&work->batch.link);
    replica_commit(alone->replica, &work->batch);
    alone_turn(alone);
}

static bool alone_has(const struct alone *alone, const struct alone_work *work)
{
    struct timer *timer = NULL;
    const enum error_code code = storage_find(alone->storage, &work->timer->id, &timer, NULL);

    timer_free(timer);
    return !code;
}

/* The node owns the partition as soon as its claim is in the log, for ever, and appends nothing to
 * keep it. */
static void test_no_lease_ends(void **state)
{
    struct alone *alone = *state;

    assert_int_equal(replica_state(alone->replica), OWNERSHIP_ACTIVE);
    assert_int_equal(alone->begins, 1);
    assert_int_equal(replica_acts_until(alone->replica).ns, UINT64_MAX);
    for (int day = 0; day < YEAR_DAYS; day++) {
        alone->now = instant_add_ms(alone->now, UINT64_C(86400000));
        alone_turn(alone);
    }
    assert_true(replica_may_act(alone->replica, alone->now));
    assert_int_equal(alone->size, 1);
    assert_int_equal(alone->ticket, 0);
}

/* What the log refuses fails with its code and takes no number: the next commit lands, a start
 * reads the log, and the node stays the owner meanwhile. */
static void test_a_refusal_costs_its_batches_only(void **state)
{
    struct alone *alone = *state;
    struct alone_work refused, made;

    alone_commit(alone, &refused, 1, 10);
    alone_refuse(alone, ERROR_DISK_FULL);
    assert_int_equal(alone->refused, ERROR_DISK_FULL);
    assert_true(replica_may_act(alone->replica, alone->now));
    alone_commit(alone, &made, 2, 10);
    alone_land(alone);
    assert_int_equal(alone->durable, 1);
    assert_true(alone_has(alone, &made) && !alone_has(alone, &refused));
    alone_stop(alone);
    alone_start(alone);
    alone_land(alone);
    alone_turn(alone);
    alone_turn(alone);
    assert_int_equal(replica_state(alone->replica), OWNERSHIP_ACTIVE);
    assert_int_equal(alone->begins, 2);
    assert_true(alone_has(alone, &made) && !alone_has(alone, &refused));
    timer_free(refused.timer);
    timer_free(made.timer);
}

/* A claim that the log refuses comes again after a pause. */
static void test_a_refused_claim_is_repeated(void **state)
{
    struct alone *alone = *state;

    alone_stop(alone);
    alone_start(alone);
    alone_refuse(alone, ERROR_DISK_FULL);
    alone_turn(alone);
    assert_int_equal(alone->ticket, 0);
    alone->now = instant_add_ms(alone->now, LEASE_MS);
    alone_turn(alone);
    alone_land(alone);
    alone_turn(alone);
    alone_turn(alone);
    assert_int_equal(replica_state(alone->replica), OWNERSHIP_ACTIVE);
}

/* Of a commit of several frames the first is in the log when another is refused: the node claims
 * again, so that no reader joins the first to later ones. */
static void test_half_a_commit_has_no_effect(void **state)
{
    struct alone *alone = *state;
    struct alone_work half, made;

    alone_commit(alone, &half, 1, 500);
    alone_land(alone);
    alone_turn(alone);
    alone_refuse(alone, ERROR_DISK_FULL);
    alone_turn(alone);
    assert_int_equal(alone->leaves, 1);
    replica_left(alone->replica);
    alone->now = instant_add_ms(alone->now, LEASE_MS);
    alone_turn(alone);
    alone_land(alone);
    alone_turn(alone);
    alone_turn(alone);
    assert_int_equal(alone->begins, 2);
    alone_commit(alone, &made, 2, 10);
    alone_land(alone);
    assert_true(alone_has(alone, &made) && !alone_has(alone, &half));
    alone_stop(alone);
    alone_start(alone);
    assert_true(alone_has(alone, &made) && !alone_has(alone, &half));
    timer_free(half.timer);
    timer_free(made.timer);
}

/* The place of a partition without records moves with the log, and not back. */
static void test_the_place_follows_the_end(void **state)
{
    struct alone *alone = *state;
    struct storage_place place;
    struct alone_work work;

    replica_pass(alone->replica, 40);
    replica_pass(alone->replica, 30);
    assert_int_equal(storage_load_place(alone->storage, 0, &place, NULL), ERROR_NONE);
    assert_int_equal(place.next, 40);
    assert_int_equal(place.epoch, 1);
    alone_commit(alone, &work, 1, 10);
    replica_pass(alone->replica, 60); /* the append in flight may get a lower offset */
    assert_int_equal(replica_next(alone->replica), 40);
    alone->records[50] = alone->records[alone->size];
    buffer_init(&alone->records[alone->size]);
    alone->size = 50;
    alone_land(alone);
    assert_int_equal(alone->durable, 1);
    assert_int_equal(replica_next(alone->replica), 51);
    timer_free(work.timer);
}

static enum error_code alone_fail_to_prepare(struct storage *storage,
                                             struct storage_batch *const *batches, size_t count,
                                             struct buffer *to, struct error *ret_error)
{
    (void)storage, (void)batches, (void)count, (void)to;
    return error_set(ret_error, ERROR_IO, "it makes no changes");
}

static enum error_code alone_has_lost(struct storage *storage, struct storage_batch *const *batches,
                                      size_t count, struct buffer *to, struct error *ret_error)
{
    (void)storage, (void)batches, (void)count, (void)to;
    return error_set(ret_error, ERROR_UNREADABLE, "a test");
}

/* A storage that makes no changes of a batch costs that batch. If it has also lost a record, the
 * node leaves, and reads the log from the storage's place before it continues. */
static void test_a_storage_that_lost_records_reads_them_again(void **state)
{
    struct alone *alone = *state;
    const struct storage_ops *sound = alone->storage->ops;
    struct storage_ops failing = *sound;
    struct alone_work lost, refused, again;

    failing.prepare = alone_fail_to_prepare;
    memory_storage_hold(alone->storage);
    alone_commit(alone, &lost, 1, 10);
    alone_land(alone);
    alone->storage->ops = &failing;
    alone_commit(alone, &refused, 2, 10);
    assert_int_equal(alone->refused, ERROR_IO);
    assert_int_equal(alone->leaves, 0);
    memory_storage_crash(alone->storage, 0);
    failing.prepare = alone_has_lost;
    assert_false(alone_has(alone, &lost));
    alone_commit(alone, &again, 3, 10);
    assert_int_equal(alone->leaves, 1);
    alone->storage->ops = sound;
    replica_left(alone->replica);
    alone_turn(alone);
    assert_true(replica_take_rewind(alone->replica));
    alone_read(alone);
    alone_land(alone);
    alone_turn(alone);
    assert_int_equal(replica_state(alone->replica), OWNERSHIP_ACTIVE);
    assert_true(alone_has(alone, &lost) && !alone_has(alone, &refused));
    timer_free(lost.timer);
    timer_free(refused.timer);
    timer_free(again.timer);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, alone_set_up, alone_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_no_lease_ends),
        TEST(test_a_refusal_costs_its_batches_only),
        TEST(test_a_refused_claim_is_repeated),
        TEST(test_half_a_commit_has_no_effect),
        TEST(test_the_place_follows_the_end),
        TEST(test_a_storage_that_lost_records_reads_them_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
