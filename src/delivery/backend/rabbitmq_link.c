/* Connects to a RabbitMQ server and logs in. */
#include "delivery/backend/rabbitmq_link.h"

#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/ssl_socket.h>
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#endif
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#define USER_TIMEOUT_MS 15000

static bool rabbitmq_link_is_own(const char *const own[], const char *name)
{
    for (; own && *own; own++)
        if (strcmp(*own, name) == 0)
            return true;
    return false;
}

enum error_code rabbitmq_link_init(struct rabbitmq_link *link, const struct broker_url *url,
                                   const char *const own[], struct error *ret_error)
{
    const bool is_tls = strcmp(url->scheme, "amqps") == 0;

    *link = (struct rabbitmq_link){.url = url};
    for (size_t i = 0; i < url->parameter_count; i++) {
        if (rabbitmq_link_is_own(own, url->parameters[i].name))
            continue;
        if (strcmp(url->parameters[i].name, "cacert") != 0 || !is_tls)
            return error_set(ret_error, ERROR_INVALID,
                             "%.40s: no such parameter; there is cacert, for amqps",
                             url->parameters[i].name);
        link->ca_file = url->parameters[i].value;
    }
    if (is_tls && !link->ca_file)
        return error_set(ret_error, ERROR_INVALID, "amqps needs the parameter cacert");
    return broker_url_host(url, is_tls ? 5671 : 5672, link->host, &link->port, ret_error);
}

void rabbitmq_link_format_close(const amqp_method_t *method, char ret_text[RABBITMQ_CAUSE_SIZE])
{
    amqp_bytes_t text = amqp_cstring_bytes("closed by the server");

    if (method->id == AMQP_CONNECTION_CLOSE_METHOD)
        text = ((const amqp_connection_close_t *)method->decoded)->reply_text;
    else if (method->id == AMQP_CHANNEL_CLOSE_METHOD)
        text = ((const amqp_channel_close_t *)method->decoded)->reply_text;
    snprintf(ret_text, RABBITMQ_CAUSE_SIZE, "%.*s", (int)(text.len < 150 ? text.len : 150),
             (const char *)text.bytes);
}

void rabbitmq_link_lose(struct rabbitmq_link *link, const char *cause)
{
    if (!link->is_lost)
        snprintf(link->cause, sizeof(link->cause), "%s", cause);
    link->is_lost = true;
}

bool rabbitmq_link_check(struct rabbitmq_link *link, amqp_rpc_reply_t reply)
{
    char text[RABBITMQ_CAUSE_SIZE];

    switch (reply.reply_type) {
    case AMQP_RESPONSE_NORMAL:
        return true;
    case AMQP_RESPONSE_SERVER_EXCEPTION:
        rabbitmq_link_format_close(&reply.reply, text);
        rabbitmq_link_lose(link, text);
        return false;
    case AMQP_RESPONSE_LIBRARY_EXCEPTION:
        rabbitmq_link_lose(link, amqp_error_string2(reply.library_error));
        return false;
    default:
        rabbitmq_link_lose(link, "no reply");
        return false;
    }
}

bool rabbitmq_link_has_input(struct rabbitmq_link *link)
{
    return amqp_frames_enqueued(link->connection) || amqp_data_in_buffer(link->connection);
}

void rabbitmq_link_close(struct rabbitmq_link *link)
{
    if (link->connection)
        amqp_destroy_connection(link->connection);
    link->connection = NULL;
}

static amqp_socket_t *rabbitmq_link_make_socket(struct rabbitmq_link *link)
{
    if (!link->ca_file)
        return amqp_tcp_socket_new(link->connection);
    amqp_socket_t *made = amqp_ssl_socket_new(link->connection);
    if (made && amqp_ssl_socket_set_cacert(made, link->ca_file) == AMQP_STATUS_OK) {
        amqp_ssl_socket_set_verify_peer(made, 1);
        amqp_ssl_socket_set_verify_hostname(made, 1);
        return made;
    }
    return NULL;
}

/* Logs in with the name of this client, and asks for notices when the server is out of memory or
 * disk, and when it has ended a consumer, for instance because its queue was deleted. */
static amqp_rpc_reply_t rabbitmq_link_log_in(struct rabbitmq_link *link, const char *client_name)
{
    const struct broker_url *url = link->url;
    amqp_table_entry_t capabilities[] = {
        {.key = amqp_cstring_bytes("connection.blocked"),
         .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value = {.boolean = 1}}},
        {.key = amqp_cstring_bytes("consumer_cancel_notify"),
         .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value = {.boolean = 1}}},
    };
    amqp_table_entry_t properties[] = {
        {.key = amqp_cstring_bytes("connection_name"),
         .value = {.kind = AMQP_FIELD_KIND_UTF8,
                   .value = {.bytes = amqp_cstring_bytes(client_name)}}},
        {.key = amqp_cstring_bytes("capabilities"),
         .value = {.kind = AMQP_FIELD_KIND_TABLE,
                   .value = {.table = {.num_entries = 2, .entries = capabilities}}}},
    };
    amqp_table_t table = {.num_entries = 2, .entries = properties};

    return amqp_login_with_properties(link->connection, url->has_path ? url->path : "/", 0,
                                      AMQP_DEFAULT_FRAME_SIZE, RABBITMQ_HEARTBEAT_S, &table,
                                      AMQP_SASL_METHOD_PLAIN, *url->user ? url->user : "guest",
                                      *url->user ? url->password : "guest");
}

bool rabbitmq_link_open_channel(struct rabbitmq_link *link, amqp_channel_t channel)
{
    amqp_channel_open(link->connection, channel);
    return rabbitmq_link_check(link, amqp_get_rpc_reply(link->connection));
}

bool rabbitmq_link_open(struct rabbitmq_link *link, uint64_t timeout_ms, const char *client_name,
                        amqp_channel_t channels)
{
    struct timeval timeout = {.tv_sec = (time_t)(timeout_ms / 1000),
                              .tv_usec = (suseconds_t)(timeout_ms % 1000 * 1000)};

    link->is_lost = false;
    link->connection = amqp_new_connection();
    amqp_socket_t *made = link->connection ? rabbitmq_link_make_socket(link) : NULL;
    if (!made) {
        rabbitmq_link_lose(link, link->ca_file ? "no memory, or no cacert" : "out of memory");
        return false;
    }
    int status = amqp_socket_open_noblock(made, link->host, link->port, &timeout);
    if (status != AMQP_STATUS_OK) {
        rabbitmq_link_lose(link, amqp_error_string2(status));
        return false;
    }
    unsigned user_timeout_ms = USER_TIMEOUT_MS;
    /* A server that is out of memory stops reading. This limits how long a write can wait for
     * it. */
    setsockopt(amqp_get_sockfd(link->connection), IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms,
               sizeof(user_timeout_ms));
    amqp_set_handshake_timeout(link->connection, &timeout);
    amqp_set_rpc_timeout(link->connection, &timeout);
    if (!rabbitmq_link_check(link, rabbitmq_link_log_in(link, client_name)))
        return false;
    for (amqp_channel_t channel = 1; channel <= channels; channel++)
        if (!rabbitmq_link_open_channel(link, channel))
            return false;
    return true;
}
