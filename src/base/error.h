/*
 * error.h - what can go wrong, once, for the whole service: name, text and HTTP status.
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

/* X(name, problem slug, title, HTTP status) */
#define ERROR_LIST(X)                                                                            \
    X(NONE, "none", "No error", 200)                                                             \
    X(BAD_REQUEST, "bad-request", "The request cannot be read", 400)                             \
    X(NOT_JSON, "not-json", "The body is not valid JSON", 400)                                   \
    X(UNAUTHENTICATED, "unauthenticated", "A token is needed", 401)                              \
    X(FORBIDDEN, "forbidden", "The token does not allow this", 403)                              \
    X(NOT_FOUND, "not-found", "There is no such thing", 404)                                     \
    X(METHOD, "method-not-allowed", "This method is not allowed here", 405)                      \
    X(ALREADY_FIRING, "already-firing", "The timer is being delivered", 409)                     \
    X(KEY_IN_USE, "key-in-use", "The key belongs to another timer", 409)                         \
    X(BACKUP_OFF, "backup-off", "There is no folder for backups", 409)                           \
    X(BACKUP_RUNS, "backup-runs", "A backup is under way", 409)                                  \
    X(BACKUP_EXISTS, "backup-exists", "There is a backup of that name", 409)                     \
    X(GONE, "gone", "The timer is over", 410)                                                    \
    X(VERSION_MISMATCH, "version-mismatch", "The timer has another version", 412)                \
    X(TOO_LARGE, "too-large", "The request is too large", 413)                                   \
    X(MEDIA_TYPE, "media-type", "The content type is not supported", 415)                        \
    X(INVALID, "invalid", "A field is wrong", 422)                                               \
    X(REQUEST_DIFFERS, "request-differs", "The Idempotency-Key belongs to another request", 422) \
    X(TOO_MANY, "too-many", "A limit is reached", 429)                                           \
    X(HEADERS_TOO_LARGE, "headers-too-large", "The headers are too large", 431)                  \
    X(INTERNAL, "internal", "The server is at fault", 500)                                       \
    X(CORRUPT, "corrupt", "A stored record is damaged", 500)                                     \
    X(NO_MEMORY, "no-memory", "Out of memory", 503)                                              \
    X(OVERLOADED, "overloaded", "The server is overloaded", 503)                                 \
    X(DISK_FULL, "disk-full", "The disk is nearly full", 503)                                    \
    X(IO, "io", "The storage failed", 503)                                                       \
    X(STOPPING, "stopping", "The server is stopping", 503)

enum error_code {
#define X(name, slug, title, status) ERROR_##name,
    ERROR_LIST(X)
#undef X
};

struct error {
    enum error_code code;
    char text[256]; /* the cause in words, never a secret; empty when the code says it all */
};

/* The last part of the problem's `type`, for example "already-firing". */
const char *error_slug(enum error_code code);

/* One sentence without a full stop, for people. */
const char *error_title(enum error_code code);

/* The HTTP status that tells a client of it. */
int error_status(enum error_code code);

/* Fills `ret_error` (may be NULL) and returns `code`. */
enum error_code error_set(struct error *ret_error, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
