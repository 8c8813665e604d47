/* log_postgres_state.c - the state of one log on PostgreSQL; see log_postgres_state.h. */
#include "log/postgres/log_postgres_state.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOG_POSTGRES_COMPARE_MS = 1000 };

/* A record that was read, or appended here. */
struct log_postgres_record {
    struct list link;
    uint64_t place, chain;
    size_t size;
    char data[];
};

static void log_postgres_forget(struct log_postgres_state *state)
{
    for (struct list *link; (link = list_pop(&state->records));)
        free(list_item(link, struct log_postgres_record, link));
}

void log_postgres_state_init(struct log_postgres_state *state)
{
    *state = (struct log_postgres_state){0};
    list_init(&state->records);
    buffer_init(&state->append.body);
}

void log_postgres_state_deinit(struct log_postgres_state *state)
{
    log_postgres_forget(state);
    free(state->record);
    buffer_deinit(&state->append.body);
}

/* Keeps a record to be returned. Out of memory it is read again. */
static void log_postgres_keep(struct log_postgres_state *state, uint64_t place, uint64_t chain,
                              struct bytes body)
{
    struct log_postgres_record *record = malloc(sizeof(*record) + body.size);

    if (!record)
        return;
    record->place = place;
    record->chain = chain;
    record->size = body.size;
    memcpy(record->data, body.data, body.size);
    list_push(&state->records, &record->link);
    state->next = place + 1;
    state->chain = chain;
    state->is_anchored = true;
    state->has_end = state->is_told = false;
}

/* ---- the owner's calls ---- */

void log_postgres_state_follow(struct log_postgres_state *state, enum log_from from,
                               uint64_t number)
{
    log_postgres_forget(state);
    state->is_followed = true;
    state->from = from;
    state->number = number;
    state->follow_id++;
    state->is_lost = state->has_end = state->is_told = state->is_given = false;
    state->is_placed = state->is_anchored = from == LOG_FROM_OFFSET && number == 0;
    state->next = state->chain = 0;
}

static void log_postgres_finish(struct log_postgres_state *state, enum log_kind kind,
                                const char *reason)
{
    struct log_postgres_append *append = &state->append;

    assert(append->done.kind == LOG_NOTHING);
    snprintf(state->done_reason, sizeof(state->done_reason), "%s", reason);
    append->done.kind = kind;
    append->done.ticket = append->ticket;
    append->done.offset = append->place;
    append->done.code = ERROR_IO;
    append->step = LOG_POSTGRES_IDLE;
    append->is_sent = false;
}

/* Chooses the place of the append: after the last record that the caller knows. The caller knows
 * none after LOST: at the end of such a log the append would break the readers that follow it.
 * Appends of the control log go after the last record that was read, or to the end. */
static void log_postgres_place(struct log_postgres_state *state)
{
    struct log_postgres_append *append = &state->append;

    append->place = state->is_control ? state->next : state->given;
    append->before = state->is_control ? state->chain : state->given_chain;
    append->chain = bytes_hash(append->before, buffer_bytes(&append->body));
    if (!state->is_control && !state->is_given)
        log_postgres_finish(state, LOG_REFUSED, "the record before it is unknown");
    else if (!state->is_control || (state->is_placed && state->is_anchored && state->has_end))
        append->step = LOG_POSTGRES_WAITS;
    else
        append->step = LOG_POSTGRES_SEEKS;
}

enum error_code log_postgres_state_append(struct log_postgres_state *state, uint64_t ticket,
                                          struct bytes bytes, struct instant until,
                                          struct error *ret_error)
{
    struct log_postgres_append *append = &state->append;

    if (append->step != LOG_POSTGRES_IDLE || append->done.kind != LOG_NOTHING)
        return error_set(ret_error, ERROR_OVERLOADED, "another append is in flight");
    buffer_clear(&append->body);
    buffer_append_bytes(&append->body, bytes);
    if (buffer_failed(&append->body))
        return error_set(ret_error, ERROR_NO_MEMORY, "append");
    append->ticket = ticket;
    append->until = until;
    log_postgres_place(state);
    return ERROR_NONE;
}

/* ---- events ---- */

/* Notes what the owner knows. It may take a record after a later one of its own has landed. */
static void log_postgres_give(struct log_postgres_state *state, uint64_t next, uint64_t chain)
{
    if (state->is_given && next < state->given)
        return;
    state->is_given = true;
    state->given = next;
    state->given_chain = chain;
}

static bool log_postgres_has_end(const struct log_postgres_state *state)
{
    return state->is_followed && state->has_end && !state->is_told;
}

bool log_postgres_state_has_event(const struct log_postgres_state *state)
{
    return state->append.done.kind != LOG_NOTHING || !list_is_empty(&state->records) ||
           state->is_lost || log_postgres_has_end(state);
}

static void log_postgres_take_done(struct log_postgres_state *state, struct log_event *ret_event)
{
    struct log_event *done = &state->append.done;

    *ret_event = *done;
    snprintf(state->reason, sizeof(state->reason), "%s", state->done_reason);
    ret_event->reason = state->reason;
    *done = (struct log_event){.kind = LOG_NOTHING};
}

enum log_kind log_postgres_state_take(struct log_postgres_state *state, struct log_event *ret_event)
{
    *ret_event = (struct log_event){.kind = LOG_NOTHING};
    free(state->record);
    state->record = NULL;
    if (state->append.done.kind != LOG_NOTHING) {
        log_postgres_take_done(state, ret_event);
    } else if (!list_is_empty(&state->records)) {
        struct log_postgres_record *record =
            list_item(list_pop(&state->records), struct log_postgres_record, link);

        state->record = record;
        log_postgres_give(state, record->place + 1, record->chain);
        *ret_event = (struct log_event){
            .kind = LOG_RECORD, .offset = record->place, .bytes = {record->data, record->size}};
    } else if (state->is_lost) {
        state->is_lost = state->is_followed = state->is_given = false;
        snprintf(state->reason, sizeof(state->reason), "%s", state->lost_reason);
        *ret_event =
            (struct log_event){.kind = LOG_LOST, .code = ERROR_IO, .reason = state->reason};
    } else if (log_postgres_has_end(state)) {
        state->is_told = true;
        log_postgres_give(state, state->next, state->chain);
        *ret_event = (struct log_event){.kind = LOG_END, .offset = state->next};
    }
    return ret_event->kind;
}

bool log_postgres_state_trims(const struct log_postgres_state *state, uint64_t *ret_place,
                              uint64_t *ret_chain)
{
    if (!state->is_given || state->given == 0)
        return false;
    *ret_place = state->given - 1;
    *ret_chain = state->given_chain;
    return true;
}

/* Makes LOST the next event, and ends the reading. */
static void log_postgres_lose(struct log_postgres_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void log_postgres_lose(struct log_postgres_state *state, const char *format, ...)
{
    va_list arguments;

    if (!state->is_followed || state->is_lost)
        return;
    va_start(arguments, format);
    vsnprintf(state->lost_reason, sizeof(state->lost_reason), format, arguments);
    va_end(arguments);
    state->is_lost = true;
}

/* ---- the append ---- */

void log_postgres_state_doubt(struct log_postgres_state *state, const char *reason)
{
    log_postgres_finish(state, LOG_FAILED, reason);
}

/* The log reads its own record from memory, if everything before it was read. */
static void log_postgres_keep_own(struct log_postgres_state *state)
{
    const struct log_postgres_append *append = &state->append;

    if (!state->is_followed || state->is_lost || !state->is_placed || state->next != append->place)
        return;
    log_postgres_keep(state, append->place, append->chain, buffer_bytes(&append->body));
    state->has_end = state->next > append->place;
}

static void log_postgres_land(struct log_postgres_state *state, uint64_t appended_ms)
{
    const struct log_postgres_append *append = &state->append;

    state->append.done.appended = (struct wall){appended_ms};
    log_postgres_finish(state, LOG_LANDED, "");
    log_postgres_keep_own(state);
    if (!state->is_given || state->given == append->place)
        log_postgres_give(state, append->place + 1, append->chain);
}

bool log_postgres_state_transact(struct log_postgres_state *state, uint64_t place,
                                 struct bytes bytes)
{
    struct log_postgres_append *append = &state->append;

    if (append->step != LOG_POSTGRES_IDLE || append->done.kind != LOG_NOTHING || !state->is_given ||
        state->given != place)
        return false;
    append->step = LOG_POSTGRES_TRANSACTS;
    append->place = place;
    append->before = state->given_chain;
    append->chain = bytes_hash(append->before, bytes);
    return true;
}

void log_postgres_state_transacted(struct log_postgres_state *state, bool has_landed, uint64_t next,
                                   uint64_t chain)
{
    assert(state->append.step == LOG_POSTGRES_TRANSACTS);
    state->append.step = LOG_POSTGRES_IDLE;
    if (has_landed && (!state->is_given || state->given == state->append.place))
        log_postgres_give(state, next, chain);
}

/* Places the append after this record. */
static void log_postgres_replace(struct log_postgres_state *state, uint64_t place, uint64_t before)
{
    state->append.place = place;
    state->append.before = before;
    state->append.chain = bytes_hash(before, buffer_bytes(&state->append.body));
    state->append.step = LOG_POSTGRES_WAITS;
}

/* Decides why an append was not inserted. */
static void log_postgres_look(struct log_postgres_state *state,
                              const struct log_postgres_answer *answer)
{
    struct log_postgres_append *append = &state->append;
    /* the log goes on after its place, whose record was trimmed, and may be this one */
    const bool is_trimmed = !answer->is_there && answer->end > append->place;

    if (answer->is_there && answer->chain == append->chain)
        append->step = LOG_POSTGRES_REPEATS;
    else if (is_trimmed)
        log_postgres_state_doubt(state, "the record at its place was trimmed");
    else if (answer->is_there && state->is_control)
        append->step = LOG_POSTGRES_SEEKS;
    else if (answer->is_there)
        log_postgres_finish(state, LOG_REFUSED, "another record has its place");
    else if (append->place == 0 || (answer->has_before && answer->before == append->before))
        append->step = LOG_POSTGRES_WAITS; /* the other append was rolled back */
    else if (state->is_control && !state->is_followed)
        append->step = LOG_POSTGRES_SEEKS;
    else {
        log_postgres_lose(state,
                          "the server lacks record %llu, which it had: has a standby taken "
                          "over without it?",
                          (unsigned long long)append->place - 1);
        log_postgres_finish(state, LOG_REFUSED, "the server lacks the record before it");
    }
}

void log_postgres_state_answer(struct log_postgres_state *state,
                               const struct log_postgres_answer *answer)
{
    struct log_postgres_append *append = &state->append;

    assert(append->step == LOG_POSTGRES_IDLE || append->is_sent);
    append->is_sent = false;
    switch (append->step) {
    case LOG_POSTGRES_IDLE:
    case LOG_POSTGRES_TRANSACTS:
        break;
    case LOG_POSTGRES_LOOKS:
        log_postgres_look(state, answer);
        break;
    case LOG_POSTGRES_SEEKS:
        log_postgres_replace(state, answer->is_there ? answer->place + 1 : 0,
                             answer->is_there ? answer->chain : 0);
        break;
    case LOG_POSTGRES_WAITS:
    case LOG_POSTGRES_REPEATS:
        if (!answer->is_there)
            append->step = LOG_POSTGRES_LOOKS;
        else if (answer->has_warning)
            append->step = LOG_POSTGRES_REPEATS;
        else
            log_postgres_land(state, answer->appended_ms);
        break;
    }
}

/* ---- reading ---- */

bool log_postgres_state_wants_records(const struct log_postgres_state *state)
{
    return state->is_followed && !state->is_lost && list_is_empty(&state->records);
}

uint64_t log_postgres_state_wanted(const struct log_postgres_state *state)
{
    if (state->is_placed)
        return state->next;
    switch (state->from) {
    case LOG_FROM_OFFSET:
        return state->number - 1;
    case LOG_FROM_END:
        return 0 - (state->number > 0 ? state->number : 1);
    case LOG_FROM_BEGIN:
        break;
    }
    return 0;
}

/* Handles the first record of a log that begins to be read. Returns false if the record is only the
 * one before the end. */
static bool log_postgres_settle(struct log_postgres_state *state, uint64_t place, uint64_t chain)
{
    const bool is_before = state->from == LOG_FROM_END && state->number == 0;

    state->is_placed = true;
    state->next = is_before ? place + 1 : place;
    state->is_anchored = is_before || place == 0;
    state->chain = is_before ? chain : 0;
    if (state->from == LOG_FROM_OFFSET && place > state->number)
        log_postgres_lose(state, "the log begins at record %llu, after record %llu",
                          (unsigned long long)place, (unsigned long long)state->number);
    return !is_before;
}

/* Returns whether the record is the one of the append in flight, or a later one. Readers see it
 * before it is replicated, if the server has restarted or gave up to wait for the standby. The
 * owner must not take it as durable before it has landed, so it is read after that. */
static bool log_postgres_is_held(const struct log_postgres_state *state, uint64_t place,
                                 uint64_t chain)
{
    const struct log_postgres_append *append = &state->append;

    return append->step != LOG_POSTGRES_IDLE && !state->is_control &&
           state->next == append->place && (place > append->place || chain == append->chain);
}

void log_postgres_state_read(struct log_postgres_state *state, uint64_t place, uint64_t chain,
                             struct bytes body)
{
    if (state->is_placed && log_postgres_is_held(state, place, chain))
        return;
    if (state->is_lost || (!state->is_placed && !log_postgres_settle(state, place, chain)) ||
        state->is_lost || place < state->next)
        return;
    if (place > state->next)
        log_postgres_lose(state, "record %llu is missing, and the log goes on at %llu",
                          (unsigned long long)state->next, (unsigned long long)place);
    else if (state->is_anchored && chain != bytes_hash(state->chain, body))
        log_postgres_lose(state,
                          "record %llu does not follow from those before: it is damaged, or "
                          "the log is another one",
                          (unsigned long long)place);
    else
        log_postgres_keep(state, place, chain, body);
}

/* Handles the answer without a record. */
static void log_postgres_read_nothing(struct log_postgres_state *state, uint64_t asked)
{
    if (!state->is_placed && state->from == LOG_FROM_OFFSET) {
        log_postgres_lose(state, "the log ends before record %llu",
                          (unsigned long long)state->number);
        return;
    }
    if (!state->is_placed) { /* it is empty */
        state->is_placed = state->is_anchored = true;
        state->next = state->chain = 0;
    } else if (state->next != asked) {
        return;
    }
    state->has_end = true;
}

void log_postgres_state_read_all(struct log_postgres_state *state, uint64_t asked, uint64_t end,
                                 bool is_cut)
{
    if (end == 0)
        log_postgres_read_nothing(state, asked);
    else if (!is_cut && state->is_placed && state->next >= end)
        state->has_end = true; /* that was all, when the server answered */
}

/* ---- comparing ---- */

bool log_postgres_compares(struct log_postgres_compared *compared, unsigned generation,
                           struct instant now)
{
    if (compared->is_begun && compared->generation == generation &&
        now.ns < instant_add_ms(compared->at, LOG_POSTGRES_COMPARE_MS).ns)
        return false;
    *compared = (struct log_postgres_compared){true, generation, now};
    return true;
}

bool log_postgres_state_has_anchor(const struct log_postgres_state *state)
{
    return state->is_followed && !state->is_lost && state->is_placed && state->is_anchored &&
           state->next > 0;
}

/* A record that is missing while there are later ones was trimmed. */
void log_postgres_state_compare(struct log_postgres_state *state, uint64_t next, uint64_t chain,
                                const struct log_postgres_anchor *anchor)
{
    if (anchor->is_there && anchor->chain != chain)
        log_postgres_lose(state,
                          "record %llu of the server is another one than it was: has a standby "
                          "taken over that lacked records?",
                          (unsigned long long)next - 1);
    else if (!anchor->is_there && (!anchor->has_records || anchor->last < next - 1))
        log_postgres_lose(state,
                          "the server lacks record %llu, which it had: has a standby taken over "
                          "without it?",
                          (unsigned long long)next - 1);
}
