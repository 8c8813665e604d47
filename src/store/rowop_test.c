/* Goal: what the log keeps of a batch has one form, which stays readable. Method: golden bytes of
 * each kind of operation; every cut, and every flipped bit, is refused. */
#include "base/checksum.h"
#include "store/rowop.h"
#include "store/storage_testing.h"

/* One operation of each kind. */
static const uint8_t golden[] = {
    1,                                         /* version */
    0x00, 3, 2, 0, 0, 0, 'p', 0,   1,   8,  9, /* META: put */
    0x12, 2, 0, 0, 0, 0, 'k', 'l',             /* MOVED: delete */
    0x21, 1, 3, 0, 0, 0, 'r', 1,   2,   3,     /* TIMERS: touch */
    0x31, 2, 2, 0, 0, 0, 'a', 'b', 'a', 'c'    /* TIMERS: delete range */
};

static void rowop_test_encode(struct buffer *body)
{
    buffer_init(body);
    const size_t begin = rowop_begin(body);
    size_t value = rowop_put(body, ROWOP_PUT, ROWOP_META, BYTES("p\0\1"));
    buffer_append(body, "\x08\x09", 2);
    rowop_put_end(body, value);
    rowop_delete(body, ROWOP_MOVED, BYTES("kl"));
    value = rowop_put(body, ROWOP_TOUCH, ROWOP_TIMERS, BYTES("r"));
    buffer_append(body, "\1\2\3", 3);
    rowop_put_end(body, value);
    rowop_delete_range(body, ROWOP_TIMERS, BYTES("ab"), BYTES("ac"));
    rowop_end(body, begin);
    assert_false(buffer_failed(body));
}

static void test_rowop_golden(void **state)
{
    struct buffer body;

    (void)state;
    rowop_test_encode(&body);
    assert_int_equal(body.size, sizeof(golden) + 4);
    assert_memory_equal(body.data, golden, sizeof(golden));
    assert_int_equal(get_le(body.data + sizeof(golden), 4),
                     checksum_crc32c(0, golden, sizeof(golden)));
    buffer_deinit(&body);
}

static void test_rowop_read(void **state)
{
    static const struct rowop expected[] = {
        {ROWOP_PUT, ROWOP_META, {"p\0\1", 3}, {"\x08\x09", 2}},
        {ROWOP_DELETE, ROWOP_MOVED, {"kl", 2}, {"", 0}},
        {ROWOP_TOUCH, ROWOP_TIMERS, {"r", 1}, {"\1\2\3", 3}},
        {ROWOP_DELETE_RANGE, ROWOP_TIMERS, {"ab", 2}, {"ac", 2}},
    };
    struct buffer body;

    (void)state;
    rowop_test_encode(&body);
    struct bytes rest = buffer_bytes(&body);
    assert_true(rowop_open(&rest));
    struct rowop op;
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        assert_true(rowop_next(&rest, &op));
        assert_int_equal(op.kind, expected[i].kind);
        assert_int_equal(op.table, expected[i].table);
        assert_true(bytes_equal(op.key, expected[i].key));
        assert_true(bytes_equal(op.value, expected[i].value));
    }
    assert_false(rowop_next(&rest, &op));
    assert_int_equal(rest.size, 0);
    buffer_deinit(&body);
}

static void test_rowop_damaged(void **state)
{
    struct buffer body;

    (void)state;
    rowop_test_encode(&body);
    for (size_t size = 0; size < body.size; size++) {
        struct bytes cut = {body.data, size};

        assert_false(rowop_open(&cut));
        assert_int_equal(cut.size, size); /* as it was */
    }
    for (size_t bit = 0; bit < 8 * body.size; bit++) {
        struct bytes flipped = buffer_bytes(&body);

        body.data[bit / 8] = (char)(body.data[bit / 8] ^ 1 << bit % 8);
        assert_false(rowop_open(&flipped));
        body.data[bit / 8] = (char)(body.data[bit / 8] ^ 1 << bit % 8);
    }
    buffer_deinit(&body);
}

/* Operations without sense are refused although the checksum fits. */
static void test_rowop_wrong(void **state)
{
    static const struct bytes wrong[] = {
        BYTES("\x01\x40\x01\x01\0\0\0kv"),     /* no such kind */
        BYTES("\x01\x04\x01\x01\0\0\0kv"),     /* no such table */
        BYTES("\x01\x00\x00\x01\0\0\0v"),      /* a key of no bytes */
        BYTES("\x01\x00\x01\x00\0\0\0k"),      /* a put without a value */
        BYTES("\x01\x10\x01\x01\0\0\0kv"),     /* a delete with one */
        BYTES("\x01\x31\x02\x02\0\0\0abab"),   /* an empty range */
        BYTES("\x01\x31\x02\x01\0\0\0abc"),    /* a range up to a key of another size */
        BYTES("\x01\x00\x01\x02\0\0\0kv"),     /* a value behind the end */
        BYTES("\x01\x00\x01\x01\0\0\0kvrest"), /* something behind it */
        BYTES("\x02\x00\x01\x01\0\0\0kv"),     /* another version */
    };
    struct buffer body;

    (void)state;
    buffer_init(&body);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        buffer_clear(&body);
        buffer_append_bytes(&body, wrong[i]);
        rowop_end(&body, 0);
        struct bytes rest = buffer_bytes(&body);
        if (rowop_open(&rest))
            fail_msg("%zu was taken", i);
    }
    buffer_deinit(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rowop_golden),
        cmocka_unit_test(test_rowop_read),
        cmocka_unit_test(test_rowop_damaged),
        cmocka_unit_test(test_rowop_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
