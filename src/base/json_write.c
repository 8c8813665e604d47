/* json_write.c - writes JSON into a buffer. */
#include "base/json_write.h"

#include "base/utf8.h"

static const char write_letters[] = "\"\\bfnrt", write_values[] = "\"\\\b\f\n\r\t";

/* Returns the first byte that cannot be copied as it is. */
static const char *json_write_skip_copied(const char *at, const char *end)
{
    while (at < end && (uint8_t)*at >= 0x20 && *at != '"' && *at != '\\') {
        size_t size = (uint8_t)*at < 0x80 ? 1 : utf8_size(at, end);

        if (size == 0)
            break;
        at += size;
    }
    return at;
}

void json_append_string(struct buffer *out, struct bytes text)
{
    const char *at = text.size ? text.data : "", *end = at + text.size;

    buffer_append(out, "\"", 1);
    for (;;) {
        const char *run = at;

        at = json_write_skip_copied(run, end);
        buffer_append(out, run, (size_t)(at - run));
        if (at == end)
            break;
        const char *value = memchr(write_values, *at, sizeof(write_values) - 1);
        if (value)
            buffer_append(out, (char[]){'\\', write_letters[value - write_values]}, 2);
        else if ((uint8_t)*at < 0x20)
            buffer_printf(out, "\\u%04x", (unsigned)*at);
        else
            buffer_append_text(out, "\xef\xbf\xbd"); /* U+FFFD */
        at++;
    }
    buffer_append(out, "\"", 1);
}

void json_append_ascii(struct buffer *out, struct bytes json)
{
    const char *at = json.data, *const end = json.data + json.size;

    while (at < end) {
        const char *run = at;

        while (at < end && (uint8_t)*at < 0x80)
            at++;
        buffer_append(out, run, (size_t)(at - run));
        const size_t size = utf8_size(at, end);
        if (size == 0)
            return;
        const uint32_t code = utf8_code(at, size);
        if (code < 0x10000)
            buffer_printf(out, "\\u%04x", (unsigned)code);
        else
            buffer_printf(out, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (code >> 10)),
                          (unsigned)(0xdc00 + (code & 0x3ff)));
        at += size;
    }
}

/* True if a comma is needed before the next value. */
static bool json_write_needs_comma(const struct buffer *out)
{
    const char last = out->size ? out->data[out->size - 1] : '\n';

    return last != '{' && last != '[' && last != ':' && last != '\n' && last != ' ';
}

void json_put_name(struct buffer *out, const char *name)
{
    const size_t size = name ? strlen(name) : 0;
    char *at = buffer_reserve(out, size + sizeof(",\"\":"));

    if (!at)
        return;
    if (json_write_needs_comma(out))
        *at++ = ',';
    if (name) {
        *at++ = '"';
        memcpy(at, name, size);
        at += size;
        *at++ = '"';
        *at++ = ':';
    }
    out->size = (size_t)(at - out->data);
}

void json_open(struct buffer *out, const char *name, char bracket)
{
    json_put_name(out, name);
    buffer_append(out, &bracket, 1);
}

void json_close(struct buffer *out, char bracket)
{
    buffer_append(out, &bracket, 1);
}

void json_put_string(struct buffer *out, const char *name, struct bytes text)
{
    json_put_name(out, name);
    json_append_string(out, text);
}

void json_put_text(struct buffer *out, const char *name, const char *text)
{
    json_put_string(out, name, bytes_of(text));
}

void json_put_number(struct buffer *out, const char *name, uint64_t number)
{
    json_put_name(out, name);
    buffer_append_u64(out, number);
}

void json_put_flag(struct buffer *out, const char *name, bool is_so)
{
    json_put_raw(out, name, is_so ? BYTES("true") : BYTES("false"));
}

void json_put_raw(struct buffer *out, const char *name, struct bytes json)
{
    while (json.size && (uint8_t)json.data[json.size - 1] <= ' ')
        json.size--; /* white space at the end of the buffer would hide that a comma is needed */
    json_put_name(out, name);
    buffer_append_bytes(out, json);
}

void json_put_pair(struct buffer *out, struct bytes name, struct bytes text)
{
    json_put_string(out, NULL, name);
    buffer_append(out, ":", 1);
    json_append_string(out, text);
}
