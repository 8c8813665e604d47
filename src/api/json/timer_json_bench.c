/*
 * timer_json_bench - how long it takes to make a timer of a create's line, and to write it back.
 *
 *     timer_json_bench [repeats]
 *
 * Each line is the median of several rounds, in nanoseconds per timer; reading includes making and
 * freeing the struct timer.
 */
#include "api/json/timer_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 9

static const char document[] =
    "{\"after\":\"30m\",\"target\":\"https://shop.example/hooks/reservation/recheck\","
    "\"payload\":{\"order\":48211973,\"customer\":\"c-99812-eu\",\"items\":[17,204,9],"
    "\"note\":\"hold released unless paid\",\"total\":129.90},"
    "\"labels\":{\"team\":\"checkout\",\"env\":\"production\"},"
    "\"retry\":{\"max_attempts\":10,\"base\":\"1s\",\"cap\":\"1h\"}}";

static const struct timer_json_limits limits = {
    .payload_bytes_max = 1 << 20,
    .target_bytes_max = 2048,
    .labels_max = 64,
    .headers_bytes_max = 8192,
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static struct timer *timer_json_bench_parse(void)
{
    struct problem problem;
    struct timer *timer;
    struct wall now = {UINT64_C(1795132800000)};

    if (timer_json_parse_create(bytes_of(document), &limits, now, &timer, &problem)) {
        fprintf(stderr, "%s %s\n", problem.faults[0].pointer, problem.faults[0].detail);
        exit(1);
    }
    return timer;
}

static size_t parse_one(void *context)
{
    struct timer *timer = timer_json_bench_parse();
    size_t size = timer->footprint;

    (void)context;
    timer_free(timer);
    return size;
}

struct format {
    struct timer *timer;
    struct buffer out;
};

static size_t format_one(void *context)
{
    struct format *format = context;

    buffer_clear(&format->out);
    timer_json_format(format->timer, &(struct timer_json_view){0}, &format->out);
    return format->out.size;
}

static int timer_json_bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure(const char *name, size_t (*run)(void *), void *context, size_t repeats)
{
    double rounds[ROUNDS];
    size_t sum = 0;

    for (size_t round = 0; round < ROUNDS; round++) {
        uint64_t begin = now_ns();

        for (size_t i = 0; i < repeats; i++)
            sum += run(context);
        rounds[round] = (double)(now_ns() - begin) / (double)repeats;
    }
    qsort(rounds, ROUNDS, sizeof(rounds[0]), timer_json_bench_compare);
    printf("%-8s %8.1f ns  (check %zu)\n", name, rounds[ROUNDS / 2], sum);
}

int main(int argc, char **argv)
{
    size_t repeats = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    struct format format = {.timer = timer_json_bench_parse()};

    measure("create", parse_one, NULL, repeats);
    measure("format", format_one, &format, repeats);
    buffer_deinit(&format.out);
    timer_free(format.timer);
    return 0;
}
