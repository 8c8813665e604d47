/* metrics_text.c - the metrics as text for Prometheus, and the page that explains them. */
#include "ops/metrics_text.h"

#include "ops/metrics_private.h"
#include "sys/process.h"

#include <inttypes.h>

enum metric_kind {
    COUNTER,
    GAUGE,
    INFO,
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

/* ---- families ---- */

/* A page that is being written. */
struct metrics_page {
    struct buffer *to;
    enum metrics_format format;
};

/* OpenMetrics alone has infos; its families of counters and infos are named without the suffix of
 * their series. */
static void metrics_append_head(struct metrics_page *page, const char *name, enum metric_kind kind,
                                const char *help)
{
    static const char *const types[] = {"counter", "gauge", "info"};
    static const size_t suffixes[] = {sizeof("_total") - 1, 0, sizeof("_info") - 1};
    const bool is_open = page->format == METRICS_OPENMETRICS;
    const int size = (int)(strlen(name) - (is_open ? suffixes[kind] : 0));

    buffer_printf(page->to, "# HELP %.*s %s\n# TYPE %.*s %s\n", size, name, help, size, name,
                  types[kind == INFO && !is_open ? GAUGE : kind]);
}

/* Writes the head and returns the name of the metric. */
static const char *metrics_append_found_head(struct metrics_page *page, enum metric_found found)
{
    metrics_append_head(page, found_rows[found].name, found_rows[found].kind,
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

/* Writes a metric that has one series. */
static void metrics_append_found(struct metrics_page *page, enum metric_found found, uint64_t value,
                                 uint64_t scale)
{
    buffer_printf(page->to, "%s ", metrics_append_found_head(page, found));
    metrics_append_scaled(page->to, value, scale);
    buffer_append_text(page->to, "\n");
}

static void metrics_append_info(struct metrics_page *page, enum metric_found found,
                                const char *value)
{
    const char *name = metrics_append_found_head(page, found);

    buffer_printf(page->to, "%s{%s=\"%s\"} 1\n", name, found_rows[found].labels, value);
}

static void metrics_append_metrics(struct metrics_page *page, const struct metrics *metrics)
{
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        const char *name = metric_rows[i].name, *labels = metric_rows[i].labels;

        if (i == 0 || strcmp(name, metric_rows[i - 1].name) != 0)
            metrics_append_head(page, name, metric_rows[i].kind, metric_rows[i].help);
        buffer_append_text(page->to, name);
        if (*labels)
            buffer_printf(page->to, "{%s}", labels);
        buffer_append_text(page->to, " ");
        metrics_append_scaled(page->to, metrics_load(&metrics->counters[i].value),
                              metric_rows[i].scale);
        buffer_append_text(page->to, "\n");
    }
}

/* Writes only the series that occurred: most routes have one or two classes of status. */
static void metrics_append_requests(struct metrics_page *page, const struct metrics *metrics)
{
    static const char *const classes[METRICS_CLASS_COUNT] = {"other", "1xx", "2xx",
                                                             "3xx",   "4xx", "5xx"};
    const char *name = metrics_append_found_head(page, FOUND_HTTP_REQUESTS);

    for (size_t route = 0; route <= METRIC_ROUTES; route++)
        for (size_t status_class = 0; status_class < METRICS_CLASS_COUNT; status_class++) {
            uint64_t count = metrics_load(&metrics->requests[route][status_class].value);

            if (count)
                buffer_printf(page->to, "%s{route=\"%s\",class=\"%s\"} %" PRIu64 "\n", name,
                              metrics->route_labels[route], classes[status_class], count);
        }
}

/* ---- waiting timers ---- */

static void metrics_append_waiting_row(struct metrics_page *page, enum metric_found found,
                                       const struct metrics_waiting_row *row)
{
    const bool is_queue = found == FOUND_QUEUE_READY || found == FOUND_QUEUE_OLDEST;
    const bool is_ready = found == FOUND_QUEUE_READY || found == FOUND_TENANT_READY;

    buffer_printf(page->to, "%s{tenant=\"%s\"", found_rows[found].name, row->tenant);
    if (is_queue)
        buffer_printf(page->to, ",queue=\"%s\"", row->queue);
    buffer_append_text(page->to, "} ");
    metrics_append_scaled(page->to, is_ready ? row->ready : row->oldest_ms, is_ready ? 1 : 1000);
    buffer_append_text(page->to, "\n");
}

static void metrics_append_waiting(struct metrics_page *page, enum metric_found found,
                                   const struct metrics_waiting_row *rows, size_t count)
{
    metrics_append_found_head(page, found);
    for (size_t i = 0; i < count; i++)
        metrics_append_waiting_row(page, found, &rows[i]);
}

/* Writes a row for each missing zone or calendar with a name, and one row for all others. No
 * character of a name needs an escape. */
static void metrics_append_missing(struct metrics_page *page, enum metric_found found,
                                   const char *label, const struct absent_names *missing)
{
    const char *name = found_rows[found].name;

    metrics_append_found_head(page, found);
    for (size_t i = 0; i < missing->count; i++)
        buffer_printf(page->to, "%s{%s=\"%s\"} 1\n", name, label, missing->names[i]);
    if (missing->has_more)
        buffer_printf(page->to, "%s{%s=\"%s\"} 1\n", name, label, METRICS_OTHERS);
}

/* ---- histograms ---- */

/* Writes a line of a histogram without its value: name + suffix, the labels and, for a bucket,
 * its bound. */
static void metrics_append_series(struct metrics_page *page, size_t row, const char *suffix,
                                  const char *bound, uint64_t value, uint64_t scale)
{
    const char *labels = histogram_rows[row].labels;

    buffer_printf(page->to, "%s%s", histogram_rows[row].name, suffix);
    if (*labels || bound)
        buffer_printf(page->to, "{%s%s%s%s%s}", labels, *labels && bound ? "," : "",
                      bound ? "le=\"" : "", bound ? bound : "", bound ? "\"" : "");
    buffer_append_text(page->to, " ");
    metrics_append_scaled(page->to, value, scale);
}

static void metrics_append_exemplar(struct metrics_page *page, struct metrics_series *series,
                                    size_t bucket)
{
    struct metrics_exemplar exemplar;

    if (page->format != METRICS_OPENMETRICS || !metrics_exemplar(series, bucket, &exemplar))
        return;
    buffer_printf(page->to, " # {trace_id=\"%016" PRIx64 "%016" PRIx64 "\"} ", exemplar.trace_high,
                  exemplar.trace_low);
    metrics_append_scaled(page->to, exemplar.us, 1000000);
    buffer_append_text(page->to, " ");
    metrics_append_scaled(page->to, exemplar.at.ms, 1000);
}

/* Formats a bound. OpenMetrics writes whole numbers as 1.0. */
static void metrics_format_bound(enum metrics_format format, uint64_t us, struct buffer *ret_text)
{
    metrics_append_scaled(ret_text, us, 1000000);
    if (format == METRICS_OPENMETRICS && us % 1000000 == 0)
        buffer_append_text(ret_text, ".0");
    buffer_append(ret_text, "", 1);
}

static void metrics_append_histogram(struct metrics_page *page, struct metrics *metrics, size_t row)
{
    struct metrics_series *series = &metrics->histograms[row];

    if (row == 0 || strcmp(histogram_rows[row].name, histogram_rows[row - 1].name) != 0)
        buffer_printf(page->to, "# HELP %s %s\n# TYPE %s histogram\n", histogram_rows[row].name,
                      histogram_rows[row].help, histogram_rows[row].name);
    struct buffer bound;
    buffer_init(&bound);
    uint64_t below = 0;
    for (size_t i = 0; i <= METRICS_BOUND_COUNT; i++) {
        below += metrics_load(&series->buckets[i]);
        bound.size = 0;
        if (i < METRICS_BOUND_COUNT)
            metrics_format_bound(page->format, metrics_bounds_us[i], &bound);
        else
            buffer_append(&bound, "+Inf", sizeof("+Inf"));
        page->to->failed |= buffer_failed(&bound);
        metrics_append_series(page, row, "_bucket", buffer_failed(&bound) ? "" : bound.data, below,
                              1);
        metrics_append_exemplar(page, series, i);
        buffer_append_text(page->to, "\n");
    }
    buffer_deinit(&bound);
    metrics_append_series(page, row, "_sum", NULL, metrics_load(&series->sum_us), 1000000);
    buffer_append_text(page->to, "\n");
    metrics_append_series(page, row, "_count", NULL, below, 1);
    buffer_append_text(page->to, "\n");
}

/* ---- the pages ---- */

const char *metrics_content_type(enum metrics_format format)
{
    return format == METRICS_OPENMETRICS
               ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
               : "text/plain; version=0.0.4; charset=utf-8";
}

void metrics_format(struct metrics *metrics, enum metrics_format format,
                    const struct metrics_waiting *waiting, struct buffer *buffer)
{
    struct metrics_page page = {buffer, format};

    metrics_append_metrics(&page, metrics);
    metrics_append_requests(&page, metrics);
    for (size_t i = 0; i < HISTOGRAM_COUNT; i++)
        metrics_append_histogram(&page, metrics, i);
    metrics_append_waiting(&page, FOUND_QUEUE_READY, waiting->queues, waiting->queue_count);
    metrics_append_waiting(&page, FOUND_QUEUE_OLDEST, waiting->queues, waiting->queue_count);
    metrics_append_waiting(&page, FOUND_TENANT_READY, waiting->tenants, waiting->tenant_count);
    metrics_append_waiting(&page, FOUND_TENANT_OLDEST, waiting->tenants, waiting->tenant_count);
    metrics_append_found(&page, FOUND_START_TIME, metrics->started.ms, 1000);
    metrics_append_found(&page, FOUND_CPU, process_cpu_us(), 1000000);
    metrics_append_found(&page, FOUND_RESIDENT_MEMORY, process_memory_bytes(), 1);
    metrics_append_found(&page, FOUND_OPEN_FILES, process_file_count(), 1);
    metrics_append_found(&page, FOUND_FILES_MAX, process_file_limit(), 1);
    metrics_append_info(&page, FOUND_BUILD_INFO, metrics->version);
    metrics_append_info(&page, FOUND_TZDATA_INFO, waiting->tzdata);
    metrics_append_missing(&page, FOUND_ZONES_MISSING, "zone", &waiting->zones);
    metrics_append_missing(&page, FOUND_CALENDARS_MISSING, "calendar", &waiting->calendars);
    if (format == METRICS_OPENMETRICS)
        buffer_append_text(buffer, "# EOF\n");
}

/* Appends the row of a metric with the names of its labels; `labels` may be a text such as
 * stage="queue". */
static void metrics_append_docs_row(struct buffer *buffer, const char *name, const char *labels,
                                    const char *kind, const char *help)
{
    int size = (int)strcspn(labels, "=");

    buffer_printf(buffer, "- `%s`%s%.*s%s%s: %s\n", name, size ? " {" : "", size, labels,
                  size ? "}" : "", kind, help);
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
        "`GET /metrics` shows them in Prometheus' text format, or in OpenMetrics to a client that "
        "prefers it. A histogram `x` has the series\n`x_bucket`, `x_sum` and `x_count`; in "
        "OpenMetrics its buckets have exemplars: the `trace_id` of the last sampled "
        "`traceparent`.\nPrometheus keeps them with `--enable-feature=exemplar-storage`.\n"
        "\n"
        "A metric that ends in `_total` is a counter; any other is a gauge unless it is marked as "
        "a histogram.\n"
        "\n");
    for (size_t i = 0; i < METRIC_COUNT; i++)
        if (*metric_rows[i].help)
            metrics_append_docs_row(buffer, metric_rows[i].name, metric_rows[i].labels, "",
                                    metric_rows[i].help);
    for (size_t i = 0; i < HISTOGRAM_COUNT; i++)
        if (*histogram_rows[i].help)
            metrics_append_docs_row(buffer, histogram_rows[i].name, histogram_rows[i].labels,
                                    " (histogram)", histogram_rows[i].help);
    for (size_t i = 0; i < FOUND_COUNT; i++)
        metrics_append_docs_row(buffer, found_rows[i].name, found_rows[i].labels, "",
                                found_rows[i].help);
}
