/* Connections to plain http targets: a pool by origin, one request at a time on each. */
#include "delivery/webhook_direct.h"

#include "delivery/lapse.h"
#include "delivery/webhook_answer.h"
#include "delivery/webhook_origin.h"
#include "sys/clock.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <tickwheel/wheel.h>
#include <unistd.h>

/*
 * A connection is in one of two lists: `busy` with its delivery, or `idle`, where it waits for the
 * next one of its origin, or for its end. The loop always watches for bytes, so a kept-alive
 * connection costs no system call but to send and to receive, and one look before it is used again:
 * bytes that came unasked would be taken for the next answer.
 */

#define READ_BYTES  16384
#define IDLE_MS_MAX 118000 /* idle time after which a connection is closed; as long as libcurl's */
#define TICK_NS     1000000
#define EXPIRED_MAX 64

enum webhook_connection_phase { CONNECTION_OPENS, CONNECTION_BUSY, CONNECTION_IDLE };

struct webhook_connection {
    struct event_source source;
    struct list link;        /* in `busy`, or in `idle`, where the longest idle is first */
    struct list origin_link; /* in the `idle` list of its origin, or in no list */
    struct webhook_direct *direct;
    struct webhook_origin *origin;
    int fd; /* -1 if closed */
    enum webhook_connection_phase phase;
    struct sockaddr_storage address;
    bool is_named;            /* the target has a name, whose address libcurl resolved */
    bool is_reused;           /* the connection was kept alive, so the server may have closed it */
    uint32_t requests;        /* requests sent over this socket, including the present one */
    struct instant opened_at; /* time of connect() */
    bool has_answer;          /* the answer was complete before the request was sent */
    tw_handle timer; /* in `wheel`: time-out of the attempt, or time to close an idle connection */
    /* Delivery in flight; NULL if none. */
    struct delivery *delivery;
    struct target_ticket ticket;
    struct webhook_attempt attempt;
    struct instant ends_at; /* time-out of the attempt */
    struct webhook_request request;
    /* headers that go before and after those of `request`, as libcurl would add them */
    struct buffer frame;
    size_t frame_start_size;
    size_t sent; /* number of bytes of the request that were sent */
    struct webhook_answer answer;
};

struct webhook_direct {
    struct webhook_direct_options options;
    struct webhook_origins origins;
    struct list busy, idle;
    size_t flying;          /* number of deliveries in flight */
    size_t open;            /* number of open connections */
    struct tw_wheel *wheel; /* time-outs, in milliseconds of the monotonic clock */
    char read[READ_BYTES];
};

static uint64_t webhook_direct_tick(struct instant instant)
{
    return instant.ns / TICK_NS + (instant.ns % TICK_NS != 0);
}

struct webhook_direct *webhook_direct_create(const struct webhook_direct_options *options)
{
    struct webhook_direct *direct = calloc(1, sizeof(*direct));

    if (!direct)
        return NULL;
    direct->options = *options;
    list_init(&direct->busy);
    list_init(&direct->idle);
    direct->wheel =
        tw_wheel_create(&(struct tw_wheel_options){.start = instant_now().ns / TICK_NS});
    if (webhook_origins_init(&direct->origins, options->connections_max) == ERROR_NONE &&
        direct->wheel)
        return direct;
    webhook_direct_destroy(direct);
    return NULL;
}

/* ---- connections ---- */

static void webhook_connection_close(struct webhook_connection *connection)
{
    struct webhook_direct *direct = connection->direct;

    if (connection->fd < 0)
        return;
    event_loop_close(direct->options.loop, connection->fd, &connection->source);
    connection->fd = -1;
}

static void webhook_connection_destroy(struct webhook_connection *connection)
{
    struct webhook_direct *direct = connection->direct;
    struct webhook_origin *origin = connection->origin;

    assert(!connection->delivery);
    webhook_connection_close(connection);
    list_remove(&connection->link);
    list_remove(&connection->origin_link);
    tw_wheel_close(direct->wheel, connection->timer);
    webhook_request_deinit(&connection->request);
    buffer_deinit(&connection->frame);
    webhook_answer_deinit(&connection->answer);
    free(connection);
    direct->open--;
    origin->connection_count--;
    webhook_origin_release(&direct->origins, origin);
}

/* Makes a connection that is in no list and has no socket. Returns NULL if out of memory. */
static struct webhook_connection *webhook_connection_create(struct webhook_direct *direct,
                                                            const struct timer *timer)
{
    struct webhook_origin *origin = webhook_origin_get(&direct->origins, timer);

    if (!origin)
        return NULL;
    struct webhook_connection *connection = calloc(1, sizeof(*connection));
    tw_handle handle =
        connection ? tw_wheel_open(direct->wheel, (uint64_t)(uintptr_t)connection) : TW_NONE;
    if (handle == TW_NONE) {
        free(connection);
        webhook_origin_release(&direct->origins, origin);
        return NULL;
    }
    list_init(&connection->link);
    list_init(&connection->origin_link);
    webhook_request_init(&connection->request);
    buffer_init(&connection->frame);
    webhook_answer_init(&connection->answer);
    connection->direct = direct;
    connection->origin = origin;
    connection->fd = -1;
    connection->timer = handle;
    origin->connection_count++;
    direct->open++;
    return connection;
}

/* True if the connection is below its limits of age and requests. */
static bool webhook_connection_is_fresh(const struct webhook_connection *connection,
                                        struct instant now)
{
    const struct webhook_settings *settings = connection->direct->options.settings;

    return connection->requests < settings->connection_requests_max &&
           instant_since_ns(connection->opened_at, now) <
               settings->connection_age_ms_max * UINT64_C(1000000);
}

/* Sets the time at which an idle connection is closed, by its maximum age or idle time. */
static void webhook_connection_arm_idle(struct webhook_connection *connection, struct instant now)
{
    const struct webhook_settings *settings = connection->direct->options.settings;
    const struct instant old =
        instant_add_ms(connection->opened_at, settings->connection_age_ms_max);
    const struct instant unused = instant_add_ms(now, IDLE_MS_MAX);

    tw_wheel_arm(connection->direct->wheel, connection->timer,
                 webhook_direct_tick(old.ns < unused.ns ? old : unused));
}

static void webhook_connection_rest(struct webhook_connection *connection)
{
    struct webhook_direct *direct = connection->direct;

    connection->phase = CONNECTION_IDLE;
    webhook_connection_arm_idle(connection, instant_now());
    list_remove(&connection->link);
    list_push(&direct->idle, &connection->link);
    list_push_front(&connection->origin->idle, &connection->origin_link);
}

/* Ends the delivery with a result of libcurl's codes. */
static void webhook_connection_end(struct webhook_connection *connection, CURLcode result)
{
    struct webhook_direct *direct = connection->direct;
    struct webhook_attempt *attempt = &connection->attempt;
    struct delivery *delivery = connection->delivery;
    const struct webhook_answer *answer = &connection->answer;
    const struct target_ticket ticket = connection->ticket;

    attempt->result = result;
    attempt->was_kept = connection->is_reused;
    attempt->has_answer = answer->has_status;
    attempt->status = answer->status;
    attempt->retry_after = webhook_answer_retry_after(answer);
    attempt->answers_later = answer->has_status && answer->answers_later;
    delivery->ended_us = wall_now_us();
    webhook_request_hide(&connection->request, delivery);
    webhook_outcome_set(&delivery->outcome, attempt);
    if (attempt->has_lapsed)
        delivery_return(delivery);
    const struct target_verdict verdict = webhook_outcome_verdict(attempt);
    connection->delivery = NULL;
    direct->flying--;
    tw_wheel_disarm(direct->wheel, connection->timer);
    if (result == CURLE_OK && answer->keeps && !connection->has_answer &&
        webhook_connection_is_fresh(connection, instant_now()))
        webhook_connection_rest(connection);
    else
        webhook_connection_destroy(connection);
    direct->options.ended(direct->options.context, delivery, &ticket, verdict);
}

/* ---- the request ---- */

static void webhook_connection_append(struct webhook_connection *connection, struct bytes text)
{
    buffer_append_bytes(&connection->frame, text);
}

/* Writes the request line and the headers that libcurl would put first, then those that it would
 * put last. A "User-Agent" or "Accept" of the timer replaces that of the service. */
static void webhook_connection_frame(struct webhook_connection *connection,
                                     const struct timer *timer)
{
    const struct bytes text = timer->texts.target;
    const struct bytes path = {text.data + timer->target.origin_size,
                               text.size - timer->target.origin_size};

    buffer_clear(&connection->frame);
    webhook_connection_append(connection, bytes_of(webhook_request_method(timer)));
    webhook_connection_append(connection, BYTES(" "));
    if (path.size == 0 || path.data[0] != '/')
        webhook_connection_append(connection, BYTES("/"));
    webhook_connection_append(connection, path);
    webhook_connection_append(connection, BYTES(" HTTP/1.1\r\nHost: "));
    webhook_connection_append(connection, target_slice(text, timer->target.name));
    if (timer->target.port != 80) {
        webhook_connection_append(connection, BYTES(":"));
        buffer_append_u64(&connection->frame, timer->target.port);
    }
    webhook_connection_append(connection, BYTES("\r\n"));
    if (!webhook_request_has_own(timer, "user-agent")) {
        webhook_connection_append(connection, BYTES("User-Agent: "));
        buffer_append_text(&connection->frame, connection->direct->options.settings->user_agent);
        webhook_connection_append(connection, BYTES("\r\n"));
    }
    if (!webhook_request_has_own(timer, "accept"))
        webhook_connection_append(connection, BYTES("Accept: */*\r\n"));
    connection->frame_start_size = connection->frame.size;
    if (webhook_request_has_body(timer)) {
        webhook_connection_append(connection, BYTES("Content-Length: "));
        buffer_append_u64(&connection->frame, timer->texts.payload.size);
        webhook_connection_append(connection, BYTES("\r\n"));
    }
    webhook_connection_append(connection, BYTES("\r\n"));
}

/* Builds the request. Returns false if out of memory. */
static bool webhook_connection_build(struct webhook_connection *connection)
{
    const struct webhook_settings *settings = connection->direct->options.settings;
    const struct delivery *delivery = connection->delivery;
    const struct webhook_envelope envelope = {
        .signature = webhook_signature_of(settings, delivery),
        .issuer = settings->issuer,
        .bearer = named_bearer_of(delivery),
        .audience = named_audience_of(delivery),
        .event_source = settings->event_source,
        .ack_url = *delivery->ack_token ? settings->ack_url : NULL,
        .now_s = wall_machine_now_us() / 1000000,
        .trace = webhook_request_trace(delivery, settings->trace_high, settings->trace_low),
    };

    webhook_connection_frame(connection, delivery_sent(delivery));
    return !buffer_failed(&connection->frame) &&
           webhook_request_build(&connection->request, delivery, &envelope) == ERROR_NONE;
}

/* Sets the parts of the request that have not been sent. Returns their number. */
static size_t webhook_connection_unsent(const struct webhook_connection *connection,
                                        struct iovec ret_parts[4])
{
    const size_t start_size = connection->frame_start_size;
    const char *frame = connection->frame.data;
    const struct bytes parts[] = {{frame, start_size},
                                  webhook_request_lines(&connection->request),
                                  {frame + start_size, connection->frame.size - start_size},
                                  delivery_sent(connection->delivery)->texts.payload};
    size_t skipped = connection->sent, count = 0;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (skipped >= parts[i].size) {
            skipped -= parts[i].size;
            continue;
        }
        ret_parts[count++] =
            (struct iovec){(char *)(uintptr_t)parts[i].data + skipped, parts[i].size - skipped};
        skipped = 0;
    }
    return count;
}

static bool webhook_connection_watch(struct webhook_connection *connection, uint32_t events)
{
    return event_loop_watch(connection->direct->options.loop, connection->fd, &connection->source,
                            events);
}

static void webhook_connection_reopen(struct webhook_connection *connection);

/* If a kept-alive connection was closed before any byte of the request was sent, sends the request
 * over a new one and returns true. Otherwise the server may have read the request, so this attempt
 * must not send it again. */
static bool webhook_connection_repeats(struct webhook_connection *connection)
{
    if (!connection->is_reused || connection->sent > 0 || connection->answer.has_bytes)
        return false;
    webhook_connection_close(connection);
    webhook_connection_reopen(connection);
    return true;
}

static void webhook_connection_keep_body(void *context, struct bytes piece)
{
    struct webhook_connection *connection = context;

    webhook_outcome_keep(connection->delivery, piece,
                         connection->direct->options.settings->answer_bytes);
}

static void webhook_connection_read(struct webhook_connection *connection);

static void webhook_connection_send(struct webhook_connection *connection)
{
    struct iovec parts[4];

    if (connection->sent == 0 && delivery_has_lapsed(connection->delivery)) {
        connection->attempt.has_lapsed = true;
        webhook_connection_end(connection, CURLE_ABORTED_BY_CALLBACK);
        return;
    }
    size_t count = webhook_connection_unsent(connection, parts);
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    ssize_t sent = sendmsg(connection->fd, &message, MSG_NOSIGNAL);

    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        if (connection->has_answer)
            webhook_connection_end(connection, CURLE_OK);
        else if (errno == EPIPE || errno == ECONNRESET)
            webhook_connection_read(connection); /* the server may have answered before it closed */
        else
            webhook_connection_end(connection, CURLE_SEND_ERROR);
        return;
    }
    connection->sent += sent > 0 ? (size_t)sent : 0;
    size_t left = 0;
    for (size_t i = 0; i < count; i++)
        left += parts[i].iov_len;
    const bool is_sent = sent >= 0 && (size_t)sent == left;
    if (is_sent && connection->has_answer)
        webhook_connection_end(connection, CURLE_OK);
    else if (!webhook_connection_watch(connection, is_sent ? EPOLLIN : EPOLLIN | EPOLLOUT))
        webhook_connection_end(connection, CURLE_SEND_ERROR);
}

/* ---- the answer ---- */

/* Handles an answer that is complete before the request is sent. A refusal ends the request; any
 * other answer takes effect when the request is sent. The connection is not used again. */
static void webhook_connection_answered(struct webhook_connection *connection)
{
    struct iovec unused[4];

    if (webhook_connection_unsent(connection, unused) > 0) {
        connection->has_answer = true;
        if (connection->answer.status < 400 && webhook_connection_watch(connection, EPOLLOUT))
            return;
    }
    webhook_connection_end(connection, CURLE_OK);
}

static void webhook_connection_closed(struct webhook_connection *connection)
{
    if (!webhook_connection_repeats(connection))
        webhook_connection_end(connection, CURLE_GOT_NOTHING);
}

static void webhook_connection_read(struct webhook_connection *connection)
{
    struct webhook_direct *direct = connection->direct;
    ssize_t got = recv(connection->fd, direct->read, sizeof(direct->read), 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        webhook_connection_closed(connection);
        return;
    }
    switch (webhook_answer_read(&connection->answer, (struct bytes){direct->read, (size_t)got})) {
    case WEBHOOK_ANSWER_MORE:
        return;
    case WEBHOOK_ANSWER_OVER:
        webhook_connection_answered(connection);
        return;
    case WEBHOOK_ANSWER_NOT_HTTP:
        webhook_connection_end(connection, CURLE_WEIRD_SERVER_REPLY);
        return;
    case WEBHOOK_ANSWER_TOO_LONG:
        webhook_connection_end(connection, CURLE_WRITE_ERROR);
        return;
    case WEBHOOK_ANSWER_NO_MEMORY:
        break;
    }
    webhook_connection_end(connection, CURLE_OUT_OF_MEMORY);
}

/* ---- opening ---- */

/* Sets the time-outs. That of the attempt counts from the attempt's begin, that of connecting from
 * now. */
static void webhook_connection_arm(struct webhook_connection *connection, struct instant until)
{
    if (until.ns > connection->ends_at.ns)
        until = connection->ends_at;
    tw_wheel_arm(connection->direct->wheel, connection->timer, webhook_direct_tick(until));
}

static void webhook_connection_connected(struct webhook_connection *connection)
{
    connection->phase = CONNECTION_BUSY;
    connection->attempt.is_connected = true;
    webhook_connection_arm(connection, connection->ends_at);
    webhook_connection_send(connection);
}

/* Opens a socket. Returns false, with errno, if the system has none. */
static bool webhook_connection_socket(struct webhook_connection *connection)
{
    const int one = 1;
    int fd = socket(connection->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    IPPROTO_TCP);

    if (fd < 0)
        return false;
    connection->fd = fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return true;
}

/* Handles an address that cannot be reached. A learned address is dropped, because libcurl may
 * resolve another one. */
static void webhook_connection_unreachable(struct webhook_connection *connection)
{
    struct webhook_direct *direct = connection->direct;
    struct delivery *delivery = connection->delivery;
    const struct target_ticket ticket = connection->ticket;
    const uint64_t left_ms = instant_since_ns(instant_now(), connection->ends_at) / 1000000;

    if (!connection->is_named) {
        webhook_connection_end(connection, CURLE_COULDNT_CONNECT);
        return;
    }
    connection->delivery = NULL;
    direct->flying--;
    webhook_origin_unlearn(&direct->origins, connection->origin);
    webhook_connection_destroy(connection);
    direct->options.passed(direct->options.context, delivery, &ticket, left_ms);
}

/* Opens a connection to the address that was checked. No other function opens one. */
static void webhook_connection_open(struct webhook_connection *connection)
{
    const struct webhook_settings *settings = connection->direct->options.settings;
    const struct sockaddr *address = (const struct sockaddr *)&connection->address;
    struct webhook_attempt *attempt = &connection->attempt;

    connection->is_reused = false;
    connection->sent = 0;
    connection->requests = 1;
    connection->opened_at = instant_now();
    attempt->refused_kind = guard_refusal(settings->guard, address);
    if (!attempt->refused_kind && !webhook_connection_socket(connection))
        attempt->open_errno = errno;
    if (attempt->refused_kind || attempt->open_errno) {
        webhook_connection_unreachable(connection);
        return;
    }
    connection->phase = CONNECTION_OPENS;
    webhook_connection_arm(connection, instant_add_ms(instant_now(), settings->connect_timeout_ms));
    const socklen_t size =
        address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (connect(connection->fd, address, size) == 0) {
        webhook_connection_connected(connection);
    } else if (errno != EINPROGRESS || !webhook_connection_watch(connection, EPOLLOUT)) {
        attempt->connect_errno = errno;
        webhook_connection_unreachable(connection);
    }
}

static void webhook_connection_reopen(struct webhook_connection *connection)
{
    const struct webhook_origin *origin = connection->origin;

    if (connection->is_named && !webhook_origin_is_fresh(origin, instant_now())) {
        webhook_connection_unreachable(connection);
        return;
    }
    if (connection->is_named)
        connection->address = origin->address;
    webhook_connection_open(connection);
}

static void webhook_connection_try(struct webhook_connection *connection)
{
    int error = 0;
    socklen_t size = sizeof(error);

    getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) {
        webhook_connection_connected(connection);
        return;
    }
    connection->attempt.connect_errno = error;
    webhook_connection_unreachable(connection);
}

static void webhook_connection_ready(struct event_source *source, uint32_t events)
{
    struct webhook_connection *connection = list_item(source, struct webhook_connection, source);

    if (connection->phase == CONNECTION_IDLE)
        /* the connection was closed, or has received bytes without a request */
        webhook_connection_destroy(connection);
    else if (connection->phase == CONNECTION_OPENS)
        webhook_connection_try(connection);
    else if (!connection->has_answer && events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        webhook_connection_read(connection);
    else
        webhook_connection_send(connection);
}

/* True if an idle connection can be used. It must not be closed, nor have received bytes, which
 * would be taken for the answer. */
static bool webhook_connection_is_quiet(const struct webhook_connection *connection,
                                        struct instant now)
{
    char byte;

    return webhook_connection_is_fresh(connection, now) &&
           recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* Returns an idle connection to the timer's origin; NULL if there is none. */
static struct webhook_connection *webhook_direct_idle(struct webhook_direct *direct,
                                                      const struct timer *timer, struct instant now)
{
    const struct webhook_origin *origin = webhook_origin_find(&direct->origins, timer);
    size_t count = origin ? origin->connection_count : 0;

    for (; count > 0 && !list_is_empty(&origin->idle); count--) {
        struct webhook_connection *connection =
            list_item(origin->idle.next, struct webhook_connection, origin_link);

        if (webhook_connection_is_quiet(connection, now)) {
            list_remove(&connection->origin_link);
            list_remove(&connection->link);
            return connection;
        }
        /* destroying the last connection also frees the origin */
        webhook_connection_destroy(connection);
    }
    return NULL;
}

/* ---- the client ---- */

void webhook_direct_learn(struct webhook_direct *direct, const struct timer *timer,
                          const char *address)
{
    webhook_origins_learn(&direct->origins, timer, address, instant_now());
}

void webhook_direct_make_room(struct webhook_direct *direct, size_t others)
{
    while (direct->open + others > direct->options.connections_max && !list_is_empty(&direct->idle))
        webhook_connection_destroy(list_item(direct->idle.next, struct webhook_connection, link));
}

/* Gives the connection a delivery. Returns false if out of memory. */
static bool webhook_connection_load(struct webhook_connection *connection,
                                    struct delivery *delivery, const struct target_ticket *ticket,
                                    struct instant now)
{
    struct webhook_direct *direct = connection->direct;
    const uint64_t timeout_ms = delivery_sent(delivery)->retry.timeout_ms;

    delivery->started_us = delivery->ended_us = wall_now_us();
    delivery->outcome.error[0] = '\0';
    connection->delivery = delivery;
    connection->ticket = *ticket;
    connection->sent = 0;
    connection->has_answer = false;
    connection->ends_at = instant_add_ms(now, timeout_ms > 0 ? timeout_ms : 1);
    connection->attempt = (struct webhook_attempt){
        .may_wait = *delivery->ack_token,
        .is_resolved = true,
        .timeout_ms = timeout_ms,
        .connect_timeout_ms = direct->options.settings->connect_timeout_ms,
    };
    webhook_answer_begin(&connection->answer, direct->options.settings->response_bytes_max);
    if (direct->options.settings->answer_bytes > 0) {
        connection->answer.take_body = webhook_connection_keep_body;
        connection->answer.context = connection;
    }
    list_push(&direct->busy, &connection->link);
    direct->flying++;
    return webhook_connection_build(connection);
}

/* Makes a connection to the target, which is in no list yet. Returns NULL if its address is
 * unknown, the limit of connections is reached, or memory is out. */
static struct webhook_connection *webhook_direct_connect(struct webhook_direct *direct,
                                                         const struct timer *timer, size_t others,
                                                         struct instant now)
{
    struct sockaddr_storage address;
    const bool is_named = !webhook_target_address(timer, &address);

    if (is_named) {
        const struct webhook_origin *origin = webhook_origin_find(&direct->origins, timer);

        if (!origin || !webhook_origin_is_fresh(origin, now))
            return NULL;
        address = origin->address;
    }
    webhook_direct_make_room(direct, others + 1);
    if (direct->open + others >= direct->options.connections_max)
        return NULL;
    struct webhook_connection *connection = webhook_connection_create(direct, timer);
    if (connection) {
        connection->address = address;
        connection->is_named = is_named;
        connection->source.ready = webhook_connection_ready;
    }
    return connection;
}

bool webhook_direct_begin(struct webhook_direct *direct, struct delivery *delivery,
                          const struct target_ticket *ticket, size_t others)
{
    const struct instant now = instant_now();

    if (delivery_sent(delivery)->target.kind != TARGET_HTTP)
        return false;
    struct webhook_connection *connection =
        webhook_direct_idle(direct, delivery_sent(delivery), now);
    const bool is_reused = connection != NULL;
    if (!is_reused)
        connection = webhook_direct_connect(direct, delivery_sent(delivery), others, now);
    if (!connection)
        return false;
    connection->is_reused = is_reused;
    connection->requests += is_reused;
    if (!webhook_connection_load(connection, delivery, ticket, now))
        webhook_connection_end(connection, CURLE_OUT_OF_MEMORY);
    else if (is_reused)
        webhook_connection_connected(connection);
    else
        webhook_connection_open(connection);
    return true;
}

void webhook_direct_turn(struct webhook_direct *direct, struct instant now)
{
    struct tw_expired due[EXPIRED_MAX];
    size_t count;

    while ((count = tw_wheel_expire(direct->wheel, now.ns / TICK_NS, due, EXPIRED_MAX)) > 0)
        for (size_t i = 0; i < count; i++) {
            struct webhook_connection *connection =
                (struct webhook_connection *)(uintptr_t)due[i].data;

            if (connection->phase == CONNECTION_IDLE)
                webhook_connection_destroy(connection);
            else
                webhook_connection_end(connection, CURLE_OPERATION_TIMEDOUT);
        }
    webhook_origins_expire(&direct->origins, now);
}

struct instant webhook_direct_wake_at(const struct webhook_direct *direct)
{
    const uint64_t tick = tw_wheel_wake_at(direct->wheel);

    return (struct instant){tick > UINT64_MAX / TICK_NS ? UINT64_MAX : tick * TICK_NS};
}

void webhook_direct_abort(struct webhook_direct *direct, const char *error)
{
    struct list *link;

    while ((link = list_pop(&direct->busy))) {
        struct webhook_connection *connection = list_item(link, struct webhook_connection, link);
        struct delivery *delivery = connection->delivery;
        const struct target_ticket ticket = connection->ticket;

        webhook_outcome_fail(&delivery->outcome, DELIVERY_FAILED, error);
        delivery->ended_us = wall_now_us();
        connection->delivery = NULL;
        direct->flying--;
        webhook_connection_destroy(connection);
        direct->options.ended(direct->options.context, delivery, &ticket, TARGET_VERDICT_UNKNOWN);
    }
}

void webhook_direct_destroy(struct webhook_direct *direct)
{
    if (!direct)
        return;
    assert(direct->flying == 0);
    struct list *link;
    while ((link = list_pop(&direct->idle)))
        webhook_connection_destroy(list_item(link, struct webhook_connection, link));
    webhook_origins_deinit(&direct->origins);
    tw_wheel_destroy(direct->wheel);
    free(direct);
}

size_t webhook_direct_flying(const struct webhook_direct *direct)
{
    return direct->flying;
}

size_t webhook_direct_open(const struct webhook_direct *direct)
{
    return direct->open;
}
