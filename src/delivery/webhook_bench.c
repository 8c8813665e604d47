/*
 * How many webhooks a second go to one local receiver, by connections: 100-byte payloads, signed, a
 * keep-alive receiver that answers at once, both on this machine. Three runs each, the median.
 *
 *     webhook_bench [DELIVERIES-PER-RUN [CONNECTIONS]]
 */
#include "delivery/receiver_process.h"
#include "delivery/webhook.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#define RUNS 3

struct webhook_bench {
    struct webhook *webhook;
    pthread_mutex_t lock;
    pthread_cond_t over;
    uint64_t left_to_post, left_to_end, failed; /* guarded by lock */
    uint64_t cpu_ns;
};

static uint64_t cpu_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Posts what came back again, as long as there is more to deliver. */
static void webhook_bench_done(void *context, struct list *deliveries)
{
    struct webhook_bench *bench = context;
    struct list again;

    list_init(&again);
    pthread_mutex_lock(&bench->lock);
    struct list *link;
    while ((link = list_pop(deliveries))) {
        bench->failed += list_item(link, struct delivery, link)->outcome.result != DELIVERY_DONE;
        bench->left_to_end--;
        if (bench->left_to_post > 0) {
            bench->left_to_post--;
            list_push(&again, link);
        }
    }
    if (bench->left_to_end == 0) {
        bench->cpu_ns = cpu_ns();
        pthread_cond_signal(&bench->over);
    }
    pthread_mutex_unlock(&bench->lock);
    webhook_post(bench->webhook, &again);
}

static void webhook_bench_run(const struct guard *guard, const struct timer *timer,
                              uint32_t connections, uint64_t total, double *ret_rate,
                              double *ret_cpu_us)
{
    size_t count = connections * 2;
    struct delivery *deliveries = calloc(count, sizeof(*deliveries));
    const struct targets_options no_breaker = {.seed = 1};
    struct webhook_bench bench = {.left_to_end = total,
                                  .left_to_post = total > count ? total - count : 0};
    struct webhook_options options = {.secrets = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                                      .guard = guard,
                                      .targets = targets_create(&no_breaker),
                                      .user_agent = "tickwheel-bench",
                                      .connections_max = connections,
                                      .connect_timeout_ms = 10000,
                                      .connection_age_ms_max = 300000,
                                      .connection_requests_max = 500,
                                      .response_bytes_max = 65536,
                                      .done = webhook_bench_done,
                                      .context = &bench};
    struct list list;

    list_init(&list);
    pthread_mutex_init(&bench.lock, NULL);
    pthread_cond_init(&bench.over, NULL);
    struct error error;
    if (!deliveries || webhook_start(&options, &bench.webhook, &error) ||
        webhook_begin(bench.webhook, &error))
        abort();
    for (size_t i = 0; i < count && i < total; i++) {
        deliveries[i] = (struct delivery){.timer = timer, .attempt = 1};
        list_push(&list, &deliveries[i].link);
    }
    struct instant start = instant_now();
    webhook_post(bench.webhook, &list);
    pthread_mutex_lock(&bench.lock);
    while (bench.left_to_end > 0)
        pthread_cond_wait(&bench.over, &bench.lock);
    *ret_rate = (double)total * 1e9 / (double)instant_since_ns(start, instant_now());
    *ret_cpu_us = (double)bench.cpu_ns / 1e3 / (double)total;
    if (bench.failed > 0)
        printf("%" PRIu64 " failed, for example: %s\n", bench.failed, deliveries[0].outcome.error);
    pthread_mutex_unlock(&bench.lock);
    webhook_stop(bench.webhook);
    targets_destroy(options.targets);
    pthread_cond_destroy(&bench.over);
    pthread_mutex_destroy(&bench.lock);
    free(deliveries);
}

static int webhook_bench_compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

/* A thousand connections and more. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
    static const uint32_t defaults[] = {1, 16, 128, 1000};
    uint64_t total = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    struct timer_texts texts = {
        .payload = BYTES("{\"order\": 42, \"note\": \"a payload of one hundred bytes, "
                         "as the other benchmarks have it: 0123456789ab\"}")};

    raise_descriptor_limit(); /* the receiver inherits it */
    struct receiver_process receiver = receiver_start(NULL, NULL);
    char target[64];
    snprintf(target, sizeof(target), "http://127.0.0.1:%u/ok", receiver.port);
    texts.target = bytes_of(target);
    struct timer *timer = timer_alloc(&texts);
    struct guard guard;
    if (!timer || guard_init(&guard, "127.0.0.0/8", NULL))
        abort();
    timer->due = wall_now();
    timer->id = (struct timer_id){timer->due, 1, TIMER_SERIAL(1, 1)};
    printf("connections  deliveries/s  CPU of the webhook thread, us each\n");
    for (size_t i = 0; i < (argc > 2 ? 1 : sizeof(defaults) / sizeof(defaults[0])); i++) {
        uint32_t connections = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : defaults[i];
        double rates[RUNS], cpu_us[RUNS];

        for (int j = 0; j < RUNS; j++)
            webhook_bench_run(&guard, timer, connections, total, &rates[j], &cpu_us[j]);
        qsort(rates, RUNS, sizeof(rates[0]), webhook_bench_compare);
        qsort(cpu_us, RUNS, sizeof(cpu_us[0]), webhook_bench_compare);
        printf("%11u  %12.0f  %.1f\n", connections, rates[RUNS / 2], cpu_us[RUNS / 2]);
        fflush(stdout);
    }
    timer_free(timer);
    receiver_stop(&receiver);
    return 0;
}
