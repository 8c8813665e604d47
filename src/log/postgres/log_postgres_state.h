/*
 * log_postgres_state.h - the state of one log on PostgreSQL: where its append goes, what an answer
 * of the server means, and whether the server still has what it had.
 *
 *     log_postgres_state_follow(&state, from, number);         the owner of the log
 *     log_postgres_state_append(&state, ticket, bytes, until, &error);
 *     while (log_postgres_state_take(&state, &event)) ...
 *
 *     switch (state.append.step) ...                           the thread of the client: ask,
 *     log_postgres_state_inserted(&state, &answer);            and hand in the answers
 *     log_postgres_state_read(&state, place, chain, body);
 *
 * It has no connection, no clock, no thread and no lock: log_postgres.h has those, and a
 * simulation.
 *
 * Errors     As log.h.
 * Threads    None: one owner at a time.
 */
#ifndef TICKWHEEL_LOG_POSTGRES_LOG_POSTGRES_STATE_H
#define TICKWHEEL_LOG_POSTGRES_LOG_POSTGRES_STATE_H

#include "base/list.h"
#include "log/log.h"

enum { LOG_POSTGRES_REASON_SIZE = 160 };

/* What to ask the server about the append. */
enum log_postgres_step {
    LOG_POSTGRES_IDLE,    /* no append */
    LOG_POSTGRES_WAITS,   /* insert it at its place, if the record before has the chain `before` */
    LOG_POSTGRES_SEEKS,   /* find the end of the log */
    LOG_POSTGRES_LOOKS,   /* it was not inserted: find what is at its place, and before */
    LOG_POSTGRES_REPEATS, /* it is there: write it again, which waits until it is replicated */
    /* nothing: log_postgres_once.h inserts it, and others after it */
    LOG_POSTGRES_TRANSACTS
};

struct log_postgres_append {
    enum log_postgres_step step;
    bool is_sent;                          /* the question is asked, and has no answer yet */
    uint64_t ticket, place, before, chain; /* before: chain of the record before */
    struct buffer body;
    struct instant until;  /* it is in doubt then */
    struct log_event done; /* result; NOTHING if none */
};

struct log_postgres_state {
    bool is_control; /* appends go to the end of the log, wherever that is */
    bool is_followed;
    enum log_from from; /* until the first record is known; then OFFSET */
    uint64_t number;
    bool is_placed;        /* `next` and `chain` are known */
    bool is_anchored;      /* `chain` is known */
    bool has_end, is_told; /* everything up to `next` was read; END was returned */
    uint64_t next, chain;  /* place after the last record of `records`, and the chain before it */
    uint64_t given, given_chain; /* the same of the last record returned or landed; is_given */
    bool is_given;
    unsigned follow_id;                 /* number of follows */
    struct list records;                /* struct log_postgres_record */
    struct log_postgres_record *record; /* that of the last event */
    bool is_lost;
    char lost_reason[LOG_POSTGRES_REASON_SIZE];
    struct log_postgres_append append;
    char reason[LOG_POSTGRES_REASON_SIZE]; /* of the last event */
    char done_reason[LOG_POSTGRES_REASON_SIZE];
};

void log_postgres_state_init(struct log_postgres_state *state);
void log_postgres_state_deinit(struct log_postgres_state *state);

/* ---- for the owner of the log ---- */

void log_postgres_state_follow(struct log_postgres_state *state, enum log_from from,
                               uint64_t number);
enum error_code log_postgres_state_append(struct log_postgres_state *state, uint64_t ticket,
                                          struct bytes bytes, struct instant until,
                                          struct error *ret_error);
bool log_postgres_state_has_event(const struct log_postgres_state *state);
enum log_kind log_postgres_state_take(struct log_postgres_state *state,
                                      struct log_event *ret_event);

/* Returns the last record that the owner knows, which must be there when others are trimmed: a
 * server that lost it may need them. False if it knows none. */
bool log_postgres_state_trims(const struct log_postgres_state *state, uint64_t *ret_place,
                              uint64_t *ret_chain);

/* ---- appends of log_postgres_once.h ---- */

/* Begins an append whose first record is `bytes`, and sets its place and chains. Returns false if
 * `place` is not after the last record that the owner knows, or an append is in flight. */
bool log_postgres_state_transact(struct log_postgres_state *state, uint64_t place,
                                 struct bytes bytes);

/* Ends it, without an event. If it has landed, `chain` is that of its last record, and `next` the
 * place after that. */
void log_postgres_state_transacted(struct log_postgres_state *state, bool has_landed, uint64_t next,
                                   uint64_t chain);

/* ---- answers to the question of `append.step` ---- */

struct log_postgres_answer {
    /* WAITS: it was inserted. REPEATS: it was written again. LOOKS: its place is taken. SEEKS: the
     * log has records */
    bool is_there;
    bool has_warning;     /* the server may have given up to wait for a standby */
    uint64_t appended_ms; /* WAITS, REPEATS: time of the append by the server's clock */
    uint64_t place;       /* SEEKS: that of the last record */
    uint64_t chain;       /* LOOKS, SEEKS: that of the record found */
    bool has_before;      /* LOOKS: the record before is there, and its chain */
    uint64_t before;
    uint64_t end; /* LOOKS: place after the last record of the log; 0 if it is empty */
};

void log_postgres_state_answer(struct log_postgres_state *state,
                               const struct log_postgres_answer *answer);

/* Ends the append as in doubt. */
void log_postgres_state_doubt(struct log_postgres_state *state, const char *reason);

/* ---- answers to the question for records ---- */

/* Returns whether records are to be asked for. */
bool log_postgres_state_wants_records(const struct log_postgres_state *state);

/* Returns the first place to read: that of the record before, if its chain is unknown. -N means N
 * records before the end. */
uint64_t log_postgres_state_wanted(const struct log_postgres_state *state);

/* Takes a record of the answer. The first one may be before the wanted ones. */
void log_postgres_state_read(struct log_postgres_state *state, uint64_t place, uint64_t chain,
                             struct bytes body);

/* Ends an answer to the question for the records from `asked` on, whose last record was the one
 * before `end`. `end` is 0 if there was none. If the answer is not cut, that was all. */
void log_postgres_state_read_all(struct log_postgres_state *state, uint64_t asked, uint64_t end,
                                 bool is_cut);

/* ---- comparing the server's records with those that were read ---- */

/* Times of the comparisons of all logs of a reader. */
struct log_postgres_compared {
    bool is_begun;
    unsigned generation; /* of the connection */
    struct instant at;
};

/* Returns whether the next question must compare: on a new connection, because the server may be
 * another one; and after a while. Notes that it does. */
bool log_postgres_compares(struct log_postgres_compared *compared, unsigned generation,
                           struct instant now);

/* Returns whether this log takes part. */
bool log_postgres_state_has_anchor(const struct log_postgres_state *state);

/* Takes the answer about the record before `next`, whose chain was `chain`. */
struct log_postgres_anchor {
    bool is_there, has_records;
    uint64_t chain; /* of that record */
    uint64_t last;  /* place of the last record */
};

void log_postgres_state_compare(struct log_postgres_state *state, uint64_t next, uint64_t chain,
                                const struct log_postgres_anchor *anchor);

#endif
