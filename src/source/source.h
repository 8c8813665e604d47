/*
 * source.h - where timers come from besides HTTP: the sources of the setting `sources`, by name.
 *
 *     sources_start(&options, &sources, &error);    "shop=postgres://timers@db/shop ..."
 *     ... source_get_status(sources, 0, &status); ...
 *     sources_stop(sources);                        before node_stop
 *
 * A kind of source is a file with a struct source_kind. Each source has a thread, which reads rows
 * and hands them to the node (source_rows.h). In a cluster all nodes have the same sources, and
 * each is read by the node that owns the partition of its name. A node that does not know yet that
 * it lost this partition changes nothing: the next reader has a higher epoch. The other nodes look
 * whether somebody reads it: the owner may have other settings.
 *
 * Errors     ERROR_INVALID names the source whose setting is wrong, without its URL.
 * Threads    start and stop from one thread; the rest from any.
 */
#ifndef TICKWHEEL_SOURCE_SOURCE_H
#define TICKWHEEL_SOURCE_SOURCE_H

#include "source/source_rows.h"

#include "ops/metrics.h"

enum {
    SOURCES_MAX = 8,
    SOURCE_NAME_SIZE_MAX = 64,
    SOURCE_HOLDER_SIZE = 64, /* size of the text that tells this daemon from others */
};

struct sources_options {
    const struct config *config; /* borrowed until sources_stop, like all others */
    struct metrics *metrics;
    /* node, config and the callbacks; the tenant is set for each source */
    struct source_rows_options rows;
};

struct source_status {
    char name[SOURCE_NAME_SIZE_MAX + 1];
    bool is_reading;   /* it is connected, and no other daemon or node reads it */
    char cause[256];   /* why it does not read; empty if it does */
    uint64_t reads;    /* number of times that it began to read */
    uint64_t tries;    /* number of times that it could not, or ceased to, since it was to read */
    uint64_t refused;  /* number of rows that were refused for good */
    char problem[256]; /* why the last of them was, cut; empty without one */
};

struct sources;
struct source_thread;

/* Checks the setting without starting anything. */
enum error_code sources_check_settings(const char *setting, struct error *ret_error);

enum error_code sources_start(const struct sources_options *options, struct sources **ret_sources,
                              struct error *ret_error);
void sources_stop(struct sources *sources); /* NULL has no effect */

/* Returns the state of a source by its index. False if there is none. */
bool source_get_status(struct sources *sources, size_t index, struct source_status *ret_status);

/* ---- for the kinds ---- */

struct source_kind {
    const char *scheme; /* with "://" */
    enum error_code (*check)(const char *url, struct error *ret_error);
    /* Reads until source_goes_on is false. */
    void (*run)(struct source_thread *source);
    /* Returns true if nobody reads the source; false also if that cannot be seen. */
    bool (*is_unread)(struct source_thread *source);
};

extern const struct source_kind source_outbox;       /* outbox.c */
extern const struct source_kind source_rabbitmq;     /* rabbitmq_queue.c */
extern const struct source_kind source_rabbitmq_tls; /* with TLS */

const char *source_name(const struct source_thread *source);
const char *source_url(const struct source_thread *source);
/* Writes the text that tells this reader from others (node_name_log). */
void source_name_holder(const struct source_thread *source, char ret_text[SOURCE_HOLDER_SIZE]);
struct source_rows *source_rows_of(const struct source_thread *source);
const struct config *source_config(const struct source_thread *source);

/* True while this node shall read the source: until a stop, and in a cluster while it owns the
 * partition of the source's name. */
bool source_goes_on(const struct source_thread *source);

/* Notes that this node shall not read the source now; so it is not standing still. */
void source_leave(struct source_thread *source);

/* Says that the source reads, with NULL, or why it does not. */
void source_tell(struct source_thread *source, const char *cause);

/* Calls `read` again and again, while source_goes_on, with growing pauses. It reads until
 * something fails, and returns what. */
void source_repeat(struct source_thread *source, const char *(*read)(void *reader), void *reader);

/* Waits until `fd` is readable, for a stop, or for some time. -1 is no descriptor. */
void source_wait(struct source_thread *source, uint64_t ms, int fd);

/* Counts the rows of a batch that are done or refused. */
void source_count(struct source_thread *source, const struct source_row *batch, size_t count);

/* Sets the age of the oldest row that was not taken, in milliseconds. */
void source_set_age(struct source_thread *source, uint64_t age_ms);

/* Counts the time from the write of a row to its effect. */
void source_observe(struct source_thread *source, uint64_t us);

#endif
