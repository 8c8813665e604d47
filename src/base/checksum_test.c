/* Goal: the checksum is CRC-32C on every path. Method: published vectors (RFC 3720 B.4 and the
 * check value of the catalogues), a bit-by-bit twin, and the same bytes cut at every place. */
#include "base/checksum.h"
#include "base/random.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_sizes_and_places),
        cmocka_unit_test(test_pieces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
