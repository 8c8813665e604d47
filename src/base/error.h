/*
 * error.h - every error of the service: its code, its name in texts and its title.
 *
 * Everything that can fail returns an `enum error_code`; 0 is success. The cause travels as text in
 * a `struct error` where a person must see it:
 *
 *     struct error error;
 *     if (storage_open(&options, &storage, &error))
 *         log_event("storage_failed", "cause", error.text);
 */
#ifndef TICKWHEEL_BASE_ERROR_H
#define TICKWHEEL_BASE_ERROR_H

/* X(name, slug, title). The HTTP status of an error is the API's (api/json/problem.c). */
#define ERROR_LIST(X)                                                                       \
    X(NONE, "none", "No error")                                                             \
    X(BAD_REQUEST, "bad-request", "The request cannot be read")                             \
    X(NOT_JSON, "not-json", "The body is not valid JSON")                                   \
    X(UNAUTHENTICATED, "unauthenticated", "A token is needed")                              \
    X(FORBIDDEN, "forbidden", "The token does not allow this")                              \
    X(FOREIGN_SITE, "foreign-site", "Web pages of other sites may not do this")             \
    X(NOT_FOUND, "not-found", "There is no such thing")                                     \
    X(METHOD, "method-not-allowed", "This method is not allowed here")                      \
    X(ALREADY_FIRING, "already-firing", "The timer is being delivered")                     \
    X(PAUSED, "paused", "The timer is paused")                                              \
    X(NOT_LEASED, "not-leased", "No worker has the item")                                   \
    X(KEY_IN_USE, "key-in-use", "The key belongs to another timer")                         \
    X(BACKUP_OFF, "backup-off", "There is no folder for backups")                           \
    X(BACKUP_RUNS, "backup-runs", "A backup is under way")                                  \
    X(BACKUP_EXISTS, "backup-exists", "There is a backup of that name")                     \
    X(CLOCK_RUNS, "clock-runs", "The virtual clock is moving")                              \
    X(GONE, "gone", "The timer is over")                                                    \
    X(NOT_AWAITED, "not-awaited", "No attempt waits for this answer")                       \
    X(VERSION_MISMATCH, "version-mismatch", "The timer has another version")                \
    X(TOO_LARGE, "too-large", "The request is too large")                                   \
    X(MEDIA_TYPE, "media-type", "The content type is not supported")                        \
    X(INVALID, "invalid", "A field is wrong")                                               \
    X(REQUEST_DIFFERS, "request-differs", "The Idempotency-Key belongs to another request") \
    X(TOO_MANY, "too-many", "A limit is reached")                                           \
    X(RATE_EXCEEDED, "rate-exceeded", "The rate of the tenant is used up")                  \
    X(HEADERS_TOO_LARGE, "headers-too-large", "The headers are too large")                  \
    X(INTERNAL, "internal", "The server is at fault")                                       \
    X(CORRUPT, "corrupt", "A stored record is damaged")                                     \
    X(NO_MEMORY, "no-memory", "Out of memory")                                              \
    X(OVERLOADED, "overloaded", "The server is overloaded")                                 \
    X(DISK_FULL, "disk-full", "The disk is nearly full")                                    \
    X(IO, "io", "The storage failed")                                                       \
    X(UNREADABLE, "unreadable", "A part of the storage cannot be read")                     \
    X(NO_BROKERS, "no-brokers", "The servers of the cluster's log do not answer")           \
    X(IN_DOUBT, "in-doubt", "It is not known whether the change was made")                  \
    X(STOPPING, "stopping", "The server is stopping")                                       \
    X(CONFIGURED, "configured", "The configuration of the daemon defines it")

enum error_code {
#define X(name, slug, title) ERROR_##name,
    ERROR_LIST(X)
#undef X
        ERROR_COUNT
};

struct error {
    enum error_code code;
    char text[256]; /* cause in words, without secrets; empty if the code says enough */
};

/* Returns the error's name in texts, for example "already-firing"; the API ends a problem's
 * `type` with it. */
const char *error_slug(enum error_code code);

/* Returns one sentence for people, without a full stop. */
const char *error_title(enum error_code code);

/* Sets the text of `ret_error`, which may be NULL, and returns `code`. */
enum error_code error_set(struct error *ret_error, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
