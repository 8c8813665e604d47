/*
 * broker_fixture.h - what the tests of brokers stand on: a backend that does what a test says, and
 * deliveries that can be waited for.
 *
 * No test sleeps: each waits until something has happened, and fails after WAIT_S.
 */
#ifndef TICKWHEEL_DELIVERY_BROKER_FIXTURE_H
#define TICKWHEEL_DELIVERY_BROKER_FIXTURE_H

#include "delivery/brokers.h"
#include "sys/clock.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_S        60
#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))
#define DUE_MS        UINT64_C(1795219199250) /* 2026-11-20T23:59:59.250Z */
#define FAKE_SENT_MAX 200000

/* ---- a broker that does what it is told ---- */

struct fake_answer {
    uint64_t ticket;
    enum delivery_result result;
};

/* A broker that does what a test says. The path of its URL is its address in memory, by which a
 * client finds it. */
struct fake {
    char text[80];
    struct broker_url url;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    int order_fd;    /* eventfd that is readable while the client has something to do */
    bool is_down;    /* connect fails */
    bool is_full;    /* publish accepts no message */
    bool answers;    /* each message is answered at once, with `answer` */
    bool is_to_lose; /* the next wait loses the connection */
    enum delivery_result answer;
    struct fake_answer owed[1024];
    size_t owed_count;
    uint64_t *sent; /* tickets of the messages sent, in order */
    size_t sent_count, connects, tries;
    size_t open; /* messages of the current connection that were not answered */
    size_t open_max;
    const struct broker_settings *settings;
};

static inline void fake_tell(struct fake *fake)
{
    eventfd_write(fake->order_fd, 1);
    pthread_cond_broadcast(&fake->changed);
}

static inline void fake_version(char ret_text[BROKER_VERSION_SIZE])
{
    snprintf(ret_text, BROKER_VERSION_SIZE, "fake 1.0");
}

static inline const char *fake_refusal(const struct bytes names[], struct bytes key)
{
    (void)key;
    return bytes_equal(names[0], BYTES("no where")) ? "leads nowhere" : NULL;
}

static inline enum error_code fake_create(const struct broker_settings *settings, void **ret_client,
                                          struct error *ret_error)
{
    struct fake *fake = (struct fake *)(uintptr_t)strtoull(settings->url->path, NULL, 16);

    if (!fake)
        return error_set(ret_error, ERROR_INVALID, "its path is wrong");
    if (settings->sink) /* without a sink, the settings are only checked */
        fake->settings = settings;
    *ret_client = fake;
    return ERROR_NONE;
}

static inline enum error_code fake_connect(void *client, struct error *ret_error)
{
    struct fake *fake = client;
    bool is_down;

    pthread_mutex_lock(&fake->lock);
    is_down = fake->is_down;
    fake->tries++;
    fake->connects += !is_down;
    fake->open = fake->owed_count = 0;
    fake->is_to_lose = false;
    pthread_cond_broadcast(&fake->changed);
    pthread_mutex_unlock(&fake->lock);
    return is_down ? error_set(ret_error, ERROR_IO, "it is away") : ERROR_NONE;
}

static inline bool fake_publish(void *client, uint64_t ticket, const struct broker_message *message)
{
    struct fake *fake = client;
    bool takes;

    assert_true(message->names[0].size > 0 && message->field_count >= 5);
    pthread_mutex_lock(&fake->lock);
    takes = !fake->is_full;
    if (takes) {
        assert_true(fake->sent_count < FAKE_SENT_MAX);
        fake->sent[fake->sent_count++] = ticket;
        fake->open++;
        fake->open_max = fake->open > fake->open_max ? fake->open : fake->open_max;
        if (fake->answers && fake->owed_count < COUNT(fake->owed))
            fake->owed[fake->owed_count++] = (struct fake_answer){ticket, fake->answer};
    }
    fake_tell(fake);
    pthread_mutex_unlock(&fake->lock);
    return takes;
}

static inline enum error_code fake_wait(void *client, int wake_fd, int timeout_ms,
                                        struct error *ret_error)
{
    struct fake *fake = client;
    struct pollfd polled[2] = {{.fd = wake_fd, .events = POLLIN},
                               {.fd = fake->order_fd, .events = POLLIN}};
    struct fake_answer owed[COUNT(fake->owed)];
    size_t count;
    bool is_to_lose;
    eventfd_t ignored;

    if (poll(polled, 2, timeout_ms) > 0 && polled[1].revents)
        eventfd_read(fake->order_fd, &ignored);
    pthread_mutex_lock(&fake->lock);
    is_to_lose = fake->is_to_lose;
    count = fake->owed_count;
    memcpy(owed, fake->owed, count * sizeof(*owed));
    fake->owed_count = 0;
    fake->open -= count < fake->open ? count : fake->open;
    pthread_mutex_unlock(&fake->lock);
    for (size_t i = 0; i < count; i++)
        broker_outcome(fake->settings->sink, owed[i].ticket, owed[i].result,
                       owed[i].result == DELIVERY_DONE ? "" : "told so");
    return is_to_lose ? error_set(ret_error, ERROR_IO, "it hung up") : ERROR_NONE;
}

static inline void fake_disconnect(void *client)
{
    struct fake *fake = client;

    pthread_mutex_lock(&fake->lock);
    fake->owed_count = fake->open = 0;
    pthread_mutex_unlock(&fake->lock);
}

static inline void fake_destroy(void *client)
{
    (void)client; /* the fake belongs to the test */
}

static const struct broker_backend fake_backend = {
    .scheme = "redis",
    .version = fake_version,
    .refusal = fake_refusal,
    .create = fake_create,
    .connect = fake_connect,
    .publish = fake_publish,
    .wait = fake_wait,
    .disconnect = fake_disconnect,
    .destroy = fake_destroy,
};

static inline void fake_init(struct fake *fake)
{
    *fake = (struct fake){.order_fd = eventfd(0, EFD_NONBLOCK), .answer = DELIVERY_DONE};
    assert_true(fake->order_fd >= 0);
    snprintf(fake->text, sizeof(fake->text), "redis://fake/%llx",
             (unsigned long long)(uintptr_t)fake);
    assert_int_equal(broker_url_parse(bytes_of(fake->text), &fake->url, NULL), ERROR_NONE);
    fake->sent = calloc(FAKE_SENT_MAX, sizeof(*fake->sent));
    pthread_mutex_init(&fake->lock, NULL);
    pthread_cond_init(&fake->changed, NULL);
}

static inline void fake_deinit(struct fake *fake)
{
    pthread_cond_destroy(&fake->changed);
    pthread_mutex_destroy(&fake->lock);
    close(fake->order_fd);
    free(fake->sent);
}

static inline struct timespec broker_fixture_deadline(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    return until;
}

/* Waits until *counter, which is a field of the fake, is at least `count`. */
static inline void fake_wait_for(struct fake *fake, const size_t *counter, size_t count)
{
    struct timespec until = broker_fixture_deadline();
    int result = 0;

    pthread_mutex_lock(&fake->lock);
    while (*counter < count && result == 0)
        result = pthread_cond_timedwait(&fake->changed, &fake->lock, &until);
    if (*counter < count)
        fail_msg("only %zu of %zu", *counter, count);
    pthread_mutex_unlock(&fake->lock);
}

/* Sets the outcome of the message that was sent as number `index`. */
static inline void fake_answer(struct fake *fake, size_t index, enum delivery_result result)
{
    pthread_mutex_lock(&fake->lock);
    assert_true(index < fake->sent_count && fake->owed_count < COUNT(fake->owed));
    fake->owed[fake->owed_count++] = (struct fake_answer){fake->sent[index], result};
    fake_tell(fake);
    pthread_mutex_unlock(&fake->lock);
}

static inline void fake_set(struct fake *fake, bool *flag, bool value)
{
    pthread_mutex_lock(&fake->lock);
    *flag = value;
    fake_tell(fake);
    pthread_mutex_unlock(&fake->lock);
}

/* ---- deliveries ---- */

struct broker_shipment {
    struct delivery delivery;
    struct timer *timer;
    size_t done_count; /* guarded by the fixture's lock */
};

struct broker_fixture {
    struct fake fake;
    struct broker_connection_options options;
    struct broker_connection *connection;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t done_count;  /* guarded by lock */
    struct list *again; /* deliveries that the next `done` posts once more; guarded by lock */
};

static inline void broker_fixture_done(void *context, struct list *deliveries)
{
    struct broker_fixture *fixture = context;
    struct list *link, *again;

    pthread_mutex_lock(&fixture->lock);
    again = fixture->again;
    fixture->again = NULL;
    while ((link = list_pop(deliveries))) {
        list_item(link, struct broker_shipment, delivery.link)->done_count++;
        fixture->done_count++;
    }
    pthread_cond_broadcast(&fixture->changed);
    pthread_mutex_unlock(&fixture->lock);
    if (again)
        broker_connection_post(fixture->connection, again);
}

static inline void broker_fixture_init(struct broker_fixture *fixture)
{
    *fixture = (struct broker_fixture){0};
    fake_init(&fixture->fake);
    pthread_mutex_init(&fixture->lock, NULL);
    pthread_cond_init(&fixture->changed, NULL);
    fixture->options = (struct broker_connection_options){
        .name = "orders",
        .backend = &fake_backend,
        .url = &fixture->fake.url,
        .client_name = "test",
        .inflight_max = 64,
        .inflight_bytes_max = 1 << 20,
        .connect_timeout_ms = 1000,
        .silence_ms = 60000,
        .seed = 1,
        .done = broker_fixture_done,
        .context = fixture,
    };
}

static inline void broker_fixture_start(struct broker_fixture *fixture)
{
    struct error error = {0};

    if (broker_connection_start(&fixture->options, &fixture->connection, &error))
        fail_msg("%s", error.text);
}

static inline void broker_fixture_deinit(struct broker_fixture *fixture)
{
    pthread_cond_destroy(&fixture->changed);
    pthread_mutex_destroy(&fixture->lock);
    fake_deinit(&fixture->fake);
}

static inline void broker_fixture_stop(struct broker_fixture *fixture)
{
    broker_connection_stop(fixture->connection);
    broker_fixture_deinit(fixture);
}

static inline void broker_shipment_init_texts(struct broker_shipment *shipment,
                                              const struct timer_texts *texts)
{
    *shipment = (struct broker_shipment){.timer = timer_alloc(texts)};
    assert_non_null(shipment->timer);
    shipment->timer->due = (struct wall){DUE_MS};
    shipment->timer->id = (struct timer_id){{DUE_MS}, 7, TIMER_SERIAL(3, 42)};
    shipment->delivery.timer = shipment->timer;
    shipment->delivery.attempt = 1;
    shipment->delivery.epoch = 9;
    shipment->delivery.handed_us = wall_now_us();
    /* Values that the sender must overwrite; if one is still there, a field was forgotten. */
    shipment->delivery.started_us = 4711;
    shipment->delivery.outcome.retry_after_ms = 4711;
    shipment->delivery.outcome.result = DELIVERY_ENDED;
}

static inline void broker_shipment_init(struct broker_shipment *shipment, const char *target,
                                        uint64_t timeout_ms)
{
    struct timer_texts texts = {.target = bytes_of(target), .payload = BYTES("{\"order\": 42}")};

    broker_shipment_init_texts(shipment, &texts);
    shipment->timer->retry.timeout_ms = timeout_ms;
}

static inline struct broker_shipment *shipments_create(size_t count, const char *target,
                                                       uint64_t timeout_ms)
{
    struct broker_shipment *shipments = calloc(count, sizeof(*shipments));

    for (size_t i = 0; i < count; i++)
        broker_shipment_init(&shipments[i], target, timeout_ms);
    return shipments;
}

static inline void shipments_destroy(struct broker_shipment *shipments, size_t count)
{
    for (size_t i = 0; i < count; i++)
        timer_free(shipments[i].timer);
    free(shipments);
}

static inline void shipments_list(struct broker_shipment *shipments, size_t count,
                                  struct list *ret_list)
{
    list_init(ret_list);
    for (size_t i = 0; i < count; i++)
        list_push(ret_list, &shipments[i].delivery.link);
}

static inline void broker_fixture_post(struct broker_fixture *fixture,
                                       struct broker_shipment *shipments, size_t count)
{
    struct list list;

    shipments_list(shipments, count, &list);
    broker_connection_post(fixture->connection, &list);
    assert_true(list_is_empty(&list));
}

/* Waits until `count` deliveries have come back in total. */
static inline void broker_fixture_wait(struct broker_fixture *fixture, size_t count)
{
    struct timespec until = broker_fixture_deadline();
    int result = 0;

    pthread_mutex_lock(&fixture->lock);
    while (fixture->done_count < count && result == 0)
        result = pthread_cond_timedwait(&fixture->changed, &fixture->lock, &until);
    if (fixture->done_count < count)
        fail_msg("only %zu of %zu came back", fixture->done_count, count);
    pthread_mutex_unlock(&fixture->lock);
}

static inline size_t broker_fixture_done_count(struct broker_fixture *fixture)
{
    size_t count;

    pthread_mutex_lock(&fixture->lock);
    count = fixture->done_count;
    pthread_mutex_unlock(&fixture->lock);
    return count;
}

static inline void check_outcome(const struct broker_shipment *shipment,
                                 enum delivery_result result, const char *error)
{
    const struct delivery_outcome *outcome = &shipment->delivery.outcome;

    assert_int_equal(shipment->done_count, 1);
    if (outcome->result != result || !strstr(outcome->error, error) ||
        (*error == '\0' && *outcome->error))
        fail_msg("result %d, \"%s\"", (int)outcome->result, outcome->error);
}

#endif
