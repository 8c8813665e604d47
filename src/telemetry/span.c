/* span.c - spans as bytes, and as JSON of OTLP. */
#include "telemetry/span.h"

#include "base/hex.h"
#include "base/json_write.h"

#include <inttypes.h>

static const struct {
    size_t size_max;
    const char *attribute;
} span_texts[] = {
#define X(name, max, attribute) {max, attribute},
    SPAN_TEXT_LIST(X)
#undef X
};

static const char *const span_numbers[] = {
#define X(name, attribute) attribute,
    SPAN_NUMBER_LIST(X)
#undef X
};

#define X(name, max, attribute) +max
_Static_assert(sizeof(struct span) + (0 SPAN_TEXT_LIST(X)) <= SPAN_SIZE_MAX, "raise it");
#undef X

/* Cuts a text at its maximum, before a character that would be cut. */
static struct bytes span_cut(struct bytes text, size_t size_max)
{
    if (text.size <= size_max)
        return text;
    size_t size = size_max;
    while (size > 0 && size > size_max - 4 && ((unsigned char)text.data[size] & 0xc0) == 0x80)
        size--;
    return (struct bytes){text.data, size};
}

void span_encode(const struct span *span, struct buffer *to)
{
    struct span head = *span;

    for (size_t i = 0; i < SPAN_TEXTS; i++)
        head.texts[i] = (struct bytes){NULL, span_cut(span->texts[i], span_texts[i].size_max).size};
    buffer_append(to, &head, sizeof(head));
    for (size_t i = 0; i < SPAN_TEXTS; i++)
        if (head.texts[i].size)
            buffer_append(to, span->texts[i].data, head.texts[i].size);
}

bool span_decode(struct bytes *bytes, struct span *ret_span)
{
    if (bytes->size < sizeof(*ret_span))
        return false;
    memcpy(ret_span, bytes->data, sizeof(*ret_span));
    const char *at = bytes->data + sizeof(*ret_span);
    const char *end = bytes->data + bytes->size;
    for (size_t i = 0; i < SPAN_TEXTS; i++) {
        if (ret_span->texts[i].size > (size_t)(end - at))
            return false;
        ret_span->texts[i].data = at;
        at += ret_span->texts[i].size;
    }
    *bytes = (struct bytes){at, (size_t)(end - at)};
    return true;
}

/* ---- JSON ---- */

static void span_put_id(struct buffer *out, const char *name, uint64_t id)
{
    char text[16];

    hex_write(text, sizeof(text), id);
    json_put_string(out, name, (struct bytes){text, sizeof(text)});
}

static void span_put_trace(struct buffer *out, const struct trace_parent *context)
{
    char text[32];

    hex_write(text, 16, context->trace_high);
    hex_write(text + 16, 16, context->trace_low);
    json_put_string(out, "traceId", (struct bytes){text, sizeof(text)});
}

/* OTLP's JSON has numbers of 64 bits as texts. */
static void span_put_long(struct buffer *out, const char *name, int64_t number)
{
    json_put_name(out, name);
    buffer_printf(out, "\"%" PRId64 "\"", number);
}

static void span_put_time(struct buffer *out, const char *name, uint64_t us)
{
    json_put_name(out, name);
    buffer_printf(out, "\"%" PRIu64 "000\"", us);
}

void span_append_attribute(struct buffer *out, struct bytes name, struct bytes value)
{
    json_open(out, NULL, '{');
    json_put_string(out, "key", name);
    json_open(out, "value", '{');
    json_put_string(out, "stringValue", value);
    json_close(out, '}');
    json_close(out, '}');
}

static void span_append_number(struct buffer *out, const char *name, int64_t value)
{
    json_open(out, NULL, '{');
    json_put_text(out, "key", name);
    json_open(out, "value", '{');
    span_put_long(out, "intValue", value);
    json_close(out, '}');
    json_close(out, '}');
}

static void span_append_attributes(const struct span *span, struct buffer *out)
{
    json_open(out, "attributes", '[');
    for (size_t i = 0; i < SPAN_TEXTS; i++)
        if (span_texts[i].attribute && span->texts[i].size)
            span_append_attribute(out, bytes_of(span_texts[i].attribute), span->texts[i]);
    for (size_t i = 0; i < SPAN_NUMBERS; i++)
        if (span->numbers_set & UINT32_C(1) << i)
            span_append_number(out, span_numbers[i], span->numbers[i]);
    json_close(out, ']');
}

void span_append_json(const struct span *span, struct buffer *out)
{
    json_open(out, NULL, '{');
    span_put_trace(out, &span->context);
    span_put_id(out, "spanId", span->context.span);
    if (span->parent)
        span_put_id(out, "parentSpanId", span->parent);
    json_put_number(out, "flags", span->context.is_sampled);
    json_put_string(out, "name", span->texts[SPAN_TEXT_name]);
    json_put_number(out, "kind", span->kind);
    span_put_time(out, "startTimeUnixNano", span->start_us);
    span_put_time(out, "endTimeUnixNano",
                  span->end_us > span->start_us ? span->end_us : span->start_us);
    span_append_attributes(span, out);
    if (span->link.span) {
        json_open(out, "links", '[');
        json_open(out, NULL, '{');
        span_put_trace(out, &span->link);
        span_put_id(out, "spanId", span->link.span);
        json_close(out, '}');
        json_close(out, ']');
    }
    if (span->has_failed) {
        json_open(out, "status", '{');
        json_put_number(out, "code", 2);
        json_put_some(out, "message", span->texts[SPAN_TEXT_error]);
        json_close(out, '}');
    }
    json_close(out, '}');
}

/* ---- URLs ---- */

static const char *span_find(struct bytes text, char c)
{
    return text.size ? memchr(text.data, c, text.size) : NULL;
}

/* Returns the text up to `c`, and leaves what follows `c` in `rest`; its data is NULL without c. */
static struct bytes span_split(struct bytes text, char c, struct bytes *ret_rest)
{
    const char *at = span_find(text, c);

    if (!at) {
        *ret_rest = (struct bytes){0};
        return text;
    }
    const size_t size = (size_t)(at - text.data);
    *ret_rest = (struct bytes){at + 1, text.size - size - 1};
    return (struct bytes){text.data, size};
}

void span_append_url(struct buffer *out, struct bytes url)
{
    struct bytes fragment, query, rest;
    struct bytes head = span_split(span_split(url, '#', &fragment), '?', &query);
    const char *slashes = memmem(head.data, head.size, "://", 3);
    size_t at = slashes ? (size_t)(slashes + 3 - head.data) : 0;

    buffer_append(out, head.data, at);
    head = (struct bytes){head.data + at, head.size - at};
    const struct bytes authority = span_split(head, '/', &rest);
    const char *user_end = memrchr(authority.data ? authority.data : "", '@', authority.size);
    if (user_end) {
        buffer_append_text(out, "REDACTED@");
        at = (size_t)(user_end + 1 - head.data);
        head = (struct bytes){head.data + at, head.size - at};
    }
    buffer_append_bytes(out, head);
    for (char mark = '?'; query.data; mark = '&') {
        struct bytes value;
        const struct bytes name = span_split(span_split(query, '&', &rest), '=', &value);

        buffer_append(out, &mark, 1);
        buffer_append_bytes(out, value.data ? name : (struct bytes){0});
        buffer_append_text(out, value.data ? "=REDACTED" : name.size ? "REDACTED" : "");
        query = rest;
    }
}
