/* control.c - the control topic on one node; see control.h.
 *
 * Records of the planner and notes of this node share the log, and one append is in flight at a
 * time: the planner's goes first, for a planner that is late is replaced. */
#include "cluster/control.h"

#include "base/check.h"

#include <assert.h>
#include <stdlib.h>

enum {
    CONTROL_FOUND_MS = 10000, /* minimum interval of foundings: each takes a while to be read */
    /* losses without a record read between them that break the log: trims can overtake the
     * reader */
    CONTROL_LOSSES_MAX = 2,
};

enum control_append {
    CONTROL_NO_APPEND,
    CONTROL_APPEND_NOTE,
    CONTROL_APPEND_CHANGE,
    CONTROL_APPEND_HOLDS,
    CONTROL_APPEND_OWN,
};

struct cluster_control {
    struct control_options options;
    struct founding former; /* of control_set_secret */
    struct control_events events;
    enum control_state state;
    struct error error;
    struct ownership own; /* ownership of the control partition */
    bool has_begun;       /* whether a record was read */
    bool is_blind;        /* reading began in the middle, and no record of a planner was read yet */
    bool is_rewound;
    bool is_from_first; /* reading began with the first record of the log */
    unsigned losses;    /* losses while the first record was read, and since the last record */
    bool has_founding;
    struct founding founded; /* founding of the cluster as last read, with its digest */
    uint64_t founding;       /* offset of the last founding, or else of the first record read */
    struct instant found_at;
    struct roster *roster;
    struct roster_note note;
    /* nodes whose last notes were read at `heard`; 0 marks a free element */
    uint32_t heard_nodes[ROSTER_MAX];
    struct instant heard[ROSTER_MAX];

    /* End of the probe for another process with this node's number. */
    struct instant probe_until;
    size_t foreign_notes; /* notes of another process since the end of the log was first reached */
    bool is_met;          /* whether a note of this process was read */
    bool is_parted;       /* whether its note that announces its leave was read */
    struct instant note_at;

    struct plan plan; /* last valid plan */
    struct plan next; /* plan to append if wants_plan, or the one in flight */
    bool wants_plan, is_plan_sent;
    struct instant plan_at; /* time at which the planner appends the plan again */

    struct holds holds;
    bool has_holds;          /* whether the holds are complete up to the record read last */
    uint64_t begun;          /* offset of the first record read */
    uint64_t changed;        /* offset after the last change read; 0 if none */
    struct instant holds_at; /* time at which the planner appends a copy */
    uint64_t ask;            /* number of this node's change that is under way; 0 if none */
    bool is_ask_sent;
    struct instant ask_until;
    struct buffer ask_body;

    enum control_append in_flight;
    /* ticket of the append in flight, and the ownership's ticket for it; own_ticket is 0 if it
     * waits for none */
    uint64_t ticket, own_ticket;
    struct buffer body, sent;
};

/* ---- states ---- */

static bool control_has_ended(const struct cluster_control *control)
{
    return control->state == CONTROL_REFUSED || control->state == CONTROL_BROKEN;
}

static void control_refuse(struct cluster_control *control)
{
    const struct roster_member *other = roster_find(control->roster, control->options.node);

    control->state = CONTROL_REFUSED;
    error_set(&control->error, ERROR_INVALID,
              "cluster_node_id: another process of the cluster has the number %u, and the address "
              "\"%.80s\"",
              control->options.node, other->internal_address);
}

/* Compares this node's secret with the cluster's, after the log has been read. */
static void control_check_secret(struct cluster_control *control)
{
    const struct founding *former = &control->former;

    if (control_has_ended(control) || control_is_founded_so(control) ||
        (former->has_digest && founding_agrees(&control->founded, former)))
        return;
    control->state = CONTROL_REFUSED;
    error_set(&control->error, ERROR_INVALID,
              "cluster_secret: the cluster was founded with another secret");
}

void control_set_secret(struct cluster_control *control, const struct founding *secret)
{
    struct founding *own = &control->options.secret;

    assert(secret->has_digest);
    if (control_is_founded_so(control))
        control->former = *own;
    *own = *secret;
    control_check_secret(control);
}

bool control_is_founded_so(const struct cluster_control *control)
{
    return founding_agrees(&control->founded, &control->options.secret);
}

static void control_break(struct cluster_control *control, const char *reason)
{
    if (control_has_ended(control))
        return;
    control->state = CONTROL_BROKEN;
    error_set(&control->error, ERROR_CORRUPT, "the control topic cannot be read: %.150s", reason);
}

static void control_rewind(struct cluster_control *control)
{
    control->is_rewound = control->is_from_first = true;
    control->has_begun = control->has_founding = false;
}

void control_lost(struct cluster_control *control, const char *reason)
{
    if (control_has_ended(control) || control->is_rewound)
        return;
    control->losses += control->state == CONTROL_READING;
    if (control->state == CONTROL_LEFT || control->losses > CONTROL_LOSSES_MAX) {
        control_break(control, reason);
        return;
    }
    control_rewind(control);
    control->state = control->state == CONTROL_LEAVING ? CONTROL_LEFT : CONTROL_READING;
}

static bool control_is_member(const struct cluster_control *control)
{
    return control->state == CONTROL_JOINED || control->state == CONTROL_LEAVING;
}

static bool control_is_planner(const struct cluster_control *control)
{
    const enum ownership_state state = ownership_state(&control->own);

    return state == OWNERSHIP_RECOVERING || state == OWNERSHIP_ACTIVE;
}

/* Joins the cluster. Every member claims the planner's place; the order of the claims decides. */
static void control_join(struct cluster_control *control, struct instant now)
{
    control->state = CONTROL_JOINED;
    control->note_at = now;
    ownership_plan(&control->own, control->options.node, now);
}

void control_restored(struct cluster_control *control, struct instant now)
{
    const struct roster_member *other = roster_find(control->roster, control->options.node);

    if (control->state != CONTROL_READING || control->is_rewound)
        return;
    if (control->is_blind && control->is_from_first) {
        control_break(control, "no planner has appended to it");
        return;
    }
    if (control->is_blind || (!control->has_holds && !control->is_from_first)) {
        control_rewind(control);
        return;
    }
    control->has_holds = true; /* otherwise no node has ever changed a hold */
    control_check_secret(control);
    if (control_has_ended(control))
        return;
    ownership_restored(&control->own);
    if (!other || !roster_is_alive(control->roster, other)) {
        control_join(control, now);
        return;
    }
    control->state = CONTROL_PROBING;
    control->probe_until = instant_add_ms(now, CONTROL_PROBE_MS);
}

bool control_take_rewind(struct cluster_control *control)
{
    const bool is_rewound = control->is_rewound;

    control->is_rewound = false;
    return is_rewound;
}

void control_leave(struct cluster_control *control, struct instant now)
{
    if (control->state == CONTROL_JOINED) {
        control->state = CONTROL_LEAVING;
        control->note_at = now;
    } else if (control->state == CONTROL_READING || control->state == CONTROL_PROBING) {
        control->state = CONTROL_LEFT; /* no note in the log says that it is alive */
    }
}

/* ---- reading ---- */

static void control_begin(struct cluster_control *control, const struct ownership_place *place,
                          struct instant now)
{
    const struct ownership_options options = {
        .node = control->options.node,
        .incarnation = control->options.incarnation,
        .lease_ms = control->options.lease_ms,
        .handover_ms = control->options.lease_ms,
        .seed = control->options.seed,
    };

    ownership_init(&control->own, &options, place, now);
    control->own_ticket = 0;
    control->wants_plan = control->is_plan_sent = false;
}

/* Begins to read the holds at this record, perhaps for the second time. */
static void control_begin_holds(struct cluster_control *control, uint64_t offset)
{
    struct holds none;

    control->has_holds = offset == 0;
    control->begun = offset;
    control->changed = 0;
    if (!holds_init(&none)) {
        control_break(control, "there is no memory");
        return;
    }
    holds_deinit(&control->holds);
    control->holds = none;
}

/* Adopts the epoch of a planner's record. */
static void control_adopt(struct cluster_control *control, uint64_t offset,
                          const struct frame *frame, struct instant now)
{
    const bool is_claim = frame->kind == FRAME_CLAIM;
    struct ownership_place place = {.next = offset, .epoch = frame->epoch - is_claim};

    if (!is_claim) {
        place.seq = frame->seq - 1;
        place.incarnation = frame->incarnation;
        place.owner = frame->node;
    }
    control->is_blind = false;
    control_begin(control, &place, now);
}

/* True for records of a planner. A note of a node has no epoch. */
static bool control_tells_epoch(const struct frame *frame)
{
    return frame->kind == FRAME_CLAIM || (frame->kind != FRAME_NOTE && frame->seq > 0);
}

/* Judges a record. Where reading begins, the first record may be a late one of a former planner.
 * Then a record of a later epoch seems to follow a loss, and reading begins with it. */
static enum ownership_verdict control_judge(struct cluster_control *control, uint64_t offset,
                                            const struct frame *frame, struct instant now)
{
    const bool tells_epoch = control_tells_epoch(frame);

    if (!control->has_begun) {
        const struct ownership_place first = {.next = offset};

        control->has_begun = true;
        control->losses = 0;
        control->is_blind = offset > 0;
        control->founding = offset;
        control_begin_holds(control, offset);
        control_begin(control, &first, now);
    }
    if (control->is_blind && tells_epoch)
        control_adopt(control, offset, frame, now);
    const enum ownership_verdict verdict = ownership_read(&control->own, offset, frame, now);
    if (ownership_state(&control->own) != OWNERSHIP_BROKEN)
        return verdict;
    if (control->state != CONTROL_READING || !tells_epoch) {
        control_break(control, "records are lost");
        return OWNERSHIP_REFUSED;
    }
    control_adopt(control, offset, frame, now);
    return ownership_read(&control->own, offset, frame, now);
}

static void control_hear(struct cluster_control *control, uint32_t node, struct instant now)
{
    size_t at = 0;

    for (size_t i = 0; i < ROSTER_MAX && control->heard_nodes[at] != node; i++)
        if (control->heard_nodes[i] == node || control->heard[i].ns < control->heard[at].ns)
            at = i;
    control->heard_nodes[at] = node;
    control->heard[at] = now;
}

/* Handles a note with this node's number. Of two processes with one number the later one stays,
 * and every reader decides so. */
static void control_meet(struct cluster_control *control, const struct frame *frame)
{
    const struct roster_member *member = roster_find(control->roster, frame->node);

    if (frame->incarnation == control->options.incarnation) {
        control->is_met = true;
        control->is_parted = member->weight == 0;
    } else if (control->state == CONTROL_PROBING) {
        if (++control->foreign_notes >= CONTROL_NOTES_FOREIGN)
            control_refuse(control);
    } else if (control->is_met && member->incarnation != control->options.incarnation) {
        control_refuse(control);
    }
}

static void control_make_plan(struct cluster_control *control)
{
    if (!control_is_planner(control) || !control_is_member(control) || control->is_plan_sent)
        return;
    control->wants_plan = plan_make(&control->plan, control->roster, &control->options.plan,
                                    &control->next) == PLAN_CHANGED;
}

/* Ends the change of this node that is under way, with a result. */
static void control_end_ask(struct cluster_control *control, enum error_code code)
{
    const uint64_t ask = control->ask;

    control->ask = 0;
    if (ask && code)
        control->events.unheld(control->events.context, ask, code);
}

/* Applies a change. One that cannot be decoded changes nothing on any node. */
static void control_take_change(struct cluster_control *control, uint64_t offset,
                                const struct frame *frame, struct instant now)
{
    const struct instant soon = instant_add_ms(now, CONTROL_HOLDS_MS);
    struct holds_change change;
    enum error_code code = holds_change_decode(frame->body, &change);

    control->changed = offset + 1;
    if (!code && control->has_holds) {
        const bool is_asked = frame->incarnation == control->options.incarnation &&
                              control->ask == change.ask && control->ask;

        code = holds_apply(&control->holds, &change);
        if (code != ERROR_NO_MEMORY)
            control->events.held(control->events.context, &control->holds, &change,
                                 is_asked ? change.ask : 0, code);
        if (is_asked)
            control_end_ask(control, ERROR_NONE);
    }
    if (code == ERROR_NO_MEMORY)
        control_break(control, "there is no memory for a change");
    if (code != ERROR_CORRUPT && code != ERROR_NO_MEMORY)
        holds_change_deinit(&change);
    if (soon.ns < control->holds_at.ns)
        control->holds_at = soon;
}

/* Takes a copy of the holds. It is complete for this reader if the reader read every change
 * after those in the copy. */
static void control_take_holds(struct cluster_control *control, const struct frame *frame)
{
    struct holds holds;
    uint64_t read_to;

    if (control->has_holds || holds_decode(frame->body, &holds, &read_to))
        return;
    if (read_to < control->begun || read_to < control->changed) {
        holds_deinit(&holds);
        return;
    }
    holds_deinit(&control->holds);
    control->holds = holds;
    control->has_holds = true;
    control->events.held(control->events.context, &control->holds, NULL, 0, ERROR_NONE);
}

static void control_take_founding(struct cluster_control *control, uint64_t offset,
                                  const struct frame *frame)
{
    struct founding founding;

    control->has_founding = true;
    control->founding = offset;
    if (!founding_decode(frame->body, &founding) || !founding.has_digest)
        return;
    control->founded = founding;
    if (control->state != CONTROL_READING)
        control_check_secret(control);
}

static void control_take_note(struct cluster_control *control, uint64_t offset,
                              const struct frame *frame, struct instant now)
{
    if (frame->node == 0) {
        control_take_founding(control, offset, frame);
        return;
    }
    if (holds_is_form(frame->body, HOLDS_CHANGE)) {
        control_take_change(control, offset, frame, now);
        return;
    }
    if (holds_is_form(frame->body, HOLDS_COPY)) {
        control_take_holds(control, frame);
        return;
    }
    if (roster_read(control->roster, frame, control_planner(control), NULL))
        return; /* ignored: the node that appended it will soon be dead */
    control_hear(control, frame->node, now);
    if (frame->node == control->options.node)
        control_meet(control, frame);
    control_make_plan(control);
}

static void control_take_plan(struct cluster_control *control, const struct frame *frame)
{
    struct plan *plan = calloc(1, sizeof(*plan));

    if (plan && !frame->has_more && !plan_decode(frame->body, plan, NULL) &&
        plan->partition_count == control->options.partition_count)
        control->plan = *plan;
    free(plan); /* without memory the next plan counts, within a minute */
}

/* Takes the result of the plan in flight. A durable plan counts before it is read. */
static void control_take_result(struct cluster_control *control, struct instant now)
{
    const enum ownership_result result = ownership_take_result(&control->own);

    if (result == OWNERSHIP_NO_RESULT)
        return;
    control->is_plan_sent = control->wants_plan = false;
    if (result != OWNERSHIP_DURABLE)
        return;
    control->plan = control->next;
    control->plan_at = instant_add_ms(now, CONTROL_PLAN_MS);
}

/* Takes a claim, which shows that its node heard nothing from the former planner for longer than
 * a lease. Notes of the new planner count from here; it sends the first at once. */
static void control_take_claim(struct cluster_control *control, const struct frame *frame,
                               uint32_t planner_before, struct instant now)
{
    if (planner_before && planner_before != frame->node)
        roster_supersede(control->roster, planner_before);
    if (frame->node == control->options.node && control_is_member(control))
        control->note_at = now;
}

void control_read(struct cluster_control *control, uint64_t offset, struct bytes bytes,
                  struct instant now)
{
    const uint32_t planner_before = control_planner(control);
    struct frame frame;
    struct error error = {.text = ""};

    if (control_has_ended(control) || control->is_rewound)
        return;
    if (frame_decode(bytes, control->options.cluster, &frame, &error)) {
        control_break(control, error.text);
        return;
    }
    const enum ownership_verdict verdict = control_judge(control, offset, &frame, now);
    if (control->state == CONTROL_BROKEN)
        return;
    if (frame.kind == FRAME_NOTE)
        control_take_note(control, offset, &frame, now);
    else if (frame.kind == FRAME_COMMIT && verdict == OWNERSHIP_VALID)
        control_take_plan(control, &frame);
    else if (frame.kind == FRAME_CLAIM && verdict == OWNERSHIP_VALID)
        control_take_claim(control, &frame, planner_before, now);
    control_take_result(control, now);
}

/* ---- appending ---- */

void control_landed(struct cluster_control *control, uint64_t ticket, uint64_t offset,
                    struct instant now)
{
    const enum control_append kind = control->in_flight;

    if (ticket != control->ticket || kind == CONTROL_NO_APPEND)
        return;
    control->in_flight = CONTROL_NO_APPEND;
    if (kind == CONTROL_APPEND_OWN && control->own_ticket)
        ownership_landed(&control->own, control->own_ticket, offset, now);
    control_take_result(control, now);
}

void control_failed(struct cluster_control *control, uint64_t ticket, struct instant now)
{
    const enum control_append kind = control->in_flight;

    if (ticket != control->ticket || kind == CONTROL_NO_APPEND)
        return;
    control->in_flight = CONTROL_NO_APPEND;
    if (kind == CONTROL_APPEND_OWN && control->own_ticket)
        ownership_failed(&control->own, control->own_ticket, now);
    if (kind == CONTROL_APPEND_CHANGE)
        control_end_ask(control, ERROR_IN_DOUBT);
    control_take_result(control, now);
}

static void control_send(struct cluster_control *control, enum control_append kind,
                         const struct frame *frame, struct instant now)
{
    buffer_clear(&control->sent);
    frame_encode(frame, control->options.cluster, &control->sent);
    control->in_flight = kind;
    control->ticket++;
    if (buffer_failed(&control->sent))
        control_failed(control, control->ticket, now); /* it could not be sent */
    else
        control->events.append(control->events.context, control->ticket,
                               buffer_bytes(&control->sent));
}

static struct frame control_note_frame(const struct cluster_control *control, struct wall wall)
{
    return (struct frame){.kind = FRAME_NOTE,
                          .node = control->options.node,
                          .incarnation = control->options.incarnation,
                          .sent = wall};
}

static void control_send_note(struct cluster_control *control, struct instant now, struct wall wall)
{
    struct frame frame = control_note_frame(control, wall);

    memset(&control->note, 0, sizeof(control->note));
    control->note.weight = 1;
    control->events.note(control->events.context, &control->note);
    if (control->state == CONTROL_LEAVING)
        control->note.weight = 0;
    control->note_at = instant_add_ms(now, CONTROL_NOTE_MS);
    buffer_clear(&control->body);
    roster_note_encode(&control->note, &control->body);
    if (buffer_failed(&control->body))
        return; /* without memory the next note says it */
    frame.body = buffer_bytes(&control->body);
    control_send(control, CONTROL_APPEND_NOTE, &frame, now);
}

/* Repeats the founding when many records follow the last one, and trims the records before it.
 * Adds the digest of the secret if the founding has none. For the planner. */
static bool control_send_founding(struct cluster_control *control, struct instant now,
                                  struct wall wall)
{
    const uint64_t next = ownership_place(&control->own)->next;
    struct founding founding =
        control->founded.has_digest ? control->founded : control->options.secret;
    char body[FOUNDING_SIZE_LARGEST];
    struct frame frame = {.kind = FRAME_NOTE, .sent = wall};
    const bool is_due =
        control->options.records && next >= control->founding + control->options.records;
    const bool is_new = founding.has_digest && !control->founded.has_digest;

    if ((!is_due && !is_new) || !control_is_planner(control) || now.ns < control->found_at.ns)
        return false;
    founding.partition_count = control->options.partition_count;
    frame.body = (struct bytes){body, founding_encode(&founding, body)};
    control->found_at = instant_add_ms(now, CONTROL_FOUND_MS);
    if (is_due && control->has_founding)
        control->events.trim(control->events.context, control->founding);
    control->holds_at = now; /* for nodes that begin to read at this founding */
    control_send(control, CONTROL_APPEND_NOTE, &frame, now);
    return true;
}

bool control_change(struct cluster_control *control, const struct holds_change *change,
                    struct instant now)
{
    if (control->ask || !control_is_member(control))
        return false;
    buffer_clear(&control->ask_body);
    holds_change_encode(change, &control->ask_body);
    if (buffer_failed(&control->ask_body))
        return false;
    control->ask = change->ask;
    control->is_ask_sent = false;
    control->ask_until = instant_add_ms(now, CONTROL_ASK_LEASES * control->options.lease_ms);
    return true;
}

static void control_send_change(struct cluster_control *control, struct instant now,
                                struct wall wall)
{
    struct frame frame = control_note_frame(control, wall);

    frame.body = buffer_bytes(&control->ask_body);
    control->is_ask_sent = true;
    control_send(control, CONTROL_APPEND_CHANGE, &frame, now);
}

static void control_send_holds(struct cluster_control *control, struct instant now,
                               struct wall wall)
{
    struct frame frame = control_note_frame(control, wall);

    control->holds_at = instant_add_ms(now, CONTROL_PLAN_MS);
    buffer_clear(&control->body);
    holds_encode(&control->holds, ownership_place(&control->own)->next, &control->body);
    if (buffer_failed(&control->body))
        return; /* without memory the next founding has it */
    frame.body = buffer_bytes(&control->body);
    control_send(control, CONTROL_APPEND_HOLDS, &frame, now);
}

/* Sends the record of a planner, or the claim of a node that wants to be the planner. */
static bool control_send_own(struct cluster_control *control, struct instant now, struct wall wall)
{
    struct frame frame;
    const uint64_t ticket = ownership_append(
        &control->own, control->wants_plan ? OWNERSHIP_COMMIT : OWNERSHIP_NOTHING, now, &frame);

    if (!ticket)
        return false;
    frame.sent = wall;
    if (frame.kind == FRAME_COMMIT) {
        buffer_clear(&control->body);
        plan_encode(&control->next, &control->body);
        frame.body = buffer_bytes(&control->body);
        control->is_plan_sent = true;
    }
    if (frame.kind == FRAME_COMMIT && buffer_failed(&control->body)) {
        ownership_failed(&control->own, ticket, now); /* it could not be sent */
        return false;
    }
    control->own_ticket = ticket;
    control_send(control, CONTROL_APPEND_OWN, &frame, now);
    return true;
}

/* ---- turns ---- */

/* Advances the ownership. A planner has no engine, so each step of an owner is completed at
 * once. */
static void control_step(struct cluster_control *control, struct instant now)
{
    ownership_advance(&control->own, now);
    if (ownership_state(&control->own) == OWNERSHIP_RECOVERING)
        ownership_recovered(&control->own);
    if (ownership_state(&control->own) == OWNERSHIP_DRAINING)
        ownership_drained(&control->own);
    if (ownership_state(&control->own) == OWNERSHIP_LEAVING)
        ownership_left(&control->own);
    ownership_advance(&control->own, now);
    control_take_result(control, now);
    control->wants_plan = control->wants_plan && control_is_planner(control);
    if (ownership_state(&control->own) == OWNERSHIP_BROKEN)
        control_break(control, "records are lost");
}

/* Gives up the planner's place when the last plan of a leaving node is in the log. */
static void control_part(struct cluster_control *control, struct instant now)
{
    if (control->state != CONTROL_LEAVING || !control->is_parted || control->wants_plan ||
        control->is_plan_sent)
        return;
    ownership_plan(&control->own, 0, now);
    if (control->in_flight == CONTROL_NO_APPEND &&
        ownership_state(&control->own) == OWNERSHIP_STANDBY)
        control->state = CONTROL_LEFT;
}

void control_turn(struct cluster_control *control, struct instant now, struct wall wall)
{
    if (control->state == CONTROL_PROBING && now.ns >= control->probe_until.ns)
        control_join(control, now);
    control_part(control, now);
    control_step(control, now);
    if (control_is_planner(control) && control->plan.version > 0 && !control->wants_plan &&
        now.ns >= control->plan_at.ns) {
        control->next = control->plan;
        control->wants_plan = true;
    }
    if (control->ask && (now.ns >= control->ask_until.ns || !control_is_member(control)))
        control_end_ask(control, control->is_ask_sent ? ERROR_IN_DOUBT : ERROR_OVERLOADED);
    if (!control_is_member(control) || control->in_flight != CONTROL_NO_APPEND ||
        control_send_own(control, now, wall) || control_send_founding(control, now, wall))
        return;
    if (now.ns >= control->note_at.ns)
        control_send_note(control, now, wall);
    else if (control->ask && !control->is_ask_sent)
        control_send_change(control, now, wall);
    else if (control_is_planner(control) && now.ns >= control->holds_at.ns)
        control_send_holds(control, now, wall);
}

struct instant control_wake_at(const struct cluster_control *control, struct instant now)
{
    const bool is_member = control_is_member(control);
    struct instant at = ownership_wake_at(&control->own, now);
    const struct instant waits[] = {
        is_member ? control->note_at : (struct instant){UINT64_MAX},
        control->state == CONTROL_PROBING ? control->probe_until : (struct instant){UINT64_MAX},
        control_is_planner(control) ? control->plan_at : (struct instant){UINT64_MAX},
        control_is_planner(control) ? control->holds_at : (struct instant){UINT64_MAX},
        control->ask ? control->ask_until : (struct instant){UINT64_MAX},
    };

    for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++)
        if (waits[i].ns > now.ns && waits[i].ns < at.ns)
            at = waits[i]; /* earlier deadlines wait for the append in flight */
    return at;
}

/* ---- calls ---- */

enum error_code control_create(const struct control_options *options,
                               const struct control_events *events, struct instant now,
                               struct cluster_control **ret_control, struct error *ret_error)
{
    const struct ownership_place start = {0};
    struct cluster_control *control = calloc(1, sizeof(*control));

    if (!control)
        return error_set(ret_error, ERROR_NO_MEMORY, "control");
    control->options = *options;
    control->events = *events;
    buffer_init(&control->body);
    buffer_init(&control->sent);
    buffer_init(&control->ask_body);
    control->roster = roster_create(options->partition_count);
    if (!holds_init(&control->holds) || !control->roster) {
        control_destroy(control);
        return error_set(ret_error, ERROR_NO_MEMORY, "control");
    }
    control->plan.partition_count = options->partition_count;
    control->is_from_first = options->reads_all;
    control_begin(control, &start, now);
    *ret_control = control;
    return ERROR_NONE;
}

void control_destroy(struct cluster_control *control)
{
    if (!control)
        return;
    roster_destroy(control->roster);
    buffer_deinit(&control->body);
    buffer_deinit(&control->sent);
    buffer_deinit(&control->ask_body);
    holds_deinit(&control->holds);
    free(control);
}

enum control_state control_state(const struct cluster_control *control)
{
    return control->state;
}

const struct plan *control_plan(const struct cluster_control *control)
{
    return &control->plan;
}

const struct roster *control_roster(const struct cluster_control *control)
{
    return control->roster;
}

uint32_t control_planner(const struct cluster_control *control)
{
    const struct ownership_place *place = ownership_place(&control->own);

    return control->is_blind || place->has_acted ? 0 : place->owner;
}

struct instant control_heard_at(const struct cluster_control *control, uint32_t node)
{
    for (size_t i = 0; i < ROSTER_MAX; i++)
        if (control->heard_nodes[i] == node)
            return control->heard[i];
    return (struct instant){0};
}

const struct error *control_error(const struct cluster_control *control)
{
    return &control->error;
}

int32_t control_clock_offset_ms(struct wall sent, struct wall appended, struct wall landed)
{
    const uint64_t ahead_ms = wall_since(appended, sent), behind_ms = wall_since(landed, appended);

    if (ahead_ms)
        return ahead_ms < INT32_MAX ? (int32_t)ahead_ms : INT32_MAX;
    return behind_ms < INT32_MAX ? -(int32_t)behind_ms : -INT32_MAX;
}

void control_check(const struct cluster_control *control)
{
    ownership_check(&control->own);
    CHECK(!control->is_blind || !control_is_planner(control));
    CHECK(!control->is_plan_sent || control_is_planner(control) ||
          ownership_state(&control->own) == OWNERSHIP_DRAINING);
    CHECK(!control->is_parted || control->is_met);
    CHECK(!control_is_member(control) || control->has_holds);
    CHECK(control->in_flight == CONTROL_NO_APPEND || control->ticket > 0);
}
