/* rowop.c - the encoding of a batch's row operations. */
#include "store/rowop.h"

#include "base/checksum.h"

#include <assert.h>

enum {
    ROWOP_VERSION = 1,
    /* head of an operation: kind and table 1, size of the key 1, of the value 4 */
    ROWOP_HEAD_SIZE = 6,
    ROWOP_VALUE_AT = 2, /* offset of the value's size in the head */
    ROWOP_SUM_SIZE = 4,
};

/* ---- writing ---- */

size_t rowop_begin(struct buffer *to)
{
    const size_t begin = to->size;

    buffer_append(to, &(char){ROWOP_VERSION}, 1);
    return begin;
}

size_t rowop_put(struct buffer *to, enum rowop_kind kind, enum rowop_table table, struct bytes key)
{
    const size_t head_at = to->size;
    char *head = buffer_reserve(to, ROWOP_HEAD_SIZE + key.size);

    assert(key.size > 0 && key.size <= ROWOP_KEY_SIZE_MAX);
    if (!head)
        return head_at;
    head[0] = (char)(kind << 4 | table);
    head[1] = (char)key.size;
    put_le(head + ROWOP_VALUE_AT, 0, 4);
    memcpy(head + ROWOP_HEAD_SIZE, key.data, key.size);
    to->size += ROWOP_HEAD_SIZE + key.size;
    return head_at;
}

void rowop_put_end(struct buffer *to, size_t value)
{
    if (buffer_failed(to))
        return;
    char *head = to->data + value;
    const size_t size = to->size - value - ROWOP_HEAD_SIZE - (uint8_t)head[1];

    assert(size > 0 && size <= UINT32_MAX);
    put_le(head + ROWOP_VALUE_AT, size, 4);
}

void rowop_delete(struct buffer *to, enum rowop_table table, struct bytes key)
{
    rowop_put(to, ROWOP_DELETE, table, key);
}

void rowop_delete_range(struct buffer *to, enum rowop_table table, struct bytes from,
                        struct bytes before)
{
    const size_t value = rowop_put(to, ROWOP_DELETE_RANGE, table, from);

    buffer_append_bytes(to, before);
    rowop_put_end(to, value);
}

void rowop_end(struct buffer *to, size_t begin)
{
    char sum[ROWOP_SUM_SIZE];

    if (buffer_failed(to))
        return;
    put_le(sum, checksum_crc32c(0, to->data + begin, to->size - begin), sizeof(sum));
    buffer_append(to, sum, sizeof(sum));
}

/* ---- reading ---- */

static bool rowop_has_value(const struct rowop *op)
{
    switch (op->kind) {
    case ROWOP_PUT:
    case ROWOP_TOUCH:
        return op->value.size > 0;
    case ROWOP_DELETE:
        return op->value.size == 0;
    case ROWOP_DELETE_RANGE:
        return op->value.size == op->key.size &&
               memcmp(op->key.data, op->value.data, op->key.size) < 0;
    case ROWOP_KIND_COUNT:
        break;
    }
    return false;
}

bool rowop_next(struct bytes *body, struct rowop *ret_op)
{
    if (body->size < ROWOP_HEAD_SIZE)
        return false;
    const uint8_t *head = (const uint8_t *)body->data;
    const size_t key_size = head[1], value_size = (size_t)get_le(head + ROWOP_VALUE_AT, 4);

    if (head[0] >> 4 >= ROWOP_KIND_COUNT || (head[0] & 15) >= ROWOP_TABLE_COUNT || !key_size ||
        body->size - ROWOP_HEAD_SIZE < key_size ||
        body->size - ROWOP_HEAD_SIZE - key_size < value_size)
        return false;
    const char *key = body->data + ROWOP_HEAD_SIZE;
    const struct rowop op = {(enum rowop_kind)(head[0] >> 4),
                             (enum rowop_table)(head[0] & 15),
                             {key, key_size},
                             {key + key_size, value_size}};
    if (!rowop_has_value(&op))
        return false;
    body->data += ROWOP_HEAD_SIZE + key_size + value_size;
    body->size -= ROWOP_HEAD_SIZE + key_size + value_size;
    *ret_op = op;
    return true;
}

struct bytes rowop_ops(struct bytes body)
{
    return (struct bytes){body.data + 1, body.size - 1 - ROWOP_SUM_SIZE};
}

bool rowop_open(struct bytes *body)
{
    if (body->size < 1 + ROWOP_SUM_SIZE || body->data[0] != ROWOP_VERSION)
        return false;
    const struct bytes ops = rowop_ops(*body);
    if (get_le(ops.data + ops.size, ROWOP_SUM_SIZE) !=
        checksum_crc32c(0, body->data, body->size - ROWOP_SUM_SIZE))
        return false;
    struct bytes rest = ops;
    struct rowop op;
    while (rowop_next(&rest, &op))
        continue;
    if (rest.size)
        return false;
    *body = ops;
    return true;
}
