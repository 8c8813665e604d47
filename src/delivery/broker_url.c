/* Parses the URL of a broker connection, with its user, password and parameters. */
#include "delivery/broker_url.h"

#include "base/check.h"
#include "base/percent.h"

#include <stdio.h>

static struct bytes url_between(const char *begin, const char *end)
{
    return (struct bytes){begin, (size_t)(end - begin)};
}

/* Returns the first of the characters `wanted` in the text, or its end. */
static const char *url_find_any(struct bytes text, const char *wanted)
{
    const char *end = text.data + text.size;

    for (const char *at = text.data; at < end; at++)
        if (*at && strchr(wanted, *at))
            return at;
    return end;
}

void broker_url_decode(struct bytes text, struct buffer *out)
{
    char *to = buffer_reserve(out, text.size + 1);

    if (!to)
        return;
    out->size = (size_t)(percent_decode(text, to) - out->data);
    buffer_append(out, "", 1);
}

/* ---- where a broker is ---- */

/* Decodes a part of the URL to *to, with a NUL, and moves *to after it. */
static const char *broker_url_keep(char **to, struct bytes part)
{
    const char *kept = *to;

    *to = percent_decode(part, *to);
    *(*to)++ = '\0';
    return kept;
}

static enum error_code url_parse_parameters(struct broker_url *url, char **to, struct bytes query,
                                            struct error *ret_error)
{
    const char *at = query.data, *end = query.data + query.size;

    while (at < end) {
        const char *next = url_find_any(url_between(at, end), "&");
        const char *equals = url_find_any(url_between(at, next), "=");
        struct broker_parameter *parameter = &url->parameters[url->parameter_count];

        if (url->parameter_count == BROKER_URL_PARAMETERS_MAX)
            return error_set(ret_error, ERROR_INVALID, "it has more than %d parameters",
                             BROKER_URL_PARAMETERS_MAX);
        if (equals == next || equals == at)
            return error_set(ret_error, ERROR_INVALID, "what follows ? must be name=value&...");
        parameter->name = broker_url_keep(to, url_between(at, equals));
        parameter->value = broker_url_keep(to, url_between(equals + 1, next));
        url->parameter_count++;
        at = next + (next < end);
    }
    return ERROR_NONE;
}

static enum error_code url_parse_authority(struct broker_url *url, char **to,
                                           struct bytes authority, struct error *ret_error)
{
    const char *end = authority.data + authority.size, *at = url_find_any(authority, "@");
    const char *colon = url_find_any(url_between(authority.data, at), ":");

    if (at < end) {
        url->user = broker_url_keep(to, url_between(authority.data, colon));
        if (colon < at)
            url->password = broker_url_keep(to, url_between(colon + 1, at));
        authority = url_between(at + 1, end);
        if (url_find_any(authority, "@") < end)
            return error_set(ret_error, ERROR_INVALID,
                             "an @ in the user or password must be written as %%40");
    }
    if (authority.size == 0)
        return error_set(ret_error, ERROR_INVALID, "it names no host");
    url->hosts = broker_url_keep(to, authority);
    return ERROR_NONE;
}

enum error_code broker_url_parse(struct bytes text, struct broker_url *ret_url,
                                 struct error *ret_error)
{
    const char *end = text.data + text.size, *colon = url_find_any(text, ":");
    char *to = ret_url->text_;

    *ret_url = (struct broker_url){.user = "", .password = "", .path = ""};
    if (text.size > BROKER_URL_SIZE_MAX)
        return error_set(ret_error, ERROR_INVALID, "it is longer than %d bytes",
                         BROKER_URL_SIZE_MAX);
    memcpy(ret_url->text, text.data, text.size);
    if (percent_decoded_size(text) == SIZE_MAX)
        return error_set(ret_error, ERROR_INVALID, "%% must be followed by two hexadecimal digits");
    if (colon == text.data || end - colon < 3 || memcmp(colon, "://", 3) != 0)
        return error_set(ret_error, ERROR_INVALID, "it is no URL such as redis://host:6379");
    ret_url->scheme = broker_url_keep(&to, url_between(text.data, colon));
    const char *query = url_find_any(url_between(colon + 3, end), "?");
    const char *path = url_find_any(url_between(colon + 3, query), "/");
    enum error_code code =
        url_parse_authority(ret_url, &to, url_between(colon + 3, path), ret_error);
    if (code)
        return code;
    ret_url->has_path = path < query;
    if (path < query)
        ret_url->path = broker_url_keep(&to, url_between(path + 1, query));
    return query < end ? url_parse_parameters(ret_url, &to, url_between(query + 1, end), ret_error)
                       : ERROR_NONE;
}

/* Cuts the parameter `index` out of the text. */
static void url_cut(char *text, size_t index)
{
    char *query = strchr(text, '?');
    char *part = query + 1;

    while (index-- > 0)
        part = strchr(part, '&') + 1;
    char *end = part + strcspn(part, "&");
    if (*end)
        memmove(part, end + 1, strlen(end + 1) + 1);
    else
        part[-1] = '\0';
}

bool broker_url_take(struct broker_url *url, const char *name, char ret_value[16])
{
    char text[BROKER_URL_SIZE_MAX + 1];
    size_t index = 0;

    while (index < url->parameter_count && strcmp(url->parameters[index].name, name) != 0)
        index++;
    if (index == url->parameter_count)
        return false;
    snprintf(ret_value, 16, "%s", url->parameters[index].value);
    memcpy(text, url->text, sizeof(text));
    url_cut(text, index);
    CHECK(broker_url_parse(bytes_of(text), url, NULL) == ERROR_NONE);
    return true;
}

bool broker_url_is_equal(const struct broker_url *one, const struct broker_url *other)
{
    bool is_equal =
        strcmp(one->scheme, other->scheme) == 0 && strcmp(one->user, other->user) == 0 &&
        strcmp(one->password, other->password) == 0 && strcmp(one->hosts, other->hosts) == 0 &&
        strcmp(one->path, other->path) == 0 && one->has_path == other->has_path &&
        one->parameter_count == other->parameter_count;

    for (size_t i = 0; is_equal && i < one->parameter_count; i++)
        is_equal = strcmp(one->parameters[i].name, other->parameters[i].name) == 0 &&
                   strcmp(one->parameters[i].value, other->parameters[i].value) == 0;
    return is_equal;
}

static bool url_parse_port(const char *text, uint16_t *ret_port)
{
    if (!*text)
        return false;
    unsigned port = 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || port > UINT16_MAX)
            return false;
        port = port * 10 + (unsigned)(*text - '0');
    }
    *ret_port = (uint16_t)port;
    return port > 0 && port <= UINT16_MAX;
}

enum error_code broker_url_host(const struct broker_url *url, uint16_t port_default,
                                char ret_host[256], uint16_t *ret_port, struct error *ret_error)
{
    const char *host = url->hosts;

    *ret_port = port_default;
    const char *end, *rest;
    if (*host == '[') {
        end = strchr(++host, ']');
        if (!end)
            return error_set(ret_error, ERROR_INVALID, "its address has no ]");
        rest = end + 1;
    } else {
        end = rest = host + strcspn(host, ":");
    }
    if (end == host || end - host > 255 || strchr(host, ','))
        return error_set(ret_error, ERROR_INVALID, "it must name one host");
    if (*rest && (*rest != ':' || !url_parse_port(rest + 1, ret_port)))
        return error_set(ret_error, ERROR_INVALID, "its port is not a number of 1 to 65535");
    memcpy(ret_host, host, (size_t)(end - host));
    ret_host[end - host] = '\0';
    return ERROR_NONE;
}
