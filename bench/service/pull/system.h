/*
 * system.h - what pull_client asks of a job queue: create delayed jobs, take those that are due,
 * finish them. A file for each system speaks its own protocol over a link.
 */
#ifndef BENCH_PULL_SYSTEM_H
#define BENCH_PULL_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- link.c: one blocking connection to a server on loopback, buffered both ways
 *
 * Being a benchmark's tool, it ends the program when the connection breaks or an answer is not what
 * was to come. ---- */

struct link {
    int fd;
    char *in, *out;
    size_t in_start, in_size, in_capacity;
    size_t out_size, out_capacity;
    size_t window; /* these two are for the system that speaks over it; 0 at first */
    char text[48];
    uint64_t refused; /* jobs that the server had no room for at first */
};

void link_open(struct link *link, int port);
void link_close(struct link *link);

/* Adds to what link_flush() sends. */
void link_printf(struct link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));
void link_append(struct link *link, const char *data, size_t size);
void link_flush(struct link *link);

/* The next line, with a NUL instead of its CR LF. Valid until the next call. */
char *link_read_line(struct link *link);

/* The next `size` bytes; no NUL ends them. Valid until the next call. */
char *link_read(struct link *link, size_t size);

/* Ends the program. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* ---- jobs ---- */

#define JOB_TEXT_SIZE    98 /* what a job carries: its number, when it is due, and filling */
#define JOB_HANDLE_SIZE  40
#define BATCH_MAX        1000
#define JOB_PRIORITY_ANY (-1)

struct pull_job {
    uint64_t number;
    uint64_t due_us; /* since 1970 */
    unsigned delay_s;
    int priority;
};

/* A job in a worker's hands. */
struct taken {
    struct pull_job job; /* number and due_us only */
    char handle[JOB_HANDLE_SIZE];
};

struct options {
    const char *queue;
    unsigned poll_ms; /* of those that poll */
};

struct system {
    const char *name;
    unsigned due_step_us; /* how finely it takes a due time */

    /* Once for each connection, before anything else. NULL: nothing to do. */
    void (*open)(struct link *link, const struct options *options);

    /* All are acknowledged when it returns. */
    void (*create)(struct link *link, const struct options *options, const struct pull_job *jobs,
                   size_t count);

    /* Up to `max` jobs that are due; waits up to about a second for the first, or for one interval
     * of polling. */
    size_t (*take)(struct link *link, const struct options *options, struct taken *ret_taken,
                   size_t max);

    /* All are acknowledged when it returns. */
    void (*finish)(struct link *link, const struct options *options, const struct taken *taken,
                   size_t count);
};

extern const struct system system_tickwheel, system_beanstalkd, system_redis;

void job_format(const struct pull_job *job, char ret_text[JOB_TEXT_SIZE + 1]);

/* False: it is no job of ours. */
bool job_parse(const char *text, struct pull_job *ret_job);

uint64_t now_us(void);

/* A pause of a poller. */
void pause_us(uint64_t us);

#endif
