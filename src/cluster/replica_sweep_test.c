/* Goal: a sweep leaves the log to commits, and its trim comes. Method: that of replica_test.c, with
 * appends that take time. */
#include "cluster/replica_testing.h"

/* A sweep whose appends take some time. */
struct replica_pace {
    struct replica_host *host;
    uint64_t took_ms; /* duration of each append */
    /* shortest and longest pause between two parts: of the first four */
    uint64_t rest_ms_min, rest_ms_max;
    uint64_t rest_ms_last;
    size_t parts;
    bool is_resting; /* a part has ended, and the sweep goes on */
    struct instant ended_at;
};

/* Lets the host do what it wants at `now`. An append lands `took_ms` later, and is read then. */
static void pace_step(struct replica_pace *pace, struct replica_fixture *fixture)
{
    struct replica_host *host = pace->host;
    struct frame frame;

    replica_turn(host->replica, fixture->now, (struct wall){1});
    if (!host->ticket) {
        fixture->now = instant_add_ms(fixture->now, 1);
        return;
    }
    const uint64_t ticket = host->ticket, landed = host->landed;
    const struct bytes bytes = buffer_bytes(&fixture->log.records[landed]);
    assert_int_equal(frame_decode(bytes, CLUSTER, &frame, NULL), ERROR_NONE);
    if (frame.is_sweep && pace->is_resting) {
        const uint64_t rest_ms = instant_since_ns(pace->ended_at, fixture->now) / 1000000;

        pace->rest_ms_last = rest_ms;
        if (pace->parts <= 4 && rest_ms < pace->rest_ms_min)
            pace->rest_ms_min = rest_ms;
        if (pace->parts <= 4 && rest_ms > pace->rest_ms_max)
            pace->rest_ms_max = rest_ms;
        pace->is_resting = false;
    }
    host->ticket = 0;
    fixture->now = instant_add_ms(fixture->now, pace->took_ms);
    replica_landed(host->replica, ticket, landed, fixture->now);
    replica_read(host->replica, landed, bytes, fixture->now);
    if (frame.is_sweep && !frame.has_more) {
        pace->parts++;
        pace->is_resting = true;
        pace->ended_at = fixture->now;
    }
}

enum { PACED = 64 };

/* Commits until a sweep has begun, and runs it to its end, with `between` more commits in its first
 * pause. Returns how long the first of these took. */
static uint64_t fixture_pace(struct replica_fixture *fixture, struct replica_pace *pace,
                             size_t between)
{
    struct replica_host *host = pace->host;
    const uint64_t sweeps = host_stats(host).sweeps;
    struct replica_work works[PACED];
    size_t count = 0;

    pace->rest_ms_min = UINT64_MAX;
    for (unsigned durable = host->durable; pace->parts == 0; pace_step(pace, fixture))
        if (host->durable == durable + count && count < PACED - between) {
            work_commit(&works[count], host, 1000 + count);
            count++;
        }
    const struct instant asked_at = fixture->now;
    const unsigned before = host->durable;
    for (size_t i = 0; i < between; i++, count++)
        work_commit(&works[count], host, 1000 + count);
    while (host->durable < before + between)
        pace_step(pace, fixture);
    const uint64_t took_ms = instant_since_ns(asked_at, fixture->now) / 1000000;
    for (int i = 0; i < 20000 && host_stats(host).sweeps == sweeps; i++)
        pace_step(pace, fixture);
    assert_int_equal(host_stats(host).sweeps, sweeps + 1);
    for (size_t i = 0; i < count; i++)
        timer_free(works[i].timer);
    return took_ms;
}

/* A sweep pauses after each part for nine times as long as the part took, at most for a second. A
 * commit in a pause is sent at once. When the log grows faster than the sweep copies, the pauses
 * are shorter. */
static void test_a_sweep_rests(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_pace quick = {.host = &fixture->hosts[0], .took_ms = 3};
    struct replica_pace slow = {.host = &fixture->hosts[0], .took_ms = 200};
    struct replica_pace late = {.host = &fixture->hosts[0], .took_ms = 3};

    const uint64_t took_ms = fixture_pace(fixture, &quick, 1);
    assert_true(quick.parts > 4 && took_ms < quick.rest_ms_min); /* its frames alone */
    assert_true(quick.rest_ms_min >= 9 * 3 && quick.rest_ms_max <= 9 * 3 * 6);
    fixture_pace(fixture, &slow, 0);
    assert_true(slow.rest_ms_min >= 1000 && slow.rest_ms_max <= 1000 + 2 * 200);
    fixture_pace(fixture, &late, 40);
    assert_true(late.rest_ms_last < quick.rest_ms_min);
}

/* Sweeps that end more often than the delay of a trim do not put it off. */
static void test_trims_beside_many_sweeps(void **state)
{
    struct replica_fixture *fixture = *state;
    struct replica_host *host = &fixture->hosts[0];
    unsigned trims = 0;

    host->replica->options.trim_delay_ms = 500;
    for (int i = 0; i < 150; i++) { /* in three seconds */
        const uint64_t begin = fixture->log.begin;
        struct replica_work work;

        work_commit(&work, host, 1);
        for (int ms = 0; ms < 20; ms++)
            fixture_run(fixture, 1);
        trims += fixture->log.begin != begin;
        timer_free(work.timer);
    }
    assert_true(host_stats(host).sweeps > 6 && trims >= 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, replica_set_up, replica_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_sweep_rests),
        TEST(test_trims_beside_many_sweeps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
