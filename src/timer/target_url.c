/*
 * target_url.c - the syntax of http and https targets: RFC 3986, narrowed to what no two parsers
 * read differently.
 *
 * A host that is a name, an IPv4 address or an IPv6 address in brackets, a port of 1 to 65535, no
 * user, no fragment, and only characters that a URL may hold. libcurl, which connects in the end,
 * reads equal hosts, ports and paths out of such texts (target_url_fuzz compares them); it is not
 * used here because it takes several allocations for each URL, and every timer that is created or
 * loaded comes through here.
 */
#include "timer/target_parsers.h"

#define TARGET_HOST_SIZE_MAX       253 /* maximum size of a DNS name, without a final dot */
#define TARGET_HOST_LABEL_SIZE_MAX 63  /* maximum size of a part between dots */

static bool target_url_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool target_url_is_hex(char c)
{
    return target_url_is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static bool target_url_is_alphanumeric(char c)
{
    return target_url_is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static struct bytes target_url_between(const char *begin, const char *end)
{
    return (struct bytes){begin, (size_t)(end - begin)};
}

static bool target_url_has_any(struct bytes text, char c)
{
    return text.size && memchr(text.data, c, text.size);
}

/* Characters allowed in path and query: unreserved, sub-delims, ':' '@' '/' '?'. A table is quick,
 * and most characters of a target are in its path. */
static const bool target_url_path_characters[256] = {
    ['0' ... '9'] = true, ['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['-'] = true, ['.'] = true,
    ['_'] = true,         ['~'] = true,         ['!'] = true,         ['$'] = true, ['&'] = true,
    ['\''] = true,        ['('] = true,         [')'] = true,         ['*'] = true, ['+'] = true,
    [','] = true,         [';'] = true,         ['='] = true,         [':'] = true, ['@'] = true,
    ['/'] = true,         ['?'] = true,
};

enum error_code target_url_check_path(struct bytes url, const char *at, struct error *ret_error)
{
    const char *end = url.data + url.size;

    for (; at < end; at++) {
        if (target_url_path_characters[(unsigned char)*at])
            continue;
        if (*at == '#') {
            return error_set(ret_error, ERROR_INVALID,
                             "a fragment (#) is never sent: leave it out");
        }
        if (*at == '%' && end - at > 2 && target_url_is_hex(at[1]) && target_url_is_hex(at[2])) {
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

static bool target_url_parse_port(struct bytes port, uint16_t *ret_port)
{
    if (port.size < 1 || port.size > 5)
        return false;
    unsigned value = 0;
    for (size_t i = 0; i < port.size; i++) {
        if (!target_url_is_digit(port.data[i]))
            return false;
        value = value * 10 + (unsigned)(port.data[i] - '0');
    }
    *ret_port = (uint16_t)value;
    return value >= 1 && value <= UINT16_MAX;
}

/* True for labels of letters, digits, - and _, separated by single dots, with an optional dot at
 * the end. Includes IPv4 addresses. */
static bool target_url_is_name(struct bytes host)
{
    if (host.size == 0 || host.size - (host.data[host.size - 1] == '.') > TARGET_HOST_SIZE_MAX)
        return false;
    size_t label = 0; /* size of the current label */
    for (size_t i = 0; i < host.size; i++) {
        char c = host.data[i];

        if (c == '.') {
            if (label == 0)
                return false;
            label = 0;
        } else {
            if (!target_url_is_alphanumeric(c) && c != '-' && c != '_')
                return false;
            if (++label > TARGET_HOST_LABEL_SIZE_MAX)
                return false;
        }
    }
    return true;
}

/* True for an IPv4 address: four numbers of 0 to 255. */
static bool target_url_is_ipv4(const char *at, const char *end)
{
    for (int part = 0; part < 4; part++) {
        if (part > 0 && (at == end || *at++ != '.'))
            return false;
        unsigned value = 0, digits = 0;
        for (; at < end && target_url_is_digit(*at); at++) {
            if (++digits > 3 || (digits == 2 && value == 0))
                return false;
            value = value * 10 + (unsigned)(*at - '0');
        }
        if (digits == 0 || value > 255)
            return false;
    }
    return at == end;
}

/* True for an IPv6 address: eight groups of up to four digits, or fewer with one "::"; the last two
 * groups may be an IPv4 address. */
static bool target_url_is_ipv6(struct bytes text)
{
    const char *at = text.data, *end = at + text.size;
    bool gap = false;

    if (text.size >= 2 && at[0] == ':' && at[1] == ':') {
        gap = true;
        at += 2;
    }
    unsigned groups = 0;
    while (at < end) {
        const char *group = at;

        while (at < end && target_url_is_hex(*at))
            at++;
        if (at < end && *at == '.') {
            groups += 2;
            if (!target_url_is_ipv4(group, end))
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

/* Parses "host" or "host:port". Without a port, `ret_port` is unchanged. */
static enum error_code target_url_parse_authority(struct bytes authority, struct bytes *ret_host,
                                                  uint16_t *ret_port, struct error *ret_error)
{
    const char *end = authority.data + authority.size;

    if (target_url_has_any(authority, '@'))
        return error_set(ret_error, ERROR_INVALID, "it must not name a user or password");
    const char *at;
    if (target_url_has_any(authority, '[')) {
        at = memchr(authority.data, ']', authority.size);
        if (*authority.data != '[' || !at ||
            !target_url_is_ipv6(target_url_between(authority.data + 1, at)))
            return error_set(ret_error, ERROR_INVALID, "there is no IPv6 address in its brackets");
        at++;
    } else {
        at = target_url_has_any(authority, ':') ? memchr(authority.data, ':', authority.size) : end;
        if (at == authority.data)
            return error_set(ret_error, ERROR_INVALID, "it names no host");
        if (!target_url_is_name(target_url_between(authority.data, at)))
            return error_set(ret_error, ERROR_INVALID, "its host is neither a name nor an address");
    }
    *ret_host = target_url_between(authority.data, at);
    if (at < end &&
        (*at != ':' || !target_url_parse_port(target_url_between(at + 1, end), ret_port)))
        return error_set(ret_error, ERROR_INVALID, "its port is not a number of 1 to 65535");
    return ERROR_NONE;
}

enum error_code target_parser_url(struct bytes text, size_t at, struct target *target,
                                  struct error *ret_error)
{
    const char *begin = text.data + at, *end = text.data + text.size, *path = begin;

    while (path < end && *path != '/' && *path != '?' && *path != '#')
        path++;
    target->port = target->kind == TARGET_HTTPS ? 443 : 80;
    struct bytes host = {0};
    if (target_url_parse_authority(target_url_between(begin, path), &host, &target->port,
                                   ret_error) ||
        target_url_check_path(text, path, ret_error))
        return ERROR_INVALID;
    target->name = target_slice_of(text, host.data, host.data + host.size);
    target->origin_size = (uint16_t)(path - text.data);
    return ERROR_NONE;
}
