#include "timer/target_url.h"

#include "timer/queue_target.h"

#include <strings.h>

#define HOST_SIZE_MAX  253 /* of a name in DNS, without the point that may end it */
#define LABEL_SIZE_MAX 63  /* of each of its parts */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static bool is_alphanumeric(char c)
{
    return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static struct bytes between(const char *begin, const char *end)
{
    return (struct bytes){begin, (size_t)(end - begin)};
}

static bool has_any(struct bytes text, char c)
{
    return text.size && memchr(text.data, c, text.size);
}

static bool has_scheme(struct bytes url, struct bytes scheme)
{
    return url.size >= scheme.size && strncasecmp(url.data, scheme.data, scheme.size) == 0;
}

/* What follows "http://"; NULL with the reason when it is another scheme. */
static const char *check_scheme(struct bytes url, struct error *ret_error)
{
    static const char *const later[] = {"kafka:", "redis:", "nats:", "amqp:"};

    if (has_scheme(url, BYTES("http://")))
        return url.data + 7;
    if (has_scheme(url, BYTES("https://")))
        return url.data + 8;
    error_set(ret_error, ERROR_INVALID,
              "it must be a URL that begins with http:// or https://, or queue: and a name");
    for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++)
        if (has_scheme(url, bytes_of(later[i])))
            error_set(ret_error, ERROR_INVALID, "%s targets are not supported by this version",
                      later[i]);
    return NULL;
}

/* Path and query: unreserved, sub-delims, ':' '@' '/' '?', and % with two digits. */
static enum error_code check_path(struct bytes url, const char *at, struct error *ret_error)
{
    const char *end = url.data + url.size;

    for (; at < end; at++) {
        if (is_alphanumeric(*at) || (*at && strchr("-._~!$&'()*+,;=:@/?", *at)))
            continue;
        if (*at == '#') {
            return error_set(ret_error, ERROR_INVALID,
                             "a fragment (#) is never sent: leave it out");
        }
        if (*at == '%' && end - at > 2 && is_hex(at[1]) && is_hex(at[2])) {
            at += 2;
            continue;
        }
        return error_set(
            ret_error, ERROR_INVALID,
            "the character at byte %zu must be written as %% and two hexadecimal digits",
            (size_t)(at - url.data));
    }
    return ERROR_NONE;
}

static bool is_port(struct bytes port)
{
    unsigned value = 0;

    if (port.size < 1 || port.size > 5)
        return false;
    for (size_t i = 0; i < port.size; i++) {
        if (!is_digit(port.data[i]))
            return false;
        value = value * 10 + (unsigned)(port.data[i] - '0');
    }
    return value >= 1 && value <= 65535;
}

/* Parts of letters, digits, - and _ with single points between them; one may stand at the end. An
 * IPv4 address is one of these. */
static bool is_name(struct bytes host)
{
    size_t label = 0; /* its size so far */

    if (host.size == 0 || host.size - (host.data[host.size - 1] == '.') > HOST_SIZE_MAX)
        return false;
    for (size_t i = 0; i < host.size; i++) {
        char c = host.data[i];

        if (c == '.') {
            if (label == 0)
                return false;
            label = 0;
        } else {
            if (!is_alphanumeric(c) && c != '-' && c != '_')
                return false;
            if (++label > LABEL_SIZE_MAX)
                return false;
        }
    }
    return true;
}

/* Four numbers of 0 to 255, as the end of an IPv6 address. */
static bool is_ipv4(const char *at, const char *end)
{
    for (int part = 0; part < 4; part++) {
        unsigned value = 0, digits = 0;

        if (part > 0 && (at == end || *at++ != '.'))
            return false;
        for (; at < end && is_digit(*at); at++) {
            if (++digits > 3 || (digits == 2 && value == 0))
                return false;
            value = value * 10 + (unsigned)(*at - '0');
        }
        if (digits == 0 || value > 255)
            return false;
    }
    return at == end;
}

/* Eight groups of up to four digits, or fewer around one "::"; the last two may be an IPv4 address.
 */
static bool is_ipv6(struct bytes text)
{
    const char *at = text.data, *end = at + text.size;
    unsigned groups = 0;
    bool gap = false;

    if (text.size >= 2 && at[0] == ':' && at[1] == ':') {
        gap = true;
        at += 2;
    }
    while (at < end) {
        const char *group = at;

        while (at < end && is_hex(*at))
            at++;
        if (at < end && *at == '.') {
            groups += 2;
            if (!is_ipv4(group, end))
                return false;
            break;
        }
        if (at == group || at - group > 4)
            return false;
        groups++;
        if (at == end)
            break;
        if (*at++ != ':' || at == end)
            return false;
        if (*at == ':') {
            if (gap)
                return false;
            gap = true;
            at++;
        }
    }
    return gap ? groups <= 7 : groups == 8;
}

/* "host" or "host:port"; sets `ret_host`. */
static enum error_code check_authority(struct bytes authority, struct bytes *ret_host,
                                       struct error *ret_error)
{
    const char *end = authority.data + authority.size, *at;

    if (has_any(authority, '@'))
        return error_set(ret_error, ERROR_INVALID, "it must not name a user or password");
    if (has_any(authority, '[')) {
        at = memchr(authority.data, ']', authority.size);
        if (*authority.data != '[' || !at || !is_ipv6(between(authority.data + 1, at)))
            return error_set(ret_error, ERROR_INVALID, "there is no IPv6 address in its brackets");
        at++;
    } else {
        at = memchr(authority.data, ':', authority.size);
        if (!at)
            at = end;
        if (at == authority.data)
            return error_set(ret_error, ERROR_INVALID, "it names no host");
        if (!is_name(between(authority.data, at)))
            return error_set(ret_error, ERROR_INVALID, "its host is neither a name nor an address");
    }
    *ret_host = between(authority.data, at);
    if (at < end && (*at != ':' || !is_port(between(at + 1, end))))
        return error_set(ret_error, ERROR_INVALID, "its port is not a number of 1 to 65535");
    return ERROR_NONE;
}

static enum error_code check_queue(struct bytes url, struct error *ret_error)
{
    struct queue_target target;

    if (queue_target_parse(url, &target))
        return ERROR_NONE;
    return error_set(ret_error, ERROR_INVALID,
                     "a queue is queue:NAME or queue:NAME?priority=N: a name of 1 to %d letters, "
                     "digits and . _ -, and a priority of 0 to %d",
                     QUEUE_NAME_SIZE_MAX, QUEUE_PRIORITY_COUNT - 1);
}

enum error_code target_url_check(struct bytes url, struct bytes *ret_host, struct error *ret_error)
{
    const char *begin, *end = url.data + url.size, *path;
    struct bytes host = {0};

    if (has_scheme(url, BYTES("queue:"))) {
        *ret_host = host;
        return check_queue(url, ret_error);
    }
    begin = check_scheme(url, ret_error);
    if (!begin)
        return ERROR_INVALID;
    for (path = begin; path < end && *path != '/' && *path != '?' && *path != '#'; path++)
        ;
    if (check_authority(between(begin, path), &host, ret_error) || check_path(url, path, ret_error))
        return ERROR_INVALID;
    *ret_host = host;
    return ERROR_NONE;
}
