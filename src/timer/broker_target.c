/*
 * broker_target.c - the syntax of targets at a message broker: redis://CONNECTION/STREAM?key=KEY.
 *
 * CONNECTION is a name of the operator's configuration, which the sender looks up
 * (delivery/brokers.h).
 */
#include "timer/target_parsers.h"

#include "base/percent.h"

static struct bytes broker_target_between(const char *begin, const char *end)
{
    return (struct bytes){begin, (size_t)(end - begin)};
}

/* Returns the position of the first `wanted` between `begin` and `end`; `end` if there is none. */
static const char *broker_target_find(const char *begin, const char *end, char wanted)
{
    const char *at = begin < end ? memchr(begin, wanted, (size_t)(end - begin)) : NULL;

    return at ? at : end;
}

static enum error_code broker_target_check_part(struct bytes part, struct error *ret_error)
{
    size_t size = percent_decoded_size(part);

    if (size == SIZE_MAX)
        return error_set(ret_error, ERROR_INVALID,
                         "blanks, control characters and %% must be written as %% and two "
                         "hexadecimal digits, and none of them is NUL");
    if (size > TARGET_PATH_SIZE_MAX)
        return error_set(ret_error, ERROR_INVALID, "each of its parts may have at most %d bytes",
                         TARGET_PATH_SIZE_MAX);
    return ERROR_NONE;
}

/* Splits the path between `at` and `end` into `count` parts at its first slashes. */
static enum error_code broker_target_parse_path(struct bytes text, const char *at, const char *end,
                                                uint8_t count, struct target *target,
                                                struct error *ret_error)
{
    target->path_count = count;
    for (uint8_t i = 0; i < count; i++) {
        const bool is_last = i + 1 == count;
        const char *part_end = is_last ? end : broker_target_find(at, end, '/');

        if (!is_last && part_end == end)
            return error_set(ret_error, ERROR_INVALID, "a / is missing in its path");
        if (broker_target_check_part(broker_target_between(at, part_end), ret_error))
            return ERROR_INVALID;
        target->paths[i] = target_slice_of(text, at, part_end);
        at = part_end + (is_last ? 0 : 1);
    }
    return ERROR_NONE;
}

/* Parses the query, which begins with the '?'. */
static enum error_code broker_target_parse_query(struct bytes text, const char *query,
                                                 struct target *target, struct error *ret_error)
{
    const char *end = text.data + text.size;

    if (!bytes_has_prefix(broker_target_between(query, end), BYTES("?key=")) ||
        broker_target_find(query, end, '&') < end)
        return error_set(ret_error, ERROR_INVALID, "the only parameter that it may have is key");
    target->has_key = true;
    target->key = target_slice_of(text, query + 5, end);
    return broker_target_check_part(target_slice(text, target->key), ret_error);
}

static enum error_code broker_target_parse(struct bytes text, size_t at, uint8_t path_count,
                                           struct target *target, struct error *ret_error)
{
    const char *begin = text.data + at, *end = text.data + text.size;
    const char *query = broker_target_find(begin, end, '?');
    const char *slash = broker_target_find(begin, query, '/');

    if (broker_target_find(text.data, end, '#') < end)
        return error_set(ret_error, ERROR_INVALID, "a # must be written as %%23");
    if (slash == query)
        return error_set(ret_error, ERROR_INVALID, "it says no place behind the connection's name");
    target->name = target_slice_of(text, begin, slash);
    target->origin_size = (uint16_t)(slash - text.data);
    if (broker_target_parse_path(text, slash + 1, query, path_count, target, ret_error))
        return ERROR_INVALID;
    return query < end ? broker_target_parse_query(text, query, target, ret_error) : ERROR_NONE;
}

enum error_code target_parser_broker(struct bytes text, size_t at, struct target *target,
                                     struct error *ret_error)
{
    return broker_target_parse(text, at, 1, target, ret_error);
}

enum error_code target_parser_broker_pair(struct bytes text, size_t at, struct target *target,
                                          struct error *ret_error)
{
    return broker_target_parse(text, at, 2, target, ret_error);
}

enum error_code target_parser_broker_path(struct bytes text, size_t at, struct target *target,
                                          struct error *ret_error)
{
    const char *end = text.data + text.size;
    const char *query = broker_target_find(text.data + at, end, '?');
    const char *slash = broker_target_find(text.data + at, query, '/');
    const bool is_pair = slash < query && broker_target_find(slash + 1, query, '/') < query;

    return broker_target_parse(text, at, is_pair ? 2 : 1, target, ret_error);
}
