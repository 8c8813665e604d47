/* Goal: the checksum is CRC-32C on every path, and tells a flipped bit from all errors of two.
 * Method: published vectors (RFC 3720 B.4 and the check value of the catalogues), a bit-by-bit
 * twin, the same bytes cut at every place; each bit flipped, compared with trying each flip; and
 * for errors of two bits in data of any size, arithmetic of the polynomial. */
#include "base/bytes.h"
#include "base/checksum.h"
#include "base/random.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static uint32_t bit_by_bit(uint32_t sum, const uint8_t *data, size_t size)
{
    sum = ~sum;
    for (size_t i = 0; i < size; i++) {
        sum ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum & 1 ? sum >> 1 ^ 0x82f63b78 : sum >> 1;
    }
    return ~sum;
}

static void assert_sum(const void *data, size_t size, uint32_t expected)
{
    assert_int_equal(bit_by_bit(0, data, size), expected);
    assert_int_equal(checksum_crc32c(0, data, size), expected);
    assert_int_equal(checksum_crc32c_portable(0, data, size), expected);
}

static void test_published(void **state)
{
    /* An iSCSI SCSI Read (10) command. */
    static const uint8_t read_command[48] = {
        0x01, 0xc0, 0, 0, 0, 0, 0,    0, 0,    0, 0, 0,    0, 0, 0, 0,
        0x14, 0,    0, 0, 0, 0, 0x04, 0, 0,    0, 0, 0x14, 0, 0, 0, 0x18,
        0x28, 0,    0, 0, 0, 0, 0,    0, 0x02, 0, 0, 0,    0, 0, 0, 0};

    (void)state;
    assert_sum("", 0, 0);
    assert_sum("123456789", 9, 0xe3069283);
    uint8_t bytes[32];
    memset(bytes, 0, sizeof(bytes));
    assert_sum(bytes, sizeof(bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_sum(bytes, sizeof(bytes), 0x62a8ab43);
    for (uint8_t i = 0; i < 32; i++)
        bytes[i] = i;
    assert_sum(bytes, sizeof(bytes), 0x46dd794e);
    for (uint8_t i = 0; i < 32; i++)
        bytes[i] = (uint8_t)(31 - i);
    assert_sum(bytes, sizeof(bytes), 0x113fdb5c);
    assert_sum(read_command, sizeof(read_command), 0xd9963a56);
}

static void test_sizes_and_places(void **state)
{
    struct random random = random_seeded(7);

    (void)state;
    uint8_t bytes[300];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)random_next(&random);
    for (size_t begin = 0; begin < 9; begin++)
        for (size_t size = 0; size + begin <= sizeof(bytes); size++)
            assert_sum(bytes + begin, size, bit_by_bit(0, bytes + begin, size));
}

static void test_pieces(void **state)
{
    struct random random = random_seeded(8);

    (void)state;
    uint8_t bytes[100];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)random_next(&random);
    uint32_t whole = checksum_crc32c(0, bytes, sizeof(bytes));
    for (size_t cut = 0; cut <= sizeof(bytes); cut++) {
        uint32_t head = checksum_crc32c(0, bytes, cut);

        assert_int_equal(checksum_crc32c(head, bytes + cut, sizeof(bytes) - cut), whole);
        assert_int_equal(checksum_crc32c_portable(head, bytes + cut, sizeof(bytes) - cut), whole);
    }
}

/* ---- flipped bits ---- */

enum { FLIP_BYTES = 300, FLIP_SUM = 4, FLIP_BLOCK = 8192, FLIP_BEFORE = 16 };

/* Random data and its sum after it. */
static void flip_fill(uint8_t *bytes, size_t size, struct random *random)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)random_next(random);
    put_le(bytes + size, checksum_crc32c(0, bytes, size), FLIP_SUM);
}

static void flip_bit(uint8_t *bytes, size_t bit)
{
    bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

/* Returns 0 if the sum fits. */
static uint32_t flip_difference(const uint8_t *bytes, size_t size)
{
    return (uint32_t)get_le(bytes + size, FLIP_SUM) ^ checksum_crc32c(0, bytes, size);
}

/* Tries each flip. Returns the number of those after which the sum fits, and the last one. */
static size_t flip_try_each(uint8_t *bytes, size_t size, size_t *ret_bit)
{
    size_t found = 0;

    for (size_t bit = 0; bit < 8 * (size + FLIP_SUM); bit++) {
        flip_bit(bytes, bit);
        if (!flip_difference(bytes, size)) {
            found++;
            *ret_bit = bit;
        }
        flip_bit(bytes, bit);
    }
    return found;
}

/* In data of every small size: after one, two, three and four flips. */
static void test_flip_is_that_of_trying_each(void **state)
{
    struct random random = random_seeded(testing_seed());
    uint8_t bytes[FLIP_BYTES + FLIP_SUM];

    (void)state;
    for (int round = 0; round < 400; round++) {
        const size_t size = random_below(&random, 60), flips = 1 + random_below(&random, 4);
        size_t bit = SIZE_MAX;

        flip_fill(bytes, size, &random);
        for (size_t i = 0; i < flips; i++)
            flip_bit(bytes, random_below(&random, 8 * (size + FLIP_SUM)));
        const uint32_t difference = flip_difference(bytes, size);
        if (difference && flip_try_each(bytes, size, &bit) > 1)
            fail_msg("two flips explain a sum of %zu bytes", size);
        assert_int_equal(difference ? checksum_find_flip(difference, size) : SIZE_MAX, bit);
    }
}

/* Each bit of a block and of its sum, and of what was summed before it, where nothing is found. */
static void test_flip_of_each_bit(void **state)
{
    struct random random = random_seeded(testing_seed());
    uint8_t bytes[FLIP_BYTES + FLIP_SUM];

    (void)state;
    flip_fill(bytes, FLIP_BYTES, &random);
    for (size_t bit = 0; bit < 8 * (FLIP_BYTES + FLIP_SUM); bit++) {
        flip_bit(bytes, bit);
        const uint32_t difference = flip_difference(bytes, FLIP_BYTES);
        assert_int_equal(checksum_find_flip(difference, FLIP_BYTES), bit);
        assert_int_equal(checksum_find_flip(difference, FLIP_BYTES - FLIP_BEFORE),
                         bit < 8 * FLIP_BEFORE ? SIZE_MAX : bit - 8 * FLIP_BEFORE);
        flip_bit(bytes, bit);
    }
}

/* Two flips in data of the size of a block never look like one. */
static void test_two_flips_are_not_one(void **state)
{
    struct random random = random_seeded(testing_seed());
    static uint8_t bytes[FLIP_BLOCK + FLIP_SUM];
    const size_t bits = 8 * sizeof(bytes);

    (void)state;
    flip_fill(bytes, FLIP_BLOCK, &random);
    for (int round = 0; round < 2000; round++) {
        const size_t one = random_below(&random, bits);
        const size_t other = (one + 1 + random_below(&random, round % 2 ? bits - 1 : 64)) % bits;

        flip_bit(bytes, one);
        flip_bit(bytes, other);
        assert_int_equal(checksum_find_flip(flip_difference(bytes, FLIP_BLOCK), FLIP_BLOCK),
                         SIZE_MAX);
        flip_bit(bytes, one);
        flip_bit(bytes, other);
    }
}

/* Multiplies remainders; the highest bit is that of x^0. */
static uint32_t flip_multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;

    for (uint32_t bit = UINT32_C(1) << 31; bit; bit >>= 1) {
        product ^= a & bit ? b : 0;
        b = b & 1 ? b >> 1 ^ 0x82f63b78 : b >> 1;
    }
    return product;
}

/* The distance is 4 up to 2^31 - 1 bits. x^(2^31 - 1) is 1, and 2^31 - 1 is a prime, so no smaller
 * power of x is: two flips so near always change the sum. The polynomial has an even number of
 * terms, so x + 1 divides it: three flips always change the sum, too. */
static void test_distance(void **state)
{
    const uint32_t one = UINT32_C(1) << 31, x = one >> 1;
    uint32_t power = one;

    (void)state;
    for (int i = 0; i < 31; i++) /* 2^31 - 1 in binary: 31 ones */
        power = flip_multiply(flip_multiply(power, power), x);
    assert_int_equal(power, one);
    int terms = 1; /* x^32 */
    for (uint32_t rest = 0x82f63b78; rest; rest &= rest - 1)
        terms++;
    assert_int_equal(terms % 2, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),        cmocka_unit_test(test_sizes_and_places),
        cmocka_unit_test(test_pieces),           cmocka_unit_test(test_flip_is_that_of_trying_each),
        cmocka_unit_test(test_flip_of_each_bit), cmocka_unit_test(test_two_flips_are_not_one),
        cmocka_unit_test(test_distance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
