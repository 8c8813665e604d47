/* Goal: an index finds the block of each key, and says where it is. Method: random blocks of all
 * counts at which a level begins, against an array that is searched from its begin. */
#include "store/storage_testing.h"
#include "store/wheel/diskwheel_index.h"

enum {
    INDEX_BLOCKS = DISKWHEEL_INDEX_WIDTH * DISKWHEEL_INDEX_WIDTH * 3,
    INDEX_SEARCHES = 300,
};

struct index_fixture {
    struct diskwheel_index index;
    struct record_key firsts[INDEX_BLOCKS];
    struct diskwheel_index_block blocks[INDEX_BLOCKS];
    uint32_t count;
};

/* Keys differ in their upper halves always, now and then, or never. The last ones may be the
 * greatest that there are. */
static void index_make(struct index_fixture *fixture, struct random *random, uint32_t count)
{
    const uint64_t same = random_below(random, 3) * 4, ends = random_below(random, 2);
    struct record_key key = {random_below(random, 2), random_below(random, 2)};
    struct diskwheel_index_block block = {.offset = 0};

    fixture->count = count;
    assert_true(diskwheel_index_init(&fixture->index, count));
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t is_same = random_below(random, 9) < same;

        key.high += is_same ? 0 : 1 + random_below(random, 100);
        key.low = is_same ? key.low + 1 + random_below(random, 100) : random_below(random, 100);
        if (ends && count - i <= 3)
            key = (struct record_key){UINT64_MAX, UINT64_MAX - (count - i - 1)};
        block.size = 1 + (uint32_t)random_below(random, UINT32_MAX);
        block.count = (uint16_t)(1 + random_below(random, 4096));
        fixture->firsts[i] = key;
        fixture->blocks[i] = block;
        diskwheel_index_add(&fixture->index, key, &block);
        block.offset += block.size;
        block.ordinal += block.count;
    }
    diskwheel_index_end(&fixture->index);
}

static uint32_t index_expected(const struct index_fixture *fixture, struct record_key key)
{
    uint32_t at = 0;

    while (at < fixture->count && !record_key_before(key, fixture->firsts[at]))
        at++;
    return at ? at - 1 : 0;
}

static void index_assert_key(const struct index_fixture *fixture, struct record_key key)
{
    assert_int_equal(diskwheel_index_find(&fixture->index, key), index_expected(fixture, key));
}

/* Returns the key before `key`; the least one for that. */
static struct record_key index_key_before(struct record_key key)
{
    if (key.low)
        return (struct record_key){key.high, key.low - 1};
    return key.high ? (struct record_key){key.high - 1, UINT64_MAX} : key;
}

static void index_assert_block(const struct index_fixture *fixture, uint32_t at)
{
    const struct diskwheel_index_block *expected = &fixture->blocks[at];
    const struct diskwheel_index_block block = diskwheel_index_block(&fixture->index, at);
    const struct record_key first = fixture->firsts[at];
    const struct record_key before = index_key_before(first), next = record_key_after(first);

    assert_int_equal(block.offset, expected->offset);
    assert_int_equal(block.size, expected->size);
    assert_int_equal(block.ordinal, expected->ordinal);
    assert_int_equal(block.count, expected->count);
    assert_true(record_key_equal(diskwheel_index_first(&fixture->index, at), first));
    assert_true(record_key_equal(diskwheel_index_first_from(&fixture->index, at, before), first));
    assert_true(record_key_equal(diskwheel_index_first_from(&fixture->index, at, next), next));
    index_assert_key(fixture, first);
    index_assert_key(fixture, next);
    index_assert_key(fixture, before);
}

static void test_against_an_array(void **state)
{
    static const uint32_t levels[] = {0, 1, DISKWHEEL_INDEX_WIDTH,
                                      DISKWHEEL_INDEX_WIDTH * DISKWHEEL_INDEX_WIDTH};
    struct random random = random_seeded(testing_seed());
    struct index_fixture *fixture = calloc(1, sizeof(*fixture));

    (void)state;
    assert_non_null(fixture);
    for (unsigned turn = 0; turn < 40; turn++) {
        const uint32_t level = levels[turn % 4];

        index_make(fixture, &random,
                   turn < 12 ? level + turn / 4 - (level > 0)
                             : 1 + (uint32_t)random_below(&random, INDEX_BLOCKS));
        index_assert_key(fixture, (struct record_key){0, 0});
        index_assert_key(fixture, (struct record_key){UINT64_MAX, UINT64_MAX});
        for (unsigned i = 0; i < INDEX_SEARCHES && fixture->count; i++) {
            index_assert_block(fixture, (uint32_t)random_below(&random, fixture->count));
            index_assert_key(fixture, (struct record_key){random_below(&random, 1000000),
                                                          random_below(&random, 100)});
        }
        assert_true(diskwheel_index_memory(&fixture->index) >=
                    fixture->count * (uint64_t)sizeof(fixture->index.lows[0]));
        diskwheel_index_deinit(&fixture->index);
    }
    free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_an_array)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
