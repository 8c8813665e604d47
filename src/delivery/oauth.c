/* oauth.c - a table of clients with their tokens, and the requests in flight. */
#include "delivery/oauth.h"

#include "base/share.h"
#include "delivery/webhook_answer.h"
#include "sys/clock.h"
#include "timer/tenant.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define MARGIN_S_MAX 60   /* a token is not used in the last tenth of its life, or this long */
#define PAUSE_MS     1000 /* time after a failed request in which none is made */

/* A client: its name is the hash of its tenant and texts, so that another secret is another one. */
struct oauth_entry {
    struct list link; /* in `entries`, the one that was used last at the end */
    uint8_t name[SHA256_DIGEST_LENGTH];
    uint64_t tenant;                /* its key (timer/tenant.h) */
    struct buffer token;            /* empty if there is none */
    struct instant token_ends_at;   /* time from which the token is not used */
    struct instant retry_at;        /* earliest time of the next request */
    char reason[OAUTH_REASON_SIZE]; /* reason of the last failure */
    /* Request in flight; `easy` is NULL if there is none. */
    CURL *easy;
    struct list waiting; /* deliveries that want the token */
    struct curl_slist *headers;
    struct buffer body, answer;
    const char *refused_kind; /* kind of the address that the guard refused; NULL if none was */
    size_t head_bytes;        /* of headers and trailers, which libcurl keeps */
    const struct webhook_settings *settings;
};

struct oauth {
    struct oauth_options options;
    struct list entries;
    size_t count;
};

struct oauth *oauth_create(const struct oauth_options *options)
{
    struct oauth *oauth = calloc(1, sizeof(*oauth));

    if (!oauth)
        return NULL;
    oauth->options = *options;
    list_init(&oauth->entries);
    return oauth;
}

static void oauth_wipe(struct buffer *buffer)
{
    if (buffer->data)
        OPENSSL_cleanse(buffer->data, buffer->size);
    buffer_deinit(buffer);
    buffer_init(buffer);
}

static void oauth_entry_stop(struct oauth *oauth, struct oauth_entry *entry)
{
    if (entry->easy) {
        curl_multi_remove_handle(oauth->options.multi, entry->easy);
        curl_easy_cleanup(entry->easy);
        entry->easy = NULL;
    }
    for (struct curl_slist *at = entry->headers; at; at = at->next)
        OPENSSL_cleanse(at->data, strlen(at->data));
    curl_slist_free_all(entry->headers);
    entry->headers = NULL;
    oauth_wipe(&entry->body);
    oauth_wipe(&entry->answer);
}

static void oauth_entry_destroy(struct oauth *oauth, struct oauth_entry *entry)
{
    assert(list_is_empty(&entry->waiting));
    oauth_entry_stop(oauth, entry);
    oauth_wipe(&entry->token);
    list_remove(&entry->link);
    oauth->count--;
    free(entry);
}

void oauth_destroy(struct oauth *oauth)
{
    if (!oauth)
        return;
    while (!list_is_empty(&oauth->entries))
        oauth_entry_destroy(oauth, list_item(oauth->entries.next, struct oauth_entry, link));
    free(oauth);
}

/* ---- the table ---- */

static void oauth_name(struct bytes tenant, const struct oauth_client *client,
                       uint8_t ret_name[SHA256_DIGEST_LENGTH])
{
    const struct bytes parts[] = {tenant,         client->url,   client->id,
                                  client->secret, client->scope, client->audience};
    uint8_t hashes[sizeof(parts) / sizeof(parts[0]) + 1][SHA256_DIGEST_LENGTH] = {{0}};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        SHA256((const uint8_t *)(parts[i].size ? parts[i].data : ""), parts[i].size, hashes[i]);
    hashes[sizeof(parts) / sizeof(parts[0])][0] = client->has_secret_in_body;
    SHA256(hashes[0], sizeof(hashes), ret_name);
}

/* Returns the entry with this name, as the last of the list; NULL if there is none. */
static struct oauth_entry *oauth_entry_find(struct oauth *oauth, const uint8_t *name)
{
    LIST_FOR_EACH (&oauth->entries, link) {
        struct oauth_entry *entry = list_item(link, struct oauth_entry, link);

        if (CRYPTO_memcmp(entry->name, name, sizeof(entry->name)) != 0)
            continue;
        list_remove(&entry->link);
        list_push(&oauth->entries, &entry->link);
        return entry;
    }
    return NULL;
}

/* Returns the entry that was used the longest ago and has no request: of this tenant, or of any if
 * `is_any`. NULL if there is none. */
static struct oauth_entry *oauth_entry_oldest(struct oauth *oauth, uint64_t tenant, bool is_any)
{
    LIST_FOR_EACH (&oauth->entries, link) {
        struct oauth_entry *entry = list_item(link, struct oauth_entry, link);

        if (!entry->easy && (is_any || entry->tenant == tenant))
            return entry;
    }
    return NULL;
}

/* Makes an entry. A tenant that has its share of the table loses its own oldest one, and otherwise
 * a full table its oldest. Entries with a request stay. Returns NULL if all of them have one, or
 * memory is out. */
static struct oauth_entry *oauth_entry_create(struct oauth *oauth, uint64_t tenant,
                                              const uint8_t *name)
{
    size_t held = 0, others = 0; /* only the requests of others are in the way */

    LIST_FOR_EACH (&oauth->entries, link) {
        const struct oauth_entry *entry = list_item(link, struct oauth_entry, link);

        held += entry->tenant == tenant;
        others += entry->tenant != tenant && entry->easy;
    }
    const bool has_share = share_allows(OAUTH_CLIENTS_MAX, others + held, held, 1);
    if (!has_share || oauth->count == OAUTH_CLIENTS_MAX) {
        struct oauth_entry *old = oauth_entry_oldest(oauth, tenant, has_share);

        if (!old)
            return NULL;
        oauth_entry_destroy(oauth, old);
    }
    struct oauth_entry *entry = calloc(1, sizeof(*entry));
    if (!entry)
        return NULL;
    memcpy(entry->name, name, sizeof(entry->name));
    entry->tenant = tenant;
    entry->settings = oauth->options.settings;
    list_init(&entry->waiting);
    list_push(&oauth->entries, &entry->link);
    oauth->count++;
    return entry;
}

/* ---- a request ---- */

static curl_socket_t oauth_open_socket(void *context, curlsocktype purpose,
                                       struct curl_sockaddr *address)
{
    struct oauth_entry *entry = context;
    const char *kind = guard_refusal(entry->settings->guard, &address->addr);

    (void)purpose;
    if (kind) {
        entry->refused_kind = kind;
        return CURL_SOCKET_BAD;
    }
    const int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd >= 0 && !webhook_sockets_add(entry->settings->sockets, fd)) {
        close(fd);
        return CURL_SOCKET_BAD;
    }
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static int oauth_close_socket(void *context, curl_socket_t fd)
{
    const struct webhook_settings *settings = context;

    return webhook_sockets_close(settings->sockets, fd);
}

/* libcurl limits headers, but keeps any number of trailers. */
static size_t oauth_read_header(char *data, size_t size, size_t count, void *context)
{
    struct oauth_entry *entry = context;

    (void)data;
    entry->head_bytes += size * count;
    return entry->head_bytes <= WEBHOOK_ANSWER_HEAD_MAX ? size * count : 0;
}

static size_t oauth_read_body(char *data, size_t size, size_t count, void *context)
{
    struct oauth_entry *entry = context;

    if (entry->answer.size + size * count > OAUTH_ANSWER_BYTES_MAX)
        return 0;
    buffer_append(&entry->answer, data, size * count);
    return buffer_failed(&entry->answer) ? 0 : size * count;
}

/* Adds a header. libcurl's list copies it. */
static bool oauth_entry_add_header(struct oauth_entry *entry, const char *line)
{
    struct curl_slist *longer = curl_slist_append(entry->headers, line);

    entry->headers = longer ? longer : entry->headers;
    return longer != NULL;
}

static bool oauth_entry_write(struct oauth_entry *entry, const struct oauth_client *client)
{
    struct buffer line;

    buffer_init(&line);
    oauth_append_body(client, &entry->body);
    buffer_append_text(&line, "authorization: ");
    oauth_append_authorization(client, &line);
    buffer_append(&line, "", 1);
    bool is_written = !buffer_failed(&line) && !buffer_failed(&entry->body) &&
                      oauth_entry_add_header(entry, "accept: application/json") &&
                      oauth_entry_add_header(entry, "expect:");
    if (is_written && !client->has_secret_in_body)
        is_written = oauth_entry_add_header(entry, line.data);
    oauth_wipe(&line);
    return is_written;
}

/* Sets the handle as those of webhooks, and a connection of its own, which is not used again. */
static bool oauth_entry_set(struct oauth_entry *entry, const char *url)
{
    const struct webhook_settings *settings = entry->settings;
    CURL *easy = entry->easy;
    CURLcode bad = CURLE_OK;

    bad |= curl_easy_setopt(easy, CURLOPT_URL, url);
    bad |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    bad |= curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    bad |= curl_easy_setopt(easy, CURLOPT_PROXY, "");
    bad |= curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    bad |= curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_USERAGENT, settings->user_agent);
    bad |= curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)OAUTH_TIMEOUT_MS_MAX);
    bad |= curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    bad |= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    if (settings->ca_file)
        bad |= curl_easy_setopt(easy, CURLOPT_CAINFO, settings->ca_file);
    bad |= curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, oauth_open_socket);
    bad |= curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, entry);
    bad |= curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, oauth_close_socket);
    bad |= curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, (void *)(uintptr_t)settings);
    bad |= curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, oauth_read_header);
    bad |= curl_easy_setopt(easy, CURLOPT_HEADERDATA, entry);
    bad |= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, oauth_read_body);
    bad |= curl_easy_setopt(easy, CURLOPT_WRITEDATA, entry);
    bad |= curl_easy_setopt(easy, CURLOPT_HTTPHEADER, entry->headers);
    bad |= curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)entry->body.size);
    bad |= curl_easy_setopt(easy, CURLOPT_POSTFIELDS, entry->body.data);
    return bad == CURLE_OK;
}

static bool oauth_entry_fetch(struct oauth *oauth, struct oauth_entry *entry,
                              const struct oauth_client *client)
{
    struct buffer url;

    buffer_init(&url);
    buffer_append_bytes(&url, client->url);
    buffer_append(&url, "", 1);
    entry->refused_kind = NULL;
    entry->head_bytes = 0;
    entry->easy = buffer_failed(&url) ? NULL : curl_easy_init();
    const bool is_begun = entry->easy && oauth_entry_write(entry, client) &&
                          oauth_entry_set(entry, url.data) &&
                          curl_multi_add_handle(oauth->options.multi, entry->easy) == CURLM_OK;
    buffer_deinit(&url);
    if (!is_begun) {
        if (entry->easy)
            curl_easy_cleanup(entry->easy);
        entry->easy = NULL;
        oauth_entry_stop(oauth, entry);
    }
    return is_begun;
}

/* ---- the end of a request ---- */

/* Keeps the token, or the reason why there is none. */
static bool oauth_entry_learn(struct oauth_entry *entry, CURLcode result)
{
    const struct instant now = instant_now();
    uint32_t life_s = 0;
    long status = 0;

    entry->reason[0] = '\0';
    curl_easy_getinfo(entry->easy, CURLINFO_RESPONSE_CODE, &status);
    if (entry->refused_kind)
        snprintf(entry->reason, sizeof(entry->reason), "address of the token endpoint refused: %s",
                 entry->refused_kind);
    else if (result != CURLE_OK && entry->answer.size > 0)
        snprintf(entry->reason, sizeof(entry->reason),
                 "answer of the token endpoint is too long "
                 "or was cut off");
    else if (result != CURLE_OK)
        snprintf(entry->reason, sizeof(entry->reason), "token endpoint: %.70s",
                 curl_easy_strerror(result));
    oauth_wipe(&entry->token);
    if (!entry->reason[0] && oauth_answer_read((int)status, buffer_bytes(&entry->answer),
                                               &entry->token, &life_s, entry->reason)) {
        const uint32_t tenth_s = life_s / 10;

        life_s -= tenth_s < MARGIN_S_MAX ? tenth_s : MARGIN_S_MAX;
        entry->token_ends_at = instant_add_ms(now, (uint64_t)life_s * 1000);
        return true;
    }
    entry->retry_at = instant_add_ms(now, PAUSE_MS);
    return false;
}

bool oauth_end(struct oauth *oauth, CURL *easy, CURLcode result)
{
    struct oauth_entry *entry = NULL;

    LIST_FOR_EACH (&oauth->entries, link)
        if (list_item(link, struct oauth_entry, link)->easy == easy)
            entry = list_item(link, struct oauth_entry, link);
    if (!entry)
        return false;
    const bool has_token = oauth_entry_learn(entry, result);
    struct list waiting;
    list_init(&waiting);
    list_join(&waiting, &entry->waiting);
    oauth_entry_stop(oauth, entry);
    if (has_token)
        oauth->options.ready(oauth->options.context, &waiting);
    else
        oauth->options.failed(oauth->options.context, &waiting, entry->reason);
    assert(list_is_empty(&waiting));
    return true;
}

void oauth_abort(struct oauth *oauth, const char *reason)
{
    LIST_FOR_EACH (&oauth->entries, link) {
        struct oauth_entry *entry = list_item(link, struct oauth_entry, link);

        oauth_entry_stop(oauth, entry);
        oauth->options.failed(oauth->options.context, &entry->waiting, reason);
    }
}

/* ---- tokens ---- */

enum oauth_state oauth_find(struct oauth *oauth, struct bytes tenant,
                            const struct oauth_client *client, struct delivery *delivery,
                            struct instant now, struct oauth_found *ret_found)
{
    uint8_t name[SHA256_DIGEST_LENGTH];

    oauth_name(tenant, client, name);
    struct oauth_entry *entry = oauth_entry_find(oauth, name);
    if (!entry)
        entry = oauth_entry_create(oauth, tenant_key(tenant), name);
    if (!entry) {
        snprintf(ret_found->reason, sizeof(ret_found->reason), "too many tokens are fetched");
        return OAUTH_FAILED;
    }
    if (entry->token.size > 0 && now.ns < entry->token_ends_at.ns) {
        ret_found->token = buffer_bytes(&entry->token);
        return OAUTH_READY;
    }
    if (!entry->easy && now.ns < entry->retry_at.ns) {
        memcpy(ret_found->reason, entry->reason, sizeof(entry->reason));
        return OAUTH_FAILED;
    }
    if (!entry->easy && !oauth_entry_fetch(oauth, entry, client)) {
        snprintf(ret_found->reason, sizeof(ret_found->reason), "out of memory");
        return OAUTH_FAILED;
    }
    list_push(&entry->waiting, &delivery->link);
    return OAUTH_WAITS;
}

void oauth_refused(struct oauth *oauth, struct bytes tenant, const struct oauth_client *client)
{
    uint8_t name[SHA256_DIGEST_LENGTH];

    oauth_name(tenant, client, name);
    struct oauth_entry *entry = oauth_entry_find(oauth, name);
    if (entry)
        oauth_wipe(&entry->token);
}
