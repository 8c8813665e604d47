/* feed.c - the buffer of events, its listeners, and the names of events. */
#include "node/feed.h"

#include "base/check.h"
#include "delivery/siphash.h"
#include "sys/clock.h"
#include "sys/entropy.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Maximum of slots that one read examines, because it holds the feed's lock. */
enum { FEED_LOOKS = 1024 };

/* After feed_pack each event has at most one gap before it, and one gap is last. So a third of
 * the slots is free, and packing costs O(1) for each event. */
enum { FEED_SLOTS = 3 * FEED_EVENTS_MAX };

/* Weight that is added to the size of each event when the memory of tenants is compared: its
 * share of FEED_BYTES_MAX if FEED_EVENTS_MAX events are kept. */
enum { FEED_EVENT_WEIGHT = FEED_BYTES_MAX / FEED_EVENTS_MAX };

enum feed_slot_state {
    FEED_SLOT_EVENT,
    FEED_SLOT_FREE, /* the event was dropped; lost_ of the tenant's next event counts it */
    FEED_SLOT_GAP,  /* events of unknown tenants are missing here */
};

struct feed_slot {
    uint64_t number;
    struct feed_event *event; /* valid in the state FEED_SLOT_EVENT */
    enum feed_slot_state state;
};

struct feed {
    pthread_mutex_t lock; /* guards all fields but is_watched */
    atomic_bool is_watched;
    struct feed_slot slots[FEED_SLOTS]; /* by number */
    size_t slot_count;
    uint64_t next;               /* number that the next event will get */
    struct tenant_latest latest; /* reads of events, by tenant */
    size_t count, bytes;         /* of events */
    struct list listeners;
    size_t listener_count;
    struct instant left_at; /* time at which the last listener left */
    bool is_stopping;
    /* random id of this process; distinguishes its event names from those of an earlier run */
    uint64_t run;
    struct siphash *cipher;
};

struct feed *feed_create(void)
{
    struct feed *feed = calloc(1, sizeof(*feed));
    uint8_t key[SIPHASH_KEY_SIZE];

    if (!feed)
        return NULL;
    list_init(&feed->listeners);
    tenant_latest_init(&feed->latest);
    pthread_mutex_init(&feed->lock, NULL);
    if (entropy_fill(key, sizeof(key)) == ERROR_NONE && entropy_u64(&feed->run) == ERROR_NONE)
        feed->cipher = siphash_create(key);
    explicit_bzero(key, sizeof(key));
    if (feed->cipher)
        return feed;
    feed_destroy(feed);
    return NULL;
}

static void feed_free(struct feed *feed, struct feed_event *event)
{
    tenant_latest_remove(&feed->latest, &event->place_);
    feed->bytes -= feed_event_bytes(event);
    feed->count--;
    feed_event_destroy(event);
}

static void feed_clear(struct feed *feed)
{
    for (size_t i = 0; i < feed->slot_count; i++)
        if (feed->slots[i].state == FEED_SLOT_EVENT)
            feed_free(feed, feed->slots[i].event);
    feed->slot_count = 0;
}

void feed_destroy(struct feed *feed)
{
    if (!feed)
        return;
    feed_clear(feed);
    tenant_latest_deinit(&feed->latest);
    siphash_destroy(feed->cipher);
    pthread_mutex_destroy(&feed->lock);
    free(feed);
}

const atomic_bool *feed_is_watched(const struct feed *feed)
{
    return &feed->is_watched;
}

/* ---- names ---- */

/* Applies four rounds of a Feistel network, a permutation that the same rounds in reverse undo.
 * Returns false if out of memory. */
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
    *ret_to = (uint64_t)right << 32 | left; /* swapped, so that the reversed rounds undo it */
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

/* Decodes an event's name. Returns false if this feed did not make it. */
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

/* Returns the index of the first slot of this number or a later one. */
static size_t feed_find(const struct feed *feed, uint64_t number)
{
    size_t low = 0, high = feed->slot_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (feed->slots[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Removes free slots. Of several gaps without an event between them it keeps the last. */
static void feed_pack(struct feed *feed)
{
    size_t count = 0;

    for (size_t i = 0; i < feed->slot_count; i++) {
        const struct feed_slot slot = feed->slots[i];

        if (slot.state == FEED_SLOT_FREE)
            continue;
        if (slot.state == FEED_SLOT_GAP && count > 0 &&
            feed->slots[count - 1].state == FEED_SLOT_GAP)
            count--;
        feed->slots[count++] = slot;
    }
    feed->slot_count = count;
}

static void feed_append(struct feed *feed, enum feed_slot_state state, struct feed_event *event)
{
    if (feed->slot_count == FEED_SLOTS)
        feed_pack(feed);
    feed->slots[feed->slot_count++] =
        (struct feed_slot){.number = feed->next++, .event = event, .state = state};
}

/* Drops the oldest event. The tenant's next event counts the loss; if there is none, the slot
 * becomes a gap for all tenants. */
static void feed_drop(struct feed *feed)
{
    struct tenant_latest_place *place = tenant_latest_first(&feed->latest),
                               *next_place = tenant_latest_next(place);
    struct feed_event *event = list_item(place, struct feed_event, place_);
    struct feed_event *next = next_place ? list_item(next_place, struct feed_event, place_) : NULL;
    struct feed_slot *slot = &feed->slots[feed_find(feed, event->number_)];

    if (next && bytes_equal(feed_event_reader(next), feed_event_reader(event))) {
        next->lost_ = event->number_ + 1;
        slot->state = FEED_SLOT_FREE;
    } else {
        slot->state = FEED_SLOT_GAP;
    }
    slot->event = NULL;
    feed_free(feed, event);
}

static void feed_push(struct feed *feed, struct feed_event *event)
{
    const size_t bytes = feed_event_bytes(event);

    event->number_ = feed->next;
    feed_append(feed, FEED_SLOT_EVENT, event);
    tenant_latest_add(&feed->latest, tenant_key(feed_event_reader(event)), &event->place_,
                      bytes + FEED_EVENT_WEIGHT);
    feed->bytes += bytes;
    feed->count++;
    while (feed->count > FEED_EVENTS_MAX || feed->bytes > FEED_BYTES_MAX)
        feed_drop(feed);
}

/* True if no client has listened for FEED_LINGER_MS. */
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
        feed_append(feed, FEED_SLOT_GAP, NULL);
    if (feed_is_over(feed)) {
        atomic_store(&feed->is_watched, false);
        feed_clear(feed);
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
            feed_append(feed, FEED_SLOT_GAP, NULL); /* earlier events were not kept */
        listener->has_lost_ = last.size && !is_known;
        listener->next_ = is_known ? number + 1 : last.size ? 0 : feed->next;
        listener->whole_ = listener->next_;
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

/* Returns FEED_LOST once for all events that are missing up to now. A later gap is reported
 * again after the listener has read an event. */
static enum feed_result feed_tell_lost(const struct feed *feed, struct feed_listener *listener)
{
    listener->has_lost_ = false;
    listener->whole_ = feed->next;
    return FEED_LOST;
}

static enum feed_result feed_read_some(struct feed *feed, struct feed_listener *listener,
                                       bool (*take)(void *context, const struct feed_event *event,
                                                    const char *name),
                                       void *context)
{
    if (listener->has_lost_)
        return feed_tell_lost(feed, listener);
    const size_t first = feed_find(feed, listener->next_);
    for (size_t i = first; i < feed->slot_count; i++) {
        const struct feed_slot *slot = &feed->slots[i];
        const struct feed_event *event = slot->event;
        char name[FEED_NAME_SIZE];

        listener->next_ = slot->number;
        if (i - first == FEED_LOOKS)
            return FEED_MORE;
        if (slot->state == FEED_SLOT_GAP && slot->number >= listener->whole_)
            return feed_tell_lost(feed, listener);
        if (!event || !feed_event_is_of(event, listener->tenant))
            continue;
        if (event->lost_ > listener->whole_)
            return feed_tell_lost(feed, listener);
        feed_name(feed, slot->number, name);
        if (!take(context, event, name))
            return FEED_MORE;
        listener->whole_ = slot->number + 1;
    }
    listener->next_ = feed->next;
    return FEED_ALL;
}

enum feed_result feed_read(struct feed *feed, struct feed_listener *listener,
                           bool (*take)(void *context, const struct feed_event *event,
                                        const char *name),
                           void *context)
{
    pthread_mutex_lock(&feed->lock);
    const enum feed_result result =
        feed->is_stopping ? FEED_ENDED : feed_read_some(feed, listener, take, context);
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
    size_t count = 0, bytes = 0, listeners = 0;
    CHECK(feed->slot_count <= FEED_SLOTS);
    for (size_t i = 0; i < feed->slot_count; i++) {
        const struct feed_slot *slot = &feed->slots[i];

        CHECK(slot->number < (i + 1 < feed->slot_count ? slot[1].number : feed->next));
        CHECK((slot->state == FEED_SLOT_EVENT) == (slot->event != NULL));
        if (!slot->event)
            continue;
        CHECK(slot->event->number_ == slot->number && slot->event->lost_ <= slot->number);
        bytes += feed_event_bytes(slot->event);
        count++;
    }
    CHECK(count == feed->count && count <= FEED_EVENTS_MAX);
    CHECK(bytes == feed->bytes && bytes <= FEED_BYTES_MAX);
    CHECK(feed->latest.amount == bytes + count * FEED_EVENT_WEIGHT);
    LIST_FOR_EACH (&feed->listeners, link) {
        CHECK(list_item(link, struct feed_listener, link_)->next_ <= feed->next);
        listeners++;
    }
    CHECK(listeners == feed->listener_count && listeners <= FEED_LISTENERS_MAX);
    pthread_mutex_unlock(&feed->lock);
}
