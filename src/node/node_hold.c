/* node_hold.c - changes of pauses and maintenance: in files of a single node, or as notes in the
 * control topic of a cluster, which all nodes read. There the files have no meaning. */
#include "node/node_hold.h"

#include "node/maintenance.h"
#include "node/node_state.h"
#include "node/pauses.h"
#include "sys/clock.h"

#include <assert.h>

static void node_hold_end(struct node_hold *hold, enum error_code code, const char *text)
{
    hold->result = code;
    error_set(&hold->error, code, "%s", text);
    hold->done(hold);
}

/* ---- a single node ---- */

static enum error_code node_hold_here(struct node *node, struct node_hold *hold,
                                      struct error *ret_error)
{
    switch (hold->kind) {
    case NODE_HOLD_PAUSE:
        return pauses_put(&node->holds, &hold->pause, ret_error);
    case NODE_HOLD_RESUME:
        return pauses_remove(&node->holds, hold->pause.tenant, hold->pause.name, hold->at,
                             ret_error);
    case NODE_HOLD_MAINTAIN:
        return maintenance_begin(&node->holds, hold->pause.note, ret_error);
    case NODE_HOLD_RESET:
        return pauses_reset(&node->holds, hold->pause.tenant, hold->pause.name, hold->at,
                            &hold->reset_count, ret_error);
    case NODE_HOLD_END:
        break;
    }
    return maintenance_end(&node->holds, ret_error);
}

bool node_maintenance(struct node *node, char ret_note[NODE_NOTE_SIZE_MAX], size_t *ret_size)
{
    return maintenance_is_on(&node->holds, ret_note, ret_size);
}

struct target_pauses *node_pauses(struct node *node)
{
    return pauses_take(&node->holds);
}

void node_hold(struct node *node, struct node_hold *hold)
{
    struct node_control *control = node->cluster.control;

    if (!control) {
        struct error error = {.text = ""};
        const enum error_code code = node_hold_here(node, hold, &error);

        node_hold_end(hold, code, error.text);
        return;
    }
    pthread_mutex_lock(&control->lock);
    const bool has_ended = control->has_ended;
    list_init(&hold->link_);
    if (!has_ended)
        list_push(&control->holds, &hold->link_);
    pthread_mutex_unlock(&control->lock);
    if (has_ended)
        node_hold_end(hold, ERROR_STOPPING, "");
    else
        log_wake(control->log);
}

/* ---- a cluster; on the thread of the control topic ---- */

static void node_hold_answer(struct node_control *control, enum error_code code)
{
    struct node_hold *hold = control->asked;
    struct error error = {.text = ""};

    control->asked = NULL;
    if (code)
        pauses_refuse(code, &error);
    node_hold_end(hold, code, error.text);
}

void node_hold_ask(struct node_control *control, struct instant now)
{
    static_assert((int)HOLDS_PAUSE == (int)NODE_HOLD_PAUSE + 1 &&
                      (int)HOLDS_RESET == (int)NODE_HOLD_RESET + 1,
                  "kinds are of one order");

    if (control->asked)
        return;
    pthread_mutex_lock(&control->lock);
    struct list *link = list_pop(&control->holds);
    pthread_mutex_unlock(&control->lock);
    if (!link)
        return;
    struct node_hold *hold = list_item(link, struct node_hold, link_);
    const struct holds_change change = {
        .kind = (enum holds_kind)(hold->kind + 1),
        .ask = ++control->ask,
        .at = hold->at,
        .pause = hold->pause,
    };
    control->asked = hold;
    if (!control_change(control->control, &change, now))
        node_hold_answer(control, ERROR_OVERLOADED);
}

static void node_hold_show_pauses(struct node *node, const struct holds *holds,
                                  const struct holds_change *change)
{
    struct target_pauses *last = pauses_take(&node->holds);

    target_pause_board_show(&node->holds.pauses, target_pauses_hold(holds->pauses));
    shards_wake(&node->shards);
    if (change) {
        const struct target_pause *pause = &change->pause;
        const struct target_pause *was = target_pauses_find(last, pause->tenant, pause->name);

        if (change->kind == HOLDS_PAUSE || target_pause_is_in_force(was, wall_now()))
            pauses_tell(&node->holds, pause->tenant, pause->name);
    }
    target_pauses_leave(last);
}

/* Resets the breakers of this node. A node that starts later reads old resets, and had no open
 * breakers then. */
static void node_hold_reset(struct node_control *control, const struct holds_change *change,
                            uint64_t ask)
{
    struct node_hold *hold = ask ? control->asked : NULL;
    struct error error = {.text = ""};
    enum error_code code = ERROR_NONE;
    size_t count = 0;

    if (hold || wall_now().ms < wall_add(change->at, NODE_RESET_MS).ms)
        code = pauses_reset(&control->node->holds, change->pause.tenant, change->pause.name,
                            wall_coming(), &count, &error);
    if (!hold)
        return;
    control->asked = NULL;
    hold->reset_count = count;
    node_hold_end(hold, code, error.text);
}

void node_hold_on_held(void *context, const struct holds *holds, const struct holds_change *change,
                       uint64_t ask, enum error_code code)
{
    struct node_control *control = context;
    struct node *node = control->node;
    const bool is_pause = change && (change->kind == HOLDS_PAUSE || change->kind == HOLDS_RESUME);

    if (!code && change && change->kind == HOLDS_RESET) {
        node_hold_reset(control, change, ask);
        return;
    }
    if (!code && (!change || is_pause))
        node_hold_show_pauses(node, holds, change);
    if (!code && !is_pause)
        maintenance_show(&node->holds, holds->is_maintained,
                         (struct bytes){holds->note, holds->note_size});
    if (ask)
        node_hold_answer(control, code);
}

void node_hold_on_unheld(void *context, uint64_t ask, enum error_code code)
{
    (void)ask;
    node_hold_answer(context, code);
}

void node_hold_end_all(struct node_control *control)
{
    struct list holds;

    list_init(&holds);
    pthread_mutex_lock(&control->lock);
    control->has_ended = true;
    list_join(&holds, &control->holds);
    pthread_mutex_unlock(&control->lock);
    if (control->asked)
        node_hold_answer(control, ERROR_IN_DOUBT);
    for (struct list *link; (link = list_pop(&holds));)
        node_hold_end(list_item(link, struct node_hold, link_), ERROR_STOPPING, "");
}
