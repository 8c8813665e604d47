/* Goal: a torn end is told from damage before changes that stay. Method: manifests are put together
 * as RocksDB does, then cut at every byte, and every byte is changed. */
#include "store/manifest.h"

#include "base/checksum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

enum { HEADER = 7, CHANGES = 12, FULL = 1, FIRST = 2, MIDDLE = 3, LAST = 4 };

static void append_part(struct buffer *log, unsigned kind, const char *data, size_t size)
{
    char header[HEADER];

    header[6] = (char)kind;
    put_le(header + 4, size, 2);
    uint32_t sum = checksum_crc32c(checksum_crc32c(0, header + 6, 1), data, size);
    put_le(header, (uint32_t)((sum >> 15 | sum << 17) + 0xa282ead8u), 4);
    buffer_append(log, header, sizeof(header));
    buffer_append(log, data, size);
}

/* As RocksDB splits a change over blocks. */
static void append_change(struct buffer *log, size_t size)
{
    char *data = calloc(1, size);

    assert_non_null(data);
    for (size_t i = 0; i < size; i++)
        data[i] = (char)('a' + i % 26);
    char zeros[HEADER] = {0};
    size_t at = 0;
    for (bool is_first = true; is_first || at < size; is_first = false) {
        size_t room = MANIFEST_BLOCK - log->size % MANIFEST_BLOCK, part = size - at;

        if (room < HEADER) {
            buffer_append(log, zeros, room);
            room = MANIFEST_BLOCK;
        }
        if (part > room - HEADER)
            part = room - HEADER;
        append_part(log, at + part == size ? (is_first ? FULL : LAST) : (is_first ? FIRST : MIDDLE),
                    data + at, part);
        at += part;
    }
    free(data);
}

static struct manifest manifest_look(struct bytes log)
{
    struct manifest found;

    manifest_begin(&found);
    for (size_t at = 0; at < log.size; at += MANIFEST_BLOCK)
        manifest_add(&found, (struct bytes){log.data + at, log.size - at < MANIFEST_BLOCK
                                                               ? log.size - at
                                                               : MANIFEST_BLOCK});
    manifest_end(&found);
    return found;
}

/* CHANGES changes; `ends` is where each ends. */
static void make_log(struct buffer *log, size_t change_size, size_t ends[CHANGES])
{
    buffer_init(log);
    for (size_t i = 0; i < CHANGES; i++) {
        append_change(log, change_size + i);
        ends[i] = log->size;
    }
    assert_false(buffer_failed(log));
}

static void test_whole(void **state)
{
    const size_t sizes[] = {20, 100, 3000, MANIFEST_BLOCK - HEADER, MANIFEST_BLOCK, 100000};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        size_t ends[CHANGES];
        struct buffer log;

        make_log(&log, sizes[i], ends);
        struct manifest found = manifest_look(buffer_bytes(&log));
        assert_true(found.records == CHANGES);
        assert_false(found.is_broken || found.has_loss);
        buffer_deinit(&log);
    }
    assert_false(manifest_look((struct bytes){0}).is_broken);
}

static void test_cut_anywhere(void **state)
{
    (void)state;
    size_t ends[CHANGES];
    struct buffer log;
    make_log(&log, 150, ends);
    size_t whole = 0;
    for (size_t size = 0; size <= log.size; size++) {
        struct manifest found = manifest_look((struct bytes){log.data, size});

        while (whole < CHANGES && ends[whole] <= size)
            whole++;
        assert_true(found.records == whole);
        assert_false(found.has_loss);
        assert_int_equal(found.is_broken, size != (whole ? ends[whole - 1] : 0));
        if (found.is_broken)
            assert_true(found.broken_at == (whole ? ends[whole - 1] : 0));
    }
    buffer_deinit(&log);
}

/* In the last change it is a torn end, in all others a loss of that change. */
static void change_anywhere(size_t change_size, size_t step)
{
    size_t ends[CHANGES];
    struct buffer log;

    make_log(&log, change_size, ends);
    size_t hit = 0;
    for (size_t at = 0; at < log.size; at += step) {
        while (ends[hit] <= at)
            hit++;
        log.data[at] ^= (char)(1 << at % 8);
        struct manifest found = manifest_look(buffer_bytes(&log));
        log.data[at] ^= (char)(1 << at % 8);
        assert_true(found.is_broken);
        assert_true(found.broken_at >= (hit ? ends[hit - 1] : 0) && found.broken_at < ends[hit]);
        assert_int_equal(found.has_loss, hit < CHANGES - 1);
        assert_true(found.records == CHANGES - 1);
    }
    buffer_deinit(&log);
}

static void test_change_anywhere(void **state)
{
    (void)state;
    change_anywhere(150, 1);
    change_anywhere(9000, 331);
}

static void test_zeros(void **state)
{
    (void)state;
    size_t ends[CHANGES];
    struct buffer log;
    make_log(&log, 150, ends);
    memset(buffer_reserve(&log, 5000), 0, 5000); /* made larger ahead */
    struct manifest found = manifest_look((struct bytes){log.data, log.size + 5000});
    assert_false(found.is_broken || found.has_loss);
    buffer_deinit(&log);
    make_log(&log, 9000, ends);
    memset(log.data + MANIFEST_BLOCK, 0, MANIFEST_BLOCK); /* a block that never reached the disk */
    found = manifest_look(buffer_bytes(&log));
    assert_true(found.is_broken && found.has_loss);
    buffer_deinit(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_change_anywhere),
        cmocka_unit_test(test_zeros),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
