/*
 * json_bench - how long it takes to read one timer, beside jansson in the same run.
 *
 *     json_bench [repeats]
 *
 * Each line is the median of several rounds, in nanoseconds per document.
 */
#include "base/json.h"
#include "base/json_oracle.h"

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

static uint64_t json_bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Member by member, as the timer's codec does; returns something that depends on all of it. */
static size_t read_pulling(struct bytes text)
{
    struct json_reader reader;

    json_reader_init(&reader, text);
    if (json_peek(&reader) != JSON_OBJECT || !json_enter_object(&reader))
        return 0;
    struct json_string name;
    size_t sum = 0;
    while (json_next_member(&reader, &name)) {
        sum += name.raw.size;
        struct bytes raw;
        if (json_peek(&reader) == JSON_STRING) {
            struct json_string string;
            if (json_read_string(&reader, &string))
                sum += string.raw.size;
        } else if (json_skip(&reader, &raw)) {
            sum += raw.size;
        }
    }
    return json_finish(&reader) ? sum : 0;
}

static size_t read_skipping(struct bytes text)
{
    struct json_reader reader;

    json_reader_init(&reader, text);
    struct bytes raw = {0};
    return json_skip(&reader, &raw) && json_finish(&reader) ? raw.size : 0;
}

static size_t read_jansson(struct bytes text)
{
    json_t *json = json_loadb(text.data, text.size, 0, NULL);
    size_t size = json_object_size(json);

    json_decref(json);
    return size;
}

static int json_bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void json_bench_measure(const char *name, size_t (*read)(struct bytes), size_t repeats)
{
    char copy[sizeof(document)];

    memcpy(copy, document, sizeof(copy));
    struct bytes text = {copy, sizeof(copy) - 1};
    double rounds[ROUNDS];
    size_t sum = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        uint64_t begin = json_bench_now_ns();

        for (size_t i = 0; i < repeats; i++) {
            __asm__ volatile("" ::"r"(copy) : "memory"); /* the text may have changed */
            sum += read(text);
        }
        rounds[round] = (double)(json_bench_now_ns() - begin) / (double)repeats;
    }
    qsort(rounds, ROUNDS, sizeof(rounds[0]), json_bench_compare);
    printf("%-10s %4zu bytes  %8.1f ns  %6.2f ns/byte  (check %zu)\n", name, text.size,
           rounds[ROUNDS / 2], rounds[ROUNDS / 2] / (double)text.size, sum);
}

int main(int argc, char **argv)
{
    size_t repeats = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;

    json_bench_measure("pull", read_pulling, repeats);
    json_bench_measure("skip", read_skipping, repeats);
    json_bench_measure("jansson", read_jansson, repeats / 10 + 1);
    return 0;
}
