/* node_figures.c - keeps the history of a node's figures; see node_figures.h. */
#include "node/node_figures.h"

#include "node/node_state.h"
#include "sys/clock.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static_assert(WAIT_REASONS <= FIGURES_CAUSES, "a point has a place for each reason");
static_assert(WAIT_ROOM == 0 && WAIT_WORKER == 5 && WAIT_LEASE_MEMORY == 10,
              "reasons are kept as numbers: new ones go to the end");

/* What was counted at the last sample. */
struct figures_counted {
    struct instant at;
    uint64_t counts[FIGURES_COUNTS];
    uint64_t late[METRICS_BUCKET_COUNT];
};

struct node_figures {
    struct figures *figures;
    struct node *node;
    struct figures_counted counted;
    struct instant sample_at; /* time of the next sample */
};

/* Returns what was counted since `*counted`, which it sets to `now`. A partition that moved to
 * another node takes its counts away. */
static uint32_t node_figures_since(uint64_t *counted, uint64_t now)
{
    const uint64_t since = now > *counted ? now - *counted : 0;

    *counted = now;
    return since < UINT32_MAX ? (uint32_t)since : UINT32_MAX;
}

static void node_figures_sample(struct node_figures *own)
{
    struct node *node = own->node;
    struct figures_counted *counted = &own->counted;
    uint64_t late[METRICS_BUCKET_COUNT];
    struct figures_point sample = {.at = {0}};
    struct shard_report sum;
    const struct instant now = instant_now();
    const uint64_t span_ms = instant_since_ns(counted->at, now) / 1000000;

    node_report_sum(&node->report, &sum);
    const uint64_t counts[FIGURES_COUNTS] = {
        [FIGURES_CREATED] = sum.stats.created,        [FIGURES_FIRED] = sum.stats.fired,
        [FIGURES_FAILED] = sum.stats.attempts_failed, [FIGURES_DEAD] = sum.stats.dead,
        [FIGURES_CANCELLED] = sum.stats.cancelled,
    };
    metrics_buckets(node->metrics, HISTOGRAM_DELIVERY_LATENESS, late);
    sample.span_ms = span_ms < UINT32_MAX ? (uint32_t)span_ms : UINT32_MAX;
    counted->at = now;
    for (size_t i = 0; i < FIGURES_COUNTS; i++)
        sample.counts[i] = node_figures_since(&counted->counts[i], counts[i]);
    for (size_t i = 0; i < METRICS_BUCKET_COUNT; i++)
        sample.late[i] = node_figures_since(&counted->late[i], late[i]);
    for (size_t i = 0; i < WAIT_REASONS; i++)
        sample.waiting[i] =
            sum.stats.held[i] < UINT32_MAX ? (uint32_t)sum.stats.held[i] : UINT32_MAX;
    figures_add(own->figures, wall_machine_now(), &sample);
    if (!atomic_load(&node->disk.is_full) && !atomic_load(&node->disk.is_lost))
        figures_write(own->figures);
}

/* Samples are taken when the wall clock comes to a multiple of the step. */
static void node_figures_plan(struct node_figures *own)
{
    own->sample_at =
        instant_add_ms(instant_now(), FIGURES_STEP_MS - wall_machine_now().ms % FIGURES_STEP_MS);
}

/* Takes a sample if it is time. Returns how long it is until the next one. */
static uint64_t node_figures_tend(void *context)
{
    struct node_figures *own = context;
    const struct instant now = instant_now();

    if (now.ns >= own->sample_at.ns) {
        node_figures_sample(own);
        node_figures_plan(own);
    }
    return instant_since_ns(now, own->sample_at);
}

static void node_figures_free(struct node_figures *own)
{
    figures_close(own->figures);
    free(own);
}

enum error_code node_figures_start(struct node *node, struct error *ret_error)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/" FIGURES_FILE, node->config->data_folder) >=
        (int)sizeof(path))
        return error_set(ret_error, ERROR_IO, "data_folder is too long");
    struct node_figures *own = calloc(1, sizeof(*own));
    if (!own)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    own->node = node;
    own->counted.at = instant_now();
    const enum error_code code = figures_open(disk_system(), path, &own->figures, ret_error);
    if (code) {
        node_figures_free(own);
        return code;
    }
    node_figures_plan(own);
    node->disk.sample = node_figures_tend;
    node->disk.sample_context = own;
    node->figures = own;
    return ERROR_NONE;
}

void node_figures_stop(struct node *node)
{
    struct node_figures *own = node->figures;

    if (!own)
        return;
    node_figures_sample(own);
    node->figures = NULL;
    node_figures_free(own);
}

size_t node_history(struct node *node, enum figures_window window, struct wall now,
                    struct figures_point ret_points[FIGURES_POINTS])
{
    return figures_read(node->figures->figures, window, now, ret_points);
}

void node_history_trouble(struct node *node, struct error *ret_trouble)
{
    figures_trouble(node->figures->figures, ret_trouble);
}
