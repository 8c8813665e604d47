/*
 * bytes.h - borrowed runs of bytes, a growing buffer, and numbers in little-endian order.
 *
 * Ownership  `struct bytes` borrows and never frees. A buffer owns its memory: buffer_deinit.
 * Errors     A buffer that could not grow remembers it: append as much as you like, then ask
 *            buffer_failed() once.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_BASE_BYTES_H
#define TICKWHEEL_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const char *data; /* not terminated; NULL only if size is 0 */
    size_t size;
};

struct named_bytes {
    const char *name;
    struct bytes value;
};

#define BYTES(literal) ((struct bytes){"" literal, sizeof(literal) - 1})

/* Makes a string literal of a macro's number. */
#define IN_WORDS(number)   IN_WORDS_(number)
#define IN_WORDS_(literal) #literal

static inline struct bytes bytes_of(const char *text)
{
    return (struct bytes){text, strlen(text)};
}

/* Compares texts of equal size in a time that does not show how many bytes match. */
static inline bool bytes_equal_secret(struct bytes a, struct bytes b)
{
    volatile unsigned char differs = a.size != b.size;

    for (size_t i = 0; i < a.size && i < b.size; i++)
        differs |= (unsigned char)(a.data[i] ^ b.data[i]);
    return !differs;
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Compares byte by byte; a prefix precedes the longer text. Negative if `a` precedes `b`; 0 if they
 * are equal. */
static inline int bytes_compare(struct bytes a, struct bytes b)
{
    const size_t shared = a.size < b.size ? a.size : b.size;
    const int order = shared > 0 ? memcmp(a.data, b.data, shared) : 0;

    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static inline bool bytes_has_prefix(struct bytes bytes, struct bytes prefix)
{
    return bytes.size >= prefix.size &&
           (prefix.size == 0 || memcmp(bytes.data, prefix.data, prefix.size) == 0);
}

/* True for a blank or a tab. */
static inline bool bytes_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* True if the text has a control character other than a tab. Some of these would end a header's
 * line. */
bool bytes_has_control(struct bytes text);

/* Returns the text without blanks at its ends. */
struct bytes bytes_trim(struct bytes text);

/* Removes leading blanks and the first word from the text. Returns false if there is no word. */
bool bytes_next_word(struct bytes *text, struct bytes *ret_word);

/* Removes the text up to the next `mark` and that mark. Returns the removed text without the mark;
 * the whole text if there is no mark. */
struct bytes bytes_cut(struct bytes *text, char mark);

/* Removes a name and the `mark` after it from a text such as team:checkout. A name in quotes may
 * contain the mark, and "" for a quote: "urn:team":checkout. Quotes are removed in place, so the
 * text must be writable. Returns false if there is no mark, the name is empty, or a closing quote
 * is missing. */
bool bytes_cut_name(struct bytes *text, char mark, struct bytes *ret_name);

/* Returns a hash that may be stored, because every version computes the same. Not for secrets. */
uint64_t bytes_hash(uint64_t seed, struct bytes bytes);

struct buffer {
    char *data;
    size_t size, capacity;
    bool failed;
};

static inline void buffer_init(struct buffer *buffer)
{
    *buffer = (struct buffer){0};
}

void buffer_deinit(struct buffer *buffer);

/* Removes the contents and keeps the memory. */
static inline void buffer_clear(struct buffer *buffer)
{
    buffer->size = 0;
    buffer->failed = false;
}

/* Makes room for `size` more bytes and returns its address. The caller writes there and adds to
 * buffer->size. Returns NULL if out of memory. */
char *buffer_reserve(struct buffer *buffer, size_t size);

void buffer_append(struct buffer *buffer, const void *data, size_t size);
void buffer_append_bytes(struct buffer *buffer, struct bytes bytes);
void buffer_append_text(struct buffer *buffer, const char *text);
/* Appends the number as `width` bytes, at most 8, least significant byte first. */
void buffer_append_le(struct buffer *buffer, uint64_t value, size_t width);
void buffer_append_u64(struct buffer *buffer, uint64_t value); /* appends the number in decimal */
void buffer_printf(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline bool buffer_failed(const struct buffer *buffer)
{
    return buffer->failed;
}

static inline struct bytes buffer_bytes(const struct buffer *buffer)
{
    return (struct bytes){buffer->data, buffer->size};
}

/* Writes the number as `width` bytes, least significant first. No alignment is needed. */
static inline void put_le(void *to, uint64_t value, size_t width)
{
    for (size_t i = 0; i < width; i++)
        ((uint8_t *)to)[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t get_le(const void *from, size_t width)
{
    uint64_t value = 0;

    for (size_t i = 0; i < width; i++)
        value |= (uint64_t)((const uint8_t *)from)[i] << (8 * i);
    return value;
}

/* Writes the number with its most significant byte first, so that comparing bytes compares
 * numbers. */
static inline void put_be(void *to, uint64_t value, size_t width)
{
    for (size_t i = 0; i < width; i++)
        ((uint8_t *)to)[i] = (uint8_t)(value >> (8 * (width - 1 - i)));
}

static inline uint64_t get_be(const void *from, size_t width)
{
    uint64_t value = 0;

    for (size_t i = 0; i < width; i++)
        value = value << 8 | ((const uint8_t *)from)[i];
    return value;
}

#endif
