/* node_hold.c - changes of pauses and maintenance on their way through a log; see node_hold.h. */
#include "node/node_hold.h"

#include "node/node_state.h"
#include "node/storage_health.h"
#include "node/storage_loops.h"
#include "sys/clock.h"

#include <assert.h>

static void node_hold_end(struct node_hold *hold, enum error_code code, const char *text)
{
    hold->result = code;
    error_set(&hold->error, code, "%s", text);
    hold->done(hold);
}

/* ---- requests, from any thread ---- */

bool node_maintenance(struct node *node, char ret_note[NODE_NOTE_SIZE_MAX], size_t *ret_size)
{
    struct node_holds *holds = &node->holds;

    pthread_mutex_lock(&holds->lock);
    const bool is_held = atomic_load(&holds->is_maintained);
    *ret_size = is_held ? holds->note_size : 0;
    memcpy(ret_note, holds->note, *ret_size);
    pthread_mutex_unlock(&holds->lock);
    return is_held;
}

struct target_pauses *node_pauses(struct node *node)
{
    return node_holds_pauses(&node->holds);
}

struct definitions *node_definitions(struct node *node)
{
    return node_holds_definitions(&node->holds);
}

struct definitions *node_stored_definitions(struct node *node)
{
    return node_holds_stored(&node->holds);
}

/* What a drain needs to know of the members. */
struct node_hold_members {
    uint32_t node;
    bool is_known;
    uint32_t other; /* another node that takes partitions; 0 if there is none */
};

static void node_hold_look(void *context, const struct node_member_view *member)
{
    struct node_hold_members *members = context;

    if (member->node == members->node)
        members->is_known = true;
    else if (member->is_alive && member->weight > 0 && !member->is_drained)
        members->other = member->node;
}

/* Refuses a drain that the cluster cannot take; names a witness for one that it can. */
static enum error_code node_hold_check_drain(struct node *node, struct node_hold *hold)
{
    struct node_hold_members members = {.node = hold->node};
    const bool is_drained = node_holds_is_drained(&node->holds, hold->node);

    if (hold->kind != NODE_HOLD_DRAIN && hold->kind != NODE_HOLD_UNDRAIN)
        return ERROR_NONE;
    if (!node->cluster.control)
        return error_set(&hold->error, ERROR_NOT_FOUND, "This daemon is in no cluster");
    node_members(node, node_hold_look, &members);
    if (!members.is_known && !is_drained)
        return error_set(&hold->error, ERROR_NOT_FOUND, "The cluster has no node %u", hold->node);
    if (hold->kind == NODE_HOLD_DRAIN && !is_drained && !members.other)
        return error_set(&hold->error, ERROR_INVALID,
                         "Node %u is the last that takes partitions: nobody could have them",
                         hold->node);
    hold->witness_ = members.other ? members.other : hold->node + 1; /* a repetition needs none */
    return ERROR_NONE;
}

void node_hold(struct node *node, struct node_hold *hold)
{
    struct node_holds *holds = &node->holds;

    hold->result = node_hold_check_drain(node, hold);
    if (hold->result) {
        hold->done(hold);
        return;
    }
    pthread_mutex_lock(&holds->lock);
    const bool has_ended = holds->has_ended;
    list_init(&hold->link_);
    if (!has_ended)
        list_push(&holds->requests, &hold->link_);
    pthread_mutex_unlock(&holds->lock);
    if (has_ended)
        node_hold_end(hold, ERROR_STOPPING, "");
    else if (node->cluster.control)
        log_wake(node->cluster.control->log);
    else
        node_replica_wake(&node->cluster.replicas[NODE_HOLD_PARTITION]);
}

/* ---- the carrier ---- */

static void node_hold_answer(struct node_holds *holds, enum error_code code)
{
    struct node_hold *hold = holds->asked;
    struct error error = {.text = ""};

    holds->asked = NULL;
    if (code)
        node_holds_refuse(holds->change.kind, code, &error);
    node_hold_end(hold, code, error.text);
}

/* Begins the next change. Returns false if none waits, or one is under way. */
static bool node_hold_begin(struct node_holds *holds)
{
    static_assert((int)HOLDS_PAUSE == (int)NODE_HOLD_PAUSE + 1 &&
                      (int)HOLDS_UNDEFINE == (int)NODE_HOLD_UNDEFINE + 1 &&
                      HOLDS_ANY_VERSION == NODE_ANY_VERSION,
                  "kinds are of one order");

    if (holds->asked)
        return false;
    pthread_mutex_lock(&holds->lock);
    struct list *link = list_pop(&holds->requests);
    pthread_mutex_unlock(&holds->lock);
    if (!link)
        return false;
    holds->asked = list_item(link, struct node_hold, link_);
    holds->change = (struct holds_change){
        .kind = (enum holds_kind)(holds->asked->kind + 1),
        .ask = holds->change.ask + 1,
        .at = holds->asked->at,
        .pause = holds->asked->pause,
        .node = holds->asked->node,
        .witness = holds->asked->witness_,
        .definition = holds->asked->definition,
    };
    return true;
}

/* Resets the breakers of this node. A node that starts later reads old resets, and had no open
 * breakers then. */
static void node_hold_reset(struct node_holds *holds, const struct holds_change *change,
                            bool is_asked)
{
    struct node_hold *hold = is_asked ? holds->asked : NULL;
    struct error error = {.text = ""};
    enum error_code code = ERROR_NONE;
    size_t count = 0;

    if (hold || wall_now().ms < wall_add(change->at, NODE_RESET_MS).ms)
        code = node_holds_reset(holds, change->pause.tenant, change->pause.name, wall_coming(),
                                &count, &error);
    if (!hold)
        return;
    holds->asked = NULL;
    hold->reset_count = count;
    node_hold_end(hold, code, error.text);
}

/* Applies a change that is in the log, and answers the request if this node made it. */
static void node_hold_make(struct node_holds *holds, const struct holds *made,
                           const struct holds_change *change, bool is_asked)
{
    if (change && change->kind == HOLDS_RESET) {
        node_hold_reset(holds, change, is_asked);
        return;
    }
    node_holds_show(holds, made, change);
    if (is_asked && change && change->kind == HOLDS_DEFINE)
        holds->asked->version = made->defined;
    if (is_asked)
        node_hold_answer(holds, ERROR_NONE);
}

void node_hold_end_all(struct node *node)
{
    struct node_holds *holds = &node->holds;
    struct list requests;

    list_init(&requests);
    pthread_mutex_lock(&holds->lock);
    holds->has_ended = true;
    list_join(&requests, &holds->requests);
    pthread_mutex_unlock(&holds->lock);
    if (holds->asked)
        node_hold_answer(holds, ERROR_IN_DOUBT);
    for (struct list *link; (link = list_pop(&requests));)
        node_hold_end(list_item(link, struct node_hold, link_), ERROR_STOPPING, "");
}

/* ---- in a cluster ---- */

void node_hold_ask(struct node_control *control, struct instant now)
{
    struct node_holds *holds = &control->node->holds;

    if (node_hold_begin(holds) && !control_change(control->control, &holds->change, now))
        node_hold_answer(holds, ERROR_OVERLOADED);
}

void node_hold_on_held(void *context, const struct holds *made, const struct holds_change *change,
                       uint64_t ask, enum error_code code)
{
    struct node_holds *holds = &((struct node_control *)context)->node->holds;

    if (!code)
        node_hold_make(holds, made, change, ask != 0);
    else if (ask)
        node_hold_answer(holds, code);
}

void node_hold_on_unheld(void *context, uint64_t ask, enum error_code code)
{
    (void)ask;
    node_hold_answer(&((struct node_control *)context)->node->holds, code);
}

/* ---- without a cluster ---- */

static enum error_code node_hold_read(struct storage *storage, struct holds *ret_holds,
                                      struct error *ret_error)
{
    uint64_t read_to;
    struct buffer bytes;

    buffer_init(&bytes);
    enum error_code code = storage_load_holds(storage, NODE_HOLD_PARTITION, &bytes, ret_error);
    if (!code && bytes.size)
        code = holds_decode(buffer_bytes(&bytes), ret_holds, &read_to);
    else if (!code)
        code = holds_init(ret_holds) ? ERROR_NONE : ERROR_NO_MEMORY;
    buffer_deinit(&bytes);
    if (code == ERROR_CORRUPT)
        error_set(ret_error, code,
                  "the record of what is paused is damaged: restore a backup, or start with "
                  "storage_damage = skip, and nothing paused");
    return code;
}

static bool node_hold_is_carrier(const struct node_replica *replica)
{
    return !replica->node->cluster.control && replica->partition->index == NODE_HOLD_PARTITION;
}

bool node_hold_load(struct node_replica *replica)
{
    struct node *node = replica->node;
    struct node_holds *holds = &node->holds;
    const struct plan_entry own = {.owner = node_self(node)};
    struct holds made;
    struct error error = {.text = "the pauses: out of memory"};

    if (!node_hold_is_carrier(replica))
        return true;
    enum error_code code = node_hold_read(node->disk.storage, &made, &error);

    if (code == ERROR_CORRUPT && node->config->storage_damage == CONFIG_STORAGE_DAMAGE_SKIP)
        code = holds_init(&made) ? ERROR_NONE : ERROR_NO_MEMORY;
    if (code) {
        error.code = code;
        storage_health_note(&node->disk, &error);
        storage_committed(&node->disk, code, 0);
        return false;
    }
    holds_deinit(&holds->made);
    holds->made = made;
    node_hold_make(holds, &made, NULL, false);
    for (uint16_t i = 0; i < node->partition_count; i++)
        node_replica_plan(&node->cluster.replicas[i], &own);
    return true;
}

/* Makes the batch of the change that is under way. */
static enum error_code node_hold_prepare(struct node_holds *holds)
{
    holds->next = holds_share(&holds->made);
    enum error_code code = holds_apply(&holds->next, &holds->change);
    if (!code) {
        buffer_clear(&holds->bytes);
        holds_encode(&holds->next, 0, &holds->bytes);
        code = buffer_failed(&holds->bytes) ? ERROR_NO_MEMORY : ERROR_NONE;
    }
    if (code)
        holds_deinit(&holds->next);
    holds->batch = (struct storage_batch){.partition = NODE_HOLD_PARTITION,
                                          .holds = buffer_bytes(&holds->bytes)};
    return code;
}

/* A reset leaves the holds unchanged, and is not written. */
static void node_hold_commit_one(struct node *node)
{
    struct node_holds *holds = &node->holds;
    struct list batches;

    if (holds->change.kind == HOLDS_RESET) {
        node_hold_make(holds, &holds->made, &holds->change, true);
        return;
    }
    const enum error_code code = node_hold_prepare(holds);
    if (code) {
        node_hold_answer(holds, code);
        return;
    }
    list_init(&batches);
    list_push(&batches, &holds->batch.link);
    node_replica_commit(node, &batches);
}

void node_hold_commit(struct node_replica *replica)
{
    struct node *node = replica->node;

    while (node_hold_is_carrier(replica) && node->holds.made.pauses &&
           node_hold_begin(&node->holds))
        node_hold_commit_one(node);
}

bool node_hold_take_batch(struct node_replica *replica, const struct storage_batch *batch)
{
    struct node_holds *holds = &replica->node->holds;

    if (batch != &holds->batch)
        return false;
    if (batch->result) {
        holds_deinit(&holds->next);
        node_hold_answer(holds, batch->result);
    } else {
        holds_deinit(&holds->made);
        holds->made = holds->next;
        holds->next = (struct holds){.pauses = NULL};
        node_hold_make(holds, &holds->made, &holds->change, true);
    }
    node_hold_commit(replica); /* begins the next change */
    return true;
}
