#include "delivery/broker_url.h"

#include "base/hex.h"

static const char *const schemes[] = {"redis", "nats", "amqp", "kafka"};

static struct bytes between(const char *begin, const char *end)
{
    return (struct bytes){begin, (size_t)(end - begin)};
}

/* The first of the characters `wanted` in the text, or its end. */
static const char *find_any(struct bytes text, const char *wanted)
{
    const char *end = text.data + text.size;

    for (const char *at = text.data; at < end; at++)
        if (*at && strchr(wanted, *at))
            return at;
    return end;
}

/* How long the text is when decoded; SIZE_MAX when a '%' is not followed by two digits, or a NUL or
 * another control character or a blank is written as it is, or a NUL is encoded. */
static size_t decoded_size(struct bytes text)
{
    size_t size = 0;

    for (size_t i = 0; i < text.size; i++, size++) {
        unsigned char c = (unsigned char)text.data[i];

        if (c <= ' ' || c == 0x7f)
            return SIZE_MAX;
        if (c != '%')
            continue;
        if (text.size - i < 3 || hex_digit(text.data[i + 1]) < 0 ||
            hex_digit(text.data[i + 2]) < 0 || (text.data[i + 1] == '0' && text.data[i + 2] == '0'))
            return SIZE_MAX;
        i += 2;
    }
    return size;
}

/* The text must be well-formed. Returns the end of what it wrote. */
static char *decode(struct bytes text, char *to)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] != '%') {
            *to++ = text.data[i];
            continue;
        }
        *to++ = (char)(hex_digit(text.data[i + 1]) << 4 | hex_digit(text.data[i + 2]));
        i += 2;
    }
    return to;
}

void broker_url_decode(struct bytes text, struct buffer *out)
{
    char *to = buffer_reserve(out, text.size + 1);

    if (!to)
        return;
    out->size = (size_t)(decode(text, to) - out->data);
    buffer_append(out, "", 1);
}

/* ---- where a broker is ---- */

/* Copies a part of the URL, decoded and with a NUL, behind those before. */
static const char *keep(char **to, struct bytes part)
{
    const char *kept = *to;

    *to = decode(part, *to);
    *(*to)++ = '\0';
    return kept;
}

static enum error_code parse_parameters(struct broker_url *url, char **to, struct bytes query,
                                        struct error *ret_error)
{
    const char *at = query.data, *end = query.data + query.size;

    while (at < end) {
        const char *next = find_any(between(at, end), "&");
        const char *equals = find_any(between(at, next), "=");
        struct broker_parameter *parameter = &url->parameters[url->parameter_count];

        if (url->parameter_count == BROKER_URL_PARAMETERS_MAX)
            return error_set(ret_error, ERROR_INVALID, "it has more than %d parameters",
                             BROKER_URL_PARAMETERS_MAX);
        if (equals == next || equals == at)
            return error_set(ret_error, ERROR_INVALID, "what follows ? must be name=value&...");
        parameter->name = keep(to, between(at, equals));
        parameter->value = keep(to, between(equals + 1, next));
        url->parameter_count++;
        at = next + (next < end);
    }
    return ERROR_NONE;
}

static enum error_code parse_authority(struct broker_url *url, char **to, struct bytes authority,
                                       struct error *ret_error)
{
    const char *end = authority.data + authority.size, *at = find_any(authority, "@");
    const char *colon = find_any(between(authority.data, at), ":");

    if (at < end) {
        url->user = keep(to, between(authority.data, colon));
        if (colon < at)
            url->password = keep(to, between(colon + 1, at));
        authority = between(at + 1, end);
        if (find_any(authority, "@") < end)
            return error_set(ret_error, ERROR_INVALID,
                             "an @ in the user or password must be written as %%40");
    }
    if (authority.size == 0)
        return error_set(ret_error, ERROR_INVALID, "it names no host");
    url->hosts = keep(to, authority);
    return ERROR_NONE;
}

enum error_code broker_url_parse(struct bytes text, struct broker_url *ret_url,
                                 struct error *ret_error)
{
    const char *end = text.data + text.size, *colon = find_any(text, ":"), *path, *query;
    char *to = ret_url->text_;
    enum error_code code;

    *ret_url = (struct broker_url){.user = "", .password = "", .path = ""};
    if (text.size > BROKER_URL_SIZE_MAX)
        return error_set(ret_error, ERROR_INVALID, "it is longer than %d bytes",
                         BROKER_URL_SIZE_MAX);
    if (decoded_size(text) == SIZE_MAX)
        return error_set(ret_error, ERROR_INVALID, "%% must be followed by two hexadecimal digits");
    if (colon == text.data || end - colon < 3 || memcmp(colon, "://", 3) != 0)
        return error_set(ret_error, ERROR_INVALID, "it is no URL such as redis://host:6379");
    ret_url->scheme = keep(&to, between(text.data, colon));
    query = find_any(between(colon + 3, end), "?");
    path = find_any(between(colon + 3, query), "/");
    code = parse_authority(ret_url, &to, between(colon + 3, path), ret_error);
    if (code)
        return code;
    ret_url->has_path = path < query;
    if (path < query)
        ret_url->path = keep(&to, between(path + 1, query));
    return query < end ? parse_parameters(ret_url, &to, between(query + 1, end), ret_error)
                       : ERROR_NONE;
}

static bool parse_port(const char *text, uint16_t *ret_port)
{
    unsigned port = 0;

    if (!*text)
        return false;
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
    const char *host = url->hosts, *end, *rest;

    *ret_port = port_default;
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
    if (*rest && (*rest != ':' || !parse_port(rest + 1, ret_port)))
        return error_set(ret_error, ERROR_INVALID, "its port is not a number of 1 to 65535");
    memcpy(ret_host, host, (size_t)(end - host));
    ret_host[end - host] = '\0';
    return ERROR_NONE;
}

/* ---- where a timer goes ---- */

/* Behind "scheme://"; NULL when the target has none of our schemes. */
static const char *behind_scheme(struct bytes target, struct bytes *ret_scheme)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        struct bytes scheme = bytes_of(schemes[i]);

        if (target.size >= scheme.size + 3 && memcmp(target.data, scheme.data, scheme.size) == 0 &&
            memcmp(target.data + scheme.size, "://", 3) == 0) {
            *ret_scheme = scheme;
            return target.data + scheme.size + 3;
        }
    }
    return NULL;
}

bool broker_target_is_one(struct bytes target)
{
    struct bytes scheme;

    return behind_scheme(target, &scheme) != NULL;
}

static enum error_code check_part(struct bytes part, struct error *ret_error)
{
    size_t size = decoded_size(part);

    if (size == SIZE_MAX)
        return error_set(ret_error, ERROR_INVALID,
                         "blanks, control characters and %% must be written as %% and two "
                         "hexadecimal digits, and none of them is NUL");
    if (size > BROKER_DECODED_SIZE_MAX)
        return error_set(ret_error, ERROR_INVALID, "each of its parts may have at most %d bytes",
                         BROKER_DECODED_SIZE_MAX);
    return ERROR_NONE;
}

enum error_code broker_target_parse(struct bytes text, size_t name_count,
                                    struct broker_target *ret_target, struct error *ret_error)
{
    const char *end = text.data + text.size, *at, *query, *slash;
    struct broker_target target = {.key = {NULL, 0}};

    at = behind_scheme(text, &target.scheme);
    if (!at)
        return error_set(ret_error, ERROR_INVALID, "it is no target of a broker");
    if (find_any(text, "#") < end)
        return error_set(ret_error, ERROR_INVALID, "a # must be written as %%23");
    query = find_any(between(at, end), "?");
    slash = find_any(between(at, query), "/");
    target.connection = between(at, slash);
    if (slash == query)
        return error_set(ret_error, ERROR_INVALID, "it says no place behind the connection's name");
    at = slash + 1;
    if (name_count == 0)
        query = end;
    for (size_t i = 0; i < name_count; i++) {
        const char *name_end = i + 1 < name_count ? find_any(between(at, query), "/") : query;

        if (name_end == query && i + 1 < name_count)
            return error_set(ret_error, ERROR_INVALID, "a / is missing in its path");
        target.names[i] = between(at, name_end);
        if (check_part(target.names[i], ret_error))
            return ERROR_INVALID;
        at = name_end + (name_end < query);
    }
    if (query < end) {
        if (!bytes_has_prefix(between(query, end), BYTES("?key=")) ||
            find_any(between(query, end), "&") < end)
            return error_set(ret_error, ERROR_INVALID,
                             "the only parameter that it may have is key");
        target.key = between(query + 5, end);
        if (check_part(target.key, ret_error))
            return ERROR_INVALID;
    }
    *ret_target = target;
    return ERROR_NONE;
}
