/*
 * event_log_queue.h - the lines of the log between the threads that make them and the one that
 * writes them. Only event_log.c uses it.
 *
 * Errors     A line that finds no room is dropped and counted.
 * Threads    add from any thread; it waits for no reader. start and stop from one.
 */
#ifndef TICKWHEEL_OPS_EVENT_LOG_QUEUE_H
#define TICKWHEEL_OPS_EVENT_LOG_QUEUE_H

#include "ops/event_log.h"

struct event_log_queue_options {
    int fd;                  /* borrowed until stop */
    struct metrics *metrics; /* borrowed until stop */
    /* Formats a line about `count` dropped lines, at most EVENT_LOG_LINE_SIZE. Returns its size. */
    size_t (*format_dropped)(void *context, uint64_t count, char ret_text[]);
    void *context;
};

enum error_code event_log_queue_start(const struct event_log_queue_options *options,
                                      struct event_log_queue **ret_queue, struct error *ret_error);

/* Stops the queue as event_log_stop says. NULL has no effect. */
void event_log_queue_stop(struct event_log_queue *queue);

/* Adds a line of at most EVENT_LOG_LINE_SIZE bytes, which ends in a line break. */
void event_log_queue_add(struct event_log_queue *queue, const char *line, size_t size);

#endif
