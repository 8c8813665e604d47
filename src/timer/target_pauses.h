/*
 * target_pauses.h - the queues and targets that are paused: for each tenant, by name.
 *
 *     struct target_pauses *next;
 *     code = target_pauses_put(pauses, now, &pause, &next);    a table with one pause more
 *     target_pause_board_show(&board, next);                   from now on readers find that one
 *     ...
 *     pauses = target_pause_board_take(&board, &version);      what is shown now
 *     found = target_pauses_of(pauses, now, tenant, text, &target);
 *     target_pauses_leave(pauses);
 *
 * A table never changes: each change makes another one, so a reader that holds one needs no lock.
 *
 * Name       "queue:NAME" of a queue, "flow:KEY" of a flow, "http://host" or "https://host:port" of
 *            webhooks (in lower case, without the scheme's own port), the origin of every other
 *            target.
 * Time       A pause is in force while the wall clock is before `until`. A change drops those whose
 *            time is over.
 * Errors     TOO_MANY beyond a limit, NO_MEMORY, CORRUPT of bytes that target_pauses_encode did not
 *            write: then nothing was made.
 * Ownership  A table belongs to its holders; the last one that leaves frees it. Texts are borrowed
 *            and copied.
 * Threads    Any.
 */
#ifndef TICKWHEEL_TIMER_TARGET_PAUSES_H
#define TICKWHEEL_TIMER_TARGET_PAUSES_H

#include "base/error.h"
#include "base/time.h"
#include "timer/named_rows.h"
#include "timer/target.h"
#include "timer/tenant.h"
#include "timer/timer.h"

#define TARGET_PAUSES_MAX          4096 /* maximum of pauses of all tenants */
#define TARGET_PAUSES_TENANT_MAX   256
#define TARGET_PAUSE_NOTE_SIZE_MAX 256
#define TARGET_PAUSE_NAME_SIZE_MAX 320 /* a target with a longer name cannot be paused */

/* Laid out like a struct named_row. */
struct target_pause {
    struct bytes tenant, name, note;
    struct wall since;
    struct wall until; /* end of the pause; WALL_NEVER if only a client ends it */
};

/* Laid out like a struct named_rows. */
struct target_pauses {
    size_t count;
    atomic_uint holders_;
    struct target_pause rows[]; /* sorted by tenant and name; their texts are stored after them */
};

/* ---- names ---- */

/* Returns the name of a target, written to `room`. False if it is too long. */
bool target_pause_name(struct bytes text, const struct target *target,
                       char room[TARGET_PAUSE_NAME_SIZE_MAX], struct bytes *ret_name);

/* Returns the origin of the timer's target in one spelling, which all spellings share; written to
 * `room`, or as the timer has it if that is too long. */
struct bytes target_pause_origin(const struct timer *timer, char room[TARGET_PAUSE_NAME_SIZE_MAX]);

/* Returns the key of the flow whose pause has this name; empty if it is no flow's. */
struct bytes target_pause_flow(struct bytes name);

/* Writes the name of the pause of a flow to `room`. Its key has at most FLOW_KEY_SIZE_MAX bytes. */
struct bytes target_pause_name_flow(struct bytes key, char room[TARGET_PAUSE_NAME_SIZE_MAX]);

/* Parses a client's name of a target: an origin without a path (a single / is allowed).
 * ERROR_INVALID has the reason, as a sentence about "it". Queues are also refused, because they are
 * paused by other calls. */
enum error_code target_pause_parse_name(struct bytes text, char room[TARGET_PAUSE_NAME_SIZE_MAX],
                                        struct bytes *ret_name, struct error *ret_error);

/* ---- tables ---- */

/* Makes a table without rows; NULL if out of memory. Like every new table it has one holder. */
struct target_pauses *target_pauses_create(void);

/* Adds a holder. target_pauses_leave removes one, and frees the table after the last. */
struct target_pauses *target_pauses_hold(struct target_pauses *pauses);
void target_pauses_leave(struct target_pauses *pauses); /* NULL has no effect */

/* Makes a table with this pause added. It replaces one with the same name, whose `since` is
 * kept. */
enum error_code target_pauses_put(const struct target_pauses *pauses, struct wall now,
                                  const struct target_pause *pause,
                                  struct target_pauses **ret_pauses);

/* Makes a table without the pause of this name. */
enum error_code target_pauses_remove(const struct target_pauses *pauses, struct wall now,
                                     struct bytes tenant, struct bytes name,
                                     struct target_pauses **ret_pauses);

/* Returns the pause, even if its time is over; NULL if there is none. O(log rows). */
const struct target_pause *target_pauses_find(const struct target_pauses *pauses,
                                              struct bytes tenant, struct bytes name);

/* Returns the pause of a flow; NULL if there is none. */
const struct target_pause *target_pauses_of_flow(const struct target_pauses *pauses,
                                                 struct bytes tenant, struct bytes key);

/* Returns of the pauses of a timer's flow and of its target the one that ends later; NULL if there
 * is none. `flow` is the timer's text of its flow. */
const struct target_pause *target_pauses_of_both(const struct target_pauses *pauses,
                                                 struct bytes tenant, struct bytes flow,
                                                 struct bytes text, const struct target *target);

/* Returns the pause of the target of a timer; NULL if there is none. */
const struct target_pause *target_pauses_of(const struct target_pauses *pauses, struct bytes tenant,
                                            struct bytes text, const struct target *target);

static inline bool target_pause_is_in_force(const struct target_pause *pause, struct wall now)
{
    return pause && pause->until.ms > now.ms;
}

/* Appends the encoded table; buffer_failed tells if memory ran out. */
void target_pauses_encode(const struct target_pauses *pauses, struct buffer *out);
enum error_code target_pauses_decode(struct bytes bytes, struct target_pauses **ret_pauses);

/* ---- the board ---- */

/* Publishes the current table, and the targets that were reset, to other threads. */
struct target_pause_board {
    struct named_board board;
};

void target_pause_board_init(struct target_pause_board *board);
void target_pause_board_deinit(struct target_pause_board *board);

/* Publishes the table, and becomes its holder. */
void target_pause_board_show(struct target_pause_board *board, struct target_pauses *pauses);

/* Publishes targets that are to be tried again at once. That ends holds which began before, or at,
 * the `since` of their row. */
void target_pause_board_show_resets(struct target_pause_board *board, struct target_pauses *resets);

/* Makes the caller a holder of the current table. Returns NULL if there is none. */
struct target_pauses *target_pause_board_take(struct target_pause_board *board,
                                              uint64_t *ret_version);
struct target_pauses *target_pause_board_take_resets(struct target_pause_board *board);

#endif
