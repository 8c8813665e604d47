/*
 * ledger.c - the rows of the last batch of each source; see ledger.h.
 *
 * The text: version 1 (1 byte), number of sources (1); for each its id, epoch and batch (8 each),
 * the number of rows (4), and for each row its number (8) and its error (1, a number of
 * enum error_code, 0 for none).
 */
#include "engine/ledger.h"

#include "base/check.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEDGER_VERSION = 1,
    LEDGER_HEAD_SIZE = 2,
    LEDGER_SOURCE_SIZE = 28,
    LEDGER_ROW_SIZE = 9,
    LEDGER_ROWS_FIRST = 64,
};

enum ledger_row_state {
    LEDGER_NEW,     /* the next batch has it */
    LEDGER_WRITTEN, /* likewise, and with it the change of its command */
    LEDGER_OUT,     /* a batch that is not settled has it; with its change: */
    LEDGER_OUT_WRITTEN,
    LEDGER_DURABLE,
};

struct ledger_entry {
    uint64_t row;
    uint8_t error, state;
};

struct ledger_source {
    uint64_t source, epoch, batch;
    struct ledger_entry *rows;
    /* rows; rows and commands that were admitted and are not noted; room for both */
    size_t count, admitted, capacity;
};

struct ledger {
    struct ledger_source sources[LEDGER_SOURCES_MAX]; /* the last used last */
    size_t source_count;
    bool is_changed;    /* the next batch shall have the ledger */
    bool is_out;        /* a batch with the ledger is not settled */
    struct list held;   /* commands that wait for the end of commands of an earlier reader */
    struct list begun;  /* commands whose epoch the next batch has */
    struct list asking; /* commands whose epoch a batch has that is not settled */
};

static struct ledger_source *ledger_find(struct ledger *ledger, uint64_t id)
{
    for (size_t i = 0; i < ledger->source_count; i++)
        if (ledger->sources[i].source == id)
            return &ledger->sources[i];
    return NULL;
}

static bool ledger_reserve(struct ledger_source *source, size_t count)
{
    size_t capacity = source->capacity ? source->capacity : LEDGER_ROWS_FIRST;

    while (capacity < count)
        capacity *= 2;
    if (capacity == source->capacity)
        return true;
    struct ledger_entry *rows = realloc(source->rows, capacity * sizeof(*rows));
    if (!rows)
        return false;
    source->rows = rows;
    source->capacity = capacity;
    return true;
}

/* ---- the text ---- */

static bool ledger_read_source(struct bytes *text, struct ledger_source *source)
{
    if (text->size < LEDGER_SOURCE_SIZE)
        return false;
    source->source = get_le(text->data, 8);
    source->epoch = get_le(text->data + 8, 8);
    source->batch = get_le(text->data + 16, 8);
    const size_t count = (size_t)get_le(text->data + 24, 4);
    *text = (struct bytes){text->data + LEDGER_SOURCE_SIZE, text->size - LEDGER_SOURCE_SIZE};
    if (count > LEDGER_ROWS_MAX || text->size / LEDGER_ROW_SIZE < count ||
        !ledger_reserve(source, count))
        return false;
    for (; source->count < count; source->count++) {
        const char *at = text->data + source->count * LEDGER_ROW_SIZE;

        const uint8_t error = (uint8_t)at[8]; /* that of a later version may be unknown */

        source->rows[source->count] = (struct ledger_entry){
            .row = get_le(at, 8),
            .error = error < ERROR_COUNT ? error : ERROR_INVALID,
            .state = LEDGER_DURABLE,
        };
    }
    *text =
        (struct bytes){text->data + count * LEDGER_ROW_SIZE, text->size - count * LEDGER_ROW_SIZE};
    return true;
}

static bool ledger_read(struct ledger *ledger, struct bytes text)
{
    if (!text.size)
        return true;
    if (text.size < LEDGER_HEAD_SIZE || text.data[0] != LEDGER_VERSION)
        return false;
    const size_t count = (uint8_t)text.data[1];
    text = (struct bytes){text.data + LEDGER_HEAD_SIZE, text.size - LEDGER_HEAD_SIZE};
    if (count > LEDGER_SOURCES_MAX)
        return false;
    while (ledger->source_count < count) {
        struct ledger_source *source = &ledger->sources[ledger->source_count++];

        if (!ledger_read_source(&text, source) || !source->source ||
            ledger_find(ledger, source->source) != source)
            return false;
    }
    return text.size == 0;
}

static void ledger_write(const struct ledger *ledger, struct buffer *to)
{
    buffer_append_le(to, LEDGER_VERSION, 1);
    buffer_append_le(to, ledger->source_count, 1);
    for (size_t i = 0; i < ledger->source_count; i++) {
        const struct ledger_source *source = &ledger->sources[i];

        buffer_append_le(to, source->source, 8);
        buffer_append_le(to, source->epoch, 8);
        buffer_append_le(to, source->batch, 8);
        buffer_append_le(to, source->count, 4);
        for (size_t j = 0; j < source->count; j++) {
            buffer_append_le(to, source->rows[j].row, 8);
            buffer_append_le(to, source->rows[j].error, 1);
        }
    }
}

struct ledger *ledger_create(struct bytes stored)
{
    struct ledger *ledger = calloc(1, sizeof(*ledger));

    if (!ledger)
        return NULL;
    list_init(&ledger->held);
    list_init(&ledger->begun);
    list_init(&ledger->asking);
    if (ledger_read(ledger, stored))
        return ledger;
    ledger_destroy(ledger);
    return NULL;
}

void ledger_destroy(struct ledger *ledger)
{
    if (!ledger)
        return;
    for (size_t i = 0; i < LEDGER_SOURCES_MAX; i++)
        free(ledger->sources[i].rows);
    free(ledger);
}

/* ---- rows ---- */

enum error_code ledger_admit(struct ledger *ledger, const struct command_origin *origin)
{
    struct ledger_source *source = ledger_find(ledger, origin->source);

    assert(origin->source);
    if (!source || source->epoch != origin->epoch || origin->batch < source->batch)
        return ERROR_VERSION_MISMATCH;
    if (origin->batch > source->batch && source->admitted > 0)
        return ERROR_OVERLOADED;
    if (origin->batch > source->batch) {
        source->count = 0;
        source->batch = origin->batch;
    }
    if (source->count + source->admitted >= LEDGER_ROWS_MAX)
        return ERROR_OVERLOADED;
    if (!ledger_reserve(source, source->count + source->admitted + 1))
        return ERROR_NO_MEMORY;
    source->admitted++;
    return ERROR_NONE;
}

/* Begins the epochs that waited for the last command of an earlier reader. */
static void ledger_begin_held(struct ledger *ledger, uint64_t id)
{
    LIST_FOR_EACH (&ledger->held, link) {
        struct command *command = list_item(link, struct command, link);

        if (command->ledger->source != id)
            continue;
        list_remove(link);
        list_push(&ledger->begun, link);
        ledger->is_changed = true;
    }
}

/* Returns the source of a command that was admitted, and counts it no longer. NULL if the source
 * was dropped meanwhile. */
static struct ledger_source *ledger_leave(struct ledger *ledger, struct command *command)
{
    const struct command_origin *origin = &command->origin;
    struct ledger_source *source = ledger_find(ledger, origin->source);

    if (!source || source->batch != origin->batch || !source->admitted)
        return NULL;
    if (--source->admitted == 0)
        ledger_begin_held(ledger, source->source);
    return source;
}

static void ledger_add(struct ledger *ledger, struct ledger_source *source,
                       struct ledger_entry entry)
{
    assert(source->count < source->capacity);
    source->rows[source->count++] = entry;
    ledger->is_changed = true;
}

void ledger_note_write(struct ledger *ledger, struct command *command)
{
    if (!command || !command->origin.source || command->origin.is_noted_)
        return;
    command->origin.is_noted_ = true;
    struct ledger_source *source = ledger_leave(ledger, command);
    if (source && command->origin.row)
        ledger_add(ledger, source,
                   (struct ledger_entry){.row = command->origin.row, .state = LEDGER_WRITTEN});
}

bool ledger_is_passing(enum error_code error)
{
    switch (error) {
    case ERROR_OVERLOADED:
    case ERROR_TOO_MANY:
    case ERROR_NO_MEMORY:
    case ERROR_DISK_FULL:
    case ERROR_STOPPING:
    case ERROR_UNREADABLE:
    case ERROR_IO:
    case ERROR_IN_DOUBT:
        return true;
    default:
        return false;
    }
}

void ledger_note_answer(struct ledger *ledger, struct command *command, enum error_code error)
{
    if (!command->origin.source || command->origin.is_noted_)
        return;
    command->origin.is_noted_ = true;
    struct ledger_source *source = ledger_leave(ledger, command);
    /* a timer that is over needs no cancel */
    if (command->kind == COMMAND_CANCEL && (error == ERROR_NOT_FOUND || error == ERROR_GONE))
        error = ERROR_NONE;
    if (source && command->origin.row && !ledger_is_passing(error))
        ledger_add(ledger, source,
                   (struct ledger_entry){
                       .row = command->origin.row, .error = (uint8_t)error, .state = LEDGER_NEW});
}

/* ---- readers ---- */

/* Makes room for a further source. */
static void ledger_drop_oldest(struct ledger *ledger)
{
    free(ledger->sources[0].rows);
    ledger->source_count--;
    memmove(ledger->sources, ledger->sources + 1, ledger->source_count * sizeof(*ledger->sources));
    ledger->sources[ledger->source_count] = (struct ledger_source){0};
}

static struct ledger_source *ledger_use(struct ledger *ledger, uint64_t id)
{
    struct ledger_source *found = ledger_find(ledger, id);
    struct ledger_source source = {.source = id};

    if (!found && ledger->source_count == LEDGER_SOURCES_MAX)
        ledger_drop_oldest(ledger);
    if (found) {
        const size_t after = ledger->source_count - 1 - (size_t)(found - ledger->sources);

        source = *found;
        memmove(found, found + 1, after * sizeof(*found));
        ledger->source_count--;
    }
    ledger->sources[ledger->source_count] = source;
    return &ledger->sources[ledger->source_count++];
}

enum error_code ledger_begin(struct ledger *ledger, struct command *command)
{
    struct command_ledger *asked = command->ledger;
    const struct ledger_source *found = ledger_find(ledger, asked->source);

    assert(command->kind == COMMAND_LEDGER && asked->source);
    if (found && asked->epoch < found->epoch)
        return ERROR_VERSION_MISMATCH;
    struct ledger_source *source = ledger_use(ledger, asked->source);
    source->epoch = asked->epoch;
    list_push(&ledger->held, &command->link);
    if (!source->admitted)
        ledger_begin_held(ledger, source->source);
    return ERROR_NONE;
}

/* Copies the rows of the last batch into the answer. */
static enum error_code ledger_answer(struct ledger *ledger, struct command_ledger *asked)
{
    const struct ledger_source *source = ledger_find(ledger, asked->source);

    if (!source || source->epoch != asked->epoch)
        return ERROR_VERSION_MISMATCH;
    asked->rows = calloc(source->count + 1, sizeof(*asked->rows));
    if (!asked->rows)
        return ERROR_NO_MEMORY;
    asked->batch = source->batch;
    for (size_t i = 0; i < source->count; i++)
        if (source->rows[i].state == LEDGER_DURABLE)
            asked->rows[asked->count++] = (struct command_ledger_row){
                .row = source->rows[i].row, .error = (enum error_code)source->rows[i].error};
    return ERROR_NONE;
}

/* ---- batches ---- */

bool ledger_wants_batch(const struct ledger *ledger)
{
    return !list_is_empty(&ledger->begun);
}

bool ledger_must_wait(const struct ledger *ledger)
{
    return ledger->is_out && ledger->is_changed;
}

bool ledger_take(struct ledger *ledger, struct buffer *to)
{
    assert(!ledger_must_wait(ledger));
    if (!ledger->is_changed)
        return true;
    ledger_write(ledger, to);
    if (buffer_failed(to))
        return false;
    for (size_t i = 0; i < ledger->source_count; i++)
        for (size_t j = 0; j < ledger->sources[i].count; j++) {
            struct ledger_entry *entry = &ledger->sources[i].rows[j];

            if (entry->state == LEDGER_NEW || entry->state == LEDGER_WRITTEN)
                entry->state = entry->state == LEDGER_NEW ? LEDGER_OUT : LEDGER_OUT_WRITTEN;
        }
    ledger->is_changed = false;
    ledger->is_out = true;
    list_join(&ledger->asking, &ledger->begun);
    return true;
}

/* Takes the result of a batch for the rows of a source. The change of a row whose batch failed has
 * not been made, so the row is not taken. */
static void ledger_settle_rows(struct ledger *ledger, struct ledger_source *source,
                               enum error_code result)
{
    size_t count = 0;

    for (size_t i = 0; i < source->count; i++) {
        struct ledger_entry entry = source->rows[i];

        if (entry.state == LEDGER_OUT_WRITTEN && result)
            continue;
        if (entry.state == LEDGER_OUT && result) {
            entry.state = LEDGER_NEW;
            ledger->is_changed = true;
        } else if (entry.state == LEDGER_OUT || entry.state == LEDGER_OUT_WRITTEN) {
            entry.state = LEDGER_DURABLE;
        }
        source->rows[count++] = entry;
    }
    source->count = count;
}

void ledger_settle(struct ledger *ledger, enum error_code result, struct list *ret_answered)
{
    assert(ledger->is_out);
    ledger->is_out = false;
    for (size_t i = 0; i < ledger->source_count; i++)
        ledger_settle_rows(ledger, &ledger->sources[i], result);
    LIST_FOR_EACH (&ledger->asking, link) {
        struct command *command = list_item(link, struct command, link);

        command->error = result ? result : ledger_answer(ledger, command->ledger);
    }
    list_join(ret_answered, &ledger->asking);
}

void ledger_check(const struct ledger *ledger)
{
    CHECK(ledger->source_count <= LEDGER_SOURCES_MAX);
    for (size_t i = 0; i < ledger->source_count; i++) {
        const struct ledger_source *source = &ledger->sources[i];

        CHECK(source->count + source->admitted <= source->capacity);
        CHECK(source->count <= LEDGER_ROWS_MAX);
        for (size_t j = 0; j < source->count; j++) {
            const uint8_t state = source->rows[j].state;

            CHECK(ledger->is_out || (state != LEDGER_OUT && state != LEDGER_OUT_WRITTEN));
            CHECK(ledger->is_changed || (state != LEDGER_NEW && state != LEDGER_WRITTEN));
        }
    }
}
