/*
 * runner_bench.c - schedule+cancel pairs from many threads; idle wake-ups; lateness.
 *
 *     runner_bench pairs WINDOWS newest|random THREADS runner|inherit|mutex   rows for pairs.py
 *     runner_bench idle [seconds]    wake-ups with 1,000,000 timers an hour off, default 10 s
 *     runner_bench late [seconds]    lateness of 10,000 timers a second beside timerfd, default 5 s
 *     runner_bench burst [rounds]    100,000 timers due at once beside busy threads, 5 rounds
 *
 * Pairs run against 100,000 outstanding timers, shared out among the threads, with delays uniform
 * in 10 s..70 s, ticks of 1 ms and the real clock. "newest" cancels the timer just scheduled, as a
 * request that is answered does; "random" cancels any outstanding timer of the thread and puts the
 * new one in its place. The runner has its thread; the mutex is of a wheel without a thread that
 * drives it.
 *
 * Time is cut into windows, equal for all threads, and each thread tells how long it waited for a
 * processor in each: so pairs.py can leave out the windows in which other programs ran.
 */
#include <tickwheel/runner.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/timerfd.h>
#endif

enum {
    OUTSTANDING = 100000,
    THREADS_MAX = 8,
    PAIRS_PER_LOOK = 256, /* pairs between reads of the clock */
    WINDOW_MS = 5,
    WARM_MS = 100,
    FAR_MAX = 8000000, /* far timers of all threads in burst */
    MS = 1000000
};

/* The subject of a measurement: the runner, or a wheel under a mutex. */
struct runner_bench_subject {
    struct tw_runner *runner;
    struct tw_runner_wheel *wheel;
    pthread_mutex_t lock;
    struct tw_wheel *locked; /* NULL when the runner is measured */
};

/* What a thread did between two times of the grid, which all threads share. */
struct runner_bench_window {
    uint64_t pairs; /* 0: the thread came too late, because another program had its processor */
    uint64_t took_ns;
    uint64_t waited_ns; /* for a processor */
};

struct runner_bench_worker {
    struct runner_bench_subject *subject;
    pthread_barrier_t *start;
    pthread_t thread;
    int is_random;
    uint64_t random;
    size_t count;      /* number of outstanding timers */
    tw_handle *timers; /* handles of outstanding timers */
    uint64_t grid_ns;  /* the first window begins here; the warm-up ends */
    size_t window_count;
    struct runner_bench_window *windows;
};

static uint64_t draw(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random * 2685821657736338717u;
}

static uint64_t draw_delay_ns(uint64_t *random)
{
    return (10000 + (draw(random) >> 32) % 60000) * MS;
}

static tw_handle schedule(struct runner_bench_subject *subject, uint64_t at_ns)
{
    if (!subject->locked)
        return tw_runner_schedule(subject->wheel, (struct tw_instant){at_ns}, at_ns);
    pthread_mutex_lock(&subject->lock);
    tw_handle timer = tw_wheel_schedule(subject->locked, at_ns / MS, at_ns);
    pthread_mutex_unlock(&subject->lock);
    return timer;
}

static void cancel(struct runner_bench_subject *subject, tw_handle timer)
{
    if (!subject->locked) {
        (void)tw_runner_cancel(subject->wheel, timer);
        return;
    }
    pthread_mutex_lock(&subject->lock);
    (void)tw_wheel_cancel(subject->locked, timer);
    pthread_mutex_unlock(&subject->lock);
}

static uint64_t now_ns(void)
{
    return tw_clock_now(tw_clock_monotonic()).ns;
}

static double cpu_ns(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void run_pairs(struct runner_bench_worker *worker, uint64_t now)
{
    struct runner_bench_subject *subject = worker->subject;
    for (int i = 0; i < PAIRS_PER_LOOK; i++) {
        tw_handle timer = schedule(subject, now + draw_delay_ns(&worker->random));
        if (worker->is_random) {
            size_t which = (draw(&worker->random) >> 32) % worker->count;
            tw_handle other = worker->timers[which];
            worker->timers[which] = timer;
            timer = other;
        }
        cancel(subject, timer);
    }
}

/* How long the thread has waited for a processor; 0 where the system does not tell. */
static uint64_t waited_ns(int schedstat)
{
    char text[80];
    unsigned long long ran = 0, waited = 0;
    ssize_t length = pread(schedstat, text, sizeof(text) - 1, 0);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? waited : 0;
}

static void *work(void *argument)
{
    struct runner_bench_worker *worker = argument;
    int schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < worker->count; i++)
        worker->timers[i] = schedule(worker->subject, now_ns() + draw_delay_ns(&worker->random));
    pthread_barrier_wait(worker->start);
    pthread_barrier_wait(worker->start);
    uint64_t now = now_ns(), window_ns = (uint64_t)WINDOW_MS * MS;
    for (; now < worker->grid_ns; now = now_ns())
        run_pairs(worker, now);
    for (;;) {
        size_t which = (now - worker->grid_ns) / window_ns;
        if (which >= worker->window_count)
            break;
        struct runner_bench_window window = {.took_ns = now, .waited_ns = waited_ns(schedstat)};
        for (uint64_t end = worker->grid_ns + (which + 1) * window_ns; now < end; now = now_ns()) {
            run_pairs(worker, now);
            window.pairs += PAIRS_PER_LOOK;
        }
        window.took_ns = now - window.took_ns;
        window.waited_ns = waited_ns(schedstat) - window.waited_ns;
        worker->windows[which] = window;
    }
    (void)close(schedstat);
    return NULL;
}

static void ignore(void *context, const struct tw_expired *due, size_t count)
{
    (void)context;
    (void)due;
    (void)count;
}

static void *require(void *made)
{
    if (!made) {
        fprintf(stderr, "runner_bench: out of memory\n");
        exit(1);
    }
    return made;
}

/* The runner waits as one that a thread of an ordinary policy creates, also when the benchmark has
 * a realtime one; "inherit" measures the other way. */
static void subject_init(struct runner_bench_subject *subject, const char *name)
{
    struct tw_runner_options how = {.wait = TW_RUNNER_YIELD};
    memset(subject, 0, sizeof(*subject));
    if (strcmp(name, "inherit") == 0)
        how.wait = TW_RUNNER_INHERIT;
    if (strcmp(name, "mutex") == 0) {
        struct tw_wheel_options options = {.start = now_ns() / MS};
        subject->locked = require(tw_wheel_create(&options));
        pthread_mutex_init(&subject->lock, NULL);
        return;
    }
    struct tw_runner_wheel_options options = {.handler = ignore};
    subject->runner = require(tw_runner_create(&how));
    subject->wheel = require(tw_runner_add(subject->runner, &options));
    if (!tw_runner_start(subject->runner))
        (void)require(NULL);
}

static void subject_deinit(struct runner_bench_subject *subject)
{
    tw_runner_destroy(subject->runner);
    tw_wheel_destroy(subject->locked);
    if (subject->locked)
        pthread_mutex_destroy(&subject->lock);
}

static void wait_until(uint64_t at_ns)
{
    struct tw_waiter waiter;
    if (!tw_waiter_init(&waiter))
        (void)require(NULL);
    (void)tw_clock_wait(tw_clock_monotonic(), &waiter, (struct tw_instant){at_ns});
    tw_waiter_deinit(&waiter);
}

static void worker_init(struct runner_bench_worker *worker, unsigned number, unsigned threads)
{
    worker->random = 88172645463325252u + number;
    worker->count = OUTSTANDING / threads;
    worker->timers = require(calloc(worker->count, sizeof(tw_handle)));
    worker->windows = require(calloc(worker->window_count, sizeof(*worker->windows)));
    if (pthread_create(&worker->thread, NULL, work, worker) != 0)
        (void)require(NULL);
}

static void worker_print(struct runner_bench_worker *worker, unsigned number)
{
    for (size_t i = 0; i < worker->window_count; i++) {
        const struct runner_bench_window *window = &worker->windows[i];
        if (window->pairs > 0)
            printf("%u %zu %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", number, i, window->pairs,
                   window->took_ns, window->waited_ns);
    }
    free(worker->timers);
    free(worker->windows);
}

/* Prints a row for each window of each thread: thread, window, pairs, ns, ns waited; and last the
 * processor time of the process from the first window on. */
static void pairs(size_t windows, int is_random, unsigned threads, const char *name)
{
    struct runner_bench_subject subject;
    struct runner_bench_worker workers[THREADS_MAX];
    pthread_barrier_t start;
    subject_init(&subject, name);
    pthread_barrier_init(&start, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = (struct runner_bench_worker){
            .subject = &subject, .start = &start, .is_random = is_random, .window_count = windows};
        worker_init(&workers[i], i, threads);
    }
    pthread_barrier_wait(&start);
    uint64_t grid_ns = now_ns() + (uint64_t)WARM_MS * MS;
    for (unsigned i = 0; i < threads; i++)
        workers[i].grid_ns = grid_ns;
    pthread_barrier_wait(&start);
    wait_until(grid_ns);
    double began = cpu_ns();
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        worker_print(&workers[i], i);
    }
    printf("cpu %.0f\n", cpu_ns() - began);
    pthread_barrier_destroy(&start);
    subject_deinit(&subject);
}

static void idle(unsigned seconds)
{
    struct runner_bench_subject subject;
    const uint64_t hour_ns = UINT64_C(3600000) * MS;
    subject_init(&subject, 0);
    uint64_t random = 88172645463325252u, began = now_ns();
    for (int i = 0; i < 1000000; i++)
        (void)schedule(&subject, now_ns() + hour_ns + (draw(&random) >> 32) % 60000 * MS);
    uint64_t took = now_ns() - began;
    wait_until(now_ns() + 100 * MS); /* the last messages are read */
    uint64_t wakes = tw_runner_wakes(subject.runner);
    wait_until(now_ns() + (uint64_t)seconds * 1000 * MS);
    printf("1,000,000 timers an hour off, scheduled in %" PRIu64 " ms with %" PRIu64
           " wake-ups; then %" PRIu64 " wake-ups in %u s\n",
           took / MS, wakes, tw_runner_wakes(subject.runner) - wakes, seconds);
    struct tw_runner_stats stats;
    tw_runner_wheel_stats(subject.wheel, &stats);
    printf("%" PRIu64 " pending, %.1f bytes each\n", stats.pending,
           (double)stats.memory / (double)stats.pending);
    subject_deinit(&subject);
}

/* Timers a second in late, and how late each was handled. */
enum { LATE_RATE = 10000 };

struct late_record {
    uint64_t *deadlines_ns; /* ascending */
    double *late_us;
    _Atomic size_t count;
    size_t count_max;
};

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int compare_instants(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void note_late(struct late_record *record, uint64_t deadline_ns)
{
    size_t count = atomic_load(&record->count);
    record->late_us[count] = (double)(now_ns() - deadline_ns) / 1e3;
    atomic_store(&record->count, count + 1);
}

static void on_late(void *context, const struct tw_expired *due, size_t count)
{
    for (size_t i = 0; i < count; i++)
        note_late(context, due[i].deadline);
}

static void late_by_runner(struct late_record *record, size_t count, uint64_t tick_ns)
{
    struct tw_runner_wheel_options options = {
        .handler = on_late, .context = record, .tick_ns = tick_ns};
    struct tw_runner *runner =
        require(tw_runner_create(&(struct tw_runner_options){.wait = TW_RUNNER_YIELD}));
    struct tw_runner_wheel *wheel = require(tw_runner_add(runner, &options));
    if (!tw_runner_start(runner))
        (void)require(NULL);
    size_t end = atomic_load(&record->count) + count;
    for (size_t i = 0; i < count; i++)
        (void)tw_runner_schedule(wheel, (struct tw_instant){record->deadlines_ns[i]}, i);
    while (atomic_load(&record->count) < end)
        wait_until(now_ns() + 20 * MS);
    tw_runner_destroy(runner);
}

#ifdef __linux__
struct late_sleeper {
    struct late_record *record;
    size_t count;
};

/* What a program does without a runner: a thread, a timerfd, a sorted array. */
static void *sleep_by_timerfd(void *argument)
{
    struct late_sleeper *sleeper = argument;
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    for (size_t i = 0; i < sleeper->count; i++) {
        uint64_t at_ns = sleeper->record->deadlines_ns[i], ticks;
        struct itimerspec spec = {
            .it_value = {(time_t)(at_ns / 1000000000), (long)(at_ns % 1000000000)}};
        if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, NULL) != 0 ||
            read(fd, &ticks, sizeof(ticks)) != (ssize_t)sizeof(ticks))
            (void)require(NULL);
        note_late(sleeper->record, at_ns);
    }
    (void)close(fd);
    return NULL;
}

static void late_by_timerfd(struct late_record *record, size_t count)
{
    struct late_sleeper sleeper = {record, count};
    pthread_t thread;
    if (pthread_create(&thread, NULL, sleep_by_timerfd, &sleeper) != 0)
        (void)require(NULL);
    pthread_join(thread, NULL);
}
#else
static void late_by_timerfd(struct late_record *record, size_t count)
{
    (void)record;
    (void)count;
}
#endif

/* Ascending deadlines at random instants of the next second. */
static void draw_deadlines(struct late_record *record, uint64_t *random)
{
    uint64_t from_ns = now_ns() + 50 * MS;
    for (size_t i = 0; i < LATE_RATE; i++)
        record->deadlines_ns[i] = from_ns + (draw(random) >> 16) % (1000 * (uint64_t)MS);
    qsort(record->deadlines_ns, LATE_RATE, sizeof(uint64_t), compare_instants);
}

static void print_late(const char *who, const struct late_record *record)
{
    size_t count = atomic_load(&record->count);
    if (count == 0)
        return;
    qsort(record->late_us, count, sizeof(double), compare_doubles);
    printf("%-24s %8.1f %8.1f %8.1f %8.1f\n", who, record->late_us[count / 2],
           record->late_us[count * 9 / 10], record->late_us[count * 99 / 100],
           record->late_us[count - 1]);
}

/* A second of each in turn. */
static void late(unsigned seconds)
{
    static const char *const names[] = {"timerfd", "runner, ticks of 1 us",
                                        "runner, ticks of 1 ms"};
    struct late_record all[3] = {{0}};
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < 3; i++) {
        all[i].deadlines_ns = require(calloc(LATE_RATE, sizeof(uint64_t)));
        all[i].late_us = require(calloc((size_t)LATE_RATE * seconds, sizeof(double)));
    }
    for (unsigned i = 0; i < seconds; i++) {
        draw_deadlines(&all[0], &random);
        late_by_timerfd(&all[0], LATE_RATE);
        for (int j = 1; j < 3; j++) {
            draw_deadlines(&all[j], &random);
            late_by_runner(&all[j], LATE_RATE, j == 1 ? 1000 : MS);
        }
    }
    printf("%-24s %8s %8s %8s %8s\n", "late by us", "p50", "p90", "p99", "max");
    for (int i = 0; i < 3; i++) {
        print_late(names[i], &all[i]);
        free(all[i].deadlines_ns);
        free(all[i].late_us);
    }
}

/* What the threads beside the runner do in burst. */
enum burst_load { LOAD_COMPUTES, LOAD_SCHEDULES };

struct burst {
    struct tw_runner_wheel *wheel;
    enum burst_load load;
    unsigned threads;
    uint64_t due_ns;
    _Atomic uint64_t handled, last_ns, far;
    atomic_bool is_over;
};

static void on_burst(void *context, const struct tw_expired *due, size_t count)
{
    struct burst *burst = context;
    (void)due;
    uint64_t handled = atomic_load(&burst->handled) + count;
    atomic_store(&burst->last_ns, now_ns());
    atomic_store(&burst->handled, handled);
}

static void *burst_beside(void *argument)
{
    struct burst *burst = argument;
    uint64_t random = 88172645463325252u, sum = 0, hour_ns = UINT64_C(3600000) * MS;
    while (now_ns() + 200 * MS < burst->due_ns)
        sum += draw(&random);
    /* The oldest timer is cancelled for each new one, which bounds the memory. */
    uint64_t far_max = FAR_MAX / burst->threads;
    tw_handle *far = require(calloc(far_max, sizeof(*far)));
    uint64_t count = 0;
    while (!atomic_load(&burst->is_over)) {
        sum += draw(&random);
        if (burst->load == LOAD_COMPUTES)
            continue;
        struct tw_instant deadline = {burst->due_ns + hour_ns};
        (void)tw_runner_cancel(burst->wheel, far[count % far_max]);
        far[count++ % far_max] = tw_runner_schedule(burst->wheel, deadline, sum);
    }
    atomic_fetch_add(&burst->far, count);
    free(far);
    return NULL;
}

/* Milliseconds from the instant at which BURST timers are due until the last is handled, beside
 * `threads` threads. */
static double burst_once(enum burst_load load, unsigned threads, double *ret_far)
{
    enum { BURST = 100000 };
    struct burst burst = {.load = load, .threads = threads};
    struct tw_runner_wheel_options options = {.handler = on_burst, .context = &burst};
    struct tw_runner *runner =
        require(tw_runner_create(&(struct tw_runner_options){.wait = TW_RUNNER_YIELD}));
    pthread_t beside[THREADS_MAX];
    burst.wheel = require(tw_runner_add(runner, &options));
    burst.due_ns = (now_ns() / MS + 600) * MS;
    if (!tw_runner_start(runner))
        (void)require(NULL);
    for (unsigned i = 0; i < BURST; i++)
        (void)tw_runner_schedule(burst.wheel, (struct tw_instant){burst.due_ns}, i);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&beside[i], NULL, burst_beside, &burst) != 0)
            (void)require(NULL);
    while (atomic_load(&burst.handled) < BURST)
        wait_until(now_ns() + 5 * MS);
    atomic_store(&burst.is_over, true);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(beside[i], NULL);
    *ret_far = (double)atomic_load(&burst.far) / 1e6;
    tw_runner_destroy(runner);
    return (double)(atomic_load(&burst.last_ns) - burst.due_ns) / MS;
}

static void burst(unsigned rounds)
{
    printf("100,000 timers due at one instant: ms until the last is handled, median of %u rounds "
           "(least .. most)\n",
           rounds);
    for (unsigned threads = 2; threads <= THREADS_MAX; threads *= 4)
        for (enum burst_load load = LOAD_COMPUTES; load <= LOAD_SCHEDULES; load++) {
            double *ms = require(calloc(rounds, sizeof(double))), far;
            for (unsigned i = 0; i < rounds; i++)
                ms[i] = burst_once(load, threads, &far);
            qsort(ms, rounds, sizeof(double), compare_doubles);
            printf("beside %u threads that %-24s %8.1f (%.1f .. %.1f)", threads,
                   load == LOAD_COMPUTES ? "compute" : "schedule an hour ahead", ms[rounds / 2],
                   ms[0], ms[rounds - 1]);
            if (load == LOAD_SCHEDULES)
                printf(", %.1f million far timers in the last round", far);
            printf("\n");
            free(ms);
        }
}

static int usage(void)
{
    fprintf(stderr, "usage: runner_bench pairs WINDOWS newest|random THREADS runner|mutex | "
                    "idle [seconds] | late [seconds] | burst [rounds]\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    long number = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    if (number < 0 || number > 3600)
        return usage();
    if (strcmp(what, "pairs") == 0 && argc == 6 && number > 0) {
        long threads = strtol(argv[4], NULL, 10);
        if (threads < 1 || threads > THREADS_MAX)
            return usage();
        pairs((size_t)number, strcmp(argv[3], "random") == 0, (unsigned)threads, argv[5]);
    } else if (strcmp(what, "idle") == 0) {
        idle(number ? (unsigned)number : 10);
    } else if (strcmp(what, "burst") == 0) {
        burst(number ? (unsigned)number : 5);
    } else if (strcmp(what, "late") == 0) {
        late(number ? (unsigned)number : 5);
    } else {
        return usage();
    }
    return 0;
}
