/* feed.c - the buffer of events, its listeners, and the names of events. */
#include "node/feed.h"

#include "base/check.h"
#include "delivery/siphash.h"
#include "sys/clock.h"
#include "sys/entropy.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Events that one read looks at: the feed is locked meanwhile. */
enum { FEED_LOOKS = 1024 };

struct feed {
    pthread_mutex_t lock; /* guards all but is_watched */
    atomic_bool is_watched;
    struct feed_event *events[FEED_EVENTS_MAX]; /* by number; NULL: lost */
    uint64_t first, next;                       /* numbers that are there: first <= n < next */
    size_t bytes;
    struct list listeners;
    size_t listener_count;
    struct instant left_at; /* when the last listener left */
    bool is_stopping;
    uint64_t run; /* of the process: names of another one are told from those of this one */
    struct siphash *cipher;
};

struct feed *feed_create(void)
{
    struct feed *feed = calloc(1, sizeof(*feed));
    uint8_t key[SIPHASH_KEY_SIZE];

    if (!feed)
        return NULL;
    list_init(&feed->listeners);
    pthread_mutex_init(&feed->lock, NULL);
    if (entropy_fill(key, sizeof(key)) == ERROR_NONE && entropy_u64(&feed->run) == ERROR_NONE)
        feed->cipher = siphash_create(key);
    explicit_bzero(key, sizeof(key));
    if (feed->cipher)
        return feed;
    feed_destroy(feed);
    return NULL;
}

static void feed_drop_first(struct feed *feed)
{
    struct feed_event **event = &feed->events[feed->first++ % FEED_EVENTS_MAX];

    if (*event)
        feed->bytes -= feed_event_bytes(*event);
    feed_event_destroy(*event);
    *event = NULL;
}

void feed_destroy(struct feed *feed)
{
    if (!feed)
        return;
    while (feed->first < feed->next)
        feed_drop_first(feed);
    siphash_destroy(feed->cipher);
    pthread_mutex_destroy(&feed->lock);
    free(feed);
}

const atomic_bool *feed_is_watched(const struct feed *feed)
{
    return &feed->is_watched;
}

/* ---- names ---- */

/* Four rounds of a Feistel network: a permutation, so that it can be undone. False: no memory. */
static bool feed_cipher(struct feed *feed, uint64_t from, int first, int step, uint64_t *ret_to)
{
    uint32_t left = (uint32_t)(from >> 32), right = (uint32_t)from;

    for (int i = 0; i < 4; i++) {
        char text[16];
        uint64_t hash = 0;

        snprintf(text, sizeof(text), "%d-%08x", first + i * step, right);
        if (!siphash_compute(feed->cipher, bytes_of(text), &hash))
            return false;
        const uint32_t mixed = left ^ (uint32_t)hash;
        left = right;
        right = mixed;
    }
    *ret_to = (uint64_t)right << 32 | left; /* so that the rounds backwards undo it */
    return true;
}

static void feed_name(struct feed *feed, uint64_t number, char ret_name[FEED_NAME_SIZE])
{
    uint64_t code = 0;

    if (!feed_cipher(feed, number, 0, 1, &code))
        code = 0;
    snprintf(ret_name, FEED_NAME_SIZE, "%016llx-%016llx", (unsigned long long)feed->run,
             (unsigned long long)code);
}

/* False: it is no name of this feed. */
static bool feed_number(struct feed *feed, struct bytes name, uint64_t *ret_number)
{
    char text[FEED_NAME_SIZE] = "", own[FEED_NAME_SIZE];

    if (name.size != FEED_NAME_SIZE - 1)
        return false;
    memcpy(text, name.data, name.size);
    uint64_t number = 0;
    if (!feed_cipher(feed, strtoull(text + 17, NULL, 16), 3, -1, &number))
        return false;
    feed_name(feed, number, own);
    *ret_number = number;
    return strcmp(text, own) == 0 && number < feed->next;
}

/* ---- what happens ---- */

static void feed_push(struct feed *feed, struct feed_event *event)
{
    if (feed->next - feed->first == FEED_EVENTS_MAX)
        feed_drop_first(feed);
    feed->events[feed->next++ % FEED_EVENTS_MAX] = event;
    feed->bytes += event ? feed_event_bytes(event) : 0;
    while (feed->bytes > FEED_BYTES_MAX)
        feed_drop_first(feed);
}

/* No client has listened for FEED_LINGER_MS. */
static bool feed_is_over(const struct feed *feed)
{
    return list_is_empty(&feed->listeners) &&
           instant_since_ns(feed->left_at, instant_now()) > (uint64_t)FEED_LINGER_MS * 1000000;
}

void feed_post(struct feed *feed, struct list *events, uint64_t lost)
{
    if (list_is_empty(events) && lost == 0)
        return;
    pthread_mutex_lock(&feed->lock);
    for (struct list *link; (link = list_pop(events));)
        feed_push(feed, list_item(link, struct feed_event, link));
    if (lost)
        feed_push(feed, NULL);
    if (feed_is_over(feed)) {
        atomic_store(&feed->is_watched, false);
        while (feed->first < feed->next)
            feed_drop_first(feed);
    }
    LIST_FOR_EACH (&feed->listeners, link) {
        struct feed_listener *listener = list_item(link, struct feed_listener, link_);

        listener->wake(listener);
    }
    pthread_mutex_unlock(&feed->lock);
}

void feed_tell_hold(struct feed *feed, enum feed_kind kind, const struct target_pause *hold,
                    size_t reset_count)
{
    struct list events;

    if (!atomic_load(&feed->is_watched))
        return;
    struct feed_event *event = feed_event_create_hold(kind, wall_now(), hold, reset_count);
    list_init(&events);
    if (event)
        list_push(&events, &event->link);
    feed_post(feed, &events, !event);
}

/* ---- listeners ---- */

static size_t feed_count_of(const struct feed *feed, struct bytes tenant)
{
    size_t count = 0;

    LIST_FOR_EACH (&feed->listeners, link)
        count += bytes_equal(list_item(link, struct feed_listener, link_)->tenant, tenant);
    return count;
}

enum error_code feed_listen(struct feed *feed, struct feed_listener *listener, struct bytes last)
{
    pthread_mutex_lock(&feed->lock);
    const bool has_room = feed->listener_count < FEED_LISTENERS_MAX &&
                          feed_count_of(feed, listener->tenant) < FEED_TENANT_LISTENERS_MAX;
    if (has_room) {
        uint64_t number = 0;
        const bool is_known = last.size && feed_number(feed, last, &number);

        if (!atomic_load(&feed->is_watched))
            feed_push(feed, NULL); /* what happened before was not kept */
        listener->has_lost_ = last.size && !is_known;
        listener->next_ = is_known ? number + 1 : last.size ? feed->first : feed->next;
        list_push(&feed->listeners, &listener->link_);
        feed->listener_count++;
        atomic_store(&feed->is_watched, true);
    }
    pthread_mutex_unlock(&feed->lock);
    return has_room ? ERROR_NONE : ERROR_TOO_MANY;
}

void feed_leave(struct feed *feed, struct feed_listener *listener)
{
    pthread_mutex_lock(&feed->lock);
    list_remove(&listener->link_);
    feed->listener_count--;
    feed->left_at = instant_now();
    pthread_mutex_unlock(&feed->lock);
}

/* Whether events are missing where the listener stands; it goes on behind them. */
static bool feed_pass_lost(const struct feed *feed, struct feed_listener *listener)
{
    bool has_lost = listener->has_lost_ || listener->next_ < feed->first;

    listener->has_lost_ = false;
    if (listener->next_ < feed->first)
        listener->next_ = feed->first;
    for (; listener->next_ < feed->next && !feed->events[listener->next_ % FEED_EVENTS_MAX];
         listener->next_++)
        has_lost = true;
    return has_lost;
}

static enum feed_result feed_read_some(struct feed *feed, struct feed_listener *listener,
                                       bool (*take)(void *context, const struct feed_event *event,
                                                    const char *name),
                                       void *context)
{
    for (int looks = 0; listener->next_ < feed->next; looks++, listener->next_++) {
        const struct feed_event *event = feed->events[listener->next_ % FEED_EVENTS_MAX];
        char name[FEED_NAME_SIZE];

        if (!event || looks == FEED_LOOKS)
            return FEED_MORE;
        if (!feed_event_is_of(event, listener->tenant))
            continue;
        feed_name(feed, listener->next_, name);
        if (!take(context, event, name))
            return FEED_MORE;
    }
    return FEED_ALL;
}

enum feed_result feed_read(struct feed *feed, struct feed_listener *listener,
                           bool (*take)(void *context, const struct feed_event *event,
                                        const char *name),
                           void *context)
{
    pthread_mutex_lock(&feed->lock);
    const enum feed_result result = feed->is_stopping ? FEED_ENDED
                                    : feed_pass_lost(feed, listener)
                                        ? FEED_LOST
                                        : feed_read_some(feed, listener, take, context);
    pthread_mutex_unlock(&feed->lock);
    return result;
}

void feed_stop(struct feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    feed->is_stopping = true;
    LIST_FOR_EACH (&feed->listeners, link) {
        struct feed_listener *listener = list_item(link, struct feed_listener, link_);

        listener->wake(listener);
    }
    pthread_mutex_unlock(&feed->lock);
}

size_t feed_listeners(struct feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    const size_t count = feed->listener_count;
    pthread_mutex_unlock(&feed->lock);
    return count;
}

void feed_check(struct feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    size_t bytes = 0, listeners = 0;
    CHECK(feed->first <= feed->next && feed->next - feed->first <= FEED_EVENTS_MAX);
    for (uint64_t i = feed->first; i < feed->next; i++) {
        const struct feed_event *event = feed->events[i % FEED_EVENTS_MAX];

        bytes += event ? feed_event_bytes(event) : 0;
    }
    CHECK(bytes == feed->bytes && bytes <= FEED_BYTES_MAX);
    LIST_FOR_EACH (&feed->listeners, link) {
        CHECK(list_item(link, struct feed_listener, link_)->next_ <= feed->next);
        listeners++;
    }
    CHECK(listeners == feed->listener_count && listeners <= FEED_LISTENERS_MAX);
    pthread_mutex_unlock(&feed->lock);
}
