/* rocksdb_filter.c - what RocksDB calls when it rewrites a file or reads a row: it drops final
 * records after their retention, and merges touches into their row.
 *
 * Only an intact record that itself says that it ended long ago is dropped: every other record, a
 * damaged one too, stays for a reader to find. Compactions run on threads of RocksDB; they share
 * only the retention, which never changes. */
#include "store/rocksdb_store.h"
#include "sys/clock.h"

#include <stdlib.h>

/* ---- final records ---- */

bool store_is_forgotten(const struct store_retention *retention, struct wall ended)
{
    return wall_add(ended, retention->retain_ms).ms < wall_now().ms;
}

bool store_is_row_forgotten(const struct store_retention *retention, const struct timer *view)
{
    return timer_is_final(view->state) && !storage_is_dead_letter(view) &&
           store_is_forgotten(retention, view->ended);
}

static unsigned char rocksdb_filter_row(void *state, int level, const char *key, size_t key_size,
                                        const char *value, size_t value_size, char **new_value,
                                        size_t *new_value_size, unsigned char *is_changed)
{
    (void)level, (void)new_value, (void)new_value_size, (void)is_changed;
    struct record_key at;
    struct timer view;
    return record_row_is_over((struct bytes){value, value_size}) &&
           store_row_key_parse((struct bytes){key, key_size}, &at) &&
           !record_row_decode(at, (struct bytes){value, value_size}, &view, NULL) &&
           store_is_row_forgotten(state, &view);
}

static unsigned char rocksdb_filter_pointer(void *state, int level, const char *key,
                                            size_t key_size, const char *value, size_t value_size,
                                            char **new_value, size_t *new_value_size,
                                            unsigned char *is_changed)
{
    (void)level, (void)new_value, (void)new_value_size, (void)is_changed;
    struct record_key at;
    struct record_pointer pointer;
    return store_pointer_key_parse((struct bytes){key, key_size}, &at) &&
           !record_pointer_decode(at, (struct bytes){value, value_size}, &pointer, NULL) &&
           pointer.ended.ms && pointer.at.ms < STORAGE_DEAD_FROM.ms &&
           store_is_forgotten(state, pointer.ended);
}

static unsigned char rocksdb_filter_name(void *state, int level, const char *key, size_t key_size,
                                         const char *value, size_t value_size, char **new_value,
                                         size_t *new_value_size, unsigned char *is_changed)
{
    (void)level, (void)new_value, (void)new_value_size, (void)is_changed;
    struct record_key at;
    struct record_name name;
    return store_row_key_parse((struct bytes){key, key_size}, &at) &&
           !record_name_decode(at, (struct bytes){value, value_size}, &name, NULL) &&
           name.ended.ms && store_is_forgotten(state, name.ended);
}

static const char *rocksdb_filter_name_of_rows(void *state)
{
    (void)state;
    return "tickwheel.timers";
}

static const char *rocksdb_filter_name_of_pointers(void *state)
{
    (void)state;
    return "tickwheel.moved";
}

static const char *rocksdb_filter_name_of_names(void *state)
{
    (void)state;
    return "tickwheel.names";
}

static void rocksdb_filter_keep_state(void *state)
{
    (void)state; /* the store's, which outlives the filter */
}

rocksdb_compactionfilter_t *store_row_filter_create(struct store_retention *retention)
{
    return rocksdb_compactionfilter_create(retention, rocksdb_filter_keep_state, rocksdb_filter_row,
                                           rocksdb_filter_name_of_rows);
}

rocksdb_compactionfilter_t *store_pointer_filter_create(struct store_retention *retention)
{
    return rocksdb_compactionfilter_create(retention, rocksdb_filter_keep_state,
                                           rocksdb_filter_pointer, rocksdb_filter_name_of_pointers);
}

rocksdb_compactionfilter_t *store_name_filter_create(struct store_retention *retention)
{
    return rocksdb_compactionfilter_create(retention, rocksdb_filter_keep_state,
                                           rocksdb_filter_name, rocksdb_filter_name_of_names);
}

/* ---- touches ---- */

/* Returns the newest touch, which replaces all earlier ones. A touch is a merge operand, which
 * RocksDB keeps beside its row. These functions run on any thread and share nothing. */

static struct bytes rocksdb_touch_newest(const char *const *touches, const size_t *sizes, int count)
{
    return (struct bytes){touches[count - 1], sizes[count - 1]};
}

/* Returns NULL if out of memory. */
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
        buffer_append_bytes(&result, touch); /* readers find a damaged key */
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
