/*
 * log_kafka_client.h - the handles of librdkafka that the logs of one node share: a consumer, and
 * producers for their appends.
 *
 * There is one producer on an idle node. A broker serves the requests of a connection one after the
 * other, and a request has one partition: so while the node has had appends in flight for
 * CLIENT_BUSY_MS without a break, each append gets a producer without another one, if need be a new
 * one. Those that had none for a while are closed.
 *
 * librdkafka 2.0.2 can end an idempotent producer for good after a time-out. So a producer whose
 * append failed is spent: it takes no more, and is closed when its other appends are answered.
 *
 * Threads    Any: a lock guards the producers, and each struct log_kafka_append.
 */
#ifndef TICKWHEEL_LOG_KAFKA_LOG_KAFKA_CLIENT_H
#define TICKWHEEL_LOG_KAFKA_LOG_KAFKA_CLIENT_H

#include "base/list.h"
#include "log/kafka/kafka_handle.h"

#include <pthread.h>

enum {
    CLIENT_BUSY_MS = 1000, /* time without a break in which appends are in flight */
    CLIENT_PRODUCERS = 24, /* maximum; then the one with the fewest appends takes more */
};

/* An append that a producer sent and did not report yet. `append` is NULL after it was given up. */
struct log_kafka_sent {
    struct log_kafka_producer *producer;
    struct log_kafka_append *append;
    struct list link;
};

/* The append of one log: one at a time. */
struct log_kafka_append {
    int event_fd;                /* eventfd that is written when `done` is set */
    struct log_kafka_sent *sent; /* NULL if no append is in flight */
    uint64_t ticket;
    struct instant sent_at;     /* time of the last append */
    struct instant unlanded_at; /* time of the first append after the last landed one */
    struct log_event done;      /* LANDED or FAILED to report; NOTHING if none */
};

struct log_kafka_client {
    struct log_kafka_options options;
    bool is_of_one_log; /* whether it may be connected to the leader only */
    int event_fd;       /* eventfd that is written when a producer has reports */
    struct kafka_handle consumer;
    pthread_mutex_t lock; /* guards the fields below */
    struct list producers;
    size_t out;                 /* appends in flight that were not given up */
    struct instant busy_since;  /* time since when there are some */
    bool is_down;               /* whether librdkafka reaches no broker */
    char cause[160];            /* last error since an append landed; empty if none */
    struct instant answered_at; /* time of the last answer of a broker */
    struct instant asked_at;    /* time of the last request of the consumer for the leaders */
    unsigned unanswered;        /* consecutive requests for the leaders without an answer */
};

/* Sends the message; the result is stored in `append`. ERROR_OVERLOADED if an append of this log is
 * in flight. */
enum error_code log_kafka_client_append(struct log_kafka_client *client,
                                        struct log_kafka_append *append, uint64_t ticket,
                                        const struct kafka_message *message,
                                        struct error *ret_error);

bool log_kafka_client_is_sent(struct log_kafka_client *client,
                              const struct log_kafka_append *append);

/* Takes the result, if there is one. */
enum log_kind log_kafka_client_take(struct log_kafka_client *client,
                                    struct log_kafka_append *append, struct log_event *ret_event);

/* Gives up the append in flight, if any: it is in doubt, without a result. */
void log_kafka_client_forget(struct log_kafka_client *client, struct log_kafka_append *append);

/* Asks for the leaders if the append is late or the log is quiet. Returns true if it is late. */
bool log_kafka_client_seek_leader(struct log_kafka_client *client,
                                  const struct log_kafka_append *append, bool is_quiet);

/* Records that a broker has answered. */
void log_kafka_client_note_answer(struct log_kafka_client *client);

enum log_trouble log_kafka_client_trouble(struct log_kafka_client *client,
                                          const struct log_kafka_append *append, char *ret_text,
                                          size_t size);

#endif
