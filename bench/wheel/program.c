/*
 * program.c - the main of each subject's program: one run of the workloads, printed as JSON.
 *
 *     wheel_NAME [timers [HOW]...]    default 1,000,000 timers
 *
 * HOW: `ahead` and `many` change how cancel and churn (many: fill, too) call the subject; `fill`
 * and `expire` run only that; `floor` measures what the machine allows instead.
 *
 * Ticks of 1 ms in virtual time, memory reserved beforehand, deterministic input. Workloads: fill
 * schedules delays uniform in 1 ms..1 h; cancel removes all timers in random order; expire steps
 * through the hour and all timers fire, coarse in steps of 16 ms; churn moves a random timer to now
 * + 30 s, 1,000 times a tick; periodic arms each fired timer again with its own period of 1 ms..10
 * s; burst fires all timers at one tick, numbered in random order. bytes is resident memory per
 * timer after fill; slow_steps counts the calls of expire that took over 200 microseconds.
 */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const keys[FIGURE_COUNT] = {"fill",     "cancel", "expire", "coarse",    "churn",
                                               "periodic", "burst",  "bytes",  "slow_steps"};

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

static void print_text(const char *key, const char *text)
{
    printf("\"%s\": \"%s\", ", key, text ? text : "");
}

/* The texts are constants and version numbers of libraries, which need no escaping. */
static void print_found(const struct found *found)
{
    const char *before = "";
    printf("{");
    print_text("name", bench_subject.name);
    print_text("kind", bench_subject.kind);
    print_text("note", bench_subject.note);
    print_text("version", bench_subject.version());
    if (!isnan(found->late_ticks))
        printf("\"late_ticks\": %.0f, ", found->late_ticks);
    printf("\"churn_count\": %u, \"fired_count\": %llu, \"cut\": [", found->churn_count,
           (unsigned long long)found->fired_count);
    for (int i = 0; i < FIGURE_COUNT; i++)
        if (found->is_cut[i]) {
            printf("%s\"%s\"", before, keys[i]);
            before = ", ";
        }
    printf("], \"figures\": {");
    before = "";
    for (int i = 0; i < FIGURE_COUNT; i++)
        if (!isnan(found->figures[i])) {
            printf("%s\"%s\": %.3f", before, keys[i], found->figures[i]);
            before = ", ";
        }
    printf("}}\n");
}

static int usage(const char *program)
{
    fprintf(stderr, "usage: %s [timers 1..100000000 [ahead | many | fill | expire | floor]...]\n",
            program);
    return 2;
}

static int print_floor(uint32_t count)
{
    struct bench_floor found = bench_floor_measure(count);
    printf("{\"dependent\": %.3f, \"independent\": %.3f, \"ahead\": %.3f}\n", found.dependent,
           found.independent, found.ahead);
    return 0;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 1000000;
    struct input how = {0};
    int is_floor = 0;
    const struct {
        const char *name;
        int *is_set;
    } words[] = {{"ahead", &how.asks_ahead},
                 {"many", &how.by_many},
                 {"fill", &how.only_fill},
                 {"expire", &how.only_expire},
                 {"floor", &is_floor}};
    if (count < 1 || count > 100000000)
        return usage(argv[0]);
    for (int i = 2; i < argc; i++) {
        size_t word = 0;
        while (word < sizeof(words) / sizeof(*words) && strcmp(argv[i], words[word].name) != 0)
            word++;
        if (word == sizeof(words) / sizeof(*words))
            return usage(argv[0]);
        *words[word].is_set = 1;
    }
    if (is_floor)
        return print_floor((uint32_t)count);
    struct input input = make_input((uint32_t)count);
    input.asks_ahead = how.asks_ahead;
    input.by_many = how.by_many;
    input.only_fill = how.only_fill;
    input.only_expire = how.only_expire;
    struct found found = {0};
    found.late_ticks = NAN;
    for (int i = 0; i < FIGURE_COUNT; i++)
        found.figures[i] = NAN;
    bench_subject.run(&input, &found);
    print_found(&found);
    return 0;
}
