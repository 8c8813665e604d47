/*
 * named_url.c - the syntax of timers' targets that name a definition: "billing:" or
 * "billing:/recheck?x=1".
 *
 * The path is appended to the URL of the definition and must not change what that says. So it
 * begins with a slash, and has no segments . and .., in any spelling, which libcurl would resolve.
 * No name is the scheme of another kind, now or likely later. A mistyped scheme is reported as
 * such, because "//" does not follow a name.
 */
#include "timer/target_parsers.h"
#include "timer/tenant.h"

#include <strings.h>

/* True for the name of a scheme, of which a target may be written without its slashes. */
static bool named_url_is_reserved(struct bytes name)
{
    static const char *const names[] = {
        "http", "https",    "queue",      "log",        "kafka",    "redis",  "nats", "amqp",
        "ws",   "postgres", "postgresql", "wss",        "mqtt",     "grpc",   "ftp",  "file",
        "data", "mailto",   "urn",        "javascript", "sqs",      "pubsub", "smtp", "tcp",
        "udp",  "unix",     "target",     "flow",       "calendar",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (name.size == strlen(names[i]) && strncasecmp(name.data, names[i], name.size) == 0)
            return true;
    return false;
}

bool target_name_is_valid(struct bytes name)
{
    const char first = name.size ? (char)(name.data[0] | 0x20) : 0;

    return tenant_is_valid(name) && first >= 'a' && first <= 'z' && !named_url_is_reserved(name);
}

/* Removes the first character of the path, decoded, and returns it. */
static char named_url_next(struct bytes *path)
{
    static const struct {
        const char *escaped;
        char plain;
    } rows[] = {{"%2e", '.'}, {"%2f", '/'}, {"%5c", '/'}, {"%3b", ';'}};
    size_t size = 1;
    char c = path->data[0];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (path->size >= 3 && strncasecmp(path->data, rows[i].escaped, 3) == 0) {
            c = rows[i].plain;
            size = 3;
        }
    *path = (struct bytes){path->data + size, path->size - size};
    return c;
}

/* True if a segment is "." or "..", as servers may read it: they may decode "%2F" and a backslash
 * to the end of a segment, and take what follows a semicolon for its parameters. */
static bool named_url_has_dots(struct bytes path)
{
    enum { DOTS, PARAMETERS, OTHER } part = DOTS;
    size_t dots = 0;

    path = bytes_cut(&path, '?');
    while (path.size > 0) {
        const char c = named_url_next(&path);

        if (c == '/') {
            if (part != OTHER && (dots == 1 || dots == 2))
                return true;
            part = DOTS;
            dots = 0;
        } else if (part == DOTS && c == '.') {
            dots++;
        } else if (part == DOTS) {
            part = c == ';' ? PARAMETERS : OTHER;
        }
    }
    return part != OTHER && (dots == 1 || dots == 2);
}

enum error_code target_parser_named(struct bytes text, size_t at, struct target *target,
                                    struct error *ret_error)
{
    struct bytes path = text;
    const struct bytes name = bytes_cut(&path, ':');
    const size_t origin = name.size + 1;

    (void)at;
    if (name.size == text.size || !target_name_is_valid(name) ||
        bytes_has_prefix(path, BYTES("//")))
        return error_set(ret_error, ERROR_INVALID,
                         "it must begin with one of%sor the NAME: of a named target",
                         target_schemes);
    if (path.size && path.data[0] != '/')
        return error_set(ret_error, ERROR_INVALID,
                         "the path after the name of a named target begins with /");
    if (target_url_check_path(text, text.data + origin, ret_error))
        return ERROR_INVALID;
    if (named_url_has_dots(path))
        return error_set(ret_error, ERROR_INVALID,
                         "the path of a named target has no segments . and ..");
    target->name = target_slice_of(text, name.data, name.data + name.size);
    target->origin_size = (uint16_t)origin;
    return ERROR_NONE;
}
