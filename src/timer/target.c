/* target.c - the table of the kinds of target. */
#include "timer/target.h"

#include "timer/target_parsers.h"

#include <assert.h>
#include <strings.h>

static const struct target_row {
    struct bytes scheme;
    target_parser *parse;
    enum target_sharing sharing;
} target_rows[TARGET_KIND_COUNT] = {[TARGET_UNKNOWN] = {{"", 0}, NULL, TARGET_SHARES_ORIGIN},
#define X(NAME, scheme, parser, sharing, sender) \
    [TARGET_##                                   \
        NAME] = {{scheme, sizeof(scheme) - 1}, target_parser_##parser, TARGET_SHARES_##sharing},
                                    TARGET_KIND_LIST(X)
#undef X
};

/* Names of all schemes, for the message about an invalid target. */
const char target_schemes[] =
#define X(NAME, scheme, parser, sharing, sender) " " scheme
    TARGET_KIND_LIST(X)
#undef X
    ;

static bool target_has_scheme(struct bytes text, enum target_kind kind)
{
    const struct bytes scheme = target_rows[kind].scheme;

    return scheme.size == 0 ||
           (text.size >= scheme.size && strncasecmp(text.data, scheme.data, scheme.size) == 0);
}

/* Returns an error if the scheme has capitals, except for http and https (RFC 3986, 3.1). */
static enum error_code target_check_case(struct bytes text, enum target_kind kind,
                                         struct error *ret_error)
{
    const struct bytes scheme = target_rows[kind].scheme;

    if (kind == TARGET_HTTP || kind == TARGET_HTTPS || bytes_has_prefix(text, scheme))
        return ERROR_NONE;
    return error_set(ret_error, ERROR_INVALID, "its scheme must be written in small letters: %s",
                     scheme.data);
}

enum error_code target_parse(struct bytes text, struct target *ret_target, struct error *ret_error)
{
    if (text.size > TARGET_SIZE_MAX)
        return error_set(ret_error, ERROR_INVALID, "it may have at most %d bytes", TARGET_SIZE_MAX);
    for (unsigned kind = TARGET_UNKNOWN + 1; kind < TARGET_KIND_COUNT; kind++) {
        if (!target_has_scheme(text, kind))
            continue;
        struct target target = {.kind = (uint8_t)kind, .origin_size = (uint16_t)text.size};
        enum error_code code = target_check_case(text, kind, ret_error);
        if (!code)
            code = target_rows[kind].parse(text, target_rows[kind].scheme.size, &target, ret_error);
        if (!code)
            *ret_target = target;
        return code;
    }
    return error_set(ret_error, ERROR_INVALID, "it is empty");
}

struct target target_unknown(struct bytes text)
{
    size_t size = text.size < TARGET_SIZE_MAX ? text.size : TARGET_SIZE_MAX;

    return (struct target){.kind = TARGET_UNKNOWN, .origin_size = (uint16_t)size};
}

struct bytes target_scheme(enum target_kind kind)
{
    assert(kind < TARGET_KIND_COUNT);
    return target_rows[kind].scheme;
}

enum target_sharing target_sharing(const struct target *target)
{
    assert(target->kind < TARGET_KIND_COUNT);
    return target_rows[target->kind].sharing;
}
