/* The webhook thread: a task of an event loop, over connections of its own, libcurl and the mailbox
 * of deliveries. */
#include "delivery/webhook.h"

#include "delivery/oauth.h"
#include "delivery/webhook_direct.h"
#include "delivery/webhook_origin.h"
#include "delivery/webhook_transfer.h"
#include "sys/clock.h"
#include "sys/entropy.h"
#include "sys/files.h"
#include "sys/mailbox.h"
#include "sys/process.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <signal.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * A turn of the loop acts on the sockets that are ready. Then the task takes posted deliveries,
 * ends those that are over, begins waiting ones, and hands back all ended deliveries at once.
 * libcurl tells which sockets it waits for, and when it wants to be called whatever happens; so the
 * cost of a turn is its work, however many deliveries are in flight.
 *
 * A delivery goes by a connection of our own if its target is one for it (webhook_direct.h), and by
 * libcurl otherwise. Both share `connections_max`: of deliveries in flight each has one connection
 * at most, and whoever opens another one has idle ones closed first.
 *
 * Names are resolved on threads of libcurl's own, so a slow name server does not hold up the loop.
 */

/* Maximum of deliveries that begin in one turn, so that answers are read in between. */
#define BEGIN_MAX 256

/* Maximum of deliveries to unproven targets that begin in one turn. Each probably costs a new
 * connection, so this keeps turns short, and other deliveries go first. */
#define BEGIN_UNPROVEN_MAX 16

/* Maximum of streams of an HTTP/2 connection, unless its server allows fewer. libcurl opens
 * another connection for each webhook beyond it, so it is not below the limit of one target
 * (ENGINE_OPTIONS_DEFAULT). */
#define STREAMS_MAX 128L

/* Delay of a webhook whose token has no key yet. */
#define KEY_PAUSE_MS 1000

/* Settings that a reload replaces. */
struct webhook_trust {
    struct signatures *signatures;
    struct token_issuer *issuer; /* NULL if webhooks carry no tokens */
    int ca_fd;                   /* copy of the file of certificates; -1 if the system's are used */
};

struct webhook {
    struct webhook_options options;
    struct webhook_settings settings;
    pthread_t thread;
    bool has_thread;
    struct event_loop loop; /* loop of the webhook thread, with one task */
    struct event_task task;
    struct mailbox mailbox; /* deliveries, and stop_message */
    struct list stop_message;
    /* settings for the thread to apply; NULL if there are none */
    struct webhook_trust *_Atomic reload;
    pthread_mutex_t lock;
    /* public keys of tokens in the file, as JSON; empty without one; under `lock` */
    struct buffer key_set;
    /* Fields of the webhook thread. */
    CURLM *multi;
    struct webhook_direct *direct;
    struct oauth *oauth;
    struct webhook_sockets sockets;
    struct list waiting;      /* deliveries for which there was no room */
    struct list unproven;     /* the same, for targets that have not answered lately */
    struct list free, flying; /* transfers */
    struct list ended;        /* deliveries to give back at the end of the turn */
    size_t flying_count;
    size_t libcurl_max;     /* number of connections that libcurl may have */
    struct instant wake_at; /* time at which libcurl must be called; UINT64_MAX ns if it need not */
    bool has_more;          /* more deliveries could begin, but the limits of a turn were reached */
    bool is_stopping;
    struct random trace_high, trace_low;
    /* current copy of the certificates, and the previous one, which libcurl may still open; -1 if
     * there is none */
    int ca_fds[2];
    struct webhook_connection_use uses[UINT16_MAX + 1];
    struct webhook_generation generations[WEBHOOK_GENERATIONS];
};

#define NEVER ((struct instant){UINT64_MAX})

#define CA_BYTES_MAX (16u << 20)
#define CA_PATH_SIZE 40

static const char stopping[] = "the service is stopping";

/* ---- libcurl's wishes ---- */

static int webhook_set_timer(CURLM *multi, long timeout_ms, void *context)
{
    struct webhook *webhook = context;

    (void)multi;
    webhook->wake_at = timeout_ms < 0
                           ? NEVER
                           : (struct instant){instant_now().ns + (uint64_t)timeout_ms * 1000000};
    return 0;
}

static void webhook_run_timer(struct webhook *webhook)
{
    if (webhook->wake_at.ns == UINT64_MAX || instant_now().ns < webhook->wake_at.ns)
        return;
    webhook->wake_at = NEVER;
    int running;
    curl_multi_socket_action(webhook->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

/* Allows libcurl as many connections as the direct ones leave. They suffice for every transfer in
 * flight. */
static bool webhook_set_libcurl_max(struct webhook *webhook)
{
    const size_t max = webhook->options.connections_max - webhook_direct_open(webhook->direct);

    assert(max >= webhook->flying_count && max > 0);
    if (max == webhook->libcurl_max)
        return true;
    webhook->libcurl_max = max;
    return curl_multi_setopt(webhook->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)max) == CURLM_OK;
}

/* ---- one turn ---- */

static void webhook_take_messages(struct webhook *webhook)
{
    struct list messages;

    list_init(&messages);
    mailbox_take(&webhook->mailbox, &messages);
    LIST_FOR_EACH (&messages, message) {
        if (message == &webhook->stop_message) {
            list_remove(message);
            webhook->is_stopping = true;
        } else if (list_item(message, struct delivery, link)->is_unproven) {
            list_remove(message);
            list_push(&webhook->unproven, message);
        }
    }
    list_join(&webhook->waiting, &messages);
}

static void webhook_land(struct webhook *webhook, struct webhook_transfer *transfer)
{
    curl_multi_remove_handle(webhook->multi, transfer->easy);
    list_remove(&transfer->link);
    /* the transfer that is still in the CPU's cache is used next */
    list_push_front(&webhook->free, &transfer->link);
    webhook->flying_count--;
}

/* Reports to the breakers what a delivery says about its target. */
static void webhook_tell_target(struct webhook *webhook, const struct target_ticket *ticket,
                                const struct delivery *delivery, struct target_verdict verdict)
{
    targets_leave(webhook->options.targets, ticket, delivery->timer, instant_timers_now(), verdict,
                  bytes_of(delivery->outcome.error));
}

static void webhook_ended(void *context, struct delivery *delivery,
                          const struct target_ticket *ticket, struct target_verdict verdict)
{
    struct webhook *webhook = context;
    const struct oauth_client *client = named_oauth_of(delivery);

    if (client && delivery->outcome.status == 401)
        oauth_refused(webhook->oauth, delivery->timer->texts.tenant, client);
    if (webhook->options.named)
        named_hide_in_answer(webhook->options.named, delivery);
    webhook_tell_target(webhook, ticket, delivery, verdict);
    list_push(&webhook->ended, &delivery->link);
}

/* Stores the address at which the target answered for later deliveries without libcurl. */
static void webhook_teach(struct webhook *webhook, CURL *easy, const struct timer *timer)
{
    const char *address = NULL;

    if (webhook_target_is_named(timer) &&
        curl_easy_getinfo(easy, CURLINFO_PRIMARY_IP, &address) == CURLE_OK && address)
        webhook_direct_learn(webhook->direct, timer, address);
}

static void webhook_end(struct webhook *webhook, struct webhook_transfer *transfer, CURLcode result)
{
    webhook_land(webhook, transfer);
    struct target_verdict verdict;
    struct delivery *delivery = webhook_transfer_end(transfer, result, &verdict);
    if (delivery->outcome.status)
        webhook_teach(webhook, transfer->easy, delivery_sent(delivery));
    webhook_ended(webhook, delivery, &transfer->ticket, verdict);
}

static void webhook_end_finished(struct webhook *webhook)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(webhook->multi, &left))) {
        /* read now, because removing the handle frees the message */
        CURLcode result = message->data.result;

        if (oauth_end(webhook->oauth, message->easy_handle, result))
            continue;
        webhook_end(webhook, webhook_transfer_of(message->easy_handle), result);
    }
}

/* Returns a free transfer; NULL if out of memory. */
static struct webhook_transfer *webhook_find_transfer(struct webhook *webhook)
{
    struct list *link = list_pop(&webhook->free);

    return link ? list_item(link, struct webhook_transfer, link)
                : webhook_transfer_create(&webhook->settings);
}

static void webhook_fail_waiting(struct webhook *webhook, struct list *waiting, const char *error)
{
    struct list *link;

    while ((link = list_pop(waiting))) {
        struct delivery *delivery = list_item(link, struct delivery, link);

        webhook_outcome_fail(&delivery->outcome, DELIVERY_FAILED, error);
        delivery->started_us = delivery->ended_us = wall_now_us();
        list_push(&webhook->ended, &delivery->link);
    }
}

/* True if the target may be tried now. If not, the delivery comes back without spending an
 * attempt. */
static bool webhook_may_enter(struct webhook *webhook, struct delivery *delivery,
                              struct target_ticket *ret_ticket)
{
    struct delivery_outcome *outcome = &delivery->outcome;
    struct target_status status;

    if (targets_enter(webhook->options.targets, delivery->timer, instant_timers_now(), ret_ticket,
                      &status))
        return true;
    webhook_outcome_fail(outcome, DELIVERY_POSTPONED, "");
    outcome->retry_after_ms = status.wait_ms;
    outcome->holds = status.scope == TARGET_ORIGIN ? DELIVERY_HOLDS_QUEUE : DELIVERY_HOLDS_TIMER;
    snprintf(outcome->error, sizeof(outcome->error),
             TIMER_NOT_TRIED "its %s failed %" PRIu32 " times in a row",
             status.scope == TARGET_ORIGIN ? "target" : "path", status.failures);
    delivery->started_us = delivery->ended_us = wall_now_us();
    list_push(&webhook->ended, &delivery->link);
    return false;
}

/* Begins a delivery by libcurl. If the address of the target's name may be learned, the connection
 * is not kept, so that the next one resolves the name again. */
static void webhook_begin_by_libcurl(void *context, struct delivery *delivery,
                                     const struct target_ticket *ticket, uint64_t timeout_ms)
{
    struct webhook *webhook = context;
    struct webhook_transfer *transfer = webhook_find_transfer(webhook);

    if (!transfer) {
        webhook_outcome_fail(&delivery->outcome, DELIVERY_FAILED, "out of memory");
        delivery->started_us = delivery->ended_us = wall_now_us();
        webhook_ended(webhook, delivery, ticket, TARGET_VERDICT_UNKNOWN);
        return;
    }
    transfer->ticket = *ticket;
    const long is_used_once = webhook_target_is_named(delivery_sent(delivery));
    if (!webhook_transfer_begin(transfer, delivery, timeout_ms)) {
        list_push_front(&webhook->free, &transfer->link);
        webhook_ended(webhook, delivery, ticket, TARGET_VERDICT_UNKNOWN);
        return;
    }
    list_push(&webhook->flying, &transfer->link);
    webhook->flying_count++;
    webhook_direct_make_room(webhook->direct, webhook->flying_count);
    if (curl_easy_setopt(transfer->easy, CURLOPT_FORBID_REUSE, is_used_once) != CURLE_OK ||
        !webhook_set_libcurl_max(webhook) ||
        curl_multi_add_handle(webhook->multi, transfer->easy) != CURLM_OK)
        webhook_end(webhook, transfer, CURLE_OUT_OF_MEMORY);
}

/* Ends a delivery to a named target as FAILED: it is tried again, since the target may be defined
 * anew. It says nothing about the target. */
static void webhook_fail_named(struct webhook *webhook, struct delivery *delivery,
                               const char *reason)
{
    const struct timer *timer = delivery->timer;
    struct delivery_outcome *outcome = &delivery->outcome;

    webhook_outcome_fail(outcome, DELIVERY_FAILED, "");
    snprintf(outcome->error, sizeof(outcome->error), "named target %.*s: %.80s",
             (int)timer->target.name.size, timer->texts.target.data, reason);
    delivery->started_us = delivery->ended_us = wall_now_us();
    list_push(&webhook->ended, &delivery->link);
}

static void webhook_token_ready(void *context, struct list *deliveries)
{
    struct webhook *webhook = context;

    list_join(&webhook->waiting, deliveries);
}

static void webhook_token_failed(void *context, struct list *deliveries, const char *reason)
{
    struct webhook *webhook = context;
    struct list *link;

    while ((link = list_pop(deliveries)))
        webhook_fail_named(webhook, list_item(link, struct delivery, link), reason);
}

/* Looks a named target up, and the token that it needs. Returns false if the delivery has ended, or
 * waits for the token. */
static bool webhook_resolve(struct webhook *webhook, struct delivery *delivery)
{
    struct oauth_found found = {.reason = "its authentication is oidc, and webhook_token_issuer is "
                                          "not set"};
    struct error error;

    if (delivery->timer->target.kind != TARGET_NAMED)
        return true;
    if (named_resolve(webhook->options.named, delivery, &error)) {
        webhook_fail_named(webhook, delivery, error.text[0] ? error.text : "out of memory");
        return false;
    }
    const struct oauth_client *client = named_oauth_of(delivery);
    enum oauth_state state = OAUTH_READY;
    if (client)
        state = oauth_find(webhook->oauth, delivery->timer->texts.tenant, client, delivery,
                           instant_now(), &found);
    else if (named_is_oidc(delivery) && !webhook->settings.issuer)
        state = OAUTH_FAILED;
    if (state == OAUTH_READY && client && !named_set_bearer(delivery, found.token)) {
        snprintf(found.reason, sizeof(found.reason), "out of memory");
        state = OAUTH_FAILED;
    }
    if (state == OAUTH_WAITS)
        named_release(delivery); /* it is looked up again when it has the token */
    else if (state == OAUTH_FAILED)
        webhook_fail_named(webhook, delivery, found.reason);
    return state == OAUTH_READY;
}

/* True unless the delivery needs a token whose key is not known. Then it comes back without
 * spending an attempt: that says nothing about the target, and the key is on its way. */
static bool webhook_has_key(struct webhook *webhook, struct delivery *delivery)
{
    struct delivery_outcome *outcome = &delivery->outcome;
    struct error reason;

    if (!webhook->settings.issuer || named_bearer_of(delivery).size > 0 ||
        webhook_request_has_own(delivery_sent(delivery), "authorization") ||
        token_issuer_is_ready(webhook->settings.issuer, wall_machine_now_us() / 1000000, &reason))
        return true;
    webhook_outcome_fail(outcome, DELIVERY_POSTPONED, "");
    outcome->retry_after_ms = KEY_PAUSE_MS;
    outcome->holds = DELIVERY_HOLDS_TIMER;
    snprintf(outcome->error, sizeof(outcome->error), "no key for its token: %.100s", reason.text);
    delivery->started_us = delivery->ended_us = wall_now_us();
    list_push(&webhook->ended, &delivery->link);
    return false;
}

static bool webhook_has_room(const struct webhook *webhook)
{
    return webhook->flying_count + webhook_direct_flying(webhook->direct) <
           webhook->options.connections_max;
}

/* Begins up to `limit` deliveries from the list. */
static void webhook_begin_some(struct webhook *webhook, struct list *waiting, int limit)
{
    for (int i = 0; !list_is_empty(waiting); i++) {
        webhook->has_more |= i == limit;
        if (i == limit || !webhook_has_room(webhook))
            break;
        struct delivery *delivery = list_item(list_pop(waiting), struct delivery, link);
        struct target_ticket ticket;
        /* first, so that a delivery that waits for a token holds no ticket */
        if (!webhook_resolve(webhook, delivery) || !webhook_has_key(webhook, delivery) ||
            !webhook_may_enter(webhook, delivery, &ticket))
            continue;
        /* without entropy it has no token, and its receiver cannot answer later */
        if (webhook->settings.ack_url)
            webhook_request_make_token(delivery);
        /* A transfer may have no socket yet, and a socket may have no transfer. */
        const size_t others = webhook->flying_count > webhook->sockets.open_count
                                  ? webhook->flying_count
                                  : webhook->sockets.open_count;
        if (!webhook_direct_begin(webhook->direct, delivery, &ticket, others))
            webhook_begin_by_libcurl(webhook, delivery, &ticket, delivery->timer->retry.timeout_ms);
    }
}

static void webhook_begin_waiting(struct webhook *webhook)
{
    webhook->has_more = false;
    webhook_begin_some(webhook, &webhook->waiting, BEGIN_MAX);
    webhook_begin_some(webhook, &webhook->unproven, BEGIN_UNPROVEN_MAX);
}

static void webhook_hand_back(struct webhook *webhook)
{
    if (list_is_empty(&webhook->ended))
        return;
    LIST_FOR_EACH (&webhook->ended, link)
        named_release(list_item(link, struct delivery, link));
    webhook->options.done(webhook->options.context, &webhook->ended);
    assert(list_is_empty(&webhook->ended));
}

static uint64_t webhook_wait_ns(struct event_task *task)
{
    struct webhook *webhook = list_item(task, struct webhook, task);
    const struct instant other = webhook_direct_wake_at(webhook->direct);
    const struct instant wake_at = webhook->wake_at.ns < other.ns ? webhook->wake_at : other;
    const bool waits = !list_is_empty(&webhook->waiting) || !list_is_empty(&webhook->unproven);

    if (webhook->has_more || (waits && webhook_has_room(webhook)) ||
        mailbox_has_news(&webhook->mailbox))
        return 0;
    return wake_at.ns == UINT64_MAX ? UINT64_MAX : instant_since_ns(instant_now(), wake_at);
}

/* Frees the transfers, on the webhook thread, because closing a connection may write to it (see
 * start_thread). */
static void webhook_free_transfers(struct webhook *webhook)
{
    struct list *link;

    while ((link = list_pop(&webhook->free)))
        webhook_transfer_destroy(list_item(link, struct webhook_transfer, link));
    oauth_destroy(webhook->oauth);
    webhook->oauth = NULL;
    curl_multi_cleanup(webhook->multi); /* also closes libcurl's connections */
    webhook->multi = NULL;
    webhook_direct_destroy(webhook->direct);
    webhook->direct = NULL;
}

/* ---- certificates and secrets ---- */

/* Writes the path by which libcurl can read the copy, and returns it. */
static const char *webhook_ca_path(int fd, char ret_path[CA_PATH_SIZE])
{
    snprintf(ret_path, CA_PATH_SIZE, "/proc/self/fd/%d", fd);
    return ret_path;
}

/* True if the file has certificates. Without this check a file with none would be noticed only when
 * every delivery fails. */
static bool webhook_has_certificates(const char *file)
{
    X509_STORE *store = X509_STORE_new();
    bool has = store && X509_STORE_load_file(store, file) == 1;

    X509_STORE_free(store);
    ERR_clear_error();
    return has;
}

static void webhook_trust_free(struct webhook_trust *trust)
{
    if (!trust)
        return;
    signatures_destroy(trust->signatures);
    token_issuer_destroy(trust->issuer);
    if (trust->ca_fd >= 0)
        close(trust->ca_fd);
    free(trust);
}

static enum error_code webhook_trust_load(const char *secrets, const char *ca_file,
                                          const struct token_issuer_options *tokens,
                                          struct webhook_trust **ret_trust, struct error *ret_error)
{
    struct webhook_trust *trust = calloc(1, sizeof(*trust));
    enum error_code code = ERROR_NONE;
    char copy[CA_PATH_SIZE];

    if (!trust)
        return error_set(ret_error, ERROR_NO_MEMORY, "no memory for webhooks");
    trust->ca_fd = -1;
    if (ca_file && (files_snapshot(ca_file, CA_BYTES_MAX, &trust->ca_fd, ret_error) ||
                    !webhook_has_certificates(webhook_ca_path(trust->ca_fd, copy))))
        code = error_set(ret_error, ERROR_INVALID, "%s: no certificates in it, or not readable",
                         ca_file);
    if (!code)
        code = signatures_create(secrets ? secrets : "", &trust->signatures, ret_error);
    if (!code && tokens->issuer)
        code = token_issuer_create(tokens, &trust->issuer, ret_error);
    if (code)
        webhook_trust_free(trust);
    else
        *ret_trust = trust;
    return code;
}

/* Applies the settings. The path of the certificates differs from that of the copy before, so
 * libcurl does not use connections made with that one. */
static bool webhook_trust_take(struct webhook *webhook, struct webhook_trust *trust)
{
    struct webhook_settings *settings = &webhook->settings;
    char copy[CA_PATH_SIZE];
    char *path = trust->ca_fd < 0 ? NULL : strdup(webhook_ca_path(trust->ca_fd, copy));

    if (trust->ca_fd >= 0 && !path) {
        webhook_trust_free(trust);
        return false;
    }
    signatures_destroy(settings->signatures);
    settings->signatures = trust->signatures;
    token_issuer_destroy(settings->issuer);
    settings->issuer = trust->issuer;
    free(settings->ca_file);
    settings->ca_file = path;
    settings->trust++;
    for (size_t i = 0; i < WEBHOOK_GENERATIONS; i++)
        /* invalidates generations whose connections may just be opening */
        webhook->generations[i].current += 2;
    if (webhook->ca_fds[1] >= 0)
        close(webhook->ca_fds[1]);
    webhook->ca_fds[1] = webhook->ca_fds[0];
    webhook->ca_fds[0] = trust->ca_fd;
    free(trust);
    return true;
}

/* Shows the keys with which tokens will be signed, before they are. */
static enum error_code webhook_show_keys(struct webhook *webhook, const struct webhook_trust *trust,
                                         struct error *ret_error)
{
    struct buffer set;

    buffer_init(&set);
    if (trust->issuer)
        token_issuer_append_set(trust->issuer, &set);
    if (buffer_failed(&set)) {
        buffer_deinit(&set);
        return error_set(ret_error, ERROR_NO_MEMORY, "no memory for webhooks");
    }
    pthread_mutex_lock(&webhook->lock);
    const struct buffer before = webhook->key_set;
    webhook->key_set = set;
    pthread_mutex_unlock(&webhook->lock);
    set = before;
    buffer_deinit(&set);
    return ERROR_NONE;
}

static void webhook_take_reload(struct webhook *webhook)
{
    struct webhook_trust *trust = atomic_exchange(&webhook->reload, NULL);

    if (trust)
        webhook_trust_take(webhook, trust);
}

static void webhook_turn(struct event_task *task)
{
    struct webhook *webhook = list_item(task, struct webhook, task);

    webhook_take_messages(webhook);
    if (webhook->is_stopping)
        return;
    webhook_take_reload(webhook);
    webhook_run_timer(webhook);
    webhook_direct_turn(webhook->direct, instant_now());
    webhook_end_finished(webhook);
    webhook_begin_waiting(webhook);
    webhook_run_timer(webhook); /* sends the transfers that have just begun */
    webhook_end_finished(webhook);
    webhook_hand_back(webhook);
}

static void *webhook_run(void *context)
{
    struct webhook *webhook = context;

    while (!webhook->is_stopping)
        event_loop_turn(&webhook->loop);
    LIST_FOR_EACH (&webhook->flying, link) {
        struct webhook_transfer *transfer = list_item(link, struct webhook_transfer, link);

        webhook_land(webhook, transfer);
        struct delivery *delivery = webhook_transfer_abort(transfer, stopping);
        webhook_ended(webhook, delivery, &transfer->ticket, TARGET_VERDICT_UNKNOWN);
    }
    webhook_direct_abort(webhook->direct, stopping);
    oauth_abort(webhook->oauth, stopping);
    webhook_hand_back(webhook);
    webhook_free_transfers(webhook);
    return NULL;
}

/* ---- start and stop ---- */

static void webhook_free_settings(struct webhook *webhook)
{
    signatures_destroy(webhook->settings.signatures);
    token_issuer_destroy(webhook->settings.issuer);
    buffer_deinit(&webhook->key_set);
    pthread_mutex_destroy(&webhook->lock);
    free(webhook->settings.ca_file);
    free(webhook->settings.user_agent);
    free(webhook->settings.event_source);
    free(webhook->settings.ack_url);
    for (size_t i = 0; i < 2; i++)
        if (webhook->ca_fds[i] >= 0)
            close(webhook->ca_fds[i]);
}

/* True if the text is visible ASCII. NULL counts as visible. */
static bool webhook_is_visible(const char *text)
{
    for (; text && *text; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

static enum error_code webhook_copy_settings(struct webhook *webhook, struct error *ret_error)
{
    const struct webhook_options *options = &webhook->options;
    struct webhook_settings *settings = &webhook->settings;

    *settings = (struct webhook_settings){
        .guard = options->guard,
        .sockets = &webhook->sockets,
        .user_agent = strdup(options->user_agent),
        .event_source = options->event_source ? strdup(options->event_source) : NULL,
        .ack_url = options->ack_url ? strdup(options->ack_url) : NULL,
        .trace_high = &webhook->trace_high,
        .trace_low = &webhook->trace_low,
        .connect_timeout_ms = options->connect_timeout_ms,
        .response_bytes_max = options->response_bytes_max,
        .answer_bytes = options->answer_bytes,
        .connection_age_ms_max = options->connection_age_ms_max,
        .connection_requests_max = options->connection_requests_max,
        .uses = webhook->uses,
        .generations = webhook->generations,
    };
    if (!settings->user_agent || (options->event_source && !settings->event_source) ||
        (options->ack_url && !settings->ack_url))
        return error_set(ret_error, ERROR_NO_MEMORY, "no memory for webhooks");
    if (!webhook_is_visible(options->ack_url) ||
        (options->ack_url && strncmp(options->ack_url, "http://", 7) != 0 &&
         strncmp(options->ack_url, "https://", 8) != 0))
        return error_set(ret_error, ERROR_INVALID,
                         "public_url begins with http:// or https://, and has no blanks");
    if (!webhook_is_visible(options->event_source))
        return error_set(ret_error, ERROR_INVALID, "a ce-source is visible characters of ASCII");
    if (entropy_u64(&webhook->trace_high.state_) || entropy_u64(&webhook->trace_low.state_))
        return error_set(ret_error, ERROR_IO, "the system gives no entropy");
    struct webhook_trust *trust;
    enum error_code code =
        webhook_trust_load(options->secrets, options->ca_file, &options->tokens, &trust, ret_error);
    if (code)
        return code;
    code = webhook_show_keys(webhook, trust, ret_error);
    if (code)
        webhook_trust_free(trust);
    else if (!webhook_trust_take(webhook, trust))
        code = error_set(ret_error, ERROR_NO_MEMORY, "no memory for webhooks");
    return code;
}

static enum error_code webhook_set_up_multi(struct webhook *webhook, struct error *ret_error)
{
    long connections_max = (long)webhook->options.connections_max;

    webhook->multi = curl_multi_init();
    if (!webhook->multi)
        return error_set(ret_error, ERROR_IO, "libcurl refuses to start");
    webhook->sockets.multi = webhook->multi;
    CURLMcode bad = CURLM_OK;
    bad |= curl_multi_setopt(webhook->multi, CURLMOPT_SOCKETFUNCTION, webhook_sockets_watch);
    bad |= curl_multi_setopt(webhook->multi, CURLMOPT_SOCKETDATA, &webhook->sockets);
    bad |= curl_multi_setopt(webhook->multi, CURLMOPT_TIMERFUNCTION, webhook_set_timer);
    bad |= curl_multi_setopt(webhook->multi, CURLMOPT_TIMERDATA, webhook);
    /* By default libcurl keeps as many connections as it has handles, and ours are added and
     * removed with every webhook. */
    bad |= curl_multi_setopt(webhook->multi, CURLMOPT_MAXCONNECTS, connections_max);
    bad |= curl_multi_setopt(webhook->multi, CURLMOPT_MAX_CONCURRENT_STREAMS, STREAMS_MAX);
    if (bad != CURLM_OK)
        return error_set(ret_error, ERROR_IO, "libcurl lacks what webhooks need");
    return ERROR_NONE;
}

static enum error_code webhook_set_up_direct(struct webhook *webhook, struct error *ret_error)
{
    const struct webhook_direct_options options = {.settings = &webhook->settings,
                                                   .loop = &webhook->loop,
                                                   .connections_max =
                                                       webhook->options.connections_max,
                                                   .ended = webhook_ended,
                                                   .passed = webhook_begin_by_libcurl,
                                                   .context = webhook};

    const struct oauth_options oauth_options = {.settings = &webhook->settings,
                                                .multi = webhook->multi,
                                                .ready = webhook_token_ready,
                                                .failed = webhook_token_failed,
                                                .context = webhook};

    webhook->direct = webhook_direct_create(&options);
    webhook->oauth = oauth_create(&oauth_options);
    return webhook->direct && webhook->oauth
               ? ERROR_NONE
               : error_set(ret_error, ERROR_NO_MEMORY, "no memory for webhooks");
}

/* Starts the thread with all signals blocked: the main thread handles them, and OpenSSL writes
 * to sockets that may be closed, which would raise SIGPIPE. */
enum error_code webhook_begin(struct webhook *webhook, struct error *ret_error)
{
    sigset_t all;

    sigfillset(&all);
    sigset_t before;
    pthread_sigmask(SIG_SETMASK, &all, &before);
    webhook->has_thread = thread_start(&webhook->thread, webhook_run, webhook, "webhook") == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return webhook->has_thread ? ERROR_NONE
                               : error_set(ret_error, ERROR_IO, "no thread left for webhooks");
}

static void webhook_close_loop(struct webhook *webhook)
{
    webhook_sockets_deinit(&webhook->sockets);
    mailbox_deinit(&webhook->mailbox);
    event_loop_deinit(&webhook->loop);
}

enum error_code webhook_start(const struct webhook_options *options, struct webhook **ret_webhook,
                              struct error *ret_error)
{
    struct webhook *webhook = calloc(1, sizeof(*webhook));
    enum error_code code = ERROR_IO;

    assert(options->guard && options->targets && options->done && options->connections_max > 0);
    assert(options->connection_age_ms_max > 0 && options->connection_requests_max > 0);
    if (!webhook)
        return error_set(ret_error, ERROR_NO_MEMORY, "no memory for webhooks");
    error_set(ret_error, code, "no descriptor left for webhooks");
    webhook->options = *options;
    webhook->wake_at = NEVER;
    webhook->ca_fds[0] = webhook->ca_fds[1] = -1;
    pthread_mutex_init(&webhook->lock, NULL);
    list_init(&webhook->stop_message);
    list_init(&webhook->waiting);
    list_init(&webhook->unproven);
    list_init(&webhook->free);
    list_init(&webhook->flying);
    list_init(&webhook->ended);
    if (event_loop_init(&webhook->loop))
        goto no_loop;
    mailbox_init_in(&webhook->mailbox, &webhook->loop);
    webhook->task = (struct event_task){.end = webhook_turn, .wait_ns = webhook_wait_ns};
    event_loop_join(&webhook->loop, &webhook->task);
    webhook->sockets.loop = &webhook->loop;
    /* libcurl counts these calls under its own lock, so other users in the process are not
     * affected. */
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        goto no_libcurl;
    code = webhook_copy_settings(webhook, ret_error);
    if (!code)
        code = webhook_set_up_multi(webhook, ret_error);
    if (!code)
        code = webhook_set_up_direct(webhook, ret_error);
    if (!code) {
        *ret_webhook = webhook;
        return ERROR_NONE;
    }
    webhook_direct_destroy(webhook->direct);
    oauth_destroy(webhook->oauth);
    curl_multi_cleanup(webhook->multi);
    webhook_free_settings(webhook);
    curl_global_cleanup();
no_libcurl:
    webhook_close_loop(webhook);
no_loop:
    free(webhook);
    return code;
}

void webhook_post(struct webhook *webhook, struct list *deliveries)
{
    mailbox_post_all(&webhook->mailbox, deliveries);
}

enum error_code webhook_reload(struct webhook *webhook, const char *secrets, const char *ca_file,
                               const struct token_issuer_options *tokens, struct error *ret_error)
{
    struct webhook_trust *trust;
    enum error_code code = webhook_trust_load(secrets, ca_file, tokens, &trust, ret_error);

    if (code)
        return code;
    code = webhook_show_keys(webhook, trust, ret_error);
    if (code) {
        webhook_trust_free(trust);
        return code;
    }
    webhook_trust_free(atomic_exchange(&webhook->reload, trust));
    mailbox_wake(&webhook->mailbox);
    return ERROR_NONE;
}

void webhook_append_key_set(struct webhook *webhook, struct buffer *out)
{
    pthread_mutex_lock(&webhook->lock);
    const bool is_of_file = webhook->key_set.size > 0;
    buffer_append_bytes(out, buffer_bytes(&webhook->key_set));
    pthread_mutex_unlock(&webhook->lock);
    if (!is_of_file)
        token_keys_append_set(named_vault(webhook->options.named), wall_machine_now(), out);
}

void webhook_stop(struct webhook *webhook)
{
    if (webhook->has_thread) {
        mailbox_post(&webhook->mailbox, &webhook->stop_message);
        pthread_join(webhook->thread, NULL);
    } else {
        webhook_free_transfers(webhook);
    }
    for (;;) { /* repeated, because `done` may post further deliveries */
        mailbox_take(&webhook->mailbox, &webhook->waiting);
        list_join(&webhook->waiting, &webhook->unproven);
        if (list_is_empty(&webhook->waiting))
            break;
        webhook_fail_waiting(webhook, &webhook->waiting, stopping);
        webhook_hand_back(webhook);
    }
    webhook_trust_free(atomic_exchange(&webhook->reload, NULL));
    webhook_free_settings(webhook);
    curl_global_cleanup();
    webhook_close_loop(webhook);
    free(webhook);
}
