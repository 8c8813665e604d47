/* founding_log.c - the founding of a cluster in its control log; see founding_log.h. */
#include "cluster/founding_log.h"

#include "cluster/frame.h"
#include "sys/clock.h"
#include "sys/entropy.h"

enum { FOUNDING_LOG_POLL_MS = 100 };

static enum error_code founding_log_append(const struct founding_log *founding, uint64_t cluster,
                                           struct error *ret_error)
{
    struct founding made = {.partition_count = founding->partition_count};
    char body[FOUNDING_SIZE_LARGEST];
    struct frame frame = {.kind = FRAME_NOTE, .sent = wall_now()};
    struct buffer buffer;

    if (!founding_set_secret(&made, founding->secret))
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    frame.body = (struct bytes){body, founding_encode(&made, body)};
    buffer_init(&buffer);
    frame_encode(&frame, cluster, &buffer);
    const enum error_code code =
        buffer_failed(&buffer) ? error_set(ret_error, ERROR_NO_MEMORY, "out of memory")
                               : log_append(founding->log, 1, buffer_bytes(&buffer), ret_error);
    buffer_deinit(&buffer);
    return code;
}

enum error_code founding_log_judge(const struct founding_log *founding, struct bytes bytes,
                                   uint64_t *ret_cluster, struct founding *ret_founding,
                                   struct error *ret_error)
{
    struct frame frame;
    const uint64_t cluster = frame_cluster(bytes);
    const enum error_code code = frame_decode(bytes, cluster, &frame, ret_error);

    if (code)
        return code;
    if (frame.kind != FRAME_NOTE || frame.node != 0 || !founding_decode(frame.body, ret_founding))
        return error_set(ret_error, ERROR_INVALID,
                         "%.80s does not begin with the founding of a cluster", founding->name);
    const unsigned count = ret_founding->partition_count;
    if (count != founding->partition_count)
        return error_set(ret_error, ERROR_INVALID,
                         "the cluster was founded with %u partitions, not %u", count,
                         founding->partition_count);
    *ret_cluster = cluster;
    return ERROR_NONE;
}

static bool founding_log_stops(const struct founding_log *founding)
{
    return founding->stops && atomic_load(founding->stops);
}

/* Founds the cluster if `is_founded` is not NULL and the log is empty. */
static enum error_code founding_log_walk(const struct founding_log *founding, bool *is_founded,
                                         uint64_t *ret_cluster, struct founding *ret_founding,
                                         struct error *ret_error)
{
    const struct instant until = instant_add_ms(instant_now(), founding->wait_ms);
    enum error_code code = log_follow_begin(founding->log, ret_error);

    while (!code && instant_now().ns < until.ns && !founding_log_stops(founding)) {
        struct log_event event;
        uint64_t cluster;

        switch (log_wait(founding->log, FOUNDING_LOG_POLL_MS, &event)) {
        case LOG_RECORD:
            return founding_log_judge(founding, event.bytes, ret_cluster, ret_founding, ret_error);
        case LOG_END:
            if (!is_founded)
                return error_set(ret_error, ERROR_NOT_FOUND,
                                 "the cluster is not founded: tickwheeld --cluster-create does it");
            if (!*is_founded)
                code = entropy_u64(&cluster);
            if (!*is_founded && !code)
                code = founding_log_append(founding, cluster, ret_error);
            *is_founded = true;
            break;
        case LOG_LOST:
            return error_set(ret_error, ERROR_INVALID, "%.80s cannot be read: %.100s",
                             founding->name, event.reason);
        case LOG_FAILED:
            return error_set(ret_error, ERROR_IO, "%.80s: %.150s", founding->name, event.reason);
        default:
            break;
        }
    }
    return code ? code : error_set(ret_error, ERROR_IO, "%.80s cannot be read", founding->name);
}

enum error_code founding_log_read(const struct founding_log *founding, uint64_t *ret_cluster,
                                  struct founding *ret_founding, struct error *ret_error)
{
    return founding_log_walk(founding, NULL, ret_cluster, ret_founding, ret_error);
}

enum error_code founding_log_make(const struct founding_log *founding, uint64_t *ret_cluster,
                                  bool *ret_is_founded, struct error *ret_error)
{
    struct founding made;

    *ret_is_founded = false;
    return founding_log_walk(founding, ret_is_founded, ret_cluster, &made, ret_error);
}

enum error_code founding_log_change(const struct founding_log *founding, uint64_t cluster,
                                    struct error *ret_error)
{
    const struct instant until = instant_add_ms(instant_now(), founding->wait_ms);
    struct log_event event = {.kind = LOG_NOTHING};
    enum error_code code = founding_log_append(founding, cluster, ret_error);

    while (!code && event.kind != LOG_LANDED && event.kind != LOG_FAILED &&
           event.kind != LOG_REFUSED && instant_now().ns < until.ns)
        log_wait(founding->log, FOUNDING_LOG_POLL_MS, &event);
    return code || event.kind == LOG_LANDED
               ? code
               : error_set(ret_error, ERROR_IO, "%.80s took no record", founding->name);
}
