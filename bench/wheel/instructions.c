/*
 * instructions.c - the verbs of the wheel, one after the other, for callgrind to count.
 *
 * instructions_test.py runs this program under callgrind, which writes a profile for each call of
 * counted(). The input is fixed, so two runs of one build execute equal instructions, however busy
 * the machine is. Prints the compiler, and a line "NAME OPERATIONS" for each call of counted(), in
 * order.
 */
#include <tickwheel/wheel.h>

#include <stdio.h>
#include <stdlib.h>

enum {
    TIMERS = 20000,
    REACH = 36 * TIMERS / 10, /* ticks; 3.6 for each timer, as in the workloads of the benchmark */
    START = 1000,
    BATCH = 256
};

struct counted_work {
    struct tw_wheel *wheel;
    tw_handle *timers; /* in order of creation */
    tw_handle *order;  /* the same handles in random order */
    uint64_t *deadlines;
    uint64_t random;
    uint64_t now;
    uint64_t sum; /* of all answers, so that no call is left out */
    size_t operations;
};

typedef size_t (*work_function)(struct counted_work *work);

static uint64_t draw(struct counted_work *work)
{
    uint64_t random = work->random;
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    return work->random = random;
}

static void shuffle(struct counted_work *work)
{
    for (size_t i = 0; i < TIMERS; i++)
        work->order[i] = work->timers[i];
    for (size_t i = TIMERS - 1; i > 0; i--) {
        size_t j = draw(work) % (i + 1);
        tw_handle swap = work->order[i];
        work->order[i] = work->order[j];
        work->order[j] = swap;
    }
}

/* New deadlines from `from` on, and a new order of the handles. */
static void draw_deadlines(struct counted_work *work, uint64_t from)
{
    for (size_t i = 0; i < TIMERS; i++)
        work->deadlines[i] = from + draw(work) % REACH;
    shuffle(work);
}

/* What is counted. Each function returns the number of its operations. */

static size_t do_schedule(struct counted_work *work)
{
    for (size_t i = 0; i < TIMERS; i++)
        work->timers[i] = tw_wheel_schedule(work->wheel, work->deadlines[i], i);
    return TIMERS;
}

static size_t do_reschedule(struct counted_work *work)
{
    for (size_t i = 0; i < TIMERS; i++)
        work->sum += tw_wheel_reschedule(work->wheel, work->order[i], work->deadlines[i]);
    return TIMERS;
}

static size_t do_cancel(struct counted_work *work)
{
    for (size_t i = 0; i < TIMERS; i++)
        work->sum += tw_wheel_cancel(work->wheel, work->order[i]);
    return TIMERS;
}

static size_t do_open(struct counted_work *work)
{
    for (size_t i = 0; i < TIMERS; i++)
        work->timers[i] = tw_wheel_open(work->wheel, i);
    return TIMERS;
}

static size_t do_arm(struct counted_work *work)
{
    for (size_t i = 0; i < TIMERS; i++)
        work->sum += tw_wheel_arm(work->wheel, work->order[i], work->deadlines[i]);
    return TIMERS;
}

static size_t do_disarm(struct counted_work *work)
{
    for (size_t i = 0; i < TIMERS; i++)
        work->sum += tw_wheel_disarm(work->wheel, work->order[i]);
    return TIMERS;
}

static size_t do_close(struct counted_work *work)
{
    for (size_t i = 0; i < TIMERS; i++)
        work->sum += tw_wheel_close(work->wheel, work->order[i]);
    return TIMERS;
}

static size_t do_schedule_many(struct counted_work *work)
{
    return tw_wheel_schedule_many(work->wheel, work->deadlines, work->deadlines, TIMERS,
                                  work->timers);
}

static size_t do_cancel_many(struct counted_work *work)
{
    return tw_wheel_cancel_many(work->wheel, work->order, TIMERS);
}

static size_t do_arm_many(struct counted_work *work)
{
    return tw_wheel_arm_many(work->wheel, work->order, work->deadlines, TIMERS);
}

static size_t do_disarm_many(struct counted_work *work)
{
    return tw_wheel_disarm_many(work->wheel, work->order, TIMERS);
}

static size_t do_close_many(struct counted_work *work)
{
    return tw_wheel_close_many(work->wheel, work->order, TIMERS);
}

static size_t do_prefetch(struct counted_work *work)
{
    for (size_t i = 0; i < TIMERS; i++)
        tw_wheel_prefetch(work->wheel, work->order[i]);
    return TIMERS;
}

/* The loop of the header, a tick at a time. */
static size_t do_expire(struct counted_work *work)
{
    struct tw_expired due[BATCH];
    size_t fired = 0;
    for (uint64_t end = work->now + REACH; work->now < end;) {
        work->now++;
        do {
            size_t n = tw_wheel_expire(work->wheel, work->now, due, BATCH);
            for (size_t i = 0; i < n; i++)
                work->sum += due[i].data;
            fired += n;
        } while (tw_wheel_is_behind(work->wheel));
    }
    return fired;
}

static size_t do_periodic(struct counted_work *work)
{
    struct tw_expired due[BATCH];
    size_t fired = 0;
    for (uint64_t end = work->now + REACH; work->now < end;) {
        work->now++;
        do {
            size_t n = tw_wheel_expire(work->wheel, work->now, due, BATCH);
            for (size_t i = 0; i < n; i++)
                tw_wheel_arm(work->wheel, due[i].timer, work->now + 5000 + due[i].data);
            fired += n;
        } while (tw_wheel_is_behind(work->wheel));
    }
    return fired;
}

/* A tick at which nothing is due. */
static size_t do_empty_tick(struct counted_work *work)
{
    struct tw_expired due[BATCH];
    for (size_t i = 0; i < REACH; i++)
        do
            work->sum += tw_wheel_expire(work->wheel, ++work->now, due, BATCH);
        while (tw_wheel_is_behind(work->wheel));
    return REACH;
}

/* All at one tick. */
static size_t do_burst(struct counted_work *work)
{
    struct tw_expired due[BATCH];
    size_t fired = 0;
    do {
        size_t n = tw_wheel_expire(work->wheel, work->now, due, BATCH);
        for (size_t i = 0; i < n; i++)
            work->sum += due[i].data;
        fired += n;
    } while (tw_wheel_is_behind(work->wheel));
    return fired;
}

static size_t do_wake_at(struct counted_work *work)
{
    for (size_t i = 0; i < TIMERS; i++)
        work->sum += tw_wheel_wake_at(work->wheel);
    return TIMERS;
}

static size_t do_find(struct counted_work *work)
{
    struct tw_wheel_place place;
    for (size_t i = 0; i < TIMERS; i++)
        work->sum += tw_wheel_find(work->wheel, work->order[i], &place);
    return TIMERS;
}

/* Callgrind counts from here to the return. */
static __attribute__((noinline)) void counted(struct counted_work *work, work_function function)
{
    work->operations = function(work);
}

static void count(struct counted_work *work, const char *name, work_function function)
{
    counted(work, function);
    printf("%s %zu\n", name, work->operations);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory) {
        fprintf(stderr, "instructions: out of memory\n");
        exit(1);
    }
    return memory;
}

static struct counted_work *work_create(void)
{
    struct counted_work *work = allocate(1, sizeof(*work));
    work->timers = allocate(TIMERS, sizeof(*work->timers));
    work->order = allocate(TIMERS, sizeof(*work->order));
    work->deadlines = allocate(TIMERS, sizeof(*work->deadlines));
    work->random = 88172645463325252u;
    work->now = START;
    work->wheel = tw_wheel_create(&(struct tw_wheel_options){.start = START});
    if (!work->wheel || !tw_wheel_reserve(work->wheel, TIMERS)) {
        fprintf(stderr, "instructions: out of memory\n");
        exit(1);
    }
    return work;
}

static void work_destroy(struct counted_work *work)
{
    tw_wheel_destroy(work->wheel);
    free(work->timers);
    free(work->order);
    free(work->deadlines);
    free(work);
}

static void count_scheduled(void)
{
    struct counted_work *work = work_create();
    draw_deadlines(work, START + 1);
    count(work, "schedule", do_schedule);
    draw_deadlines(work, START + 1 + REACH);
    count(work, "reschedule later", do_reschedule);
    draw_deadlines(work, START + 1);
    count(work, "reschedule earlier", do_reschedule);
    shuffle(work);
    count(work, "prefetch", do_prefetch);
    count(work, "find", do_find);
    count(work, "wake_at", do_wake_at);
    count(work, "cancel", do_cancel);
    work_destroy(work);
}

static void count_scheduled_again(void)
{
    struct counted_work *work = work_create();
    draw_deadlines(work, START + 1);
    (void)do_schedule(work);
    shuffle(work);
    (void)do_cancel(work);
    draw_deadlines(work, START + 1);
    count(work, "schedule in a used slot", do_schedule);
    count(work, "expire scheduled", do_expire);
    work_destroy(work);
}

static void count_opened(void)
{
    struct counted_work *work = work_create();
    count(work, "open", do_open);
    draw_deadlines(work, START + 1);
    count(work, "arm", do_arm);
    draw_deadlines(work, START + 1 + REACH);
    count(work, "arm later", do_arm);
    draw_deadlines(work, START + 1);
    count(work, "arm earlier", do_arm);
    shuffle(work);
    count(work, "disarm", do_disarm);
    draw_deadlines(work, START + 1 + REACH);
    count(work, "arm again", do_arm);
    shuffle(work);
    count(work, "close", do_close);
    work_destroy(work);
}

static void count_many(void)
{
    struct counted_work *work = work_create();
    draw_deadlines(work, START + 1);
    count(work, "schedule_many", do_schedule_many);
    shuffle(work);
    count(work, "cancel_many", do_cancel_many);
    (void)do_open(work);
    draw_deadlines(work, START + 1);
    count(work, "arm_many", do_arm_many);
    draw_deadlines(work, START + 1 + REACH);
    count(work, "arm_many later", do_arm_many);
    shuffle(work);
    count(work, "disarm_many", do_disarm_many);
    count(work, "close_many", do_close_many);
    work_destroy(work);
}

static void count_expired(void)
{
    struct counted_work *work = work_create();
    (void)do_open(work);
    draw_deadlines(work, START + 1);
    (void)do_arm(work);
    count(work, "expire opened", do_expire);
    draw_deadlines(work, work->now + 1);
    (void)do_arm(work);
    count(work, "periodic", do_periodic);
    (void)do_disarm(work);
    for (size_t i = 0; i < TIMERS; i++)
        work->deadlines[i] = work->now + 3 * REACH;
    (void)do_arm(work);
    (void)do_expire(work); /* removes what periodic has left behind */
    count(work, "empty tick", do_empty_tick);
    work->now += REACH;
    count(work, "burst", do_burst);
    work_destroy(work);
}

/* Another compiler, or another machine, executes other instructions. */
static void print_compiler(void)
{
#if defined(__clang__)
    printf("clang-%d", __clang_major__);
#else
    printf("gcc-%d", __GNUC__);
#endif
#if defined(__x86_64__)
    printf("-x86_64\n");
#elif defined(__aarch64__)
    printf("-aarch64\n");
#else
    printf("-other\n");
#endif
}

int main(void)
{
    print_compiler();
    count_scheduled();
    count_scheduled_again();
    count_opened();
    count_many();
    count_expired();
    return 0;
}
