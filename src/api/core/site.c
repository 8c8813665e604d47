/* site.c - compares Host, Origin and Sec-Fetch-Site with the settings. */
#include "api/core/site.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>

#define SITE_ADDRESS_SIZE 46 /* size of an address as text, with its NUL */

static bool site_equals(struct bytes text, struct bytes other)
{
    return text.size == other.size && strncasecmp(text.data, other.data, text.size) == 0;
}

/* Returns the next part of a list, without empty parts. False at its end. */
static bool site_next(struct bytes *list, struct bytes *ret_part)
{
    if (list->size == 0 || list->data[0] == ',')
        return false;
    *ret_part = bytes_cut(list, ',');
    return true;
}

static bool site_lists(struct bytes list, struct bytes wanted)
{
    struct bytes part;

    while (site_next(&list, &part))
        if (site_equals(part, wanted))
            return true;
    return false;
}

/* Returns the host without its port; an IPv6 address keeps its brackets. Empty if it is no host. */
static struct bytes site_host_name(struct bytes host)
{
    bool is_bracketed = host.size > 0 && host.data[0] == '[';
    const char *end = host.size ? memchr(host.data, is_bracketed ? ']' : ':', host.size) : NULL;
    size_t size = end ? (size_t)(end - host.data) + is_bracketed : host.size;

    if (is_bracketed && !end)
        return BYTES("");
    for (size_t i = size + 1; i < host.size; i++)
        if (host.data[i] < '0' || host.data[i] > '9')
            return BYTES("");
    if (size < host.size && host.data[size] != ':')
        return BYTES("");
    return (struct bytes){host.data, size};
}

/* IPv4 becomes IPv4-mapped IPv6. */
static bool site_parse_address(struct bytes text, struct in6_addr *ret_address)
{
    char copy[SITE_ADDRESS_SIZE];

    if (text.size >= sizeof(copy))
        return false;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    struct in_addr ipv4;
    if (strlen(copy) == text.size && inet_pton(AF_INET, copy, &ipv4) == 1) {
        *ret_address = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
        memcpy(ret_address->s6_addr + 12, &ipv4, sizeof(ipv4));
        return true;
    }
    return strlen(copy) == text.size && inet_pton(AF_INET6, copy, ret_address) == 1;
}

static bool site_is_loopback(const struct in6_addr *address)
{
    return IN6_IS_ADDR_LOOPBACK(address) ||
           (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127);
}

static bool site_is_unspecified(const struct in6_addr *address)
{
    static const uint8_t nothing[4];

    return IN6_IS_ADDR_UNSPECIFIED(address) ||
           (IN6_IS_ADDR_V4MAPPED(address) && memcmp(address->s6_addr + 12, nothing, 4) == 0);
}

/* True if clients reach this server by this address. */
static bool site_is_our_address(const struct config *config, const struct in6_addr *address)
{
    if (site_is_loopback(address))
        return true;
    struct in6_addr listening;
    return site_parse_address(bytes_of(config->listen_address), &listening) &&
           (site_is_unspecified(&listening) || memcmp(&listening, address, sizeof(listening)) == 0);
}

static bool site_is_our_host(const struct config *config, struct bytes host)
{
    struct bytes name = site_host_name(host), text = name;

    if (name.size == 0)
        return false;
    if (site_equals(name, BYTES("localhost")) || site_lists(bytes_of(config->allowed_hosts), name))
        return true;
    if (name.data[0] == '[' && name.size > 2)
        text = (struct bytes){name.data + 1, name.size - 2};
    struct in6_addr address;
    return site_parse_address(text, &address) && site_is_our_address(config, &address);
}

bool site_is_ours(const struct config *config, const struct site_request *request)
{
    return (!request->host.data || site_is_our_host(config, request->host)) &&
           (!request->authority.data || site_is_our_host(config, request->authority));
}

static bool site_changes_nothing(struct bytes method)
{
    return bytes_equal(method, BYTES("GET")) || bytes_equal(method, BYTES("HEAD"));
}

/* Returns the host of "scheme://host:port"; empty for any other text. */
static struct bytes site_origin_host(struct bytes origin)
{
    const struct bytes schemes[] = {BYTES("http://"), BYTES("https://")};

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        if (bytes_has_prefix(origin, schemes[i]))
            return (struct bytes){origin.data + schemes[i].size, origin.size - schemes[i].size};
    return BYTES("");
}

/* Sec-Fetch-Site counts before Origin, because behind a proxy that terminates TLS or sets Host
 * the request does not show the origin that the browser uses. */
bool site_is_foreign(const struct config *config, const struct site_request *request)
{
    struct bytes host = request->authority.data ? request->authority : request->host;

    if (site_changes_nothing(request->method) ||
        site_lists(bytes_of(config->allowed_origins), request->origin))
        return false;
    if (request->fetch_site.data)
        return !bytes_equal(request->fetch_site, BYTES("same-origin")) &&
               !bytes_equal(request->fetch_site, BYTES("none")); /* address bar or bookmark */
    if (!request->origin.data)
        return false;
    struct bytes page = site_origin_host(request->origin);
    return page.size == 0 || !site_equals(page, host);
}

static bool site_is_host_text(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] <= ' ' || text.data[i] >= 0x7f || strchr("/?#@\\,*", text.data[i]))
            return false;
    return site_host_name(text).size > 0;
}

enum error_code site_check_settings(const struct config *config, struct error *ret_error)
{
    struct bytes hosts = bytes_of(config->allowed_hosts);
    struct bytes origins = bytes_of(config->allowed_origins);
    struct bytes part;

    while (site_next(&hosts, &part))
        if (!site_is_host_text(part) || site_host_name(part).size != part.size)
            return error_set(ret_error, ERROR_INVALID,
                             "allowed_hosts: %.*s is not a host without a port",
                             (int)(part.size < 80 ? part.size : 80), part.data);
    while (site_next(&origins, &part))
        if (!site_is_host_text(site_origin_host(part)))
            return error_set(ret_error, ERROR_INVALID,
                             "allowed_origins: %.*s is not an origin such as https://shop.example",
                             (int)(part.size < 80 ? part.size : 80), part.data);
    return hosts.size || origins.size ? error_set(ret_error, ERROR_INVALID, "%s: a part is empty",
                                                  hosts.size ? "allowed_hosts" : "allowed_origins")
                                      : ERROR_NONE;
}
