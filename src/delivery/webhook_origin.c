/* Origins in a map by hash, and a list of those with a learnt address, in order of age. */
#include "delivery/webhook_origin.h"

#include "base/random.h"
#include "delivery/guard_host.h"
#include "sys/entropy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>

enum error_code webhook_origins_init(struct webhook_origins *origins, size_t learnt_count_max)
{
    *origins = (struct webhook_origins){.learnt_count_max_ = learnt_count_max};
    map_init(&origins->map_);
    list_init(&origins->learnt_);
    return entropy_u64(&origins->seed_);
}

static struct webhook_origin *webhook_origins_oldest(const struct webhook_origins *origins)
{
    return list_item(origins->learnt_.next, struct webhook_origin, link_);
}

void webhook_origins_deinit(struct webhook_origins *origins)
{
    while (!list_is_empty(&origins->learnt_))
        webhook_origin_unlearn(origins, webhook_origins_oldest(origins));
    map_deinit(&origins->map_);
}

static uint64_t webhook_origins_key(const struct webhook_origins *origins, struct bytes text)
{
    return random_mix(bytes_hash(origins->seed_, text));
}

struct webhook_origin *webhook_origin_find(const struct webhook_origins *origins,
                                           const struct timer *timer)
{
    const struct bytes text = timer_target_origin(timer);
    struct webhook_origin *origin = map_get(&origins->map_, webhook_origins_key(origins, text));

    return origin && bytes_equal(origin->text_, text) ? origin : NULL;
}

struct webhook_origin *webhook_origin_get(struct webhook_origins *origins,
                                          const struct timer *timer)
{
    const struct bytes text = timer_target_origin(timer);
    const uint64_t key = webhook_origins_key(origins, text);
    struct webhook_origin *origin = map_get(&origins->map_, key);

    if (origin)
        return bytes_equal(origin->text_, text) ? origin : NULL;
    origin = malloc(sizeof(*origin) + text.size);
    if (!origin)
        return NULL;
    *origin = (struct webhook_origin){.key_ = key, .text_ = {(char *)(origin + 1), text.size}};
    memcpy(origin + 1, text.data, text.size);
    list_init(&origin->idle);
    list_init(&origin->link_);
    if (map_put(&origins->map_, key, origin))
        return origin;
    free(origin);
    return NULL;
}

void webhook_origin_release(struct webhook_origins *origins, struct webhook_origin *origin)
{
    if (origin->connection_count > 0 || !list_is_empty(&origin->link_))
        return;
    map_remove(&origins->map_, origin->key_);
    free(origin);
}

bool webhook_origin_is_fresh(const struct webhook_origin *origin, struct instant now)
{
    return !list_is_empty(&origin->link_) &&
           instant_since_ns(origin->learnt_at_, now) < WEBHOOK_ADDRESS_MS_MAX * UINT64_C(1000000);
}

void webhook_origin_unlearn(struct webhook_origins *origins, struct webhook_origin *origin)
{
    if (list_is_empty(&origin->link_))
        return;
    list_remove(&origin->link_);
    origins->learnt_count_--;
    webhook_origin_release(origins, origin);
}

void webhook_origins_expire(struct webhook_origins *origins, struct instant now)
{
    while (!list_is_empty(&origins->learnt_) &&
           !webhook_origin_is_fresh(webhook_origins_oldest(origins), now))
        webhook_origin_unlearn(origins, webhook_origins_oldest(origins));
}

/* ---- addresses ---- */

/* Parses a numeric IPv4 or IPv6 address as libcurl writes it. Returns false for any other text. */
static bool webhook_address_parse(const char *text, uint16_t port,
                                  struct sockaddr_storage *ret_address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    char again[INET6_ADDRSTRLEN] = "";

    *ret_address = (struct sockaddr_storage){0};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        memcpy(ret_address, &v4, sizeof(v4));
        inet_ntop(AF_INET, &v4.sin_addr, again, sizeof(again));
    } else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1 &&
               /* a link-local address needs its interface, which is not known here */
               !IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) {
        memcpy(ret_address, &v6, sizeof(v6));
        inet_ntop(AF_INET6, &v6.sin6_addr, again, sizeof(again));
    }
    return *again && strcmp(text, again) == 0;
}

bool webhook_target_address(const struct timer *timer, struct sockaddr_storage *ret_address)
{
    struct bytes name = target_slice(timer->texts.target, timer->target.name);
    const bool is_v6 = name.data[0] == '[';
    char host[INET6_ADDRSTRLEN];

    if (is_v6)
        name = (struct bytes){name.data + 1, name.size - 2};
    if (name.size >= sizeof(host))
        return false;
    memcpy(host, name.data, name.size);
    host[name.size] = '\0';
    return webhook_address_parse(host, timer->target.port, ret_address) &&
           (ret_address->ss_family == AF_INET6) == is_v6;
}

bool webhook_target_is_named(const struct timer *timer)
{
    if (timer->target.kind != TARGET_HTTP)
        return false;
    const struct bytes name = target_slice(timer->texts.target, timer->target.name);
    uint8_t unused[16];
    const enum guard_host host = guard_host_parse(name, unused);
    /* libcurl omits a final dot from the Host header, so such names are not accepted */
    return name.data[name.size - 1] != '.' &&
           (host == GUARD_HOST_NAME || host == GUARD_HOST_LOCALHOST);
}

void webhook_origins_learn(struct webhook_origins *origins, const struct timer *timer,
                           const char *address, struct instant now)
{
    struct sockaddr_storage parsed;

    if (!webhook_address_parse(address, timer->target.port, &parsed))
        return;
    if (origins->learnt_count_ == origins->learnt_count_max_)
        webhook_origin_unlearn(origins, webhook_origins_oldest(origins));
    struct webhook_origin *origin = webhook_origin_get(origins, timer);
    if (!origin)
        return;
    origins->learnt_count_ += list_is_empty(&origin->link_);
    list_remove(&origin->link_);
    list_push(&origins->learnt_, &origin->link_);
    origin->address = parsed;
    origin->learnt_at_ = now;
}
