/* record.c - encodes and decodes stored records. */
#include "store/record.h"

#include "base/checksum.h"
#include "timer/timer.h"
#include "timer/runs.h"
#include "timer/tenant.h"

#include <assert.h>

/* The order of states is the format. New ones are appended. */
_Static_assert(TIMER_SCHEDULED == 0 && TIMER_DELIVERING == 1 && TIMER_RETRYING == 2 &&
                   TIMER_FIRED == 3 && TIMER_CANCELLED == 4 && TIMER_DEAD == 5 && TIMER_PAUSED == 6,
               "states are stored as numbers");

enum text_tag {
    TEXT_NONE,
#define X(tag, name, ...) TEXT_##name = (tag),
    TIMER_TEXT_LIST(X)
#undef X
};

enum {
    STATE_COUNT = TIMER_PAUSED + 1,
    SUM_SIZE = 4,
    /* version, state, flags, created, timer version, attempts */
    ROW_HEAD_SIZE = 1 + 1 + 1 + 8 + 4 + 4,
    RETRY_SIZE = 4 + 8 + 8 + 8,
    TEXT_HEAD_SIZE = 1 + 4,
};

/* Optional fields of a row, which are omitted at their usual value. */
enum row_flag {
    ROW_HAS_FIRST = 1, /* the row has id.first; if not, that is the row's position */
    ROW_HAS_DUE = 2,   /* the row has `due`; if not, that is the row's position */
    /* the row has the retry policy without give_up_ms; if not, it is usual_retry */
    ROW_HAS_RETRY = 4,
    /* the row has retry.give_up_ms, whose highest bit is retry.until_next; if not, both are those
     * of usual_retry */
    ROW_HAS_GIVE_UP = 8,
    ROW_HAS_FAILING = 16, /* the row has `failing`; if not, it is 0 */
    ROW_FLAGS = 31,
};

/* Part of the format: stays when RETRY_POLICY_DEFAULT changes. */
static const struct retry_policy usual_retry = {
    10, 1000, 3600 * 1000, 15 * 1000, UINT64_C(3) * 24 * 3600 * 1000, false};

#define ROW_UNTIL_NEXT (UINT64_C(1) << 63)

static bool record_retry_is_usual(struct retry_policy retry)
{
    retry.give_up_ms = usual_retry.give_up_ms;
    retry.until_next = usual_retry.until_next;
    return retry_policy_equal(&retry, &usual_retry);
}

/* ---- checksums ---- */

static uint32_t record_sum_of(struct record_key key, const void *body, size_t size)
{
    uint8_t bytes[16];

    put_le(bytes, key.high, 8);
    put_le(bytes + 8, key.low, 8);
    return checksum_crc32c(checksum_crc32c(0, bytes, sizeof(bytes)), body, size);
}

/* Returns the key in the checksums of metas and numbers, which no row or pointer has. */
static struct record_key record_meta_key(uint16_t partition)
{
    return (struct record_key){UINT64_MAX, partition};
}

static struct record_key record_number_key(struct bytes name)
{
    return (struct record_key){UINT64_MAX - 1, checksum_crc32c(0, name.data, name.size)};
}

/* Checks version and checksum: the first byte and the last four of every record. */
static enum error_code record_check(struct record_key key, struct bytes value, unsigned version,
                                    size_t size_min, struct error *ret_error)
{
    if (value.size < 1 + SUM_SIZE)
        return error_set(ret_error, ERROR_CORRUPT, "a record of %zu bytes", value.size);
    if ((uint8_t)value.data[0] != version)
        return error_set(ret_error, ERROR_CORRUPT, "a record of the unknown version %u",
                         (uint8_t)value.data[0]);
    if (get_le(value.data + value.size - SUM_SIZE, SUM_SIZE) !=
        record_sum_of(key, value.data, value.size - SUM_SIZE))
        return error_set(ret_error, ERROR_CORRUPT, "a record whose checksum does not fit");
    if (value.size < size_min)
        return error_set(ret_error, ERROR_CORRUPT, "a record of %zu bytes", value.size);
    return ERROR_NONE;
}

/* ---- writing ---- */

static char *record_write_le(char *at, uint64_t value, size_t width)
{
    put_le(at, value, width);
    return at + width;
}

enum text_kept { KEPT_ALWAYS, KEPT_CONTENT, KEPT_PAUSED, KEPT_AWAITED };

static bool record_keeps(enum text_kept kept, enum timer_state state)
{
    return kept == KEPT_ALWAYS || (kept == KEPT_CONTENT && timer_keeps_content(state)) ||
           (kept == KEPT_PAUSED && state == TIMER_PAUSED) ||
           (kept == KEPT_AWAITED && state == TIMER_DELIVERING);
}

static char *record_write_text(char *at, enum text_tag tag, struct bytes text)
{
    if (!text.size)
        return at;
    assert(text.size <= UINT32_MAX);
    at = record_write_le(at, tag, 1);
    at = record_write_le(at, text.size, 4);
    memcpy(at, text.data, text.size);
    return at + text.size;
}

/* Closes the record that began at `begin` in memory of buffer_reserve. */
static void record_seal(struct buffer *to, struct record_key key, char *begin, char *end)
{
    end = record_write_le(end, record_sum_of(key, begin, (size_t)(end - begin)), SUM_SIZE);
    to->size += (size_t)(end - begin);
}

/* Returns an upper bound of the row's size. */
static size_t record_row_size(const struct timer *timer)
{
    size_t size = ROW_HEAD_SIZE + 5 * 8 + RETRY_SIZE + SUM_SIZE;

#define X(tag, name, ...) size += TEXT_HEAD_SIZE + timer->texts.name.size;
    TIMER_TEXT_LIST(X)
#undef X
    return size;
}

static unsigned record_row_flags(const struct timer *timer, struct wall at)
{
    unsigned flags = 0;

    if (timer->id.first.ms != at.ms)
        flags |= ROW_HAS_FIRST;
    if (timer->due.ms != at.ms)
        flags |= ROW_HAS_DUE;
    if (!record_retry_is_usual(timer->retry))
        flags |= ROW_HAS_RETRY;
    if (timer->retry.give_up_ms != usual_retry.give_up_ms || timer->retry.until_next)
        flags |= ROW_HAS_GIVE_UP;
    if (timer->failing.ms)
        flags |= ROW_HAS_FAILING;
    return flags;
}

void record_row_encode(struct buffer *to, struct record_key key, const struct timer *timer)
{
    const bool is_over = timer_is_final(timer->state);
    char *begin = buffer_reserve(to, record_row_size(timer)), *at = begin;

    if (!begin)
        return;
    const unsigned flags = record_row_flags(timer, record_row_position(key).at);
    at = record_write_le(at, RECORD_VERSION, 1);
    at = record_write_le(at, timer->state, 1);
    at = record_write_le(at, flags, 1);
    at = record_write_le(at, timer->created.ms, 8);
    at = record_write_le(at, timer->version, 4);
    at = record_write_le(at, timer->attempts, 4);
    if (is_over)
        at = record_write_le(at, timer->ended.ms, 8);
    if (timer->state == TIMER_PAUSED)
        at = record_write_le(at, timer->paused.ms, 8);
    if (flags & ROW_HAS_FIRST)
        at = record_write_le(at, timer->id.first.ms, 8);
    if (flags & ROW_HAS_DUE)
        at = record_write_le(at, timer->due.ms, 8);
    if (flags & ROW_HAS_RETRY) {
        at = record_write_le(at, timer->retry.attempts_max, 4);
        at = record_write_le(at, timer->retry.base_ms, 8);
        at = record_write_le(at, timer->retry.cap_ms, 8);
        at = record_write_le(at, timer->retry.timeout_ms, 8);
    }
    if (flags & ROW_HAS_GIVE_UP)
        at = record_write_le(
            at, timer->retry.give_up_ms | (timer->retry.until_next ? ROW_UNTIL_NEXT : 0), 8);
    if (flags & ROW_HAS_FAILING)
        at = record_write_le(at, timer->failing.ms, 8);
#define X(tag, name, kept, patch)                \
    if (record_keeps(KEPT_##kept, timer->state)) \
        at = record_write_text(at, TEXT_##name, timer->texts.name);
    TIMER_TEXT_LIST(X)
#undef X
    record_seal(to, key, begin, at);
}

/* ---- reading ---- */

/* Rest of a record. Reading past the end returns zeros and is noted. */
struct reader {
    const char *at, *end;
    bool failed;
};

static uint64_t record_read_le(struct reader *reader, size_t width)
{
    if ((size_t)(reader->end - reader->at) < width) {
        reader->failed = true;
        reader->at = reader->end;
        return 0;
    }
    uint64_t value = get_le(reader->at, width);
    reader->at += width;
    return value;
}

/* Returns NULL for a tag that no row in this state has. */
static struct bytes *record_text_of(struct timer_texts *texts, unsigned tag, enum timer_state state)
{
    switch (tag) {
#define X(number, name, kept, patch) \
    case number:                     \
        return record_keeps(KEPT_##kept, state) ? &texts->name : NULL;
        TIMER_TEXT_LIST(X)
#undef X
    default:
        return NULL;
    }
}

/* Reads texts with rising tags, none empty, up to the end of the record. */
static bool record_read_texts(struct reader *reader, enum timer_state state,
                              struct timer_texts *ret_texts)
{
    unsigned last = TEXT_NONE;

    while (reader->at < reader->end) {
        unsigned tag = (unsigned)record_read_le(reader, 1);
        size_t size = (size_t)record_read_le(reader, 4);
        struct bytes *text = record_text_of(ret_texts, tag, state);

        if (reader->failed || !text || tag <= last || !size ||
            size > (size_t)(reader->end - reader->at))
            return false;
        if (tag == TEXT_tenant && !tenant_is_valid((struct bytes){reader->at, size}))
            return false;
        if (tag == TEXT_runs && !runs_is_valid((struct bytes){reader->at, size}))
            return false;
        *text = (struct bytes){reader->at, size};
        reader->at += size;
        last = tag;
    }
    return true;
}

static bool record_read_row(struct reader *reader, struct record_key key, struct timer *view)
{
    const struct wall at = record_row_position(key).at;

    reader->at += 1; /* the version */
    unsigned state = (unsigned)record_read_le(reader, 1);
    unsigned flags = (unsigned)record_read_le(reader, 1);
    if (state >= STATE_COUNT || flags > ROW_FLAGS)
        return false;
    *view = (struct timer){
        .id = {at, (uint16_t)(key.high >> 48), key.low}, .due = at, .at = at, .retry = usual_retry};
    view->state = (enum timer_state)state;
    view->created.ms = record_read_le(reader, 8);
    view->version = (uint32_t)record_read_le(reader, 4);
    view->attempts = (uint32_t)record_read_le(reader, 4);
    if (timer_is_final(view->state))
        view->ended.ms = record_read_le(reader, 8);
    if (view->state == TIMER_PAUSED)
        view->paused.ms = record_read_le(reader, 8);
    if (flags & ROW_HAS_FIRST) {
        view->id.first.ms = record_read_le(reader, 8);
        if (view->id.first.ms == at.ms || view->id.first.ms > RECORD_AT_MAX)
            return false;
    }
    if (flags & ROW_HAS_DUE) {
        view->due.ms = record_read_le(reader, 8);
        if (view->due.ms == at.ms)
            return false;
    }
    if (flags & ROW_HAS_RETRY) {
        view->retry.attempts_max = (uint32_t)record_read_le(reader, 4);
        view->retry.base_ms = record_read_le(reader, 8);
        view->retry.cap_ms = record_read_le(reader, 8);
        view->retry.timeout_ms = record_read_le(reader, 8);
        if (record_retry_is_usual(view->retry))
            return false;
    }
    if (flags & ROW_HAS_GIVE_UP) {
        const uint64_t give_up = record_read_le(reader, 8);

        if (give_up == usual_retry.give_up_ms)
            return false;
        view->retry.give_up_ms = give_up & ~ROW_UNTIL_NEXT;
        view->retry.until_next = give_up & ROW_UNTIL_NEXT;
    }
    if (flags & ROW_HAS_FAILING) {
        view->failing.ms = record_read_le(reader, 8);
        if (!view->failing.ms)
            return false;
    }
    return !reader->failed && record_read_texts(reader, view->state, &view->texts);
}

enum error_code record_row_decode(struct record_key key, struct bytes value, struct timer *ret_view,
                                  struct error *ret_error)
{
    enum error_code code =
        record_check(key, value, RECORD_VERSION, ROW_HEAD_SIZE + SUM_SIZE, ret_error);

    if (code)
        return code;
    struct reader reader = {value.data, value.data + value.size - SUM_SIZE, false};
    struct timer view;
    if (!record_read_row(&reader, key, &view))
        return error_set(ret_error, ERROR_CORRUPT, "a record that makes no sense");
    *ret_view = view;
    return ERROR_NONE;
}

/* ---- touches ---- */

/* version, due, timer version, checksum */
enum { TOUCH_SIZE = 1 + 8 + 4 + SUM_SIZE };

void record_touch_encode(struct buffer *to, struct record_key key, const struct timer *timer)
{
    char *begin = buffer_reserve(to, TOUCH_SIZE), *at = begin;

    if (!begin)
        return;
    at = record_write_le(at, RECORD_VERSION, 1);
    at = record_write_le(at, timer->due.ms, 8);
    at = record_write_le(at, timer->version, 4);
    record_seal(to, key, begin, at);
}

/* Applies a touch to its row. */
static bool record_touch_row(struct record_key key, struct bytes row, struct bytes touch,
                             struct timer *ret_view)
{
    if (touch.size != TOUCH_SIZE || record_check(key, touch, RECORD_VERSION, TOUCH_SIZE, NULL) ||
        record_row_decode(key, row, ret_view, NULL) || timer_is_final(ret_view->state))
        return false;
    ret_view->due.ms = get_le(touch.data + 1, 8);
    ret_view->version = (uint32_t)get_le(touch.data + 9, 4);
    return ret_view->due.ms > ret_view->at.ms;
}

void record_touch_apply(struct buffer *to, struct record_key key, struct bytes row,
                        struct bytes touch)
{
    struct timer view;

    if (record_touch_row(key, row, touch, &view)) {
        record_row_encode(to, key, &view);
    } else {
        buffer_append_bytes(to, row);
        buffer_append_bytes(to, touch);
        buffer_append_bytes(to, BYTES("!")); /* so that an empty touch gives no valid row */
    }
}

/* ---- pointers ---- */

enum { POINTER_SIZE = 1 + 8 + 8 + SUM_SIZE };

void record_pointer_encode(struct buffer *to, struct record_key key, struct record_pointer pointer)
{
    char *begin = buffer_reserve(to, POINTER_SIZE), *at = begin;

    if (!begin)
        return;
    at = record_write_le(at, RECORD_VERSION, 1);
    at = record_write_le(at, pointer.at.ms, 8);
    at = record_write_le(at, pointer.ended.ms, 8);
    record_seal(to, key, begin, at);
}

enum error_code record_pointer_decode(struct record_key key, struct bytes value,
                                      struct record_pointer *ret_pointer, struct error *ret_error)
{
    enum error_code code = record_check(key, value, RECORD_VERSION, POINTER_SIZE, ret_error);

    if (code)
        return code;
    struct record_pointer pointer = {{get_le(value.data + 1, 8)}, {get_le(value.data + 9, 8)}};
    if (value.size != POINTER_SIZE || !pointer.at.ms || pointer.at.ms > RECORD_AT_MAX)
        return error_set(ret_error, ERROR_CORRUPT, "a pointer that makes no sense");
    *ret_pointer = pointer;
    return ERROR_NONE;
}

/* ---- names ---- */

enum { NAME_SIZE = 1 + 2 + 8 + 8 + SUM_SIZE };

void record_name_encode(struct buffer *to, struct record_key key, const struct record_name *name)
{
    char *begin = buffer_reserve(to, NAME_SIZE), *at = begin;

    if (!begin)
        return;
    at = record_write_le(at, RECORD_VERSION, 1);
    at = record_write_le(at, name->id.partition, 2);
    at = record_write_le(at, name->id.first.ms, 8);
    at = record_write_le(at, name->ended.ms, 8);
    record_seal(to, key, begin, at);
}

enum error_code record_name_decode(struct record_key key, struct bytes value,
                                   struct record_name *ret_name, struct error *ret_error)
{
    enum error_code code = record_check(key, value, RECORD_VERSION, NAME_SIZE, ret_error);

    if (code)
        return code;
    struct record_name name;
    name.id.partition = (uint16_t)get_le(value.data + 1, 2);
    name.id.first.ms = get_le(value.data + 3, 8);
    name.id.serial = UINT64_MAX - key.low;
    name.ended.ms = get_le(value.data + 11, 8);
    if (value.size != NAME_SIZE || !name.id.first.ms || name.id.first.ms > RECORD_AT_MAX)
        return error_set(ret_error, ERROR_CORRUPT, "a name that makes no sense");
    *ret_name = name;
    return ERROR_NONE;
}

/* ---- metas ---- */

enum { META_SHORT_SIZE = 1 + 4 * 8 + SUM_SIZE, META_SIZE = META_SHORT_SIZE + 2 * 8 };

void record_meta_encode(struct buffer *to, uint16_t partition, const struct storage_meta *meta)
{
    const bool is_short = !meta->placed.ms && !meta->over_to.ms;
    char *begin = buffer_reserve(to, META_SIZE), *at = begin;

    if (!begin)
        return;
    at = record_write_le(at, is_short ? RECORD_VERSION : RECORD_META_VERSION, 1);
    at = record_write_le(at, meta->epoch, 8);
    at = record_write_le(at, meta->watermark.ms, 8);
    at = record_write_le(at, meta->trim.ms, 8);
    at = record_write_le(at, meta->pending, 8);
    if (!is_short) {
        at = record_write_le(at, meta->placed.ms, 8);
        at = record_write_le(at, meta->over_to.ms, 8);
    }
    record_seal(to, record_meta_key(partition), begin, at);
}

enum error_code record_meta_decode(uint16_t partition, struct bytes value,
                                   struct storage_meta *ret_meta, struct error *ret_error)
{
    const bool is_short = value.size > 0 && value.data[0] == RECORD_VERSION;
    const size_t size = is_short ? META_SHORT_SIZE : META_SIZE;
    enum error_code code =
        record_check(record_meta_key(partition), value,
                     is_short ? RECORD_VERSION : RECORD_META_VERSION, size, ret_error);

    if (code)
        return code;
    struct storage_meta meta = {.epoch = get_le(value.data + 1, 8),
                                .watermark = {get_le(value.data + 9, 8)},
                                .trim = {get_le(value.data + 17, 8)},
                                .pending = get_le(value.data + 25, 8)};
    if (!is_short && value.size == size) {
        meta.placed.ms = get_le(value.data + 33, 8);
        meta.over_to.ms = get_le(value.data + 41, 8);
    }
    if (value.size != size || (!is_short && !meta.placed.ms && !meta.over_to.ms))
        return error_set(ret_error, ERROR_CORRUPT, "a meta that makes no sense");
    *ret_meta = meta;
    return ERROR_NONE;
}

/* ---- numbers ---- */

enum { NUMBER_VERSION = 1, NUMBER_SIZE = 1 + 8 + SUM_SIZE };

void record_number_encode(struct buffer *to, struct bytes name, uint64_t number)
{
    char *begin = buffer_reserve(to, NUMBER_SIZE), *at = begin;

    if (!begin)
        return;
    at = record_write_le(at, NUMBER_VERSION, 1);
    at = record_write_le(at, number, 8);
    record_seal(to, record_number_key(name), begin, at);
}

enum error_code record_number_decode(struct bytes name, struct bytes value, uint64_t *ret_number,
                                     struct error *ret_error)
{
    enum error_code code =
        record_check(record_number_key(name), value, NUMBER_VERSION, NUMBER_SIZE, ret_error);

    if (code)
        return code;
    if (value.size != NUMBER_SIZE)
        return error_set(ret_error, ERROR_CORRUPT, "a number that makes no sense");
    *ret_number = get_le(value.data + 1, 8);
    return ERROR_NONE;
}

/* ---- the place ---- */

enum {
    PLACE_COPY_VERSION = 2,
    PLACE_SIZE = 1 + 4 * 8 + 4 + 3 * 8 + SUM_SIZE,
    PLACE_COPY_SIZE = PLACE_SIZE + 8,
};

void record_place_encode(struct buffer *to, struct bytes key, const struct storage_place *place)
{
    char *begin = buffer_reserve(to, PLACE_COPY_SIZE), *at = begin;

    if (!begin)
        return;
    at = record_write_le(at, place->copy_end ? PLACE_COPY_VERSION : RECORD_VERSION, 1);
    at = record_write_le(at, place->next, 8);
    at = record_write_le(at, place->epoch, 8);
    at = record_write_le(at, place->seq, 8);
    at = record_write_le(at, place->incarnation, 8);
    at = record_write_le(at, place->node, 4);
    at = record_write_le(at, place->log_bytes, 8);
    at = record_write_le(at, place->live_bytes, 8);
    at = record_write_le(at, place->sweep_end, 8);
    if (place->copy_end)
        at = record_write_le(at, place->copy_end, 8);
    record_seal(to, record_number_key(key), begin, at);
}

enum error_code record_place_decode(struct bytes key, struct bytes value,
                                    struct storage_place *ret_place, struct error *ret_error)
{
    const bool is_copy = value.size > 0 && value.data[0] == PLACE_COPY_VERSION;
    const size_t size = is_copy ? PLACE_COPY_SIZE : PLACE_SIZE;
    enum error_code code =
        record_check(record_number_key(key), value,
                     is_copy ? (unsigned)PLACE_COPY_VERSION : RECORD_VERSION, size, ret_error);

    if (code)
        return code;
    const uint64_t copy_end = is_copy && value.size == size ? get_le(value.data + 61, 8) : 0;
    if (value.size != size || !get_le(value.data + 1, 8) || (is_copy && !copy_end))
        return error_set(ret_error, ERROR_CORRUPT, "a place that makes no sense");
    *ret_place = (struct storage_place){.next = get_le(value.data + 1, 8),
                                        .epoch = get_le(value.data + 9, 8),
                                        .seq = get_le(value.data + 17, 8),
                                        .incarnation = get_le(value.data + 25, 8),
                                        .node = (uint32_t)get_le(value.data + 33, 4),
                                        .log_bytes = get_le(value.data + 37, 8),
                                        .live_bytes = get_le(value.data + 45, 8),
                                        .sweep_end = get_le(value.data + 53, 8),
                                        .copy_end = copy_end};
    return ERROR_NONE;
}

/* ---- notes ---- */

void record_note_encode(struct buffer *to, struct bytes key, struct bytes bytes)
{
    const size_t size = 1 + bytes.size + SUM_SIZE;
    char *begin = buffer_reserve(to, size);

    if (!begin)
        return;
    put_le(begin, RECORD_VERSION, 1);
    memcpy(begin + 1, bytes.data, bytes.size);
    record_seal(to, record_number_key(key), begin, begin + 1 + bytes.size);
}

enum error_code record_note_decode(struct bytes key, struct bytes value, struct bytes *ret_bytes,
                                   struct error *ret_error)
{
    const enum error_code code =
        record_check(record_number_key(key), value, RECORD_VERSION, 1 + 1 + SUM_SIZE, ret_error);

    if (!code)
        *ret_bytes = (struct bytes){value.data + 1, value.size - 1 - SUM_SIZE};
    return code;
}

/* ---- what a write does ---- */

struct record_change record_change_of(const struct storage_write *write)
{
    const struct timer *timer = write->timer;
    const struct wall first = timer->id.first, was_at = write->was_at;
    struct record_change change = {0};

    if (write->is_forgotten) {
        change.cut = was_at;
        change.pointer = RECORD_POINTER_DELETE;
        return change;
    }
    const bool moves =
        was_at.ms && (timer->state == TIMER_DEAD || was_at.ms == STORAGE_PAUSED_AT.ms);

    if (timer_is_final(timer->state) && !moves) {
        change.put = was_at.ms ? was_at : first;
        if (change.put.ms != first.ms)
            change.pointer = RECORD_POINTER_PUT;
    } else {
        change.put = timer->at;
        if (was_at.ms != timer->at.ms)
            change.cut = was_at;
        if (timer->at.ms != first.ms &&
            (was_at.ms != timer->at.ms || write->was_final ||
             timer_is_final(timer->state))) /* the entry of its name says when it ended */
            change.pointer = RECORD_POINTER_PUT;
        if (timer->at.ms == first.ms && was_at.ms && was_at.ms != first.ms)
            change.pointer = RECORD_POINTER_DELETE;
    }
    /* Positions come from the caller, who must not pass 0 or more than 48 bits. */
    assert(change.put.ms && change.put.ms < RECORD_AT_MAX);
    return change;
}

/* New, final and revived timers write all their names, and so do those that come earlier: a copy of
 * the partition may have passed their new position (export.h). A timer that replaces another writes
 * only watched keys: first the old keys are removed, then its own are added. */
enum { NAMES_BEGIN, NAMES_ALL, NAMES_OLD_WATCH, NAMES_NEW_WATCH, NAMES_NONE };

static bool record_writes_all_names(const struct storage_write *write)
{
    return !write->was_at.ms || write->was_final || timer_is_final(write->timer->state) ||
           write->timer->at.ms < write->was_at.ms;
}

static unsigned record_first_step(const struct storage_write *write)
{
    const struct timer *timer = write->timer, *old = write->old;

    if (old && !timer_is_final(timer->state) && !write->was_final &&
        !bytes_equal(old->texts.watch, timer->texts.watch))
        return NAMES_OLD_WATCH;
    return record_writes_all_names(write) ? NAMES_ALL : NAMES_NONE;
}

static unsigned record_step_after(const struct record_name_walk *walk)
{
    if (walk->step_ != NAMES_OLD_WATCH)
        return NAMES_NONE;
    return record_writes_all_names(walk->write) ? NAMES_ALL : NAMES_NEW_WATCH;
}

/* Begins a step; there may be none left. */
static void record_begin_step(struct record_name_walk *walk, unsigned step)
{
    const struct storage_write *write = walk->write;

    walk->step_ = step;
    walk->names_ = (struct name_walk){.timer = step == NAMES_OLD_WATCH ? write->old : write->timer};
}

bool record_name_next(struct record_name_walk *walk, enum record_name_change *ret_change,
                      struct record_key *ret_key, struct record_name *ret_name)
{
    const struct timer *timer = walk->write->timer;

    if (walk->step_ == NAMES_BEGIN)
        record_begin_step(walk, record_first_step(walk->write));
    while (walk->step_ != NAMES_NONE) {
        struct name name;
        if (!name_next(&walk->names_, &name)) {
            record_begin_step(walk, record_step_after(walk));
            continue;
        }
        if (walk->step_ != NAMES_ALL && name.kind != NAME_WATCH)
            continue;
        *ret_change = walk->step_ == NAMES_OLD_WATCH ||
                              (name.kind == NAME_WATCH && timer_is_final(timer->state)) ||
                              walk->write->is_forgotten
                          ? RECORD_NAME_DELETE
                          : RECORD_NAME_PUT;
        *ret_key = record_name_key(name.hash, timer->id.serial);
        *ret_name = (struct record_name){timer->id, record_ended(timer)};
        return true;
    }
    return false;
}

int64_t record_live_change(const struct storage_write *write)
{
    bool was_live = write->was_at.ms != 0 && !write->was_final;

    return (int64_t)!timer_is_final(write->timer->state) - (int64_t)was_live;
}

int64_t record_pending_change(const struct storage_batch *batch)
{
    int64_t change = 0;

    for (size_t i = 0; i < batch->write_count; i++)
        change += record_live_change(&batch->writes[i]);
    return change;
}
