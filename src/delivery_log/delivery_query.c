/* delivery_query.c - what a question to the delivery log asks for. */
#include "delivery_log/delivery_query.h"

enum { QUERY_FIXED_SIZE = 25, QUERY_TEXTS = 4, QUERY_OUTCOMES_ALL = 1 << (RUN_ENDED + 1) };

void delivery_query_init(struct delivery_query *ret_query)
{
    *ret_query = (struct delivery_query){.outcomes = QUERY_OUTCOMES_ALL - 1,
                                         .status_max = UINT16_MAX,
                                         .before = UINT64_MAX,
                                         .limit = DELIVERY_QUERY_COUNT_MAX};
}

void delivery_query_deinit(struct delivery_query *query)
{
    buffer_deinit(&query->found);
}

void delivery_query_encode(const struct delivery_query *query, struct buffer *to)
{
    const struct bytes texts[QUERY_TEXTS] = {query->timer, query->key, query->target,
                                             query->origin};

    buffer_append_le(to, query->outcomes, 1);
    buffer_append_le(to, query->status_min, 2);
    buffer_append_le(to, query->status_max, 2);
    buffer_append_le(to, query->since, 8);
    buffer_append_le(to, query->before, 8);
    buffer_append_le(to, query->limit, 4);
    for (size_t i = 0; i < QUERY_TEXTS; i++) {
        buffer_append_le(to, texts[i].size, 4);
        buffer_append_bytes(to, texts[i]);
    }
}

bool delivery_query_decode(struct bytes bytes, struct delivery_query *ret_query)
{
    struct delivery_query query;
    struct bytes *texts[QUERY_TEXTS] = {&query.timer, &query.key, &query.target, &query.origin};

    delivery_query_init(&query);
    if (bytes.size < QUERY_FIXED_SIZE)
        return false;
    query.outcomes = (uint8_t)bytes.data[0];
    query.status_min = (uint16_t)get_le(bytes.data + 1, 2);
    query.status_max = (uint16_t)get_le(bytes.data + 3, 2);
    query.since = get_le(bytes.data + 5, 8);
    query.before = get_le(bytes.data + 13, 8);
    query.limit = (uint32_t)get_le(bytes.data + 21, 4);
    bytes = (struct bytes){bytes.data + QUERY_FIXED_SIZE, bytes.size - QUERY_FIXED_SIZE};
    for (size_t i = 0; i < QUERY_TEXTS; i++) {
        const uint64_t size = bytes.size < 4 ? UINT32_MAX : get_le(bytes.data, 4);

        if (4 + size > bytes.size)
            return false;
        *texts[i] = (struct bytes){bytes.data + 4, size};
        bytes = (struct bytes){bytes.data + 4 + size, bytes.size - 4 - size};
    }
    if (bytes.size || query.outcomes >= QUERY_OUTCOMES_ALL || !query.limit ||
        query.limit > DELIVERY_QUERY_COUNT_MAX)
        return false;
    *ret_query = query;
    return true;
}

enum delivery_index delivery_query_index(const struct delivery_query *query, uint32_t *ret_hash)
{
    const unsigned outcomes = query->outcomes;
    enum delivery_index index = DELIVERY_INDEX_ALL;
    struct bytes text = {0};
    unsigned number = 0;

    if (query->timer.size) {
        index = DELIVERY_INDEX_TIMER;
        text = query->timer;
    } else if (query->key.size) {
        index = DELIVERY_INDEX_KEY;
        text = query->key;
    } else if (query->target.size) {
        index = DELIVERY_INDEX_TARGET;
        text = query->target;
    } else if (outcomes == 1u << RUN_ENDED || outcomes == 1u << RUN_FAILED) {
        index = DELIVERY_INDEX_OUTCOME;
        number = outcomes == 1u << RUN_ENDED ? RUN_ENDED : RUN_FAILED;
    } else if (query->status_min == query->status_max) {
        index = DELIVERY_INDEX_STATUS;
        number = query->status_min;
    } else if (query->origin.size) {
        index = DELIVERY_INDEX_ORIGIN;
        text = query->origin;
    } else if (outcomes == 1u << RUN_DONE) {
        index = DELIVERY_INDEX_OUTCOME;
        number = RUN_DONE;
    }
    *ret_hash = delivery_index_hash(index, text, number);
    return index;
}

static bool delivery_query_agrees(enum delivery_text text, struct bytes asked,
                                  const struct delivery_entry *entry)
{
    return !asked.size || bytes_equal(delivery_text_cut(text, asked), entry->texts[text]);
}

bool delivery_query_wants(const struct delivery_query *query, const struct delivery_entry *entry)
{
    return entry->ended_us >= query->since && (query->outcomes & 1u << entry->outcome) &&
           entry->status >= query->status_min && entry->status <= query->status_max &&
           delivery_query_agrees(DELIVERY_TEXT_timer, query->timer, entry) &&
           delivery_query_agrees(DELIVERY_TEXT_key, query->key, entry) &&
           delivery_query_agrees(DELIVERY_TEXT_target, query->target, entry) &&
           delivery_query_agrees(DELIVERY_TEXT_origin, query->origin, entry);
}

bool delivery_query_is_full(const struct delivery_query *query)
{
    return query->count >= query->limit || query->looks >= DELIVERY_QUERY_LOOKS ||
           buffer_failed(&query->found);
}
