/* cluster.c - the settings by which nodes of a cluster reach each other, and their listener. */
#include "steps.h"

#include "base/number.h"
#include "http/server.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum {
    CLUSTER_SECRET_SIZE_MIN = 16,
    CLUSTER_HOST_SIZE = 64, /* size of a numeric address with its NUL */
};

/* ---- addresses ---- */

/* Splits "host:port" or "[host]:port". The brackets are removed from the host. */
static bool cluster_split(const char *text, struct bytes *ret_host, uint64_t *ret_port)
{
    const char *colon = strrchr(text, ':');

    if (!colon || colon == text)
        return false;
    struct bytes host = {text, (size_t)(colon - text)};
    const bool is_bracketed = *text == '[';
    if (is_bracketed != (host.data[host.size - 1] == ']') ||
        (!is_bracketed && memchr(host.data, ':', host.size)))
        return false;
    if (is_bracketed)
        host = (struct bytes){host.data + 1, host.size - 2};
    *ret_host = host;
    return host.size > 0 && number_parse(bytes_of(colon + 1), 10, ret_port) && *ret_port <= 65535;
}

struct cluster_listen {
    char host[CLUSTER_HOST_SIZE];
    uint16_t port;
    bool is_wildcard;
};

/* Parses cluster_listen: a numeric address and a port. */
static bool cluster_parse_listen(const char *text, struct cluster_listen *ret_listen)
{
    struct in6_addr ipv6;
    struct in_addr ipv4;
    struct bytes host;
    uint64_t port;

    if (!cluster_split(text, &host, &port) || host.size >= CLUSTER_HOST_SIZE)
        return false;
    *ret_listen = (struct cluster_listen){.port = (uint16_t)port};
    memcpy(ret_listen->host, host.data, host.size);
    const bool is_ipv6 = *text == '[';
    const bool is_address = is_ipv6 ? inet_pton(AF_INET6, ret_listen->host, &ipv6) == 1
                                    : inet_pton(AF_INET, ret_listen->host, &ipv4) == 1;
    ret_listen->is_wildcard =
        is_address && (is_ipv6 ? IN6_IS_ADDR_UNSPECIFIED(&ipv6) : ipv4.s_addr == INADDR_ANY);
    return is_address;
}

/* True if the text is an address that other nodes can put into a URL. */
static bool cluster_is_address(const char *text)
{
    struct bytes host;
    uint64_t port;

    if (!cluster_split(text, &host, &port) || port == 0)
        return false;
    for (size_t i = 0; i < host.size; i++)
        if (!isalnum((unsigned char)host.data[i]) && !strchr(".-_:", host.data[i]))
            return false;
    return true;
}

/* ---- checks ---- */

static enum error_code cluster_check_address(const struct config *config, struct error *ret_error)
{
    struct cluster_listen listen;

    if (!cluster_parse_listen(config->cluster_listen, &listen))
        return error_set(ret_error, ERROR_INVALID,
                         "cluster_listen: \"%.80s\" is not a numeric address and a port, such as "
                         "10.0.0.5:8464 or [::1]:8464",
                         config->cluster_listen);
    if (listen.is_wildcard && !*config->cluster_address)
        return error_set(ret_error, ERROR_INVALID,
                         "cluster_address: needed, because cluster_listen is every address of "
                         "this machine");
    if (*config->cluster_address && !cluster_is_address(config->cluster_address))
        return error_set(ret_error, ERROR_INVALID, "cluster_address: \"%.80s\" is not host:port",
                         config->cluster_address);
    return ERROR_NONE;
}

enum error_code cluster_check(const struct config *config, struct error *ret_error)
{
    const char *const files[] = {config->cluster_tls_certificate, config->cluster_tls_key,
                                 config->cluster_ca_file};
    size_t file_count = 0;

    if (bytes_has_control(bytes_of(config->cluster_zone)) || strchr(config->cluster_zone, '\t'))
        return error_set(ret_error, ERROR_INVALID, "cluster_zone: it has a control character");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        file_count += *files[i] != '\0';
    if (*config->cluster_log && *config->cluster_brokers)
        return error_set(ret_error, ERROR_INVALID,
                         "cluster_log and cluster_brokers: the log is in one of them");
    if (!*config->cluster_listen)
        return ERROR_NONE;
    if (!config_is_cluster(config))
        return error_set(ret_error, ERROR_INVALID,
                         "cluster_listen: set cluster_log or cluster_brokers too");
    if (strlen(config->cluster_secret) < CLUSTER_SECRET_SIZE_MIN)
        return error_set(ret_error, ERROR_INVALID,
                         "cluster_secret: %d bytes or more are needed, equal on all nodes: whoever "
                         "knows them can change every timer",
                         CLUSTER_SECRET_SIZE_MIN);
    if (file_count != 0 && file_count != sizeof(files) / sizeof(files[0]))
        return error_set(ret_error, ERROR_INVALID,
                         "cluster_tls_certificate, cluster_tls_key and cluster_ca_file: set all "
                         "of them, or none");
    return cluster_check_address(config, ret_error);
}

/* ---- the start ---- */

static void cluster_log(const struct config *config, const struct event_log *log,
                        const struct cluster_listen *listen, const char *address)
{
    struct event_log_line line;

    event_log_begin(&line, log, EVENT_LOG_INFO, "cluster_listens");
    event_log_text(&line, "address", address);
    event_log_text(&line, "tls", *config->cluster_ca_file ? "on" : "off");
    event_log_end(&line);
    if (*config->cluster_ca_file || http_address_is_loopback(listen->host))
        return;
    event_log_begin(&line, log, EVENT_LOG_WARN, "cluster_unencrypted");
    event_log_text(&line, "hint",
                   "timers travel between nodes unencrypted, and who reads the network can repeat "
                   "requests: set cluster_tls_certificate, cluster_tls_key and cluster_ca_file");
    event_log_end(&line);
}

enum error_code cluster_open(const struct config *config, const struct event_log *log,
                             struct passing *passing, struct node *node, struct error *ret_error)
{
    struct cluster_listen listen;
    struct peers_options options = {
        .cluster = node_cluster_id(node),
        .node = config->cluster_node_id,
        .secret = bytes_of(config->cluster_secret),
        .address = listen.host,
        .wait_ms = config->cluster_wait_ms,
        .ca_file = *config->cluster_ca_file ? config->cluster_ca_file : NULL,
    };
    char address[NODE_ADDRESS_SIZE];

    if (!cluster_parse_listen(config->cluster_listen, &listen))
        return error_set(ret_error, ERROR_INVALID, "cluster_listen: not an address");
    options.port = listen.port;
    enum error_code code = secrets_load_peer_identity(config, &options.identity, ret_error);
    if (!code)
        code = passing_open(passing, node, &options, ret_error);
    tls_identity_release(options.identity);
    if (code)
        return code;
    const bool is_ipv6 = strchr(listen.host, ':') != NULL;
    snprintf(address, sizeof(address), "%s%s%s:%u", is_ipv6 ? "[" : "", listen.host,
             is_ipv6 ? "]" : "", passing_port(passing));
    if (*config->cluster_address)
        snprintf(address, sizeof(address), "%s", config->cluster_address);
    node_tell_address(node, address);
    cluster_log(config, log, &listen, address);
    return ERROR_NONE;
}
