/*
 * log_postgres_client.h - what the logs of a node share: a thread, and its connections.
 *
 * - LANES connections append. A statement has the appends of all logs that wait when a lane is
 *   free, so one commit of the server serves them all.
 * - One reads: a statement asks for the next records of all logs that have none left.
 * - One trims.
 *
 * Only the thread uses these connections, and it holds no lock then. A lane's server may be unable
 * to answer because a standby is away; ending the connection would leave a session that waits. So a
 * lane is given up only when the reader gets no answer either.
 *
 * Threads    A lock guards what logs and the thread share.
 */
#ifndef TICKWHEEL_LOG_POSTGRES_LOG_POSTGRES_CLIENT_H
#define TICKWHEEL_LOG_POSTGRES_LOG_POSTGRES_CLIENT_H

#include "log/postgres/log_postgres.h"
#include "log/postgres/log_postgres_state.h"
#include "log/postgres/postgres_connection.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    LOG_POSTGRES_LANES = 3,
    LOG_POSTGRES_BATCH = 128,  /* appends of one statement, at most */
    LOG_POSTGRES_POLL_MS = 30, /* pause between two reads that find little */
};

struct log_postgres {
    struct log log;
    struct log_postgres_client *client;
    struct list link; /* of the client's logs */
    uint32_t partition;
    int event_fd;

    /* Guarded by the client's lock. */
    struct log_postgres_state state;
    struct instant unlanded_at; /* time of the first append after the last landed one; 0 if none */
    bool wants_trim;
    uint64_t trim_before;
    struct log_event trimmed; /* result of the trim */
};

struct log_postgres_lane {
    struct postgres_connection connection;
    unsigned generation;                           /* of the statement in flight */
    enum log_postgres_step step;                   /* question of the statement in flight */
    struct log_postgres *logs[LOG_POSTGRES_BATCH]; /* NULL if it was closed or has given up */
    size_t count;                                  /* 0 if nothing is in flight */
    struct instant sent_at, again_at;              /* again_at: end of the pause after a refusal */
    struct buffer numbers[4], bodies;
};

/* A connection for transactions of log_postgres_once.h. One of a partition uses it at a time. */
struct log_postgres_session {
    struct postgres_connection connection;
    bool is_taken;
};

/* Two for all, one for rows that must not delay others, and one for calls. */
enum { LOG_POSTGRES_APART = 2, LOG_POSTGRES_CALLS, LOG_POSTGRES_SESSIONS };

struct log_postgres_client {
    struct log_postgres_options options;
    char append_sql[1200], look_sql[500], repeat_sql[600], seek_sql[300], read_sql[1000],
        anchor_sql[500], trim_sql[500];
    pthread_t thread;
    bool has_thread;
    int event_fd; /* wakes the thread */
    atomic_bool ends;
    pthread_mutex_t lock;
    struct list logs;
    char cause[200];    /* last error of a connection or statement; empty after an answer */
    bool refuses_alone; /* the last statement that writes failed: it would not be replicated */
    struct instant answered_at; /* time of the last answer of the server */

    /* A session connects at its first use. Guarded by lock, but the connection of a session that is
     * taken belongs to the thread that took it. */
    struct log_postgres_session sessions[LOG_POSTGRES_SESSIONS];
    pthread_cond_t session_freed;

    /* The thread's. */
    struct log_postgres_lane lanes[LOG_POSTGRES_LANES];
    struct postgres_connection reader, trimmer;
    struct log_postgres_read {
        struct log_postgres_asked {
            uint32_t partition;
            unsigned follow_id;
            uint64_t next, chain; /* chain: of the record before, for an anchor */
            uint64_t end;         /* place after the last record of the answer */
            size_t rows;          /* of the answer */
            uint64_t bytes;       /* of their bodies */
        } * logs;
        size_t count, capacity;
        uint64_t bytes_max; /* of a log, after which the answer has no more of it */
        bool is_sent, is_anchor;
        unsigned generation;
    } read;
    struct log_postgres_compared compared;
    struct instant read_at; /* time of the next read */
    struct buffer numbers[2];
    uint32_t trim_partition;
    unsigned trim_generation;
    bool trim_is_sent, trimmer_is_wanted;
};

/* Writes the statements and sets the connections up. */
enum error_code log_postgres_client_prepare(struct log_postgres_client *client,
                                            struct error *ret_error);

/* Returns the number of the partition in the table. */
uint64_t log_postgres_row(uint32_t partition);

/* Runs the thread; `argument` is the client. */
void *log_postgres_client_run(void *argument);

void log_postgres_client_wake(struct log_postgres_client *client);

/* Returns why appends are not acknowledged; `otherwise` if it is unknown. Called with the lock. */
const char *log_postgres_client_cause(const struct log_postgres_client *client,
                                      const char *otherwise);

#endif
