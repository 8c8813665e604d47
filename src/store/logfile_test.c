/* Goal: a torn end is told from damage before writes that stay. Method: logs of writes whose
 * numbers follow on are put together as RocksDB does, then cut at every byte, and every byte is
 * changed. */
#include "store/logfile.h"

#include "base/checksum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

enum { HEADER = 7, WRITES = 12, FULL = 1, FIRST = 2, MIDDLE = 3, LAST = 4 };

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

/* As RocksDB splits a write over blocks. */
static void append_write(struct buffer *log, uint64_t number, uint32_t count, size_t size)
{
    char *data = calloc(1, size);

    assert_non_null(data);
    put_le(data, number, 8);
    put_le(data + 8, count, 4);
    for (size_t i = LOGFILE_HEAD_SIZE; i < size; i++)
        data[i] = (char)('a' + i % 26);
    char zeros[HEADER] = {0};
    size_t at = 0;
    for (bool is_first = true; is_first || at < size; is_first = false) {
        size_t room = LOGFILE_BLOCK - log->size % LOGFILE_BLOCK, part = size - at;

        if (room < HEADER) {
            buffer_append(log, zeros, room);
            room = LOGFILE_BLOCK;
        }
        if (part > room - HEADER)
            part = room - HEADER;
        append_part(log, at + part == size ? (is_first ? FULL : LAST) : (is_first ? FIRST : MIDDLE),
                    data + at, part);
        at += part;
    }
    free(data);
}

static struct logfile logfile_look(struct bytes log, uint64_t next)
{
    struct logfile found;

    logfile_begin(&found, LOGFILE_WRITES, next);
    for (size_t at = 0; at < log.size; at += LOGFILE_BLOCK)
        logfile_add(&found,
                    (struct bytes){log.data + at,
                                   log.size - at < LOGFILE_BLOCK ? log.size - at : LOGFILE_BLOCK});
    logfile_end(&found);
    return found;
}

/* WRITES writes of three numbers each; `ends` is where each ends. */
static void make_log(struct buffer *log, size_t write_size, size_t ends[WRITES])
{
    buffer_init(log);
    for (size_t i = 0; i < WRITES; i++) {
        append_write(log, 100 + 3 * i, 3, write_size + i);
        ends[i] = log->size;
    }
    assert_false(buffer_failed(log));
}

static void test_whole(void **state)
{
    const size_t sizes[] = {20, 100, 3000, LOGFILE_BLOCK - HEADER, LOGFILE_BLOCK, 100000};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        size_t ends[WRITES];
        struct buffer log;

        make_log(&log, sizes[i], ends);
        struct logfile found = logfile_look(buffer_bytes(&log), 0);
        assert_true(found.records == WRITES && found.next == 100 + 3 * WRITES);
        assert_false(found.is_broken || found.has_loss);
        buffer_deinit(&log);
    }
    assert_false(logfile_look((struct bytes){0}, 7).is_broken);
    assert_true(logfile_look((struct bytes){0}, 7).next == 7);
}

static void test_cut_anywhere(void **state)
{
    (void)state;
    size_t ends[WRITES];
    struct buffer log;
    make_log(&log, 150, ends);
    size_t whole = 0;
    for (size_t size = 0; size <= log.size; size++) {
        struct logfile found = logfile_look((struct bytes){log.data, size}, 0);

        while (whole < WRITES && ends[whole] <= size)
            whole++;
        assert_true(found.records == whole);
        assert_false(found.has_loss);
        assert_int_equal(found.is_broken, size != (whole ? ends[whole - 1] : 0));
        if (found.is_broken)
            assert_true(found.broken_at == (whole ? ends[whole - 1] : 0));
    }
    buffer_deinit(&log);
}

/* In the last write it is a torn end, in all others a loss of that write. */
static void change_anywhere(size_t write_size, size_t step)
{
    size_t ends[WRITES];
    struct buffer log;

    make_log(&log, write_size, ends);
    size_t hit = 0;
    for (size_t at = 0; at < log.size; at += step) {
        while (ends[hit] <= at)
            hit++;
        log.data[at] ^= (char)(1 << at % 8);
        struct logfile found = logfile_look(buffer_bytes(&log), 0);
        log.data[at] ^= (char)(1 << at % 8);
        assert_true(found.is_broken);
        assert_true(found.broken_at >= (hit ? ends[hit - 1] : 0) && found.broken_at < ends[hit]);
        assert_int_equal(found.has_loss, hit < WRITES - 1);
        assert_true(found.records == WRITES - 1);
        if (hit == WRITES - 1)
            assert_true(found.lost == 0);
        else if (log.size <= LOGFILE_BLOCK) /* all behind it: RocksDB drops the block */
            assert_true(found.lost == 3 * (WRITES - hit) - (hit ? 0 : 2));
        else
            assert_true(found.lost >= (hit ? 3 : 1));
    }
    buffer_deinit(&log);
}

static void test_change_anywhere(void **state)
{
    (void)state;
    change_anywhere(150, 1);
    change_anywhere(9000, 331);
}

/* A crash, a start that went on with a new log, another crash. */
static void test_torn_end_before_another_log(void **state)
{
    (void)state;
    size_t ends[WRITES];
    struct buffer log;
    make_log(&log, 150, ends);
    struct logfile first = logfile_look((struct bytes){log.data, log.size - 5}, 0);
    struct buffer next;
    buffer_init(&next);
    append_write(&next, first.next, 3, 50);
    struct logfile second = logfile_look(buffer_bytes(&next), first.next);
    assert_true(first.is_broken && !first.has_loss);
    assert_false(second.is_broken || second.has_loss);
    buffer_deinit(&next);
    buffer_deinit(&log);
}

static void test_zeros(void **state)
{
    (void)state;
    size_t ends[WRITES];
    struct buffer log;
    make_log(&log, 150, ends);
    memset(buffer_reserve(&log, 5000), 0, 5000); /* made larger ahead */
    struct logfile found = logfile_look((struct bytes){log.data, log.size + 5000}, 0);
    assert_false(found.is_broken || found.has_loss);
    buffer_deinit(&log);
    make_log(&log, 9000, ends);
    memset(log.data + LOGFILE_BLOCK, 0, LOGFILE_BLOCK); /* a block that never reached the disk */
    found = logfile_look(buffer_bytes(&log), 0);
    assert_true(found.is_broken && found.has_loss);
    buffer_deinit(&log);
}

static uint64_t logfile_needed_from(struct bytes edit)
{
    struct logfile found;
    struct buffer changes;

    buffer_init(&changes);
    append_part(&changes, FULL, "\x0a\x03", 2); /* an older one */
    append_part(&changes, FULL, edit.data, edit.size);
    logfile_begin(&found, LOGFILE_CHANGES, 0);
    logfile_add(&found, buffer_bytes(&changes));
    logfile_end(&found);
    assert_false(found.is_broken);
    buffer_deinit(&changes);
    return found.needed_from;
}

/* The changes are those that RocksDB writes at a start, at a flush, and with a new file. */
static void test_needed_from(void **state)
{
    const struct bytes start = BYTES("\x01\x04name\x02\x11\x09\x00\x03\x15\x0a\xac\x02\x04\x09");

    (void)state;
    assert_true(logfile_needed_from(start) == 300);
    assert_true(logfile_needed_from(BYTES("\x0a\x11\xc8\x01\x02")) == 17);
    assert_true(logfile_needed_from(BYTES("\x02\x11\xc8\x01\x02")) == 3);
    assert_true(logfile_needed_from(BYTES("\x67\x0a\x0a\x11")) == 3); /* of a file */
    for (size_t size = 0; size < start.size; size++) {
        const uint64_t needed_from = logfile_needed_from((struct bytes){start.data, size});

        assert_true(needed_from == (size < start.size - 2 ? 3 : 300));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),           cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_change_anywhere), cmocka_unit_test(test_torn_end_before_another_log),
        cmocka_unit_test(test_zeros),           cmocka_unit_test(test_needed_from),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
