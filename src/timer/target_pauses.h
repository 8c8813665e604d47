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
 * Name       "queue:NAME" of a queue, "http://host" or "https://host:port" of webhooks (in lower
 *            case, without the scheme's own port), the origin of every other target.
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
#include "timer/target.h"
#include "timer/tenant.h"

#include <pthread.h>
#include <stdatomic.h>

#define TARGET_PAUSES_MAX          4096 /* of all tenants */
#define TARGET_PAUSES_TENANT_MAX   256
#define TARGET_PAUSE_NOTE_SIZE_MAX 256
#define TARGET_PAUSE_NAME_SIZE_MAX 320 /* a target with a longer name cannot be paused */

/* The size of the largest table, encoded. */
#define TARGET_PAUSES_BYTES_MAX \
    (16 + TARGET_PAUSES_MAX *   \
              (21 + TENANT_SIZE_MAX + TARGET_PAUSE_NAME_SIZE_MAX + TARGET_PAUSE_NOTE_SIZE_MAX))

struct target_pause {
    struct bytes tenant, name, note;
    struct wall since;
    struct wall until; /* WALL_NEVER: until it is resumed */
};

struct target_pauses {
    size_t count;
    atomic_uint holders_;
    struct target_pause rows[]; /* by tenant, then by name; behind them their texts */
};

/* ---- names ---- */

/* The name of a target, in `room`; false when it is too long. */
bool target_pause_name(struct bytes text, const struct target *target,
                       char room[TARGET_PAUSE_NAME_SIZE_MAX], struct bytes *ret_name);

/* The name that a client means: an origin, without a path (a single / may stand there).
 * ERROR_INVALID with the reason, as a sentence about "it"; of a queue too, which has calls of its
 * own. */
enum error_code target_pause_parse_name(struct bytes text, char room[TARGET_PAUSE_NAME_SIZE_MAX],
                                        struct bytes *ret_name, struct error *ret_error);

/* ---- tables ---- */

/* Tables without a row; NULL when out of memory. It has one holder, as every table that is made. */
struct target_pauses *target_pauses_create(void);

/* One holder more, or less. */
struct target_pauses *target_pauses_hold(struct target_pauses *pauses);
void target_pauses_leave(struct target_pauses *pauses); /* NULL is fine */

/* Another table, with this pause added or replaced: then `since` stays. */
enum error_code target_pauses_put(const struct target_pauses *pauses, struct wall now,
                                  const struct target_pause *pause,
                                  struct target_pauses **ret_pauses);

/* Another table, without it. */
enum error_code target_pauses_remove(const struct target_pauses *pauses, struct wall now,
                                     struct bytes tenant, struct bytes name,
                                     struct target_pauses **ret_pauses);

/* The row, whether or not its time is over; NULL without one. O(log rows). */
const struct target_pause *target_pauses_find(const struct target_pauses *pauses,
                                              struct bytes tenant, struct bytes name);

/* The row of the target of a timer. */
const struct target_pause *target_pauses_of(const struct target_pauses *pauses, struct bytes tenant,
                                            struct bytes text, const struct target *target);

static inline bool target_pause_is_in_force(const struct target_pause *pause, struct wall now)
{
    return pause && pause->until.ms > now.ms;
}

/* The bytes of a file; buffer_failed when out of memory. */
void target_pauses_encode(const struct target_pauses *pauses, struct buffer *out);
enum error_code target_pauses_decode(struct bytes bytes, struct target_pauses **ret_pauses);

/* ---- the board ---- */

/* Where the table that holds now is found. */
struct target_pause_board {
    pthread_mutex_t lock_;
    struct target_pauses *current_; /* NULL: none was shown yet */
    struct target_pauses *resets_;  /* likewise */
    _Atomic uint64_t version;       /* grows with each table shown; 0 without one */
};

void target_pause_board_init(struct target_pause_board *board);
void target_pause_board_deinit(struct target_pause_board *board);

/* Takes the table over. */
void target_pause_board_show(struct target_pause_board *board, struct target_pauses *pauses);

/* Likewise of targets that are tried at once again, whatever they were left alone for: what began
 * at `since` or before ends. */
void target_pause_board_show_resets(struct target_pause_board *board, struct target_pauses *resets);

/* The caller becomes a holder; NULL when none was shown. */
struct target_pauses *target_pause_board_take(struct target_pause_board *board,
                                              uint64_t *ret_version);
struct target_pauses *target_pause_board_take_resets(struct target_pause_board *board);

#endif
