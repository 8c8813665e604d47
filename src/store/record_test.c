/* Goal: what is stored comes back as it was, and nothing else is taken for it. Method: golden bytes
 * of version 1; random timers there and back; every single flipped bit, every cut, every wrong key
 * refused. */
#include "store/record.h"
#include "timer/runs.h"
#include "store/storage_model.h"

/* ---- golden bytes: when one of these fails, the format changed, and old folders cannot be read
 * ---- */

#define GOLDEN_ROW                                                                     \
    "01020709050403020100001413121103000000060504030201000007050403020100000500000006" \
    "00000000000000070000000000000008000000000000000109000000687474703a2f2f612f020200" \
    "00007b7d030a000000746578742f706c61696e0405000000613a20620a05090000007b2263223a22" \
    "64227d060300000035303363a35fa6"
#define GOLDEN_FINAL                                                                   \
    "010407090504030201000014131211030000000a0504030201000006050403020100000705040302" \
    "01000005000000060000000000000007000000000000000800000000000000010900000068747470" \
    "3a2f2f612f05090000007b2263223a2264227d06030000003530331c7d3846"
#define GOLDEN_DEAD                                                                    \
    "010507090504030201000014131211030000000a0504030201000006050403020100000705040302" \
    "01000005000000060000000000000007000000000000000800000000000000010900000068747470" \
    "3a2f2f612f02020000007b7d030a000000746578742f706c61696e0405000000613a20620a050900" \
    "00007b2263223a2264227d0603000000353033ab7c55cc"
#define GOLDEN_USUAL                                                                   \
    "010000840300000000000001000000000000000109000000687474703a2f2f612f02020000007b7d" \
    "ec92aa9b"
#define GOLDEN_TRACE                                                                   \
    "010000840300000000000001000000000000000109000000687474703a2f2f612f02020000007b7d" \
    "0c0900000030302d312d322d3031f3049994"
#define GOLDEN_RUNS                                                                    \
    "010000840300000000000001000000000000000109000000687474703a2f2f612f02020000007b7d" \
    "0d1500000020030000000000000000000000000000000000000086320d3e"
#define GOLDEN_REPORTS                                                                 \
    "010000840300000000000001000000000000000109000000687474703a2f2f612f02020000007b7d" \
    "0e0700000071756575653a640f0700000071756575653a731003000000303668b2e47052"
#define GOLDEN_METHOD                                                                  \
    "010000840300000000000001000000000000000109000000687474703a2f2f612f02020000007b7d" \
    "130300000050555469322b60"
#define GOLDEN_FAILING                                                       \
    "0100188403000000000000010000000000000005000000000000009803000000000000" \
    "0109000000687474703a2f2f612f02020000007b7d57f28e27"
#define GOLDEN_PAUSED                                                                  \
    "01060084030000000000000100000000000000b6030000000000000109000000687474703a2f2f61" \
    "2f02020000007b7d11060000006465706c6f7949a73d5f"
#define GOLDEN_TOUCH   "010905040302010000151312113b2dea47"
#define GOLDEN_POINTER "01070000000000000008000000000000004803f680"
#define GOLDEN_META    "0101000000000000000200000000000000030000000000000004000000000000002a18ec3f"
#define GOLDEN_META_2                                                                      \
    "020100000000000000020000000000000003000000000000000400000000000000050000000000000006" \
    "000000000000000b680a03"
#define GOLDEN_NUMBER "0101000000000000009de7cd7c"
#define GOLDEN_PLACE                                                                         \
    "01090000000000000008000000000000000700000000000000060000000000000005000000040000000000" \
    "000003000000000000000200000000000000b9d79228"
#define GOLDEN_PLACE_2                                                                       \
    "02090000000000000008000000000000000700000000000000060000000000000005000000040000000000" \
    "000003000000000000000200000000000000010000000000000056ec335a"

#define GOLDEN_HOLDS "017061757365640193ddef"

static void assert_golden(struct buffer *buffer, const char *expected)
{
    char hex[1024] = "";

    assert_true(buffer->size * 2 < sizeof(hex));
    for (size_t i = 0; i < buffer->size; i++)
        snprintf(hex + 2 * i, 3, "%02x", (uint8_t)buffer->data[i]);
    assert_string_equal(hex, expected);
    buffer_deinit(buffer);
}

static struct timer *golden_timer(void)
{
    const struct timer_texts texts = {.target = BYTES("http://a/"),
                                      .payload = BYTES("{}"),
                                      .content_type = BYTES("text/plain"),
                                      .headers = BYTES("a: b\n"),
                                      .labels = BYTES("{\"c\":\"d\"}"),
                                      .last_error = BYTES("503")};
    struct timer *timer = timer_alloc(&texts);

    assert_non_null(timer);
    timer->id = (struct timer_id){{0x010203040506}, 0x0708, 0x090a0b0c0d0e0f10};
    timer->due.ms = 0x010203040507;
    timer->at.ms = 0x010203040508;
    timer->created.ms = 0x010203040509;
    timer->ended.ms = 0x01020304050a;
    timer->version = 0x11121314;
    timer->attempts = 3;
    timer->state = TIMER_RETRYING;
    timer->retry = (struct retry_policy){5, 6, 7, 8, RETRY_POLICY_DEFAULT.give_up_ms, false};
    return timer;
}

static struct record_key record_key_of(const struct timer *timer)
{
    return record_row_key(timer->id.partition,
                          (struct storage_position){timer->at, timer->id.serial});
}

static void test_golden_rows(void **state)
{
    struct timer *timer = golden_timer();
    const struct timer_texts plain = {.target = BYTES("http://a/"), .payload = BYTES("{}")};
    struct timer *usual = timer_alloc(&plain);

    (void)state;
    assert_non_null(usual);
    assert_true(record_key_of(timer).high == 0x0708010203040508 &&
                record_key_of(timer).low == timer->id.serial);
    struct buffer buffer;
    buffer_init(&buffer);
    record_row_encode(&buffer, record_key_of(timer), timer);
    assert_golden(&buffer, GOLDEN_ROW);
    timer->state = TIMER_DEAD;
    record_row_encode(&buffer, record_key_of(timer), timer);
    assert_golden(&buffer, GOLDEN_DEAD);
    timer->state = TIMER_CANCELLED;
    record_row_encode(&buffer, record_key_of(timer), timer);
    assert_golden(&buffer, GOLDEN_FINAL);
    usual->id = (struct timer_id){{1000}, 1, 2};
    usual->at.ms = usual->due.ms = 1000;
    usual->created.ms = 900;
    record_row_encode(&buffer, record_key_of(usual), usual);
    assert_golden(&buffer, GOLDEN_USUAL);
    char room[RUNS_BYTES_MAX];
    usual->texts.runs = runs_add((struct bytes){0}, &(struct run){.planned = {800}}, room);
    record_row_encode(&buffer, record_key_of(usual), usual);
    assert_golden(&buffer, GOLDEN_RUNS);
    usual->texts.runs = (struct bytes){0};
    usual->texts.on_dead = BYTES("queue:d");
    usual->texts.on_success = BYTES("queue:s");
    usual->texts.report_of = BYTES("06h");
    record_row_encode(&buffer, record_key_of(usual), usual);
    assert_golden(&buffer, GOLDEN_REPORTS);
    usual->texts.on_dead = usual->texts.on_success = usual->texts.report_of = (struct bytes){0};
    usual->texts.method = BYTES("PUT");
    record_row_encode(&buffer, record_key_of(usual), usual);
    assert_golden(&buffer, GOLDEN_METHOD);
    usual->texts.method = (struct bytes){0};
    usual->texts.trace = BYTES("00-1-2-01"); /* the length is free: the storage does not read it */
    record_row_encode(&buffer, record_key_of(usual), usual);
    assert_golden(&buffer, GOLDEN_TRACE);
    usual->texts.trace = (struct bytes){0};
    usual->retry.give_up_ms = 5;
    usual->failing.ms = 920;
    record_row_encode(&buffer, record_key_of(usual), usual);
    assert_golden(&buffer, GOLDEN_FAILING);
    usual->retry = RETRY_POLICY_DEFAULT;
    usual->failing.ms = 0;
    usual->state = TIMER_PAUSED;
    usual->paused.ms = 950;
    usual->texts.note = BYTES("deploy");
    record_row_encode(&buffer, record_key_of(usual), usual);
    assert_golden(&buffer, GOLDEN_PAUSED);
    usual->texts.trace = BYTES("00-1-2-01");
    usual->state = TIMER_FIRED;
    record_row_encode(&buffer, record_key_of(usual), usual);
    assert_true(buffer.size > 0 && !memmem(buffer.data, buffer.size, "00-1-2-01", 9));
    assert_null(memmem(buffer.data, buffer.size, "deploy", 6));
    buffer_deinit(&buffer);
    timer_free(timer);
    timer_free(usual);
}

static const struct storage_place golden_place = {.next = 9,
                                                  .epoch = 8,
                                                  .seq = 7,
                                                  .incarnation = 6,
                                                  .node = 5,
                                                  .log_bytes = 4,
                                                  .live_bytes = 3,
                                                  .sweep_end = 2};

static void test_golden_others(void **state)
{
    const struct storage_meta meta = {1, {2}, {3}, 4, {5}, {6}}, small = {1, {2}, {3}, 4, {0}, {0}};

    (void)state;
    struct buffer buffer;
    buffer_init(&buffer);
    record_pointer_encode(&buffer, record_pointer_key(5, 6), (struct record_pointer){{7}, {8}});
    assert_golden(&buffer, GOLDEN_POINTER);
    record_meta_encode(&buffer, 5, &small);
    assert_golden(&buffer, GOLDEN_META);
    record_meta_encode(&buffer, 5, &meta);
    assert_golden(&buffer, GOLDEN_META_2);
    record_number_encode(&buffer, BYTES("format"), 1);
    assert_golden(&buffer, GOLDEN_NUMBER);
    struct storage_place place = golden_place;
    record_place_encode(&buffer, BYTES("l"), &place);
    assert_golden(&buffer, GOLDEN_PLACE);
    place.copy_end = 1;
    record_place_encode(&buffer, BYTES("l"), &place);
    assert_golden(&buffer, GOLDEN_PLACE_2);
    record_note_encode(&buffer, BYTES("h"), BYTES("paused"));
    assert_golden(&buffer, GOLDEN_HOLDS);
}

/* ---- there and back ---- */

static void assert_decodes(struct record_key key, struct bytes value, const struct timer *expected)
{
    struct timer view;
    struct error error;

    if (record_row_decode(key, value, &view, &error))
        fail_msg("%s", error.text);
    assert_true(record_row_is_over(value) == timer_is_final(expected->state));
    struct timer *timer = timer_copy(&view, &view.texts);
    assert_non_null(timer);
    testing_assert_timer(timer, expected, record_row_position(key).at);
    timer_free(timer);
}

/* proves: stored-unchanged */
static void test_round_trip(void **state)
{
    uint64_t seed = testing_seed();
    struct model *model = calloc(1, sizeof(*model));

    (void)state;
    assert_non_null(model);
    model_init(model, seed);
    struct buffer buffer;
    buffer_init(&buffer);
    for (int i = 0; i < 5000; i++) {
        struct timer_id id = {model_position(model), (uint16_t)model_below(model, 1 << 16),
                              random_next(&model->random)};
        struct timer *timer = model_timer(model, id);

        timer->at = model_below(model, 2) ? id.first : model_position(model);
        if (model_below(model, 4) == 0)
            model_end(model, timer);
        if (model_below(model, 8) == 0)
            timer->created.ms = timer->due.ms = random_next(&model->random);
        buffer_clear(&buffer);
        buffer_append_text(&buffer, "before"); /* records are appended */
        record_row_encode(&buffer, record_key_of(timer), timer);
        assert_memory_equal(buffer.data, "before", 6);
        assert_decodes(record_key_of(timer), (struct bytes){buffer.data + 6, buffer.size - 6},
                       timer);
        timer_free(timer);
    }
    buffer_deinit(&buffer);
    free(model);
}

static void test_round_trip_others(void **state)
{
    struct random random = random_seeded(testing_seed());

    (void)state;
    struct buffer buffer;
    buffer_init(&buffer);
    for (int i = 0; i < 1000; i++) {
        uint16_t partition = (uint16_t)random_next(&random);
        struct record_key key = record_pointer_key(partition, random_next(&random));
        struct record_pointer pointer = {{1 + random_below(&random, RECORD_AT_MAX)},
                                         {random_next(&random)}};
        struct storage_meta meta = {.epoch = random_next(&random),
                                    .watermark = {random_next(&random)},
                                    .trim = {random_next(&random)},
                                    .pending = random_next(&random),
                                    .placed = {i % 2 * random_next(&random)},
                                    .over_to = {i % 3 * random_next(&random)}};
        uint64_t number = random_next(&random);

        buffer_clear(&buffer);
        record_pointer_encode(&buffer, key, pointer);
        struct record_pointer pointer_back;
        assert_int_equal(record_pointer_decode(key, buffer_bytes(&buffer), &pointer_back, NULL), 0);
        assert_memory_equal(&pointer, &pointer_back, sizeof(pointer));
        buffer_clear(&buffer);
        record_meta_encode(&buffer, partition, &meta);
        struct storage_meta meta_back;
        assert_int_equal(record_meta_decode(partition, buffer_bytes(&buffer), &meta_back, NULL), 0);
        assert_memory_equal(&meta, &meta_back, sizeof(meta));
        buffer_clear(&buffer);
        record_number_encode(&buffer, BYTES("n"), number);
        uint64_t number_back;
        assert_int_equal(
            record_number_decode(BYTES("n"), buffer_bytes(&buffer), &number_back, NULL), 0);
        assert_true(number == number_back);
        buffer_clear(&buffer);
        const struct storage_place place = {
            .next = 1 + (number >> 1),
            .epoch = random_next(&random),
            .seq = random_next(&random),
            .incarnation = random_next(&random),
            .node = (uint32_t)random_next(&random),
            .log_bytes = random_next(&random),
            .live_bytes = random_next(&random),
            .sweep_end = random_next(&random),
            .copy_end = i % 2 * random_next(&random),
        };
        record_place_encode(&buffer, BYTES("n"), &place);
        struct storage_place back;
        assert_int_equal(record_place_decode(BYTES("n"), buffer_bytes(&buffer), &back, NULL), 0);
        assert_true(back.next == place.next && back.epoch == place.epoch && back.seq == place.seq &&
                    back.incarnation == place.incarnation && back.node == place.node);
        assert_true(back.log_bytes == place.log_bytes && back.live_bytes == place.live_bytes &&
                    back.sweep_end == place.sweep_end && back.copy_end == place.copy_end);
    }
    buffer_deinit(&buffer);
}

/* ---- what must be refused ---- */

enum kind { ROW, POINTER, META, SMALL_META, NUMBER, PLACE, COPY_PLACE, HOLDS, KINDS };

/* Decodes as one kind of record; on failure the result must be untouched and the reason said. */
static bool is_refused(enum kind kind, struct record_key key, struct bytes value)
{
    union {
        struct timer view;
        struct record_pointer pointer;
        struct storage_meta meta;
        uint64_t number;
        struct storage_place place;
        struct bytes holds;
        char bytes[sizeof(struct timer)];
    } result, untouched;

    memset(&untouched, 0xa5, sizeof(untouched));
    memcpy(&result, &untouched, sizeof(result));
    struct error error = {0};
    enum error_code code = ERROR_NONE;
    switch (kind) {
    case ROW:
        code = record_row_decode(key, value, &result.view, &error);
        break;
    case POINTER:
        code = record_pointer_decode(key, value, &result.pointer, &error);
        break;
    case META:
    case SMALL_META:
        code = record_meta_decode((uint16_t)key.low, value, &result.meta, &error);
        break;
    case PLACE:
    case COPY_PLACE:
        code = record_place_decode(BYTES("n"), value, &result.place, &error);
        break;
    case HOLDS:
        code = record_note_decode(BYTES("h"), value, &result.holds, &error);
        break;
    default:
        code = record_number_decode(BYTES("n"), value, &result.number, &error);
    }
    if (!code)
        return false;
    assert_int_equal(code, ERROR_CORRUPT);
    assert_int_equal(error.code, ERROR_CORRUPT);
    assert_true(error.text[0] != '\0');
    assert_memory_equal(&result, &untouched, sizeof(result));
    return true;
}

static void encode(enum kind kind, struct buffer *buffer, struct record_key *ret_key)
{
    struct storage_meta meta = {1, {2}, {3}, 4, {0}, {0}};
    struct storage_place place = golden_place;
    struct timer *timer = golden_timer();

    buffer_init(buffer);
    *ret_key = kind == ROW ? record_key_of(timer) : record_pointer_key(5, 6);
    if (kind == META)
        meta.placed.ms = meta.over_to.ms = 7;
    place.copy_end = kind == COPY_PLACE;
    if (kind == ROW)
        record_row_encode(buffer, *ret_key, timer);
    else if (kind == POINTER)
        record_pointer_encode(buffer, *ret_key, (struct record_pointer){{7}, {8}});
    else if (kind == META || kind == SMALL_META)
        record_meta_encode(buffer, (uint16_t)ret_key->low, &meta);
    else if (kind == PLACE || kind == COPY_PLACE)
        record_place_encode(buffer, BYTES("n"), &place);
    else if (kind == HOLDS)
        record_note_encode(buffer, BYTES("h"), BYTES("paused"));
    else
        record_number_encode(buffer, BYTES("n"), 9);
    timer_free(timer);
}

static void test_flipped_bits(void **state)
{
    (void)state;
    for (enum kind kind = ROW; kind < KINDS; kind++) {
        struct buffer buffer;
        struct record_key key;

        encode(kind, &buffer, &key);
        assert_false(is_refused(kind, key, buffer_bytes(&buffer)));
        for (size_t bit = 0; bit < 8 * buffer.size; bit++) {
            buffer.data[bit / 8] ^= (char)(1 << bit % 8);
            assert_true(is_refused(kind, key, buffer_bytes(&buffer)));
            buffer.data[bit / 8] ^= (char)(1 << bit % 8);
        }
        buffer_deinit(&buffer);
    }
}

static void test_cut_and_extended(void **state)
{
    (void)state;
    for (enum kind kind = ROW; kind < KINDS; kind++) {
        struct buffer buffer;
        struct record_key key;

        encode(kind, &buffer, &key);
        size_t size = buffer.size;
        for (size_t i = 0; i < size; i++) {
            char *part = malloc(i + 1); /* a block of its own: a read past its end is seen */

            assert_non_null(part);
            memcpy(part, buffer.data, i);
            assert_true(is_refused(kind, key, (struct bytes){part, i}));
            free(part);
        }
        buffer_append(&buffer, "\0\0\0\0", 4);
        for (size_t i = 1; i <= 4; i++)
            assert_true(is_refused(kind, key, (struct bytes){buffer.data, size + i}));
        buffer_deinit(&buffer);
    }
}

static void test_wrong_place(void **state)
{
    (void)state;
    for (enum kind kind = ROW; kind < NUMBER; kind++) {
        struct buffer buffer;
        struct record_key key;

        encode(kind, &buffer, &key);
        for (unsigned bit = 0; bit < 128; bit++) {
            struct record_key other = key;
            if (bit < 64)
                other.high ^= UINT64_C(1) << bit;
            else
                other.low ^= UINT64_C(1) << (bit - 64);
            if (kind < META || (bit >= 64 && bit < 80)) /* a meta's place is its partition */
                assert_true(is_refused(kind, other, buffer_bytes(&buffer)));
        }
        for (enum kind wrong = ROW; wrong < KINDS; wrong++)
            if (wrong != kind && (kind < META || wrong == NUMBER))
                assert_true(is_refused(wrong, key, buffer_bytes(&buffer)));
        buffer_deinit(&buffer);
    }
    {
        struct buffer buffer;

        buffer_init(&buffer);
        record_number_encode(&buffer, BYTES("n"), 9);
        uint64_t number;
        assert_int_equal(record_number_decode(BYTES("m"), buffer_bytes(&buffer), &number, NULL),
                         ERROR_CORRUPT);
        buffer_deinit(&buffer);
    }
}

static void test_unknown_version(void **state)
{
    (void)state;
    struct buffer buffer;
    struct record_key key;
    encode(ROW, &buffer, &key);
    buffer.data[0] = 2;
    struct timer view;
    struct error error;
    assert_int_equal(record_row_decode(key, buffer_bytes(&buffer), &view, &error), ERROR_CORRUPT);
    assert_string_equal(error.text, "a record of the unknown version 2");
    buffer.data[0] = 1;
    buffer.data[1] ^= 1;
    assert_int_equal(record_row_decode(key, buffer_bytes(&buffer), &view, &error), ERROR_CORRUPT);
    assert_string_equal(error.text, "a record whose checksum does not fit");
    buffer_deinit(&buffer);
}

/* ---- keys and changes ---- */

/* ---- touches ---- */

/* A touched row reads like one that was written whole: also after a second touch, and for a row
 * with all fields. */
static void test_touch(void **state)
{
    struct timer *timer = golden_timer();
    struct record_key key = record_key_of(timer);

    (void)state;
    struct buffer row;
    buffer_init(&row);
    record_row_encode(&row, key, timer);
    for (uint64_t n = 1; n <= 3; n++) {
        timer->due.ms = timer->at.ms + n;
        timer->version++;
        struct buffer touch;
        buffer_init(&touch);
        struct buffer touched;
        buffer_init(&touched);
        struct buffer whole;
        buffer_init(&whole);
        record_touch_encode(&touch, key, timer);
        record_touch_apply(&touched, key, buffer_bytes(&row), buffer_bytes(&touch));
        record_row_encode(&whole, key, timer);
        assert_true(bytes_equal(buffer_bytes(&touched), buffer_bytes(&whole)));
        if (n == 1)
            assert_golden(&touch, GOLDEN_TOUCH);
        else
            buffer_deinit(&touch);
        buffer_deinit(&whole);
        buffer_deinit(&row);
        row = touched;
    }
    buffer_deinit(&row);
    timer_free(timer);
}

static void assert_damaged(struct record_key key, struct bytes row, struct bytes touch)
{
    struct buffer result;

    buffer_init(&result);
    record_touch_apply(&result, key, row, touch);
    assert_int_equal(result.size, row.size + touch.size + 1);
    struct timer view;
    assert_int_equal(record_row_decode(key, buffer_bytes(&result), &view, NULL), ERROR_CORRUPT);
    buffer_deinit(&result);
}

/* Damaged touches: each bit of row or touch is flipped; or the touch has no row, or is of another
 * row, of one that has ended, or of one that it does not extend. The result is no valid row, and
 * has all bytes of both. */
static void test_damaged_touch(void **state)
{
    struct timer *timer = golden_timer();
    struct record_key key = record_key_of(timer), other = {key.high, key.low + 1};

    (void)state;
    struct buffer row;
    buffer_init(&row);
    struct buffer touch;
    buffer_init(&touch);
    struct buffer over;
    buffer_init(&over);
    struct buffer early;
    buffer_init(&early);
    record_row_encode(&row, key, timer);
    record_touch_encode(&early, key, timer); /* due before the position */
    timer->due.ms = timer->at.ms + 1;
    record_touch_encode(&touch, key, timer);
    timer->state = TIMER_FIRED;
    record_row_encode(&over, key, timer);
    assert_damaged(key, (struct bytes){NULL, 0}, buffer_bytes(&touch));
    assert_damaged(other, buffer_bytes(&row), buffer_bytes(&touch));
    assert_damaged(key, buffer_bytes(&row), BYTES(""));
    assert_damaged(key, buffer_bytes(&over), buffer_bytes(&touch));
    assert_damaged(key, buffer_bytes(&row), buffer_bytes(&early));
    assert_damaged(key, buffer_bytes(&row), (struct bytes){touch.data, touch.size - 1});
    for (size_t bit = 0; bit < 8 * (row.size + touch.size); bit++) {
        char *byte =
            bit < 8 * row.size ? &row.data[bit / 8] : &touch.data[(bit - 8 * row.size) / 8];

        *byte ^= (char)(1 << bit % 8);
        assert_damaged(key, buffer_bytes(&row), buffer_bytes(&touch));
        *byte ^= (char)(1 << bit % 8);
    }
    buffer_deinit(&row);
    buffer_deinit(&touch);
    buffer_deinit(&over);
    buffer_deinit(&early);
    timer_free(timer);
}

static void test_keys(void **state)
{
    struct storage_position position = {{UINT64_MAX}, 5};
    struct record_key key = record_row_key(2, position);

    (void)state;
    assert_true(key.high == 0x0002ffffffffffff && key.low == 5); /* never into the next partition */
    position.at.ms = 77;
    key = record_row_key(2, position);
    assert_true(record_row_position(key).at.ms == 77 && record_row_position(key).serial == 5);
    assert_true(record_key_before(key, record_key_after(key)));
    key.low = UINT64_MAX;
    struct record_key after = record_key_after(key);
    assert_true(after.high == key.high + 1 && after.low == 0);
    key.high = UINT64_MAX;
    assert_true(record_key_equal(record_key_after(key), key));
}

static void test_changes(void **state)
{
    static const struct {
        uint64_t first, was_at, at;
        enum timer_state state;
        struct record_change expected;
    } cases[] = {
        {5, 0, 5, TIMER_SCHEDULED, {{5}, {0}, RECORD_POINTER_KEEP}},   /* created */
        {5, 0, 6, TIMER_SCHEDULED, {{6}, {0}, RECORD_POINTER_PUT}},    /* created elsewhere */
        {5, 5, 5, TIMER_SCHEDULED, {{5}, {0}, RECORD_POINTER_KEEP}},   /* replaced */
        {5, 5, 6, TIMER_SCHEDULED, {{6}, {5}, RECORD_POINTER_PUT}},    /* moved */
        {5, 6, 6, TIMER_SCHEDULED, {{6}, {0}, RECORD_POINTER_KEEP}},   /* replaced there */
        {5, 6, 7, TIMER_SCHEDULED, {{7}, {6}, RECORD_POINTER_PUT}},    /* moved on */
        {5, 6, 5, TIMER_SCHEDULED, {{5}, {6}, RECORD_POINTER_DELETE}}, /* moved home */
        {5, 5, 9, TIMER_FIRED, {{5}, {0}, RECORD_POINTER_KEEP}},       /* ended at id.first */
        {5, 6, 9, TIMER_FIRED, {{6}, {0}, RECORD_POINTER_PUT}},        /* over elsewhere */
        {5, 0, 9, TIMER_FIRED, {{5}, {0}, RECORD_POINTER_KEEP}}, /* ended before it was written */
        {5, 5, 9, TIMER_DEAD, {{9}, {5}, RECORD_POINTER_PUT}},   /* dead: away */
        {5, 6, 9, TIMER_DEAD, {{9}, {6}, RECORD_POINTER_PUT}},
        {5, 9, 9, TIMER_DEAD, {{9}, {0}, RECORD_POINTER_PUT}}, /* and written again */
        {5, 6, 5, TIMER_DEAD, {{5}, {6}, RECORD_POINTER_DELETE}},
        {5, 0, 9, TIMER_DEAD, {{5}, {0}, RECORD_POINTER_KEEP}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct timer timer = {
            .id.first.ms = cases[i].first, .at.ms = cases[i].at, .state = cases[i].state};
        struct record_change change =
            record_change_of(&(struct storage_write){.timer = &timer, .was_at = {cases[i].was_at}});

        assert_true(change.put.ms == cases[i].expected.put.ms);
        assert_true(change.cut.ms == cases[i].expected.cut.ms);
        assert_int_equal(change.pointer, cases[i].expected.pointer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_rows),  cmocka_unit_test(test_golden_others),
        cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_round_trip_others),
        cmocka_unit_test(test_flipped_bits), cmocka_unit_test(test_cut_and_extended),
        cmocka_unit_test(test_wrong_place),  cmocka_unit_test(test_unknown_version),
        cmocka_unit_test(test_touch),        cmocka_unit_test(test_damaged_touch),
        cmocka_unit_test(test_keys),         cmocka_unit_test(test_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
