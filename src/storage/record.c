#include "storage/record.h"

#include "base/checksum.h"

#include <assert.h>

/* The order of the states and of the texts is the format: new ones go to the end. */
_Static_assert(TIMER_SCHEDULED == 0 && TIMER_DELIVERING == 1 && TIMER_RETRYING == 2 &&
                   TIMER_FIRED == 3 && TIMER_CANCELLED == 4 && TIMER_DEAD == 5,
               "states are stored as numbers");

enum text_tag {
    TEXT_NONE,
#define X(name) TEXT_##name,
    TIMER_TEXT_LIST(X)
#undef X
};
_Static_assert(TEXT_target == 1 && TEXT_payload == 2 && TEXT_content_type == 3 &&
                   TEXT_headers == 4 && TEXT_labels == 5 && TEXT_last_error == 6,
               "texts are stored by number");

enum {
    STATE_COUNT = TIMER_DEAD + 1,
    SUM_SIZE = 4,
    /* version, state, flags, created, timer version, attempts */
    ROW_HEAD_SIZE = 1 + 1 + 1 + 8 + 4 + 4,
    RETRY_SIZE = 4 + 8 + 8 + 8,
    TEXT_HEAD_SIZE = 1 + 4,
};

/* What of a row is there at all; left out when it has its usual value. */
enum row_flag {
    ROW_HAS_FIRST = 1, /* id.first; else it is the row's own position */
    ROW_HAS_DUE = 2,   /* due; else it is the row's own position */
    ROW_HAS_RETRY = 4, /* the retry policy; else usual_retry */
    ROW_FLAGS = 7,
};

/* A part of the format: it stays when RETRY_POLICY_DEFAULT changes. */
static const struct retry_policy usual_retry = {10, 1000, 3600 * 1000, 15 * 1000};

static bool retry_equal(const struct retry_policy *a, const struct retry_policy *b)
{
    return a->attempts_max == b->attempts_max && a->base_ms == b->base_ms &&
           a->cap_ms == b->cap_ms && a->timeout_ms == b->timeout_ms;
}

/* ---- checksums ---- */

static uint32_t sum_of(struct record_key key, const void *body, size_t size)
{
    uint8_t bytes[16];

    put_le(bytes, key.high, 8);
    put_le(bytes + 8, key.low, 8);
    return checksum_crc32c(checksum_crc32c(0, bytes, sizeof(bytes)), body, size);
}

/* What metas and numbers are summed with in place of a key; no row and no pointer has such ones. */
static struct record_key meta_key(uint16_t partition)
{
    return (struct record_key){UINT64_MAX, partition};
}

static struct record_key number_key(struct bytes name)
{
    return (struct record_key){UINT64_MAX - 1, checksum_crc32c(0, name.data, name.size)};
}

/* Version and checksum, which all kinds have at the same places: first byte, last four. */
static enum error_code check(struct record_key key, struct bytes value, unsigned version,
                             size_t size_min, struct error *ret_error)
{
    if (value.size < 1 + SUM_SIZE)
        return error_set(ret_error, ERROR_CORRUPT, "a record of %zu bytes", value.size);
    if ((uint8_t)value.data[0] != version)
        return error_set(ret_error, ERROR_CORRUPT, "a record of the unknown version %u",
                         (uint8_t)value.data[0]);
    if (get_le(value.data + value.size - SUM_SIZE, SUM_SIZE) !=
        sum_of(key, value.data, value.size - SUM_SIZE))
        return error_set(ret_error, ERROR_CORRUPT, "a record whose checksum does not fit");
    if (value.size < size_min)
        return error_set(ret_error, ERROR_CORRUPT, "a record of %zu bytes", value.size);
    return ERROR_NONE;
}

/* ---- writing ---- */

static char *write_le(char *at, uint64_t value, size_t width)
{
    put_le(at, value, width);
    return at + width;
}

static char *write_text(char *at, enum text_tag tag, struct bytes text)
{
    if (!text.size)
        return at;
    assert(text.size <= UINT32_MAX);
    at = write_le(at, tag, 1);
    at = write_le(at, text.size, 4);
    memcpy(at, text.data, text.size);
    return at + text.size;
}

/* Closes the record that began at `begin` within memory that buffer_reserve gave. */
static void seal(struct buffer *to, struct record_key key, char *begin, char *end)
{
    end = write_le(end, sum_of(key, begin, (size_t)(end - begin)), SUM_SIZE);
    to->size += (size_t)(end - begin);
}

/* An upper bound. */
static size_t row_size(const struct timer *timer)
{
    size_t size = ROW_HEAD_SIZE + 3 * 8 + RETRY_SIZE + SUM_SIZE;

#define X(name) size += TEXT_HEAD_SIZE + timer->texts.name.size;
    TIMER_TEXT_LIST(X)
#undef X
    return size;
}

void record_row_encode(struct buffer *to, struct record_key key, const struct timer *timer)
{
    const struct storage_position position = record_row_position(key);
    const struct timer_texts *texts = &timer->texts;
    const bool is_over = timer_is_over(timer->state);
    unsigned flags = 0;
    char *begin = buffer_reserve(to, row_size(timer)), *at = begin;

    if (!begin)
        return;
    if (timer->id.first.ms != position.at.ms)
        flags |= ROW_HAS_FIRST;
    if (timer->due.ms != position.at.ms)
        flags |= ROW_HAS_DUE;
    if (!retry_equal(&timer->retry, &usual_retry))
        flags |= ROW_HAS_RETRY;
    at = write_le(at, RECORD_VERSION, 1);
    at = write_le(at, timer->state, 1);
    at = write_le(at, flags, 1);
    at = write_le(at, timer->created.ms, 8);
    at = write_le(at, timer->version, 4);
    at = write_le(at, timer->attempts, 4);
    if (is_over)
        at = write_le(at, timer->ended.ms, 8);
    if (flags & ROW_HAS_FIRST)
        at = write_le(at, timer->id.first.ms, 8);
    if (flags & ROW_HAS_DUE)
        at = write_le(at, timer->due.ms, 8);
    if (flags & ROW_HAS_RETRY) {
        at = write_le(at, timer->retry.attempts_max, 4);
        at = write_le(at, timer->retry.base_ms, 8);
        at = write_le(at, timer->retry.cap_ms, 8);
        at = write_le(at, timer->retry.timeout_ms, 8);
    }
    at = write_text(at, TEXT_target, texts->target);
    if (!is_over) {
        at = write_text(at, TEXT_payload, texts->payload);
        at = write_text(at, TEXT_content_type, texts->content_type);
        at = write_text(at, TEXT_headers, texts->headers);
    }
    at = write_text(at, TEXT_labels, texts->labels);
    at = write_text(at, TEXT_last_error, texts->last_error);
    seal(to, key, begin, at);
}

/* ---- reading ---- */

/* What of the record is not read yet. Reading past the end yields zeros and is remembered. */
struct reader {
    const char *at, *end;
    bool failed;
};

static uint64_t read_le(struct reader *reader, size_t width)
{
    uint64_t value;

    if ((size_t)(reader->end - reader->at) < width) {
        reader->failed = true;
        reader->at = reader->end;
        return 0;
    }
    value = get_le(reader->at, width);
    reader->at += width;
    return value;
}

static struct bytes *text_of(struct timer_texts *texts, unsigned tag, bool is_over)
{
    switch (tag) {
    case TEXT_target:
        return &texts->target;
    case TEXT_payload:
        return is_over ? NULL : &texts->payload;
    case TEXT_content_type:
        return is_over ? NULL : &texts->content_type;
    case TEXT_headers:
        return is_over ? NULL : &texts->headers;
    case TEXT_labels:
        return &texts->labels;
    case TEXT_last_error:
        return &texts->last_error;
    }
    return NULL;
}

/* Texts with rising tags, none of them empty, up to the end of the record. */
static bool read_texts(struct reader *reader, bool is_over, struct timer_texts *ret_texts)
{
    unsigned last = TEXT_NONE;

    while (reader->at < reader->end) {
        unsigned tag = (unsigned)read_le(reader, 1);
        size_t size = (size_t)read_le(reader, 4);
        struct bytes *text = text_of(ret_texts, tag, is_over);

        if (reader->failed || !text || tag <= last || !size ||
            size > (size_t)(reader->end - reader->at))
            return false;
        *text = (struct bytes){reader->at, size};
        reader->at += size;
        last = tag;
    }
    return true;
}

static bool read_row(struct reader *reader, struct record_key key, struct timer *view)
{
    const struct wall at = record_row_position(key).at;
    unsigned state, flags;

    reader->at += 1; /* the version */
    state = (unsigned)read_le(reader, 1);
    flags = (unsigned)read_le(reader, 1);
    if (state >= STATE_COUNT || flags > ROW_FLAGS)
        return false;
    *view = (struct timer){
        .id = {at, (uint16_t)(key.high >> 48), key.low}, .due = at, .at = at, .retry = usual_retry};
    view->state = (enum timer_state)state;
    view->created.ms = read_le(reader, 8);
    view->version = (uint32_t)read_le(reader, 4);
    view->attempts = (uint32_t)read_le(reader, 4);
    if (timer_is_over(view->state))
        view->ended.ms = read_le(reader, 8);
    if (flags & ROW_HAS_FIRST) {
        view->id.first.ms = read_le(reader, 8);
        if (view->id.first.ms == at.ms || view->id.first.ms > RECORD_AT_MAX)
            return false;
    }
    if (flags & ROW_HAS_DUE) {
        view->due.ms = read_le(reader, 8);
        if (view->due.ms == at.ms)
            return false;
    }
    if (flags & ROW_HAS_RETRY) {
        view->retry.attempts_max = (uint32_t)read_le(reader, 4);
        view->retry.base_ms = read_le(reader, 8);
        view->retry.cap_ms = read_le(reader, 8);
        view->retry.timeout_ms = read_le(reader, 8);
        if (retry_equal(&view->retry, &usual_retry))
            return false;
    }
    return !reader->failed && read_texts(reader, timer_is_over(view->state), &view->texts);
}

enum error_code record_row_decode(struct record_key key, struct bytes value, struct timer *ret_view,
                                  struct error *ret_error)
{
    enum error_code code = check(key, value, RECORD_VERSION, ROW_HEAD_SIZE + SUM_SIZE, ret_error);
    struct reader reader;
    struct timer view;

    if (code)
        return code;
    reader = (struct reader){value.data, value.data + value.size - SUM_SIZE, false};
    if (!read_row(&reader, key, &view))
        return error_set(ret_error, ERROR_CORRUPT, "a record that makes no sense");
    *ret_view = view;
    return ERROR_NONE;
}

/* ---- pointers ---- */

enum { POINTER_SIZE = 1 + 8 + 8 + SUM_SIZE };

void record_pointer_encode(struct buffer *to, struct record_key key, struct record_pointer pointer)
{
    char *begin = buffer_reserve(to, POINTER_SIZE), *at = begin;

    if (!begin)
        return;
    at = write_le(at, RECORD_VERSION, 1);
    at = write_le(at, pointer.at.ms, 8);
    at = write_le(at, pointer.ended.ms, 8);
    seal(to, key, begin, at);
}

enum error_code record_pointer_decode(struct record_key key, struct bytes value,
                                      struct record_pointer *ret_pointer, struct error *ret_error)
{
    enum error_code code = check(key, value, RECORD_VERSION, POINTER_SIZE, ret_error);
    struct record_pointer pointer;

    if (code)
        return code;
    pointer = (struct record_pointer){{get_le(value.data + 1, 8)}, {get_le(value.data + 9, 8)}};
    if (value.size != POINTER_SIZE || !pointer.at.ms || pointer.at.ms > RECORD_AT_MAX)
        return error_set(ret_error, ERROR_CORRUPT, "a pointer that makes no sense");
    *ret_pointer = pointer;
    return ERROR_NONE;
}

/* ---- metas ---- */

enum { META_SIZE = 1 + 4 * 8 + SUM_SIZE };

void record_meta_encode(struct buffer *to, uint16_t partition, const struct storage_meta *meta)
{
    char *begin = buffer_reserve(to, META_SIZE), *at = begin;

    if (!begin)
        return;
    at = write_le(at, RECORD_VERSION, 1);
    at = write_le(at, meta->epoch, 8);
    at = write_le(at, meta->watermark.ms, 8);
    at = write_le(at, meta->trim.ms, 8);
    at = write_le(at, meta->pending, 8);
    seal(to, meta_key(partition), begin, at);
}

enum error_code record_meta_decode(uint16_t partition, struct bytes value,
                                   struct storage_meta *ret_meta, struct error *ret_error)
{
    enum error_code code = check(meta_key(partition), value, RECORD_VERSION, META_SIZE, ret_error);

    if (code)
        return code;
    if (value.size != META_SIZE)
        return error_set(ret_error, ERROR_CORRUPT, "a meta that makes no sense");
    *ret_meta = (struct storage_meta){get_le(value.data + 1, 8),
                                      {get_le(value.data + 9, 8)},
                                      {get_le(value.data + 17, 8)},
                                      get_le(value.data + 25, 8)};
    return ERROR_NONE;
}

/* ---- numbers ---- */

enum { NUMBER_VERSION = 1, NUMBER_SIZE = 1 + 8 + SUM_SIZE };

void record_number_encode(struct buffer *to, struct bytes name, uint64_t number)
{
    char *begin = buffer_reserve(to, NUMBER_SIZE), *at = begin;

    if (!begin)
        return;
    at = write_le(at, NUMBER_VERSION, 1);
    at = write_le(at, number, 8);
    seal(to, number_key(name), begin, at);
}

enum error_code record_number_decode(struct bytes name, struct bytes value, uint64_t *ret_number,
                                     struct error *ret_error)
{
    enum error_code code = check(number_key(name), value, NUMBER_VERSION, NUMBER_SIZE, ret_error);

    if (code)
        return code;
    if (value.size != NUMBER_SIZE)
        return error_set(ret_error, ERROR_CORRUPT, "a number that makes no sense");
    *ret_number = get_le(value.data + 1, 8);
    return ERROR_NONE;
}

/* ---- what a write does ---- */

struct record_change record_change_of(const struct storage_write *write)
{
    const struct timer *timer = write->timer;
    const struct wall first = timer->id.first, was_at = write->was_at;
    struct record_change change = {0};

    if (timer_is_over(timer->state)) {
        change.put = was_at.ms ? was_at : first;
        if (change.put.ms != first.ms)
            change.pointer = RECORD_POINTER_PUT;
    } else {
        change.put = timer->at;
        if (was_at.ms != timer->at.ms)
            change.cut = was_at;
        if (timer->at.ms != first.ms && was_at.ms != timer->at.ms)
            change.pointer = RECORD_POINTER_PUT;
        if (timer->at.ms == first.ms && was_at.ms && was_at.ms != first.ms)
            change.pointer = RECORD_POINTER_DELETE;
    }
    /* Positions are the caller's: a time over 48 bits or none at all is a mistake there. */
    assert(change.put.ms && change.put.ms < RECORD_AT_MAX);
    return change;
}

int64_t record_pending_change(const struct storage_batch *batch)
{
    int64_t change = 0;

    for (size_t i = 0; i < batch->write_count; i++) {
        const struct storage_write *write = &batch->writes[i];
        bool was_live = write->was_at.ms != 0;

        change += (int64_t)!timer_is_over(write->timer->state) - (int64_t)was_live;
    }
    return change;
}
