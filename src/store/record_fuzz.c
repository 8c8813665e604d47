/* Goal: no bytes make decoding read out of bounds or accept what encoding would not write. Method:
 * the input is a key and a value; the checksum is made to fit half of the time, so that the fields
 * behind it are reached; whatever decodes must encode to the same bytes again. */
#include "base/checksum.h"
#include "store/record.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void assert_same(struct buffer *again, struct bytes value)
{
    assert(!buffer_failed(again));
    assert(bytes_equal(buffer_bytes(again), value));
    buffer_deinit(again);
}

static void try_row(struct record_key key, struct bytes value)
{
    struct timer view;

    if (record_row_decode(key, value, &view, NULL))
        return;
    struct timer *timer = timer_copy(&view, &view.texts);
    assert(timer);
    struct buffer again;
    buffer_init(&again);
    record_row_encode(&again, key, timer);
    assert_same(&again, value);
    timer_free(timer);
}

static void try_pointer(struct record_key key, struct bytes value)
{
    struct record_pointer pointer;

    if (record_pointer_decode(key, value, &pointer, NULL))
        return;
    struct buffer again;
    buffer_init(&again);
    record_pointer_encode(&again, key, pointer);
    assert_same(&again, value);
}

static void try_name(struct record_key key, struct bytes value)
{
    struct record_name name;

    if (record_name_decode(key, value, &name, NULL))
        return;
    struct buffer again;
    buffer_init(&again);
    record_name_encode(&again, key, &name);
    assert_same(&again, value);
}

static void try_meta(struct record_key key, struct bytes value)
{
    struct storage_meta meta;

    if (record_meta_decode((uint16_t)key.low, value, &meta, NULL))
        return;
    struct buffer again;
    buffer_init(&again);
    record_meta_encode(&again, (uint16_t)key.low, &meta);
    assert_same(&again, value);
}

static void try_number(struct record_key key, struct bytes value)
{
    struct bytes name = {(char *)&key, key.low % 16};
    uint64_t number;

    if (record_number_decode(name, value, &number, NULL))
        return;
    struct buffer again;
    buffer_init(&again);
    record_number_encode(&again, name, number);
    assert_same(&again, value);
}

static void try_place(struct record_key key, struct bytes value)
{
    struct bytes name = {(char *)&key, key.low % 16};
    struct storage_place place;

    if (record_place_decode(name, value, &place, NULL))
        return;
    struct buffer again;
    buffer_init(&again);
    record_place_encode(&again, name, &place);
    assert_same(&again, value);
}

/* A touch either makes a row that is as if it was written whole, or what is no row. */
static void try_touch(struct record_key key, struct bytes value)
{
    const struct timer_texts texts = {.target = BYTES("http://a/"), .payload = BYTES("{}")};
    struct timer *timer = timer_alloc(&texts);

    assert(timer);
    timer->id = (struct timer_id){record_row_position(key).at, (uint16_t)(key.high >> 48), key.low};
    timer->due = timer->at = timer->id.first;
    struct buffer row;
    buffer_init(&row);
    struct buffer touched;
    buffer_init(&touched);
    record_row_encode(&row, key, timer);
    record_touch_apply(&touched, key, buffer_bytes(&row), value);
    struct timer view;
    if (record_row_decode(key, buffer_bytes(&touched), &view, NULL)) {
        assert(touched.size == row.size + value.size + 1);
    } else {
        assert(view.due.ms > view.at.ms && bytes_equal(view.texts.payload, texts.payload));
        timer->due = view.due;
        timer->version = view.version;
        struct buffer again;
        buffer_init(&again);
        record_row_encode(&again, key, timer);
        assert_same(&again, buffer_bytes(&touched));
        buffer_init(&again);
        record_touch_encode(&again, key, timer);
        assert_same(&again, value);
    }
    buffer_deinit(&row);
    buffer_deinit(&touched);
    timer_free(timer);
}

/* What record.c sums in place of a key, for each kind. */
static struct record_key summed_key(unsigned kind, struct record_key key)
{
    if (kind == 2)
        return (struct record_key){UINT64_MAX, (uint16_t)key.low};
    if (kind == 3 || kind == 6)
        return (struct record_key){UINT64_MAX - 1, checksum_crc32c(0, &key, key.low % 16)};
    return key;
}

static void seal(struct record_key key, char *value, size_t size)
{
    uint8_t bytes[16];

    put_le(bytes, key.high, 8);
    put_le(bytes + 8, key.low, 8);
    put_le(value + size - 4, checksum_crc32c(checksum_crc32c(0, bytes, 16), value, size - 4), 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 17)
        return 0;
    unsigned kind = data[0] & 32 ? 6 : data[0] & 16 ? 5 : data[0] & 8 ? 4 : data[0] & 3;
    struct record_key key = {get_be(data + 1, 8), get_be(data + 9, 8)};
    /* In a block of its own size, so that a read past its end is seen. */
    char *copy = malloc(size - 17);
    if (!copy)
        return 0;
    memcpy(copy, data + 17, size - 17);
    struct bytes value = {copy, size - 17};
    if ((data[0] & 4) && value.size >= 4)
        seal(summed_key(kind, key), copy, value.size);
    if (kind == 0)
        try_row(key, value);
    else if (kind == 1)
        try_pointer(key, value);
    else if (kind == 2)
        try_meta(key, value);
    else if (kind == 3)
        try_number(key, value);
    else if (kind == 4)
        try_touch(key, value);
    else if (kind == 6)
        try_place(key, value);
    else
        try_name(key, value);
    free(copy);
    return 0;
}
