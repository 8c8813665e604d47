/* measure.c - the clock, the memory, and the memory floor of the machine. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

uint64_t bench_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t bench_resident(void)
{
    unsigned long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%llu %llu", &size, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

void *bench_allocate(size_t size)
{
    size_t page = 2 << 20;
    size_t whole = size < page ? (size + 63) / 64 * 64 : (size + page - 1) / page * page;
    void *memory = aligned_alloc(size < page ? 64 : page, whole);
    if (!memory) {
        fprintf(stderr, "bench: out of memory\n");
        exit(1);
    }
    if (size >= page)
        (void)madvise(memory, whole, MADV_HUGEPAGE);
    memset(memory, 0, whole);
    return memory;
}

struct record {
    uint64_t next;
    uint64_t rest[3];
};

/* The record that a wheel cannot do without: whether the timer is valid, and its deadline. */
struct bench_pair {
    uint64_t state;
    uint64_t due;
};

enum { FLOOR_AHEAD = 24 };

static uint32_t *bench_order(uint32_t count)
{
    uint32_t *order = bench_allocate(count * sizeof(uint32_t));
    uint64_t random = 88172645463325252u;
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t i = count - 1; i > 0; i--) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        uint32_t j = (uint32_t)(random % (i + 1)), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    return order;
}

static double bench_floor_ahead(const uint32_t *order, uint32_t count)
{
    struct bench_pair *pairs = bench_allocate(count * sizeof(struct bench_pair));
    uint64_t began = bench_now();
    for (uint32_t i = 0; i < count; i++) {
        if (count - i > FLOOR_AHEAD)
            __builtin_prefetch(&pairs[order[i + FLOOR_AHEAD]], 1);
        struct bench_pair *pair = &pairs[order[i]];
        if (pair->state == 0)
            pair->due = i;
    }
    double took = (double)(bench_now() - began);
    free(pairs);
    return took / count;
}

struct bench_floor bench_floor_measure(uint32_t count)
{
    struct record *records = bench_allocate(count * sizeof(struct record));
    uint32_t *order = bench_order(count);
    struct bench_floor found;
    for (uint32_t i = 0; i < count; i++)
        records[order[i]].next = order[(i + 1) % count];
    uint64_t at = order[0], sum = 0;
    uint64_t began = bench_now();
    for (uint32_t i = 0; i < count; i++)
        at = records[at].next;
    found.dependent = (double)(bench_now() - began) / count;
    began = bench_now();
    for (uint32_t i = 0; i < count; i++)
        sum += records[order[i]].next;
    found.independent = (double)(bench_now() - began) / count;
    if (at == sum + 1) /* never true, but keeps the compiler from removing the reads */
        printf("\n");
    free(records);
    found.ahead = bench_floor_ahead(order, count);
    free(order);
    return found;
}

const char *bench_version_here(void)
{
    return TICKWHEEL_VERSION;
}
