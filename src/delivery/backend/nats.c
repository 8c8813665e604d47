/*
 * NATS JetStream by nats.c. A message is published with a reply subject that ends in the ticket,
 * and the stream confirms it by an acknowledgement to that subject. js_PublishAsync does the same,
 * but only a subscription of this file's own tells when its last callback has run. The header
 * Nats-Msg-Id is equal for all attempts, so that a stream drops repeats.
 *
 * nats.c has threads of its own. They only put answers into a mailbox, which the connection's
 * thread reads.
 */
#include "base/json.h"
#include "delivery/broker_backend.h"
#include "sys/mailbox.h"

#include <errno.h>
#include <nats/nats.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define SERVERS_MAX       16
#define PING_MS           10000
#define WRITE_DEADLINE_MS 15000

/* Error codes of an acknowledgement for which no later attempt can succeed. */
#define ERR_MESSAGE_TOO_LARGE 10054

struct answer {
    struct list link;
    uint64_t ticket;
    enum delivery_result result;
    char error[120];
};

struct nats {
    const struct broker_settings *settings;
    char servers[SERVERS_MAX][300]; /* URLs without user and password */
    int server_count;
    const char *credentials_file, *ca_file; /* "" if not configured */
    natsConnection *connection;
    natsSubscription *subscription;
    char inbox[64]; /* prefix of the reply subjects; ends with a dot */
    struct mailbox answers;
    pthread_mutex_t lock; /* guards the fields below, which nats.c's threads write */
    pthread_cond_t ended;
    bool is_closed;             /* nats.c has closed the connection for good */
    bool is_subscription_ended; /* the last callback of the subscription has run */
    struct list closed_message; /* put into `answers` by nats.c when the connection is closed */
};

static void nats_version(char ret_text[BROKER_VERSION_SIZE])
{
    snprintf(ret_text, BROKER_VERSION_SIZE, "nats.c %.32s", nats_GetVersion());
}

/* Returns why the subject is refused; NULL if it is accepted. It must have no wildcards, and not
 * begin with $, since such subjects are commands to the server. */
static const char *nats_refusal(const struct bytes names[], struct bytes key)
{
    struct bytes subject = names[0];

    if (key.data)
        return "may have no key: a subject has none";
    if (subject.size == 0 || subject.data[0] == '.' || subject.data[subject.size - 1] == '.')
        return "names no subject, or one with an empty part";
    if (subject.data[0] == '$')
        return "names a subject of the server's own";
    for (size_t i = 0; i < subject.size; i++) {
        if (strchr("*>", subject.data[i]))
            return "may have no wildcards";
        if ((unsigned char)subject.data[i] <= ' ' || subject.data[i] == 0x7f)
            return "may have no blanks and control characters";
        if (subject.data[i] == '.' && subject.data[i + 1] == '.')
            return "names a subject with an empty part";
    }
    return NULL;
}

/* ---- settings ---- */

static enum error_code nats_read_parameters(struct nats *nats, struct error *ret_error)
{
    const struct broker_url *url = nats->settings->url;

    nats->credentials_file = nats->ca_file = "";
    for (size_t i = 0; i < url->parameter_count; i++) {
        const struct broker_parameter *parameter = &url->parameters[i];

        if (strcmp(parameter->name, "creds") == 0)
            nats->credentials_file = parameter->value;
        else if (strcmp(parameter->name, "cacert") == 0)
            nats->ca_file = parameter->value;
        else
            return error_set(ret_error, ERROR_INVALID,
                             "%.40s: no such parameter; there are creds and cacert",
                             parameter->name);
    }
    return *url->path ? error_set(ret_error, ERROR_INVALID, "it may have no path") : ERROR_NONE;
}

static enum error_code nats_read_servers(struct nats *nats, struct error *ret_error)
{
    const char *at = nats->settings->url->hosts;

    while (*at) {
        size_t size = strcspn(at, ",");

        if (nats->server_count == SERVERS_MAX || size == 0 || size > 270)
            return error_set(ret_error, ERROR_INVALID, "it must name 1 to %d hosts", SERVERS_MAX);
        snprintf(nats->servers[nats->server_count++], sizeof(nats->servers[0]), "nats://%.*s",
                 (int)size, at);
        at += size + (at[size] == ',');
    }
    return ERROR_NONE;
}

static void nats_destroy(void *client)
{
    struct nats *nats = client;

    mailbox_deinit(&nats->answers);
    pthread_cond_destroy(&nats->ended);
    pthread_mutex_destroy(&nats->lock);
    free(nats);
}

static enum error_code nats_create(const struct broker_settings *settings, void **ret_client,
                                   struct error *ret_error)
{
    struct nats *nats = calloc(1, sizeof(*nats));

    if (!nats)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    if (mailbox_init(&nats->answers)) {
        free(nats);
        return error_set(ret_error, ERROR_IO, "no descriptor left");
    }
    pthread_mutex_init(&nats->lock, NULL);
    pthread_cond_init(&nats->ended, NULL);
    list_init(&nats->closed_message);
    nats->settings = settings;
    enum error_code code = nats_read_parameters(nats, ret_error);
    if (!code)
        code = nats_read_servers(nats, ret_error);
    if (code) {
        nats_destroy(nats);
        return code;
    }
    *ret_client = nats;
    return ERROR_NONE;
}

/* ---- on the threads of nats.c ---- */

static void nats_on_closed(natsConnection *connection, void *context)
{
    struct nats *nats = context;

    (void)connection;
    pthread_mutex_lock(&nats->lock);
    nats->is_closed = true;
    mailbox_post(&nats->answers, &nats->closed_message);
    pthread_cond_signal(&nats->ended);
    pthread_mutex_unlock(&nats->lock);
}

static void nats_on_subscription_ended(void *context)
{
    struct nats *nats = context;

    pthread_mutex_lock(&nats->lock);
    nats->is_subscription_ended = true;
    pthread_cond_signal(&nats->ended);
    pthread_mutex_unlock(&nats->lock);
}

static void nats_read_error(struct json_reader *reader, struct answer *answer)
{
    if (json_peek(reader) != JSON_OBJECT || !json_enter_object(reader))
        return;
    struct json_string name;
    uint64_t code = 0;
    size_t size = 0;
    while (json_next_member(reader, &name)) {
        enum json_type type = json_peek(reader);

        if (type == JSON_STRING && bytes_equal(name.raw, BYTES("description"))) {
            struct json_string text;
            if (json_read_string(reader, &text))
                json_string_decode(&text, answer->error, sizeof(answer->error) - 1, &size);
        } else if (type == JSON_NUMBER && bytes_equal(name.raw, BYTES("err_code"))) {
            struct bytes number;
            if (json_read_number(reader, &number))
                json_number_u64(number, &code);
        } else {
            json_skip(reader, NULL);
        }
    }
    answer->error[size] = '\0';
    answer->result = code == ERR_MESSAGE_TOO_LARGE ? DELIVERY_ENDED : DELIVERY_FAILED;
}

/* Parses {"stream": "S", "seq": 1} or {"error": {...}}. Returns false for any other text, such
 * as the answer of a service that also listens to the subject. */
static bool nats_read_acknowledgement(struct bytes text, struct answer *answer)
{
    struct json_reader reader;

    json_reader_init(&reader, text);
    if (json_peek(&reader) != JSON_OBJECT || !json_enter_object(&reader))
        return false;
    struct json_string name;
    bool has_error = false, has_sequence = false;
    while (json_next_member(&reader, &name)) {
        if (bytes_equal(name.raw, BYTES("error"))) {
            has_error = true;
            snprintf(answer->error, sizeof(answer->error), "the stream refused");
            answer->result = DELIVERY_FAILED;
            nats_read_error(&reader, answer);
            continue;
        }
        has_sequence = has_sequence || bytes_equal(name.raw, BYTES("seq"));
        json_skip(&reader, NULL);
    }
    if (!json_finish(&reader))
        return false;
    if (!has_error)
        answer->result = DELIVERY_DONE;
    return has_error || has_sequence;
}

static void nats_on_answer(natsConnection *connection, natsSubscription *subscription,
                           natsMsg *message, void *context)
{
    struct nats *nats = context;
    const char *subject = natsMsg_GetSubject(message);
    struct answer *answer = calloc(1, sizeof(*answer));

    (void)connection;
    (void)subscription;
    bool is_answer = false;
    if (answer && strlen(subject) > strlen(nats->inbox)) {
        answer->ticket = strtoull(subject + strlen(nats->inbox), NULL, 16);
        if (natsMsg_IsNoResponders(message)) {
            is_answer = true;
            answer->result = DELIVERY_FAILED;
            snprintf(answer->error, sizeof(answer->error), "no stream takes this subject");
        } else {
            is_answer = nats_read_acknowledgement(
                (struct bytes){natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message)},
                answer);
        }
    }
    natsMsg_Destroy(message);
    if (is_answer)
        mailbox_post(&nats->answers, &answer->link);
    else /* if memory is out, the message times out */
        free(answer);
}

/* ---- the connection ---- */

static void nats_take_answers(struct nats *nats, bool *ret_is_closed)
{
    struct list messages;

    list_init(&messages);
    mailbox_take(&nats->answers, &messages);
    struct list *link;
    while ((link = list_pop(&messages))) {
        if (link == &nats->closed_message) {
            *ret_is_closed = true;
            continue;
        }
        struct answer *answer = list_item(link, struct answer, link);
        broker_outcome(nats->settings->sink, answer->ticket, answer->result, answer->error);
        free(answer);
    }
}

static void nats_drop_answers(struct nats *nats)
{
    struct list messages;

    list_init(&messages);
    mailbox_take(&nats->answers, &messages);
    struct list *link;
    while ((link = list_pop(&messages)))
        if (link != &nats->closed_message)
            free(list_item(link, struct answer, link));
}

/* Closes the connection and waits for nats.c's last callback, because callbacks use memory of the
 * client. */
static void nats_disconnect(void *client)
{
    struct nats *nats = client;

    if (!nats->connection)
        return;
    natsConnection_Close(nats->connection);
    pthread_mutex_lock(&nats->lock);
    while (!nats->is_closed || (nats->subscription && !nats->is_subscription_ended))
        pthread_cond_wait(&nats->ended, &nats->lock);
    pthread_mutex_unlock(&nats->lock);
    natsSubscription_Destroy(nats->subscription);
    natsConnection_Destroy(nats->connection);
    nats->subscription = NULL;
    nats->connection = NULL;
    nats_drop_answers(nats);
}

static natsStatus nats_set_options(struct nats *nats, natsOptions *options)
{
    const struct broker_settings *settings = nats->settings;
    const struct broker_url *url = settings->url;
    const char *servers[SERVERS_MAX];

    for (int i = 0; i < nats->server_count; i++)
        servers[i] = nats->servers[i];
    natsStatus status = natsOptions_SetServers(options, servers, nats->server_count);
    if (status == NATS_OK && *url->password)
        status = natsOptions_SetUserInfo(options, url->user, url->password);
    else if (status == NATS_OK && *url->user)
        status = natsOptions_SetToken(options, url->user);
    if (status == NATS_OK && *nats->credentials_file)
        status = natsOptions_SetUserCredentialsFromFiles(options, nats->credentials_file, NULL);
    if (status == NATS_OK && strcmp(url->scheme, "tls") == 0)
        status = natsOptions_SetSecure(options, true);
    if (status == NATS_OK && *nats->ca_file)
        status = natsOptions_LoadCATrustedCertificates(options, nats->ca_file);
    if (status == NATS_OK)
        status = natsOptions_SetTimeout(options, (int64_t)settings->connect_timeout_ms);
    if (status == NATS_OK)
        status = natsOptions_SetName(options, settings->client_name);
    /* nats.c does not reconnect by itself: broker_connection.c does so for every kind of broker. */
    if (status == NATS_OK)
        status = natsOptions_SetAllowReconnect(options, false);
    if (status == NATS_OK)
        status = natsOptions_SetPingInterval(options, PING_MS);
    if (status == NATS_OK)
        status = natsOptions_SetWriteDeadline(options, WRITE_DEADLINE_MS);
    return status == NATS_OK ? natsOptions_SetClosedCB(options, nats_on_closed, nats) : status;
}

static natsStatus nats_subscribe(struct nats *nats)
{
    natsInbox *inbox = NULL;
    natsStatus status = natsInbox_Create(&inbox);

    if (status != NATS_OK)
        return status;
    snprintf(nats->inbox, sizeof(nats->inbox), "%.48s.", inbox);
    natsInbox_Destroy(inbox);
    char subject[sizeof(nats->inbox) + 1];
    snprintf(subject, sizeof(subject), "%s*", nats->inbox);
    status = natsConnection_Subscribe(&nats->subscription, nats->connection, subject,
                                      nats_on_answer, nats);
    if (status != NATS_OK)
        return status;
    status = natsSubscription_SetOnCompleteCB(nats->subscription, nats_on_subscription_ended, nats);
    /* if there is no subscription, no callback will report its end */
    nats->is_subscription_ended = status != NATS_OK;
    return status == NATS_OK ? natsSubscription_SetPendingLimits(nats->subscription, -1, -1)
                             : status;
}

static enum error_code nats_connect_to_server(void *client, struct error *ret_error)
{
    struct nats *nats = client;
    natsOptions *options = NULL;
    natsStatus status = natsOptions_Create(&options);

    nats->is_closed = nats->is_subscription_ended = false;
    if (status == NATS_OK)
        status = nats_set_options(nats, options);
    if (status == NATS_OK)
        status = natsConnection_Connect(&nats->connection, options);
    natsOptions_Destroy(options);
    if (status == NATS_OK)
        status = nats_subscribe(nats);
    if (status == NATS_OK)
        return ERROR_NONE;
    nats_disconnect(nats);
    return error_set(ret_error, ERROR_IO, "%s", natsStatus_GetText(status));
}

/* ---- messages ---- */

/* True for headers that control the stream, which a timer must not set. */
static bool nats_is_own_of_nats(const char *name)
{
    return strncasecmp(name, "nats-", 5) == 0;
}

static natsStatus nats_send(struct nats *nats, uint64_t ticket,
                            const struct broker_message *message)
{
    char reply[sizeof(nats->inbox) + 20];

    snprintf(reply, sizeof(reply), "%s%llx", nats->inbox, (unsigned long long)ticket);
    natsMsg *wrapped = NULL;
    natsStatus status = natsMsg_Create(&wrapped, message->names[0].data, reply,
                                       message->payload.data, (int)message->payload.size);
    if (status == NATS_OK)
        status = natsMsgHeader_Set(wrapped, "Nats-Msg-Id", message->id);
    for (size_t i = 0; i < message->field_count && status == NATS_OK; i++)
        if (!nats_is_own_of_nats(message->fields[i].name))
            status =
                natsMsgHeader_Set(wrapped, message->fields[i].name, message->fields[i].value.data);
    if (status == NATS_OK)
        status = natsConnection_PublishMsg(nats->connection, wrapped);
    natsMsg_Destroy(wrapped);
    return status;
}

static bool nats_publish(void *client, uint64_t ticket, const struct broker_message *message)
{
    struct nats *nats = client;
    natsStatus status = nats_send(nats, ticket, message);

    /* If the connection is closed, nats_wait reports that, which also ends this message. */
    if (status != NATS_OK && status != NATS_CONNECTION_CLOSED)
        broker_outcome(nats->settings->sink, ticket,
                       status == NATS_MAX_PAYLOAD ? DELIVERY_ENDED : DELIVERY_FAILED,
                       natsStatus_GetText(status));
    return true;
}

static enum error_code nats_wait(void *client, int wake_fd, int timeout_ms, struct error *ret_error)
{
    struct nats *nats = client;
    struct pollfd polled[2] = {{.fd = wake_fd, .events = POLLIN},
                               {.fd = mailbox_fd(&nats->answers), .events = POLLIN}};

    if (poll(polled, 2, timeout_ms) < 0 && errno != EINTR)
        return error_set(ret_error, ERROR_IO, "the system refuses to wait");
    bool is_closed = false;
    nats_take_answers(nats, &is_closed);
    if (!is_closed)
        return ERROR_NONE;
    const char *cause = NULL;
    natsConnection_GetLastError(nats->connection, &cause);
    return error_set(ret_error, ERROR_IO, "%.150s", cause && *cause ? cause : "it was closed");
}

const struct broker_backend broker_nats = {
    .scheme = "nats",
    .version = nats_version,
    .refusal = nats_refusal,
    .create = nats_create,
    .connect = nats_connect_to_server,
    .publish = nats_publish,
    .wait = nats_wait,
    .disconnect = nats_disconnect,
    .destroy = nats_destroy,
};
