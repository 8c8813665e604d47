/* bytes.c - slices of bytes, and buffers that grow. */
#include "base/bytes.h"

#include "base/random.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t bytes_hash(uint64_t seed, struct bytes bytes)
{
    uint64_t hash = random_mix(seed ^ random_mix(bytes.size + UINT64_C(0x9e3779b97f4a7c15)));

    for (size_t i = 0; i < bytes.size; i += 8) {
        const size_t left = bytes.size - i;
        /* a constant width, which the compiler turns into one load */
        const uint64_t word = left < 8 ? get_le(bytes.data + i, left) : get_le(bytes.data + i, 8);

        hash = random_mix(hash ^ word) + UINT64_C(0x9e3779b97f4a7c15);
    }
    return hash;
}

bool bytes_has_control(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if (((uint8_t)text.data[i] < ' ' && text.data[i] != '\t') || text.data[i] == 0x7f)
            return true;
    return false;
}

struct bytes bytes_trim(struct bytes text)
{
    while (text.size && bytes_is_blank(text.data[0]))
        text = (struct bytes){text.data + 1, text.size - 1};
    while (text.size && bytes_is_blank(text.data[text.size - 1]))
        text.size--;
    return text;
}

bool bytes_next_word(struct bytes *text, struct bytes *ret_word)
{
    size_t start = 0;

    while (start < text->size && bytes_is_blank(text->data[start]))
        start++;
    size_t end = start;
    while (end < text->size && !bytes_is_blank(text->data[end]))
        end++;
    if (end == start)
        return false;
    *ret_word = (struct bytes){text->data + start, end - start};
    *text = (struct bytes){text->data + end, text->size - end};
    return true;
}

struct bytes bytes_cut(struct bytes *text, char mark)
{
    const char *at = text->size ? memchr(text->data, mark, text->size) : NULL;
    struct bytes piece = *text;

    if (at) {
        piece.size = (size_t)(at - text->data);
        *text = (struct bytes){at + 1, text->size - piece.size - 1};
    } else {
        text->data = text->size ? text->data + text->size : text->data;
        text->size = 0;
    }
    return piece;
}

/* Removes a quoted name from the beginning of a text. Returns false if the closing quote is
 * missing. */
static bool bytes_cut_quoted(struct bytes *text, struct bytes *ret_name)
{
    char *to = (char *)(uintptr_t)text->data;
    size_t at = 1;

    *ret_name = (struct bytes){to, 0};
    for (; at < text->size; at++) {
        if (text->data[at] == '"' && (++at == text->size || text->data[at] != '"'))
            break;
        to[ret_name->size++] = text->data[at];
    }
    if (at >= text->size)
        return false;
    *text = (struct bytes){text->data + at, text->size - at};
    return true;
}

bool bytes_cut_name(struct bytes *text, char mark, struct bytes *ret_name)
{
    if (!text->size)
        return false;
    if (text->data[0] != '"') {
        const bool has_mark = memchr(text->data, mark, text->size);

        *ret_name = bytes_cut(text, mark);
        return has_mark && ret_name->size > 0;
    }
    if (!bytes_cut_quoted(text, ret_name) || text->data[0] != mark)
        return false;
    *text = (struct bytes){text->data + 1, text->size - 1};
    return ret_name->size > 0;
}

void buffer_deinit(struct buffer *buffer)
{
    free(buffer->data);
    buffer_init(buffer);
}

char *buffer_reserve(struct buffer *buffer, size_t size)
{
    if (!buffer->data || size > buffer->capacity - buffer->size) {
        size_t capacity = buffer->capacity ? buffer->capacity : 128;

        if (size > SIZE_MAX / 4 - buffer->size) {
            buffer->failed = true;
            return NULL;
        }
        while (capacity - buffer->size < size)
            capacity *= 2;
        char *data = realloc(buffer->data, capacity);
        if (!data) {
            buffer->failed = true;
            return NULL;
        }
        buffer->data = data;
        buffer->capacity = capacity;
    }
    return buffer->data + buffer->size;
}

void buffer_append(struct buffer *buffer, const void *data, size_t size)
{
    char *to = buffer_reserve(buffer, size);

    if (to && size) {
        memcpy(to, data, size);
        buffer->size += size;
    }
}

void buffer_append_bytes(struct buffer *buffer, struct bytes bytes)
{
    buffer_append(buffer, bytes.data, bytes.size);
}

void buffer_append_le(struct buffer *buffer, uint64_t value, size_t width)
{
    char bytes[8];

    put_le(bytes, value, width);
    buffer_append(buffer, bytes, width);
}

void buffer_append_text(struct buffer *buffer, const char *text)
{
    buffer_append(buffer, text, strlen(text));
}

void buffer_append_u64(struct buffer *buffer, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    buffer_append(buffer, digits + at, sizeof(digits) - at);
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    va_list again;
    va_copy(again, arguments);
    int size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *to = size < 0 ? NULL : buffer_reserve(buffer, (size_t)size + 1);
    if (to) {
        vsnprintf(to, (size_t)size + 1, format, again);
        buffer->size += (size_t)size;
    }
    va_end(again);
}
