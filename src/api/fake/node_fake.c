/* node_fake.c - a node without engines, which answers as a test tells it. */
#include "api/fake/node_fake.h"

#include "base/map.h"
#include "timer/queue_target.h"
#include "sys/clock.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct node {
    pthread_mutex_t lock; /* guards everything */
    pthread_cond_t changed;
    pthread_t thread;
    struct list waiting; /* requests to be answered */
    struct map timers;   /* by serial */
    struct feed *feed;   /* the real one; the tests post */
    struct queue *queue; /* the real one; its timers are ready at once */
    size_t given_up;     /* calls of node_queue_give_up, which do nothing else */
    uint64_t counter;
    uint16_t partition_count, partition_turn;
    unsigned thread_count;
    size_t inflight, inflight_max, inflight_peak, submitted, created;
    enum error_code refuses, fails;
    size_t outpaced; /* patches that come too late */
    bool is_held, is_reversed, is_stopping;
    const char *not_ready;
    size_t other_count;
    enum error_code (*answer)(struct survey *survey); /* of a node; NULL: nothing is known of it */
    struct target_pauses *pauses;                     /* the real ones, in memory alone */
};

/* ---- commands; on the node's thread, under the lock ---- */

static void node_fake_create(struct node *node, struct command *command)
{
    command->error = node->fails;
    for (size_t i = 0; i < command->timer_count; i++) {
        struct timer *timer = command->timers[i];
        struct command_created *result = &command->results[i];

        *result = (struct command_created){.error = node->fails};
        if (node->fails || name_is_claim(timer)) { /* names are the engine's; see tests/e2e */
            timer_free(timer);
            continue;
        }
        timer->at = timer->due;
        timer->created = wall_now();
        timer->version = 1;
        timer->id =
            (struct timer_id){timer->due, command->partition, TIMER_SERIAL(1, ++node->counter)};
        result->id = timer->id;
        map_put(&node->timers, timer->id.serial, timer);
        node->created++;
        command->timer = timer;
    }
}

static struct timer *node_fake_find(struct node *node, struct command *command)
{
    struct timer *timer = map_get(&node->timers, command->id.serial);

    command->error = node->fails;
    if (command->error)
        return NULL;
    if (timer && node->outpaced > 0 && command->kind == COMMAND_PATCH && command->if_version) {
        node->outpaced--;
        timer->version++;
    }
    if (!timer || !timer_id_equal(&timer->id, &command->id) ||
        !bytes_equal(timer->texts.tenant, command->tenant)) {
        command->error = ERROR_NOT_FOUND;
        return NULL;
    }
    command->timer = timer;
    if (timer_is_final(timer->state))
        command->error = ERROR_GONE;
    else if (command->kind != COMMAND_GET && timer->state == TIMER_DELIVERING)
        command->error = ERROR_ALREADY_FIRING;
    else if (command->if_version && command->if_version != timer->version)
        command->error = ERROR_VERSION_MISMATCH;
    return command->error ? NULL : timer;
}

/* The timer with the texts of the patch, in its place. */
static struct timer *node_fake_patch(struct node *node, struct timer *old, struct command *command)
{
    struct timer_texts texts = old->texts;

    timer_texts_patch(&texts, command->patch_fields, &command->patch->texts);
    struct timer *new = timer_copy(old, &texts);
    assert(new);
    map_put(&node->timers, new->id.serial, new);
    timer_free(old);
    return new;
}

static void patch(struct node *node, struct command *command)
{
    struct timer *old = node_fake_find(node, command), *from = command->patch;

    if (old) {
        uint32_t fields = command->patch_fields;

        struct timer *new = node_fake_patch(node, old, command);
        if (fields & PATCH_DUE)
            new->due = new->at = from->due;
        if (fields & PATCH_RETRY)
            new->retry = from->retry;
        new->version++;
        command->timer = new;
    }
    timer_free(from);
}

/* Or resumes it. */
static void node_fake_pause(struct node *node, struct command *command)
{
    struct timer *timer = node_fake_find(node, command);

    if (timer) {
        timer->state = command->kind == COMMAND_PAUSE ? TIMER_PAUSED : TIMER_SCHEDULED;
        timer->at = command->patch ? command->patch->at : timer->due;
        timer->version++;
    }
    timer_free(command->patch);
}

static int node_fake_compare(const void *left, const void *right)
{
    const struct timer *a = *(struct timer *const *)left, *b = *(struct timer *const *)right;
    struct storage_position first = {a->at, a->id.serial}, second = {b->at, b->id.serial};

    return storage_position_before(first, second) ? -1 : storage_position_before(second, first);
}

static void scan(struct node *node, struct command *command)
{
    const struct storage_scan *wanted = &command->scan;
    struct storage_page *page = &command->page;

    command->error = node->fails;
    page->timers = calloc(map_count(&node->timers) + 1, sizeof(struct timer *));
    page->next = wanted->to;
    struct timer *timer;
    size_t cursor = 0;
    while ((timer = map_next(&node->timers, &cursor))) {
        struct storage_position at = {timer->at, timer->id.serial};

        if (timer->id.partition == wanted->partition && storage_position_before(at, wanted->to) &&
            !storage_position_before(at, wanted->from) &&
            (wanted->kind == STORAGE_SCAN_ALL || !timer_is_final(timer->state)) &&
            bytes_equal(timer->texts.tenant, command->tenant))
            page->timers[page->count++] = timer;
    }
    qsort(page->timers, page->count, sizeof(struct timer *), node_fake_compare);
    size_t bytes = 0, count = 0;
    while (count < page->count && count < wanted->rows_max && bytes < wanted->bytes_max)
        bytes += page->timers[count++]->footprint;
    if (count < page->count)
        page->next =
            (struct storage_position){page->timers[count]->at, page->timers[count]->id.serial};
    page->count = count;
}

static void node_fake_cancel(struct timer *timer)
{
    if (!timer)
        return;
    timer->state = TIMER_CANCELLED;
    timer->ended = wall_now();
    timer->version++;
}

static void node_fake_survey(struct node *node, struct command *command)
{
    command->error = node->fails;
    if (!command->error && node->answer && command_is_of_node(command))
        command->error = node->answer(command->survey);
}

static void execute(struct node *node, struct command *command)
{
    struct timer *timer;

    switch (command->kind) {
    case COMMAND_CREATE:
    case COMMAND_PUT:
        node_fake_create(node, command);
        break;
    case COMMAND_GET:
        node_fake_find(node, command);
        break;
    case COMMAND_EXPLAIN: /* where it is, the engine knows */
        command->explained = (struct explained){.place = PLACE_WHEEL, .now = wall_now()};
        node_fake_find(node, command);
        break;
    case COMMAND_LEASE: /* the API has other calls for these two */
    case COMMAND_REPORT:
    case COMMAND_SURVEY: /* nothing is due */
        node_fake_survey(node, command);
        break;
    case COMMAND_FORECAST:
        command->error = node->fails;
        command->forecast->until = forecast_end(command->forecast);
        break;
    case COMMAND_PATCH:
    case COMMAND_TOUCH:
        patch(node, command);
        break;
    case COMMAND_CANCEL:
        node_fake_cancel(node_fake_find(node, command));
        break;
    case COMMAND_PAUSE:
    case COMMAND_RESUME:
        node_fake_pause(node, command);
        break;
    case COMMAND_REDRIVE:
    case COMMAND_FORGET:
        timer = map_get(&node->timers, command->id.serial);
        command->error = node->fails;
        if (!command->error && (!timer || timer->state != TIMER_DEAD ||
                                !bytes_equal(timer->texts.tenant, command->tenant)))
            command->error = ERROR_NOT_FOUND;
        if (!command->error && command->if_version && command->if_version != timer->version)
            command->error = ERROR_VERSION_MISMATCH;
        if (!command->error && command->kind == COMMAND_FORGET) {
            command->timer = timer;
        } else if (!command->error) {
            if (command->patch)
                timer = node_fake_patch(node, timer, command);
            timer->at = wall_max(timer->due, command->not_before);
            timer->state = timer->at.ms > timer->due.ms ? TIMER_RETRYING : TIMER_SCHEDULED;
            timer->attempts = 0;
            timer->version++;
        }
        timer_free(command->patch);
        break;
    case COMMAND_LIST:
        scan(node, command);
        break;
    case COMMAND_FIRE:
    case COMMAND_COMPLETE: /* names are the engine's; see tests/e2e */
        for (size_t i = 0; i < command->event_count; i++)
            command->events[i] =
                (struct command_event){.error = node->fails, .completed = {1, command->partition}};
        command->error = command->event_count ? ERROR_NONE : node->fails;
        timer_free(command->patch);
        break;
    }
}

static void *run(void *argument)
{
    struct node *node = argument;

    pthread_mutex_lock(&node->lock);
    while (!node->is_stopping || !list_is_empty(&node->waiting)) {
        if (list_is_empty(&node->waiting) || (node->is_held && !node->is_stopping)) {
            pthread_cond_wait(&node->changed, &node->lock);
            continue;
        }
        struct list *link = node->is_reversed ? node->waiting.prev : node->waiting.next;
        list_remove(link);
        struct node_request *request = list_item(link, struct node_request, link_);
        execute(node, &request->command);
        struct timer **page = request->command.page.timers;
        struct timer *forgotten = request->command.kind == COMMAND_FORGET && !request->command.error
                                      ? map_remove(&node->timers, request->command.id.serial)
                                      : NULL; /* the reply shows it still */
        node->inflight -= command_weight(&request->command);
        if (list_is_empty(&node->waiting))
            node->is_reversed = false;
        /* Timers change on this thread alone, so they hold still without the lock. */
        pthread_mutex_unlock(&node->lock);
        request->done(request);
        free(page);
        timer_free(forgotten);
        pthread_mutex_lock(&node->lock);
    }
    pthread_mutex_unlock(&node->lock);
    return NULL;
}

/* ---- the built-in queue; under the lock ---- */

static bool is_ready_for(const struct timer *timer, struct bytes name)
{
    char room[QUEUE_FULL_NAME_SIZE_MAX];

    return (timer->state == TIMER_SCHEDULED || timer->state == TIMER_RETRYING) &&
           timer->due.ms <= wall_now().ms && timer_is_pulled(timer) &&
           bytes_equal(queue_full_name(timer->texts.tenant, timer_target_name(timer), room), name);
}

static struct delivery *node_fake_pull(struct node *node, struct bytes name)
{
    struct timer *timer, *first = NULL;
    size_t cursor = 0;

    while ((timer = map_next(&node->timers, &cursor)))
        if (is_ready_for(timer, name) && (!first || timer->id.serial < first->id.serial))
            first = timer;
    if (!first)
        return NULL;
    struct delivery *delivery = calloc(1, sizeof(*delivery));
    assert(delivery);
    delivery->timer = first;
    delivery->attempt = ++first->attempts;
    first->state = TIMER_DELIVERING;
    return delivery;
}

static void end_delivery(struct node *node, struct delivery *delivery)
{
    struct timer *timer = map_get(&node->timers, delivery->timer->id.serial);

    timer->state = delivery->outcome.result == DELIVERY_DONE    ? TIMER_FIRED
                   : delivery->outcome.result == DELIVERY_ENDED ? TIMER_DEAD
                                                                : TIMER_RETRYING;
    if (timer->state == TIMER_DEAD) {
        timer->ended = wall_now();
        timer->at = storage_dead_at(timer->ended);
    }
    if (delivery->outcome.result == DELIVERY_FAILED)
        timer->due = wall_add(wall_now(), delivery->outcome.retry_after_ms);
    delivery->recorded = node->fails;
    if (delivery->wants_record)
        queue_recorded(node->queue, delivery);
    else
        free(delivery);
}

static void turn(struct node *node)
{
    queue_advance(node->queue, instant_now());
    struct delivery *delivery;
    while ((delivery = queue_take_ended(node->queue)))
        end_delivery(node, delivery);
    struct bytes name;
    while (queue_wants(node->queue, &name))
        queue_give(node->queue, instant_now(), node_fake_pull(node, name));
    struct queue_request *reply;
    while ((reply = queue_take_reply(node->queue))) {
        struct node_queue_request *request = list_item(reply, struct node_queue_request, queue);

        if (reply->kind == QUEUE_LEASE && !reply->error && !list_is_empty(reply->leases))
            request->leased(request);
        request->done(request);
    }
}

enum error_code node_queue_submit(struct node *node, struct node_queue_request *request)
{
    pthread_mutex_lock(&node->lock);
    enum error_code error = node->refuses;
    if (!error) {
        queue_submit(node->queue, instant_now(), &request->queue);
        turn(node);
    }
    pthread_mutex_unlock(&node->lock);
    return error;
}

void node_queue_give_up(struct node *node, struct node_queue_request *request)
{
    (void)request;
    pthread_mutex_lock(&node->lock);
    node->given_up++;
    pthread_mutex_unlock(&node->lock);
}

size_t node_fake_given_up(struct node *node)
{
    pthread_mutex_lock(&node->lock);
    const size_t given_up = node->given_up;
    pthread_mutex_unlock(&node->lock);
    return given_up;
}

void node_queue_stop_waiting(struct node *node)
{
    pthread_mutex_lock(&node->lock);
    queue_stop_waiting(node->queue);
    turn(node);
    pthread_mutex_unlock(&node->lock);
}

void node_fake_tick(struct node *node)
{
    pthread_mutex_lock(&node->lock);
    struct timer *timer;
    size_t cursor = 0;
    while ((timer = map_next(&node->timers, &cursor))) {
        char room[QUEUE_FULL_NAME_SIZE_MAX];

        if (timer_is_pulled(timer))
            queue_wake(node->queue,
                       queue_full_name(timer->texts.tenant, timer_target_name(timer), room));
    }
    turn(node);
    pthread_mutex_unlock(&node->lock);
}

/* ---- node.h ---- */

enum error_code node_backup_start(struct node *node, struct node_backup *backup)
{
    (void)node, (void)backup;
    return ERROR_BACKUP_OFF;
}

bool node_maintenance(struct node *node, char ret_note[NODE_NOTE_SIZE_MAX], size_t *ret_size)
{
    (void)node, (void)ret_note;
    *ret_size = 0;
    return false;
}

/* The real tables, in memory alone. */
void node_hold(struct node *node, struct node_hold *hold)
{
    const struct target_pause *pause = &hold->pause;
    struct target_pauses *next, *last = node->pauses;

    hold->result = ERROR_IO;
    if (hold->kind == NODE_HOLD_PAUSE)
        hold->result = target_pauses_put(last, hold->at, pause, &next);
    else if (hold->kind == NODE_HOLD_RESUME)
        hold->result = target_pauses_remove(last, hold->at, pause->tenant, pause->name, &next);
    if (hold->kind == NODE_HOLD_RESET) {
        hold->result = ERROR_NONE;
        hold->done(hold);
        return;
    }
    error_set(&hold->error, hold->result, "%s", hold->result == ERROR_IO ? "no folder" : "");
    if (!hold->result) {
        node->pauses = next;
        target_pauses_leave(last);
    }
    hold->done(hold);
}

struct target_pauses *node_pauses(struct node *node)
{
    return target_pauses_hold(node->pauses);
}

static void node_fake_take(struct node *node, struct node_request *request)
{
    node->submitted++;
    if (list_is_empty(&node->waiting) || node->is_held)
        pthread_cond_broadcast(&node->changed);
    list_push(&node->waiting, &request->link_);
}

/* Under the lock. */
static enum error_code node_fake_admit(struct node *node, struct node_request *request)
{
    enum error_code error = node->refuses;

    if (!error && node->inflight + command_weight(&request->command) > node->inflight_max)
        error = ERROR_OVERLOADED;
    if (!error) {
        node->inflight += command_weight(&request->command);
        if (node->inflight > node->inflight_peak)
            node->inflight_peak = node->inflight;
    }
    return error;
}

enum error_code node_submit(struct node *node, struct node_request *request)
{
    pthread_mutex_lock(&node->lock);
    enum error_code error = node_fake_admit(node, request);
    if (!error)
        node_fake_take(node, request);
    pthread_mutex_unlock(&node->lock);
    return error;
}

enum error_code node_submit_later(struct node *node, struct node_request *request,
                                  struct list *outbox)
{
    pthread_mutex_lock(&node->lock);
    enum error_code error = node_fake_admit(node, request);
    pthread_mutex_unlock(&node->lock);
    if (!error)
        list_push(outbox, &request->link_);
    return error;
}

void node_send(struct node *node, struct list *outbox)
{
    pthread_mutex_lock(&node->lock);
    for (struct list *link; (link = list_pop(outbox));)
        node_fake_take(node, list_item(link, struct node_request, link_));
    pthread_mutex_unlock(&node->lock);
}

struct zone_source node_zones(struct node *node)
{
    (void)node;
    return (struct zone_source){0};
}

uint16_t node_partition_count(const struct node *node)
{
    return node->partition_count;
}

unsigned node_shard_count(const struct node *node)
{
    return node->thread_count;
}

struct event_loop *const *node_loops(struct node *node)
{
    (void)node;
    return NULL;
}

uint16_t node_partition_next(struct node *node, unsigned shard, size_t count)
{
    (void)shard, (void)count;
    return (uint16_t)(__atomic_fetch_add(&node->partition_turn, 1, __ATOMIC_RELAXED) %
                      node->partition_count);
}

void node_health(struct node *node, struct node_health *ret_health)
{
    pthread_mutex_lock(&node->lock);
    *ret_health = (struct node_health){.is_ready = !node->not_ready, .is_recovered = true};
    if (node->not_ready)
        strncpy(ret_health->reason, node->not_ready, sizeof(ret_health->reason) - 1);
    pthread_mutex_unlock(&node->lock);
}

void node_waiting(struct node *node, struct metrics_waiting *ret_waiting)
{
    (void)node;
    ret_waiting->zones = (struct zones_missing){.count = 0};
    memcpy(ret_waiting->tzdata, "unknown", sizeof("unknown"));
    ret_waiting->queue_count = ret_waiting->tenant_count = 0;
}

void node_refresh_metrics(struct node *node)
{
    (void)node;
}

struct feed *node_feed(struct node *node)
{
    return node->feed;
}

/* ---- the tests' side ---- */

struct node *node_fake_start(uint16_t partition_count, unsigned threads)
{
    struct node *node = calloc(1, sizeof(*node));

    assert(node);
    pthread_mutex_init(&node->lock, NULL);
    pthread_cond_init(&node->changed, NULL);
    list_init(&node->waiting);
    map_init(&node->timers);
    node->queue = queue_create((const uint8_t[QUEUE_SECRET_SIZE]){1, 2}, 0, instant_now());
    node->feed = feed_create();
    node->pauses = target_pauses_create();
    assert(node->queue && node->feed && node->pauses);
    node->partition_count = partition_count;
    node->thread_count = threads;
    node->inflight_max = SIZE_MAX / 2;
    int error = pthread_create(&node->thread, NULL, run, node);
    assert(!error);
    (void)error;
    return node;
}

void node_fake_stop(struct node *node)
{
    pthread_mutex_lock(&node->lock);
    node->is_stopping = true;
    pthread_cond_broadcast(&node->changed);
    pthread_mutex_unlock(&node->lock);
    pthread_join(node->thread, NULL);
    queue_destroy(node->queue);
    feed_destroy(node->feed);
    target_pauses_leave(node->pauses);
    struct timer *timer;
    size_t cursor = 0;
    while ((timer = map_next(&node->timers, &cursor)))
        timer_free(timer);
    map_deinit(&node->timers);
    pthread_cond_destroy(&node->changed);
    pthread_mutex_destroy(&node->lock);
    free(node);
}

void node_fake_refuse(struct node *node, enum error_code error)
{
    pthread_mutex_lock(&node->lock);
    node->refuses = error;
    pthread_mutex_unlock(&node->lock);
}

void node_fake_fail(struct node *node, enum error_code error)
{
    pthread_mutex_lock(&node->lock);
    node->fails = error;
    pthread_mutex_unlock(&node->lock);
}

void node_fake_outpace(struct node *node, size_t count)
{
    pthread_mutex_lock(&node->lock);
    node->outpaced = count;
    pthread_mutex_unlock(&node->lock);
}

void node_fake_set_inflight_max(struct node *node, size_t timers)
{
    pthread_mutex_lock(&node->lock);
    node->inflight_max = timers;
    pthread_mutex_unlock(&node->lock);
}

void node_fake_hold(struct node *node)
{
    pthread_mutex_lock(&node->lock);
    node->is_held = true;
    pthread_mutex_unlock(&node->lock);
}

void node_fake_release(struct node *node)
{
    pthread_mutex_lock(&node->lock);
    node->is_held = false;
    node->is_reversed = true;
    pthread_cond_broadcast(&node->changed);
    pthread_mutex_unlock(&node->lock);
}

void node_fake_await_submitted(struct node *node, size_t count)
{
    pthread_mutex_lock(&node->lock);
    while (node->submitted < count)
        pthread_cond_wait(&node->changed, &node->lock);
    pthread_mutex_unlock(&node->lock);
}

void node_fake_set_others(struct node *node, size_t count,
                          enum error_code (*answer)(struct survey *survey))
{
    pthread_mutex_lock(&node->lock);
    node->other_count = count;
    node->answer = answer;
    pthread_mutex_unlock(&node->lock);
}

void node_fake_set_not_ready(struct node *node, const char *reason)
{
    pthread_mutex_lock(&node->lock);
    node->not_ready = reason;
    pthread_mutex_unlock(&node->lock);
}

bool node_fake_set_state(struct node *node, const struct timer_id *id, enum timer_state state)
{
    pthread_mutex_lock(&node->lock);
    struct timer *timer = map_get(&node->timers, id->serial);
    if (timer)
        timer->state = state;
    if (timer && state == TIMER_DEAD)
        timer->at = storage_dead_at(wall_now());
    pthread_mutex_unlock(&node->lock);
    return timer;
}

bool node_fake_set_error(struct node *node, const struct timer_id *id, const char *error)
{
    pthread_mutex_lock(&node->lock);
    struct timer *timer = map_get(&node->timers, id->serial);
    if (timer) {
        struct timer_texts texts = timer->texts;

        texts.last_error = bytes_of(error);
        struct timer *copy = timer_copy(timer, &texts);
        assert(copy);
        map_put(&node->timers, id->serial, copy);
        timer_free(timer);
    }
    pthread_mutex_unlock(&node->lock);
    return timer;
}

size_t node_fake_submitted(struct node *node)
{
    pthread_mutex_lock(&node->lock);
    size_t submitted = node->submitted;
    pthread_mutex_unlock(&node->lock);
    return submitted;
}

size_t node_fake_created(struct node *node)
{
    pthread_mutex_lock(&node->lock);
    size_t created = node->created;
    pthread_mutex_unlock(&node->lock);
    return created;
}

size_t node_fake_inflight_peak(struct node *node)
{
    pthread_mutex_lock(&node->lock);
    size_t peak = node->inflight_peak;
    pthread_mutex_unlock(&node->lock);
    return peak;
}

bool node_target_status(const struct node *node, const struct timer *timer,
                        struct target_status *ret_status)
{
    (void)node;
    *ret_status = (struct target_status){.origin = timer_target_origin(timer)};
    return !timer_is_pulled(timer);
}

void node_tenants(struct node *node,
                  void (*tell)(void *context, struct bytes tenant, uint64_t pending), void *context)
{
    (void)node, (void)tell, (void)context;
}

void node_set_refusals(struct node *node, const struct node_refusals *refusals)
{
    (void)node, (void)refusals;
}

size_t node_others(struct node *node, uint32_t ret_nodes[NODE_OTHERS_MAX])
{
    pthread_mutex_lock(&node->lock);
    const size_t count = node->other_count;
    pthread_mutex_unlock(&node->lock);
    for (size_t i = 0; i < count; i++)
        ret_nodes[i] = (uint32_t)i + 2;
    return count;
}

bool node_broker_status(const struct node *node, size_t index, struct broker_status *ret_status)
{
    (void)node, (void)index, (void)ret_status;
    return false;
}

bool node_brokers_trouble(struct node *node, char *ret_reason, size_t size)
{
    (void)node, (void)ret_reason, (void)size;
    return false;
}

struct wall node_wall_coming(struct node *node)
{
    (void)node;
    return wall_coming();
}

uint64_t node_cluster_id(const struct node *node)
{
    (void)node;
    return 0;
}

void node_members(struct node *node,
                  void (*tell)(void *context, const struct node_member_view *member), void *context)
{
    (void)node, (void)tell, (void)context;
}

bool node_partition(struct node *node, uint16_t partition, struct node_partition_view *ret_view)
{
    (void)node, (void)partition, (void)ret_view;
    return false;
}
