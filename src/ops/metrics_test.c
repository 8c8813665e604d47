/*
 * Goal: counts are exact under threads, buckets and quantiles hold what they promise, and what is
 * shown is valid Prometheus text. Method: the text goes through a strict reader written from the
 * format's specification (0.0.4), which also checks what the specification asks of histograms.
 */
#include "ops/docs_testing.h"
#include "ops/metrics_text.h"

#include <ctype.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROUTE = 3 };

static struct metrics *metrics_test_create(void)
{
    struct metrics *metrics = metrics_create("1.2.3", (struct wall){UINT64_C(1795219199250)});

    assert_non_null(metrics);
    metrics_label_route(metrics, ROUTE, "timer_create");
    return metrics;
}

/* The text, to be freed. */
static char *metrics_test_format_as(struct metrics *metrics, enum metrics_format format)
{
    static const struct metrics_waiting waiting = {
        .tzdata = "2025b",
        .zones = {.count = 1, .has_more = true, .names = {"US/Pacific"}},
        .queue_count = 2,
        .tenant_count = 1,
        .queues = {{"", "mail", 3, 1500}, {METRICS_OTHERS, METRICS_OTHERS, 0, 0}},
        .tenants = {{"shop", "", 7, 12000}},
    };
    struct buffer buffer;

    buffer_init(&buffer);
    metrics_format(metrics, format, &waiting, &buffer);
    buffer_append(&buffer, "", 1);
    assert_false(buffer_failed(&buffer));
    return buffer.data;
}

static char *metrics_test_format(struct metrics *metrics)
{
    return metrics_test_format_as(metrics, METRICS_TEXT);
}

static void check_has(struct metrics *metrics, const char *line)
{
    char *text = metrics_test_format(metrics);

    if (!strstr(text, line))
        fail_msg("no line \"%s\" in\n%s", line, text);
    free(text);
}

static void counts_and_gauges_show(void **state)
{
    struct metrics *metrics = metrics_test_create();

    (void)state;
    metrics_add(metrics, METRIC_TIMERS_CREATED, 2);
    metrics_add(metrics, METRIC_TIMERS_CREATED, 3);
    metrics_set(metrics, METRIC_TIMERS_PENDING, UINT64_MAX);
    metrics_set(metrics, METRIC_OLDEST_QUEUE_MS, 12005);
    metrics_add(metrics, METRIC_REFUSED_DISK_FULL, 1);
    assert_true(metrics_get(metrics, METRIC_TIMERS_CREATED) == 5);
    check_has(metrics, "\ntickwheel_timers_created_total 5\n");
    check_has(metrics, "\ntickwheel_timers_pending 18446744073709551615\n");
    check_has(metrics, "\ntickwheel_oldest_overdue_seconds{kind=\"queue\"} 12.005\n");
    check_has(metrics, "\ntickwheel_oldest_overdue_seconds{kind=\"webhook\"} 0\n");
    check_has(metrics, "\ntickwheel_refused_total{reason=\"disk-full\"} 1\n");
    check_has(metrics, "\ntickwheel_refused_total{reason=\"overloaded\"} 0\n");
    check_has(metrics, "\nprocess_start_time_seconds 1795219199.25\n");
    check_has(metrics, "\ntickwheel_build_info{version=\"1.2.3\"} 1\n");
    check_has(metrics, "\ntickwheel_queue_ready{tenant=\"\",queue=\"mail\"} 3\n");
    check_has(metrics, "\ntickwheel_queue_oldest_seconds{tenant=\"\",queue=\"mail\"} 1.5\n");
    check_has(metrics, "\ntickwheel_queue_ready{tenant=\"(others)\",queue=\"(others)\"} 0\n");
    check_has(metrics, "\ntickwheel_tenant_oldest_seconds{tenant=\"shop\"} 12\n");
    check_has(metrics, "\ntickwheel_tzdata_info{version=\"2025b\"} 1\n");
    check_has(metrics, "\ntickwheel_zone_missing{zone=\"US/Pacific\"} 1\n"
                       "tickwheel_zone_missing{zone=\"(others)\"} 1\n");
    metrics_destroy(metrics);
}

static void the_page_of_metrics_is_current(void **state)
{
    (void)state;
    assert_docs_current(TW_SOURCE_FOLDER "/docs/metrics.md", metrics_format_docs);
}

static void requests_count_by_route_and_class(void **state)
{
    struct metrics *metrics = metrics_test_create();

    (void)state;
    metrics_add_request(metrics, ROUTE, 201);
    metrics_add_request(metrics, ROUTE, 200);
    metrics_add_request(metrics, ROUTE, 422);
    metrics_add_request(metrics, METRIC_ROUTE_OTHER, 599);
    metrics_add_request(metrics, METRIC_ROUTE_OTHER, 600);
    metrics_add_request(metrics, METRIC_ROUTE_OTHER, 0);
    check_has(metrics, "tickwheel_http_requests_total{route=\"timer_create\",class=\"2xx\"} 2\n");
    check_has(metrics, "tickwheel_http_requests_total{route=\"timer_create\",class=\"4xx\"} 1\n");
    check_has(metrics, "tickwheel_http_requests_total{route=\"other\",class=\"5xx\"} 1\n");
    check_has(metrics, "tickwheel_http_requests_total{route=\"other\",class=\"other\"} 2\n");
    metrics_destroy(metrics);
}

/* A bucket holds what is at most its bound. */
static void buckets_include_their_bound(void **state)
{
    struct metrics *metrics = metrics_test_create();

    (void)state;
    metrics_observe_us(metrics, HISTOGRAM_COMMIT, 0);
    metrics_observe_us(metrics, HISTOGRAM_COMMIT, 100);
    metrics_observe_us(metrics, HISTOGRAM_COMMIT, 101);
    metrics_observe_us(metrics, HISTOGRAM_COMMIT, UINT64_C(7200000000));
    metrics_observe_us(metrics, HISTOGRAM_COMMIT, UINT64_C(7200000001));
    assert_true(metrics_observed(metrics, HISTOGRAM_COMMIT) == 5);
    assert_true(metrics_observed(metrics, HISTOGRAM_ACKNOWLEDGE) == 0);
    check_has(metrics, "tickwheel_commit_seconds_bucket{le=\"0.0001\"} 2\n");
    check_has(metrics, "tickwheel_commit_seconds_bucket{le=\"0.0002\"} 3\n");
    check_has(metrics, "tickwheel_commit_seconds_bucket{le=\"3600\"} 3\n");
    check_has(metrics, "tickwheel_commit_seconds_bucket{le=\"7200\"} 4\n");
    check_has(metrics, "tickwheel_commit_seconds_bucket{le=\"+Inf\"} 5\n");
    check_has(metrics, "tickwheel_commit_seconds_sum 14400.000202\n");
    check_has(metrics, "tickwheel_commit_seconds_count 5\n");
    metrics_observe_us(metrics, HISTOGRAM_LATENESS_QUEUE, 150);
    check_has(metrics, "tickwheel_lateness_seconds_bucket{stage=\"queue\",le=\"0.0002\"} 1\n");
    check_has(metrics, "tickwheel_lateness_seconds_count{stage=\"queue\"} 1\n");
    check_has(metrics, "tickwheel_lateness_seconds_count{stage=\"schedule\"} 0\n");
    metrics_destroy(metrics);
}

static void quantiles_are_near_and_never_too_low(void **state)
{
    static const double quantiles[] = {0.5, 0.9, 0.99, 0.999, 1};
    struct metrics *metrics = metrics_test_create();

    (void)state;
    assert_true(metrics_quantile_us(metrics, HISTOGRAM_COMMIT, 0.5) == 0);
    for (uint64_t us = 1; us <= 1000000; us++)
        metrics_observe_us(metrics, HISTOGRAM_COMMIT, us);
    for (size_t i = 0; i < 5; i++) {
        double truth = quantiles[i] * 1000000;
        double read = (double)metrics_quantile_us(metrics, HISTOGRAM_COMMIT, quantiles[i]);

        assert_true(read >= truth && read <= 2 * truth);
    }
    metrics_observe_us(metrics, HISTOGRAM_ACKNOWLEDGE, UINT64_MAX / 2);
    assert_true(metrics_quantile_us(metrics, HISTOGRAM_ACKNOWLEDGE, 0.5) == UINT64_MAX);
    metrics_destroy(metrics);
}

/* For every value in between two bounds, at most twice: the bounds themselves stand close enough.
 */
static void a_single_value_is_read_at_most_doubled(void **state)
{
    (void)state;
    for (uint64_t us = 100; us < UINT64_C(7200000000); us += us / 7 + 1) {
        struct metrics *metrics = metrics_test_create();

        metrics_observe_us(metrics, HISTOGRAM_COMMIT, us);
        uint64_t read = metrics_quantile_us(metrics, HISTOGRAM_COMMIT, 0.99);
        if (read < us || read > 2 * us)
            fail_msg("%llu is read as %llu", (unsigned long long)us, (unsigned long long)read);
        metrics_destroy(metrics);
    }
}

enum { THREADS = 3, EACH = 300000 };

struct crowd {
    struct metrics *metrics;
    pthread_barrier_t start; /* so that they do meet */
};

static void *count_up(void *context)
{
    struct crowd *crowd = context;
    struct metrics *metrics = crowd->metrics;
    const struct trace_parent trace = {1, 2, 3, true};

    pthread_barrier_wait(&crowd->start);
    for (unsigned i = 0; i < EACH; i++) {
        metrics_add(metrics, METRIC_ATTEMPTS, 1);
        metrics_observe_traced_us(metrics, HISTOGRAM_DELIVERY_LATENESS, i, &trace);
        metrics_add_request(metrics, ROUTE, 200);
    }
    return NULL;
}

static void threads_lose_no_count(void **state)
{
    struct metrics *metrics = metrics_test_create();
    struct crowd crowd = {.metrics = metrics};

    (void)state;
    pthread_barrier_init(&crowd.start, NULL, THREADS);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, &crowd), 0);
    free(metrics_test_format_as(metrics, METRICS_OPENMETRICS)); /* a reader among the writers */
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&crowd.start);
    assert_true(metrics_get(metrics, METRIC_ATTEMPTS) == THREADS * EACH);
    assert_true(metrics_observed(metrics, HISTOGRAM_DELIVERY_LATENESS) == THREADS * EACH);
    check_has(metrics, "{route=\"timer_create\",class=\"2xx\"} 900000\n");
    metrics_destroy(metrics);
}

/* ---- a strict reader of the text format ---- */

struct family {
    char name[128], type[16];
    bool has_help;
};

struct metrics_reader {
    const char *at;
    struct family seen[128];
    size_t family_count;
    char series[2048][200]; /* every series so far, to find doubles */
    size_t series_count;
    /* The histogram series at hand. */
    char group[200];
    double bound_before, count_before;
    bool has_inf;
};

static void metrics_test_take_name(struct metrics_reader *reader, char ret_name[128])
{
    if (!isalpha((unsigned char)*reader->at) && *reader->at != '_' && *reader->at != ':')
        fail_msg("a name is expected at \"%.40s\"", reader->at);
    size_t size = 0;
    while (isalnum((unsigned char)*reader->at) || *reader->at == '_' || *reader->at == ':') {
        assert_true(size < 127);
        ret_name[size++] = *reader->at++;
    }
    ret_name[size] = '\0';
}

static void metrics_test_take(struct metrics_reader *reader, char c)
{
    if (*reader->at != c)
        fail_msg("'%c' is expected at \"%.40s\"", c, reader->at);
    reader->at++;
}

static void read_comment(struct metrics_reader *reader)
{
    bool is_help = strncmp(reader->at, "# HELP ", 7) == 0;

    if (!is_help && strncmp(reader->at, "# TYPE ", 7) != 0)
        fail_msg("neither HELP nor TYPE at \"%.40s\"", reader->at);
    reader->at += 7;
    char name[128];
    metrics_test_take_name(reader, name);
    metrics_test_take(reader, ' ');
    size_t size = strcspn(reader->at, "\n");
    assert_true(size > 0);
    struct family *family;
    if (is_help) {
        /* A family begins here, once. */
        for (size_t i = 0; i < reader->family_count; i++)
            assert_string_not_equal(reader->seen[i].name, name);
        assert_true(reader->family_count < 128);
        family = &reader->seen[reader->family_count++];
        snprintf(family->name, sizeof(family->name), "%s", name);
        family->has_help = true;
    } else {
        assert_true(reader->family_count > 0);
        family = &reader->seen[reader->family_count - 1];
        assert_string_equal(family->name, name);
        assert_string_equal(family->type, "");
        assert_true(size < sizeof(family->type));
        memcpy(family->type, reader->at, size);
        assert_true(strcmp(family->type, "counter") == 0 || strcmp(family->type, "gauge") == 0 ||
                    strcmp(family->type, "histogram") == 0);
    }
    reader->at += size;
    metrics_test_take(reader, '\n');
}

/* Labels within braces; `le` apart from the rest. */
static void take_labels(struct metrics_reader *reader, char ret_rest[200], char ret_le[64])
{
    metrics_test_take(reader, '{');
    size_t size = 0;
    for (bool is_first = true; *reader->at != '}'; is_first = false) {
        if (!is_first)
            metrics_test_take(reader, ',');
        char name[128];
        metrics_test_take_name(reader, name);
        metrics_test_take(reader, '=');
        metrics_test_take(reader, '"');
        const char *value = reader->at;
        size_t value_size = strcspn(value, "\"\\\n"); /* our values need no escapes */
        reader->at += value_size;
        metrics_test_take(reader, '"');
        if (strcmp(name, "le") == 0) {
            assert_true(value_size < 64);
            memcpy(ret_le, value, value_size);
            ret_le[value_size] = '\0';
            continue;
        }
        size +=
            (size_t)snprintf(ret_rest + size, 200 - size, "%s=%.*s,", name, (int)value_size, value);
        assert_true(size < 200);
    }
    metrics_test_take(reader, '}');
}

static bool ends_with(const char *text, const char *end)
{
    return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

/* Buckets of one series stand together, bounds and counts grow, +Inf ends them and equals _count.
 */
static void check_histogram_line(struct metrics_reader *reader, const struct family *family,
                                 const char *name, const char *group, const char *le, double value)
{
    const char *suffix = name + strlen(family->name);

    if (strcmp(suffix, "_bucket") == 0) {
        double bound = strcmp(le, "+Inf") == 0 ? 1e300 : strtod(le, NULL);

        assert_true(*le);
        if (strcmp(reader->group, group) != 0 || reader->has_inf) {
            snprintf(reader->group, sizeof(reader->group), "%s", group);
            reader->bound_before = reader->count_before = 0;
            reader->has_inf = false;
        }
        assert_true(bound > reader->bound_before && value >= reader->count_before);
        reader->bound_before = bound;
        reader->count_before = value;
        reader->has_inf = bound == 1e300;
        return;
    }
    assert_true(reader->has_inf);
    assert_string_equal(reader->group, group);
    assert_true(!*le);
    if (strcmp(suffix, "_count") == 0)
        assert_true(value == reader->count_before);
    else
        assert_string_equal(suffix, "_sum");
}

static void read_sample(struct metrics_reader *reader)
{
    const char *start = reader->at;
    char rest[200] = "", le[64] = "";

    assert_true(reader->family_count > 0);
    const struct family *family = &reader->seen[reader->family_count - 1];
    assert_true(family->type[0] && family->has_help);
    char name[128];
    metrics_test_take_name(reader, name);
    if (*reader->at == '{')
        take_labels(reader, rest, le);
    for (size_t i = 0; i < reader->series_count; i++)
        if (strlen(reader->series[i]) == (size_t)(reader->at - start) &&
            strncmp(reader->series[i], start, (size_t)(reader->at - start)) == 0)
            fail_msg("twice: %s", reader->series[i]);
    assert_true(reader->series_count < 2048 && reader->at - start < 200);
    memcpy(reader->series[reader->series_count++], start, (size_t)(reader->at - start));
    metrics_test_take(reader, ' ');
    assert_true(isdigit((unsigned char)*reader->at));
    char *end;
    double value = strtod(reader->at, &end);
    reader->at = end;
    metrics_test_take(reader, '\n');
    if (strcmp(family->type, "histogram") == 0) {
        assert_int_equal(strncmp(name, family->name, strlen(family->name)), 0);
        check_histogram_line(reader, family, name, rest, le, value);
        return;
    }
    assert_string_equal(name, family->name);
    assert_true(!*le);
    /* What promtool's linter asks for. */
    assert_true(ends_with(name, "_total") == (strcmp(family->type, "counter") == 0));
}

static void the_text_is_valid(void **state)
{
    struct metrics *metrics = metrics_test_create();
    struct metrics_reader *reader = calloc(1, sizeof(*reader));

    (void)state;
    assert_non_null(reader);
    for (uint64_t i = 0; i < 1000; i++) {
        metrics_add(metrics, (enum metric)(i % METRIC_COUNT), i);
        metrics_add_request(metrics, i % 2 ? ROUTE : METRIC_ROUTE_OTHER, (unsigned)(100 + i));
        metrics_observe_us(metrics, (enum histogram)(i % HISTOGRAM_COUNT), i * i * i * 10);
    }
    char *text = metrics_test_format(metrics);
    for (reader->at = text; *reader->at;) {
        if (*reader->at == '#')
            read_comment(reader);
        else
            read_sample(reader);
    }
    assert_true(reader->family_count > 25);
    assert_true(reader->series_count > 200);
    free(text);
    free(reader);
    metrics_destroy(metrics);
}

/* Goal: OpenMetrics differs from the text where it has to, and its exemplars are the sampled traces
 * that a bucket saw last. Method: one observation of each kind; tests/e2e/openmetrics_test.py reads
 * the page with a parser of others. */
static void openmetrics_has_exemplars(void **state)
{
    static const struct trace_parent sampled = {UINT64_C(0x4bf92f3577b34da6),
                                                UINT64_C(0xa3ce929d0e0e4736), 7, true};
    struct metrics *metrics = metrics_test_create();

    (void)state;
    struct trace_parent trace = sampled;
    metrics_observe_traced_us(metrics, HISTOGRAM_COMMIT, 1500000, &trace);
    trace.is_sampled = false;
    metrics_observe_traced_us(metrics, HISTOGRAM_COMMIT, 1600000, &trace);
    trace = (struct trace_parent){.is_sampled = true};
    metrics_observe_traced_us(metrics, HISTOGRAM_COMMIT, 900000, &trace);
    char *text = metrics_test_format_as(metrics, METRICS_OPENMETRICS);
    assert_non_null(strstr(text, "\ntickwheel_commit_seconds_bucket{le=\"1.0\"} 1\n"));
    assert_non_null(strstr(text, "\ntickwheel_commit_seconds_bucket{le=\"2.0\"} 3 # {trace_id="
                                 "\"4bf92f3577b34da6a3ce929d0e0e4736\"} 1.5 "));
    assert_non_null(strstr(text, "\ntickwheel_commit_seconds_bucket{le=\"3.0\"} 3\n"));
    assert_non_null(strstr(text, "\n# TYPE tickwheel_timers_created counter\n"
                                 "tickwheel_timers_created_total 0\n"));
    assert_non_null(strstr(text, "\n# TYPE tickwheel_build info\ntickwheel_build_info{"));
    assert_string_equal(text + strlen(text) - strlen("\n# EOF\n"), "\n# EOF\n");
    free(text);
    check_has(metrics, "tickwheel_commit_seconds_bucket{le=\"2\"} 3\n");
    metrics_destroy(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_and_gauges_show),
        cmocka_unit_test(requests_count_by_route_and_class),
        cmocka_unit_test(the_page_of_metrics_is_current),
        cmocka_unit_test(buckets_include_their_bound),
        cmocka_unit_test(quantiles_are_near_and_never_too_low),
        cmocka_unit_test(a_single_value_is_read_at_most_doubled),
        cmocka_unit_test(threads_lose_no_count),
        cmocka_unit_test(the_text_is_valid),
        cmocka_unit_test(openmetrics_has_exemplars),
    };

    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
