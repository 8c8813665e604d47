/* metrics.c - counters, gauges and histograms, and their text for Prometheus. */
#include "ops/metrics.h"

#include "sys/process.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* Upper bounds in microseconds: 100 µs to 2 h, five to a decade, so that a quantile read off them
 * is at most twice the truth. Kept in microseconds to be exact; the last bucket takes the rest. */
static const uint64_t bounds_us[] = {
    100,       200,        300,        500,        700,        1000,      2000,      3000,
    5000,      7000,       10000,      20000,      30000,      50000,     70000,     100000,
    200000,    300000,     500000,     700000,     1000000,    2000000,   3000000,   5000000,
    7000000,   10000000,   20000000,   30000000,   60000000,   120000000, 180000000, 300000000,
    600000000, 1200000000, 1800000000, 3600000000, 7200000000,
};

enum {
    BOUND_COUNT = sizeof(bounds_us) / sizeof(bounds_us[0]),
    CLASS_COUNT = 6, /* 0: unknown, 1xx .. 5xx */
};

/* On a cache line of its own: threads that count different things do not slow each other. */
struct counter {
    _Alignas(64) _Atomic uint64_t value;
};

struct series {
    _Alignas(64) _Atomic uint64_t buckets[BOUND_COUNT + 1];
    _Atomic uint64_t sum_us;
};

struct metrics {
    struct counter counters[METRIC_COUNT];
    struct counter requests[METRIC_ROUTES + 1][CLASS_COUNT];
    const char *route_labels[METRIC_ROUTES + 1]; /* NULL: no such route */
    struct series histograms[HISTOGRAM_COUNT];
    const char *version;
    struct wall started;
};

enum metric_kind {
    COUNTER,
    GAUGE,
};

static const struct {
    enum metric_kind kind;
    const char *name, *labels;
    uint64_t scale;
    const char *help;
} metric_rows[] = {
#define X(id, field, kind, name, labels, scale, help) {kind, name, labels, scale, help},
    METRIC_LIST(X)
#undef X
};

static const struct {
    const char *name, *labels, *help;
} histogram_rows[] = {
#define X(id, name, labels, help) {name, labels, help},
    HISTOGRAM_LIST(X)
#undef X
};

static uint64_t metrics_load(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void metrics_add_to(_Atomic uint64_t *value, uint64_t count)
{
    atomic_fetch_add_explicit(value, count, memory_order_relaxed);
}

struct metrics *metrics_create(const char *version, struct wall started)
{
    size_t size = (sizeof(struct metrics) + 63) / 64 * 64;
    struct metrics *metrics = aligned_alloc(64, size);

    if (!metrics)
        return NULL;
    memset(metrics, 0, size);
    metrics->route_labels[METRIC_ROUTE_OTHER] = "other";
    metrics->version = version;
    metrics->started = started;
    return metrics;
}

void metrics_destroy(struct metrics *metrics)
{
    free(metrics);
}

void metrics_add(struct metrics *metrics, enum metric metric, uint64_t count)
{
    metrics_add_to(&metrics->counters[metric].value, count);
}

void metrics_set(struct metrics *metrics, enum metric metric, uint64_t value)
{
    atomic_store_explicit(&metrics->counters[metric].value, value, memory_order_relaxed);
}

uint64_t metrics_get(const struct metrics *metrics, enum metric metric)
{
    return metrics_load(&metrics->counters[metric].value);
}

void metrics_label_route(struct metrics *metrics, size_t route, const char *label)
{
    assert(route < METRIC_ROUTES);
    metrics->route_labels[route] = label;
}

void metrics_add_request(struct metrics *metrics, size_t route, unsigned status)
{
    unsigned status_class = status / 100;

    assert(route <= METRIC_ROUTES && metrics->route_labels[route]);
    metrics_add_to(&metrics->requests[route][status_class < CLASS_COUNT ? status_class : 0].value,
                   1);
}

/* The first bucket whose bound is not below the value. */
static size_t metrics_bucket_of(uint64_t us)
{
    size_t low = 0, high = BOUND_COUNT;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (bounds_us[middle] < us)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void metrics_observe_us(struct metrics *metrics, enum histogram histogram, uint64_t us)
{
    struct series *series = &metrics->histograms[histogram];

    metrics_add_to(&series->buckets[metrics_bucket_of(us)], 1);
    metrics_add_to(&series->sum_us, us);
}

uint64_t metrics_observed(const struct metrics *metrics, enum histogram histogram)
{
    const struct series *series = &metrics->histograms[histogram];
    uint64_t count = 0;

    for (size_t i = 0; i <= BOUND_COUNT; i++)
        count += metrics_load(&series->buckets[i]);
    return count;
}

uint64_t metrics_quantile_us(const struct metrics *metrics, enum histogram histogram,
                             double quantile)
{
    const struct series *series = &metrics->histograms[histogram];
    uint64_t count = metrics_observed(metrics, histogram);

    if (count == 0)
        return 0;
    uint64_t below = 0;
    for (size_t i = 0; i < BOUND_COUNT; i++) {
        below += metrics_load(&series->buckets[i]);
        if ((double)below >= quantile * (double)count)
            return bounds_us[i];
    }
    return UINT64_MAX;
}

enum metric_found {
#define X(id, kind, name, labels, help) FOUND_##id,
    METRIC_FOUND_LIST(X)
#undef X
        FOUND_COUNT
};

static const struct {
    enum metric_kind kind;
    const char *name, *labels, *help;
} found_rows[] = {
#define X(id, kind, name, labels, help) {kind, name, labels, help},
    METRIC_FOUND_LIST(X)
#undef X
};

/* ---- text ---- */

static const char *metrics_kind_word(enum metric_kind kind)
{
    return kind == COUNTER ? "counter" : "gauge";
}

static void metrics_append_head(struct buffer *buffer, const char *name, const char *type,
                                const char *help)
{
    buffer_printf(buffer, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Returns the name. */
static const char *metrics_append_found_head(struct buffer *buffer, enum metric_found found)
{
    metrics_append_head(buffer, found_rows[found].name, metrics_kind_word(found_rows[found].kind),
                        found_rows[found].help);
    return found_rows[found].name;
}

/* value / scale as a decimal without rounding; `scale` is a power of ten. */
static void metrics_append_scaled(struct buffer *buffer, uint64_t value, uint64_t scale)
{
    buffer_append_u64(buffer, value / scale);
    if (value % scale)
        buffer_append_text(buffer, ".");
    while (value % scale) {
        value %= scale;
        scale /= 10;
        buffer_append_u64(buffer, value / scale); /* one digit */
    }
}

static void metrics_append_metrics(const struct metrics *metrics, struct buffer *buffer)
{
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        const char *name = metric_rows[i].name, *labels = metric_rows[i].labels;

        if (i == 0 || strcmp(name, metric_rows[i - 1].name) != 0)
            metrics_append_head(buffer, name, metrics_kind_word(metric_rows[i].kind),
                                metric_rows[i].help);
        buffer_append_text(buffer, name);
        if (*labels)
            buffer_printf(buffer, "{%s}", labels);
        buffer_append_text(buffer, " ");
        metrics_append_scaled(buffer, metrics_load(&metrics->counters[i].value),
                              metric_rows[i].scale);
        buffer_append_text(buffer, "\n");
    }
}

/* Only what occurred: most routes have one or two classes. */
static void metrics_append_requests(const struct metrics *metrics, struct buffer *buffer)
{
    static const char *const classes[CLASS_COUNT] = {"other", "1xx", "2xx", "3xx", "4xx", "5xx"};
    const char *name = metrics_append_found_head(buffer, FOUND_HTTP_REQUESTS);

    for (size_t route = 0; route <= METRIC_ROUTES; route++)
        for (size_t status_class = 0; status_class < CLASS_COUNT; status_class++) {
            uint64_t count = metrics_load(&metrics->requests[route][status_class].value);

            if (count)
                buffer_printf(buffer, "%s{route=\"%s\",class=\"%s\"} %llu\n", name,
                              metrics->route_labels[route], classes[status_class],
                              (unsigned long long)count);
        }
}

/* One line of a histogram: name + suffix, the labels and, for a bucket, its bound. */
static void metrics_append_series_line(struct buffer *buffer, size_t row, const char *suffix,
                                       const char *bound, uint64_t value, uint64_t scale)
{
    const char *labels = histogram_rows[row].labels;

    buffer_printf(buffer, "%s%s", histogram_rows[row].name, suffix);
    if (*labels || bound)
        buffer_printf(buffer, "{%s%s%s%s%s}", labels, *labels && bound ? "," : "",
                      bound ? "le=\"" : "", bound ? bound : "", bound ? "\"" : "");
    buffer_append_text(buffer, " ");
    metrics_append_scaled(buffer, value, scale);
    buffer_append_text(buffer, "\n");
}

static void metrics_append_histogram(const struct metrics *metrics, size_t row,
                                     struct buffer *buffer)
{
    const struct series *series = &metrics->histograms[row];

    if (row == 0 || strcmp(histogram_rows[row].name, histogram_rows[row - 1].name) != 0)
        metrics_append_head(buffer, histogram_rows[row].name, "histogram",
                            histogram_rows[row].help);
    uint64_t below = 0;
    for (size_t i = 0; i < BOUND_COUNT; i++) {
        below += metrics_load(&series->buckets[i]);
        struct buffer bound;
        buffer_init(&bound);
        metrics_append_scaled(&bound, bounds_us[i], 1000000);
        buffer_append(&bound, "", 1);
        if (buffer_failed(&bound))
            buffer->failed = true;
        else
            metrics_append_series_line(buffer, row, "_bucket", bound.data, below, 1);
        buffer_deinit(&bound);
    }
    below += metrics_load(&series->buckets[BOUND_COUNT]);
    metrics_append_series_line(buffer, row, "_bucket", "+Inf", below, 1);
    metrics_append_series_line(buffer, row, "_sum", NULL, metrics_load(&series->sum_us), 1000000);
    metrics_append_series_line(buffer, row, "_count", NULL, below, 1);
}

void metrics_format(const struct metrics *metrics, struct buffer *buffer)
{
    metrics_append_metrics(metrics, buffer);
    metrics_append_requests(metrics, buffer);
    for (size_t i = 0; i < HISTOGRAM_COUNT; i++)
        metrics_append_histogram(metrics, i, buffer);
    const char *name = metrics_append_found_head(buffer, FOUND_START_TIME);
    buffer_printf(buffer, "%s ", name);
    metrics_append_scaled(buffer, metrics->started.ms, 1000);
    buffer_append_text(buffer, "\n");
    name = metrics_append_found_head(buffer, FOUND_RESIDENT_MEMORY);
    buffer_printf(buffer, "%s %llu\n", name, (unsigned long long)process_memory_bytes());
    name = metrics_append_found_head(buffer, FOUND_BUILD_INFO);
    buffer_printf(buffer, "%s{version=\"%s\"} 1\n", name, metrics->version);
}

/* ---- the page ---- */

/* The names of the labels, of texts such as stage="queue". */
static void metrics_append_docs_row(struct buffer *buffer, const char *name, const char *labels,
                                    const char *kind, const char *help)
{
    buffer_printf(buffer, "| `%s` |%s%.*s | %s | %s |\n", name, *labels ? " " : "",
                  (int)strcspn(labels, "="), labels, kind, help);
}

void metrics_format_docs(struct buffer *buffer)
{
    buffer_append_text(
        buffer,
        "# Metrics\n"
        "\n"
        "<!-- Made by `make docs` from the table in src/base/metric_list.h; a test keeps it "
        "current. -->\n"
        "\n"
        "`GET /metrics` shows them in Prometheus' text format. Counters start at 0 with the "
        "process. A histogram `x` has the\nseries `x_bucket`, `x_sum` and `x_count`.\n"
        "\n"
        "| metric | labels | type | meaning |\n"
        "| --- | --- | --- | --- |\n");
    for (size_t i = 0; i < METRIC_COUNT; i++)
        if (*metric_rows[i].help)
            metrics_append_docs_row(buffer, metric_rows[i].name, metric_rows[i].labels,
                                    metrics_kind_word(metric_rows[i].kind), metric_rows[i].help);
    for (size_t i = 0; i < HISTOGRAM_COUNT; i++)
        if (*histogram_rows[i].help)
            metrics_append_docs_row(buffer, histogram_rows[i].name, histogram_rows[i].labels,
                                    "histogram", histogram_rows[i].help);
    for (size_t i = 0; i < FOUND_COUNT; i++)
        metrics_append_docs_row(buffer, found_rows[i].name, found_rows[i].labels,
                                metrics_kind_word(found_rows[i].kind), found_rows[i].help);
}
