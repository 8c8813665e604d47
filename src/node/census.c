/* census.c - counts waiting timers by name, in a table of fixed size. */
#include "node/census.h"

#include "base/check.h"
#include "base/random.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

enum { CENSUS_HEADS = 512, CENSUS_NONE = UINT16_MAX };

/* Counts of one shard; the last element counts the names without a row. */
struct census_shard {
    struct census_count now[CENSUS_ROWS_MAX + 1];
    bool was_ready[CENSUS_ROWS_MAX]; /* whether the row was ready in the shard's previous count */
};

struct census {
    pthread_mutex_t lock;
    uint64_t seed;
    size_t group_max, row_count;
    bool is_full; /* whether a count of the shard found no free row */
    struct census_row rows[CENSUS_ROWS_MAX];
    uint16_t heads[CENSUS_HEADS], next[CENSUS_ROWS_MAX]; /* chains of rows by hash */
    /* Rows by the hash of their group. Groups with equal hashes share one maximum. */
    uint16_t group_rows[CENSUS_HEADS];
    unsigned shard_count;
    struct census_shard shards[];
};

struct census *census_create(unsigned shard_count, size_t group_max, uint64_t seed)
{
    struct census *census = calloc(1, sizeof(*census) + shard_count * sizeof(census->shards[0]));

    if (!census)
        return NULL;
    pthread_mutex_init(&census->lock, NULL);
    census->seed = seed;
    census->group_max = group_max;
    census->shard_count = shard_count;
    for (size_t i = 0; i < CENSUS_HEADS; i++)
        census->heads[i] = CENSUS_NONE;
    return census;
}

void census_destroy(struct census *census)
{
    if (!census)
        return;
    pthread_mutex_destroy(&census->lock);
    free(census);
}

static size_t census_hash(const struct census *census, struct bytes text)
{
    uint64_t hash = random_mix(census->seed ^ text.size);

    for (size_t i = 0; i < text.size; i += 8)
        hash = random_mix(hash ^ get_le(text.data + i, text.size - i < 8 ? text.size - i : 8));
    return hash % CENSUS_HEADS;
}

static struct bytes census_group_of(const struct census_row *row)
{
    return (struct bytes){row->name, row->group_size};
}

static struct bytes census_name_of(const struct census_row *row)
{
    return (struct bytes){row->name, row->name_size};
}

static uint16_t census_find(const struct census *census, struct bytes name, size_t hash)
{
    uint16_t row = census->heads[hash];

    while (row != CENSUS_NONE && !bytes_equal(census_name_of(&census->rows[row]), name))
        row = census->next[row];
    return row;
}

static bool census_is_idle(const struct census *census, size_t row)
{
    for (unsigned i = 0; i < census->shard_count; i++)
        if (census->shards[i].now[row].ready || census->shards[i].was_ready[row])
            return false;
    return true;
}

static void census_unlink(struct census *census, uint16_t row)
{
    uint16_t *at = &census->heads[census_hash(census, census_name_of(&census->rows[row]))];

    while (*at != row)
        at = &census->next[*at];
    *at = census->next[row];
    census->group_rows[census_hash(census, census_group_of(&census->rows[row]))]--;
}

/* Returns a row that is free or can be reused; CENSUS_NONE if there is none. */
static uint16_t census_free_row(struct census *census)
{
    if (census->row_count < CENSUS_ROWS_MAX)
        return (uint16_t)census->row_count++;
    for (uint16_t row = 0; !census->is_full && row < CENSUS_ROWS_MAX; row++)
        if (census_is_idle(census, row)) {
            census_unlink(census, row);
            return row;
        }
    census->is_full = true;
    return CENSUS_NONE;
}

/* Gives the name a row, unless its group has group_max rows or no row is free. */
static uint16_t census_admit(struct census *census, struct bytes group, struct bytes name,
                             size_t hash)
{
    uint16_t *group_rows = &census->group_rows[census_hash(census, group)];

    if (*group_rows >= census->group_max)
        return CENSUS_NONE;
    const uint16_t index = census_free_row(census);
    if (index == CENSUS_NONE)
        return CENSUS_NONE;
    struct census_row *row = &census->rows[index];
    if (name.size > 0) /* the unnamed tenant's name is empty: nothing to copy */
        memcpy(row->name, name.data, name.size);
    row->name_size = (uint8_t)name.size;
    row->group_size = (uint8_t)group.size;
    census->next[index] = census->heads[hash];
    census->heads[hash] = index;
    (*group_rows)++;
    return index;
}

static void census_sum(struct census_count *sum, const struct census_count *count)
{
    sum->ready += count->ready;
    if (count->oldest.ms && (!sum->oldest.ms || count->oldest.ms < sum->oldest.ms))
        sum->oldest = count->oldest;
}

void census_begin(struct census *census, unsigned shard)
{
    struct census_shard *own = &census->shards[shard];

    assert(shard < census->shard_count);
    pthread_mutex_lock(&census->lock);
    census->is_full = false;
    for (size_t i = 0; i < CENSUS_ROWS_MAX; i++)
        own->was_ready[i] = own->now[i].ready > 0;
    memset(own->now, 0, sizeof(own->now));
}

void census_add(struct census *census, unsigned shard, struct bytes group, struct bytes name,
                const struct census_count *count)
{
    const size_t hash = census_hash(census, name);

    assert(name.size <= CENSUS_NAME_SIZE && bytes_has_prefix(name, group));
    uint16_t row = census_find(census, name, hash);
    if (row == CENSUS_NONE)
        row = census_admit(census, group, name, hash);
    census_sum(&census->shards[shard].now[row == CENSUS_NONE ? CENSUS_ROWS_MAX : row], count);
}

void census_end(struct census *census)
{
    pthread_mutex_unlock(&census->lock);
}

size_t census_read(struct census *census, struct census_row ret_rows[CENSUS_ROWS_MAX],
                   struct census_count *ret_others)
{
    pthread_mutex_lock(&census->lock);
    const size_t count = census->row_count;
    memcpy(ret_rows, census->rows, count * sizeof(ret_rows[0]));
    *ret_others = (struct census_count){0};
    for (unsigned i = 0; i < census->shard_count; i++) {
        for (size_t row = 0; row < count; row++)
            census_sum(&ret_rows[row].count, &census->shards[i].now[row]);
        census_sum(ret_others, &census->shards[i].now[CENSUS_ROWS_MAX]);
    }
    pthread_mutex_unlock(&census->lock);
    return count;
}

void census_check(struct census *census)
{
    size_t rows = 0, group_rows = 0;

    pthread_mutex_lock(&census->lock);
    CHECK(census->row_count <= CENSUS_ROWS_MAX);
    for (size_t head = 0; head < CENSUS_HEADS; head++) {
        CHECK(census->group_rows[head] <= census->group_max);
        group_rows += census->group_rows[head];
        for (uint16_t row = census->heads[head]; row != CENSUS_NONE; row = census->next[row]) {
            const struct bytes name = census_name_of(&census->rows[row]);

            CHECK(row < census->row_count);
            CHECK(census_find(census, name, census_hash(census, name)) == row);
            CHECK(++rows <= CENSUS_ROWS_MAX);
        }
    }
    CHECK(rows == census->row_count && group_rows == census->row_count);
    pthread_mutex_unlock(&census->lock);
}
