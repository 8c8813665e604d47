/* source.c - the table of sources and their threads; see source.h. */
#include "source/source.h"

#include "api/json/names.h"
#include "sys/clock.h"
#include "sys/process.h"
#include "timer/tenant.h"

#include <ctype.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SOURCE_RETRY_MS_MIN = 50, /* pause after a failure, doubled by each further one */
    SOURCE_RETRY_MS_MAX = 2000,
    SOURCE_LOOK_MS = 200,    /* interval of looks whether this node is to read a source */
    SOURCE_WATCH_MS = 10000, /* interval of looks whether another node reads it */
    SOURCE_UNREAD_MIN = 2,   /* looks in a row, so that a change of the reader is none */
};

static const struct source_kind *const source_kinds[] = {
#ifdef TICKWHEEL_WITH_POSTGRES
    &source_outbox,
#endif
#ifdef TICKWHEEL_WITH_RABBITMQ
    &source_rabbitmq,
    &source_rabbitmq_tls,
#endif
    NULL,
};

struct source_thread {
    struct sources *sources;
    const struct source_kind *kind;
    char name[SOURCE_NAME_SIZE_MAX + 1];
    char *url, *tenant;
    struct source_rows *rows;
    pthread_t thread;
    bool has_thread;
    struct source_status status; /* guarded by the lock, like the next field */
    uint64_t age_ms;
};

struct sources {
    struct sources_options options;
    pthread_mutex_t lock;
    struct source_thread all[SOURCES_MAX];
    size_t count;
};

/* ---- the setting ---- */

static bool source_is_name(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++)
        if (!isalnum((unsigned char)name.data[i]) && !strchr("-_.", name.data[i]))
            return false;
    return name.size > 0 && name.size <= SOURCE_NAME_SIZE_MAX;
}

static char *source_copy(struct bytes text)
{
    char *copy = malloc(text.size + 1);

    if (!copy)
        return NULL;
    if (text.size)
        memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return copy;
}

static enum error_code source_find_kind(struct source_thread *source, struct error *ret_error)
{
    struct error cause;
    char kinds[64] = "none";
    size_t size = 0;

    for (size_t i = 0; source_kinds[i]; i++) {
        const char *scheme = source_kinds[i]->scheme;

        if (strncmp(source->url, scheme, strlen(scheme)) == 0) {
            source->kind = source_kinds[i];
            const enum error_code code = source->kind->check(source->url, &cause);
            return code ? error_set(ret_error, code, "%s: %.200s", source->name, cause.text)
                        : ERROR_NONE;
        }
        size += (size_t)snprintf(kinds + size, sizeof(kinds) - size, "%s%s", i ? ", " : "", scheme);
    }
    return error_set(ret_error, ERROR_INVALID,
                     "%s: its URL is of no kind of source that this program was built with: %s",
                     source->name, kinds);
}

/* Reads NAME=URL or NAME:TENANT=URL. */
static enum error_code sources_add(struct sources *sources, struct bytes part,
                                   struct error *ret_error)
{
    const struct bytes left = bytes_cut(&part, '=');
    struct bytes tenant = left;
    const struct bytes name = bytes_cut(&tenant, ':');

    if (!source_is_name(name) || !part.size || (name.size < left.size && !tenant_is_valid(tenant)))
        return error_set(ret_error, ERROR_INVALID,
                         "source %zu is not NAME=URL or NAME:TENANT=URL with a name of letters, "
                         "digits, - _ and .",
                         sources->count + 1);
    for (size_t i = 0; i < sources->count; i++)
        if (bytes_equal(bytes_of(sources->all[i].name), name))
            return error_set(ret_error, ERROR_INVALID, "%.*s: there are two of this name",
                             (int)name.size, name.data);
    if (sources->count == SOURCES_MAX)
        return error_set(ret_error, ERROR_INVALID, "there are more than %d", SOURCES_MAX);
    struct source_thread *source = &sources->all[sources->count++];
    source->sources = sources;
    memcpy(source->name, name.data, name.size);
    memcpy(source->status.name, name.data, name.size);
    source->url = source_copy(part);
    source->tenant = source_copy(tenant);
    if (!source->url || !source->tenant)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    return source_find_kind(source, ret_error);
}

static void sources_free(struct sources *sources)
{
    for (size_t i = 0; i < sources->count; i++) {
        source_rows_destroy(sources->all[i].rows);
        if (sources->all[i].url)
            explicit_bzero(sources->all[i].url, strlen(sources->all[i].url));
        free(sources->all[i].url);
        free(sources->all[i].tenant);
    }
    pthread_mutex_destroy(&sources->lock);
    free(sources);
}

static enum error_code sources_parse(const char *setting, struct sources **ret_sources,
                                     struct error *ret_error)
{
    struct sources *sources = calloc(1, sizeof(*sources));
    struct bytes rest = bytes_of(setting);
    enum error_code code = ERROR_NONE;

    if (!sources)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    pthread_mutex_init(&sources->lock, NULL);
    while (!code && rest.size) {
        const struct bytes part = bytes_cut(&rest, ' ');

        if (part.size)
            code = sources_add(sources, part, ret_error);
    }
    if (code)
        sources_free(sources);
    else
        *ret_sources = sources;
    return code;
}

enum error_code sources_check_settings(const char *setting, struct error *ret_error)
{
    struct sources *sources;
    const enum error_code code = sources_parse(setting, &sources, ret_error);

    if (!code)
        sources_free(sources);
    return code;
}

/* ---- threads ---- */

/* Returns the node that is to read the source; 0 if it is unknown. */
static uint32_t source_owner(const struct source_thread *source)
{
    struct node *node = source->sources->options.rows.node;
    uint32_t owner;

    node_owns(node, name_partition(node, bytes_of(source->name)), &owner);
    return owner;
}

/* Looks whether the node that is to read the source does, and says so if it does not. `unread`
 * counts the looks that found no reader. */
static void source_watch(struct source_thread *source, unsigned *unread)
{
    const uint32_t owner = source_owner(source);
    char cause[128];

    *unread = owner && source->kind->is_unread(source) ? *unread + 1 : 0;
    if (source_goes_on(source))
        return;
    if (*unread < SOURCE_UNREAD_MIN) {
        source_leave(source);
        return;
    }
    snprintf(cause, sizeof(cause),
             "node %u owns the partition of its name and does not read it: compare its sources",
             owner);
    source_tell(source, cause);
}

static void *source_run(void *context)
{
    struct source_thread *source = context;
    struct pollfd stop = {.fd = source_rows_fd(source->rows), .events = POLLIN};
    struct instant watch_at = instant_add_ms(instant_now(), SOURCE_WATCH_MS);
    unsigned unread = 0;

    while (!source_rows_is_stopping(source->rows)) {
        if (source_goes_on(source)) {
            source->kind->run(source);
            source_leave(source);
            unread = 0;
        } else if (instant_now().ns >= watch_at.ns) {
            source_watch(source, &unread);
            watch_at = instant_add_ms(instant_now(), SOURCE_WATCH_MS);
        } else {
            poll(&stop, 1, SOURCE_LOOK_MS);
        }
    }
    return NULL;
}

static enum error_code source_start(struct source_thread *source,
                                    const struct sources_options *options)
{
    struct source_rows_options rows = options->rows;

    rows.tenant = bytes_of(source->tenant);
    source->rows = source_rows_create(&rows);
    if (!source->rows)
        return ERROR_NO_MEMORY;
    source->has_thread =
        !thread_start(&source->thread, source_run, source, "source %.8s", source->name);
    return source->has_thread ? ERROR_NONE : ERROR_NO_MEMORY;
}

enum error_code sources_start(const struct sources_options *options, struct sources **ret_sources,
                              struct error *ret_error)
{
    struct sources *sources;
    enum error_code code = sources_parse(options->config->sources, &sources, ret_error);

    if (code)
        return code;
    sources->options = *options;
    for (size_t i = 0; i < sources->count && !code; i++)
        code = source_start(&sources->all[i], &sources->options);
    if (code) {
        sources_stop(sources);
        return error_set(ret_error, code, "a source: out of memory or threads");
    }
    *ret_sources = sources;
    return ERROR_NONE;
}

void sources_stop(struct sources *sources)
{
    if (!sources)
        return;
    for (size_t i = 0; i < sources->count; i++)
        if (sources->all[i].rows)
            source_rows_stop(sources->all[i].rows);
    for (size_t i = 0; i < sources->count; i++)
        if (sources->all[i].has_thread)
            pthread_join(sources->all[i].thread, NULL);
    sources_free(sources);
}

bool source_get_status(struct sources *sources, size_t index, struct source_status *ret_status)
{
    if (!sources || index >= sources->count)
        return false;
    pthread_mutex_lock(&sources->lock);
    *ret_status = sources->all[index].status;
    pthread_mutex_unlock(&sources->lock);
    return true;
}

/* ---- for the kinds ---- */

const char *source_name(const struct source_thread *source)
{
    return source->name;
}

const char *source_url(const struct source_thread *source)
{
    return source->url;
}

void source_name_holder(const struct source_thread *source, char ret_text[SOURCE_HOLDER_SIZE])
{
    node_name_log(source->sources->options.rows.node, ret_text, SOURCE_HOLDER_SIZE);
}

struct source_rows *source_rows_of(const struct source_thread *source)
{
    return source->rows;
}

const struct config *source_config(const struct source_thread *source)
{
    return source->sources->options.config;
}

bool source_goes_on(const struct source_thread *source)
{
    struct node *node = source->sources->options.rows.node;
    uint32_t owner;

    return !source_rows_is_stopping(source->rows) &&
           node_owns(node, name_partition(node, bytes_of(source->name)), &owner);
}

/* Shows how many sources are read, how many stand still, the first of these, and the highest age.
 * The caller holds the lock. The cause may name hosts and users, which are for the log alone. */
static void sources_show(struct sources *sources)
{
    struct metrics *metrics = sources->options.metrics;
    char trouble[NODE_SOURCE_TROUBLE_SIZE] = "";
    uint64_t read = 0, still = 0, age_ms = 0;

    for (size_t i = 0; i < sources->count; i++) {
        const struct source_status *status = &sources->all[i].status;

        read += status->is_reading;
        if (!status->is_reading && status->tries && still++ == 0)
            snprintf(trouble, sizeof(trouble),
                     "source %s is not read: source_still of the log says why", status->name);
        if (sources->all[i].age_ms > age_ms)
            age_ms = sources->all[i].age_ms;
    }
    metrics_set(metrics, METRIC_SOURCES_READ, read);
    metrics_set(metrics, METRIC_SOURCES_STILL, still);
    metrics_set(metrics, METRIC_SOURCE_AGE_MS, age_ms);
    node_set_source_trouble(sources->options.rows.node, trouble);
}

void source_leave(struct source_thread *source)
{
    pthread_mutex_lock(&source->sources->lock);
    source->status.is_reading = false;
    source->status.tries = 0;
    source->age_ms = 0;
    sources_show(source->sources);
    pthread_mutex_unlock(&source->sources->lock);
}

void source_tell(struct source_thread *source, const char *cause)
{
    pthread_mutex_lock(&source->sources->lock);
    source->status.reads += !cause && !source->status.is_reading;
    source->status.is_reading = !cause;
    source->status.tries += cause != NULL;
    snprintf(source->status.cause, sizeof(source->status.cause), "%s", cause ? cause : "");
    sources_show(source->sources);
    pthread_mutex_unlock(&source->sources->lock);
}

void source_set_age(struct source_thread *source, uint64_t age_ms)
{
    pthread_mutex_lock(&source->sources->lock);
    source->age_ms = age_ms;
    sources_show(source->sources);
    pthread_mutex_unlock(&source->sources->lock);
}

void source_wait(struct source_thread *source, uint64_t ms, int fd)
{
    struct pollfd fds[] = {{.fd = source_rows_fd(source->rows), .events = POLLIN},
                           {.fd = fd, .events = POLLIN}};

    if (!source_rows_is_stopping(source->rows))
        poll(fds, 2, (int)ms);
}

void source_repeat(struct source_thread *source, const char *(*read)(void *reader), void *reader)
{
    uint64_t pause_ms = SOURCE_RETRY_MS_MIN;

    while (source_goes_on(source)) {
        const struct instant began = instant_now();
        const char *cause = read(reader);

        if (!source_goes_on(source))
            break;
        source_tell(source, cause);
        if (instant_since_ns(began, instant_now()) / 1000000 > SOURCE_RETRY_MS_MAX)
            pause_ms = SOURCE_RETRY_MS_MIN;
        source_wait(source, pause_ms, -1);
        pause_ms = pause_ms < SOURCE_RETRY_MS_MAX ? 2 * pause_ms : pause_ms;
    }
}

void source_count(struct source_thread *source, const struct source_row *batch, size_t count)
{
    struct metrics *metrics = source->sources->options.metrics;
    const struct source_row *last = NULL;
    uint64_t done = 0, refused = 0;

    for (size_t i = 0; i < count; i++) {
        done += batch[i].state == SOURCE_ROW_DONE;
        refused += batch[i].state == SOURCE_ROW_REFUSED;
        last = batch[i].state == SOURCE_ROW_REFUSED ? &batch[i] : last;
    }
    metrics_add(metrics, METRIC_SOURCE_TAKEN, done);
    metrics_add(metrics, METRIC_SOURCE_REFUSED, refused);
    if (!last)
        return;
    pthread_mutex_lock(&source->sources->lock);
    source->status.refused += refused;
    snprintf(source->status.problem, sizeof(source->status.problem), "%.*s",
             (int)last->problem.size, last->problem.data);
    pthread_mutex_unlock(&source->sources->lock);
}

void source_observe(struct source_thread *source, uint64_t us)
{
    metrics_observe_us(source->sources->options.metrics, HISTOGRAM_SOURCE, us);
}
