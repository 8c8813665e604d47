/* json.c - a strict pull reader of JSON: checks and cuts, copies nothing. */
#include "base/json.h"

#include "base/utf8.h"

#include <assert.h>

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

static bool json_fail(struct json_reader *reader, const char *at, const char *error)
{
    if (!reader->error_) {
        reader->error_ = error;
        reader->error_at_ = at;
    }
    reader->at_ = reader->end_; /* so that all later reads find the end of the text */
    return false;
}

static inline const char *json_skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
        at++;
    return at;
}

static inline bool json_is_digit(const char *at, const char *end)
{
    return at < end && *at >= '0' && *at <= '9';
}

/* Returns the first byte from `at` on that must be examined within a string: a quote, a backslash,
 * a control character, or the first byte of a longer character. Eight bytes are tested at once.
 * Subtracting 0x20 from each byte sets the top bit of the smaller ones. A borrow can only affect
 * bytes after the first such byte. */
static inline const char *json_skip_plain(const char *at, const char *end)
{
    while (end - at >= 8) {
        uint64_t bytes = get_le(at, 8);
        uint64_t quote = bytes ^ EACH_BYTE('"'), backslash = bytes ^ EACH_BYTE('\\');
        uint64_t special = (bytes | (bytes - EACH_BYTE(0x20)) | ((quote - EACH_BYTE(1)) & ~quote) |
                            ((backslash - EACH_BYTE(1)) & ~backslash)) &
                           EACH_BYTE(0x80);

        if (special)
            return at + __builtin_ctzll(special) / 8;
        at += 8;
    }
    while (at < end && (uint8_t)*at >= 0x20 && (uint8_t)*at < 0x80 && *at != '"' && *at != '\\')
        at++;
    return at;
}

/* ---- scanning one value ---- */

/* Scans a string that begins with its quote. Returns the position after the closing quote; NULL
 * after fail(). */
static inline const char *json_scan_string(struct json_reader *reader, const char *at,
                                           struct json_string *ret_string)
{
    const char *end = reader->end_, *begin = ++at;
    bool escaped = false;

    for (;;) {
        at = json_skip_plain(at, end);
        if (at == end) {
            json_fail(reader, at, "the text ends inside a string");
            return NULL;
        }
        if (*at == '"') {
            ret_string->raw = (struct bytes){begin, (size_t)(at - begin)};
            ret_string->escaped = escaped;
            return at + 1;
        }
        if (*at == '\\') {
            uint32_t unused;
            const char *error;
            const char *next = json_escape_read(at, end, &unused, &error);

            if (!next) {
                json_fail(reader, at, error);
                return NULL;
            }
            escaped = true;
            at = next;
        } else if ((uint8_t)*at < 0x20) {
            json_fail(reader, at, "a control character must be escaped");
            return NULL;
        } else {
            size_t size = utf8_size(at, end);

            if (size == 0) {
                json_fail(reader, at, "this is not UTF-8");
                return NULL;
            }
            at += size;
        }
    }
}

/* Scans a number: -? (0 | [1-9][0-9]*) ('.' [0-9]+)? ([eE] [+-]? [0-9]+)? */
static inline const char *json_scan_number(struct json_reader *reader, const char *at)
{
    const char *end = reader->end_;

    if (*at == '-')
        at++;
    if (!json_is_digit(at, end))
        goto no_digit;
    if (*at == '0')
        at++;
    else
        while (json_is_digit(at, end))
            at++;
    if (json_is_digit(at, end)) {
        json_fail(reader, at, "a number has no leading zeros");
        return NULL;
    }
    if (at < end && *at == '.') {
        if (!json_is_digit(++at, end))
            goto no_digit;
        while (json_is_digit(at, end))
            at++;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        if (!json_is_digit(at, end))
            goto no_digit;
        while (json_is_digit(at, end))
            at++;
    }
    return at;

no_digit:
    json_fail(reader, at, "a digit is expected");
    return NULL;
}

static const char *json_scan_word(struct json_reader *reader, const char *at, struct bytes word)
{
    if (!bytes_has_prefix((struct bytes){at, (size_t)(reader->end_ - at)}, word)) {
        json_fail(reader, at, "a value is expected");
        return NULL;
    }
    return at + word.size;
}

/* Scans any value that is not an object or array. */
static inline const char *json_scan_scalar(struct json_reader *reader, const char *at)
{
    struct json_string unused;

    switch (*at) {
    case '"':
        return json_scan_string(reader, at, &unused);
    case 't':
        return json_scan_word(reader, at, BYTES("true"));
    case 'f':
        return json_scan_word(reader, at, BYTES("false"));
    case 'n':
        return json_scan_word(reader, at, BYTES("null"));
    default:
        if (*at == '-' || json_is_digit(at, reader->end_))
            return json_scan_number(reader, at);
        json_fail(reader, at, "a value is expected");
        return NULL;
    }
}

/* Scans a member's name and its colon. Returns the position where its value may begin. */
static inline const char *json_scan_name(struct json_reader *reader, const char *at,
                                         struct json_string *ret_name)
{
    if (at == reader->end_ || *at != '"') {
        json_fail(reader, at, "a name in quotes is expected");
        return NULL;
    }
    at = json_scan_string(reader, at, ret_name);
    if (!at)
        return NULL;
    at = json_skip_space(at, reader->end_);
    if (at == reader->end_ || *at != ':') {
        json_fail(reader, at, "a colon is expected");
        return NULL;
    }
    return at + 1;
}

/* Scans any value. Objects and arrays are scanned without recursion: bit n of `objects` is set if
 * the n-th open level, counted from the innermost, is an object. JSON_DEPTH_MAX bits suffice. */
static const char *json_scan_value(struct json_reader *reader, const char *at)
{
    const char *end = reader->end_;
    uint64_t objects = 0;
    unsigned depth = 0;

    for (;;) {
        at = json_skip_space(at, end);
        if (at == end) {
            json_fail(reader, at, "a value is expected");
            return NULL;
        }
        struct json_string name;
        if (*at == '{' || *at == '[') {
            bool is_object = *at == '{';

            if (reader->depth_ + depth >= JSON_DEPTH_MAX) {
                json_fail(reader, at, "this is nested too deeply");
                return NULL;
            }
            at = json_skip_space(at + 1, end);
            if (at == end || *at != (is_object ? '}' : ']')) {
                objects = objects << 1 | is_object;
                depth++;
                if (is_object && !(at = json_scan_name(reader, at, &name)))
                    return NULL;
                continue;
            }
            at++; /* an empty object or array */
        } else if (!(at = json_scan_scalar(reader, at))) {
            return NULL;
        }
        /* A value has ended; the levels around it may end too. */
        for (;;) {
            bool is_object = objects & 1;

            if (depth == 0)
                return at;
            at = json_skip_space(at, end);
            if (at < end && *at == ',') {
                at++;
                if (is_object && !(at = json_scan_name(reader, json_skip_space(at, end), &name)))
                    return NULL;
                break;
            }
            if (at == end || *at != (is_object ? '}' : ']')) {
                json_fail(reader, at,
                          is_object ? "a comma or } is expected" : "a comma or ] is expected");
                return NULL;
            }
            at++;
            depth--;
            objects >>= 1;
        }
    }
}

/* ---- the reader ---- */

void json_reader_init(struct json_reader *reader, struct bytes text)
{
    const char *begin = text.data ? text.data : "";

    *reader = (struct json_reader){.begin_ = begin, .at_ = begin, .end_ = begin + text.size};
}

enum json_type json_peek(struct json_reader *reader)
{
    const char *at = reader->at_ = json_skip_space(reader->at_, reader->end_);

    if (at < reader->end_) {
        switch (*at) {
        case '{':
            return JSON_OBJECT;
        case '[':
            return JSON_ARRAY;
        case '"':
            return JSON_STRING;
        case 't':
            return JSON_TRUE;
        case 'f':
            return JSON_FALSE;
        case 'n':
            return JSON_NULL;
        default:
            if (*at == '-' || json_is_digit(at, reader->end_))
                return JSON_NUMBER;
        }
    }
    json_fail(reader, at, "a value is expected");
    return JSON_NONE;
}

/* True if there is a value to read, whose type the caller knows from json_peek(). */
static inline bool json_is_at_value(const struct json_reader *reader, bool is_as_told)
{
    assert(reader->error_ || is_as_told);
    (void)is_as_told;
    return !reader->error_;
}

static inline bool json_begins_with(const struct json_reader *reader, char first)
{
    return reader->at_ < reader->end_ && *reader->at_ == first;
}

static bool json_enter(struct json_reader *reader, char first)
{
    if (!json_is_at_value(reader, json_begins_with(reader, first)))
        return false;
    if (reader->depth_ >= JSON_DEPTH_MAX)
        return json_fail(reader, reader->at_, "this is nested too deeply");
    reader->depth_++;
    reader->fresh_ = true;
    reader->at_++;
    return true;
}

bool json_enter_object(struct json_reader *reader)
{
    return json_enter(reader, '{');
}

bool json_enter_array(struct json_reader *reader)
{
    return json_enter(reader, '[');
}

/* Skips the comma before the next item. Returns false at the end of the object or array, which is
 * left then, and if the text is invalid. */
static inline bool json_next_item(struct json_reader *reader, char close, const char *error)
{
    const char *at = json_skip_space(reader->at_, reader->end_);
    bool fresh = reader->fresh_;

    reader->fresh_ = false;
    if (reader->error_)
        return false;
    assert(reader->depth_ > 0);
    if (at < reader->end_ && *at == close) {
        reader->at_ = at + 1;
        reader->depth_--;
        return false;
    }
    if (!fresh) {
        if (at == reader->end_ || *at != ',')
            return json_fail(reader, at, error);
        at = json_skip_space(at + 1, reader->end_);
    }
    reader->at_ = at;
    return true;
}

bool json_next_member(struct json_reader *reader, struct json_string *ret_name)
{
    if (!json_next_item(reader, '}', "a comma or } is expected"))
        return false;
    const char *at = json_scan_name(reader, reader->at_, ret_name);
    if (!at)
        return false;
    reader->at_ = at;
    return true;
}

bool json_next_element(struct json_reader *reader)
{
    return json_next_item(reader, ']', "a comma or ] is expected");
}

bool json_read_string(struct json_reader *reader, struct json_string *ret_string)
{
    if (!json_is_at_value(reader, json_begins_with(reader, '"')))
        return false;
    const char *at = json_scan_string(reader, reader->at_, ret_string);
    if (!at)
        return false;
    reader->at_ = at;
    return true;
}

bool json_read_number(struct json_reader *reader, struct bytes *ret_number)
{
    const char *begin = reader->at_;

    if (!json_is_at_value(reader,
                          json_begins_with(reader, '-') || json_is_digit(begin, reader->end_)))
        return false;
    const char *at = json_scan_number(reader, begin);
    if (!at)
        return false;
    *ret_number = (struct bytes){begin, (size_t)(at - begin)};
    reader->at_ = at;
    return true;
}

bool json_skip(struct json_reader *reader, struct bytes *ret_raw)
{
    const char *begin = json_skip_space(reader->at_, reader->end_);
    const char *at = json_scan_value(reader, begin);

    if (!at)
        return false;
    if (ret_raw)
        *ret_raw = (struct bytes){begin, (size_t)(at - begin)};
    reader->at_ = at;
    return true;
}

bool json_finish(struct json_reader *reader)
{
    if (reader->error_)
        return false;
    assert(reader->depth_ == 0);
    reader->at_ = json_skip_space(reader->at_, reader->end_);
    if (reader->at_ < reader->end_)
        return json_fail(reader, reader->at_, "something follows the value");
    return true;
}
