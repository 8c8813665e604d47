/*
 * commands.h - what clients ask: each command is checked, given an id or its timer, and turned into
 * a write, a read or an answer.
 *
 *   commands.c          finds the timer of a command
 *   create.c            makes timers
 *   change.c            changes timers
 *   complete.c          commands about many timers
 *   fanout_commands.c   commands about the parts of timers with several targets
 *   explain.c, forecast.c
 *   commands_answer.c   answers a command, and continues those that waited for it
 *
 * A command for a timer that is being read or written waits until the read or write has ended.
 * Waiting commands continue in the order in which they came. So each command sees the durable
 * result of the one before.
 */
#ifndef TICKWHEEL_ENGINE_COMMANDS_H
#define TICKWHEEL_ENGINE_COMMANDS_H

#include "engine/commit.h"
#include "engine/engine.h"
#include "engine/entries.h"
#include "engine/lookup.h"

/* Maximum of rows, of all tenants, that one read for a command's scan examines. */
enum { SCAN_LOOKS = 4096 };

struct commands {
    struct list parts;    /* the engine's commands that are parts of clients' commands */
    struct list ready;    /* commands to be continued at the end of the engine's call */
    struct list answered; /* answered parts whose parent commands have not received the answer */
    struct turns
        /* commands by labels, by tenant. The first of each tenant goes through all timers, a page
         * each turn; the tenant's others wait */
        sweeps;
    size_t sweeping; /* number of `sweeps` with a page that is being read or handled */
};

struct commands *commands_create(void); /* returns NULL if out of memory */
void commands_destroy(struct commands *commands);

/* ---- what happened ---- */

void commands_start(struct engine *engine, struct command *command);

/* Starts a command of a source, or one about what was taken from it; see ledger.h. The second takes
 * the result of a batch with the ledger. */
void commands_start_source(struct engine *engine, struct command *command);
void commands_settle_source(struct engine *engine, enum error_code result);

/* Takes the result of a write: answers its command and settles its timer. */
void commands_written(struct engine *engine, const struct write_note *note, enum error_code result);

/* Handle results of reads that commands wait for, one function for each kind of read. */
void commands_found(struct engine *engine, struct engine_read *read);
void commands_looked_up(struct engine *engine, struct engine_read *read);
void commands_page(struct engine *engine, struct engine_read *read);

/* Takes rows that the second scan has read: asks the parts of a timer how they stand if a note of
 * one may be lost. */
void commands_rows_read(struct engine *engine, const struct storage_page *page);

/* Continues the commands that waited for this timer, in order, or answers them with an error. */
void commands_resume(struct engine *engine, struct entry *entry);
void commands_fail_waiters(struct engine *engine, struct entry *entry, enum error_code error);

/* ---- between the files of this module ---- */

/* commands_answer.c: answers a command. If the error says that the timer found by a look-up does
 * not exist, the look-up continues instead. */
void commands_reply(struct engine *engine, struct command *command, enum error_code error,
                    const struct timer *timer);

/* Answers a create of one timer that will not be made. */
void commands_refuse(struct engine *engine, struct command *command, enum error_code error,
                     const struct timer *timer);

/* Schedules the command to continue after this step of its look-up, when the engine's call is about
 * to end. Code that answers a command must not continue another one directly. */
void commands_continue(struct engine *engine, struct command *command, enum lookup_step step);

/* Reads the next rows of the command's scan, which are those of its tenant with its labels. Returns
 * false if out of memory. */
bool commands_scan(struct engine *engine, struct command *command);

/* create.c */
void create_start(struct engine *engine, struct command *command);
/* continues when the command's names are free */
void create_named(struct engine *engine, struct command *command);
void create_taken(struct engine *engine, struct entry *entry, struct command *command);

/* fanout_commands.c: takes a durable change of a timer: notes the end of a part at its timer, and
 * asks parts how they stand. */
void fanout_commands_written(struct engine *engine, struct entry *entry,
                             enum write_purpose purpose);

/* Takes a timer whose row was read: asks its parts how they stand if a note may be lost. */
void fanout_commands_read(struct engine *engine, const struct timer *timer);

/* Handles the answer of a command of the engine's own. */
void fanout_commands_done(struct engine *engine, struct command *command);

/* Handles a command of the engine's own, or a client's CANCEL or REDRIVE that concerns the parts of
 * a timer. The entry is not LOADING or WRITING. Returns false if the command is to be handled like
 * any other. */
bool fanout_commands_visit(struct engine *engine, struct entry *entry, struct command *command);

/* change.c: makes a DEAD timer live again as `copy`, which it takes; NULL if memory is out. */
void change_revive(struct engine *engine, struct entry *entry, struct timer *copy,
                   struct command *command);

/* change.c: applies the command to this timer, which no read or write is pending for. */
void change_timer(struct engine *engine, struct entry *entry, struct command *command);
void change_put(struct engine *engine, struct entry *entry, struct command *command);
void change_redrive(struct engine *engine, struct entry *entry, struct command *command);

/* change_answer: the later answer of a receiver, for which the timer waits */
void change_answer(struct engine *engine, struct entry *entry, struct command *command);
void change_forget(struct engine *engine, struct entry *entry, struct command *command);

/* True if a final timer can still be found by id. change_is_named: by its key or
 * Idempotency-Key. */
bool change_is_kept(const struct engine *engine, const struct timer *timer);
bool change_is_named(const struct engine *engine, const struct timer *timer);

/* complete.c */
void complete_start(struct engine *engine, struct command *command);
void complete_looked_up(struct engine *engine, struct command *command, struct engine_read *read);
void complete_swept(struct engine *engine, struct engine_read *read);

/* Makes a command that is a part of `command`; NULL if out of memory. complete_part_done: handles
 * the answer of a part, and continues the parent. */
struct command *complete_part(struct engine *engine, struct command *command,
                              enum command_kind kind);
void complete_part_done(struct engine *engine, struct command *part);

/* explain.c */
void explain_timer(struct engine *engine, const struct entry *entry,
                   struct explained *ret_explained);

/* forecast.c */
void forecast_start(struct engine *engine, struct command *command);
void forecast_read(struct engine *engine, struct engine_read *read); /* handles a page of rows */

#endif
