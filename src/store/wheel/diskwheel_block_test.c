/* Goal: a block of which one bit is flipped is read as it was written; a block with more damage, at
 * another place, or whose records are wrong, is not. Method: blocks of names that LZ4 can pack and
 * that it cannot; each bit flipped in turn; errors of three bits that look like one of another bit
 * are searched for. */
#include "base/checksum.h"
#include "base/random.h"
#include "seed.h"
#include "store/varint.h"
#include "store/wheel/diskwheel_block.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { BLOCK_RECORDS_MAX = 200, BLOCK_SUM_SIZE = 4 };

static const struct diskwheel_block_place block_place = {0x123456789abcdef0, 0x5000};

enum block_values { BLOCK_RANDOM, BLOCK_ALIKE, BLOCK_WRONG };

/* A block of names. */
static void block_make(struct buffer *stored, size_t count, enum block_values values,
                       struct random *random)
{
    struct diskwheel_block_builder builder = {.count = 0};
    struct record_key key = {1, 1};
    struct buffer value = {0};

    for (size_t i = 0; i < count; i++) {
        const bool is_alike = values == BLOCK_ALIKE;
        const struct record_name name = {
            .id = {.first = {1 + (is_alike ? i : random_below(random, RECORD_AT_MAX))},
                   .serial = UINT64_MAX - key.low},
            .ended = {is_alike ? 0 : random_next(random)}};

        buffer_clear(&value);
        record_name_encode(&value, key, &name);
        if (values == BLOCK_WRONG && i == count / 2)
            value.data[5] ^= 1;
        diskwheel_block_add(&builder, key, buffer_bytes(&value));
        key.high += is_alike ? 1 : 1 + random_below(random, UINT64_MAX / BLOCK_RECORDS_MAX / 2);
        key.low = is_alike ? 1 : random_next(random);
    }
    buffer_clear(stored);
    assert_true(diskwheel_block_end(&builder, DISKWHEEL_NAMES, block_place, stored) > 0);
    buffer_deinit(&builder.raw);
    buffer_deinit(&value);
}

/* Returns the number of records; 0 if the block is not what was written. */
static size_t block_read(struct buffer *stored, bool *ret_is_turned)
{
    struct diskwheel_block block = {.left = 0};
    struct buffer raw = {0};
    struct record_key key;
    struct bytes value;
    size_t count = 0;

    const enum error_code code = diskwheel_block_open(stored->data, stored->size, DISKWHEEL_NAMES,
                                                      block_place, &raw, &block);
    assert_true(code == ERROR_NONE || code == ERROR_CORRUPT);
    while (!code && !diskwheel_block_next(&block, &key, &value))
        count++;
    *ret_is_turned = block.is_turned;
    buffer_deinit(&raw);
    return count;
}

static void block_flip(struct buffer *stored, size_t bit)
{
    stored->data[bit / 8] ^= (char)(1 << bit % 8);
}

/* Two flips never look like one, so a block with two is lost. */
static void block_flip_each(enum block_values values, size_t count)
{
    struct random random = random_seeded(testing_seed());
    struct buffer stored = {0}, was = {0};
    bool is_turned;

    block_make(&stored, count, values, &random);
    buffer_append_bytes(&was, buffer_bytes(&stored));
    assert_int_equal(block_read(&stored, &is_turned), count);
    assert_false(is_turned);
    for (size_t bit = 0; bit < 8 * was.size; bit++) {
        block_flip(&stored, bit);
        assert_int_equal(block_read(&stored, &is_turned), count);
        assert_true(is_turned);
        assert_memory_equal(stored.data, was.data, was.size);
        const size_t other = (bit + 1 + random_below(&random, 8 * was.size - 1)) % (8 * was.size);
        block_flip(&stored, bit);
        block_flip(&stored, other);
        assert_int_equal(block_read(&stored, &is_turned), 0);
        memcpy(stored.data, was.data, was.size);
    }
    buffer_deinit(&stored);
    buffer_deinit(&was);
}

static void test_each_flipped_bit(void **state)
{
    (void)state;
    block_flip_each(BLOCK_RANDOM, 30);
    block_flip_each(BLOCK_ALIKE, 30);
}

/* The place is a part of the checksum, but a block of another place is not turned into this one. */
static void test_a_bit_of_the_place(void **state)
{
    struct random random = random_seeded(testing_seed());
    struct buffer stored = {0}, raw = {0};
    struct diskwheel_block block;

    (void)state;
    block_make(&stored, 30, BLOCK_RANDOM, &random);
    for (unsigned bit = 0; bit < 128; bit++) {
        struct diskwheel_block_place place = block_place;

        *(bit < 64 ? &place.run_id : &place.offset) ^= UINT64_C(1) << bit % 64;
        assert_int_equal(
            diskwheel_block_open(stored.data, stored.size, DISKWHEEL_NAMES, place, &raw, &block),
            ERROR_CORRUPT);
    }
    buffer_deinit(&stored);
    buffer_deinit(&raw);
}

/* A block that was written with a wrong record is read, but not mended: of its records it is
 * unknown which are wrong because of the flip. */
static void test_flipped_bit_among_wrong_records(void **state)
{
    struct random random = random_seeded(testing_seed());
    struct buffer stored = {0};
    bool is_turned;

    (void)state;
    block_make(&stored, 30, BLOCK_WRONG, &random);
    assert_int_equal(block_read(&stored, &is_turned), 30);
    block_flip(&stored, 8 * stored.size / 2);
    assert_int_equal(block_read(&stored, &is_turned), 0);
    buffer_deinit(&stored);
}

/* ---- three flips that look like one ---- */

/* What a flip changes the checksum by. */
struct block_flip {
    uint32_t difference;
    uint32_t bit; /* of the file */
};

static int block_compare_flips(const void *left, const void *right)
{
    const struct block_flip *a = left, *b = right;

    return (a->difference > b->difference) - (a->difference < b->difference);
}

/* Lists the flips of the bits behind the head, in order of their differences. */
static struct block_flip *block_list_flips(size_t size, size_t *ret_count)
{
    const size_t body = size - DISKWHEEL_BLOCK_HEAD, count = 8 * body;
    struct block_flip *flips = calloc(count, sizeof(*flips));
    char *zeros = calloc(1, body);

    assert_true(flips && zeros);
    const uint32_t none = checksum_crc32c(0, zeros, body);
    for (size_t bit = 0; bit < count; bit++) {
        const size_t begin = bit / 8;

        zeros[begin] = (char)(1 << bit % 8);
        flips[bit].difference = checksum_crc32c(0, zeros, body) ^ none;
        flips[bit].bit = (uint32_t)(8 * DISKWHEEL_BLOCK_HEAD + bit);
        zeros[begin] = 0;
    }
    free(zeros);
    qsort(flips, count, sizeof(*flips), block_compare_flips);
    *ret_count = count;
    return flips;
}

/* Finds four flips that leave the checksum as it is. */
static void block_find_four(const struct block_flip *flips, size_t count, struct random *random,
                            struct block_flip ret_four[4])
{
    for (;;) {
        const struct block_flip *a = &flips[random_below(random, count)];
        const struct block_flip *b = &flips[random_below(random, count)];

        for (size_t i = 0; i < count && a != b; i++) {
            const struct block_flip wanted = {.difference = a->difference ^ b->difference ^
                                                            flips[i].difference};
            const struct block_flip *d =
                bsearch(&wanted, flips, count, sizeof(*flips), block_compare_flips);

            if (!d || d == a || d == b || d == &flips[i] || a == &flips[i] || b == &flips[i])
                continue;
            ret_four[0] = *a;
            ret_four[1] = *b;
            ret_four[2] = flips[i];
            ret_four[3] = *d;
            return;
        }
    }
}

static void test_three_flips_that_look_like_one(void **state)
{
    struct random random = random_seeded(testing_seed());
    struct buffer stored = {0};
    struct block_flip four[4];
    bool is_turned;
    size_t count;

    (void)state;
    for (int round = 0; round < 5; round++) {
        block_make(&stored, 100, BLOCK_RANDOM, &random);
        struct block_flip *flips = block_list_flips(stored.size, &count);

        block_find_four(flips, count, &random, four);
        for (int i = 0; i < 3; i++)
            block_flip(&stored, four[i].bit);
        const size_t bit =
            checksum_find_flip(four[0].difference ^ four[1].difference ^ four[2].difference,
                               stored.size - BLOCK_SUM_SIZE);
        assert_int_equal(bit + 8 * BLOCK_SUM_SIZE, four[3].bit);
        assert_int_equal(block_read(&stored, &is_turned), 0);
        free(flips);
    }
    buffer_deinit(&stored);
}

/* A number of ten bytes has 64 bits; with more it is damage, as each number has one form. */
static void test_numbers_have_64_bits(void **state)
{
    char text[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    struct bytes bytes = {text, sizeof(text) - 1};
    uint64_t number;

    (void)state;
    assert_true(varint_next(&bytes, &number) && number == UINT64_MAX && bytes.size == 0);
    text[9] = 2;
    bytes = (struct bytes){text, sizeof(text) - 1};
    assert_false(varint_next(&bytes, &number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_flipped_bit),
        cmocka_unit_test(test_a_bit_of_the_place),
        cmocka_unit_test(test_flipped_bit_among_wrong_records),
        cmocka_unit_test(test_three_flips_that_look_like_one),
        cmocka_unit_test(test_numbers_have_64_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
