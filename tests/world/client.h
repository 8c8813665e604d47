/*
 * client.h - clients that create, read, change, cancel and list timers, many at a time.
 *
 * They know only the answers they got. The plan sets how often they call on a timer with another
 * call in flight, with a stale version, or with an id that was never issued.
 */
#ifndef TICKWHEEL_WORLD_CLIENT_H
#define TICKWHEEL_WORLD_CLIENT_H

#include "content.h"
#include "engine/command.h"
#include "host.h"
#include "model.h"
#include "plan.h"

struct world;

enum { CREATE_MANY_MAX = 12 };

/* A listing, page by page. */
struct walk {
    struct list link;
    struct storage_scan scan;      /* `from` moves on */
    struct storage_position first; /* where it began */
    uint8_t tenant;                /* whose timers it lists */
    uint64_t step;                 /* when it began */
    struct storage_position last;
    bool has_last;
    bool is_waiting; /* for its client to ask for the next page; those come first in their list */
    uint8_t *seen;   /* by twin, of those that there were when it began */
    size_t seen_count;
};

/* A command and what its client knows of it. It outlives its answer, so that a second answer is
 * seen. */
struct op {
    struct list link;
    struct command command;
    uint16_t partition;
    bool is_answered;
    uint8_t tenant;              /* in whose name it is asked; of a create its timers say it */
    bool is_foreign;             /* by another one than whose timer it is about */
    uint64_t tenant_count;       /* the most that its tenant may have had, when it was submitted */
    uint64_t step, submitted_ms; /* when it was submitted */
    size_t told_index;           /* how often its engine had been told the time then */
    uint64_t faults;
    uint64_t near_bytes, pending;          /* in memory, and in all, when it was submitted */
    struct twin *twin;                     /* by id: the timer; NULL: an id that was never issued */
    uint8_t key, event, group;             /* by key: the key; 0: by id */
    char name[CONTENT_NAME_SIZE];          /* as text */
    uint32_t told_version;                 /* of the twin, when it was submitted */
    struct change change;                  /* the change, unless it only reads or creates */
    struct twin *created[CREATE_MANY_MAX]; /* CREATE, PUT */
    struct timer *timers[CREATE_MANY_MAX]; /* its arguments */
    struct command_created results[CREATE_MANY_MAX];
    struct walk *walk; /* LIST */
};

struct clients {
    struct list in_flight, answered; /* operations */
    struct list walks;
    /* The largest that was asked for so far, with room for the runs of what repeats. */
    uint64_t created_bytes_max, patch_bytes_max;
};

void clients_init(struct world *world);
void clients_deinit(struct world *world);

/* EVENT_CLIENT: one of them does something. */
void clients_act(struct world *world);

/* Asks for one timer, for all of a partition, or for a new one; for the end of a run. */
void clients_get(struct world *world, struct twin *twin);
void clients_list(struct world *world, uint16_t partition);
void clients_create(struct world *world, uint16_t partition, struct wall due);

void clients_cancel(struct world *world, struct twin *twin);

/* A timer that clients may know: mostly live, or dead and to be redriven, and without a call in
 * flight. NULL if there is none. */
struct twin *clients_draw_twin(struct world *world, enum action action);

/* A call on a timer, not submitted yet; on an id that never was when `twin` is NULL. */
struct op *clients_call(struct world *world, enum command_kind kind, uint16_t partition,
                        struct twin *twin);

/* A command that is not submitted yet; what a client may ask for; the version that it names. */
struct op *clients_op(struct world *world, enum command_kind kind, uint16_t partition);
struct content clients_draw_content(struct world *world);
uint32_t clients_draw_if_version(struct world *world, const struct twin *twin);

/* Further fields of a patch, the watch and the schedule; without a random draw, as draw_get. */
uint32_t clients_draw_fields(const struct world *world);

/* The command patches what its change says. */
void clients_patch(struct world *world, struct op *op);

/* Submits a create, or put, of those contents. */
void clients_ask(struct world *world, enum command_kind kind, uint16_t partition,
                 const struct content *contents, size_t count, uint32_t if_version);

/* Goes on with a listing that waits for its next page; false when none does. */
bool clients_go_on(struct world *world);

/* Judged and answered; goes on with its listing. */
void clients_answered(struct world *world, struct op *op);

/* Frees what a call gave to an engine that is gone and had not begun to make it. */
void clients_drop(struct op *op);

/* The process died: calls in flight are never answered. */
void clients_crash(struct world *world);

/* How many operations of one partition are in flight. */
size_t clients_in_flight(const struct world *world, uint16_t partition);

/* It asks for one timer, and perhaps for an explanation. */
static inline bool command_gets(const struct command *command)
{
    return command->kind == COMMAND_GET || command->kind == COMMAND_EXPLAIN;
}

static inline struct op *op_of(struct command *command)
{
    return list_item(command, struct op, command);
}

/* ---- requests.c: names (a key, an event, a label), and questions that are repeated ---- */

uint8_t requests_draw_key(struct world *world);
uint8_t requests_draw_event(struct world *world);
uint8_t requests_draw_group(struct world *world);

/* Gives the content names, as often as the plan says. */
void requests_name(struct world *world, struct content *content);

/* One of ACTION_PUT and what follows it. The partition is up. */
void requests_act(struct world *world, enum action action, uint16_t partition);

/* ---- completes.c: one command about many timers
 *
 * Each timer is changed either by the command or by its own course, and counted once: exactly one
 * of the event and the expiry wins. ---- */

/* The command is answered. */
void completes_judge(struct world *world, const struct sim_partition *partition, struct op *op);

/* ---- touches.c: the time of a timer, or of several at once, is extended again and again
 *
 * A touch never shortens, and is no new appointment while the old one is still to come. ---- */

/* ACTION_TOUCH. The partition is up. */
void touches_act(struct world *world, uint16_t partition);

/* Whether the touch made `timer` of the twin's row; `content` has its new due time already. */
bool touches_could(const struct world *world, const struct op *op, const struct twin *twin,
                   const struct timer *timer);

/* The row was moved to its due time, which was extended since it was put where it is. */
bool touches_moved_on(const struct twin *twin, const struct timer *timer);

/* A touch is answered with success. */
void touches_judge(struct world *world, struct op *op);

/* ---- pauses.c: a timer is paused, which nothing but a resumption or its time ends
 *
 * A paused timer is not delivered, keeps its pause through every other change, and goes on as if
 * its engine had been down. ---- */

enum { PAUSES_NOTE_SIZE = 16 };

/* Maintenance begins or ends now and then. */
enum pauses_maintenance { PAUSES_GO_ON, PAUSES_HOLD };
void pauses_hold(struct world *world, enum pauses_maintenance maintenance);
void pauses_draw_hold(struct world *world);

/* Targets are paused and resumed now and then; all of them go on. */
void pauses_draw_target(struct world *world);
void pauses_resume_targets(struct world *world);

/* Whether the target of the timer is paused, since before this step. */
bool pauses_hold_target(const struct world *world, const struct twin *twin);

/* Whether a pause of its target may be seen still, or already. */
bool pauses_may_hold_target(const struct world *world, const struct twin *twin);

/* When the pause of its target ends, or has ended; 0: it has none. */
struct wall pauses_target_until(const struct world *world, const struct twin *twin);

/* Once a step: what waited for the end of a pause is late. */
void pauses_note_ends(struct world *world);

/* Whether a call pauses or resumes in place of what was drawn; and which of the two. */
bool pauses_instead(const struct world *world);
enum command_kind pauses_kind(const struct world *world, const struct twin *twin);

/* Draws what a pause says, into the change and the command. */
void pauses_ask(struct world *world, struct op *op);

/* Resumes all that would stay paused, for the end of a run. */
void pauses_end_all(struct world *world);

/* Whether the row is paused as the twin is, or neither is. */
bool pauses_stay(const struct twin *twin, const struct timer *timer);

/* Whether the pause, or the resumption, made `timer` of the twin's row. */
bool pauses_could(const struct world *world, const struct op *op, const struct twin *twin,
                  const struct timer *timer);

/* Its pause ended by itself. */
bool pauses_ended(const struct world *world, const struct twin *twin, const struct timer *timer);

/* The row is durable. */
void pauses_keep(struct twin *twin, const struct timer *timer);

/* Whether a command by labels has nothing to do for it. */
bool pauses_are_as_asked(const struct op *op, const struct twin *twin);

/* A pause, or a resumption, is answered with success. */
void pauses_judge(struct world *world, struct op *op);

#endif
