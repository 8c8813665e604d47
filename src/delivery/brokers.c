/* The broker connections of the configuration: reads the setting, starts them, finds by name. */
#include "delivery/brokers.h"

#include "base/percent.h"

#include <assert.h>
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Time without an answer after which a connection is closed, in milliseconds. Every broker answers
 * sooner. */
#define SILENCE_MS 15000

struct brokers_member {
    struct list link; /* on the list of retired members */
    char name[BROKER_NAME_SIZE_MAX + 1];
    const struct broker_backend *backend;
    struct broker_url url;
    struct broker_connection *connection;
    bool is_exactly_once;
};

struct brokers {
    struct brokers_options options;
    pthread_rwlock_t lock; /* guards members and count */
    struct brokers_member *members[BROKERS_MAX];
    size_t count;
    /* members that a reload replaced; kept because a status may point to their name */
    struct list retired;
};

/* Kinds of broker whose client library was found by the build. */
const struct broker_backend *const broker_backends[] = {
#ifdef TICKWHEEL_WITH_REDIS
    &broker_redis,
#endif
#ifdef TICKWHEEL_WITH_NATS
    &broker_nats,
#endif
#ifdef TICKWHEEL_WITH_KAFKA
    &broker_kafka,
#endif
#ifdef TICKWHEEL_WITH_RABBITMQ
    &broker_rabbitmq,
#endif
#ifdef TICKWHEEL_WITH_POSTGRES
    &broker_postgres,
#endif
    NULL,
};

/* ---- the settings ---- */

/* Returns the backend for a scheme. The schemes amqps and tls only add that the connection is
 * encrypted; postgresql is another spelling. */
static const struct broker_backend *
brokers_find_backend(const struct broker_backend *const *backends, struct bytes scheme)
{
    if (bytes_equal(scheme, BYTES("amqps")))
        scheme = BYTES("amqp");
    else if (bytes_equal(scheme, BYTES("tls")))
        scheme = BYTES("nats");
    else if (bytes_equal(scheme, BYTES("postgresql")))
        scheme = BYTES("postgres");
    for (; *backends; backends++)
        if (bytes_equal(bytes_of((*backends)->scheme), scheme))
            return *backends;
    return NULL;
}

static bool brokers_is_name(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++)
        if (!isalnum((unsigned char)name.data[i]) && !strchr("-_.", name.data[i]))
            return false;
    return name.size > 0 && name.size <= BROKER_NAME_SIZE_MAX;
}

/* Checks whether the connection leads to the servers of the cluster's log, as its user: messages
 * that are sent exactly once go over the log's own connections. */
static enum error_code brokers_check_once(const struct brokers *brokers,
                                          const struct brokers_member *member,
                                          struct error *ret_error)
{
    const struct broker_url *url = &member->url;
    const char *cluster = brokers->options.cluster_brokers, *uri = brokers->options.cluster_log;
    const bool is_postgres = strcmp(member->backend->scheme, "postgres") == 0;
    struct broker_url own;

    if (is_postgres ? !uri || !*uri : !cluster || !*cluster)
        return error_set(ret_error, ERROR_INVALID, "%s: exactly_once needs a cluster %s",
                         member->name,
                         is_postgres ? "whose log is in this database: set cluster_log"
                                     : "on these brokers: set cluster_brokers");
    if (is_postgres &&
        (broker_url_parse(bytes_of(uri), &own, NULL) || !broker_url_is_equal(url, &own)))
        return error_set(ret_error, ERROR_INVALID,
                         "%s: exactly_once works in the database of the cluster's log only, as its "
                         "user: write the rest of the URL as cluster_log has it",
                         member->name);
    if (!is_postgres && strcmp(url->hosts, cluster) != 0)
        return error_set(ret_error, ERROR_INVALID,
                         "%s: exactly_once works on the brokers of the cluster only: write its "
                         "hosts as cluster_brokers has them",
                         member->name);
    if (!is_postgres && (*url->user || *url->password || url->parameter_count > 0))
        return error_set(ret_error, ERROR_INVALID,
                         "%s: with exactly_once it may have no user and no other parameter, as the "
                         "log of the cluster has none",
                         member->name);
    return ERROR_NONE;
}

/* Takes exactly_once out of the URL: it is none of the client library's parameters. */
static enum error_code brokers_take_once(const struct brokers *brokers,
                                         struct brokers_member *member, struct error *ret_error)
{
    char value[16];

    if (!broker_url_take(&member->url, "exactly_once", value))
        return ERROR_NONE;
    if (!member->backend->stage)
        return error_set(ret_error, ERROR_INVALID,
                         "%s: exactly_once is for the brokers or the database of a cluster's log",
                         member->name);
    member->is_exactly_once = strcmp(value, "true") == 0;
    if (!member->is_exactly_once && strcmp(value, "false") != 0)
        return error_set(ret_error, ERROR_INVALID, "%s: exactly_once: is true or false",
                         member->name);
    return member->is_exactly_once ? brokers_check_once(brokers, member, ret_error) : ERROR_NONE;
}

static struct brokers_member *brokers_find_member(const struct brokers *brokers, struct bytes name)
{
    for (size_t i = 0; i < brokers->count; i++)
        if (bytes_equal(bytes_of(brokers->members[i]->name), name))
            return brokers->members[i];
    return NULL;
}

/* Adds a member for one "NAME=URL". */
static enum error_code brokers_add_member(struct brokers *brokers, struct bytes part,
                                          struct error *ret_error)
{
    const char *equals = memchr(part.data, '=', part.size);
    struct bytes name = {part.data, equals ? (size_t)(equals - part.data) : 0};

    if (!brokers_is_name(name))
        return error_set(ret_error, ERROR_INVALID,
                         "connection %zu is not NAME=URL with a name of letters, digits, - _ and .",
                         brokers->count + 1);
    if (brokers_find_member(brokers, name))
        return error_set(ret_error, ERROR_INVALID, "%.*s: there are two of this name",
                         (int)name.size, name.data);
    if (brokers->count == BROKERS_MAX)
        return error_set(ret_error, ERROR_INVALID, "there are more than %d", BROKERS_MAX);
    struct brokers_member *member = calloc(1, sizeof(*member));
    if (!member)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    brokers->members[brokers->count++] = member;
    memcpy(member->name, name.data, name.size);
    struct error cause;
    if (broker_url_parse((struct bytes){equals + 1, part.size - name.size - 1}, &member->url,
                         &cause))
        return error_set(ret_error, ERROR_INVALID, "%s: %.200s", member->name, cause.text);
    member->backend = brokers_find_backend(brokers->options.backends, bytes_of(member->url.scheme));
    if (!member->backend)
        return error_set(ret_error, ERROR_INVALID,
                         "%s: %.16s: is no kind of broker that this program was built with; "
                         "--version lists them",
                         member->name, member->url.scheme);
    return brokers_take_once(brokers, member, ret_error);
}

static enum error_code brokers_add_members(struct brokers *brokers, struct error *ret_error)
{
    const char *at = brokers->options.connections;

    for (;;) {
        while (isspace((unsigned char)*at))
            at++;
        size_t size;
        for (size = 0; at[size] && !isspace((unsigned char)at[size]); size++)
            ;
        if (size == 0)
            return ERROR_NONE;
        enum error_code code = brokers_add_member(brokers, (struct bytes){at, size}, ret_error);
        if (code)
            return code;
        at += size;
    }
}

static void brokers_free_all(struct brokers *brokers)
{
    for (size_t i = 0; i < brokers->count; i++)
        free(brokers->members[i]);
    for (struct list *link; (link = list_pop(&brokers->retired));)
        free(list_item(link, struct brokers_member, link));
    pthread_rwlock_destroy(&brokers->lock);
    free(brokers);
}

static enum error_code brokers_create(const struct brokers_options *options,
                                      struct brokers **ret_brokers, struct error *ret_error)
{
    struct brokers *brokers = calloc(1, sizeof(*brokers));

    if (!brokers)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    brokers->options = *options;
    list_init(&brokers->retired);
    pthread_rwlock_init(&brokers->lock, NULL);
    enum error_code code = brokers_add_members(brokers, ret_error);
    if (code) {
        brokers_free_all(brokers);
        return code;
    }
    *ret_brokers = brokers;
    return ERROR_NONE;
}

enum error_code brokers_check_settings(const struct brokers_options *options,
                                       struct error *ret_error)
{
    struct brokers *brokers;
    enum error_code code = brokers_create(options, &brokers, ret_error);

    if (code)
        return code;
    for (size_t i = 0; i < brokers->count && !code; i++) {
        struct brokers_member *member = brokers->members[i];
        struct broker_settings settings = {
            .url = &member->url, .client_name = "check", .inflight_max = 1};
        struct error cause;
        void *client;

        code = member->backend->create(&settings, &client, &cause);
        if (code)
            error_set(ret_error, code, "%s: %.180s", member->name, cause.text);
        else
            member->backend->destroy(client);
    }
    brokers_free_all(brokers);
    return code;
}

/* ---- start and stop ---- */

static enum error_code brokers_start_member(struct brokers *brokers, size_t index,
                                            struct error *ret_error)
{
    const struct brokers_options *options = &brokers->options;
    struct brokers_member *member = brokers->members[index];
    struct broker_connection_options wanted = {
        .name = member->name,
        .backend = member->backend,
        .url = &member->url,
        .client_name = options->client_name,
        .inflight_max = options->inflight_max,
        .inflight_bytes_max = options->inflight_bytes_max,
        .connect_timeout_ms = options->connect_timeout_ms,
        .silence_ms = SILENCE_MS,
        .seed = options->seed + index,
        .done = options->done,
        .context = options->context,
    };
    struct error cause;
    enum error_code code = broker_connection_start(&wanted, &member->connection, &cause);

    if (code)
        error_set(ret_error, code, "%s: %.180s", member->name, cause.text);
    return code;
}

enum error_code brokers_start(const struct brokers_options *options, struct brokers **ret_brokers,
                              struct error *ret_error)
{
    struct brokers *brokers;
    enum error_code code = brokers_create(options, &brokers, ret_error);

    if (code)
        return code;
    for (size_t i = 0; i < brokers->count && !code; i++)
        code = brokers_start_member(brokers, i, ret_error);
    if (code) {
        brokers_stop(brokers);
        return code;
    }
    *ret_brokers = brokers;
    return ERROR_NONE;
}

/* ---- reload ---- */

/* Returns the member of `brokers` with the same name and URL as `wanted`; NULL if there is none. */
static struct brokers_member *brokers_find_equal(const struct brokers *brokers,
                                                 const struct brokers_member *wanted)
{
    struct brokers_member *member = brokers_find_member(brokers, bytes_of(wanted->name));

    return member && member->is_exactly_once == wanted->is_exactly_once &&
                   broker_url_is_equal(&member->url, &wanted->url)
               ? member
               : NULL;
}

/* Refuses changes of these connections, because the log of the cluster has had clients of its
 * own for them since the start. */
static enum error_code brokers_keep_exactly_once(const struct brokers *brokers,
                                                 const struct brokers *fresh,
                                                 struct error *ret_error)
{
    const struct brokers *const both[] = {brokers, fresh};

    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < both[k]->count; i++) {
            const struct brokers_member *member = both[k]->members[i];

            if (member->is_exactly_once && !brokers_find_equal(both[1 - k], member))
                return error_set(ret_error, ERROR_INVALID,
                                 "%s: with exactly_once it changes at a restart only",
                                 member->name);
        }
    return ERROR_NONE;
}

/* Starts the connections of `fresh` that `brokers` does not have. If one fails, those that were
 * started are stopped. */
static enum error_code brokers_start_new(const struct brokers *brokers, struct brokers *fresh,
                                         struct error *ret_error)
{
    enum error_code code = brokers_keep_exactly_once(brokers, fresh, ret_error);

    for (size_t i = 0; i < fresh->count && !code; i++)
        if (!brokers_find_equal(brokers, fresh->members[i]))
            code = brokers_start_member(fresh, i, ret_error);
    for (size_t i = 0; code && i < fresh->count; i++)
        if (fresh->members[i]->connection)
            broker_connection_stop(fresh->members[i]->connection);
    return code;
}

enum error_code brokers_reload(struct brokers *brokers, const char *connections,
                               struct error *ret_error)
{
    struct brokers_options options = brokers->options;
    struct brokers *fresh;

    options.connections = connections;
    enum error_code code = brokers_create(&options, &fresh, ret_error);
    if (code)
        return code;
    code = brokers_start_new(brokers, fresh, ret_error);
    pthread_rwlock_wrlock(&brokers->lock);
    for (size_t i = 0; i < fresh->count && !code; i++) {
        struct brokers_member **wanted = &fresh->members[i];
        struct brokers_member *kept = brokers_find_equal(brokers, *wanted);

        if (!kept)
            continue;
        free(*wanted);
        *wanted = kept;
    }
    for (size_t i = 0; i < brokers->count && !code; i++)
        if (brokers_find_equal(fresh, brokers->members[i]) != brokers->members[i]) {
            broker_connection_retire(brokers->members[i]->connection);
            list_push(&brokers->retired, &brokers->members[i]->link);
        }
    if (!code) {
        memcpy(brokers->members, fresh->members, sizeof(brokers->members));
        brokers->count = fresh->count;
        fresh->count = 0;
    }
    pthread_rwlock_unlock(&brokers->lock);
    brokers_free_all(fresh);
    return code;
}

/* ---- the end ---- */

void brokers_drain(struct brokers *brokers)
{
    for (size_t i = 0; i < brokers->count; i++)
        broker_connection_drain(brokers->members[i]->connection);
}

void brokers_stop(struct brokers *brokers)
{
    for (size_t i = 0; i < brokers->count; i++)
        if (brokers->members[i]->connection)
            broker_connection_stop_soon(brokers->members[i]->connection);
    LIST_FOR_EACH (&brokers->retired, link)
        broker_connection_stop(list_item(link, struct brokers_member, link)->connection);
    for (size_t i = 0; i < brokers->count; i++)
        if (brokers->members[i]->connection)
            broker_connection_stop(brokers->members[i]->connection);
    brokers_free_all(brokers);
}

/* ---- targets ---- */

/* Returns the scheme of a target: "redis" of "redis://". */
static struct bytes brokers_scheme(const struct target *target)
{
    struct bytes scheme = target_scheme(target->kind);

    assert(target_sharing(target) == TARGET_SHARES_CONNECTION);
    return (struct bytes){scheme.data, scheme.size - (sizeof("://") - 1)};
}

/* Returns the connection of a target. If there is none, returns NULL and sets the reason. */
static struct brokers_member *brokers_member_of(const struct brokers *brokers, struct bytes text,
                                                const struct target *target,
                                                struct error *ret_error)
{
    const struct bytes name = target_slice(text, target->name);
    struct brokers_member *member = brokers_find_member(brokers, name);

    if (!member) {
        error_set(ret_error, ERROR_INVALID,
                  "there is no broker connection \"%.*s\" in this server's configuration",
                  name.size > BROKER_NAME_SIZE_MAX ? BROKER_NAME_SIZE_MAX : (int)name.size,
                  name.data);
        return NULL;
    }
    if (!bytes_equal(bytes_of(member->backend->scheme), brokers_scheme(target))) {
        error_set(ret_error, ERROR_INVALID,
                  "the broker connection \"%s\" is one for %s:", member->name,
                  member->backend->scheme);
        return NULL;
    }
    return member;
}

/* Appends the decoded part and returns it. The buffer must have room, because earlier parts point
 * into it. */
static struct bytes brokers_decode(struct bytes part, struct buffer *text)
{
    size_t start = text->size;

    broker_url_decode(part, text);
    return (struct bytes){text->data + start, text->size - start - 1};
}

static enum error_code brokers_ask_backend(const struct broker_backend *backend, struct bytes text,
                                           const struct target *target, struct error *ret_error)
{
    struct bytes names[TARGET_PATHS_MAX] = {{0}};
    struct buffer decoded;

    buffer_init(&decoded);
    const char *refusal = NULL;
    if (buffer_reserve(&decoded, (TARGET_PATHS_MAX + 1) * 3 * (TARGET_PATH_SIZE_MAX + 1))) {
        for (size_t i = 0; i < target->path_count; i++)
            names[i] = brokers_decode(target_slice(text, target->paths[i]), &decoded);
        struct bytes key = {0};
        if (target->has_key)
            key = brokers_decode(target_slice(text, target->key), &decoded);
        refusal = backend->refusal(names, key);
    }
    buffer_deinit(&decoded);
    return refusal ? error_set(ret_error, ERROR_INVALID, "it %s", refusal) : ERROR_NONE;
}

/* True for the topics NAME.log and NAME.control of the cluster, on any connection: a foreign record
 * would break its log, and another host name may lead to the same brokers. Letters of the names may
 * be written as %XX. */
static bool brokers_is_log(const struct brokers *brokers, struct bytes text,
                           const struct target *target)
{
    static const char *const kinds[] = {".log", ".control"};
    char topic[TARGET_PATH_SIZE_MAX + 1], own[TARGET_PATH_SIZE_MAX + 1];
    const char *cluster = brokers->options.cluster_brokers;

    if (target->kind != TARGET_KAFKA || !cluster || !*cluster)
        return false;
    *percent_decode(target_slice(text, target->paths[0]), topic) = '\0';
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        snprintf(own, sizeof(own), "%s%s", brokers->options.cluster_name, kinds[i]);
        if (strcmp(topic, own) == 0)
            return true;
    }
    return false;
}

enum error_code brokers_check(struct brokers *brokers, struct bytes text,
                              const struct target *target, struct error *ret_error)
{
    const struct bytes scheme = brokers_scheme(target);
    enum error_code code = ERROR_INVALID;

    if (!brokers_find_backend(brokers->options.backends, scheme))
        return error_set(ret_error, ERROR_INVALID, "%.*s: targets are not built into this server",
                         (int)scheme.size, scheme.data);
    pthread_rwlock_rdlock(&brokers->lock);
    const struct brokers_member *member = brokers_member_of(brokers, text, target, ret_error);
    if (member && brokers_is_log(brokers, text, target))
        error_set(ret_error, code, "it has the name of a topic of the cluster's own log");
    else if (member)
        code = brokers_ask_backend(member->backend, text, target, ret_error);
    pthread_rwlock_unlock(&brokers->lock);
    return code;
}

bool brokers_is_exactly_once(struct brokers *brokers, struct bytes text,
                             const struct target *target)
{
    if (target->kind != TARGET_KAFKA && target->kind != TARGET_POSTGRES)
        return false;
    pthread_rwlock_rdlock(&brokers->lock);
    const struct brokers_member *member =
        brokers_find_member(brokers, target_slice(text, target->name));
    const bool is_exactly_once =
        member && member->is_exactly_once &&
        bytes_equal(bytes_of(member->backend->scheme), brokers_scheme(target));
    pthread_rwlock_unlock(&brokers->lock);
    return is_exactly_once;
}

void brokers_stage(const struct brokers *brokers, const struct target *target,
                   struct log_once *once, size_t index, const struct broker_message *message)
{
    brokers_find_backend(brokers->options.backends, brokers_scheme(target))
        ->stage(once, index, message);
}

bool brokers_has_exactly_once(const struct brokers *brokers)
{
    bool has_any = false;

    for (size_t i = 0; i < brokers->count; i++)
        has_any |= brokers->members[i]->is_exactly_once;
    return has_any;
}

/* ---- deliveries ---- */

static void brokers_fail(struct brokers *brokers, struct delivery *delivery,
                         const struct error *error)
{
    delivery->outcome = (struct delivery_outcome){.result = DELIVERY_FAILED};
    snprintf(delivery->outcome.error, sizeof(delivery->outcome.error), "%.150s", error->text);
    struct list list;
    list_init(&list);
    list_push(&list, &delivery->link);
    brokers->options.done(brokers->options.context, &list);
}

void brokers_post(struct brokers *brokers, struct list *deliveries)
{
    struct list *link;

    pthread_rwlock_rdlock(&brokers->lock);
    while ((link = list_pop(deliveries))) {
        struct delivery *delivery = list_item(link, struct delivery, link);
        const struct timer *timer = delivery->timer;
        struct error error;
        struct brokers_member *member =
            brokers_member_of(brokers, timer->texts.target, &timer->target, &error);

        if (!member) {
            brokers_fail(brokers, delivery, &error);
            continue;
        }
        struct list run;
        /* Consecutive deliveries of one connection are posted together, because each post takes a
         * lock. */
        list_init(&run);
        list_push(&run, link);
        while (!list_is_empty(deliveries)) {
            struct list *next = deliveries->next;
            timer = list_item(next, struct delivery, link)->timer;
            if (brokers_member_of(brokers, timer->texts.target, &timer->target, &error) != member)
                break;
            list_remove(next);
            list_push(&run, next);
        }
        broker_connection_post(member->connection, &run);
    }
    pthread_rwlock_unlock(&brokers->lock);
}

/* ---- questions ---- */

bool brokers_status(struct brokers *brokers, size_t index, struct broker_status *ret_status)
{
    pthread_rwlock_rdlock(&brokers->lock);
    const bool is_there = index < brokers->count;
    if (is_there)
        broker_connection_status(brokers->members[index]->connection, ret_status);
    pthread_rwlock_unlock(&brokers->lock);
    return is_there;
}

void brokers_format_backends(const struct broker_backend *const *backends, struct buffer *out)
{
    if (!*backends)
        buffer_append_text(out, "none");
    for (size_t i = 0; backends[i]; i++) {
        char version[BROKER_VERSION_SIZE];
        backends[i]->version(version);
        buffer_printf(out, "%s%s (%s)", i ? ", " : "", backends[i]->scheme, version);
    }
}
