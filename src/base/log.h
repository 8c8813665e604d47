/*
 * log.h - one line of key=value pairs per event in the life of the service; nothing per request.
 *
 *     struct log_line line;
 *     log_begin(&line, log, LOG_LEVEL_INFO, "started");
 *     log_text(&line, "listen", "127.0.0.1:8463");
 *     log_number(&line, "partitions", 4);
 *     log_end(&line);
 *
 * writes  time=2026-11-20T23:59:59.250Z level=info event=started listen=127.0.0.1:8463 partitions=4
 *
 * A value with a space, a quote, an equals sign or a control character is quoted and escaped, so
 * that one event is always one line. Never log a payload, a header or a secret.
 *
 * Errors     None: a line that cannot be written is lost. A line that is too long ends in " cut=1".
 * Threads    Any; a line goes out whole.
 */
#ifndef TICKWHEEL_BASE_LOG_H
#define TICKWHEEL_BASE_LOG_H

#include "base/time.h"

#include <stddef.h>
#include <stdio.h>

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARN,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG,
};

struct log {
    FILE *file_; /* borrowed */
    enum log_level level_max_;
    struct wall (*now_)(void);
};

#define LOG_LINE_SIZE 1024

struct log_line {
    const struct log *log_; /* NULL: below the level, nothing is written */
    size_t size_;
    bool is_cut_;
    char text_[LOG_LINE_SIZE];
};

/* Events above `level_max` are dropped. `now` tells the time, such as wall_now. */
void log_init(struct log *log, FILE *file, enum log_level level_max, struct wall (*now)(void));

/* Begins a line; `event` is one word. */
void log_begin(struct log_line *line, const struct log *log, enum log_level level,
               const char *event);
void log_text(struct log_line *line, const char *key, const char *value);
void log_number(struct log_line *line, const char *key, uint64_t value);

/* Writes it. */
void log_end(struct log_line *line);

#endif
