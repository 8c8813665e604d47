/*
 * log_kafka.h - the log of a partition of a cluster on one partition of a Kafka topic: appends and
 * reads the bytes of frames.
 *
 *     log_kafka_open(&options, &log, &error);
 *     log_kafka_follow(log, place.next, &error);
 *     ticket = ownership_append(...);
 *     log_kafka_append(log, ticket, bytes, &error);
 *     while (log_kafka_wait(log, 1000, &event) != LOG_KAFKA_NOTHING)
 *         switch (event.kind) ...
 *
 * What the broker acknowledged is on all replicas that are in sync. An append without an answer in
 * time is in doubt: it may land later, and nothing fences it but the order of the log.
 *
 * Errors     ERROR_IO when librdkafka refuses; ERROR_INVALID for a property that it does not take.
 * Ownership  The bytes of an event are valid until the next call.
 * Threads    One owner; log_kafka_wake from any thread. librdkafka has threads of its own.
 */
#ifndef TICKWHEEL_CLUSTER_LOG_KAFKA_H
#define TICKWHEEL_CLUSTER_LOG_KAFKA_H

#include "base/bytes.h"
#include "base/error.h"
#include "base/time.h"

struct log_kafka_property {
    const char *name, *value; /* of librdkafka */
};

struct log_kafka_options {
    const char *brokers; /* host:port, with commas between them */
    const char *topic;   /* borrowed until the log is closed, as all of this */
    uint16_t partition;
    uint64_t append_timeout_ms; /* then an append is in doubt */
    uint64_t lost_ms; /* within which a broker may lack the next record, before it is LOST: one that
                         stood still takes itself for the leader, and has an end that is old */
    const struct log_kafka_property *properties; /* NULL: none; those below win */
    size_t property_count;
};

enum log_kafka_kind {
    LOG_KAFKA_NOTHING, /* within the time */
    LOG_KAFKA_RECORD,  /* the next record is read: offset, bytes */
    LOG_KAFKA_END,     /* all records before `offset` are read, and there is none behind them */
    LOG_KAFKA_LANDED,  /* the append `ticket` is durable: offset, appended */
    LOG_KAFKA_FAILED,  /* the append `ticket` is in doubt */
    LOG_KAFKA_LOST,    /* the log has no record at the offset that is to be read: it was cut, or is
                          another one. Nothing more is read until log_kafka_follow */
    LOG_KAFKA_TRIMMED, /* the log begins at `offset` now, or later */
    LOG_KAFKA_TRIM_FAILED, /* perhaps it does */
};

struct log_kafka_event {
    enum log_kafka_kind kind;
    uint64_t ticket, offset;
    struct wall appended; /* of LANDED: when, by the clock of the broker; {0}: it did not say */
    struct bytes bytes;
    const char *reason; /* of FAILED, LOST and TRIM_FAILED; static */
};

struct log_kafka;

/* Waits for no broker. */
enum error_code log_kafka_open(const struct log_kafka_options *options, struct log_kafka **ret_log,
                               struct error *ret_error);

/* An append that has not landed is in doubt. NULL is fine. */
void log_kafka_close(struct log_kafka *log);

/* Reads from this offset on. */
enum error_code log_kafka_follow(struct log_kafka *log, uint64_t offset, struct error *ret_error);

/* Reads from the first record on that is there. */
enum error_code log_kafka_follow_begin(struct log_kafka *log, struct error *ret_error);

/* Reads the last `count` records of those that are there, and on; or all, if they are fewer. */
enum error_code log_kafka_follow_end(struct log_kafka *log, uint64_t count,
                                     struct error *ret_error);

/* Sends the bytes; a LANDED or FAILED tells of it, and until then ERROR_OVERLOADED refuses the
 * next. On failure nothing was sent. */
enum error_code log_kafka_append(struct log_kafka *log, uint64_t ticket, struct bytes bytes,
                                 struct error *ret_error);

/* Has the brokers delete the records before this offset; a TRIMMED or TRIM_FAILED tells of it, and
 * until then ERROR_OVERLOADED refuses the next. */
enum error_code log_kafka_trim(struct log_kafka *log, uint64_t before, struct error *ret_error);

enum log_kafka_trouble {
    LOG_KAFKA_FINE,
    LOG_KAFKA_SLOW,  /* no append has landed for a second */
    LOG_KAFKA_ALONE, /* and no broker can be reached */
};

/* Whether appends land, and if not, why, in words. */
enum log_kafka_trouble log_kafka_trouble(const struct log_kafka *log, char *ret_text, size_t size);

/* Ends the wait of log_kafka_wait, or the next one. */
void log_kafka_wake(struct log_kafka *log);

/* The next event; waits for `timeout_ms` at most, and half a second at most. Where
 * an append or the next record is late it asks for the leader, up to 200 ms for each. */
enum log_kafka_kind log_kafka_wait(struct log_kafka *log, uint64_t timeout_ms,
                                   struct log_kafka_event *ret_event);

#endif
