/*
 * wheel_bench.c - ns per operation of the wheel and of simple peers, side by side in one run.
 *
 *     wheel_bench [timers [rounds [ahead]]]     default 1,000,000 timers, the median of 5 rounds
 *
 * Ticks of 1 ms in virtual time, memory taken beforehand, deterministic input. Workloads: fill
 * schedules delays uniform in 1 ms..1 h; cancel takes all out in random order; expire steps through
 * the hour and all fire; churn moves a random timer to now + 30 s, 1,000 times a tick; periodic
 * re-arms what fires with its own period of 1 ms..10 s; burst fires all at one tick, numbered in
 * random order. bytes is resident memory per timer after fill; step is the longest single call of
 * expire in the expire workload, in microseconds, the least of all rounds since other programs'
 * turns count as ours.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS_MAX = 31 };

static const char *const titles[FIGURE_COUNT] = {"fill",     "cancel", "expire", "churn",
                                                 "periodic", "burst",  "bytes",  "step us"};

/* What the wheel has promised at 1,000,000 timers. */
static const double targets_opened[FIGURE_COUNT] = {3, 3, 25, 6, 12, 10, 48, 200};
static const double targets_scheduled[FIGURE_COUNT] = {7, 15, 32, 16, 20, 4, 48, 200};

static const struct {
    const struct subject *subject;
    const double *targets; /* NULL for a peer */
} entrants[] = {
    {&subject_opened, targets_opened},
    {&subject_scheduled, targets_scheduled},
    {&subject_heap, NULL},
    {&subject_lists, NULL},
};

enum { ENTRANTS = sizeof(entrants) / sizeof(entrants[0]) };

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 2685821657736338717u;
}

static uint32_t random_below(uint64_t *state, uint32_t bound)
{
    return (uint32_t)((next_random(state) >> 32) * bound >> 32);
}

static struct input make_input(uint32_t count)
{
    uint64_t state = 0x9e3779b97f4a7c15u;
    struct input input = {.count = count, .start = 1000000007};
    input.delays = bench_allocate(count * sizeof(uint32_t));
    input.order = bench_allocate(count * sizeof(uint32_t));
    input.periods = bench_allocate(count * sizeof(uint32_t));
    input.picks = bench_allocate(PICKS * sizeof(uint32_t));
    for (uint32_t i = 0; i < count; i++) {
        input.delays[i] = 1 + random_below(&state, HOUR);
        input.periods[i] = 1 + random_below(&state, PERIOD_MAX);
        input.order[i] = i;
    }
    for (uint32_t i = count - 1; i > 0; i--) {
        uint32_t j = random_below(&state, i + 1), swap = input.order[i];
        input.order[i] = input.order[j];
        input.order[j] = swap;
    }
    for (uint32_t i = 0; i < PICKS; i++)
        input.picks[i] = random_below(&state, count);
    return input;
}

/* Runs a subject in a process of its own. */
static void run_apart(const struct subject *subject, const struct input *input, double *ret_figures)
{
    int ends[2];
    if (pipe(ends) != 0)
        exit(1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        subject->run(input, ret_figures);
        size_t size = FIGURE_COUNT * sizeof(double);
        _exit(write(ends[1], ret_figures, size) == (ssize_t)size ? 0 : 1);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], ret_figures, FIGURE_COUNT * sizeof(double));
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (got != (ssize_t)(FIGURE_COUNT * sizeof(double)) || status != 0) {
        fprintf(stderr, "bench: %s failed\n", subject->name);
        exit(1);
    }
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void print_row(const char *name, const double *figures, const char *format)
{
    printf("%-26s", name);
    for (int i = 0; i < FIGURE_COUNT; i++)
        printf(format, figures[i]);
    printf("\n");
}

static void print_targets(const double *figures, const double *targets)
{
    printf("%-26s", "  of its target");
    for (int i = 0; i < FIGURE_COUNT; i++)
        printf("%8.2f%s", figures[i] / targets[i], figures[i] <= targets[i] ? " " : "!");
    printf("\n");
}

static void print_table(double medians[ENTRANTS][FIGURE_COUNT])
{
    double best[FIGURE_COUNT];
    printf("%-26s", "ns per operation");
    for (int i = 0; i < FIGURE_COUNT; i++) {
        printf("%8s ", titles[i]);
        best[i] = 0;
    }
    printf("\n");
    for (int e = 0; e < ENTRANTS; e++) {
        print_row(entrants[e].subject->name, medians[e], "%8.1f ");
        for (int i = 0; i < FIGURE_COUNT && !entrants[e].targets; i++)
            if (best[i] == 0 || medians[e][i] < best[i])
                best[i] = medians[e][i];
    }
    for (int e = 0; e < ENTRANTS; e++) {
        if (!entrants[e].targets)
            continue;
        double ratios[FIGURE_COUNT];
        for (int i = 0; i < FIGURE_COUNT; i++)
            ratios[i] = medians[e][i] / best[i];
        printf("\n%s\n", entrants[e].subject->name);
        print_row("  of the best peer here", ratios, "%8.2f ");
        print_targets(medians[e], entrants[e].targets);
    }
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 1000000;
    long rounds = argc > 2 ? strtol(argv[2], NULL, 10) : 5;
    int asks_ahead = argc > 3 && strcmp(argv[3], "ahead") == 0;
    if (count < 1 || count > 100000000 || rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: wheel_bench [timers 1..100000000 [rounds 1..%d [ahead]]]\n",
                ROUNDS_MAX);
        return 2;
    }
    double dependent, independent;
    bench_floor((uint32_t)count, &dependent, &independent);
    printf("%ld timers, median of %ld rounds%s\n", count, rounds,
           asks_ahead ? ", cancel and churn ask ahead" : "");
    printf("memory floor: a random read of a 32-byte record %.1f ns if each depends on the last, "
           "%.1f ns if none does\n\n",
           dependent, independent);
    struct input input = make_input((uint32_t)count);
    input.asks_ahead = asks_ahead;
    static double samples[ENTRANTS][FIGURE_COUNT][ROUNDS_MAX];
    for (long round = 0; round < rounds; round++)
        for (int e = 0; e < ENTRANTS; e++) {
            double figures[FIGURE_COUNT];
            run_apart(entrants[e].subject, &input, figures);
            for (int i = 0; i < FIGURE_COUNT; i++)
                samples[e][i][round] = figures[i];
        }
    double medians[ENTRANTS][FIGURE_COUNT];
    for (int e = 0; e < ENTRANTS; e++)
        for (int i = 0; i < FIGURE_COUNT; i++) {
            qsort(samples[e][i], (size_t)rounds, sizeof(double), compare);
            medians[e][i] = samples[e][i][i == FIGURE_STEP_US ? 0 : rounds / 2];
        }
    print_table(medians);
    return 0;
}
