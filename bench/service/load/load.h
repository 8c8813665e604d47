/*
 * load.h - what the parts of load_client share: connections, the operations on them, texts with
 * numbers to fill in.
 *
 * An operation is a request and its answer, or several in turn, over a connection that does not
 * block. Being a benchmark's tool, the client ends with an error when an answer is not as expected.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIELDS_MAX   3
#define QUANTILES    17
#define SLOTS_OCTAVE 32 /* of a histogram: a value is known to 3 percent */
#define SLOTS_MAX    (SLOTS_OCTAVE * 40)

struct load_bytes {
    char *data;
    size_t start, size, capacity; /* `start`: of what is to come out */
};

/* Lines of equal length in one block. In each, some digits change with every use: the due time and
 * the number, each at its places. */
struct load_lines {
    char *text;
    size_t line_size, count;
    size_t due_at[FIELDS_MAX], number_at[FIELDS_MAX];
    size_t due_fields, number_fields;
};

struct load_histogram {
    uint64_t slots[SLOTS_MAX];
    uint64_t count, max_us;
};

struct load_options {
    int port;
    const char *target;          /* of timers */
    unsigned bytes;              /* of a timer as it is sent, its payload with it */
    double due_from_s, due_to_s; /* from now */
    char **ids;                  /* of timers that exist */
    size_t id_count;
};

/* Connections with the same operation. */
struct load_group {
    const struct load_operation *operation;
    struct load_run *load;
    const struct load_options *options;
    size_t connections, batch;
    uint64_t requests, units; /* since the measurement began */
    uint64_t next_number, next_id, chance;
    struct load_histogram latency, lateness;
};

struct load_connection {
    struct load_group *group;
    int fd;
    bool waits_to_send;
    struct load_bytes in, out;
    uint64_t asked_at_us;
    unsigned step;           /* of the operation; 0 when it begins */
    size_t units;            /* that the operation in flight is worth */
    struct load_lines lines; /* made at the first request */
};

enum load_verdict {
    LOAD_MORE, /* the answer is not complete */
    LOAD_STEP, /* go on: the next step is in `out` */
    LOAD_DONE,
};

struct load_operation {
    const char *name;

    /* Puts the system's greeting into `out`; answer() takes the replies, until it says DONE. NULL:
     * there is none. */
    void (*greet)(struct load_connection *connection);

    /* Takes replies to the greeting. */
    enum load_verdict (*greeted)(struct load_connection *connection);

    /* Puts a request into `out`. */
    void (*ask)(struct load_connection *connection);

    enum load_verdict (*answer)(struct load_connection *connection);
};

/* The operations by name; NULL for a name that is none. */
const struct load_operation *load_http_find(const char *name);
const struct load_operation *load_peer_find(const char *name);

void load_append(struct load_bytes *bytes, const void *data, size_t size);
void load_printf(struct load_bytes *bytes, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What came in: the next line without its CR LF, or `size` bytes; NULL while it is incomplete.
 * Valid until the next call to receive. */
char *load_line(struct load_connection *connection);
char *load_take(struct load_connection *connection, size_t size);

/* Makes `count` lines after `format`, in which "@@@@@@@@@@@@@" (13) stands for a due time in
 * milliseconds and "############" (12) for a number; '~' is filled up until a line has `size`
 * bytes. */
void load_lines_make(struct load_lines *lines, const char *format, size_t size, size_t count);

/* Gives each line a number of its own and a due time by chance. */
void load_lines_fill(struct load_lines *lines, struct load_group *group);

uint64_t load_now_us(void); /* since 1970 */

void load_note_late(struct load_group *group, uint64_t due_ms);

/* Ends the program. */
void load_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
