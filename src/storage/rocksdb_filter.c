/* rocksdb_filter.c - drops final records in compactions, after their retention.
 *
 * Only an intact record that itself says that it ended long ago is dropped: every other record, a
 * damaged one too, stays for a reader to find. Compactions run on threads of RocksDB; they share
 * only the retention, which never changes. */
#include "storage/rocksdb_store.h"
#include "sys/clock.h"

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
