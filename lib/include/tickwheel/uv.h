/*
 * uv.h - a wheel on libuv's loop, whose single uv_timer serves any number of timers.
 *
 *     tw_uv_init(&timers, loop, hang_up);
 *     client->timer = tw_uv_open(&timers, client);
 *     tw_uv_arm(&timers, client->timer, 60000);   at each read: one store
 *     tw_uv_close(&timers, client->timer);
 *
 * Only this header needs libuv; the library does not link it. `timers.wheel` is an ordinary wheel
 * for reading; deadlines are set with the functions below, which also set the alarm.
 *
 * Time       Milliseconds of uv_now(). A timer never fires before its delay has passed on the loop.
 * Errors     Only init and open can fail, when memory is short.
 * Ownership  `struct tw_uv` is the caller's and stays where it is until tw_uv_deinit's `closed`.
 *            The callback may open, arm, disarm and close any timer, also others that are due.
 * Threads    The loop's thread. The loop runs on while a timer is armed.
 */
#ifndef TICKWHEEL_UV_H
#define TICKWHEEL_UV_H

#include <tickwheel/wheel.h>

#include <uv.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The timers of one loop. */
struct tw_uv {
    void *data; /* the caller's, as in libuv's handles */
    struct tw_wheel *wheel;
    void (*fire_)(struct tw_uv *timers, void *object);
    uint64_t alarm_at_; /* TW_NEVER while the alarm is off */
    uv_timer_t alarm_;
};

/* For the functions below: fires the timers that are due when `alarm` rings. */
static inline void tw_uv_ring_(uv_timer_t *alarm);

/* For the functions below: sets the alarm of `timers` to the wheel's next wake-up. */
static inline void tw_uv_set_alarm_(struct tw_uv *timers)
{
    uint64_t now = uv_now(timers->alarm_.loop);
    int timeout = tw_wheel_timeout(timers->wheel, now);
    timers->alarm_at_ = timeout < 0 ? TW_NEVER : now + (uint64_t)timeout;
    if (timeout < 0)
        uv_timer_stop(&timers->alarm_);
    else
        uv_timer_start(&timers->alarm_, tw_uv_ring_, (uint64_t)timeout, 0);
}

/* Takes timers out one at a time, so that a callback may close others that are due. */
static inline void tw_uv_ring_(uv_timer_t *alarm)
{
    struct tw_uv *timers = (struct tw_uv *)alarm->data;
    struct tw_expired due;
    do {
        size_t count = tw_wheel_expire(timers->wheel, uv_now(alarm->loop), &due, 1);
        if (count > 0)
            timers->fire_(timers, (void *)(uintptr_t)due.data);
        if (!timers->wheel)
            return;
    } while (tw_wheel_is_behind(timers->wheel));
    tw_uv_set_alarm_(timers);
}

/* Puts an empty wheel on `loop`. `fire` is called with `timers` and the object of each timer that
 * is due. Leaves `timers->data` alone. Returns 0, or a code of libuv with nothing initialized. */
static inline int tw_uv_init(struct tw_uv *timers, uv_loop_t *loop,
                             void (*fire)(struct tw_uv *timers, void *object))
{
    struct tw_wheel_options options = {0, 0, NULL, NULL, NULL};
    int result = UV_ENOMEM;
    options.start = uv_now(loop);
    timers->wheel = tw_wheel_create(&options);
    if (timers->wheel)
        result = uv_timer_init(loop, &timers->alarm_);
    if (result != 0) {
        tw_wheel_destroy(timers->wheel);
        timers->wheel = NULL;
        return result;
    }
    timers->alarm_.data = timers;
    timers->alarm_at_ = TW_NEVER;
    timers->fire_ = fire;
    return 0;
}

/* Ends all timers. Then the loop closes the alarm and calls `closed`, which may be NULL, with a
 * handle whose data is `timers`; until then the memory of `timers` is in use. */
static inline void tw_uv_deinit(struct tw_uv *timers, uv_close_cb closed)
{
    tw_wheel_destroy(timers->wheel);
    timers->wheel = NULL;
    uv_close((uv_handle_t *)&timers->alarm_, closed);
}

/* Opens a timer of `timers`, unarmed, for `object`. Returns TW_NONE when out of memory. */
static inline tw_handle tw_uv_open(struct tw_uv *timers, void *object)
{
    return tw_wheel_open(timers->wheel, (uintptr_t)object);
}

/* Arms `timer` of `timers` to fire once, `delay_ms` from now, in place of a former deadline. The
 * current millisecond has begun and does not count. Returns false if the handle is stale. */
static inline bool tw_uv_arm(struct tw_uv *timers, tw_handle timer, uint64_t delay_ms)
{
    uint64_t now = uv_now(timers->alarm_.loop) + 1;
    uint64_t deadline = delay_ms < TW_NEVER - 1 - now ? now + delay_ms : TW_NEVER - 1;
    bool is_armed = tw_wheel_arm(timers->wheel, timer, deadline);
    if (deadline < timers->alarm_at_)
        tw_uv_set_alarm_(timers);
    return is_armed;
}

/* Removes the deadline of `timer` of `timers`. Returns whether it had one. */
static inline bool tw_uv_disarm(struct tw_uv *timers, tw_handle timer)
{
    bool was_armed = tw_wheel_disarm(timers->wheel, timer);
    if (tw_wheel_count(timers->wheel) == 0)
        tw_uv_set_alarm_(timers);
    return was_armed;
}

/* Closes `timer` of `timers`, armed or not. Returns false if the handle is stale. */
static inline bool tw_uv_close(struct tw_uv *timers, tw_handle timer)
{
    bool was_open = tw_wheel_close(timers->wheel, timer);
    if (tw_wheel_count(timers->wheel) == 0)
        tw_uv_set_alarm_(timers);
    return was_open;
}

#ifdef __cplusplus
}
#endif

#endif
