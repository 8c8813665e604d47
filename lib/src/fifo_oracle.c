/* fifo_oracle.c - see fifo_oracle.h. */
#include "oracles.h"

#include "link.h"

#include <tickwheel/fifo.h>

enum { FIFO_TASKS = 24 };

/* The model: a deadline and a turn for each task, searched from end to end. */
struct fifo_trial {
    struct tw_fifo fifo;
    struct tw_task tasks[FIFO_TASKS];
    uint64_t deadlines[FIFO_TASKS]; /* TW_NEVER while not armed */
    uint64_t turns[FIFO_TASKS];     /* when it was armed last */
    uint64_t delay, now, turn;
};

/* The armed task that is due first, FIFO_TASKS if there is none. */
static size_t fifo_first(const struct fifo_trial *trial)
{
    size_t first = FIFO_TASKS;
    for (size_t i = 0; i < FIFO_TASKS; i++) {
        if (trial->deadlines[i] == TW_NEVER)
            continue;
        if (first == FIFO_TASKS || trial->deadlines[i] < trial->deadlines[first] ||
            (trial->deadlines[i] == trial->deadlines[first] &&
             trial->turns[i] < trial->turns[first]))
            first = i;
    }
    return first;
}

static void fifo_compare(const struct fifo_trial *trial)
{
    size_t count = 0, first = fifo_first(trial);
    tw_fifo_check(&trial->fifo);
    for (size_t i = 0; i < FIFO_TASKS; i++) {
        bool is_armed = trial->deadlines[i] != TW_NEVER;
        count += is_armed;
        REQUIRE(tw_task_is_scheduled(&trial->tasks[i]) == is_armed);
        REQUIRE(!is_armed || tw_task_deadline(&trial->tasks[i]) == trial->deadlines[i]);
    }
    REQUIRE(tw_fifo_count(&trial->fifo) == count);
    REQUIRE(tw_fifo_wake_at(&trial->fifo) ==
            (first == FIFO_TASKS ? TW_NEVER : trial->deadlines[first]));
}

static void fifo_pass(struct fifo_trial *trial, uint64_t now)
{
    now = now < TW_NEVER ? now : TW_NEVER - 1;
    trial->now = now > trial->now ? now : trial->now;
}

static void fifo_arm_both(struct fifo_trial *trial, size_t which, uint64_t now)
{
    tw_fifo_arm(&trial->fifo, &trial->tasks[which], now);
    fifo_pass(trial, now);
    bool is_late = trial->delay > TW_NEVER - 1 - trial->now;
    trial->deadlines[which] = is_late ? TW_NEVER - 1 : trial->now + trial->delay;
    trial->turns[which] = ++trial->turn;
}

static void fifo_expire_both(struct fifo_trial *trial, uint64_t now, size_t limit)
{
    struct tw_task *due[FIFO_TASKS];
    size_t count = tw_fifo_expire(&trial->fifo, now, due, limit);
    fifo_pass(trial, now);
    REQUIRE(count <= limit);
    for (size_t i = 0; i < count; i++) {
        size_t first = fifo_first(trial);
        REQUIRE(first < FIFO_TASKS && due[i] == &trial->tasks[first]);
        REQUIRE(trial->deadlines[first] <= trial->now);
        trial->deadlines[first] = TW_NEVER;
    }
    size_t left = fifo_first(trial);
    REQUIRE(count == limit || left == FIFO_TASKS || trial->deadlines[left] > trial->now);
}

void fifo_oracle_run(const uint8_t *bytes, size_t size)
{
    static const uint64_t delays[] = {0, 1, 30, 1000, UINT64_C(1) << 63, TW_NEVER};
    static const uint64_t starts[] = {0, 1000, UINT64_MAX - 40, UINT64_MAX - 2000};
    struct fifo_trial trial = {.delay = delays[size ? bytes[0] % 6 : 0]};
    uint64_t start = starts[size ? bytes[0] / 6 % 4 : 0];
    tw_fifo_init(&trial.fifo, trial.delay);
    for (size_t i = 0; i < FIFO_TASKS; i++)
        trial.deadlines[i] = TW_NEVER;
    fifo_expire_both(&trial, start, 0);
    for (size_t i = 1; i + 2 < size; i += 3) {
        size_t which = bytes[i + 1] % FIFO_TASKS;
        uint64_t step = bytes[i + 2] % 64;
        uint64_t now = step < TW_NEVER - trial.now ? trial.now + step : TW_NEVER;
        if (bytes[i + 2] >= 192) /* time runs back */
            now = trial.now > step ? trial.now - step : 0;
        if (bytes[i] % 4 < 2) {
            fifo_arm_both(&trial, which, now);
        } else if (bytes[i] % 4 == 2) {
            bool was_armed = trial.deadlines[which] != TW_NEVER;
            REQUIRE(tw_fifo_cancel(&trial.fifo, &trial.tasks[which]) == was_armed);
            trial.deadlines[which] = TW_NEVER;
        } else {
            fifo_expire_both(&trial, now, which);
        }
        fifo_compare(&trial);
    }
}
