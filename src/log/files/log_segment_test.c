/* Goal: the bytes of segments and chains are those of log_segment.h and stay readable, and no
 * flipped bit, no other place and no other log goes unnoticed. Method: golden bytes; each bit of a
 * header, a frame and a chain; bodies of random sizes. */
#include "base/random.h"
#include "log/files/log_segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

static const uint8_t id[SEGMENT_ID_SIZE] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

/* ---- golden bytes ---- */

static void test_golden_header(void **state)
{
    static const uint8_t golden[] = {
        't', 'i', 'c', 'k', 'w', 'l', 'o', 'g', 2,  0,  0,  0, 0, 0,    0,    0,    1,   2, 3, 4, 5,
        6,   7,   8,   9,   10,  11,  12,  13,  14, 15, 16, 5, 0, 0,    0,    0,    0,   0, 0, 0, 0,
        0,   1,   0,   0,   0,   0,   232, 3,   0,  0,  0,  0, 0, 0,    88,   0,    0,   0, 0, 0, 0,
        0,   4,   3,   2,   1,   1,   0,   0,   0,  0,  0,  0, 0, 0x50, 0x28, 0x8c, 0xf4};
    struct segment_header header = {.number = 5,
                                    .bytes = 16 << 20,
                                    .first = 1000,
                                    .previous_end = 88,
                                    .previous_sum = 0x01020304,
                                    .is_unsynced = true};
    char bytes[sizeof(golden)];

    (void)state;
    memcpy(header.id, id, sizeof(id));
    assert_int_equal(SEGMENT_HEADER_SIZE, sizeof(golden));
    segment_header_encode(&header, bytes);
    assert_memory_equal(bytes, golden, sizeof(golden));
    struct segment_header again;
    assert_true(segment_header_decode((struct bytes){bytes, sizeof(bytes)}, &again));
    assert_memory_equal(again.id, id, sizeof(id));
    assert_true(again.number == 5 && again.bytes == 16 << 20 && again.first == 1000);
    assert_true(again.previous_end == 88 && again.previous_sum == 0x01020304);
    assert_true(again.is_unsynced);
    for (size_t size = 0; size < sizeof(bytes); size++)
        assert_false(segment_header_decode((struct bytes){bytes, size}, &again));
    for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        assert_false(segment_header_decode((struct bytes){bytes, sizeof(bytes)}, &again));
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
}

static void test_golden_frame(void **state)
{
    static const uint8_t golden[] = {24, 115, 150, 14,  148, 93, 186, 72, 15, 0, 0,   0, 2, 0,
                                     0,  0,   232, 3,   0,   0,  0,   0,  0,  0, 3,   0, 2, 0,
                                     0,  0,   97,  116, 4,   0,  1,   0,  0,  0, 120, 0};
    struct log_record records[] = {{.partition = 3, .body = BYTES("at")},
                                   {.partition = 4, .body = BYTES("x")}};
    char segment[88 + sizeof(golden)] = {0};

    (void)state;
    uint32_t seed = segment_seed(id, 5);
    assert_int_equal(segment_frame_size(records, 2), sizeof(golden));
    uint32_t sum = segment_frame_encode(seed, 88, 1000, records, 2, segment + 88);
    assert_memory_equal(segment + 88, golden, sizeof(golden));
    struct segment_frame frame;
    struct bytes bytes = {segment, sizeof(segment)};
    assert_true(segment_frame_decode(seed, bytes, 88, &frame));
    assert_true(frame.sum == sum && frame.first == 1000 && frame.count == 2);
    assert_true(frame.bytes == sizeof(golden) && frame.body.size == 15);
    struct log_record record;
    assert_true(segment_record_next(&frame.body, &record));
    assert_true(record.partition == 3);
    assert_true(bytes_equal(record.body, BYTES("at")));
    assert_true(segment_record_next(&frame.body, &record));
    assert_true(record.partition == 4 && bytes_equal(record.body, BYTES("x")));
    assert_false(segment_record_next(&frame.body, &record));
    assert_false(segment_frame_decode(segment_seed(id, 6), bytes, 88, &frame));
    memmove(segment + 80, segment + 88, sizeof(golden));
    assert_false(segment_frame_decode(seed, bytes, 80, &frame));
}

static void test_golden_chain(void **state)
{
    static const uint8_t golden[] = {
        't', 'i', 'c', 'k', 'w', 'c', 'h', 'a', 2,  0,  0,  0,  1, 0, 0, 0, 1,    2,    3,    4,
        5,   6,   7,   8,   9,   10,  11,  12,  13, 14, 15, 16, 6, 0, 0, 0, 0,    0,    0,    0,
        3,   0,   0,   0,   0,   0,   0,   0,   5,  0,  0,  0,  0, 0, 0, 0, 136,  0,    0,    0,
        0,   0,   0,   0,   234, 3,   0,   0,   0,  0,  0,  0,  4, 3, 2, 1, 0xae, 0xd3, 0x70, 0x0d};
    struct segment_chain chain = {.generation = 6,
                                  .first = 3,
                                  .last = 5,
                                  .is_closed = true,
                                  .end = 136,
                                  .next = 1002,
                                  .sum = 0x01020304};
    static char file[2 * SEGMENT_CHAIN_SLOT];
    struct bytes bytes = {file, sizeof(file)};
    struct segment_chain again;

    (void)state;
    memcpy(chain.id, id, sizeof(id));
    assert_int_equal(sizeof(golden), SEGMENT_CHAIN_SIZE);
    assert_false(segment_chain_decode(bytes, &again));
    segment_chain_encode(&chain, file);
    assert_memory_equal(file, golden, sizeof(golden));
    assert_true(segment_chain_decode(bytes, &again));
    assert_true(again.generation == 6 && again.first == 3 && again.last == 5 && again.is_closed);
    assert_true(again.end == 136 && again.next == 1002 && again.sum == 0x01020304);
    chain.generation = 7;
    chain.is_closed = false;
    segment_chain_encode(&chain, file + SEGMENT_CHAIN_SLOT);
    for (size_t bit = 0; bit < 8 * SEGMENT_CHAIN_SIZE; bit++) {
        /* The newer slot counts, and the older one where that is damaged. */
        assert_true(segment_chain_decode(bytes, &again));
        assert_true(again.generation == 7 && !again.is_closed);
        file[SEGMENT_CHAIN_SLOT + bit / 8] ^= (char)(1 << bit % 8);
        assert_true(segment_chain_decode(bytes, &again));
        assert_true(again.generation == 6 && again.is_closed);
        file[SEGMENT_CHAIN_SLOT + bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_false(segment_chain_decode((struct bytes){file, SEGMENT_CHAIN_SIZE - 1}, &again));
}

/* ---- frames at random ---- */

static void test_frames(void **state)
{
    struct random random = random_seeded(3);
    enum { SIZE = 3000, POSITION = 80 };
    static char body[700], segment[SIZE];

    (void)state;
    for (int round = 0; round < 300; round++) {
        struct log_record records[3] = {0};
        size_t count = 1 + random_below(&random, 3);

        for (size_t i = 0; i < sizeof(body); i++)
            body[i] = (char)random_next(&random);
        for (size_t i = 0; i < count; i++)
            records[i].body = (struct bytes){body, 1 + random_below(&random, sizeof(body) - 1)};
        for (size_t i = 0; i < SIZE; i++)
            segment[i] = round & 1 ? (char)random_next(&random) : 0;
        uint32_t seed = (uint32_t)random_next(&random);
        uint64_t size = segment_frame_size(records, count), at = 0;
        assert_true(size % 8 == 0);
        segment_frame_encode(seed, POSITION, 9, records, count, segment + POSITION);
        struct segment_frame frame;
        struct bytes bytes = {segment, SIZE};
        assert_true(segment_frame_find(seed, bytes, &at, &frame));
        assert_true(at == POSITION && frame.bytes == size && frame.count == count);
        assert_false(segment_is_end(bytes, POSITION));
        at = POSITION + 8;
        assert_false(segment_frame_find(seed, bytes, &at, &frame));
        /* One flipped bit, wherever it is, and a segment that ends within the frame. */
        size_t bit = random_below(&random, 8 * size);
        segment[POSITION + bit / 8] ^= (char)(1 << bit % 8);
        assert_false(segment_frame_decode(seed, bytes, POSITION, &frame));
        segment[POSITION + bit / 8] ^= (char)(1 << bit % 8);
        bytes.size = POSITION + random_below(&random, size);
        assert_false(segment_frame_decode(seed, bytes, POSITION, &frame));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_header),
        cmocka_unit_test(test_golden_frame),
        cmocka_unit_test(test_golden_chain),
        cmocka_unit_test(test_frames),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
