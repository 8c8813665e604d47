/* log_postgres.c - the log of a partition in a table of PostgreSQL; see log_postgres.h. */
#include "log/postgres/log_postgres_client.h"

#include "sys/clock.h"
#include "sys/process.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    /* time without a confirmed append, for LOG_SLOW; while no server answers, for LOG_ALONE */
    LOG_POSTGRES_SLOW_MS = 1400,
    LOG_POSTGRES_ALONE_MS = 700,
    LOG_POSTGRES_SILENT_MS = 1000, /* time without an answer after which no server answers */
};

static struct log_postgres *log_postgres_of(struct log *log)
{
    return (struct log_postgres *)(void *)log;
}

/* ---- the owner's calls ---- */

static enum error_code log_postgres_follow(struct log *head, enum log_from from, uint64_t number,
                                           struct error *ret_error)
{
    struct log_postgres *log = log_postgres_of(head);

    (void)ret_error;
    pthread_mutex_lock(&log->client->lock);
    log_postgres_state_follow(&log->state, from, number);
    pthread_mutex_unlock(&log->client->lock);
    log_postgres_client_wake(log->client);
    return ERROR_NONE;
}

static enum error_code log_postgres_append(struct log *head, uint64_t ticket, struct bytes bytes,
                                           struct error *ret_error)
{
    struct log_postgres *log = log_postgres_of(head);
    const struct instant now = instant_now();

    pthread_mutex_lock(&log->client->lock);
    const struct instant until = instant_add_ms(now, log->client->options.append_timeout_ms);
    const enum error_code code =
        log_postgres_state_append(&log->state, ticket, bytes, until, ret_error);
    if (!code && log->unlanded_at.ns == 0)
        log->unlanded_at = now;
    if (log_postgres_state_has_event(&log->state)) /* it is refused at once */
        eventfd_write(log->event_fd, 1);
    pthread_mutex_unlock(&log->client->lock);
    if (!code)
        log_postgres_client_wake(log->client);
    return code;
}

static enum error_code log_postgres_trim(struct log *head, uint64_t before, struct error *ret_error)
{
    struct log_postgres *log = log_postgres_of(head);

    pthread_mutex_lock(&log->client->lock);
    const bool is_free = !log->wants_trim && log->trimmed.kind == LOG_NOTHING;
    if (is_free) {
        log->wants_trim = true;
        log->trim_before = before;
    }
    pthread_mutex_unlock(&log->client->lock);
    if (!is_free)
        return error_set(ret_error, ERROR_OVERLOADED, "another trim is in flight");
    log_postgres_client_wake(log->client);
    return ERROR_NONE;
}

/* ---- events ---- */

static enum log_kind log_postgres_take(struct log_postgres *log, struct log_event *ret_event)
{
    struct log_postgres_state *state = &log->state;

    pthread_mutex_lock(&log->client->lock);
    if (log->trimmed.kind != LOG_NOTHING) {
        *ret_event = log->trimmed;
        log->trimmed = (struct log_event){.kind = LOG_NOTHING};
    } else {
        const bool had_records = !list_is_empty(&state->records);

        log_postgres_state_take(state, ret_event);
        if (had_records && list_is_empty(&state->records)) /* the reader goes on */
            log_postgres_client_wake(log->client);
    }
    pthread_mutex_unlock(&log->client->lock);
    return ret_event->kind;
}

static enum log_kind log_postgres_wait(struct log *head, uint64_t timeout_ms,
                                       struct log_event *ret_event)
{
    struct log_postgres *log = log_postgres_of(head);
    struct pollfd fd = {.fd = log->event_fd, .events = POLLIN};
    eventfd_t count;

    if (log_postgres_take(log, ret_event) || timeout_ms == 0)
        return ret_event->kind;
    if (poll(&fd, 1, (int)(timeout_ms < 1000 ? timeout_ms : 1000)) > 0)
        eventfd_read(log->event_fd, &count);
    return log_postgres_take(log, ret_event);
}

static void log_postgres_wake(struct log *head)
{
    eventfd_write(log_postgres_of(head)->event_fd, 1);
}

static enum log_trouble log_postgres_trouble(const struct log *head, char *ret_text, size_t size)
{
    const struct log_postgres *log = (const void *)head;
    struct log_postgres_client *client = log->client;
    const struct instant now = instant_now();

    pthread_mutex_lock(&client->lock);
    const bool is_alone = now.ns >= instant_add_ms(client->answered_at, LOG_POSTGRES_SILENT_MS).ns;
    const uint64_t patience_ms = is_alone ? LOG_POSTGRES_ALONE_MS : LOG_POSTGRES_SLOW_MS;
    const bool has_trouble =
        log->unlanded_at.ns && now.ns >= instant_add_ms(log->unlanded_at, patience_ms).ns;
    if (has_trouble && is_alone)
        snprintf(ret_text, size, "no PostgreSQL server answers: %s",
                 log_postgres_client_cause(client, "it is silent"));
    else if (has_trouble)
        snprintf(ret_text, size, "no append is acknowledged by PostgreSQL: %s",
                 log_postgres_client_cause(client, "does a synchronous standby not answer?"));
    pthread_mutex_unlock(&client->lock);
    return !has_trouble ? LOG_FINE : is_alone ? LOG_ALONE : LOG_SLOW;
}

static int log_postgres_fd(const struct log *log)
{
    return ((const struct log_postgres *)(const void *)log)->event_fd;
}

/* ---- open and close ---- */

static void log_postgres_close(struct log *head)
{
    struct log_postgres *log = log_postgres_of(head);
    struct log_postgres_client *client = log->client;

    pthread_mutex_lock(&client->lock);
    list_remove(&log->link);
    for (size_t i = 0; i < LOG_POSTGRES_LANES; i++)
        for (size_t k = 0; k < client->lanes[i].count; k++)
            if (client->lanes[i].logs[k] == log)
                client->lanes[i].logs[k] = NULL;
    pthread_mutex_unlock(&client->lock);
    log_postgres_state_deinit(&log->state);
    close(log->event_fd);
    free(log);
}

enum error_code log_postgres_open(struct log_postgres_client *client, uint32_t partition,
                                  struct log **ret_log, struct error *ret_error)
{
    static const struct log_ops ops = {
        .follow = log_postgres_follow,
        .append = log_postgres_append,
        .trim = log_postgres_trim,
        .wait = log_postgres_wait,
        .wake = log_postgres_wake,
        .trouble = log_postgres_trouble,
        .fd = log_postgres_fd,
        .close = log_postgres_close,
    };
    struct log_postgres *log = calloc(1, sizeof(*log));

    if (!log)
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    log->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (log->event_fd < 0) {
        free(log);
        return error_set(ret_error, ERROR_IO, "no descriptor left");
    }
    log->log.ops = &ops;
    log->client = client;
    log->partition = partition;
    log_postgres_state_init(&log->state);
    log->state.is_control = partition == LOG_POSTGRES_CONTROL;
    pthread_mutex_lock(&client->lock);
    list_push(&client->logs, &log->link);
    pthread_mutex_unlock(&client->lock);
    *ret_log = &log->log;
    return ERROR_NONE;
}

/* ---- the client ---- */

static void log_postgres_client_free(struct log_postgres_client *client)
{
    for (size_t i = 0; i < LOG_POSTGRES_LANES; i++) {
        struct log_postgres_lane *lane = &client->lanes[i];

        postgres_connection_close(&lane->connection);
        for (size_t k = 0; k < sizeof(lane->numbers) / sizeof(lane->numbers[0]); k++)
            buffer_deinit(&lane->numbers[k]);
        buffer_deinit(&lane->bodies);
    }
    postgres_connection_close(&client->reader);
    postgres_connection_close(&client->trimmer);
    for (size_t i = 0; i < LOG_POSTGRES_SESSIONS; i++)
        postgres_connection_close(&client->sessions[i].connection);
    buffer_deinit(&client->numbers[0]);
    buffer_deinit(&client->numbers[1]);
    free(client->read.logs);
    if (client->event_fd >= 0)
        close(client->event_fd);
    pthread_cond_destroy(&client->session_freed);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

enum error_code log_postgres_client_open(const struct log_postgres_options *options,
                                         struct log_postgres_client **ret_client,
                                         struct error *ret_error)
{
    struct log_postgres_client *client = calloc(1, sizeof(*client));

    if (!client)
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    client->options = *options;
    list_init(&client->logs);
    pthread_mutex_init(&client->lock, NULL);
    instant_condition_init(&client->session_freed);
    client->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    enum error_code code = client->event_fd < 0
                               ? error_set(ret_error, ERROR_IO, "no descriptor left")
                               : log_postgres_client_prepare(client, ret_error);
    if (!code && thread_start(&client->thread, log_postgres_client_run, client, "tw-postgres"))
        code = error_set(ret_error, ERROR_IO, "no thread for the log on PostgreSQL");
    client->has_thread = !code;
    if (code)
        log_postgres_client_free(client);
    else
        *ret_client = client;
    return code;
}

void log_postgres_client_close(struct log_postgres_client *client)
{
    if (!client)
        return;
    if (client->has_thread) {
        atomic_store(&client->ends, true);
        log_postgres_client_wake(client);
        pthread_join(client->thread, NULL);
    }
    log_postgres_client_free(client);
}
