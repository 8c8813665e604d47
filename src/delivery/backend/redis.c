/*
 * Redis Streams by hiredis. A message is XADD STREAM [MAXLEN ~ n] * field value ..., pipelined, and
 * confirmed by its reply. Replies come in the order of the commands, so the tickets under way are a
 * ring.
 *
 * hiredis makes the connection with blocking calls and a time-out. Afterwards the socket does not
 * block, and only the formatter, the reader and the buffers of hiredis are used.
 */
#include "delivery/broker_backend.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

/* Time in milliseconds after which the kernel closes a connection whose other side acknowledges
 * nothing. */
#define USER_TIMEOUT_MS 15000

struct redis {
    const struct broker_settings *settings;
    char host[256];
    uint16_t port;
    const char *maxlen; /* approximate maximum length of streams; "" if they are not trimmed */
    redisContext *context;
    bool is_lost;    /* the connection must be closed, because a write failed or memory ran out */
    uint64_t *ring;  /* tickets of messages without a reply, in the order in which they were sent */
    size_t capacity; /* size of the ring, a power of two */
    size_t head, tail;
    const char **arguments;
    size_t *argument_sizes;
    size_t argument_capacity;
};

static void redis_version(char ret_text[BROKER_VERSION_SIZE])
{
    snprintf(ret_text, BROKER_VERSION_SIZE, "hiredis %d.%d.%d", HIREDIS_MAJOR, HIREDIS_MINOR,
             HIREDIS_PATCH);
}

static const char *redis_refusal(const struct bytes names[], struct bytes key)
{
    if (key.data)
        return "may have no key: a stream has none";
    return names[0].size == 0 ? "names no stream" : NULL;
}

/* ---- settings ---- */

static bool redis_is_number(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text) && strlen(text) < 19;
}

static enum error_code redis_read_parameters(struct redis *redis, struct error *ret_error)
{
    const struct broker_url *url = redis->settings->url;

    for (size_t i = 0; i < url->parameter_count; i++) {
        const struct broker_parameter *parameter = &url->parameters[i];

        if (strcmp(parameter->name, "maxlen") != 0)
            return error_set(ret_error, ERROR_INVALID, "%.40s: no such parameter; there is maxlen",
                             parameter->name);
        if (!redis_is_number(parameter->value))
            return error_set(ret_error, ERROR_INVALID, "maxlen must be a number");
        redis->maxlen = parameter->value;
    }
    if (*url->path && !redis_is_number(url->path))
        return error_set(ret_error, ERROR_INVALID, "its path must be the number of a database");
    return broker_url_host(url, 6379, redis->host, &redis->port, ret_error);
}

static void redis_destroy(void *client)
{
    struct redis *redis = client;

    redisFree(redis->context);
    free(redis->ring);
    free(redis->arguments);
    free(redis->argument_sizes);
    free(redis);
}

static enum error_code redis_create(const struct broker_settings *settings, void **ret_client,
                                    struct error *ret_error)
{
    struct redis *redis = calloc(1, sizeof(*redis));

    if (!redis)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    redis->settings = settings;
    redis->maxlen = "";
    /* Messages that timed out stay in the ring until their reply, so it has room for twice the
     * limit. */
    for (redis->capacity = 2; redis->capacity < 2 * (size_t)settings->inflight_max;)
        redis->capacity *= 2;
    redis->ring = calloc(redis->capacity, sizeof(*redis->ring));
    enum error_code code = redis->ring ? redis_read_parameters(redis, ret_error)
                                       : error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    if (code) {
        redis_destroy(redis);
        return code;
    }
    *ret_client = redis;
    return ERROR_NONE;
}

/* ---- the connection ---- */

static void redis_disconnect(void *client)
{
    struct redis *redis = client;

    redisFree(redis->context);
    redis->context = NULL;
    redis->head = redis->tail = 0;
    redis->is_lost = false;
}

static enum error_code redis_lost(const struct redis *redis, struct error *ret_error)
{
    const redisContext *context = redis->context;

    if (!context || context->err == REDIS_ERR_OOM || (redis->is_lost && !context->err))
        return error_set(ret_error, ERROR_IO, "out of memory");
    if (context->err == REDIS_ERR_EOF)
        return error_set(ret_error, ERROR_IO, "closed by the server");
    return error_set(ret_error, ERROR_IO, "%s", context->errstr);
}

/* Sends one command and waits for its reply. Used while connecting, when the socket still
 * blocks. */
static enum error_code redis_ask(struct redis *redis, int count, const char *arguments[],
                                 struct error *ret_error)
{
    redisReply *reply = redisCommandArgv(redis->context, count, arguments, NULL);

    if (!reply)
        return redis_lost(redis, ret_error);
    enum error_code code = ERROR_NONE;
    if (reply->type == REDIS_REPLY_ERROR)
        code = error_set(ret_error, ERROR_IO, "%.150s", reply->str);
    freeReplyObject(reply);
    return code;
}

static enum error_code redis_log_in(struct redis *redis, struct error *ret_error)
{
    const struct broker_url *url = redis->settings->url;
    const char *name[] = {"AUTH", url->user, url->password};
    const char *secret[] = {"AUTH", url->password};
    const char *database[] = {"SELECT", url->path};
    const char *ping[] = {"PING"};
    enum error_code code = ERROR_NONE;

    if (*url->password)
        code = *url->user ? redis_ask(redis, 3, name, ret_error)
                          : redis_ask(redis, 2, secret, ret_error);
    if (!code && *url->path)
        code = redis_ask(redis, 2, database, ret_error);
    return code ? code
                : redis_ask(redis, 1, ping, ret_error); /* fails while the server loads its data */
}

static bool redis_stop_blocking(const redisContext *context)
{
    int flags = fcntl(context->fd, F_GETFL), one = 1;

    setsockopt(context->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    unsigned timeout_ms = USER_TIMEOUT_MS;
    setsockopt(context->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
    return flags >= 0 && fcntl(context->fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

static enum error_code redis_connect_to_server(void *client, struct error *ret_error)
{
    struct redis *redis = client;
    uint64_t timeout_ms = redis->settings->connect_timeout_ms;
    struct timeval timeout = {.tv_sec = (time_t)(timeout_ms / 1000),
                              .tv_usec = (suseconds_t)(timeout_ms % 1000 * 1000)};

    redis->context = redisConnectWithTimeout(redis->host, redis->port, timeout);
    enum error_code code = ERROR_NONE;
    if (!redis->context || redis->context->err)
        code = redis_lost(redis, ret_error);
    if (!code) {
        redisSetTimeout(redis->context, timeout);
        redisEnableKeepAlive(redis->context);
        code = redis_log_in(redis, ret_error);
    }
    if (!code && !redis_stop_blocking(redis->context))
        code = error_set(ret_error, ERROR_IO, "the system refuses");
    if (code) {
        redis_disconnect(redis);
        return code;
    }
    redis->context->flags &= ~REDIS_BLOCK;
    return ERROR_NONE;
}

/* ---- messages ---- */

static bool redis_reserve_arguments(struct redis *redis, size_t count)
{
    if (count <= redis->argument_capacity)
        return true;
    const char **arguments = realloc(redis->arguments, count * sizeof(*arguments));
    if (arguments)
        redis->arguments = arguments;
    size_t *sizes = realloc(redis->argument_sizes, count * sizeof(*sizes));
    if (sizes)
        redis->argument_sizes = sizes;
    if (!arguments || !sizes)
        return false;
    redis->argument_capacity = count;
    return true;
}

static size_t redis_add(struct redis *redis, size_t at, struct bytes argument)
{
    redis->arguments[at] = argument.data ? argument.data : "";
    redis->argument_sizes[at] = argument.size;
    return at + 1;
}

static bool redis_publish(void *client, uint64_t ticket, const struct broker_message *message)
{
    struct redis *redis = client;

    if (redis->tail - redis->head == redis->capacity)
        return false;
    if (!redis_reserve_arguments(redis, 8 + 2 * message->field_count)) {
        broker_outcome(redis->settings->sink, ticket, DELIVERY_FAILED, "out of memory");
        return true;
    }
    size_t count = redis_add(redis, 0, BYTES("XADD"));
    count = redis_add(redis, count, message->names[0]);
    if (*redis->maxlen) {
        count = redis_add(redis, count, BYTES("MAXLEN"));
        count = redis_add(redis, count, BYTES("~"));
        count = redis_add(redis, count, bytes_of(redis->maxlen));
    }
    count = redis_add(redis, count, BYTES("*"));
    for (size_t i = 0; i < message->field_count; i++) {
        count = redis_add(redis, count, bytes_of(message->fields[i].name));
        count = redis_add(redis, count, message->fields[i].value);
    }
    count = redis_add(redis, count, BYTES("payload"));
    count = redis_add(redis, count, message->payload);
    if (redisAppendCommandArgv(redis->context, (int)count, redis->arguments,
                               redis->argument_sizes) != REDIS_OK)
        /* hiredis may be in an undefined state, so redis_wait ends the connection */
        redis->is_lost = true;
    redis->ring[redis->tail++ & (redis->capacity - 1)] = ticket;
    return true;
}

/* Sets the outcome of the oldest message by its reply. WRONGTYPE means that the key has another
 * type, which is permanent. Other errors may pass: the server is loading its data, is out of
 * memory, cannot write, or refuses the user. */
static void redis_settle(struct redis *redis, const redisReply *reply)
{
    uint64_t ticket = redis->ring[redis->head++ & (redis->capacity - 1)];
    struct broker_sink *sink = redis->settings->sink;

    if (reply->type != REDIS_REPLY_ERROR) {
        broker_outcome(sink, ticket, DELIVERY_DONE, "");
        return;
    }
    broker_outcome(sink, ticket,
                   strncmp(reply->str, "WRONGTYPE", 9) == 0 ? DELIVERY_ENDED : DELIVERY_FAILED,
                   reply->str);
    /* The server has become a replica. Its host name may lead to another server by now, so the
     * connection is closed. */
    if (strncmp(reply->str, "READONLY", 8) == 0) {
        redis->is_lost = true;
        redis->context->err = REDIS_ERR_OTHER;
        snprintf(redis->context->errstr, sizeof(redis->context->errstr), "it is a replica now");
    }
}

static bool redis_receive(struct redis *redis)
{
    if (redisBufferRead(redis->context) != REDIS_OK)
        return false;
    for (;;) {
        void *reply;
        if (redisGetReplyFromReader(redis->context, &reply) != REDIS_OK)
            return false;
        if (!reply)
            return true;
        if (redis->head != redis->tail)
            redis_settle(redis, reply);
        freeReplyObject(reply);
        if (redis->is_lost)
            return false;
    }
}

static enum error_code redis_wait(void *client, int wake_fd, int timeout_ms,
                                  struct error *ret_error)
{
    struct redis *redis = client;
    struct pollfd polled[2] = {{.fd = wake_fd, .events = POLLIN},
                               {.fd = redis->context->fd, .events = POLLIN}};

    if (redis->is_lost)
        return redis_lost(redis, ret_error);
    int is_written = 0;
    if (redisBufferWrite(redis->context, &is_written) != REDIS_OK)
        return redis_lost(redis, ret_error);
    if (!is_written)
        polled[1].events |= POLLOUT;
    if (poll(polled, 2, timeout_ms) < 0 && errno != EINTR)
        return error_set(ret_error, ERROR_IO, "the system refuses to wait");
    if ((polled[1].revents & ~POLLOUT) && !redis_receive(redis))
        return redis_lost(redis, ret_error);
    return ERROR_NONE;
}

const struct broker_backend broker_redis = {
    .scheme = "redis",
    .version = redis_version,
    .refusal = redis_refusal,
    .create = redis_create,
    .connect = redis_connect_to_server,
    .publish = redis_publish,
    .wait = redis_wait,
    .disconnect = redis_disconnect,
    .destroy = redis_destroy,
};
