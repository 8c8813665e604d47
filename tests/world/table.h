/*
 * table.h - the log of several nodes as a table of PostgreSQL: a primary, a standby, and on each
 * node the real state of a log (log_postgres_state.h) with its connections.
 *
 * Questions come late or get lost with their connection, before they are carried out or after. A
 * question that was given up may still be carried out. In a *synchronous* run a row is hidden until
 * the standby has it, unless the server gives up to wait, and warns. The primary restarts, or the
 * standby takes over: with all rows that were replicated, or, in an asynchronous run, without the
 * last ones. Then nodes that know of lost rows are *misled*, until they notice, and what they tell
 * clients is judged no more.
 */
#ifndef TICKWHEEL_WORLD_TABLE_H
#define TICKWHEEL_WORLD_TABLE_H

#include "log/postgres/log_postgres_state.h"
#include "truth.h"

struct event;
struct peer;
struct sim_cluster;

enum { TABLE_READ_MAX = 20, TABLE_TRIMS_MAX = 1000 };

/* A question about an append. */
struct table_question {
    enum log_postgres_step step;
    uint32_t append; /* index of the append */
    uint32_t server; /* number of the server that was asked */
    uint64_t place, before, chain;
    struct log_postgres_answer answer;
};

struct table {
    uint64_t chains[RECORDS_MAX]; /* of the rows, which are those of the log */
    bool is_landed[RECORDS_MAX];  /* a node was told that the row is durable */
    bool is_hidden;               /* the last row waits for the standby */
    uint64_t replicated;          /* rows that the standby has */
    uint32_t server;              /* number of restarts and fail-overs */
    uint64_t standby_away_us;     /* end of the standby's absence */
    /* begins of the log, and the size that it had at each trim: a standby that lacks records lacks
     * the trims after them */
    struct {
        uint64_t begin, size;
    } trims[TABLE_TRIMS_MAX];
    size_t trim_count;
    bool has_lost; /* a fail-over has lost rows that readers saw */
    struct table_question *questions;
    size_t count, capacity;
};

/* A node's part. */
struct table_client {
    struct log_postgres_state log;
    bool awaits_follow;     /* reading must begin anew */
    uint32_t append;        /* index of the append in flight */
    uint64_t failed_ticket; /* the log took no append; 0 if it did */
    uint32_t question;      /* 1 + the index of the question in flight; 0 for none */
    uint64_t lane_up_us;    /* time from which there is a connection for appends */
    uint64_t up_us;         /* the same for reads */
    struct log_postgres_compared compared;
    unsigned generation; /* of the connection that reads */
    /* The answer of the reader in flight. */
    struct table_read {
        uint32_t number;
        unsigned follow_id;
        bool is_anchor, is_cut;
        uint64_t asked, chain, first;
        uint32_t appends[TABLE_READ_MAX];
        uint64_t chains[TABLE_READ_MAX];
        size_t count;
        struct log_postgres_anchor anchor;
    } read;
};

/* Rows that readers see. */
uint64_t table_visible(const struct sim_cluster *cluster);

void table_open(struct peer *peer);
void table_close(struct peer *peer);

/* Hands the append to the node's log. */
void table_append(struct sim_cluster *cluster, struct peer *peer, uint64_t ticket,
                  struct bytes bytes);

/* Before and after the replica's part of a turn. */
void table_begin_turn(struct sim_cluster *cluster, struct peer *peer);
void table_end_turn(struct sim_cluster *cluster, struct peer *peer);

/* The node asks for records, and EVENT_ROWS brings the answer. */
void table_follow(struct sim_cluster *cluster, struct peer *peer);
void table_take_rows(struct sim_cluster *cluster, struct peer *peer, const struct event *event);

/* A question reaches the server; its commit ends; its answer or the end of its connection reaches
 * the node. */
void table_run(struct sim_cluster *cluster, const struct event *event);
void table_sync(struct sim_cluster *cluster, const struct event *event);
void table_reply(struct sim_cluster *cluster, struct peer *peer, const struct event *event);
void table_break(struct sim_cluster *cluster, struct peer *peer, const struct event *event);

/* The append is in doubt now, if it has no result yet. */
void table_expire(struct peer *peer, uint64_t ticket);

/* The primary restarts, or the standby takes over. The standby goes away for a while. */
void table_switch(struct sim_cluster *cluster);
void table_leave(struct sim_cluster *cluster);

/* The node asks to trim the rows before this one; the request reaches the server. */
void table_ask_trim(struct sim_cluster *cluster, struct peer *peer, uint64_t delay_us,
                    uint64_t before);
bool table_trims(const struct sim_cluster *cluster, const struct event *event,
                 uint64_t *ret_before);
void table_trimmed(struct sim_cluster *cluster);

#endif
