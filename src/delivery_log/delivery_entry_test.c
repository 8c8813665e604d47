/* Goal: the bytes of an entry stay readable, no flipped bit goes unnoticed, and texts beyond their
 * limits are cut. Method: golden bytes; each bit of them; entries of random contents. */
#include "base/random.h"
#include "delivery_log/delivery_entry.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct delivery_entry example = {
    .ended_us = 1700000000000000,
    .attempt = 3,
    .status = 503,
    .outcome = RUN_FAILED,
    .stage_ms = {[0] = 4000, [15] = 12},
    .texts = {[DELIVERY_TEXT_timer] = {"t1", 2},
              [DELIVERY_TEXT_target] = {"http://a/b", 10},
              [DELIVERY_TEXT_origin] = {"http://a", 8},
              [DELIVERY_TEXT_error] = {"HTTP 503", 8}},
};
static const uint32_t example_links[DELIVERY_INDEXES] = {96, 0, 0, 200, 300, 400, 500};

static void keeps_its_golden_bytes(void **state)
{
    static const uint8_t golden[] = {
        0x3e, 0xad, 0x48, 0xa3, 110,  0,    0,   0,   7,   0,   0,   0,   0,   0,   0,   0,
        0x00, 0x40, 0x1e, 0x18, 0x24, 0x0a, 6,   0,   96,  0,   0,   0,   0,   0,   0,   0,
        0,    0,    0,    0,    200,  0,    0,   0,   44,  1,   0,   0,   144, 1,   0,   0,
        244,  1,    0,    0,    3,    0,    0,   0,   247, 1,   1,   2,   2,   0,   0,   0,
        10,   0,    8,    0,    8,    0,    0,   0,   0,   160, 15,  0,   0,   15,  12,  0,
        0,    0,    't',  '1',  'h',  't',  't', 'p', ':', '/', '/', 'a', '/', 'b', 'h', 't',
        't',  'p',  ':',  '/',  '/',  'a',  'H', 'T', 'T', 'P', ' ', '5', '0', '3'};
    struct delivery_entry again;
    struct buffer buffer;

    (void)state;
    buffer_init(&buffer);
    delivery_entry_encode(&example, &buffer);
    delivery_entry_place(buffer.data, 7, example_links);
    assert_int_equal(buffer.size, sizeof(golden));
    assert_memory_equal(buffer.data, golden, sizeof(golden));
    assert_true(delivery_entry_decode(buffer_bytes(&buffer), &again));
    assert_true(again.stamp == 7 && again.ended_us == example.ended_us && again.status == 503);
    assert_true(again.attempt == 3 && again.outcome == RUN_FAILED);
    assert_memory_equal(again.stage_ms, example.stage_ms, sizeof(again.stage_ms));
    assert_memory_equal(again.links, example_links, sizeof(again.links));
    for (size_t i = 0; i < DELIVERY_TEXTS; i++)
        assert_true(bytes_equal(again.texts[i], example.texts[i]));
    for (size_t bit = 0; bit < 8 * buffer.size; bit++) {
        buffer.data[bit / 8] ^= (char)(1 << bit % 8);
        assert_false(delivery_entry_decode(buffer_bytes(&buffer), &again));
        buffer.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t size = 0; size < buffer.size; size++)
        assert_false(delivery_entry_decode((struct bytes){buffer.data, size}, &again));
    buffer_deinit(&buffer);
}

static void cuts_texts_at_their_limits(void **state)
{
    static char text[8192];
    struct random random = random_seeded(testing_seed());

    (void)state;
    memset(text, 'x', sizeof(text));
    for (int i = 0; i < 1000; i++) {
        struct delivery_entry entry = {.outcome = RUN_DONE}, again;
        struct buffer buffer;

        for (size_t j = 0; j < DELIVERY_TEXTS; j++)
            entry.texts[j] = (struct bytes){text, random_below(&random, sizeof(text))};
        for (size_t j = 0; j < DELIVERY_STAGES_MAX; j++)
            entry.stage_ms[j] = (uint32_t)random_next(&random);
        buffer_init(&buffer);
        delivery_entry_encode(&entry, &buffer);
        delivery_entry_place(buffer.data, 1, example_links);
        assert_true(buffer.size <= DELIVERY_ENTRY_SIZE_MAX);
        assert_true(delivery_entry_decode(buffer_bytes(&buffer), &again));
        for (enum delivery_text j = 0; j < DELIVERY_TEXTS; j++) {
            assert_true(bytes_equal(again.texts[j], delivery_text_cut(j, entry.texts[j])));
            assert_true(again.texts[j].size <= entry.texts[j].size);
        }
        for (enum delivery_index j = 0; j < DELIVERY_INDEXES; j++)
            assert_int_equal(delivery_entry_hash(&entry, j), delivery_entry_hash(&again, j));
        buffer_deinit(&buffer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_its_golden_bytes),
        cmocka_unit_test(cuts_texts_at_their_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
