/* clock.c - reads the wall clock and the monotonic clock. */
#include "sys/clock.h"

#include <assert.h>
#include <stdatomic.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <unistd.h>

/* Latest alarm in seconds since 1970. The kernel counts nanoseconds in 63 bits, which end in
 * 2262. */
#define ALARM_S_END UINT64_C(9000000000)

/* The virtual clock. Like the machine's clocks it is one for the whole process. */
static struct {
    _Atomic uint64_t now_ms; /* virtual time; 0 if timers have the machine's */
    uint64_t start_ms;       /* virtual time at which the process started */
} clock_virtual;

static struct timespec clock_read(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now); /* cannot fail: both clocks exist on every Linux */
    return now;
}

struct wall wall_now(void)
{
    return (struct wall){wall_now_us() / 1000};
}

struct wall wall_coming(void)
{
    return (struct wall){wall_now_us() / 1000 + !clock_is_virtual()};
}

uint64_t wall_now_us(void)
{
    const uint64_t virtual_ms = atomic_load(&clock_virtual.now_ms);

    return virtual_ms ? virtual_ms * 1000 : wall_machine_now_us();
}

struct wall wall_machine_now(void)
{
    return (struct wall){wall_machine_now_us() / 1000};
}

uint64_t wall_machine_now_us(void)
{
    struct timespec now = clock_read(CLOCK_REALTIME);

    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

struct clock_sync wall_sync(void)
{
    struct timex state = {.modes = 0};
    int answer = adjtimex(&state);

    return (struct clock_sync){.is_synchronised = answer >= 0 && answer != TIME_ERROR &&
                                                  !(state.status & STA_UNSYNC),
                               .error_us = state.esterror > 0 ? (uint64_t)state.esterror : 0};
}

struct instant instant_now(void)
{
    struct timespec now = clock_read(CLOCK_MONOTONIC);

    return (struct instant){(uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec};
}

struct instant instant_boot_now(void)
{
    struct timespec now = clock_read(CLOCK_BOOTTIME);

    return (struct instant){(uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec};
}

struct instant instant_timers_now(void)
{
    const uint64_t virtual_ms = atomic_load(&clock_virtual.now_ms);

    if (!virtual_ms)
        return instant_now();
    /* a second more, because an instant of 0 means none */
    return (struct instant){(virtual_ms - clock_virtual.start_ms + 1000) * 1000000};
}

struct wall instant_wall(struct instant instant)
{
    struct wall now =
        /* The wall clock is read first, so that the time until the other clock is read counts as
         * passed. */
        wall_now();
    const struct instant at = instant_timers_now();
    const uint64_t ago_ms = instant_since_ns(instant, at) / 1000000;

    if (ago_ms > 0)
        return (struct wall){now.ms > ago_ms ? now.ms - ago_ms : 0};
    return wall_add(now, instant_since_ns(at, instant) / 1000000);
}

void clock_start_virtual(struct wall at)
{
    assert(at.ms > 0);
    clock_virtual.start_ms = at.ms;
    atomic_store(&clock_virtual.now_ms, at.ms);
}

bool clock_is_virtual(void)
{
    return atomic_load(&clock_virtual.now_ms) != 0;
}

void clock_move_virtual(struct wall to)
{
    assert(clock_is_virtual() && to.ms >= wall_now().ms && to.ms <= clock_virtual_end().ms);
    atomic_store(&clock_virtual.now_ms, to.ms);
}

struct wall clock_virtual_end(void)
{
    return wall_add((struct wall){clock_virtual.start_ms}, CLOCK_VIRTUAL_MS_MAX);
}

struct timespec instant_timespec(struct instant instant)
{
    return (struct timespec){.tv_sec = (time_t)(instant.ns / 1000000000),
                             .tv_nsec = (long)(instant.ns % 1000000000)};
}

void instant_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

enum error_code clock_alarm_open(struct clock_alarm *alarm)
{
    alarm->fd_ = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    return alarm->fd_ < 0 ? ERROR_IO : ERROR_NONE;
}

void clock_alarm_close(struct clock_alarm *alarm)
{
    close(alarm->fd_);
}

void clock_alarm_set(struct clock_alarm *alarm, struct wall at)
{
    uint64_t seconds = at.ms / 1000 < ALARM_S_END ? at.ms / 1000 : ALARM_S_END;
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(at.ms % 1000 * 1000000 + 1)}};

    /* Setting the timer makes the descriptor unreadable. The call reports an error if the clock was
     * changed since the last setting, but it sets the timer even then. */
    timerfd_settime(alarm->fd_, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &when, NULL);
}
