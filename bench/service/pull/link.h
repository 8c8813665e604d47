/*
 * link.h - one blocking connection to a server on loopback, buffered both ways.
 *
 * Being a benchmark's tool, it ends the program when the connection breaks or an answer is not what
 * was to come.
 */
#ifndef BENCH_PULL_LINK_H
#define BENCH_PULL_LINK_H

#include <stddef.h>
#include <stdint.h>

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

#endif
