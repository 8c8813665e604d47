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
    CLIENT_BUSY_MS = 1000,
    CLIENT_PRODUCERS = 24, /* if all have appends, the one with the fewest takes more */
};

/* A place for an append in flight; `append` is NULL after it was given up. */
struct log_kafka_sent {
    struct log_kafka_producer *producer;
    struct log_kafka_append *append;
    struct list link;
};

/* The appends of one log: one at a time. */
struct log_kafka_append {
    int event_fd;                /* written when `done` is set */
    struct log_kafka_sent *sent; /* NULL: no append is in flight */
    uint64_t ticket;
    struct instant sent_at;     /* of the last append */
    struct instant unlanded_at; /* when the first append after the last landed one was sent */
    struct log_event done;      /* LANDED or FAILED, not told yet; NOTHING: none */
};

struct log_kafka_client {
    struct log_kafka_options options;
    bool is_of_one_log; /* which may be connected to the leader alone */
    int event_fd;       /* readable when a producer has something */
    struct kafka_handle consumer;
    pthread_mutex_t lock; /* guards what follows */
    struct list producers;
    size_t out;                 /* appends in flight that were not given up */
    struct instant busy_since;  /* while there are some */
    bool is_down;               /* no broker can be reached, as librdkafka says */
    char cause[160];            /* of the last error since an append landed; or empty */
    struct instant answered_at; /* when a broker answered last */
    struct instant asked_at;    /* when the consumer asked for the leaders last */
    unsigned unanswered;        /* successive questions for the leaders without an answer */
};

/* Sends the message; `append` tells of it. ERROR_OVERLOADED while another one is in flight. */
enum error_code log_kafka_client_append(struct log_kafka_client *client,
                                        struct log_kafka_append *append, uint64_t ticket,
                                        const struct kafka_message *message,
                                        struct error *ret_error);

bool log_kafka_client_is_sent(struct log_kafka_client *client,
                              const struct log_kafka_append *append);

/* Takes what is done. */
enum log_kind log_kafka_client_take(struct log_kafka_client *client,
                                    struct log_kafka_append *append, struct log_event *ret_event);

/* An append in flight is in doubt, and reports nothing. */
void log_kafka_client_forget(struct log_kafka_client *client, struct log_kafka_append *append);

/* Asks for the leaders if the append is late, or the log is quiet. True: an append is late. */
bool log_kafka_client_seek_leader(struct log_kafka_client *client,
                                  const struct log_kafka_append *append, bool is_quiet);

/* A broker has answered. */
void log_kafka_client_note_answer(struct log_kafka_client *client);

enum log_trouble log_kafka_client_trouble(struct log_kafka_client *client,
                                          const struct log_kafka_append *append, char *ret_text,
                                          size_t size);

#endif
