/* wheel_oracle.c - see wheel_oracle.h. */
#include "wheel_oracle.h"
#include "wheel_private.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(const struct trial *trial, bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "wheel and model differ after %" PRIu64 " verbs, now %" PRIu64 ": %s\n",
            trial->verb_count, trial->now, what);
    abort();
}

void trial_init(struct trial *trial, const struct tw_wheel_options *options, uint32_t moves_max,
                uint32_t stale_slack)
{
    memset(trial, 0, sizeof(*trial));
    trial->allocator.calls_left = SIZE_MAX;
    struct tw_wheel_options with = *options;
    with.allocate = allocator_take; /* nothing may depend on what fresh memory contains */
    with.release = allocator_give;
    with.context = &trial->allocator;
    trial->wheel = tw_wheel_create(&with);
    must(trial, trial->wheel != NULL, "create");
    trial->wheel->moves_max = moves_max;
    trial->wheel->stale_slack = stale_slack;
    trial->now = tw_wheel_now(trial->wheel);
}

void trial_deinit(struct trial *trial)
{
    tw_wheel_destroy(trial->wheel);
}

static struct trial_timer *any(struct trial *trial, size_t which)
{
    return trial->count ? &trial->timers[which % trial->count] : NULL;
}

static void forget(struct trial *trial, struct trial_timer *timer)
{
    trial->stale[trial->stale_count++ % TRIAL_STALE_MAX] = timer->handle;
    *timer = trial->timers[--trial->count];
}

static void armed(struct trial *trial, struct trial_timer *timer, uint64_t deadline)
{
    timer->deadline = deadline;
    timer->is_armed = true;
    timer->was_overdue = deadline <= trial->now;
}

void trial_schedule(struct trial *trial, uint64_t deadline)
{
    trial->verb_count++;
    if (trial->count == TRIAL_TIMERS_MAX)
        return;
    struct trial_timer *timer = &trial->timers[trial->count++];
    *timer = (struct trial_timer){.data = ++trial->next_data};
    timer->handle = tw_wheel_schedule(trial->wheel, deadline, timer->data);
    must(trial, timer->handle != TW_NONE, "schedule failed");
    armed(trial, timer, deadline);
}

void trial_open(struct trial *trial)
{
    trial->verb_count++;
    if (trial->count == TRIAL_TIMERS_MAX)
        return;
    struct trial_timer *timer = &trial->timers[trial->count++];
    *timer = (struct trial_timer){.data = ++trial->next_data, .is_opened = true};
    timer->handle = tw_wheel_open(trial->wheel, timer->data);
    must(trial, timer->handle != TW_NONE, "open failed");
}

void trial_set(struct trial *trial, size_t which, uint64_t deadline)
{
    trial->verb_count++;
    struct trial_timer *timer = any(trial, which);
    if (!timer)
        return;
    bool done = timer->is_opened ? tw_wheel_arm(trial->wheel, timer->handle, deadline)
                                 : tw_wheel_reschedule(trial->wheel, timer->handle, deadline);
    must(trial, done, "a good handle was refused by arm or reschedule");
    armed(trial, timer, deadline);
}

void trial_disarm(struct trial *trial, size_t which)
{
    struct trial_timer *timer = any(trial, which);
    if (!timer || !timer->is_opened) {
        trial_set(trial, which, TW_NEVER);
        return;
    }
    trial->verb_count++;
    bool had = timer->is_armed && timer->deadline != TW_NEVER;
    must(trial, tw_wheel_disarm(trial->wheel, timer->handle) == had, "disarm's answer");
    timer->is_armed = false;
}

void trial_end(struct trial *trial, size_t which)
{
    trial->verb_count++;
    struct trial_timer *timer = any(trial, which);
    if (!timer)
        return;
    bool done = timer->is_opened ? tw_wheel_close(trial->wheel, timer->handle)
                                 : tw_wheel_cancel(trial->wheel, timer->handle);
    must(trial, done, "a good handle was refused by close or cancel");
    forget(trial, timer);
}

void trial_use_stale(struct trial *trial, size_t which, uint64_t deadline)
{
    trial->verb_count++;
    size_t kept = trial->stale_count < TRIAL_STALE_MAX ? trial->stale_count : TRIAL_STALE_MAX;
    tw_handle handle = kept ? trial->stale[which % kept] : TW_NONE;
    tw_wheel_prefetch(trial->wheel, handle ^ deadline); /* any number is harmless */
    must(trial, !tw_wheel_cancel(trial->wheel, handle), "a stale handle was cancelled");
    must(trial, !tw_wheel_reschedule(trial->wheel, handle, deadline),
         "a stale handle was rescheduled");
    must(trial, !tw_wheel_arm(trial->wheel, handle, deadline), "a stale handle was armed");
    must(trial, !tw_wheel_disarm(trial->wheel, handle), "a stale handle was disarmed");
    must(trial, !tw_wheel_close(trial->wheel, handle), "a stale handle was closed");
    struct tw_wheel_place place;
    must(trial, !tw_wheel_find(trial->wheel, handle, &place), "a stale handle was found");
}

/* What a verb for many is given. */
struct trial_list {
    tw_handle timers[TRIAL_TIMERS_MAX];
    uint64_t deadlines[TRIAL_TIMERS_MAX];
    uint64_t data[TRIAL_TIMERS_MAX];
    size_t count;
};

static void schedule_many(struct trial *trial, struct trial_list *list)
{
    size_t room = TRIAL_TIMERS_MAX - trial->count;
    list->count = list->count < room ? list->count : room;
    size_t done = tw_wheel_schedule_many(trial->wheel, list->deadlines, list->data, list->count,
                                         list->timers);
    must(trial, done == list->count, "schedule_many failed");
    for (size_t i = 0; i < done; i++) {
        struct trial_timer *timer = &trial->timers[trial->count++];
        *timer = (struct trial_timer){.handle = list->timers[i], .data = list->data[i]};
        must(trial, timer->handle != TW_NONE, "schedule_many left a handle out");
        armed(trial, timer, list->deadlines[i]);
    }
}

static bool is_waiting(const struct trial_timer *timer)
{
    return timer->is_armed && timer->deadline != TW_NEVER;
}

/* The verb on the model alone, as single calls do it; returns what a single call returns. */
static bool do_one_of_many(struct trial *trial, enum trial_many verb, tw_handle handle,
                           uint64_t deadline)
{
    struct trial_timer *timer = NULL;
    for (size_t i = 0; i < trial->count; i++)
        if (trial->timers[i].handle == handle)
            timer = &trial->timers[i];
    if (!timer)
        return false;
    bool was_waiting = is_waiting(timer);
    if (verb == TRIAL_ARM_MANY)
        armed(trial, timer, deadline);
    else if (verb == TRIAL_DISARM_MANY)
        timer->is_armed = false;
    else
        forget(trial, timer);
    return verb == TRIAL_DISARM_MANY ? was_waiting : true;
}

/* Timers of the verb's kind, each seventh handle a stale one, and the last one the first again. */
static void choose_many(const struct trial *trial, enum trial_many verb, size_t which, size_t count,
                        struct trial_list *list)
{
    size_t kept = trial->stale_count < TRIAL_STALE_MAX ? trial->stale_count : TRIAL_STALE_MAX;
    size_t chosen = 0;
    for (size_t i = 0; i < trial->count && chosen < count; i++) {
        const struct trial_timer *timer = &trial->timers[(which + i) % trial->count];
        if (timer->is_opened == (verb != TRIAL_CANCEL_MANY))
            list->timers[chosen++] = timer->handle;
        if (chosen % 7 == 6 && chosen < count)
            list->timers[chosen++] = kept ? trial->stale[(which + i) % kept] : TW_NONE;
    }
    if (chosen > 0 && chosen < count)
        list->timers[chosen++] = list->timers[0];
    list->count = chosen;
}

void trial_many(struct trial *trial, enum trial_many verb, size_t which, size_t count,
                uint64_t deadline, uint64_t step)
{
    struct trial_list list = {.count = count < TRIAL_TIMERS_MAX ? count : TRIAL_TIMERS_MAX};
    size_t wanted = 0, done = 0;
    trial->verb_count++;
    for (size_t i = 0; i < list.count; i++) {
        list.deadlines[i] = i % 2 && step < TW_NEVER - deadline ? deadline + step : deadline;
        list.data[i] = trial->next_data + 1 + i;
    }
    trial->next_data += list.count;
    if (verb == TRIAL_SCHEDULE_MANY) {
        schedule_many(trial, &list);
        return;
    }
    choose_many(trial, verb, which, list.count, &list);
    for (size_t i = 0; i < list.count; i++)
        wanted += do_one_of_many(trial, verb, list.timers[i], list.deadlines[i]);
    if (verb == TRIAL_CANCEL_MANY)
        done = tw_wheel_cancel_many(trial->wheel, list.timers, list.count);
    else if (verb == TRIAL_ARM_MANY)
        done = tw_wheel_arm_many(trial->wheel, list.timers, list.deadlines, list.count);
    else if (verb == TRIAL_DISARM_MANY)
        done = tw_wheel_disarm_many(trial->wheel, list.timers, list.count);
    else
        done = tw_wheel_close_many(trial->wheel, list.timers, list.count);
    must(trial, done == wanted, "the answer of a verb for many");
}

uint64_t trial_earliest(const struct trial *trial)
{
    uint64_t earliest = TW_NEVER;
    for (size_t i = 0; i < trial->count; i++)
        if (is_waiting(&trial->timers[i]) && trial->timers[i].deadline < earliest)
            earliest = trial->timers[i].deadline;
    return earliest;
}

/* Takes one that came out off the model: it was there, due, and none that should precede it is
 * left. */
static void take_fired(struct trial *trial, const struct tw_expired *due)
{
    struct trial_timer *timer = NULL;
    for (size_t i = 0; i < trial->count; i++)
        if (trial->timers[i].handle == due->timer)
            timer = &trial->timers[i];
    must(trial, timer && is_waiting(timer), "a timer fired that is not waiting");
    must(trial, timer->data == due->data, "the data of another timer came out");
    must(trial, timer->deadline == due->deadline, "the deadline of another timer came out");
    must(trial, timer->deadline <= trial->now, "a timer fired early");
    for (size_t i = 0; i < trial->count; i++) {
        const struct trial_timer *other = &trial->timers[i];
        must(trial,
             !is_waiting(other) || other->was_overdue || timer->was_overdue ||
                 other->deadline >= timer->deadline,
             "a timer fired before one that was due sooner");
    }
    trial->fired_count++;
    if (timer->is_opened)
        timer->is_armed = false;
    else
        forget(trial, timer);
}

void trial_expire(struct trial *trial, uint64_t now, size_t limit)
{
    struct tw_expired due[TRIAL_TIMERS_MAX + 1];
    limit = limit <= TRIAL_TIMERS_MAX ? limit : TRIAL_TIMERS_MAX + 1;
    trial->verb_count++;
    uint64_t visited = trial->wheel->visit_count;
    size_t count = trial->verb_count % 2 ? tw_wheel_expire(trial->wheel, now, due, limit)
                                         : tw_wheel_expire_due(trial->wheel, now, due, limit);
    visited = trial->wheel->visit_count - visited;
    must(trial, count <= limit, "more came out than asked for");
    must(trial, visited <= count + limit + trial->wheel->moves_max, "one call did too much");
    now = now < TW_NEVER ? now : TW_NEVER - 1;
    trial->now = now > trial->now ? now : trial->now;
    for (size_t i = 0; i < count; i++)
        take_fired(trial, &due[i]);
    trial->is_behind = tw_wheel_is_behind(trial->wheel);
    if (!trial->is_behind) {
        must(trial, trial_earliest(trial) > trial->now, "a timer that is due did not fire");
        must(trial, tw_wheel_wake_at(trial->wheel) > trial->now, "wake_at of the past");
    } else {
        must(trial, count == limit || limit == 0 || visited + 2 * CHUNK_ENTRIES >= limit,
             "stopped early without need");
    }
}

void trial_drain(struct trial *trial, uint64_t now, size_t limit)
{
    do
        trial_expire(trial, now, limit);
    while (trial->is_behind);
}

/* The place of a timer: the bucket of its deadline, or the present one if that is overdue. */
static void check_place(const struct trial *trial, const struct trial_timer *timer)
{
    const struct tw_wheel *wheel = trial->wheel;
    struct tw_wheel_place place;
    bool is_found = tw_wheel_find(wheel, timer->handle, &place);
    must(trial, is_found == is_waiting(timer), "find's answer");
    if (!is_found)
        return;
    must(trial, place.deadline == timer->deadline, "the deadline of a place");
    must(trial, place.level < LEVELS && place.bucket < BUCKETS, "a place is one of the wheel's");
    uint64_t start = tw__wheel_bucket_start(wheel, place.level, place.bucket);
    uint64_t last = start + ((UINT64_C(1) << (place.level * DIGIT_BITS)) - 1);
    uint64_t tick = timer->deadline > wheel->cursor ? timer->deadline : wheel->cursor;
    must(trial, start <= tick && tick <= last, "the bucket of a deadline");
}

/* The time-out for poll() at `now`, computed without the wheel's function. */
static void check_timeout(const struct trial *trial, uint64_t wake_at, uint64_t now)
{
    int timeout = tw_wheel_timeout(trial->wheel, now);
    if (wake_at == TW_NEVER)
        must(trial, timeout == -1, "an empty wheel has a time-out");
    else if (wake_at <= now)
        must(trial, timeout == 0, "due timers are waited for");
    else if (timeout < INT_MAX)
        must(trial, timeout > 0 && now + (unsigned)timeout == wake_at,
             "a time-out does not end at wake_at");
    else
        must(trial, wake_at - now >= INT_MAX, "a time-out lasts beyond wake_at");
}

void trial_check(struct trial *trial)
{
    const struct tw_wheel *wheel = trial->wheel;
    tw_wheel_check(wheel);
    uint64_t earliest = trial_earliest(trial);
    uint64_t wake_at = tw_wheel_wake_at(wheel);
    size_t waiting = 0;
    for (size_t i = 0; i < trial->count; i++) {
        waiting += is_waiting(&trial->timers[i]);
        check_place(trial, &trial->timers[i]);
    }
    must(trial, tw_wheel_now(wheel) == trial->now, "now");
    must(trial, tw_wheel_count(wheel) == waiting, "count");
    must(trial, wake_at <= (earliest > trial->now ? earliest : trial->now),
         "wake_at later than the earliest deadline");
    must(trial, (waiting == 0) == (wake_at == TW_NEVER), "wake_at is TW_NEVER just when empty");
    check_timeout(trial, wake_at, trial->now);
    check_timeout(trial, wake_at, wake_at - 1);
    check_timeout(trial, wake_at, wake_at < TW_NEVER - INT_MAX ? wake_at + INT_MAX : 0);
    must(trial, earliest > trial->now || tw_wheel_is_behind(wheel), "behind if something is due");
    must(trial, waiting == 0 || tw_wheel_is_behind(wheel) == (wake_at <= trial->now),
         "behind just when wake_at is not later than now");
}
