/* Goal: what a replica does at single steps. Method: a log that is an array, two replicas on
 * storages in memory, and a clock that the test sets; the simulation (tests/world) does
 * the rest. */
#include "cluster/replica_testing.h"

static void test_a_large_commit(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_work work;
    const uint64_t before = fixture->log.size;

    work_commit(&work, &fixture->hosts[0], 1);
    assert_int_equal(fixture->hosts[0].durable, 0);
    fixture_run(fixture, 1);
    assert_true(fixture->log.size - before >= 2);
    assert_int_equal(fixture->hosts[0].durable, 1);
    assert_true(host_has(&fixture->hosts[0], &work) && host_has(&fixture->hosts[1], &work));
    timer_free(work.timer);
}

/* All outcomes of staged messages are one transaction of several frames; earlier batches are not
 * part of it. The next transaction begins after the marker. */
static void test_messages_are_one_transaction(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[0];
    struct replica_work works[5];

    replica_stage(host->replica, 2);
    work_commit(&works[0], host, 1);
    work_commit_message(&works[1], host, 2);
    fixture_run(fixture, 1);
    assert_true(host->durable == 1 && host->transactions == 0);
    work_commit_message(&works[2], host, 3);
    fixture_run(fixture, 1);
    assert_true(host->durable == 3 && host->transactions == 1);
    work_commit_message(&works[3], host, 4);
    fixture_run(fixture, 1);
    assert_int_equal(host->durable, 3); /* it was not staged */
    replica_stage(host->replica, 1);
    fixture_run(fixture, 1);
    assert_true(host->durable == 4 && host->transactions == 2);
    work_commit(&works[4], host, 5); /* after a marker that the replica does not know of */
    fixture_run(fixture, 1);
    fixture_run(fixture, 1);
    assert_int_equal(host->durable, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_true(host_has(&fixture->hosts[0], &works[i]));
        assert_true(host_has(&fixture->hosts[1], &works[i]));
        timer_free(works[i].timer);
    }
}

/* A transaction fails whose messages the engine counts as sent: the log decides, and the node
 * begins anew. */
static void test_a_transaction_fails(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[0];
    struct replica_work work;

    host->is_far = true;
    replica_stage(host->replica, 1);
    work_commit_message(&work, host, 1);
    fixture_run(fixture, 1);
    fixture_run(fixture, 1);
    assert_true(host->refused == 1 && host->leaves == 1 && host->transactions == 1);
    assert_false(host_has(&fixture->hosts[1], &work));
    timer_free(work.timer);
}

/* The next ownership begins without the messages that were staged before. */
static void test_a_transaction_is_gone(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[0];
    struct replica_work work[2];

    replica_stage(host->replica, 1);
    replica_give_up(host->replica, fixture->now);
    work_commit_message(&work[0], host, 1);
    fixture_run(fixture, 1);
    assert_true(host->refused == 1 && host->leaves == 1 && host->transactions == 0);
    replica_left(host->replica);
    for (int i = 0; i < 30; i++) {
        fixture_run(fixture, LEASE_MS / 4);
        replica_recovered(host->replica);
    }
    assert_int_equal(replica_state(host->replica), OWNERSHIP_ACTIVE);
    work_commit_message(&work[1], host, 2);
    fixture_run(fixture, 1);
    assert_int_equal(host->transactions, 0);
    replica_stop(host->replica); /* the batch comes back */
    assert_int_equal(host->refused, 2);
    timer_free(work[0].timer);
    timer_free(work[1].timer);
}

/* A start reads little of a log in which only leases were kept. */
static void test_the_place(void **state)
{
    struct replica_fixture *fixture = *state;
    struct storage_place place;

    for (int i = 0; i < 20; i++)
        fixture_run(fixture, LEASE_MS / 4);
    assert_int_equal(storage_load_place(fixture->hosts[1].storage, 0, &place, NULL), ERROR_NONE);
    assert_true(place.next == fixture->log.size && place.next > 20);
    assert_true(place.epoch == 1 && place.node == 1);
    replica_plan(fixture->hosts[0].replica, 2, fixture->now);
    fixture_run(fixture, 1);
    replica_drained(fixture->hosts[0].replica);
    fixture_run(fixture, 1);
    assert_int_equal(storage_load_place(fixture->hosts[0].storage, 0, &place, NULL), ERROR_NONE);
    assert_true(place.next == fixture->log.size - 1); /* the release is read again */
    assert_true(fixture->hosts[0].drains == 1 && fixture->hosts[0].leaves == 1);
}

/* If the storage fails, the node loses the partition. The log restores what the storage lost. */
static void test_the_storage_fails(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[0];
    struct replica_work first, second;

    work_commit(&first, host, 1);
    fixture_run(fixture, 1);
    assert_int_equal(host->durable, 1);
    memory_storage_fail_commit(host->storage, 1, ERROR_IO);
    work_commit(&second, host, 2);
    host_run(host, fixture->now);
    assert_true(host->durable == 1 && host->refused == 1 && host->leaves == 1);
    assert_true(replica_is_failing(host->replica)); /* until the engine has gone */
    assert_false(replica_may_act(host->replica, fixture->now));
    memory_storage_crash(host->storage, 0);
    assert_false(host_has(host, &first));
    replica_left(host->replica);
    fixture_run(fixture, 1);
    assert_false(replica_is_failing(host->replica));
    fixture_run(fixture, 1);
    assert_true(host_has(host, &first) && host_has(host, &second));
    for (int i = 0; i < 30; i++) {
        fixture_run(fixture, LEASE_MS / 4);
        replica_recovered(host->replica);
    }
    assert_int_equal(replica_state(host->replica), OWNERSHIP_ACTIVE);
    assert_true(host->begins == 2 && host->meta.epoch == 2);
    timer_free(first.timer);
    timer_free(second.timer);
}

/* If appends get no answer, the ownership ends and the batches come back. */
static void test_no_answer(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[0];
    struct replica_work work;

    host->is_silent = true;
    work_commit(&work, host, 1);
    fixture_run(fixture, 1);
    assert_int_equal(host->refused, 0);
    fixture_run(fixture, LEASE_MS);
    assert_false(replica_may_act(host->replica, fixture->now));
    fixture_run(fixture, (OWNERSHIP_APPEND_LEASES + 1) * LEASE_MS);
    assert_true(host->refused == 1 && host->leaves == 1);
    timer_free(work.timer);
}

/* A record that is not ours breaks the partition for good. */
static void test_a_damaged_record(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[1];

    fixture->log.records[fixture->log.size - 1].data[20] ^= 1;
    replica_read(host->replica, replica_next(host->replica),
                 buffer_bytes(&fixture->log.records[fixture->log.size - 1]), fixture->now);
    assert_int_equal(replica_state(host->replica), OWNERSHIP_BROKEN);
    assert_false(replica_is_idle(host->replica)); /* its copy may be the only one that is whole */
    assert_true(replica_error(host->replica)->text[0] != '\0');
    fixture->log.records[fixture->log.size - 1].data[20] ^= 1;
}

/* ---- sweeps ---- */

enum { SWEPT = 16 };

/* The first host commits until the log has dropped its first records. The first timer ends
 * meanwhile. */
static void fixture_sweep(struct replica_fixture *fixture, struct replica_work *works)
{
    struct replica_host *host = &fixture->hosts[0];
    struct replica_work end;

    for (uint64_t i = 0; i < SWEPT; i++) {
        work_commit(&works[i], host, i + 1);
        host_run(host, fixture->now);
    }
    end = works[0];
    end.timer->state = TIMER_CANCELLED;
    end.timer->ended = (struct wall){900};
    end.write = (struct storage_write){.timer = end.timer, .was_at = {1000}};
    end.batch.writes = &end.write;
    replica_commit(host->replica, &end.batch);
    for (int i = 0; i < 100 && (!fixture->log.begin || host->durable <= SWEPT); i++) {
        fixture->now = instant_add_ms(fixture->now, 1);
        host_run(host, fixture->now);
    }
    assert_true(fixture->log.begin > 0);
    assert_int_equal(host->durable, SWEPT + 1);
}

static void works_free(struct replica_work *works)
{
    for (size_t i = 0; i < SWEPT; i++)
        timer_free(works[i].timer);
}

static void assert_host_has_all(const struct replica_host *host, const struct replica_work *works)
{
    struct storage_meta meta;

    for (size_t i = 0; i < SWEPT; i++)
        assert_true(host_has(host, &works[i]));
    assert_int_equal(storage_load_meta(host->storage, 0, &meta, NULL), ERROR_NONE);
    assert_int_equal(meta.pending, SWEPT - 1);
    memory_storage_check(host->storage);
}

/* A host reads nothing until the log has dropped its first records. It becomes equal to the owner,
 * and may be the next owner. The first clear of its storage fails. */
static void test_left_behind(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[1];
    struct replica_work works[SWEPT];

    fixture_sweep(fixture, works);
    const struct replica_stats owner = host_stats(&fixture->hosts[0]);
    assert_true(owner.sweeps > 0 && owner.rows > SWEPT && owner.restarts == 0);
    assert_true(owner.log_bytes > owner.live_bytes && owner.live_bytes > SWEPT * 200);
    memory_storage_fail_commit(host->storage, 1, ERROR_IO);
    for (int i = 0; i < 10; i++)
        fixture_run(fixture, LEASE_MS / 4);
    const struct replica_stats stats = host_stats(host);
    assert_true(stats.restarts == 1 && stats.sweeps == 0);
    assert_true(stats.live_bytes == owner.live_bytes);
    assert_int_equal(replica_state(host->replica), OWNERSHIP_STANDBY);
    assert_host_has_all(host, works);
    for (size_t i = 0; i < 2; i++)
        replica_plan(fixture->hosts[i].replica, 2, fixture->now);
    fixture_run(fixture, 1);
    replica_drained(fixture->hosts[0].replica);
    for (int i = 0; i < 10; i++) {
        fixture_run(fixture, LEASE_MS / 4);
        if (host->begins)
            replica_recovered(host->replica);
    }
    assert_int_equal(replica_state(host->replica), OWNERSHIP_ACTIVE);
    assert_int_equal(host->meta.epoch, 2);
    works_free(works);
}

static void host_restart(struct replica_host *host, struct instant now)
{
    replica_stop(host->replica);
    replica_destroy(host->replica);
    host_start(host, 2, now);
    replica_plan(host->replica, 1, now);
}

/* A host that begins anew is stopped at each point. It continues, and serves nothing before it has
 * all rows. */
static void test_stopped_as_it_begins_anew(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[1];
    struct replica_work works[SWEPT];

    fixture_sweep(fixture, works);
    for (uint64_t end = fixture->log.begin + 1; end < fixture->log.size; end++) {
        const uint64_t size = fixture->log.size;

        fixture->log.size = end; /* as far as it reads */
        host_run(host, fixture->now);
        fixture->log.size = size;
        assert_true(replica_state(host->replica) == OWNERSHIP_RESTORING ||
                    (replica_is_whole(host->replica) && end > fixture->log.begin + SWEPT / 2));
        if (end % 3 == 0)
            memory_storage_crash(host->storage, (size_t)(end % 5));
        host_restart(host, fixture->now);
    }
    for (int i = 0; i < 4; i++)
        fixture_run(fixture, 200);
    assert_int_equal(replica_state(host->replica), OWNERSHIP_STANDBY);
    assert_host_has_all(host, works);
    works_free(works);
}

static void assert_host_is_broken(struct replica_fixture *fixture, const char *reason)
{
    struct replica_host *host = &fixture->hosts[1];

    fixture_run(fixture, 1);
    fixture_run(fixture, 200);
    assert_int_equal(replica_state(host->replica), OWNERSHIP_BROKEN);
    assert_non_null(strstr(replica_error(host->replica)->text, reason));
}

/* Starts the second host again at its place. The record before it is handed in first, as by a log
 * whose last records can be replaced by others. */
static void restart_at_its_place(struct replica_fixture *fixture, uint64_t seq)
{
    struct replica_host *host = &fixture->hosts[1];
    struct frame frame;
    struct buffer bytes;

    replica_stop(host->replica);
    replica_destroy(host->replica);
    memory_storage_sync(host->storage);
    host_start(host, 2, fixture->now);
    const uint64_t next = replica_next(host->replica);
    assert_true(next > 1 && next == fixture->log.size);
    assert_int_equal(
        frame_decode(buffer_bytes(&fixture->log.records[next - 1]), CLUSTER, &frame, NULL),
        ERROR_NONE);
    frame.seq += seq;
    buffer_init(&bytes);
    frame_encode(&frame, CLUSTER, &bytes);
    replica_read(host->replica, next - 1, buffer_bytes(&bytes), fixture->now);
    buffer_deinit(&bytes);
    replica_restored(host->replica);
    replica_turn(host->replica, fixture->now, (struct wall){1});
}

/* The log has lost records and grown past the place of a node that was down. The next records may
 * show nothing, as those of an earlier epoch; so the one before its place is compared. */
static void test_the_record_before_the_place(void **state)
{
    struct replica_fixture *fixture = *state;
    const struct replica_host *host = &fixture->hosts[1];

    fixture_run(fixture, 1);
    restart_at_its_place(fixture, 0);
    assert_int_equal(replica_state(host->replica), OWNERSHIP_STANDBY);
    restart_at_its_place(fixture, 1);
    assert_int_equal(replica_state(host->replica), OWNERSHIP_BROKEN);
    assert_non_null(strstr(replica_error(host->replica)->text, "last record is another one"));
}

/* A log that lacks its first records, and does not begin with a sweep, was not trimmed: the
 * replica is broken. */
static void test_cut_elsewhere(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_work works[SWEPT];

    fixture_sweep(fixture, works);
    fixture->log.begin++;
    assert_host_is_broken(fixture, "and not with a sweep");
    works_free(works);
}

static void test_cut_at_its_end(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[1];

    fixture_run(fixture, 1);
    replica_lost(host->replica); /* as a log reports that has fewer records than were read */
    assert_host_is_broken(fixture, "it ends before");
}

/* Reports the log as lost, returns its first record, and lets the host load its place again. */
static void host_lose(struct replica_fixture *fixture, struct replica_host *host)
{
    fixture->now = instant_add_ms(fixture->now, 200);
    replica_lost(host->replica);
    assert_true(replica_take_rewind(host->replica) && replica_seeks(host->replica));
    replica_read(host->replica, 0, buffer_bytes(&fixture->log.records[0]), fixture->now);
    replica_turn(host->replica, fixture->now, (struct wall){1});
}

/* The log was trimmed, so the host lost it, and a fail-over has undone the trim: the log has the
 * record before the place of the host. If it does not, or cannot be read after that, it is
 * broken. */
static void test_a_trim_is_undone(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[1];

    fixture_run(fixture, 1);
    for (int wrong = 0; wrong < 3; wrong++) {
        host_lose(fixture, host);
        assert_true(replica_take_rewind(host->replica) && !replica_seeks(host->replica));
        const uint64_t next = replica_next(host->replica);
        assert_true(next > 1 && next == fixture->log.size);
        const struct buffer *record = &fixture->log.records[wrong == 1 ? next - 2 : next - 1];
        replica_read(host->replica, next - 1, buffer_bytes(record), fixture->now);
        if (wrong == 2)
            host_lose(fixture, host);
        replica_restored(host->replica);
        replica_turn(host->replica, fixture->now, (struct wall){1});
        assert_int_equal(replica_state(host->replica),
                         wrong ? OWNERSHIP_BROKEN : OWNERSHIP_STANDBY);
        if (wrong)
            host_restart(host, fixture->now);
    }
    assert_true(host_stats(host).restarts == 0);
}

static void test_cut_twice(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[1];

    replica_lost(host->replica);
    assert_true(replica_take_rewind(host->replica) && replica_seeks(host->replica));
    replica_lost(host->replica);
    assert_int_equal(replica_state(host->replica), OWNERSHIP_BROKEN);
    host_restart(host, fixture->now);
    replica_lost(host->replica);
    replica_take_rewind(host->replica);
    replica_restored(host->replica); /* it is empty */
    assert_int_equal(replica_state(host->replica), OWNERSHIP_BROKEN);
}

/* The log begins with a sweep that its owner gave up: no node has all rows. */
static void test_cut_at_an_unfinished_sweep(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[1];
    struct replica_work works[SWEPT];
    struct frame frame;

    fixture_sweep(fixture, works);
    const uint64_t begin = fixture->log.begin, size = fixture->log.size;
    assert_int_equal(
        frame_decode(buffer_bytes(&fixture->log.records[begin]), CLUSTER, &frame, NULL),
        ERROR_NONE);
    assert_true(frame.is_sweep && frame.body.size < 10);
    fixture->log.size = begin + 3;
    host_run(host, fixture->now);
    host_run(host, instant_add_ms(fixture->now, 200));
    assert_int_equal(replica_state(host->replica), OWNERSHIP_RESTORING);
    assert_false(replica_is_whole(host->replica));
    const struct frame claim = {.kind = FRAME_CLAIM, .node = 3, .epoch = frame.epoch + 1};
    struct buffer bytes;
    buffer_init(&bytes);
    frame_encode(&claim, CLUSTER, &bytes);
    replica_read(host->replica, begin + 3, buffer_bytes(&bytes), fixture->now);
    buffer_deinit(&bytes);
    assert_int_equal(replica_state(host->replica), OWNERSHIP_BROKEN);
    assert_non_null(strstr(replica_error(host->replica)->text, "was not finished"));
    fixture->log.size = size;
    works_free(works);
}

/* A host begins with a sweep, and a fail-over undoes the trim before it and loses the end of the
 * sweep. The host reads the log from its first record. */
static void test_a_sweep_is_undone(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[1];
    struct replica_work works[SWEPT];
    const uint64_t begin = (fixture_sweep(fixture, works), fixture->log.begin);
    const uint64_t size = fixture->log.size;

    fixture->log.size = begin + 3;
    for (int i = 0; i < 4; i++)
        host_run(host, instant_add_ms(fixture->now, 200));
    assert_int_equal(replica_state(host->replica), OWNERSHIP_RESTORING);
    host_restart(host, fixture->now);
    fixture->log.begin = 0;
    for (uint64_t i = 1; i < 5; i++)
        host_run(host, instant_add_ms(fixture->now, i * 200));
    assert_int_equal(replica_state(host->replica), OWNERSHIP_STANDBY);
    assert_int_equal(replica_next(host->replica), begin + 3);
    for (size_t i = 0; i < 8; i++)
        assert_true(host_has(host, &works[i]));
    memory_storage_check(host->storage);
    fixture->log.size = size;
    works_free(works);
}

/* An owner whose storage has damage makes no copies: the log has what the storage lacks. */
static void test_a_damaged_owner(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[0];
    struct replica_work works[SWEPT];

    for (uint64_t i = 0; i < SWEPT; i++) {
        work_commit(&works[i], host, i + 1);
        fixture_run(fixture, 1);
        if (i == 0)
            assert_true(memory_storage_damage(host->storage, &works[0].timer->id));
    }
    for (int i = 0; i < 8; i++)
        fixture_run(fixture, LEASE_MS / 4);
    const struct replica_stats stats = host_stats(host);
    assert_true(stats.sweeps == 0 && stats.sweep_failures == 1 && fixture->log.begin == 0);
    assert_true(host->durable == SWEPT);
    assert_true(host_has(&fixture->hosts[1], &works[0]));
    works_free(works);
}

/* ---- copies ---- */

/* Reads the next page, of two rows, of a copy of the first host. */
static struct copy_page page_next(struct replica_fixture *fixture, struct storage_export *at,
                                  struct buffer *rows)
{
    at->rows_max = 2;
    at->bytes_max = SIZE_MAX;
    buffer_clear(rows);
    assert_int_equal(storage_export(fixture->hosts[0].storage, at, rows, NULL), ERROR_NONE);
    return (struct copy_page){.at = *at, .rows = buffer_bytes(rows), .row_count = 2};
}

/* The second host has the rest of a copy that was dropped. The log has works[0 .. count - 1]. */
static void fixture_fill(struct replica_fixture *fixture, struct replica_work *works, size_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        work_commit(&works[i], &fixture->hosts[0], i + 1);
        host_run(&fixture->hosts[0], fixture->now);
    }
    assert_int_equal(storage_partition_clear(fixture->hosts[1].storage, 0,
                                             &(struct storage_place){.copy_end = STORAGE_COPYING},
                                             NULL),
                     ERROR_NONE);
    struct replica_work rest;
    struct storage_batch *const batches[] = {&rest.batch};
    work_prepare(&rest, 77);
    assert_int_equal(storage_write(fixture->hosts[1].storage, batches, 1, NULL), ERROR_NONE);
    timer_free(rest.timer);
    memory_storage_sync(fixture->hosts[1].storage);
    host_restart(&fixture->hosts[1], fixture->now);
    assert_true(replica_wants_copy(fixture->hosts[1].replica, fixture->log.size));
}

/* Pages are copied while the owner continues. The copy, and all records after it, make a standby.
 * It follows the log from the place of its first page, and is complete only at the place of its
 * last one. */
static void test_a_copy(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[1];
    struct replica_work works[SWEPT];
    struct storage_export at = {.partition = 0};
    struct buffer rows;
    uint64_t first = 0, last = 0;
    size_t count = 4;

    buffer_init(&rows);
    fixture_fill(fixture, works, count);
    assert_false(replica_wants_copy(host->replica, 9)); /* it is read at once */
    while (!at.is_done) {
        const struct copy_page page = page_next(fixture, &at, &rows);

        first = first ? first : page.at.place.next;
        last = page.at.place.next;
        assert_true(replica_take_page(host->replica, &page, fixture->now));
        assert_false(replica_is_whole(host->replica));
        assert_int_equal(replica_is_copying(host->replica), !at.is_done);
        replica_restored(host->replica); /* whatever the log says meanwhile */
        assert_int_equal(replica_state(host->replica), OWNERSHIP_RESTORING);
        if (count < SWEPT) {
            work_commit(&works[count], &fixture->hosts[0], count + 1);
            count++;
        }
        host_run(&fixture->hosts[0], fixture->now);
    }
    assert_true(first < last && replica_next(host->replica) == first);
    assert_true(replica_take_rewind(host->replica));
    while (replica_next(host->replica) < last) {
        assert_false(replica_is_whole(host->replica));
        replica_read(host->replica, replica_next(host->replica),
                     buffer_bytes(&fixture->log.records[replica_next(host->replica)]),
                     fixture->now);
    }
    assert_true(replica_is_whole(host->replica));
    assert_int_equal(replica_state(host->replica), OWNERSHIP_RESTORING);
    fixture_run(fixture, 1);
    assert_int_equal(replica_state(host->replica), OWNERSHIP_STANDBY);
    const struct replica_stats stats = host_stats(host);
    assert_true(stats.copies == 1 && stats.copy_failures == 0 && stats.copy_rows > 0);
    assert_true(stats.restarts == 0);
    for (size_t i = 0; i < count; i++) {
        assert_true(host_has(host, &works[i]));
        timer_free(works[i].timer);
    }
    const struct timer_id rest = {{1000}, 0, 77};
    testing_assert_not_found(host->storage, &rest, ERROR_NOT_FOUND);
    memory_storage_check(host->storage);
    buffer_deinit(&rows);
}

/* The host is stopped at each point of a copy, and a crash takes rows from its storage. It begins
 * anew, or continues. */
static void test_stopped_in_a_copy(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[1];
    struct replica_work works[SWEPT];
    struct buffer rows;

    buffer_init(&rows);
    fixture_fill(fixture, works, SWEPT);
    for (size_t pages = 1, kept = 0, is_over = 0; !is_over; pages += kept == 0) {
        struct storage_export at = {.partition = 0};
        struct storage_place place;

        for (size_t i = 0; i < pages && !at.is_done; i++) {
            const struct copy_page page = page_next(fixture, &at, &rows);
            assert_true(replica_take_page(host->replica, &page, fixture->now));
        }
        is_over = at.is_done && kept == 2;
        kept = (kept + 1) % 3;
        memory_storage_crash(host->storage, pages / 2 * kept);
        host_restart(host, fixture->now);
        assert_int_equal(storage_load_place(host->storage, 0, &place, NULL), ERROR_NONE);
        assert_true(place.next == 0 || (place.copy_end == 0 && at.is_done));
        if (place.next && !is_over) {
            assert_int_equal(
                storage_partition_clear(host->storage, 0, &(struct storage_place){.next = 0}, NULL),
                ERROR_NONE);
            host_restart(host, fixture->now);
        }
    }
    for (int i = 0; i < 4; i++)
        fixture_run(fixture, 200);
    assert_int_equal(replica_state(host->replica), OWNERSHIP_STANDBY);
    for (size_t i = 0; i < SWEPT; i++)
        assert_true(host_has(host, &works[i]));
    works_free(works);
    buffer_deinit(&rows);
}

/* A copy is given up: a page has a place before that of the first one, is of an incomplete giver,
 * or of another partition; the storage fails; or no page comes. Then the host reads the log, which
 * has everything. */
static void test_a_copy_is_given_up(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[1];
    struct replica_work works[4];
    struct buffer rows;

    buffer_init(&rows);
    fixture_fill(fixture, works, 4);
    for (int wrong = 0; wrong < 12; wrong++) {
        struct storage_export at = {.partition = 0};
        struct copy_page page = page_next(fixture, &at, &rows);

        if (wrong % 2) {
            assert_true(replica_take_page(host->replica, &page, fixture->now));
            page = page_next(fixture, &at, &rows);
        }
        page.at.partition += wrong / 2 == 0;
        page.at.place.copy_end += wrong / 2 == 1;
        page.at.place.sweep_end += wrong / 2 == 2;
        page.at.place.next = wrong / 2 == 3 ? 5 : page.at.place.next;
        if (wrong / 2 == 4)
            memory_storage_fail_commit(host->storage, 1, ERROR_IO);
        if (wrong / 2 == 5)
            replica_end_copy(host->replica);
        else
            assert_false(replica_take_page(host->replica, &page, fixture->now));
        assert_int_equal(host_stats(host).copy_failures, 1);
        assert_false(replica_wants_copy(host->replica, fixture->log.size));
        assert_false(replica_is_copying(host->replica));
        memory_storage_fail_commit(host->storage, 0, ERROR_NONE);
        for (int i = 0; i < 4; i++)
            fixture_run(fixture, 200);
        assert_int_equal(replica_state(host->replica), OWNERSHIP_STANDBY);
        assert_true(host_stats(host).copies == 0 && host_stats(host).restarts == 0);
        for (size_t i = 0; i < 4; i++)
            assert_true(host_has(host, &works[i]));
        assert_int_equal(
            storage_partition_clear(host->storage, 0, &(struct storage_place){.next = 0}, NULL),
            ERROR_NONE);
        host_restart(host, fixture->now);
    }
    for (size_t i = 0; i < 4; i++)
        timer_free(works[i].timer);
    buffer_deinit(&rows);
}

/* The giver knew records that the log has lost: the log ends before the place of the last page, or
 * has another record there; or the owner has changed. The host drops the copy, also when it is
 * stopped before it has compared, and reads the log. */
static void test_a_copy_of_lost_records(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[1];
    struct replica_work works[SWEPT];
    struct buffer rows;

    buffer_init(&rows);
    fixture_fill(fixture, works, 4);
    for (int wrong = 0; wrong < 4; wrong++) {
        const size_t first = 4 + (size_t)wrong * 2;
        struct storage_export at = {.partition = 0};
        struct copy_page page = page_next(fixture, &at, &rows);
        bool is_taken = true;

        assert_true(replica_take_page(host->replica, &page, fixture->now));
        for (size_t i = first; i < first + 2; i++) {
            work_commit(&works[i], &fixture->hosts[0], i + 1);
            host_run(&fixture->hosts[0], fixture->now);
        }
        while (is_taken && !at.is_done) {
            page = page_next(fixture, &at, &rows);
            page.at.place.next += wrong == 0;
            page.at.place.seq += wrong == 1;
            page.at.place.incarnation += wrong == 2;
            is_taken = replica_take_page(host->replica, &page, fixture->now);
        }
        assert_true(is_taken == (wrong != 2));
        if (wrong == 3)
            host_restart(host, fixture->now);
        for (int i = 0; i < 4; i++)
            fixture_run(fixture, 200);
        assert_int_equal(replica_state(host->replica), OWNERSHIP_STANDBY);
        assert_true(host_stats(host).copy_failures == (wrong != 3));
        for (size_t i = 0; i < first + 2; i++)
            assert_true(host_has(host, &works[i]));
        assert_int_equal(
            storage_partition_clear(host->storage, 0, &(struct storage_place){.next = 0}, NULL),
            ERROR_NONE);
        host_restart(host, fixture->now);
    }
    for (size_t i = 0; i < 12; i++)
        timer_free(works[i].timer);
    buffer_deinit(&rows);
}

/* The log has dropped the records that must follow a copy: the host begins anew, with the sweep. */
static void test_a_copy_is_left_behind(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[1];
    struct replica_work works[SWEPT];
    struct storage_export at = {.partition = 0};
    struct buffer rows;

    buffer_init(&rows);
    for (int i = 0; i < 10; i++)
        fixture_run(fixture, LEASE_MS / 4);
    assert_int_equal(
        storage_partition_clear(host->storage, 0, &(struct storage_place){.next = 0}, NULL),
        ERROR_NONE);
    host_restart(host, fixture->now);
    while (!at.is_done) {
        const struct copy_page page = page_next(fixture, &at, &rows);
        assert_true(replica_take_page(host->replica, &page, fixture->now));
    }
    fixture_sweep(fixture, works);
    assert_true(replica_next(host->replica) < fixture->log.begin);
    for (int i = 0; i < 8; i++)
        fixture_run(fixture, LEASE_MS / 4);
    assert_int_equal(replica_state(host->replica), OWNERSHIP_STANDBY);
    assert_int_equal(host_stats(host).restarts, 1);
    assert_host_has_all(host, works);
    works_free(works);
    buffer_deinit(&rows);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, replica_set_up, replica_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_messages_are_one_transaction),
        TEST(test_a_transaction_fails),
        TEST(test_a_transaction_is_gone),
        TEST(test_a_large_commit),
        TEST(test_the_place),
        TEST(test_the_storage_fails),
        TEST(test_no_answer),
        TEST(test_a_damaged_record),
        TEST(test_left_behind),
        TEST(test_stopped_as_it_begins_anew),
        TEST(test_the_record_before_the_place),
        TEST(test_cut_elsewhere),
        TEST(test_cut_at_its_end),
        TEST(test_a_trim_is_undone),
        TEST(test_cut_twice),
        TEST(test_cut_at_an_unfinished_sweep),
        TEST(test_a_sweep_is_undone),
        TEST(test_a_damaged_owner),
        TEST(test_a_copy),
        TEST(test_stopped_in_a_copy),
        TEST(test_a_copy_is_given_up),
        TEST(test_a_copy_of_lost_records),
        TEST(test_a_copy_is_left_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
