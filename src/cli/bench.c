/*
 * bench.c - the verb bench: how quickly timers are created.
 *
 * Each connection is a thread with a client of its own, which creates one timer after the other and
 * counts how long the calls took. The timers carry a label of this run, by which they are
 * cancelled.
 */
#include "cli/client.h"
#include "cli/value.h"
#include "cli/verbs.h"
#include "sys/clock.h"
#include "sys/entropy.h"
#include "sys/process.h"

#include <curl/curl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define BENCH_CONNECTIONS_MAX 256
/* number of buckets; the first begins at a microsecond, each further one is half as wide again */
#define BENCH_BUCKETS 64

struct bench_load {
    char label[32];
    uint64_t count;
    atomic_uint_fast64_t begun, failed;
    atomic_bool is_over; /* a signal was received, or a call failed */
};

struct bench_connection {
    struct bench_load *bench;
    struct cli cli; /* settings and curl handle of this connection */
    pthread_t thread;
    uint64_t buckets[BENCH_BUCKETS];
    uint64_t longest_ns;
    enum cli_exit code;
};

/* Returns the upper bound of a bucket in nanoseconds. */
static uint64_t bench_bound_ns(size_t bucket)
{
    uint64_t bound = 1000;

    for (size_t i = 0; i < bucket && bound < UINT64_MAX / 3; i++)
        bound += bound / 2;
    return bound;
}

static void bench_record(struct bench_connection *connection, uint64_t ns)
{
    size_t bucket = 0;

    while (bucket + 1 < BENCH_BUCKETS && bench_bound_ns(bucket) < ns)
        bucket++;
    connection->buckets[bucket]++;
    if (ns > connection->longest_ns)
        connection->longest_ns = ns;
}

static void *bench_create(void *argument)
{
    struct bench_connection *connection = argument;
    struct bench_load *bench = connection->bench;
    char body[160];
    int size = snprintf(body, sizeof(body),
                        "{\"after\":\"1d\",\"target\":\"queue:bench\",\"payload\":{\"order\":42},"
                        "\"labels\":{\"bench\":\"%s\"}}",
                        bench->label);
    struct cli_request request = {
        .method = "POST", .path = "/v1/timers", .body = {body, (size_t)size}};

    while (!atomic_load(&bench->is_over) && atomic_fetch_add(&bench->begun, 1) < bench->count) {
        struct cli_answer answer;
        struct instant began = instant_now();

        connection->code = cli_send(&connection->cli, &request, &answer);
        bench_record(connection, instant_since_ns(began, instant_now()));
        if (!connection->code && answer.status != 201)
            connection->code = cli_complain_of(&answer);
        cli_answer_deinit(&answer);
        if (connection->code)
            atomic_store(&bench->is_over, true);
    }
    return NULL;
}

/* ---- the result ---- */

static void bench_append_time(struct buffer *text, uint64_t ns)
{
    if (ns < 1000000)
        buffer_printf(text, "%.0f us", (double)ns / 1e3);
    else
        buffer_printf(text, "%.1f ms", (double)ns / 1e6);
}

static void bench_append_histogram(struct cli *cli, const uint64_t *buckets, uint64_t most)
{
    size_t first = 0, last = BENCH_BUCKETS;
    struct screen_table table;
    struct buffer cell;

    while (first < last && !buckets[first])
        first++;
    while (last > first && !buckets[last - 1])
        last--;
    screen_table_init(&table, 3);
    buffer_init(&cell);
    for (size_t i = first; i < last; i++) {
        buffer_clear(&cell);
        buffer_append_text(&cell, "up to ");
        bench_append_time(&cell, bench_bound_ns(i));
        screen_table_add(&table, SCREEN_DIM, buffer_bytes(&cell));
        buffer_clear(&cell);
        buffer_append_u64(&cell, buckets[i]);
        screen_table_add(&table, SCREEN_PLAIN, buffer_bytes(&cell));
        buffer_clear(&cell);
        screen_append_bar(&cell, buckets[i], most);
        screen_table_add(&table, SCREEN_BLUE, buffer_bytes(&cell));
    }
    screen_table_append(&table, cli_style(cli), &cli->out);
    buffer_deinit(&cell);
    screen_table_deinit(&table);
}

static uint64_t bench_percentile_ns(const uint64_t *buckets, uint64_t count, double share)
{
    uint64_t sum = 0;
    size_t i = 0;

    for (; i + 1 < BENCH_BUCKETS; i++) {
        sum += buckets[i];
        if ((double)sum >= (double)count * share)
            break;
    }
    return bench_bound_ns(i);
}

static void bench_show(struct cli *cli, const struct bench_connection *connections, size_t count,
                       double seconds)
{
    uint64_t buckets[BENCH_BUCKETS] = {0}, all = 0, most = 0, longest = 0;

    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < BENCH_BUCKETS; j++)
            buckets[j] += connections[i].buckets[j];
        if (connections[i].longest_ns > longest)
            longest = connections[i].longest_ns;
    }
    for (size_t j = 0; j < BENCH_BUCKETS; j++) {
        all += buckets[j];
        most = buckets[j] > most ? buckets[j] : most;
    }
    uint64_t p50 = bench_percentile_ns(buckets, all, 0.5);
    uint64_t p99 = bench_percentile_ns(buckets, all, 0.99);
    if (cli->settings.form != CLI_FORM_TABLE) {
        buffer_printf(&cli->out,
                      "{\"created\":%llu,\"connections\":%zu,\"seconds\":%.3f,\"per_second\":%.0f,"
                      "\"p50_us\":%.0f,\"p99_us\":%.0f,\"longest_us\":%.0f}\n",
                      (unsigned long long)all, count, seconds, (double)all / seconds,
                      (double)p50 / 1e3, (double)p99 / 1e3, (double)longest / 1e3);
        return;
    }
    buffer_printf(&cli->out, "%llu created in %.2f s by %zu connections: %.0f per second\n",
                  (unsigned long long)all, seconds, count, (double)all / seconds);
    buffer_append_text(&cli->out, "half of the calls took up to ");
    bench_append_time(&cli->out, p50);
    buffer_append_text(&cli->out, ", 99 % up to ");
    bench_append_time(&cli->out, p99);
    buffer_append_text(&cli->out, ", the longest ");
    bench_append_time(&cli->out, longest);
    buffer_append_text(&cli->out, "\n\n");
    bench_append_histogram(cli, buckets, most);
}

static enum cli_exit bench_clean(struct cli *cli, const struct bench_load *bench)
{
    char body[96];
    int size = snprintf(body, sizeof(body), "{\"labels\":{\"bench\":\"%s\"}}", bench->label);
    struct cli_answer answer;
    enum cli_exit code =
        cli_ask(cli, "POST", "/v1/timers/cancel", (struct bytes){body, (size_t)size}, &answer);

    cli_answer_deinit(&answer);
    return code;
}

/* Starts a thread for each connection, and waits until all have ended. */
static enum cli_exit bench_measure(struct cli *cli, struct bench_load *bench,
                                   struct bench_connection *connections, size_t count)
{
    size_t started = 0;
    enum cli_exit code = CLI_EXIT_DONE;

    for (; started < count; started++) {
        struct bench_connection *connection = &connections[started];

        connection->bench = bench;
        connection->cli.settings = cli->settings;
        if (thread_start(&connection->thread, bench_create, connection, "bench-%zu", started)) {
            code = cli_complain(CLI_EXIT_FAILED, "a thread cannot be started");
            break;
        }
    }
    while (atomic_load(&bench->begun) < bench->count && !atomic_load(&bench->is_over))
        if (code || !cli_wait(cli, 10))
            atomic_store(&bench->is_over, true);
    for (size_t i = 0; i < started; i++) {
        pthread_join(connections[i].thread, NULL);
        curl_easy_cleanup(connections[i].cli.curl);
        code = code ? code : connections[i].code;
    }
    return code;
}

enum cli_exit bench_run(struct cli *cli)
{
    struct bench_load bench = {0};
    uint64_t count, seed = 0;
    enum cli_exit code =
        cli_flag_number(cli, CLI_FLAG_NUMBER, 1, UINT64_C(1) << 40, 10000, &bench.count);

    if (!code)
        code = cli_flag_number(cli, CLI_FLAG_CONNECTIONS, 1, BENCH_CONNECTIONS_MAX, 8, &count);
    code = code ? code : cli_catch_signals(cli);
    if (code)
        return code;
    struct bench_connection *connections = calloc(count, sizeof(*connections));
    if (!connections || entropy_u64(&seed) || curl_global_init(CURL_GLOBAL_DEFAULT)) {
        free(connections);
        return cli_complain(CLI_EXIT_FAILED, "out of memory");
    }
    snprintf(bench.label, sizeof(bench.label), "%016llx", (unsigned long long)seed);
    struct instant began = instant_now();
    code = bench_measure(cli, &bench, connections, count);
    double seconds = (double)instant_since_ns(began, instant_now()) / 1e9;
    if (!code)
        bench_show(cli, connections, count, seconds);
    free(connections);
    cli_flush(cli);
    enum cli_exit clean_code = code == CLI_EXIT_UNAVAILABLE ? code : bench_clean(cli, &bench);
    return code ? code : clean_code;
}
