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
 * Errors     None: a line that cannot be written is lost. A line that is too long ends in " cut=1".
 * Threads    Any; a line goes out whole.
 */
#ifndef TICKWHEEL_OPS_EVENT_LOG_H
#define TICKWHEEL_OPS_EVENT_LOG_H

#include "base/time.h"

#include <stddef.h>
#include <stdio.h>

enum event_log_level {
    EVENT_LOG_ERROR,
    EVENT_LOG_WARN,
    EVENT_LOG_INFO,
    EVENT_LOG_DEBUG,
};

struct event_log {
    FILE *file_; /* borrowed */
    enum event_log_level level_max_;
    struct wall (*now_)(void);
};

#define EVENT_LOG_LINE_SIZE 1024

struct event_log_line {
    const struct event_log *log_; /* NULL: below the level, nothing is written */
    size_t size_;
    bool is_cut_;
    char text_[EVENT_LOG_LINE_SIZE];
};

/* Events above `level_max` are dropped. `now` tells the time, such as wall_now. */
void event_log_init(struct event_log *log, FILE *file, enum event_log_level level_max,
                    struct wall (*now)(void));

/* Begins a line; `event` is one word. */
void event_log_begin(struct event_log_line *line, const struct event_log *log,
                     enum event_log_level level, const char *event);
void event_log_text(struct event_log_line *line, const char *key, const char *value);
void event_log_number(struct event_log_line *line, const char *key, uint64_t value);

/* Writes it. */
void event_log_end(struct event_log_line *line);

#endif
