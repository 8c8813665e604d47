/*
 * log.h - one line of key=value pairs per event in the life of the service; nothing per request.
 *
 *     struct event_log_line line;
 *     event_log_begin(&line, log, EVENT_LOG_INFO, "started");
 *     event_log_text(&line, "listen", "127.0.0.1:8463");
 *     event_log_number(&line, "partitions", 4);
 *     event_log_end(&line);
 *
 * writes  time=2026-11-20T23:59:59.250Z level=info event=started listen=127.0.0.1:8463 partitions=4
 *
 * A value with a space, a quote, an equals sign or a control character is quoted and escaped, so
 * that one event is always one line. Never log a payload, a header or a secret.
 *
 * After event_log_start a thread writes the lines, from a queue of EVENT_LOG_QUEUE_BYTES. No other
 * thread waits for the reader of the log: a line for which the queue has no room is dropped and
 * counted, and "event=log_lines_dropped count=N" follows when there is room again.
 *
 * Errors     None: a line that cannot be written is lost. A line that is too long ends in " cut=1".
 * Threads    Any, except start and stop, which belong to the owner; a line is written whole.
 */
#ifndef TICKWHEEL_OPS_EVENT_LOG_H
#define TICKWHEEL_OPS_EVENT_LOG_H

#include "base/error.h"
#include "base/time.h"

#include <stddef.h>
#include <stdio.h>

enum event_log_level {
    EVENT_LOG_ERROR,
    EVENT_LOG_WARN,
    EVENT_LOG_INFO,
    EVENT_LOG_DEBUG,
};

struct event_log_queue;
struct metrics;

struct event_log {
    FILE *file_;                    /* borrowed */
    struct event_log_queue *queue_; /* NULL if each thread writes its own lines */
    enum event_log_level level_max_;
    struct wall (*now_)(void);
};

#define EVENT_LOG_LINE_SIZE   1024
#define EVENT_LOG_QUEUE_BYTES (256 << 10)
/* time for which event_log_stop waits for the reader of the log */
#define EVENT_LOG_STOP_MS 1000

struct event_log_line {
    const struct event_log *log_; /* NULL if the level of the event is not logged */
    size_t size_;
    bool is_cut_;
    char text_[EVENT_LOG_LINE_SIZE];
};

/* Initializes a log that drops events above `level_max`. `now` is a clock, such as
 * wall_machine_now. */
void event_log_init(struct event_log *log, FILE *file, enum event_log_level level_max,
                    struct wall (*now)(void));

/* Starts the thread that writes the lines to the file's descriptor. `metrics`, borrowed, count
 * dropped lines. On ERROR_IO, because the system has no thread, each thread writes its own
 * lines. */
enum error_code event_log_start(struct event_log *log, struct metrics *metrics,
                                struct error *ret_error);

/* Ends the thread after it has written the lines in the queue. Lines that the reader does not take
 * within EVENT_LOG_STOP_MS are lost. */
void event_log_stop(struct event_log *log);

/* Begins a line; `event` is one word. */
void event_log_begin(struct event_log_line *line, const struct event_log *log,
                     enum event_log_level level, const char *event);
void event_log_text(struct event_log_line *line, const char *key, const char *value);
void event_log_number(struct event_log_line *line, const char *key, uint64_t value);

/* Ends the line and writes it. */
void event_log_end(struct event_log_line *line);

#endif
