/*
 * uv_test.c - the wheel on libuv's loop. Time is the loop's: what is asserted holds on a machine of
 * any speed.
 */
#include <tickwheel/uv.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { CLIENTS = 500 };

struct uv_client {
    tw_handle timer;
    uint64_t earliest; /* by uv_now() */
    bool is_closed;
    unsigned fired;
};

struct uv_rig {
    uv_loop_t loop;
    struct tw_uv timers;
    struct uv_client clients[CLIENTS];
    unsigned fired;
    bool is_closed;
};

static void fire(struct tw_uv *timers, void *object)
{
    struct uv_rig *rig = timers->data;
    struct uv_client *client = object;
    assert_false(client->is_closed);
    assert_true(uv_now(&rig->loop) >= client->earliest);
    client->fired++;
    rig->fired++;
}

static void arm(struct uv_rig *rig, size_t i, uint64_t delay_ms)
{
    uint64_t now = uv_now(&rig->loop);
    rig->clients[i].earliest = delay_ms < UINT64_MAX - now ? now + delay_ms : UINT64_MAX;
    assert_true(tw_uv_arm(&rig->timers, rig->clients[i].timer, delay_ms));
}

static struct uv_rig *rig_create(void (*on_due)(struct tw_uv *timers, void *object))
{
    struct uv_rig *rig = test_calloc(1, sizeof(*rig));
    rig->timers.data = rig;
    assert_int_equal(uv_loop_init(&rig->loop), 0);
    assert_int_equal(tw_uv_init(&rig->timers, &rig->loop, on_due), 0);
    assert_ptr_equal(rig->timers.data, rig);
    for (size_t i = 0; i < CLIENTS; i++) {
        rig->clients[i].timer = tw_uv_open(&rig->timers, &rig->clients[i]);
        assert_true(rig->clients[i].timer != TW_NONE);
    }
    return rig;
}

static void closed(uv_handle_t *alarm)
{
    struct uv_rig *rig = ((struct tw_uv *)alarm->data)->data;
    rig->is_closed = true;
}

static void rig_destroy(struct uv_rig *rig)
{
    if (rig->timers.wheel)
        tw_uv_deinit(&rig->timers, closed);
    assert_int_equal(uv_run(&rig->loop, UV_RUN_DEFAULT), 0);
    assert_true(rig->is_closed);
    assert_int_equal(uv_loop_close(&rig->loop), 0);
    test_free(rig);
}

/* Goal: each armed timer fires once, not early, and the loop ends after the last one. Method:
 * deadlines in falling order, so that each brings the alarm forward. */
static void each_fires_once_and_then_the_loop_ends(void **state)
{
    (void)state;
    struct uv_rig *rig = rig_create(fire);
    for (size_t i = 0; i < CLIENTS; i++)
        arm(rig, i, (CLIENTS - i) / 10);
    arm(rig, 3, 70); /* later than first asked */
    assert_int_equal(uv_run(&rig->loop, UV_RUN_DEFAULT), 0);
    for (size_t i = 0; i < CLIENTS; i++)
        assert_int_equal(rig->clients[i].fired, 1);
    arm(rig, 7, 0);
    assert_int_equal(uv_run(&rig->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(rig->clients[7].fired, 2);
    rig_destroy(rig);
}

static void an_earlier_deadline_brings_the_alarm_forward(void **state)
{
    (void)state;
    struct uv_rig *rig = rig_create(fire);
    arm(rig, 0, UINT64_MAX); /* never comes, and does not wrap */
    arm(rig, 1, 3600000);
    arm(rig, 2, 5);
    while (rig->fired == 0)
        uv_run(&rig->loop, UV_RUN_ONCE);
    assert_int_equal(rig->clients[2].fired, 1);
    assert_true(tw_wheel_timeout(rig->timers.wheel, uv_now(&rig->loop)) > 0);
    rig_destroy(rig);
}

/* Goal: the loop does not wait for timers that have no deadline any more. */
static void the_loop_ends_when_none_is_armed(void **state)
{
    (void)state;
    struct uv_rig *rig = rig_create(fire);
    arm(rig, 0, 3600000);
    arm(rig, 1, 3600000);
    assert_true(tw_uv_disarm(&rig->timers, rig->clients[0].timer));
    assert_false(tw_uv_disarm(&rig->timers, rig->clients[0].timer));
    assert_true(tw_uv_close(&rig->timers, rig->clients[1].timer));
    assert_false(tw_uv_close(&rig->timers, rig->clients[1].timer));
    assert_false(tw_uv_arm(&rig->timers, rig->clients[1].timer, 1));
    assert_int_equal(uv_run(&rig->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(rig->fired, 0);
    rig_destroy(rig);
}

/* Closes all other timers, which are due as well, and arms its own once more. */
static void fire_alone(struct tw_uv *timers, void *object)
{
    struct uv_rig *rig = timers->data;
    fire(timers, object);
    for (size_t i = 0; i < CLIENTS; i++) {
        if (&rig->clients[i] == object || rig->clients[i].is_closed)
            continue;
        rig->clients[i].is_closed = tw_uv_close(timers, rig->clients[i].timer);
        assert_true(rig->clients[i].is_closed);
    }
    if (rig->fired == 1)
        tw_uv_arm(timers, ((struct uv_client *)object)->timer, 0);
}

/* Goal: the object of a timer closed in a callback may be freed, although it was due. */
static void a_callback_may_close_others_that_are_due(void **state)
{
    (void)state;
    struct uv_rig *rig = rig_create(fire_alone);
    for (size_t i = 0; i < CLIENTS; i++)
        arm(rig, i, 2);
    assert_int_equal(uv_run(&rig->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(rig->fired, 2);
    rig_destroy(rig);
}

static void fire_last(struct tw_uv *timers, void *object)
{
    fire(timers, object);
    tw_uv_deinit(timers, closed);
}

static void a_callback_may_end_all(void **state)
{
    (void)state;
    struct uv_rig *rig = rig_create(fire_last);
    for (size_t i = 0; i < CLIENTS; i++)
        arm(rig, i, 2);
    assert_int_equal(uv_run(&rig->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(rig->fired, 1);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fires_once_and_then_the_loop_ends),
        cmocka_unit_test(an_earlier_deadline_brings_the_alarm_forward),
        cmocka_unit_test(the_loop_ends_when_none_is_armed),
        cmocka_unit_test(a_callback_may_close_others_that_are_due),
        cmocka_unit_test(a_callback_may_end_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
