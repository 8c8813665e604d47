/* Goal: the bytes of frames are those of frame.h and stay readable, and no flipped
 * bit, no cut and no other cluster goes unnoticed. Method: golden bytes; each bit and each prefix;
 * every field that contradicts another one, under a checksum that fits. */
#include "base/checksum.h"
#include "cluster/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#define CLUSTER UINT64_C(0x0807060504030201)

static const struct frame commit = {
    .kind = FRAME_COMMIT,
    .has_more = true,
    .partition = 0x0302,
    .node = 9,
    .incarnation = UINT64_C(0xfedcba9876543210),
    .epoch = 7,
    .seq = 258,
    .sent = {UINT64_C(1795228998536)},
    .body = {"rows", 4},
};

static enum error_code decode_frame(const struct buffer *buffer, struct frame *ret_frame)
{
    return frame_decode(buffer_bytes(buffer), CLUSTER, ret_frame, NULL);
}

static void test_golden_commit(void **state)
{
    static const uint8_t golden[] = {
        'T',  'W',  'L',  1,    1, 2,    3,    4,    5,    6,    7,    8,    2,    1,    2,
        3,    9,    0,    0,    0, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 7,    0,
        0,    0,    0,    0,    0, 0,    2,    1,    0,    0,    0,    0,    0,    0,    0x88,
        0x9b, 0xfc, 0xfb, 0xa1, 1, 0,    0,    'r',  'o',  'w',  's',  0xe5, 0xf3, 0xb1, 0x13};
    struct buffer buffer;

    (void)state;
    buffer_init(&buffer);
    frame_encode(&commit, CLUSTER, &buffer);
    assert_false(buffer_failed(&buffer));
    assert_int_equal(buffer.size, sizeof(golden));
    assert_memory_equal(buffer.data, golden, sizeof(golden));
    assert_true(frame_cluster(buffer_bytes(&buffer)) == CLUSTER);
    assert_true(frame_cluster((struct bytes){buffer.data, FRAME_SIZE_OVERHEAD - 1}) == 0);
    struct frame again;
    assert_int_equal(decode_frame(&buffer, &again), ERROR_NONE);
    assert_true(again.kind == FRAME_COMMIT && again.has_more && again.partition == 0x0302);
    assert_true(again.node == 9 && again.incarnation == commit.incarnation && again.epoch == 7);
    assert_true(again.seq == 258 && again.sent.ms == commit.sent.ms && again.to == 0);
    assert_true(bytes_equal(again.body, commit.body));
    for (size_t bit = 0; bit < 8 * buffer.size; bit++) {
        buffer.data[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(decode_frame(&buffer, &again), ERROR_CORRUPT);
        buffer.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t size = 0; size < sizeof(golden); size++)
        assert_int_equal(frame_decode((struct bytes){buffer.data, size}, CLUSTER, &again, NULL),
                         ERROR_CORRUPT);
    buffer_append(&buffer, "", 1);
    assert_int_equal(decode_frame(&buffer, &again), ERROR_CORRUPT);
    buffer_deinit(&buffer);
}

static void test_each_kind_comes_back(void **state)
{
    const struct frame frames[] = {
        {.kind = FRAME_CLAIM, .node = 1, .epoch = 1, .body = BYTES("10.0.0.1:8464")},
        {.kind = FRAME_COMMIT, .epoch = 1, .seq = 1, .body = BYTES("x")},
        {.kind = FRAME_KEEP, .epoch = 1, .seq = 2},
        {.kind = FRAME_RELEASE, .epoch = 1, .seq = 3, .to = 77},
        {.kind = FRAME_NOTE, .epoch = 1, .seq = 4, .body = BYTES("swept")},
        {.kind = FRAME_NOTE}, /* of a node that owns nothing */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(frames) / sizeof(*frames); i++) {
        struct buffer buffer;

        buffer_init(&buffer);
        frame_encode(&frames[i], CLUSTER, &buffer);
        struct frame again;
        assert_int_equal(decode_frame(&buffer, &again), ERROR_NONE);
        assert_true(again.kind == frames[i].kind && again.node == frames[i].node);
        assert_true(again.epoch == frames[i].epoch && again.seq == frames[i].seq);
        assert_true(again.to == frames[i].to && bytes_equal(again.body, frames[i].body));
        buffer_deinit(&buffer);
    }
}

/* Each cause has words of its own. */
static void test_another_cluster_and_version_are_told(void **state)
{
    struct buffer buffer;

    (void)state;
    buffer_init(&buffer);
    frame_encode(&commit, CLUSTER + 1, &buffer);
    struct frame frame;
    struct error error;
    assert_int_equal(frame_decode(buffer_bytes(&buffer), CLUSTER, &frame, &error), ERROR_CORRUPT);
    assert_non_null(strstr(error.text, "another cluster"));
    buffer.data[3] = 2;
    put_le(buffer.data + buffer.size - 4, checksum_crc32c(0, buffer.data, buffer.size - 4), 4);
    assert_int_equal(frame_decode(buffer_bytes(&buffer), CLUSTER, &frame, &error), ERROR_CORRUPT);
    assert_non_null(strstr(error.text, "version"));
    buffer_deinit(&buffer);
}

/* One byte of a frame is set to a value that does not fit to the others. */
static void test_contradictions_are_damage(void **state)
{
    const struct {
        struct frame frame;
        size_t at;
        uint8_t value;
    } cases[] = {
        {{.kind = FRAME_KEEP, .epoch = 1, .seq = 1}, 12, 0},             /* no kind */
        {{.kind = FRAME_KEEP, .epoch = 1, .seq = 1}, 12, 6},             /* a kind to come */
        {{.kind = FRAME_KEEP, .epoch = 1, .seq = 1}, 12, FRAME_COMMIT},  /* without a body */
        {{.kind = FRAME_KEEP, .epoch = 1, .seq = 1}, 12, FRAME_RELEASE}, /* to no node */
        {{.kind = FRAME_KEEP, .epoch = 1, .seq = 1}, 13, 1},             /* goes on */
        {{.kind = FRAME_KEEP, .epoch = 1, .seq = 1}, 28, 0},             /* of no claim */
        {{.kind = FRAME_KEEP, .epoch = 1, .seq = 1}, 36, 0},             /* in place of a claim */
        {{.kind = FRAME_CLAIM, .epoch = 1}, 36, 1},                      /* behind itself */
        {{.kind = FRAME_COMMIT, .epoch = 1, .seq = 1, .body = BYTES("x")}, 12, FRAME_KEEP},
        {{.kind = FRAME_KEEP, .epoch = 1, .seq = 1}, 13, 2}, /* of a sweep */
        {{.kind = FRAME_COMMIT, .epoch = 1, .seq = 1, .body = BYTES("x")}, 13, 4},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct buffer buffer;

        buffer_init(&buffer);
        frame_encode(&cases[i].frame, CLUSTER, &buffer);
        buffer.data[cases[i].at] = (char)cases[i].value;
        put_le(buffer.data + buffer.size - 4, checksum_crc32c(0, buffer.data, buffer.size - 4), 4);
        struct frame frame;
        assert_int_equal(decode_frame(&buffer, &frame), ERROR_CORRUPT);
        buffer_deinit(&buffer);
    }
}

static void test_the_largest_body(void **state)
{
    char *body = calloc(1, FRAME_BODY_SIZE_MAX);
    struct frame frame = commit;
    struct buffer buffer;

    (void)state;
    assert_non_null(body);
    frame.body = (struct bytes){body, FRAME_BODY_SIZE_MAX};
    buffer_init(&buffer);
    frame_encode(&frame, CLUSTER, &buffer);
    assert_int_equal(buffer.size, FRAME_BODY_SIZE_MAX + FRAME_SIZE_OVERHEAD);
    assert_int_equal(decode_frame(&buffer, &frame), ERROR_NONE);
    buffer_append(&buffer, "", 1);
    put_le(buffer.data + buffer.size - 4, checksum_crc32c(0, buffer.data, buffer.size - 4), 4);
    assert_int_equal(decode_frame(&buffer, &frame), ERROR_CORRUPT);
    buffer_deinit(&buffer);
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_commit),
        cmocka_unit_test(test_each_kind_comes_back),
        cmocka_unit_test(test_another_cluster_and_version_are_told),
        cmocka_unit_test(test_contradictions_are_damage),
        cmocka_unit_test(test_the_largest_body),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
