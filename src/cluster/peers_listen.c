/* peers_listen.c - messages of other nodes: proven, taken apart, and answered when all of their
 * commands are. */
#include "cluster/peers_private.h"

#include <stdlib.h>

enum {
    LISTEN_CONNECTIONS = PEERS_NODES_MAX * PEERS_LANES_ALL * 2, /* maximum of proved connections */
    LISTEN_HEAD_SIZE = 8192,
    LISTEN_IDLE_MS = 60000,
    LISTEN_DRAIN_MS = 1000,
};

struct listen_command {
    struct peers_job job;
    struct listen_message *message;
    struct buffer answer;
    bool is_elsewhere;
};

/* A request to the internal listener. */
struct listen_message {
    struct http_request *http;
    struct peers *peers;
    struct buffer body;
    size_t counted; /* part of its size that is counted in peers->inbound */
    unsigned key;   /* number of the secret of its proof, and of the answer's */
    struct listen_command *jobs;
    char *room; /* memory of the host for each job */
    uint32_t count;
    atomic_size_t missing; /* unanswered jobs, plus one until all are submitted */
    struct peers_ask ask;  /* if it asks for a page of a copy */
};

static void listen_answer_status(struct http_request *request, int status)
{
    struct http_response response = {.status = status};

    http_request_answer(request, &response);
}

/* ---- the body ---- */

/* Returns the size that counts in peers->inbound; 0 for a connection without a proof. */
static size_t listen_counted(const struct http_request *request)
{
    return http_request_is_vouched(request) ? (size_t)http_request_content_length(request) : 0;
}

static bool listen_takes(struct http_request *request, struct peers *peers, int *ret_status)
{
    const uint64_t length = http_request_content_length(request);
    const uint64_t length_max = http_request_is_vouched(request)
                                    ? WIRE_MESSAGE_SIZE_MAX + PEERS_MAC_SIZE
                                    : PEERS_STRANGER_SIZE_MAX;

    *ret_status = 404;
    if (!bytes_equal(http_request_target(request), BYTES(PEERS_PATH)) ||
        !bytes_equal(http_request_method(request), BYTES("POST")))
        return false;
    *ret_status = 413;
    if (length < PEERS_MAC_SIZE || length > length_max)
        return false;
    *ret_status = 503;
    const size_t counted = listen_counted(request);
    if (atomic_fetch_add(&peers->inbound, counted) + counted <= PEERS_INBOUND_MAX)
        return true;
    atomic_fetch_sub(&peers->inbound, counted);
    return false;
}

static void listen_begin(void *context, struct http_request *request)
{
    struct peers *peers = context;
    int status;

    if (!listen_takes(request, peers, &status)) {
        listen_answer_status(request, status);
        return;
    }
    struct listen_message *message = calloc(1, sizeof(*message));
    const size_t length = (size_t)http_request_content_length(request);
    if (message)
        *message = (struct listen_message){
            .http = request, .peers = peers, .counted = listen_counted(request)};
    if (!message || !buffer_reserve(&message->body, length)) {
        atomic_fetch_sub(&peers->inbound, listen_counted(request));
        free(message);
        listen_answer_status(request, 503);
        return;
    }
    http_request_set_user(request, message);
}

static size_t listen_body(struct http_request *request, struct bytes chunk)
{
    struct listen_message *message = http_request_user(request);

    buffer_append_bytes(&message->body, chunk);
    return chunk.size;
}

static void listen_closed(struct http_request *request)
{
    struct listen_message *message = http_request_user(request);

    if (!message)
        return;
    for (uint32_t i = 0; message->jobs && i < message->count; i++) {
        wire_command_deinit(&message->jobs[i].job.command);
        buffer_deinit(&message->jobs[i].answer);
    }
    atomic_fetch_sub(&message->peers->inbound, message->counted);
    free(message->jobs);
    free(message->room);
    buffer_deinit(&message->body);
    free(message);
}

static void listen_refuse(void *context, struct http_request *request, enum http_refusal refusal)
{
    (void)context;
    listen_answer_status(request, refusal == HTTP_REFUSED_MALFORMED ? 400 : 503);
}

/* ---- the answer ---- */

static bool listen_is_elsewhere(const struct listen_message *message)
{
    for (uint32_t i = 0; i < message->count; i++)
        if (!message->jobs[i].is_elsewhere)
            return false;
    return message->count > 0;
}

/* Encodes the answers of all commands. An answer that does not fit is replaced by a failure. */
static void listen_answer(struct listen_message *message)
{
    struct peers *peers = message->peers;
    const struct wire_head head = {WIRE_ANSWERS, peers->cluster, peers->id, message->count};
    struct http_response response = {.status = listen_is_elsewhere(message) ? 421 : 200,
                                     .content_type = "application/octet-stream"};
    struct buffer *out = &response.body;

    buffer_append(out, (char[PEERS_MAC_SIZE]){0}, PEERS_MAC_SIZE);
    const size_t begin = wire_begin(out, &head);
    size_t rest = message->count;
    for (uint32_t i = 0; i < message->count; i++) {
        struct listen_command *job = &message->jobs[i];

        rest--; /* each needs a little room even so */
        if (out->size + job->answer.size + 64 * (rest + 1) > WIRE_MESSAGE_SIZE_MAX ||
            buffer_failed(&job->answer))
            wire_put_answer(
                out, begin,
                &(struct wire_answer){WIRE_FAILED, wire_lost_answer(&job->job.command), 0},
                &job->job.command);
        else
            buffer_append_bytes(out, buffer_bytes(&job->answer));
    }
    wire_end(out, begin);
    const struct bytes answers = {out->data + PEERS_MAC_SIZE, out->size - PEERS_MAC_SIZE};
    /* Without a valid proof the connection ends, because the asker cannot trust the outcome. */
    if (!buffer_failed(out))
        (void)peers_mac(peers, message->key, PEERS_ANSWERS, (const uint8_t *)message->body.data,
                        answers, (uint8_t *)out->data);
    http_request_answer(message->http, &response);
}

static void listen_leave(struct listen_message *message)
{
    if (atomic_fetch_sub(&message->missing, 1) == 1)
        listen_answer(message);
}

static void listen_job_done(struct peers_job *done)
{
    struct listen_command *job = list_item(done, struct listen_command, job);

    wire_put_answer(&job->answer, 0, &(struct wire_answer){.fate = WIRE_ANSWERED}, &done->command);
    wire_command_given(&done->command);
    listen_leave(job->message);
}

/* ---- commands ---- */

static void listen_submit(struct listen_message *message)
{
    const struct peers_host *host = &message->peers->host;

    atomic_init(&message->missing, message->count + 1);
    for (uint32_t i = 0; i < message->count; i++) {
        struct listen_command *job = &message->jobs[i];
        struct wire_answer answer = {.fate = WIRE_ELSEWHERE};

        if (command_is_of_node(&job->job.command) ||
            host->is_here(host->context, job->job.command.partition, &answer.node)) {
            answer.fate = WIRE_FAILED;
            answer.error = host->submit(host->context, &job->job);
            if (!answer.error)
                continue; /* it may have been answered */
        }
        job->is_elsewhere = answer.fate == WIRE_ELSEWHERE;
        wire_put_answer(&job->answer, 0, &answer, &job->job.command);
        listen_leave(message);
    }
    listen_leave(message);
}

/* Decodes the commands of the message. */
static bool listen_take(struct listen_message *message, struct wire_reader *reader)
{
    const uint32_t count = reader->head.count;
    const size_t room = (message->peers->host.job_room + 15) & ~(size_t)15;

    if (count == 0 || count > PEERS_COMMANDS_MAX)
        return false;
    message->jobs = calloc(count, sizeof(*message->jobs));
    message->room = calloc(count, room ? room : 1);
    while (message->jobs && message->room && message->count < count) {
        struct listen_command *job = &message->jobs[message->count];

        if (!wire_take_command(reader, &job->job.command))
            return false;
        job->message = message;
        job->job.done = listen_job_done;
        job->job.room = message->room + message->count++ * room;
    }
    return message->count == count && wire_is_over(reader);
}

/* Takes a request for a page. Returns 0 if it is answered later; otherwise a status. */
static int listen_ask(struct listen_message *message, struct wire_reader *reader)
{
    message->ask.http = message->http;
    message->ask.asked = (const uint8_t *)message->body.data;
    message->ask.key = message->key;
    if (!copy_take_ask(reader, &message->ask.at))
        return 400;
    return peers_take_ask(message->peers, &message->ask) ? 0 : 503;
}

/* Answers a greeting, so that its sender knows that the connection is served. */
static void listen_greet(struct listen_message *message)
{
    struct peers *peers = message->peers;
    struct http_response response = {.status = 200, .content_type = "application/octet-stream"};

    peers_put_greeting(peers, message->key, PEERS_ANSWERS, (const uint8_t *)message->body.data,
                       &response.body);
    http_request_answer(message->http, &response);
}

static bool listen_is_kind(enum wire_kind kind)
{
    return kind == WIRE_COMMANDS || kind == WIRE_COPY_ASK || kind == WIRE_GREETING;
}

static void listen_end(struct http_request *request)
{
    struct listen_message *message = http_request_user(request);
    struct peers *peers = message->peers;
    const struct buffer *body = &message->body;
    const struct bytes bytes = {body->data + PEERS_MAC_SIZE, body->size - PEERS_MAC_SIZE};
    struct wire_reader reader;
    int status = 0;

    atomic_fetch_add(&peers->received, 1);
    if (!peers_is_proven(peers, (const uint8_t *)body->data, bytes, &message->key))
        status = 401;
    else if (wire_open(bytes, &reader, NULL) || !listen_is_kind(reader.head.kind))
        status = 400;
    else if (reader.head.cluster != peers->cluster)
        status = 409;
    else if (!http_request_vouch(request, NULL))
        status = 503;
    else if (reader.head.kind == WIRE_GREETING)
        status = wire_is_over(&reader) ? 0 : 400;
    else if (reader.head.kind == WIRE_COPY_ASK)
        status = listen_ask(message, &reader);
    else if (!listen_take(message, &reader))
        status = 400;
    if (status) {
        atomic_fetch_add(&peers->refused, 1);
        listen_answer_status(request, status);
    } else if (reader.head.kind == WIRE_COMMANDS) {
        listen_submit(message);
    } else if (reader.head.kind == WIRE_GREETING) {
        listen_greet(message);
    }
}

enum error_code peers_listen(struct peers *peers, const struct peers_options *options,
                             struct error *ret_error)
{
    static const struct http_handler handler = {.begin = listen_begin,
                                                .body = listen_body,
                                                .end = listen_end,
                                                .closed = listen_closed,
                                                .refuse = listen_refuse};
    const struct http_options http = {.address = options->address,
                                      .port = options->port,
                                      .threads = 1,
                                      .loops = peers->loops,
                                      .connections_max = LISTEN_CONNECTIONS,
                                      .strangers_max = PEERS_STRANGERS_MAX,
                                      .stranger_ms = PEERS_STRANGER_MS,
                                      .header_bytes_max = LISTEN_HEAD_SIZE,
                                      .idle_ms = LISTEN_IDLE_MS,
                                      .drain_ms = LISTEN_DRAIN_MS,
                                      .handler = &handler,
                                      .context = peers,
                                      .identity = options->identity};

    return http_server_start(&http, &peers->server, ret_error);
}
