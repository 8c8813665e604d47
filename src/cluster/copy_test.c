/* Goal: asks for pages of copies, and pages, arrive as they were sent, in the bytes that an
 * earlier build sent, and no damage goes unnoticed. Method: golden bytes; each flipped bit and
 * each prefix; contradictions under a checksum that fits. */
#include "cluster/copy.h"

#include "base/checksum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static const struct wire_head copy_head = {.cluster = 0x77, .node = 9};

/* TWM, version, cluster, kind, node, count */
static const char copy_ask_bytes[] = "TWM\1\x77\0\0\0\0\0\0\0\3\11\0\0\0\1\0\0\0"
                                     "\5\0\12\3key";
static const char copy_page_bytes[] = "TWM\1\x77\0\0\0\0\0\0\0\4\11\0\0\0\1\0\0\0"
                                      "\5\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0"
                                      "\4\0\0\0\0\0\0\0\5\0\0\0\6\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0"
                                      "\11\3key\10\0\0\0\4\0\0\0rows";
static const char copy_none_bytes[] = "TWM\1\x77\0\0\0\0\0\0\0\4\11\0\0\0\0\0\0\0";

static void copy_golden_ask(struct buffer *to)
{
    struct storage_export export = {.partition = 5};

    assert_true(storage_export_seek(&export, 2, BYTES("key")));
    buffer_init(to);
    copy_put_ask(to, &copy_head, &export);
}

static void copy_golden_page(struct buffer *to)
{
    struct copy_page page = {.at = {.partition = 5}, .rows = BYTES("rows"), .row_count = 8};

    assert_true(storage_export_seek(&page.at, 1, BYTES("key")));
    page.at.place = (struct storage_place){.next = 1,
                                           .epoch = 2,
                                           .seq = 3,
                                           .incarnation = 4,
                                           .node = 5,
                                           .log_bytes = 6,
                                           .live_bytes = 7};
    buffer_init(to);
    copy_put_page(to, &copy_head, &page);
}

static void assert_copy_golden(const struct buffer *buffer, const char *bytes, size_t size)
{
    assert_int_equal(buffer->size, size + 4);
    assert_memory_equal(buffer->data, bytes, size);
    assert_int_equal(get_le(buffer->data + size, 4), checksum_crc32c(0, bytes, size));
}

static bool copy_is_taken(struct bytes message, enum wire_kind kind)
{
    struct wire_reader reader;
    struct storage_export export;
    struct copy_page page;

    return wire_open(message, &reader, NULL) == ERROR_NONE && reader.head.kind == kind &&
           (kind == WIRE_COPY_ASK ? copy_take_ask(&reader, &export)
                                  : copy_take_page(&reader, &page));
}

static void test_copy_asks(void **state)
{
    struct wire_reader reader;
    struct storage_export back;
    struct buffer buffer;
    uint8_t table;

    (void)state;
    copy_golden_ask(&buffer);
    assert_copy_golden(&buffer, copy_ask_bytes, sizeof(copy_ask_bytes) - 1);
    assert_int_equal(wire_open(buffer_bytes(&buffer), &reader, NULL), ERROR_NONE);
    assert_true(reader.head.kind == WIRE_COPY_ASK && reader.head.cluster == 0x77);
    assert_true(copy_take_ask(&reader, &back));
    assert_true(bytes_equal(storage_export_cursor(&back, &table), BYTES("key")));
    assert_true(back.partition == 5 && table == 2 && !back.is_done);
    assert_true(back.rows_max == COPY_ROWS_MAX && back.bytes_max == COPY_BYTES_MAX);
    buffer_deinit(&buffer);
}

static void test_copy_pages(void **state)
{
    struct wire_reader reader;
    struct copy_page page;
    struct buffer buffer;
    uint8_t table;

    (void)state;
    copy_golden_page(&buffer);
    assert_copy_golden(&buffer, copy_page_bytes, sizeof(copy_page_bytes) - 1);
    assert_int_equal(wire_open(buffer_bytes(&buffer), &reader, NULL), ERROR_NONE);
    assert_true(copy_take_page(&reader, &page));
    const struct storage_place *place = &page.at.place;
    assert_true(bytes_equal(storage_export_cursor(&page.at, &table), BYTES("key")));
    assert_true(page.at.partition == 5 && table == 1 && !page.at.is_done);
    assert_true(place->next == 1 && place->epoch == 2 && place->seq == 3);
    assert_true(place->incarnation == 4 && place->node == 5 && copy_is_whole(place));
    assert_true(place->log_bytes == 6 && place->live_bytes == 7);
    assert_true(bytes_equal(page.rows, BYTES("rows")) && page.row_count == 8);
    buffer_clear(&buffer);
    assert_true(storage_export_seek(&page.at, STORAGE_EXPORT_TABLES, (struct bytes){0}));
    page.rows = (struct bytes){0};
    copy_put_page(&buffer, &copy_head, &page); /* the last one */
    assert_int_equal(wire_open(buffer_bytes(&buffer), &reader, NULL), ERROR_NONE);
    assert_true(copy_take_page(&reader, &page) && page.at.is_done && page.rows.size == 0);
    buffer_clear(&buffer);
    copy_put_page(&buffer, &copy_head, NULL);
    assert_copy_golden(&buffer, copy_none_bytes, sizeof(copy_none_bytes) - 1);
    assert_false(copy_is_taken(buffer_bytes(&buffer), WIRE_COPY_PAGE));
    buffer_deinit(&buffer);
}

static void assert_copy_damage_is_met(struct buffer *buffer, enum wire_kind kind)
{
    assert_true(copy_is_taken(buffer_bytes(buffer), kind));
    for (size_t i = 0; i < buffer->size; i++)
        assert_false(copy_is_taken((struct bytes){buffer->data, i}, kind));
    for (size_t bit = 0; bit < 8 * buffer->size; bit++) {
        buffer->data[bit / 8] ^= (char)(1 << bit % 8);
        assert_false(copy_is_taken(buffer_bytes(buffer), kind));
        buffer->data[bit / 8] ^= (char)(1 << bit % 8);
    }
    buffer_deinit(buffer);
}

static void test_copy_damage(void **state)
{
    struct buffer buffer;

    (void)state;
    copy_golden_ask(&buffer);
    assert_copy_damage_is_met(&buffer, WIRE_COPY_ASK);
    copy_golden_page(&buffer);
    assert_copy_damage_is_met(&buffer, WIRE_COPY_PAGE);
}

/* With one byte of a message changed, and a checksum that fits. */
static void assert_copy_refused(enum wire_kind kind, size_t at, char byte, size_t size)
{
    struct buffer buffer;

    if (kind == WIRE_COPY_ASK)
        copy_golden_ask(&buffer);
    else
        copy_golden_page(&buffer);
    buffer.data[at] = byte;
    buffer.size = size ? size : buffer.size - 4;
    char sum[4];
    put_le(sum, checksum_crc32c(0, buffer.data, buffer.size), 4);
    buffer_append(&buffer, sum, 4);
    assert_false(copy_is_taken(buffer_bytes(&buffer), kind));
    buffer_deinit(&buffer);
}

static void test_copy_contradictions(void **state)
{
    (void)state;
    assert_copy_refused(WIRE_COPY_ASK, 17, 2, 0);   /* two asks */
    assert_copy_refused(WIRE_COPY_ASK, 23, 11, 0);  /* behind the last table, with a key */
    assert_copy_refused(WIRE_COPY_ASK, 23, 12, 0);  /* another table */
    assert_copy_refused(WIRE_COPY_ASK, 23, 2, 0);   /* a table of an earlier build */
    assert_copy_refused(WIRE_COPY_ASK, 24, 2, 0);   /* a byte too many */
    assert_copy_refused(WIRE_COPY_ASK, 24, 4, 0);   /* one too few */
    assert_copy_refused(WIRE_COPY_PAGE, 23, 0, 0);  /* no place */
    assert_copy_refused(WIRE_COPY_PAGE, 75, 11, 0); /* done, with a key */
    assert_copy_refused(WIRE_COPY_PAGE, 75, 1, 0);  /* a table of an earlier build */
    assert_copy_refused(WIRE_COPY_PAGE, 84, 5, 0);  /* rows that are not there */
    assert_copy_refused(WIRE_COPY_PAGE, 84, 3, 0);  /* more rows than it says */
    assert_copy_refused(WIRE_COPY_PAGE, 0, 'T', 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy_asks),
        cmocka_unit_test(test_copy_pages),
        cmocka_unit_test(test_copy_damage),
        cmocka_unit_test(test_copy_contradictions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
