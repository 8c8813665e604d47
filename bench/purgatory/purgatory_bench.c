/*
 * purgatory_bench.c - requests a second through a purgatory that holds a million of them.
 *
 *     purgatory_bench [in flight [measured]]     default 1,000,000 and 2,000,000 requests
 *
 * The load is that of Kafka's own purgatory benchmark, in virtual time and unthrottled: requests
 * come at a steady rate; a given share of them have their event after half their time-out, the
 * others have none and time out. The rate is such that as many are in flight as was asked for. Each
 * request is watched under a key of its own, by which its event finds it, and further ones out of
 * 1,000 that all share, whose watches are left to the purge. Threads take lots of requests from one
 * sequence; a thread that takes a lot also reports the events that are due by then and handles the
 * time-outs.
 *
 * A row is a process. Columns: requests a second of wall time; CPU time a request, all threads
 * together; the most watches there were; watches purged; looks of the purge a watch; the
 * purgatory's memory at its highest, in all and a request in flight; resident memory at its
 * highest, with the requests themselves.
 */
#include <tickwheel/purgatory.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SHARED_KEYS = 1000, KEYS_MAX = 3, LOT = 64, THREADS_MAX = 2 };

enum purgatory_bench_phase { PHASE_OVER, PHASE_SUBMITTED };

struct purgatory_bench_request {
    uint64_t index;
    atomic_uint phase;
    atomic_bool is_ready;
};

struct purgatory_bench_load {
    /* The requested load. */
    unsigned event_percent;
    uint64_t timeout_ms;
    unsigned key_count;
    unsigned thread_count;
    uint64_t in_flight;
    uint64_t measured;

    /* Values derived from the load. */
    double requests_per_ms;
    uint64_t event_after; /* requests */
    uint64_t request_count;

    struct tw_purgatory *purgatory;
    struct purgatory_bench_request *requests; /* a ring */
    atomic_ullong next;                       /* first request that is not taken yet */
    uint64_t end;
    atomic_size_t watched_most;
    atomic_size_t memory_most;
};

static uint64_t mix(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static bool request_try(void *context, void *operation)
{
    (void)context;
    return atomic_load_explicit(&((struct purgatory_bench_request *)operation)->is_ready,
                                memory_order_acquire);
}

static void request_complete(void *context, void *operation, enum tw_completion why)
{
    (void)context;
    (void)why;
    atomic_store_explicit(&((struct purgatory_bench_request *)operation)->phase, PHASE_OVER,
                          memory_order_release);
}

static struct purgatory_bench_request *request_at(struct purgatory_bench_load *load, uint64_t index)
{
    return &load->requests[index % load->request_count];
}

static uint64_t own_key(uint64_t index)
{
    return index + SHARED_KEYS;
}

static void request_submit(struct purgatory_bench_load *load, uint64_t index, uint64_t now)
{
    struct purgatory_bench_request *request = request_at(load, index);
    uint64_t keys[KEYS_MAX] = {own_key(index)};

    while (atomic_load_explicit(&request->phase, memory_order_acquire) != PHASE_OVER)
        tw_purgatory_expire(load->purgatory, now, 256); /* the ring is longer than the longest
                                                           time-out */
    request->index = index;
    atomic_store_explicit(&request->is_ready, false, memory_order_relaxed);
    atomic_store_explicit(&request->phase, PHASE_SUBMITTED, memory_order_release);
    for (unsigned i = 1; i < load->key_count; i++)
        keys[i] = mix(index * KEYS_MAX + i) % SHARED_KEYS;
    if (!tw_purgatory_submit(load->purgatory, request, keys, load->key_count,
                             now + load->timeout_ms)) {
        fprintf(stderr, "purgatory_bench: refused\n");
        exit(1);
    }
}

/* The event of the request, if it has one. */
static void request_event(struct purgatory_bench_load *load, uint64_t index)
{
    struct purgatory_bench_request *request = request_at(load, index);

    if (mix(index) % 100 >= load->event_percent)
        return;
    atomic_store_explicit(&request->is_ready, true, memory_order_release);
    tw_purgatory_try_key(load->purgatory, own_key(index));
}

static void raise_most(atomic_size_t *most, size_t value)
{
    size_t old = atomic_load(most);

    while (value > old && !atomic_compare_exchange_weak(most, &old, value))
        ;
}

static void *work(void *argument)
{
    struct purgatory_bench_load *load = argument;
    uint64_t last = 0;

    for (;;) {
        uint64_t first = atomic_fetch_add(&load->next, LOT);
        if (first >= load->end)
            return NULL;
        for (uint64_t i = first; i < first + LOT; i++) {
            uint64_t now = (uint64_t)((double)i / load->requests_per_ms);
            if (now != last)
                while (tw_purgatory_expire(load->purgatory, now, 256) == 256)
                    ;
            last = now;
            request_submit(load, i, now);
            if (i >= load->event_after)
                request_event(load, i - load->event_after);
        }
        if (first / LOT % 1024 == 0) {
            struct tw_purgatory_stats stats;
            tw_purgatory_get_stats(load->purgatory, &stats);
            raise_most(&load->watched_most, stats.watched);
            raise_most(&load->memory_most, stats.memory);
        }
    }
}

static void run_until(struct purgatory_bench_load *load, uint64_t end)
{
    pthread_t threads[THREADS_MAX];

    load->end = end;
    for (unsigned i = 0; i < load->thread_count; i++)
        if (pthread_create(&threads[i], NULL, work, load) != 0)
            exit(1);
    for (unsigned i = 0; i < load->thread_count; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&load->next, end);
}

static double seconds(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void run(struct purgatory_bench_load *load)
{
    double in_flight = (double)load->in_flight, timeout = (double)load->timeout_ms;
    double share = load->event_percent / 100.0;
    struct tw_purgatory_stats before, after;

    load->requests_per_ms = in_flight / (timeout * (1 - share / 2));
    load->event_after = (uint64_t)(load->requests_per_ms * timeout / 2);
    load->request_count = (uint64_t)(load->requests_per_ms * timeout * 1.25) + 4096;
    load->requests = calloc(load->request_count, sizeof *load->requests);
    load->purgatory = tw_purgatory_create(
        &(struct tw_purgatory_options){.try_complete = request_try, .complete = request_complete});
    if (!load->requests || !load->purgatory)
        exit(1);
    /* Runs until as many requests arrive as end, in whole lots. */
    uint64_t warm = (uint64_t)(load->requests_per_ms * timeout * 1.1) / LOT * LOT;
    run_until(load, warm);
    tw_purgatory_get_stats(load->purgatory, &before);
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t measured = load->measured / LOT * LOT;
    run_until(load, warm + measured);
    wall = seconds(CLOCK_MONOTONIC) - wall;
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    tw_purgatory_get_stats(load->purgatory, &after);

    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    uint64_t events = after.by_event_count - before.by_event_count;
    uint64_t timeouts = after.by_timeout_count - before.by_timeout_count;
    uint64_t purged = after.purged_count - before.purged_count;
    uint64_t looks = after.look_count - before.look_count;
    printf("%6.1f %% %8llu %5u %8u | %10zu %10.0f %7.0f | %10zu %9llu %6.2f | %7.1f %6.0f %7.1f\n",
           100.0 * (double)events / (double)(events + timeouts + (events + timeouts == 0)),
           (unsigned long long)load->timeout_ms, load->key_count, load->thread_count, after.delayed,
           (double)measured / wall, cpu * 1e9 / (double)measured, atomic_load(&load->watched_most),
           (unsigned long long)purged, purged ? (double)looks / (double)purged : 0,
           (double)atomic_load(&load->memory_most) / 1e6,
           (double)atomic_load(&load->memory_most) / (double)load->in_flight,
           (double)usage.ru_maxrss / 1e3);
    fflush(stdout);
}

static void run_apart(struct purgatory_bench_load load)
{
    fflush(stdout);
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        run(&load);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "purgatory_bench: a row failed\n");
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static const unsigned percents[] = {0, 50, 75, 100};
    static const uint64_t timeouts[] = {200, 30000};
    long in_flight = argc > 1 ? strtol(argv[1], NULL, 10) : 1000000;
    long measured = argc > 2 ? strtol(argv[2], NULL, 10) : 2000000;

    if (in_flight < 1000 || in_flight > 100000000 || measured < LOT) {
        fprintf(stderr, "usage: purgatory_bench [in flight, 1000 .. 100000000 [measured]]\n");
        return 2;
    }
    printf("%ld requests in flight, %ld measured; Kafka published 105,000 requests/s for its own\n",
           in_flight, measured);
    printf("by event  timeout  keys  threads |  in flight requests/s  cpu ns |    watched    purged"
           "  looks |   MB  bytes/r  RSS MB\n");
    for (unsigned threads = 1; threads <= THREADS_MAX; threads++)
        for (unsigned keys = 1; keys <= KEYS_MAX; keys++)
            for (unsigned t = 0; t < 2; t++)
                for (unsigned p = 0; p < 4; p++)
                    run_apart((struct purgatory_bench_load){.event_percent = percents[p],
                                                            .timeout_ms = timeouts[t],
                                                            .key_count = keys,
                                                            .thread_count = threads,
                                                            .in_flight = (uint64_t)in_flight,
                                                            .measured = (uint64_t)measured});
    return 0;
}
