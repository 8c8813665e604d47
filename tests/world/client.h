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
    struct storage_scan scan;      /* scan of the next page: `from` moves on */
    struct storage_position first; /* position at which the listing began */
    uint8_t tenant;                /* tenant whose timers it lists */
    /* number of the key with which the keys of its timers begin; 0 for all timers */
    uint8_t key;
    char key_text[CONTENT_NAME_SIZE];
    struct timer_filter filter;
    uint64_t step; /* step at which the listing began */
    struct storage_position last;
    bool has_last;
    /* its client has not asked for the next page yet; walks that wait are first in their list */
    bool is_waiting;
    uint8_t *seen; /* for each twin that existed when the listing began: whether it was listed */
    size_t seen_count;
};

/* A command and what its client knows of it. It outlives its answer, so that a second answer is
 * seen. */
struct op {
    struct list link;
    struct command command;
    uint16_t partition;
    bool is_answered;
    uint8_t tenant;  /* tenant in whose name it is asked; a create has that of its timers */
    bool is_foreign; /* whether the timer it is about is another tenant's */
    /* highest possible number of timers of its tenant, when it was submitted */
    uint64_t tenant_count;
    uint64_t step, submitted_ms; /* step and true time at which it was submitted */
    size_t told_index;           /* number of times that its engine had been told by then */
    uint64_t faults;
    /* bytes in memory, and number of live timers, when it was submitted */
    uint64_t near_bytes, pending;
    struct twin *twin; /* timer of a call by id; NULL for an id that was never issued */
    /* number of the key, event or label of a call by name; 0 in a call by id */
    uint8_t key, event, group;
    char name[CONTENT_NAME_SIZE]; /* as text */
    /* version of the twin that the engine knew to be durable, when it was submitted */
    uint32_t told_version;
    struct change change;                  /* the change, unless the call only reads or creates */
    struct twin *created[CREATE_MANY_MAX]; /* CREATE, PUT */
    struct timer *timers[CREATE_MANY_MAX]; /* its arguments */
    struct command_created results[CREATE_MANY_MAX];
    struct walk *walk;      /* LIST */
    uint32_t acted_version; /* RELEASE, ANSWER: version of the timer when its attempt ended */
};

struct clients {
    struct list in_flight, answered; /* operations */
    struct list walks;
    /* The largest create and patch so far, with room for the runs of timers that repeat. */
    uint64_t created_bytes_max, patch_bytes_max;
};

void clients_init(struct world *world);
void clients_deinit(struct world *world);

/* Handles EVENT_CLIENT: a client makes a call. */
void clients_act(struct world *world);

/* Submit a call for one timer, for all timers of a partition, or for a new one. For the end of a
 * run. */
void clients_get(struct world *world, struct twin *twin);
void clients_list(struct world *world, uint16_t partition);

/* Lists the timers whose keys begin in one way. */
void clients_search(struct world *world, uint16_t partition);
void clients_create(struct world *world, uint16_t partition, struct wall due);

void clients_cancel(struct world *world, struct twin *twin);

/* Returns a timer that clients may know and on which no call is in flight: mostly a live one, or a
 * dead letter to redrive. NULL if there is none. */
struct twin *clients_draw_twin(struct world *world, enum action action);

/* Makes a call on a timer without submitting it. If `twin` is NULL its id was never issued. */
struct op *clients_call(struct world *world, enum command_kind kind, uint16_t partition,
                        struct twin *twin);

/* Make a command without submitting it, a content that a client may ask for, and the version that a
 * change names. */
struct op *clients_op(struct world *world, enum command_kind kind, uint16_t partition);
struct content clients_draw_content(struct world *world);
uint32_t clients_draw_if_version(struct world *world, const struct twin *twin);

/* Returns further fields that a patch has: the watch and the schedule. Makes no random draw, like
 * draw_get. */
uint32_t clients_draw_fields(const struct world *world);

/* Makes the command patch what its change says. */
void clients_patch(struct world *world, struct op *op);

/* True if the i-th timer of a create or put replaces a live timer with its key. */
bool clients_puts(const struct op *op, size_t i);

/* Submits a create, or put, of those contents. */
void clients_ask(struct world *world, enum command_kind kind, uint16_t partition,
                 const struct content *contents, size_t count, uint32_t if_version);

/* Continues a listing that waits for its next page. Returns false if none waits. */
bool clients_go_on(struct world *world);

/* Handles a call that was answered and judged: continues its listing. */
void clients_answered(struct world *world, struct op *op);

/* Frees the arguments of a call whose engine is gone, and had not begun to handle it. */
void clients_drop(struct op *op);

/* The process died: calls in flight are never answered. */
void clients_crash(struct world *world);

/* Returns the number of operations of one partition that are in flight. */
size_t clients_in_flight(const struct world *world, uint16_t partition);

/* True if the command reads one timer, with or without an explanation. */
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

/* Gives the content a key, an Idempotency-Key and other names, as often as the plan says. */
void requests_name(struct world *world, struct content *content);

/* Makes a call of ACTION_PUT or of a later action of requests.c. The partition is up. */
void requests_act(struct world *world, enum action action, uint16_t partition);

/* ---- completes.c: one command about many timers
 *
 * Each timer is changed either by the command or by its own course, and counted once: exactly one
 * of the event and the expiry wins. ---- */

/* Judges the answer to a command about many timers. */
void completes_judge(struct world *world, const struct sim_partition *partition, struct op *op);

/* ---- touches.c: the time of a timer, or of several at once, is extended again and again
 *
 * A touch never shortens, and is no new appointment while the old one is still to come. ---- */

/* Makes calls of ACTION_TOUCH. The partition is up. */
void touches_act(struct world *world, uint16_t partition);

/* True if the touch made `timer` of the twin's row. `content` has its new due time already. */
bool touches_could(const struct world *world, const struct op *op, const struct twin *twin,
                   const struct timer *timer);

/* True if the row was moved to its due time, which was extended after the row had got its place. */
bool touches_moved_on(const struct twin *twin, const struct timer *timer);

/* Judges a touch that was answered with success. */
void touches_judge(struct world *world, struct op *op);

/* ---- releases.c: a client ends the lease of an item, whoever has it ---- */

/* Makes a call of ACTION_RELEASE. The partition is up. */
void releases_act(struct world *world, uint16_t partition);

/* True for the first answer to a release, which says that a worker has the timer. Checks that. */
bool releases_find(struct world *world, struct op *op);

/* Judges the answer to a release after which the attempt has ended. */
void releases_judge(struct world *world, struct op *op);

/* True if a release may be answered that no worker has the timer. */
bool releases_may_miss(const struct world *world, const struct op *op);

/* ---- answers.c: a receiver answers later, by the token of its attempt
 *
 * The attempt ends once: by an answer with its token, or when the time for that is over. The wait
 * outlives a crash. ---- */

/* Makes a call of ACTION_ANSWER. */
void answers_act(struct world *world);

/* Writes the token of a delivery that is sent. */
void answers_give_token(struct world *world, struct delivery *delivery);

/* True if the receiver that has accepted this delivery will answer later. */
bool answers_come_later(struct world *world, const struct delivery *delivery);

/* Takes the end of an attempt that was answered later, or in vain, and checks its reason. */
void answers_end(struct world *world, struct sim_partition *partition,
                 const struct delivery *delivery);

/* Checks the row of a timer that waits for its answer from here on. */
void answers_check_awaited(struct world *world, struct twin *twin, const struct timer *timer);

/* True if the answer put off the end of the wait, in `timer` of the twin's row. */
bool answers_could(const struct world *world, const struct op *op, const struct twin *twin,
                   const struct timer *timer);

/* Judges an answer that was taken. */
void answers_judge(struct world *world, struct op *op);

/* True if an answer may be refused, because its attempt is over, or not waiting yet. */
bool answers_may_miss(const struct world *world, const struct op *op);

/* ---- pauses.c: a timer is paused, which nothing but a resumption or its time ends
 *
 * A paused timer is not delivered, keeps its pause through every other change, and goes on as if
 * its engine had been down. ---- */

enum { PAUSES_NOTE_SIZE = 16 };

/* Begin or end maintenance: as requested, or at random. */
enum pauses_maintenance { PAUSES_GO_ON, PAUSES_HOLD };
void pauses_hold(struct world *world, enum pauses_maintenance maintenance);
void pauses_draw_hold(struct world *world);

/* Pause and resume targets at random; resume all of them. */
void pauses_draw_target(struct world *world);
void pauses_resume_targets(struct world *world);

/* True if the target of the timer was paused before this step, and still is. */
bool pauses_hold_target(const struct world *world, const struct twin *twin);

/* True if the engine may still see, or see already, that the target of the timer is paused. */
bool pauses_may_hold_target(const struct world *world, const struct twin *twin);

/* Returns the end, perhaps past, of the pause of the timer's target; 0 if it has none. */
struct wall pauses_target_until(const struct world *world, const struct twin *twin);

/* Notes pauses that have ended: timers that waited for that are late. Called once a step. */
void pauses_note_ends(struct world *world);

/* Whether a call is replaced by a pause or a resumption; and by which of the two. */
bool pauses_instead(const struct world *world);
enum command_kind pauses_kind(const struct world *world, const struct twin *twin);

/* Draws the end and the note of a pause, for the change and the command. */
void pauses_ask(struct world *world, struct op *op);

/* Resumes all timers that would stay paused, at the end of a run. */
void pauses_end_all(struct world *world);

/* True if the row and the twin are paused alike, or both are not paused. */
bool pauses_stay(const struct twin *twin, const struct timer *timer);

/* True if the pause, or the resumption, made `timer` of the twin's row. */
bool pauses_could(const struct world *world, const struct op *op, const struct twin *twin,
                  const struct timer *timer);

/* True if the timer's pause has reached its end. */
bool pauses_ended(const struct world *world, const struct twin *twin, const struct timer *timer);

/* Copies the pause of a row that is durable to the twin. */
void pauses_keep(struct twin *twin, const struct timer *timer);

/* True if a command by labels has nothing to change in this timer. */
bool pauses_are_as_asked(const struct op *op, const struct twin *twin);

/* Judges a pause, or a resumption, that was answered with success. */
void pauses_judge(struct world *world, struct op *op);

#endif
