/* Lists of what the caller is to do, in the order in which it was asked. */
#include "engine/effects.h"

#include "base/check.h"
#include "engine/engine_core.h"
#include "timer/tenant.h"

#include <assert.h>
#include <stdlib.h>

/* Maximum of given-up firings that are reported one by one; further ones are only counted. */
enum { GIVEN_UP_MAX = 16, ANSWERED_MAX = 1024 };

/* Maximum of events that wait for engine_take_events; usually more than a turn produces. */
enum { EVENTS_WAITING_ROOM = 16384 };

struct effects {
    struct list reads, deliveries, replies, recorded;
    struct list given_up;
    size_t given_up_count;
    struct list answered; /* deliveries with a timer of their own */
    size_t answered_count;
    struct list events;
    size_t event_count;
    uint64_t events_lost;
    struct list gone_reads; /* reads that were handled, to be freed in the next turn */
    size_t reads_out;
    uint64_t tickets; /* number of reads of single timers so far; the last ticket */
};

struct effects *effects_create(void)
{
    struct effects *effects = calloc(1, sizeof(*effects));

    if (!effects)
        return NULL;
    list_init(&effects->reads);
    list_init(&effects->deliveries);
    list_init(&effects->replies);
    list_init(&effects->recorded);
    list_init(&effects->given_up);
    list_init(&effects->answered);
    list_init(&effects->gone_reads);
    list_init(&effects->events);
    return effects;
}

static void effects_free_read(struct engine_read *read)
{
    assert(!read->timer || read->kind == ENGINE_READ_FIND);
    assert(!read->names.ids || read->kind == ENGINE_READ_LOOKUP);
    timer_free(read->timer);
    storage_page_free(&read->page);
    free(read->names.ids);
    free(read);
}

static void effects_free_deliveries(struct list *deliveries)
{
    for (struct list *link; (link = list_pop(deliveries));)
        free(list_item(link, struct delivery, link));
}

void effects_free_gone(struct effects *effects)
{
    assert(list_is_empty(&effects->replies)); /* replies may show timers that are freed here */
    for (struct list *link; (link = list_pop(&effects->gone_reads));)
        effects_free_read(list_item(link, struct engine_read, link));
}

void effects_destroy(struct effects *effects)
{
    if (!effects)
        return;
    list_init(&effects->replies); /* the caller owns the replies that are left */
    effects_free_gone(effects);
    for (struct list *link; (link = list_pop(&effects->reads));)
        effects_free_read(list_item(link, struct engine_read, link));
    effects_free_deliveries(&effects->deliveries);
    effects_free_deliveries(&effects->recorded);
    for (struct list *link; (link = list_pop(&effects->given_up));)
        free(list_item(link, struct given_up, link));
    for (struct list *link; (link = list_pop(&effects->answered));)
        engine_free_answered(list_item(link, struct delivery, link));
    for (struct list *link; (link = list_pop(&effects->events));)
        feed_event_destroy(list_item(link, struct feed_event, link));
    free(effects);
}

static uint64_t effects_tenant(const struct command *command)
{
    return tenant_key(command->timer_count > 0 ? command->timers[0]->texts.tenant
                                               : command->tenant);
}

void effects_read(struct engine *engine, struct engine_read *read)
{
    assert(read->result == ERROR_NONE);
    assert(!read->timer && !read->page.timers && !read->names.ids);
    assert(engine_read_partition(read) == engine->options.partition);
    if (read->command_)
        read->tenant = effects_tenant(read->command_);
    list_push(&engine->effects->reads, &read->link);
}

bool effects_find(struct engine *engine, struct entry *entry, const struct command *command)
{
    assert(entry->timer->id.partition == engine->options.partition);
    assert(entry->phase == ENTRY_LOADING);

    struct engine_read *read = calloc(1, sizeof(*read));
    if (!read)
        return false;
    read->kind = ENGINE_READ_FIND;
    read->id = entry->timer->id;
    read->tenant = command ? effects_tenant(command) : 0;
    read->ticket_ = entry->ticket = ++engine->effects->tickets;
    list_push(&engine->effects->reads, &read->link);
    return true;
}

void effects_read_back(struct engine *engine, struct engine_read *read)
{
    assert(engine_read_partition(read) == engine->options.partition);
    assert(engine->effects->reads_out > 0);
    engine->effects->reads_out--;
    list_init(&read->link);
    list_push(&engine->effects->gone_reads, &read->link);
}

void effects_reply(struct engine *engine, struct command *command)
{
    assert(command->pending_ == 0 && !command->names_.is_searching && !command->names_.is_locked);
    assert(!command->parent_ && !command->patch);
    list_push(&engine->effects->replies, &command->link);
}

void effects_deliver(struct engine *engine, struct delivery *delivery)
{
    assert(delivery->epoch == engine->epoch);
    assert(delivery->timer->state == TIMER_DELIVERING);
    assert(delivery->timer && delivery->attempt > 0);
    list_push(&engine->effects->deliveries, &delivery->link);
}

void effects_recorded(struct engine *engine, struct delivery *delivery, enum error_code result)
{
    assert(delivery->outcome.result != DELIVERY_RETURNED);
    assert(delivery->wants_record);
    delivery->timer = NULL; /* the timer is no longer lent */
    delivery->recorded = result;
    list_init(&delivery->link);
    list_push(&engine->effects->recorded, &delivery->link);
}

void engine_free_answered(struct delivery *delivery)
{
    timer_free((struct timer *)(uintptr_t)delivery->timer);
    free(delivery);
}

void effects_answered(struct engine *engine, const struct delivery *delivery)
{
    struct effects *effects = engine->effects;
    struct delivery *copy = NULL;

    assert(delivery->outcome.result <= DELIVERY_ENDED);
    if (effects->answered_count < ANSWERED_MAX)
        copy = malloc(sizeof(*copy));
    if (!copy)
        return;
    *copy = *delivery;
    copy->timer = timer_copy(delivery->timer, &delivery->timer->texts);
    if (!copy->timer) {
        free(copy);
        return;
    }
    list_init(&copy->link);
    list_push(&effects->answered, &copy->link);
    effects->answered_count++;
}

void effects_given_up(struct engine *engine, const struct timer *timer, struct wall next)
{
    struct effects *effects = engine->effects;

    assert(effects->given_up_count <= GIVEN_UP_MAX);
    if (effects->given_up_count < GIVEN_UP_MAX) {
        struct given_up *given_up = given_up_create(timer, next);

        if (!given_up)
            return; /* a metric counts the events that are dropped */
        list_push(&effects->given_up, &given_up->link);
        effects->given_up_count++;
    } else {
        list_item(effects->given_up.prev, struct given_up, link)->more++;
    }
}

void effects_tell(struct engine *engine, enum feed_kind kind, const struct timer *timer)
{
    struct effects *effects = engine->effects;
    const atomic_bool *is_watched = engine->options.is_watched;

    assert(kind != FEED_NONE);
    if (!is_watched || !atomic_load_explicit(is_watched, memory_order_relaxed))
        return;
    struct feed_event *event = effects->event_count < EVENTS_WAITING_ROOM
                                   ? feed_event_create(kind, engine->now, timer)
                                   : NULL;
    if (event) {
        list_push(&effects->events, &event->link);
        effects->event_count++;
    } else {
        effects->events_lost++;
    }
}

bool effects_has_replies(const struct effects *effects)
{
    return !list_is_empty(&effects->replies);
}

bool effects_is_idle(const struct effects *effects)
{
    return effects->reads_out == 0 && list_is_empty(&effects->reads) &&
           list_is_empty(&effects->replies);
}

void effects_check(const struct engine *engine)
{
    const struct effects *effects = engine->effects;

    LIST_FOR_EACH (&effects->deliveries, link) {
        const struct delivery *delivery = list_item(link, struct delivery, link);

        CHECK(delivery->epoch == engine->epoch && delivery->timer->state == TIMER_DELIVERING);
    }
    LIST_FOR_EACH (&effects->recorded, link)
        CHECK(!list_item(link, struct delivery, link)->timer);
    LIST_FOR_EACH (&effects->reads, link)
        CHECK(list_item(link, struct engine_read, link)->result == ERROR_NONE);
    size_t given_up = 0;
    LIST_FOR_EACH (&effects->given_up, link)
        given_up++;
    CHECK(given_up == effects->given_up_count && given_up <= GIVEN_UP_MAX);
    size_t events = 0;
    LIST_FOR_EACH (&effects->events, link)
        events++;
    CHECK(events == effects->event_count && events <= EVENTS_WAITING_ROOM);
}

/* ---- for the caller ---- */

struct engine_read *engine_take_read(struct engine *engine)
{
    struct list *link = list_pop(&engine->effects->reads);

    if (!link)
        return NULL;
    engine->effects->reads_out++;
    return list_item(link, struct engine_read, link);
}

uint16_t engine_read_partition(const struct engine_read *read)
{
    switch (read->kind) {
    case ENGINE_READ_FIND:
        return read->id.partition;
    case ENGINE_READ_LOOKUP:
        return read->lookup.partition;
    case ENGINE_READ_SCAN:
        break;
    }
    assert(read->kind == ENGINE_READ_SCAN);
    return read->scan.partition;
}

void engine_read_perform(struct engine_read *read, struct storage *storage)
{
    assert(read->result == ERROR_NONE);
    assert(!read->timer && !read->page.timers && !read->names.ids);
    switch (read->kind) {
    case ENGINE_READ_FIND:
        read->result = storage_find(storage, &read->id, &read->timer, &read->error);
        break;
    case ENGINE_READ_SCAN:
        read->result = storage_scan(storage, &read->scan, &read->page, &read->error);
        break;
    case ENGINE_READ_LOOKUP:
        read->result = storage_lookup(storage, &read->lookup, &read->names, &read->error);
        break;
    }
}

bool engine_read_is_repeated(struct engine_read *read)
{
    if (read->result || read->page.count || !read->goes_on ||
        !storage_position_before(read->page.next, read->scan.to))
        return false;
    read->scan.from = read->page.next;
    storage_page_free(&read->page);
    return true;
}

struct delivery *engine_take_delivery(struct engine *engine)
{
    struct list *link = list_pop(&engine->effects->deliveries);

    if (!link)
        return NULL;
    struct delivery *delivery = list_item(link, struct delivery, link);
    assert(delivery->epoch == engine->epoch && delivery->timer->state == TIMER_DELIVERING);
    return delivery;
}

struct command *engine_take_reply(struct engine *engine)
{
    struct list *link = list_pop(&engine->effects->replies);

    if (!link)
        return NULL;
    struct command *command = list_item(link, struct command, link);
    assert(command->partition == engine->options.partition && !command->names_.ids);
    return command;
}

struct delivery *engine_take_answered(struct engine *engine)
{
    struct list *link = list_pop(&engine->effects->answered);

    if (!link)
        return NULL;
    engine->effects->answered_count--;
    return list_item(link, struct delivery, link);
}

struct given_up *engine_take_given_up(struct engine *engine)
{
    struct list *link = list_pop(&engine->effects->given_up);

    if (!link)
        return NULL;
    assert(engine->effects->given_up_count > 0);
    assert(engine->effects->given_up_count <= GIVEN_UP_MAX);
    engine->effects->given_up_count--;
    return list_item(link, struct given_up, link);
}

uint64_t engine_take_events(struct engine *engine, struct list *ret_events)
{
    struct effects *effects = engine->effects;
    const uint64_t lost = effects->events_lost;

    list_join(ret_events, &effects->events);
    effects->event_count = 0;
    effects->events_lost = 0;
    return lost;
}

struct delivery *engine_take_recorded(struct engine *engine)
{
    struct list *link = list_pop(&engine->effects->recorded);

    if (!link)
        return NULL;
    struct delivery *delivery = list_item(link, struct delivery, link);
    assert(delivery->wants_record && !delivery->timer);
    return delivery;
}
