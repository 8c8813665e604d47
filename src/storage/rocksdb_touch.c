/* rocksdb_touch.c - merges touches into their row, by a merge operator. */
#include "storage/rocksdb_store.h"

#include <stdlib.h>

/* A touch is a merge operand: RocksDB logs it and keeps it beside the row that it is for, and calls
 * these when it reads the row or rewrites a file. They run on any thread, and share nothing.
 *
 * Of several touches the newest says all. */

static struct bytes rocksdb_touch_newest(const char *const *touches, const size_t *sizes, int count)
{
    return (struct bytes){touches[count - 1], sizes[count - 1]};
}

/* NULL when out of memory. */
static char *rocksdb_touch_give(struct buffer *result, unsigned char *ret_success, size_t *ret_size)
{
    char *data = buffer_failed(result) ? NULL : malloc(result->size + 1);

    if (data && result->size)
        memcpy(data, result->data, result->size);
    *ret_success = data != NULL;
    *ret_size = data ? result->size : 0;
    buffer_deinit(result);
    return data;
}

static char *rocksdb_touch_row(void *state, const char *key, size_t key_size, const char *row,
                               size_t row_size, const char *const *touches,
                               const size_t *touch_sizes, int touch_count,
                               unsigned char *ret_success, size_t *ret_size)
{
    const struct bytes touch = rocksdb_touch_newest(touches, touch_sizes, touch_count);

    (void)state;
    struct buffer result;
    buffer_init(&result);
    struct record_key at;
    if (store_row_key_parse((struct bytes){key, key_size}, &at))
        record_touch_apply(&result, at, (struct bytes){row, row ? row_size : 0}, touch);
    else
        buffer_append_bytes(&result, touch); /* its reader finds a damaged key */
    return rocksdb_touch_give(&result, ret_success, ret_size);
}

static char *rocksdb_touch_touches(void *state, const char *key, size_t key_size,
                                   const char *const *touches, const size_t *touch_sizes,
                                   int touch_count, unsigned char *ret_success, size_t *ret_size)
{
    (void)state, (void)key, (void)key_size;
    struct buffer result;
    buffer_init(&result);
    buffer_append_bytes(&result, rocksdb_touch_newest(touches, touch_sizes, touch_count));
    return rocksdb_touch_give(&result, ret_success, ret_size);
}

static void rocksdb_touch_take_back(void *state, const char *value, size_t size)
{
    (void)state, (void)size;
    free((char *)(uintptr_t)value);
}

static void rocksdb_touch_keep_state(void *state)
{
    (void)state;
}

static const char *rocksdb_touch_operator_name(void *state)
{
    (void)state;
    return "tickwheel.touch";
}

rocksdb_mergeoperator_t *store_touch_operator_create(void)
{
    return rocksdb_mergeoperator_create(NULL, rocksdb_touch_keep_state, rocksdb_touch_row,
                                        rocksdb_touch_touches, rocksdb_touch_take_back,
                                        rocksdb_touch_operator_name);
}
