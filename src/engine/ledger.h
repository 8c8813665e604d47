/*
 * ledger.h - which rows of sources outside the engine has taken, durable with what they changed.
 *
 * A source (source/) reads rows that others wrote, such as an outbox in a database, and makes a
 * command of each. It takes the rows in batches, with rising numbers, and begins the next batch of
 * a reader only when the rows of the one before are deleted there. So the ledger needs the rows of
 * the last batch only: after a crash the source asks for them (COMMAND_LEDGER), deletes them, and
 * goes on. It never grows and forgets nothing too early.
 *
 * Each reader has a higher epoch than those before it. Commands of an earlier reader, which may
 * still be on their way, are refused from the answer to COMMAND_LEDGER on.
 *
 * A row is noted with the write of its command, or when its command is answered without a write;
 * the next batch has it. Commands about one key follow each other, so a row whose change is durable
 * proves that all rows of its key before it are noted too.
 *
 * Errors     A command is refused with VERSION_MISMATCH if it is of an earlier reader, and with
 *            NO_MEMORY.
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_LEDGER_H
#define TICKWHEEL_ENGINE_LEDGER_H

#include "engine/command.h"

struct engine;
struct ledger;

enum {
    LEDGER_SOURCES_MAX = 16, /* beyond it the source that was not used for longest is dropped */
    LEDGER_ROWS_MAX = 65536, /* maximum of rows of a batch; beyond it OVERLOADED */
};

/* Makes a ledger from what the storage has. An empty text is an empty ledger. NULL if out of
 * memory or if the text is damaged. */
struct ledger *ledger_create(struct bytes stored);
void ledger_destroy(struct ledger *ledger);

/* Checks a command with an origin before it begins, and makes room for its row. */
enum error_code ledger_admit(struct ledger *ledger, const struct command_origin *origin);

/* Notes that the next batch has the change of the command. No effect without an origin. */
void ledger_note_write(struct ledger *ledger, struct command *command);

/* Notes the answer to a command that wrote nothing. An error that the source shall try again is
 * not noted. */
void ledger_note_answer(struct ledger *ledger, struct command *command, enum error_code error);

/* True if the source shall try the row again after this error. */
bool ledger_is_passing(enum error_code error);

/* Begins the epoch of a reader (COMMAND_LEDGER): commands of earlier ones are refused from now on.
 * When those that were admitted have ended, the next batch makes the epoch durable, and then the
 * command is answered (ledger_settle). An epoch below the last one is refused, with
 * VERSION_MISMATCH. */
enum error_code ledger_begin(struct ledger *ledger, struct command *command);

/* True if a command waits for the next batch, which is to be made even without writes. */
bool ledger_wants_batch(const struct ledger *ledger);

/* True if the batch that is being made has to wait, because one with a ledger is not settled: if
 * that fails, none after it may say that its rows are taken. */
bool ledger_must_wait(const struct ledger *ledger);

/* Appends the ledger to a batch if it has changed. Returns false if out of memory; nothing has
 * changed. */
bool ledger_take(struct ledger *ledger, struct buffer *to);

/* Takes the result of the batch with the ledger. `ret_answered` gets the commands whose epoch is
 * settled, each with its error. */
void ledger_settle(struct ledger *ledger, enum error_code result, struct list *ret_answered);

/* For tests: aborts unless every invariant holds. */
void ledger_check(const struct ledger *ledger);

#endif
