/*
 * target.h - where a due timer goes: a client's text, parsed once into its kind and its parts.
 *
 *     struct target target;
 *     if (target_parse(text, &target, &error))
 *         refuse(&error);
 *     ... target.kind == TARGET_QUEUE, target_slice(text, target.name) ...
 *
 * A timer carries its parsed target (timer.h), so nothing behind the creation or the load of a
 * timer reads the text again. TARGET_KIND_LIST is the one table of kinds: a new kind is a row in it
 * and a file in delivery/ that defines its sender.
 *
 * Errors     ERROR_INVALID with the reason as a sentence about "it".
 * Ownership  A target holds positions in its text and no pointer, so it may be copied with the
 *            text.
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_TIMER_TARGET_H
#define TICKWHEEL_TIMER_TARGET_H

#include "base/bytes.h"
#include "base/error.h"

/*
 * X(NAME, scheme, parser, sharing, sender)
 *
 * scheme   What the text begins with. Letters of any case for http and https, exact for the others.
 * parser   Checks what follows the scheme, target_parser_...: declared in target_parsers.h.
 * sharing  Which timers share a dispatch queue and its limits, TARGET_SHARES_...
 * sender   Delivers it, sender_...: delivery/sender.h. `none` for a kind that workers pull.
 */
#define TARGET_KIND_LIST(X)                                      \
    X(HTTP, "http://", url, ORIGIN, webhook)                     \
    X(HTTPS, "https://", url, ORIGIN, webhook)                   \
    X(QUEUE, "queue:", queue, WORKERS, none)                     \
    X(LOG, "log:", name, ORIGIN, log)                            \
    X(KAFKA, "kafka://", broker, CONNECTION, brokers)            \
    X(REDIS, "redis://", broker, CONNECTION, brokers)            \
    X(NATS, "nats://", broker, CONNECTION, brokers)              \
    X(AMQP, "amqp://", broker_pair, CONNECTION, brokers)         \
    X(POSTGRES, "postgres://", broker_path, CONNECTION, brokers) \
    X(NAMED, "", named, ORIGIN, webhook) /* NAME:/path; last, because every text begins so */

enum target_kind {
    TARGET_UNKNOWN, /* no text or an invalid one, so its delivery fails for good */
#define X(NAME, scheme, parser, sharing, sender) TARGET_##NAME,
    TARGET_KIND_LIST(X)
#undef X
        TARGET_KIND_COUNT
};

enum target_sharing {
    TARGET_SHARES_ORIGIN,     /* timers of one origin: `target_inflight_max` and `target_rate` */
    TARGET_SHARES_CONNECTION, /* timers of one broker connection: `broker_inflight_max` */
    TARGET_SHARES_WORKERS,    /* timers of one queue and priority: leased when workers ask */
};

#define TARGET_SIZE_MAX  65535
#define TARGET_PATHS_MAX 2
/* maximum size of each decoded path and key of a broker's target */
#define TARGET_PATH_SIZE_MAX 255

/* A part of the text. */
struct target_slice {
    uint16_t at, size;
};

struct target {
    uint8_t kind;       /* enum target_kind */
    uint8_t priority;   /* QUEUE */
    uint8_t path_count; /* broker targets: number of `paths` */
    bool has_key;       /* broker targets: true if there is a key */
    uint16_t port;      /* HTTP, HTTPS: port in the text, or that of the scheme */
    /* size of the origin, which begins the text and ends before a path or query */
    uint16_t origin_size;
    /* named target, host (an IPv6 address with its brackets), broker connection, or queue */
    struct target_slice name;
    /* broker targets: stream, subject, topic, or exchange and routing key; percent-encoded */
    struct target_slice paths[TARGET_PATHS_MAX];
    struct target_slice key; /* broker targets: value of "?key="; percent-encoded */
};

/* Parses a target. On ERROR_INVALID `ret_target` is unchanged. */
enum error_code target_parse(struct bytes text, struct target *ret_target, struct error *ret_error);

/* Returns the target of a text that target_parse refuses: TARGET_UNKNOWN, with the whole text as
 * origin. */
struct target target_unknown(struct bytes text);

/* Returns the scheme, such as "http://" or "queue:"; empty for TARGET_UNKNOWN. */
struct bytes target_scheme(enum target_kind kind);

enum target_sharing target_sharing(const struct target *target);

/* True if a named target may have the name: a letter, then up to 63 of A-Z a-z 0-9 . _ -, and not
 * that of a scheme. */
bool target_name_is_valid(struct bytes name);

static inline bool target_is_webhook(const struct target *target)
{
    return target->kind == TARGET_HTTP || target->kind == TARGET_HTTPS;
}

static inline struct bytes target_slice(struct bytes text, struct target_slice slice)
{
    return (struct bytes){text.data + slice.at, slice.size};
}

/* Returns the origin: "http://host:port", "redis://CONNECTION", or the whole text of a target
 * without a path. Timers of one origin share a connection. */
static inline struct bytes target_origin(struct bytes text, const struct target *target)
{
    return (struct bytes){text.data, target->origin_size};
}

#endif
