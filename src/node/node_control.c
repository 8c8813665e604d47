/* node_control.c - the thread for the control topic; see node_control.h. */
#include "node/node_control.h"

#include "node/node_cluster_log.h"
#include "node/node_copy.h"
#include "node/node_hold.h"
#include "node/node_limits.h"
#include "node/node_members.h"
#include "node/node_replica.h"
#include "node/node_state.h"
#include "node/storage_health.h"
#include "sys/clock.h"
#include "sys/entropy.h"
#include "sys/process.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TURN_MS = 5, /* longest time for events of the log in one turn */
    /* longest time between two turns, and while an append is in flight, which may be late */
    IDLE_LOOK_MS = 500,
    SENT_LOOK_MS = 100,
    /* records before the end at which reading begins: a plan is repeated each minute */
    TAIL_RECORDS = 16384,
    /* records that a trim leaves in the log, more than a start reads */
    FOUNDING_RECORDS = 2 * TAIL_RECORDS,
    JOIN_MS = 60000,        /* time limit for the brokers to answer at the start */
    TOPICS_LOOK_MS = 60000, /* interval of checks of the topics' settings */
};

/* ---- what the control has others do ---- */

static void node_control_on_append(void *context, uint64_t ticket, struct bytes bytes)
{
    struct node_control *control = context;

    control->sent_difference_us = node_clock_difference_us();
    control->sent = wall_now();
    if (log_append(control->log, ticket, bytes, NULL)) {
        control->refused_ticket = ticket;
        return;
    }
    control->is_sent = true;
    if (cluster_log_client_fd(control->client) >= 0)
        event_loop_watch(&control->loop, cluster_log_client_fd(control->client),
                         &control->client_source, EPOLLIN | EPOLLET);
}

static enum roster_role node_control_role(enum ownership_state state)
{
    switch (state) {
    case OWNERSHIP_RESTORING:
        return ROSTER_RESTORING;
    case OWNERSHIP_STANDBY:
    case OWNERSHIP_CLAIMING:
    case OWNERSHIP_LEAVING:
        return ROSTER_STANDBY;
    case OWNERSHIP_RECOVERING:
    case OWNERSHIP_ACTIVE:
    case OWNERSHIP_DRAINING:
        return ROSTER_OWNER;
    case OWNERSHIP_BROKEN:
        return ROSTER_BROKEN;
    }
    return ROSTER_ABSENT;
}

/* Returns the part of the time since the last note that the shards' threads have used, in
 * thousandths. */
static uint16_t node_control_load(struct node_control *control)
{
    struct node *node = control->node;
    const struct instant now = instant_now();
    const uint64_t time_ns = instant_since_ns(control->load_at, now) * node->shards.count;
    struct shard_report sum;

    node_report_sum(&node->report, &sum);
    const uint64_t load = time_ns ? (sum.used_ns - control->load_ns) * 1000 / time_ns : 0;
    const bool is_first = control->load_at.ns == 0;
    control->load_at = now;
    control->load_ns = sum.used_ns;
    return is_first ? 0 : (uint16_t)(load < 1000 ? load : 1000);
}

static void node_control_on_trim(void *context, uint64_t before)
{
    struct node_control *control = context;

    log_trim(control->log, before, NULL); /* if it fails, the next trim covers these records */
}

/* True if the node is drained and another one that is not can own its partitions. When only
 * drained nodes are left, they serve. */
static bool node_control_is_drained(const struct node_control *control)
{
    const struct roster *roster = control_roster(control->control);
    struct node_holds *holds = &control->node->holds;
    const uint32_t self = control->node->config->cluster_node_id;

    if (!node_holds_is_drained(holds, self))
        return false;
    for (size_t i = 0; i < roster_count(roster); i++) {
        const struct roster_member *member = roster_at(roster, i);

        if (member->node != self && member->weight > 0 && roster_is_alive(roster, member) &&
            !node_holds_is_drained(holds, member->node))
            return true;
    }
    return false;
}

static void node_control_on_note(void *context, struct roster_note *note)
{
    struct node_control *control = context;
    struct node *node = control->node;

    pthread_mutex_lock(&control->lock);
    memcpy(control->note_address, control->peer_address, sizeof(control->note_address));
    pthread_mutex_unlock(&control->lock);
    note->address = bytes_of(control->address);
    note->internal_address = bytes_of(control->note_address);
    note->clock_offset_ms = atomic_load(&node->clock.offset_ms);
    note->zone = bytes_of(node->config->cluster_zone);
    /* a node whose disk fails, or that is drained, gives up its partitions like one that stops */
    const bool gives_up = storage_health_gives_up(&node->disk, instant_boot_now()) ||
                          node_control_is_drained(control);
    note->weight = gives_up ? 0 : (uint16_t)node->config->cluster_weight;
    note->load = node_control_load(control);
    for (uint16_t i = 0; i < node->partition_count; i++)
        if (atomic_load(&node->cluster.replicas[i].is_followed))
            note->places[note->place_count++] = (struct roster_place){
                .partition = i,
                .role = node_control_role(atomic_load(&node->cluster.replicas[i].state)),
                .next = atomic_load(&node->cluster.replicas[i].next),
            };
    node_limits_tell(control, note);
}

/* ---- what others learn ---- */

static void node_control_copy(struct node_control *control)
{
    const struct roster *roster = control_roster(control->control);

    control->planner = control_planner(control->control);
    control->member_count = roster_count(roster);
    for (size_t i = 0; i < control->member_count; i++) {
        const struct roster_member *member = roster_at(roster, i);
        struct node_control_member *copy = &control->members[i];

        copy->node = member->node;
        copy->is_alive = roster_is_alive(roster, member);
        copy->weight = member->weight;
        copy->load = member->load;
        copy->heard_at = control_heard_at(control->control, member->node);
        memcpy(copy->address, member->address, sizeof(copy->address));
        memcpy(copy->peer_address, member->internal_address, sizeof(copy->peer_address));
        memcpy(copy->zone, member->zone, sizeof(copy->zone));
    }
}

/* Publishes the owner of each partition and the end of its log, as the owners' notes say. */
static void node_control_tell_owners(struct node_control *control)
{
    const struct roster *roster = control_roster(control->control);
    struct node *node = control->node;

    for (uint16_t p = 0; p < node->partition_count; p++) {
        uint32_t owner = 0;

        for (size_t i = 0; i < roster_count(roster); i++) {
            const struct roster_member *member = roster_at(roster, i);

            if (member->standings[p].role != ROSTER_OWNER || !roster_is_alive(roster, member))
                continue;
            owner = member->node;
            atomic_store(&node->cluster.replicas[p].end, member->standings[p].next);
        }
        atomic_store(&node->cluster.replicas[p].told_owner, owner);
        node_copy_find_givers(node, roster, p);
    }
}

/* Gives each replica its part of the plan. A node that is refused, or whose clock is wrong or
 * has not been compared with the brokers', owns nothing. */
static void node_control_tell_plan(struct node_control *control)
{
    const struct plan *plan = control_plan(control->control);
    const enum control_state state = control_state(control->control);
    struct node *node = control->node;

    if (state == CONTROL_READING || state == CONTROL_PROBING || plan->version == 0 ||
        !control->has_landed)
        return;
    const bool is_refused = state == CONTROL_REFUSED || node_clock_is_wrong(&node->clock);
    for (uint16_t i = 0; i < node->partition_count; i++)
        if (is_refused)
            node_replica_refuse(&node->cluster.replicas[i]);
        else
            node_replica_plan(&node->cluster.replicas[i], &plan->entries[i]);
    atomic_store(&control->plans, true);
}

static void node_control_publish(struct node_control *control)
{
    const enum control_state state = control_state(control->control);

    char text[sizeof(control->trouble_text)] = "";
    const enum log_trouble trouble = log_get_trouble(control->log, text, sizeof(text));

    atomic_store(&control->is_founded_so, control_is_founded_so(control->control));
    pthread_mutex_lock(&control->lock);
    const bool has_changed = trouble != control->trouble;
    control->trouble = trouble;
    memcpy(control->trouble_text, text, sizeof(text));
    node_control_copy(control);
    const bool is_news = atomic_exchange(&control->state, (int)state) != (int)state;
    if (is_news && (state == CONTROL_REFUSED || state == CONTROL_BROKEN)) {
        control->error = *control_error(control->control);
        atomic_store(&control->is_foreign, strstr(control->error.text, "cluster_secret") != NULL);
    }
    if (is_news)
        pthread_cond_broadcast(&control->changed);
    pthread_mutex_unlock(&control->lock);
    /* before the plan, because a replica that wants a copy needs to know the givers */
    node_control_tell_owners(control);
    node_control_tell_plan(control);
    node_limits_hear(control);
    if (is_news || has_changed)
        mailbox_wake(&control->node->report.news);
}

/* ---- the topics ---- */

/* Checks the settings of the topics, which can change while nodes run. With wrong ones brokers
 * delete live timers. */
static void *node_control_check_topics(void *argument)
{
    struct node_control *control = argument;
    struct cluster_log_options options = node_cluster_log_options(control->node->config);
    struct cluster_log_report report;
    struct error error = {.text = ""};

    options.stops = &control->topics_end;
    const enum error_code code = cluster_log_check(&options, &report, &error);

    if (code != ERROR_IO) { /* otherwise the settings are unknown */
        pthread_mutex_lock(&control->lock);
        snprintf(control->topics_text, sizeof(control->topics_text), "%.199s", error.text);
        pthread_mutex_unlock(&control->lock);
        if (atomic_exchange(&control->topics_wrong, code != ERROR_NONE) != (code != ERROR_NONE))
            mailbox_wake(&control->node->report.news);
    }
    atomic_store(&control->topics_over, true);
    return NULL;
}

static void node_control_join_topics(struct node_control *control)
{
    if (control->has_topics_thread)
        pthread_join(control->topics_thread, NULL);
    control->has_topics_thread = false;
}

/* Runs a check when it is time, on a thread that ends with it, because brokers answer slowly. */
static void node_control_tend_topics(struct node_control *control, struct instant now)
{
    if (control->has_topics_thread && atomic_load(&control->topics_over))
        node_control_join_topics(control);
    if (control->has_topics_thread || now.ns < control->topics_at.ns)
        return;
    control->topics_at = instant_add_ms(now, TOPICS_LOOK_MS);
    atomic_store(&control->topics_over, false);
    control->has_topics_thread =
        !thread_start(&control->topics_thread, node_control_check_topics, control, "tw-topics");
}

/* ---- the thread ---- */

/* Compares the clocks: the brokers appended a record of this node at `appended`, by their clock. */
static void node_control_compare_clocks(struct node_control *control, struct wall appended)
{
    const int32_t offset_ms = control_clock_offset_ms(control->sent, appended, wall_now());
    struct node_clock *clock = &control->node->clock;

    const bool was_wrong = node_clock_is_wrong(clock), was_held = atomic_load(&clock->is_held);
    node_clock_measure(clock, control->sent_difference_us, node_clock_difference_us(), offset_ms);
    if (was_held)
        shards_wake(&control->node->shards);
    if (node_clock_is_wrong(clock) != was_wrong)
        mailbox_wake(&control->node->report.news);
}

/* Appends of other logs, which are frequent, do not wake this thread. */
static void node_control_unsend(struct node_control *control)
{
    control->is_sent = false;
    if (cluster_log_client_fd(control->client) >= 0)
        event_loop_ignore(&control->loop, &control->client_source);
}

static void node_control_handle(struct node_control *control, const struct log_event *event,
                                struct instant now)
{
    switch (event->kind) {
    case LOG_RECORD:
        control_read(control->control, event->offset, event->bytes, now);
        break;
    case LOG_END:
        control_restored(control->control, now);
        break;
    case LOG_LANDED:
        node_control_unsend(control);
        control->has_landed = true;
        if (event->appended.ms)
            node_control_compare_clocks(control, event->appended);
        control_landed(control->control, event->ticket, event->offset, now);
        break;
    case LOG_REFUSED: /* the control log refuses no append */
    case LOG_FAILED:
        node_control_unsend(control);
        control_failed(control->control, event->ticket, now);
        break;
    case LOG_LOST:
        control_lost(control->control, event->reason);
        break;
    case LOG_TRIMMED:
    case LOG_TRIM_FAILED:
    case LOG_NOTHING:
        break;
    }
}

static void node_control_hear(struct node_control *control, struct instant now)
{
    const unsigned asks = atomic_fetch_and(&control->asks, ~(unsigned)NODE_CONTROL_SECRET);

    if (asks & NODE_CONTROL_SECRET) {
        pthread_mutex_lock(&control->lock);
        const struct founding secret = control->new_secret;
        pthread_mutex_unlock(&control->lock);
        control_set_secret(control->control, &secret);
    }
    if (asks & NODE_CONTROL_LEAVE)
        control_leave(control->control, now);
    if ((asks & NODE_CONTROL_END) && control->end_until.ns == 0)
        control->end_until = instant_add_ms(now, 2 * control->node->config->cluster_lease_ms);
    node_hold_ask(control, now);
}

/* Returns false if there may be more. */
static bool node_control_take_events(struct node_control *control, struct instant *now)
{
    const struct instant until = instant_add_ms(*now, TURN_MS);
    struct log_event event;

    while (now->ns < until.ns) {
        if (log_wait(control->log, 0, &event) == LOG_NOTHING)
            return true;
        *now = instant_boot_now();
        node_control_handle(control, &event, *now);
    }
    return false;
}

/* Runs one turn: events of the log, requests of this node, then the control. */
static void node_control_go(struct node_control *control)
{
    struct instant now = instant_boot_now();

    if (control->is_sent)
        cluster_log_client_poll(control->client);
    const bool took_all = node_control_take_events(control, &now);
    node_control_hear(control, now);
    node_control_tend_topics(control, now);
    control_turn(control->control, now, wall_now());
    if (control->refused_ticket)
        control_failed(control->control, control->refused_ticket, now);
    control->refused_ticket = 0;
    const bool is_rewound = control_take_rewind(control->control);
    if (is_rewound)
        log_follow_begin(control->log, NULL);
    node_control_publish(control);
    const struct instant wake_at = control_wake_at(control->control, now);
    const struct instant look_at =
        instant_add_ms(now, control->is_sent ? SENT_LOOK_MS : IDLE_LOOK_MS);
    control->wake_at = wake_at.ns < look_at.ns ? wake_at : look_at;
    control->is_woken = !took_all || is_rewound;
}

static void node_control_on_log(struct event_source *source, uint32_t events)
{
    (void)events;
    list_item(source, struct node_control, log_source)->is_woken = true;
}

static void node_control_on_client(struct event_source *source, uint32_t events)
{
    (void)events;
    list_item(source, struct node_control, client_source)->is_woken = true;
}

static void node_control_on_turn(struct event_task *task)
{
    struct node_control *control = list_item(task, struct node_control, task);

    if (control->is_woken || instant_boot_now().ns >= control->wake_at.ns)
        node_control_go(control);
}

static uint64_t node_control_wait_ns(struct event_task *task)
{
    const struct node_control *control = list_item(task, struct node_control, task);

    return control->is_woken ? 0 : instant_since_ns(instant_boot_now(), control->wake_at);
}

static bool node_control_has_ended(const struct node_control *control)
{
    const enum control_state state = control_state(control->control);

    if (control->end_until.ns == 0)
        return false;
    return state == CONTROL_LEFT || state == CONTROL_REFUSED || state == CONTROL_BROKEN ||
           instant_boot_now().ns >= control->end_until.ns;
}

static void *node_control_run(void *argument)
{
    struct node_control *control = argument;

    if (control->reads_all)
        log_follow_begin(control->log, NULL);
    else
        log_follow_end(control->log, TAIL_RECORDS, NULL);
    while (!node_control_has_ended(control))
        event_loop_turn(&control->loop);
    node_hold_end_all(control->node);
    return NULL;
}

/* ---- start and stop ---- */

static enum error_code node_control_identify(struct node_control *control, struct error *ret_error)
{
    const struct config *config = control->node->config;
    const struct cluster_log_options options = node_cluster_log_options(config);
    struct founding founding = {0};
    const enum error_code code =
        cluster_log_identify(&options, &control->cluster, &founding, ret_error);

    /* A node without cluster_listen does not need to prove the secret. */
    if (*config->cluster_listen &&
        !founding_set_secret(&control->secret, bytes_of(config->cluster_secret)))
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    control->reads_all = control->secret.has_digest &&
                         (!founding.has_digest || !founding_agrees(&founding, &control->secret));
    return code;
}

static struct node_control *node_control_alloc(struct node *node)
{
    const struct config *config = node->config;
    const bool is_ipv6 = strchr(config->listen_address, ':');
    struct node_control *control = calloc(1, sizeof(*control));

    if (!control || event_loop_init(&control->loop)) {
        free(control);
        return NULL;
    }
    control->node = node;
    if (config->listen_port)
        snprintf(control->address, sizeof(control->address), "%s%s%s:%u", is_ipv6 ? "[" : "",
                 config->listen_address, is_ipv6 ? "]" : "", config->listen_port);
    pthread_mutex_init(&control->lock, NULL);
    instant_condition_init(&control->changed);
    control->task =
        (struct event_task){.end = node_control_on_turn, .wait_ns = node_control_wait_ns};
    control->log_source.ready = node_control_on_log;
    control->client_source.ready = node_control_on_client;
    event_loop_join(&control->loop, &control->task);
    return control;
}

enum error_code node_control_init(struct node *node, struct error *ret_error)
{
    const struct cluster_log_options options = node_cluster_log_options(node->config);

    node_clock_init(&node->clock);
    node->cluster.control = node_control_alloc(node);
    if (!node->cluster.control)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory or descriptors");
    const enum error_code code = node_control_identify(node->cluster.control, ret_error);
    return code ? code
                : cluster_log_client_open(&options, &node->cluster.control->client, ret_error);
}

static enum error_code node_control_open(struct node_control *control, struct error *ret_error)
{
    const struct config *config = control->node->config;
    struct control_options options = {
        .node = config->cluster_node_id,
        .partition_count = control->node->partition_count,
        .cluster = control->cluster,
        .lease_ms = config->cluster_lease_ms,
        .records = FOUNDING_RECORDS,
        .secret = control->secret,
        .reads_all = control->reads_all,
        .plan = {.standby_count = (uint8_t)config->cluster_standbys,
                 .clock_skew_ms_max = NODE_CLOCK_SKEW_MS_MAX},
    };
    const struct control_events events = {
        .context = control,
        .append = node_control_on_append,
        .note = node_control_on_note,
        .trim = node_control_on_trim,
        .held = node_hold_on_held,
        .unheld = node_hold_on_unheld,
    };

    if (entropy_u64(&options.seed) || entropy_u64(&options.incarnation))
        return error_set(ret_error, ERROR_IO, "the system gives no entropy");
    control->topics_at = instant_add_ms(instant_boot_now(), TOPICS_LOOK_MS);
    enum error_code code =
        cluster_log_open(control->client, CLUSTER_LOG_CONTROL,
                         REPLICA_LOST_LEASES * config->cluster_lease_ms, &control->log, ret_error);
    if (!code)
        code = control_create(&options, &events, instant_boot_now(), &control->control, ret_error);
    if (!code && !event_loop_watch(&control->loop, log_fd(control->log), &control->log_source,
                                   EPOLLIN | EPOLLET))
        code = error_set(ret_error, ERROR_IO, "the log cannot be watched");
    if (!code && thread_start(&control->thread, node_control_run, control, "tw-control"))
        code = error_set(ret_error, ERROR_IO, "no thread for the control topic");
    control->is_running = !code;
    return code;
}

/* Waits until the cluster has admitted or refused the node. */
static enum error_code node_control_await(struct node_control *control, struct error *ret_error)
{
    const struct timespec until = instant_timespec(instant_add_ms(instant_now(), JOIN_MS));
    enum error_code code = ERROR_NONE;
    int timed_out = 0;

    pthread_mutex_lock(&control->lock);
    while (atomic_load(&control->state) <= CONTROL_PROBING && !timed_out)
        timed_out = pthread_cond_timedwait(&control->changed, &control->lock, &until);
    if (atomic_load(&control->state) <= CONTROL_PROBING) {
        code = error_set(ret_error, ERROR_IO, "the control log of the cluster cannot be read");
    } else if (control->error.code) {
        code = control->error.code;
        if (ret_error)
            *ret_error = control->error;
    }
    pthread_mutex_unlock(&control->lock);
    return code;
}

enum error_code node_control_start(struct node *node, struct error *ret_error)
{
    struct node_control *control = node->cluster.control;
    const enum error_code code = node_control_open(control, ret_error);

    return code ? code : node_control_await(control, ret_error);
}

void node_control_leave(struct node *node)
{
    if (node->cluster.control)
        node_control_ask(node->cluster.control, NODE_CONTROL_LEAVE);
}

void node_control_stop(struct node *node)
{
    struct node_control *control = node->cluster.control;

    if (!control || !control->is_running)
        return;
    atomic_store(&control->topics_end, true);
    node_control_ask(control, NODE_CONTROL_LEAVE | NODE_CONTROL_END);
    pthread_join(control->thread, NULL);
    control->is_running = false;
    node_control_join_topics(control);
}

void node_control_free(struct node *node)
{
    struct node_control *control = node->cluster.control;

    if (!control)
        return;
    node_control_stop(node);
    event_loop_deinit(&control->loop);
    log_close(control->log);
    cluster_log_client_close(control->client);
    control_destroy(control->control);
    pthread_cond_destroy(&control->changed);
    pthread_mutex_destroy(&control->lock);
    free(control);
    node->cluster.control = NULL;
}
