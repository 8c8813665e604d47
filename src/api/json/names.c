/* names.c - checks names, and maps a key or a request name to its partition. */
#include "api/json/names.h"

#include "base/utf8.h"
#include "timer/flow.h"

#include <stdio.h>

enum error_code name_check(struct bytes name, struct error *ret_error)
{
    if (name.size == 0 || name.size > NAME_SIZE_MAX)
        return error_set(ret_error, ERROR_INVALID, "It must have 1 to %d bytes", NAME_SIZE_MAX);
    for (size_t i = 0; i < name.size; i++)
        if ((unsigned char)name.data[i] < ' ' || name.data[i] == 0x7f)
            return error_set(ret_error, ERROR_INVALID, "It must not have control characters");
    return ERROR_NONE;
}

enum error_code name_check_new(struct bytes name, struct error *ret_error)
{
    if (bytes_equal(name, BYTES(".")) || bytes_equal(name, BYTES("..")))
        return error_set(ret_error, ERROR_INVALID,
                         "It must not be . or .., which programs take out of the path of a URL");
    if (!utf8_is_text(name.data, name.data + name.size))
        return error_set(ret_error, ERROR_INVALID, "It must be UTF-8");
    return name_check(name, ret_error);
}

uint16_t name_partition(const struct node *node, struct bytes key)
{
    return (uint16_t)(bytes_hash(0, key) % node_partition_count(node));
}

uint16_t name_partition_of_flow(const struct node *node, const struct timer *timer)
{
    return (uint16_t)(bytes_hash(bytes_hash(0, timer->texts.tenant), flow_key(timer->texts.flow)) %
                      node_partition_count(node));
}

uint16_t name_partition_of_queue(const struct node *node, const struct timer *timer)
{
    return (uint16_t)(bytes_hash(bytes_hash(0, timer->texts.tenant), timer_target_name(timer)) %
                      node_partition_count(node));
}

uint16_t name_partition_of(struct node *node, unsigned shard, const struct timer *timer)
{
    if (timer->texts.key.size)
        return name_partition(node, timer->texts.key);
    if (timer->texts.order.size)
        return name_partition_of_queue(node, timer);
    if (timer->texts.request.size)
        return name_partition(node, name_of_request(timer->texts.request));
    if (timer->texts.flow.size)
        return name_partition_of_flow(node, timer);
    return node_partition_next(node, shard, 1);
}

struct timer *name_timer(struct timer *timer, struct bytes key, struct bytes request)
{
    struct timer_texts texts = timer->texts;

    texts.key = key;
    texts.request = request;
    struct timer *copy = timer_copy(timer, &texts);
    timer_free(timer);
    return copy;
}

struct timer *name_claim(const struct timer *timer)
{
    const struct bytes request = timer->texts.request, name = name_of_request(request);
    char text[NAME_FINGERPRINT_SIZE + NAME_SIZE_MAX + 1];

    /* A key in the path counts like one in the body. */
    snprintf(text, sizeof(text), "%016llx",
             (unsigned long long)bytes_hash(bytes_hash(0, timer->texts.key), request));
    memcpy(text + NAME_FINGERPRINT_SIZE, name.data, name.size);
    struct timer *claim = timer_alloc(
        &(struct timer_texts){.request = {text, request.size}, .tenant = timer->texts.tenant});
    if (claim)
        claim->due = timer->due;
    return claim;
}
