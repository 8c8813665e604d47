/* The thread of one broker connection: connects, sends messages, times them out, hands outcomes
 * back. */
#include "delivery/broker_connection.h"

#include "delivery/broker_message.h"
#include "delivery/lapse.h"
#include "timer/timer.h"
#include "sys/clock.h"
#include "sys/mailbox.h"
#include "sys/process.h"

#include <assert.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* A turn of the loop: connects if it is time; waits, which also receives outcomes; takes posted
 * deliveries; sends as many as there is room for; ends those that timed out; gives all ended
 * deliveries back.
 *
 * A message in flight has a slot. Its ticket is the slot's number and generation, so a late outcome
 * is not mistaken for that of the slot's next message. */

/* Maximum of messages sent in one turn, so that outcomes are read meanwhile. */
#define PUBLISH_MAX 256

/* Interval at which time-outs are checked, in milliseconds. */
#define SWEEP_MS 50

/* Minimum time after which a postponed delivery is tried again, in milliseconds. The maximum is
 * twice as long. */
#define POSTPONE_MS 1000

static const struct retry_policy connect_policy = {.base_ms = 100, .cap_ms = 5000};

struct slot {
    struct delivery *delivery; /* NULL if the slot is free */
    uint32_t generation;
    uint32_t next_free;
    struct instant deadline;
};

struct broker_sink {
    struct slot *slots;
    uint32_t capacity, free; /* first free slot; `capacity` if there is none */
    uint32_t inflight;
    uint64_t inflight_bytes;
    struct instant unanswered_since; /* time of the first message sent since the last outcome */
    bool is_proven;                  /* the broker has confirmed a message on this connection */
    struct list ended;               /* deliveries to give back at the end of the turn */
};

struct broker_connection {
    struct broker_connection_options options;
    pthread_t thread;
    struct mailbox mailbox; /* deliveries, and the messages for drain, retire and stop */
    struct list stop_message, drain_message, retire_message;
    atomic_bool is_stop_posted;
    /* Fields of the connection's thread. */
    void *client;
    struct broker_sink sink;
    struct broker_settings settings;
    struct broker_builder builder;
    struct random random;
    struct list waiting; /* deliveries that were not sent yet */
    bool is_up, is_draining, is_retiring, is_stopping;
    bool is_full;              /* the client had no room for the first delivery in `waiting` */
    bool has_more;             /* PUBLISH_MAX ended the turn before all deliveries were sent */
    struct instant connect_at; /* time of the next attempt to connect, if not connected */
    struct instant swept_at;
    uint32_t failures; /* consecutive failures to connect */
    struct error cause;
    pthread_mutex_t status_lock;
    struct broker_status status; /* guarded by status_lock */
};

#define NEVER ((struct instant){UINT64_MAX})

static const char stopping[] = "the service is stopping";

/* ---- slots ---- */

static bool connection_sink_init(struct broker_sink *sink, uint32_t capacity)
{
    *sink = (struct broker_sink){.capacity = capacity, .unanswered_since = NEVER};
    list_init(&sink->ended);
    sink->slots = calloc(capacity, sizeof(*sink->slots));
    if (!sink->slots)
        return false;
    for (uint32_t i = 0; i < capacity; i++)
        sink->slots[i].next_free = i + 1;
    return true;
}

static uint64_t connection_take_slot(struct broker_sink *sink, struct delivery *delivery,
                                     struct instant now)
{
    uint32_t index = sink->free;
    struct slot *slot = &sink->slots[index];

    assert(index < sink->capacity);
    sink->free = slot->next_free;
    slot->delivery = delivery;
    slot->generation++;
    slot->deadline = instant_add_ms(now, delivery->timer->retry.timeout_ms);
    sink->inflight++;
    sink->inflight_bytes += delivery->timer->texts.payload.size;
    return (uint64_t)slot->generation << 32 | index;
}

static struct delivery *connection_free_slot(struct broker_sink *sink, struct slot *slot)
{
    struct delivery *delivery = slot->delivery;

    slot->delivery = NULL;
    slot->next_free = sink->free;
    sink->free = (uint32_t)(slot - sink->slots);
    sink->inflight--;
    sink->inflight_bytes -= delivery->timer->texts.payload.size;
    return delivery;
}

static void broker_connection_end(struct broker_sink *sink, struct delivery *delivery,
                                  enum delivery_result result, const char *error)
{
    delivery->outcome = (struct delivery_outcome){
        .result = result, .retry_after_ms = result == DELIVERY_POSTPONED ? POSTPONE_MS : 0};
    snprintf(delivery->outcome.error, sizeof(delivery->outcome.error), "%.*s",
             (int)sizeof(delivery->outcome.error) - 1, error);
    delivery->ended_us = wall_now_us();
    list_push(&sink->ended, &delivery->link);
}

void broker_outcome(struct broker_sink *sink, uint64_t ticket, enum delivery_result result,
                    const char *error)
{
    uint32_t index = (uint32_t)ticket;
    struct slot *slot = &sink->slots[index];

    assert(index < sink->capacity && result != DELIVERY_POSTPONED);
    sink->is_proven = sink->is_proven || result == DELIVERY_DONE;
    if (slot->delivery && slot->generation == ticket >> 32)
        broker_connection_end(sink, connection_free_slot(sink, slot), result, error);
    sink->unanswered_since = sink->inflight > 0 ? instant_now() : NEVER;
}

/* ---- the connection ---- */

static void connection_tell_status(struct broker_connection *connection)
{
    pthread_mutex_lock(&connection->status_lock);
    connection->status.is_up = connection->is_up;
    connection->status.connects += connection->is_up;
    snprintf(connection->status.cause, sizeof(connection->status.cause), "%.150s",
             connection->is_up ? "" : connection->cause.text);
    pthread_mutex_unlock(&connection->status_lock);
}

static void connection_pause_before_connect(struct broker_connection *connection)
{
    uint64_t pause_ms = 0;

    if (connection->failures > 0)
        pause_ms = retry_delay_ms(&connect_policy, connection->failures, 0, &connection->random);
    connection->connect_at = instant_add_ms(instant_now(), pause_ms);
}

static void connection_try_connect(struct broker_connection *connection)
{
    error_set(&connection->cause, ERROR_IO, "unknown reason");
    connection->is_up =
        connection->options.backend->connect(connection->client, &connection->cause) == ERROR_NONE;
    connection->sink.is_proven = false;
    connection->is_full = false;
    if (!connection->is_up) {
        connection->failures++;
        connection_pause_before_connect(connection);
    }
    connection_tell_status(connection);
}

static void connection_fail_inflight(struct broker_connection *connection, const char *error)
{
    struct broker_sink *sink = &connection->sink;

    for (uint32_t i = 0; sink->inflight > 0 && i < sink->capacity; i++)
        if (sink->slots[i].delivery)
            broker_connection_end(sink, connection_free_slot(sink, &sink->slots[i]),
                                  DELIVERY_FAILED, error);
    sink->unanswered_since = NEVER;
}

/* Handles the loss of the connection. If it never confirmed a message, it is not made again at
 * once, because the first message may have been the cause. */
static void broker_connection_lose(struct broker_connection *connection)
{
    char error[sizeof(connection->cause.text)];

    snprintf(error, sizeof(error), "connection lost before the broker confirmed: %.200s",
             connection->cause.text);
    connection->options.backend->disconnect(connection->client);
    pthread_mutex_lock(&connection->status_lock);
    snprintf(connection->status.lost, sizeof(connection->status.lost), "%.150s",
             connection->cause.text);
    pthread_mutex_unlock(&connection->status_lock);
    connection->is_up = false;
    connection->failures = connection->sink.is_proven ? 0 : connection->failures + 1;
    connection_fail_inflight(connection, error);
    connection_pause_before_connect(connection);
    connection_tell_status(connection);
}

/* ---- one turn ---- */

static void broker_connection_take_messages(struct broker_connection *connection)
{
    struct list messages;

    list_init(&messages);
    mailbox_take(&connection->mailbox, &messages);
    LIST_FOR_EACH (&messages, message) {
        if (message != &connection->stop_message && message != &connection->drain_message &&
            message != &connection->retire_message)
            continue;
        list_remove(message);
        if (message == &connection->stop_message)
            connection->is_stopping = true;
        else
            connection->is_draining = true;
        connection->is_retiring |= message == &connection->retire_message;
    }
    list_join(&connection->waiting, &messages);
}

static bool broker_connection_has_room(const struct broker_connection *connection,
                                       const struct delivery *delivery)
{
    const struct broker_sink *sink = &connection->sink;
    uint64_t bytes_max = connection->options.inflight_bytes_max;
    uint64_t size = delivery->timer->texts.payload.size;

    return sink->inflight == 0 ||
           (sink->inflight < sink->capacity && sink->inflight_bytes < bytes_max &&
            size <= bytes_max - sink->inflight_bytes);
}

/* Returns false if the client has no room. */
static bool broker_connection_publish(struct broker_connection *connection,
                                      struct delivery *delivery)
{
    const struct broker_backend *backend = connection->options.backend;
    struct broker_sink *sink = &connection->sink;
    struct broker_message message;
    struct instant now = instant_now();
    struct error error;
    enum error_code code = broker_message_build(&connection->builder, delivery, &message, &error);

    list_remove(&delivery->link);
    delivery->started_us = wall_now_us();
    if (code) {
        broker_connection_end(sink, delivery, DELIVERY_FAILED, error.text);
        return true;
    }
    uint64_t ticket = connection_take_slot(sink, delivery, now);
    if (backend->publish(connection->client, ticket, &message)) {
        if (sink->inflight > 0 && sink->unanswered_since.ns == UINT64_MAX)
            sink->unanswered_since = now;
        return true;
    }
    list_push_front(&connection->waiting,
                    &connection_free_slot(sink, &sink->slots[(uint32_t)ticket])->link);
    return false;
}

static void connection_publish_waiting(struct broker_connection *connection)
{
    connection->has_more = connection->is_full = false;
    for (int i = 0; connection->is_up && !list_is_empty(&connection->waiting); i++) {
        struct delivery *delivery = list_item(connection->waiting.next, struct delivery, link);

        if (delivery_has_lapsed(delivery)) {
            list_remove(&delivery->link);
            delivery_return(delivery);
            list_push(&connection->sink.ended, &delivery->link);
            continue;
        }
        if (!broker_connection_has_room(connection, delivery))
            return;
        connection->has_more = i == PUBLISH_MAX;
        if (connection->has_more)
            return;
        connection->is_full = !broker_connection_publish(connection, delivery);
        if (connection->is_full)
            return;
    }
}

static void connection_describe_wait(const struct broker_connection *connection, char ret_text[160])
{
    const char *cause = connection->cause.text;

    if (connection->is_up)
        snprintf(ret_text, 160, "no room at broker \"%s\", which is slow",
                 connection->options.name);
    else
        snprintf(ret_text, 160, "no connection to broker \"%s\"%s%.80s", connection->options.name,
                 *cause ? ": " : "", cause);
}

/* Postpones waiting deliveries whose attempt would be over, counted from when the engine handed
 * them out. After a step of the wall clock some come back sooner or later, which is harmless. */
static void connection_postpone_waiting(struct broker_connection *connection)
{
    bool at_once = connection->is_stopping || (connection->is_draining && !connection->is_up);
    uint64_t now_us = wall_now_us();
    char error[160];

    if (connection->is_stopping)
        snprintf(error, sizeof(error), "%s", stopping);
    else
        connection_describe_wait(connection, error);
    LIST_FOR_EACH (&connection->waiting, link) {
        struct delivery *delivery = list_item(link, struct delivery, link);
        uint64_t waited_us = now_us > delivery->handed_us ? now_us - delivery->handed_us : 0;

        if (!at_once && waited_us / 1000 < delivery->timer->retry.timeout_ms)
            continue;
        list_remove(link);
        delivery->started_us = 0;
        broker_connection_end(&connection->sink, delivery, DELIVERY_POSTPONED, error);
    }
}

static void connection_end_overdue(struct broker_connection *connection, struct instant now)
{
    struct broker_sink *sink = &connection->sink;
    uint32_t left = sink->inflight;

    for (uint32_t i = 0; left > 0 && i < sink->capacity; i++) {
        struct slot *slot = &sink->slots[i];

        if (!slot->delivery)
            continue;
        left--;
        if (slot->deadline.ns > now.ns)
            continue;
        char error[80];
        snprintf(error, sizeof(error), "the broker did not confirm within %llu ms",
                 (unsigned long long)slot->delivery->timer->retry.timeout_ms);
        broker_connection_end(sink, connection_free_slot(sink, slot), DELIVERY_FAILED, error);
    }
    if (connection->is_up && sink->unanswered_since.ns != UINT64_MAX &&
        instant_since_ns(sink->unanswered_since, now) >= connection->options.silence_ms * 1000000) {
        error_set(&connection->cause, ERROR_IO, "the broker does not answer");
        broker_connection_lose(connection);
    }
}

static void broker_connection_sweep(struct broker_connection *connection)
{
    struct instant now = instant_now();

    if (!connection->is_draining &&
        instant_since_ns(connection->swept_at, now) < SWEEP_MS * UINT64_C(1000000))
        return;
    connection->swept_at = now;
    connection_end_overdue(connection, now);
    connection_postpone_waiting(connection);
}

static void broker_connection_hand_back(struct broker_connection *connection)
{
    struct list *ended = &connection->sink.ended;

    if (list_is_empty(ended))
        return;
    connection->options.done(connection->options.context, ended);
    assert(list_is_empty(ended));
}

/* Returns how long the loop may wait in milliseconds; -1 for no limit. */
static int broker_connection_wait_ms(const struct broker_connection *connection)
{
    const struct broker_sink *sink = &connection->sink;

    if (connection->has_more)
        return 0;
    uint64_t wait_ms = UINT64_MAX;
    if (!list_is_empty(&connection->waiting) || sink->inflight > 0 ||
        sink->unanswered_since.ns != UINT64_MAX)
        wait_ms = SWEEP_MS;
    if (!connection->is_up) {
        uint64_t left_ms =
            (instant_since_ns(instant_now(), connection->connect_at) + 999999) / 1000000;

        wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
    }
    return wait_ms == UINT64_MAX ? -1 : (int)wait_ms;
}

static void broker_connection_wait_for_work(struct broker_connection *connection)
{
    int timeout_ms = broker_connection_wait_ms(connection);

    if (!connection->is_up) {
        mailbox_wait(&connection->mailbox, (uint64_t)timeout_ms * 1000000);
        return;
    }
    error_set(&connection->cause, ERROR_IO, "unknown reason");
    if (connection->options.backend->wait(connection->client, mailbox_fd(&connection->mailbox),
                                          timeout_ms, &connection->cause))
        broker_connection_lose(connection);
}

static void *broker_connection_run(void *context)
{
    struct broker_connection *connection = context;

    for (;;) {
        if (!connection->is_up && instant_now().ns >= connection->connect_at.ns)
            connection_try_connect(connection);
        broker_connection_wait_for_work(connection);
        broker_connection_take_messages(connection);
        if (connection->is_stopping)
            break;
        connection_publish_waiting(connection);
        broker_connection_sweep(connection);
        broker_connection_hand_back(connection);
        if (connection->is_retiring && list_is_empty(&connection->waiting) &&
            connection->sink.inflight == 0)
            break;
    }
    connection->options.backend->disconnect(connection->client);
    connection_fail_inflight(connection, stopping);
    connection_postpone_waiting(connection);
    broker_connection_hand_back(connection);
    return NULL;
}

/* ---- start and stop ---- */

/* Starts the thread with all signals blocked, because the main thread handles them. Threads of
 * client libraries inherit this mask. */
static bool broker_connection_start_thread(struct broker_connection *connection)
{
    sigset_t all;

    sigfillset(&all);
    sigset_t before;
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = thread_start(&connection->thread, broker_connection_run, connection, "broker-%s",
                                connection->options.name) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static void broker_connection_free_all(struct broker_connection *connection)
{
    if (connection->client)
        connection->options.backend->destroy(connection->client);
    broker_builder_deinit(&connection->builder);
    free(connection->sink.slots);
    pthread_mutex_destroy(&connection->status_lock);
    mailbox_deinit(&connection->mailbox);
    free(connection);
}

enum error_code broker_connection_start(const struct broker_connection_options *options,
                                        struct broker_connection **ret_connection,
                                        struct error *ret_error)
{
    struct broker_connection *connection = calloc(1, sizeof(*connection));

    assert(options->done && options->inflight_max > 0);
    if (!connection)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    connection->options = *options;
    connection->random = random_seeded(options->seed);
    connection->status =
        (struct broker_status){.name = options->name, .scheme = options->backend->scheme};
    list_init(&connection->stop_message);
    list_init(&connection->drain_message);
    list_init(&connection->retire_message);
    list_init(&connection->waiting);
    broker_builder_init(&connection->builder);
    if (mailbox_init(&connection->mailbox)) {
        free(connection);
        return error_set(ret_error, ERROR_IO, "no descriptor left for brokers");
    }
    pthread_mutex_init(&connection->status_lock, NULL);
    connection->settings = (struct broker_settings){
        .url = options->url,
        .client_name = options->client_name,
        .connect_timeout_ms = options->connect_timeout_ms,
        .inflight_max = options->inflight_max,
        .sink = &connection->sink,
    };
    enum error_code code;
    if (!connection_sink_init(&connection->sink, options->inflight_max))
        code = error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    else
        code = options->backend->create(&connection->settings, &connection->client, ret_error);
    if (!code && !broker_connection_start_thread(connection))
        code = error_set(ret_error, ERROR_IO, "no thread left for brokers");
    if (code) {
        broker_connection_free_all(connection);
        return code;
    }
    *ret_connection = connection;
    return ERROR_NONE;
}

void broker_connection_post(struct broker_connection *connection, struct list *deliveries)
{
    mailbox_post_all(&connection->mailbox, deliveries);
}

void broker_connection_drain(struct broker_connection *connection)
{
    mailbox_post(&connection->mailbox, &connection->drain_message);
}

void broker_connection_retire(struct broker_connection *connection)
{
    mailbox_post(&connection->mailbox, &connection->retire_message);
}

void broker_connection_stop_soon(struct broker_connection *connection)
{
    if (!atomic_exchange(&connection->is_stop_posted, true))
        mailbox_post(&connection->mailbox, &connection->stop_message);
}

void broker_connection_stop(struct broker_connection *connection)
{
    broker_connection_stop_soon(connection);
    pthread_join(connection->thread, NULL);
    for (;;) { /* repeated, because `done` may post further deliveries */
        broker_connection_take_messages(connection);
        if (list_is_empty(&connection->waiting))
            break;
        connection_postpone_waiting(connection);
        broker_connection_hand_back(connection);
    }
    broker_connection_free_all(connection);
}

void broker_connection_status(struct broker_connection *connection,
                              struct broker_status *ret_status)
{
    pthread_mutex_lock(&connection->status_lock);
    *ret_status = connection->status;
    pthread_mutex_unlock(&connection->status_lock);
}
