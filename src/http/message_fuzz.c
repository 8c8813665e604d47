/*
 * message_fuzz - heads and chunked bodies, whole and in pieces, beside other parsers.
 *
 * A head is one exactly when a regular expression of RFC 9112's grammar says so and what frames it
 * is unambiguous, which libc's functions on texts find out again. A chunked body is decoded to the
 * same data, up to the same byte and with the same result, by a decoder that sees all of it at
 * once; ours sees it in pieces and gets some of the data back.
 *
 * The first byte of the input says which: 'c' for a body. The others are seeds of the cuts too.
 */
#include "base/random.h"
#include "http/chunk.h"
#include "http/head.h"

#include <regex.h>
#include <stdlib.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

enum { MESSAGE_HEAD_MAX = 2048 };

/* ---- heads ---- */

#define TOKEN "[!#$%&'*+.^_`|~0-9A-Za-z-]+"

static bool message_matches(const char *text, const char *pattern)
{
    regex_t regex;

    REQUIRE(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) == 0);
    const bool matches = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return matches;
}

/* How many header lines of that name a sound head has; the value of the last one is copied. */
static size_t message_find(const char *head, const char *name, char *ret_value)
{
    size_t count = 0;

    for (const char *line = strstr(head, "\r\n") + 2; *line != '\r';
         line = strstr(line, "\r\n") + 2) {
        const char *colon = strchr(line, ':');

        if ((size_t)(colon - line) != strlen(name) || strncasecmp(line, name, strlen(name)) != 0)
            continue;
        count++;
        const char *value = colon + 1 + strspn(colon + 1, " \t");
        const char *end = strstr(colon, "\r\n");
        while (end > value && strchr(" \t", end[-1]))
            end--;
        memcpy(ret_value, value, (size_t)(end - value));
        ret_value[end - value] = '\0';
    }
    return count;
}

/* What a head that is a text should be parsed as. */
static enum head_result message_judge(const char *text)
{
    char value[MESSAGE_HEAD_MAX + 1] = "";

    if (!message_matches(text, "^" TOKEN " [!-~]+ HTTP/1\\.[01]\r\n(" TOKEN
                               ":[\t -~\x80-\xff]*\r\n)*\r\n$"))
        return HEAD_BAD;
    const bool is_1_0 = strncmp(strstr(text, "\r\n") - 3, "1.0", 3) == 0;
    const size_t lengths = message_find(text, "content-length", value);
    if (lengths && !message_matches(value, "^[0-9]{1,19}$"))
        return HEAD_BAD;
    const size_t codings = message_find(text, "transfer-encoding", value);
    if (lengths + codings > 1 || (codings && (is_1_0 || strcasecmp(value, "chunked") != 0)))
        return HEAD_BAD;
    const size_t hosts = message_find(text, "host", value);
    if (hosts > 1 || (hosts == 0 && !is_1_0))
        return HEAD_BAD;
    return hosts && !message_matches(value, "^[]!$%&'()*+.0-9:;=A-Z[^_`a-z{|}~-]*$") ? HEAD_BAD
                                                                                     : HEAD_WHOLE;
}

static void message_check_parse(struct bytes text)
{
    char copy[MESSAGE_HEAD_MAX + 1];
    struct head head;
    size_t lines = 0;

    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    for (size_t i = 0; i < text.size; i++)
        lines += text.data[i] == '\n';
    const enum head_result result = head_parse(text, &head);
    if (lines - 2 > HEAD_FIELDS_MAX) { /* a bad line before or behind the limit */
        REQUIRE(result != HEAD_WHOLE);
        return;
    }
    REQUIRE(result == (strlen(copy) == text.size ? message_judge(copy) : HEAD_BAD));
    if (result != HEAD_WHOLE)
        return;
    REQUIRE(head.field_count == lines - 2);
    char value[MESSAGE_HEAD_MAX + 1];
    REQUIRE(head.is_chunked == (message_find(copy, "transfer-encoding", value) > 0));
    const bool has_length = message_find(copy, "content-length", value) > 0;
    REQUIRE(head.content_length == (has_length ? strtoull(value, NULL, 10) : 0));
    for (size_t i = 0; i < head.field_count; i++) {
        const struct bytes one = head_part(text.data, head.fields[i].value);

        REQUIRE(one.data + one.size <= text.data + text.size);
        REQUIRE(bytes_equal(bytes_trim(one), one));
    }
}

/* The end, where a search in the whole text finds it. */
static enum head_result message_judge_end(struct bytes text, size_t *ret_size)
{
    const size_t size = text.size < MESSAGE_HEAD_MAX ? text.size : MESSAGE_HEAD_MAX;
    const char *end = memmem(text.data, size, "\r\n\r\n", 4);

    if (size && !memchr("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrst"
                        "uvwxyz",
                        text.data[0], 77))
        return HEAD_BAD;
    for (size_t i = 0; i < (end ? (size_t)(end - text.data) : size); i++)
        if (text.data[i] == '\n' && (i == 0 || text.data[i - 1] != '\r'))
            return HEAD_BAD;
    if (end)
        *ret_size = (size_t)(end - text.data) + 4;
    return end ? HEAD_WHOLE : size < MESSAGE_HEAD_MAX ? HEAD_MORE : HEAD_TOO_LARGE;
}

static void message_check_head(struct bytes text, struct random *random)
{
    size_t size = 0, found = 0, seen = 0, come = 0;
    const enum head_result judged = message_judge_end(text, &size);
    enum head_result result = HEAD_MORE;

    while (come < text.size && result == HEAD_MORE) {
        come += 1 + random_below(random, text.size - come);
        result = head_find_end((struct bytes){text.data, come}, MESSAGE_HEAD_MAX, &seen, &found);
    }
    REQUIRE(result == judged && found == size);
    if (result == HEAD_WHOLE)
        message_check_parse((struct bytes){text.data, size});
}

/* ---- chunks ---- */

/* A piece of the body that ends at its CR LF: how many bytes it has with them, 0 when it has none,
 * SIZE_MAX when a control character comes first. */
static size_t message_line(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '\r')
            return i + 1 == text.size ? 0 : text.data[i + 1] == '\n' ? i + 2 : SIZE_MAX;
        if (((uint8_t)text.data[i] < ' ' && text.data[i] != '\t') || text.data[i] == 0x7f)
            return SIZE_MAX;
    }
    return 0;
}

static void message_skip(struct bytes *text, size_t size)
{
    *text = (struct bytes){text->data + size, text->size - size};
}

static enum chunk_result message_judge_trailers(struct bytes *text)
{
    for (;;) {
        const size_t size = message_line(*text);
        const size_t name = strspn(text->data, "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                               "abcdefghijklmnopqrstuvwxyz");

        if (size == 2) {
            message_skip(text, 2);
            return CHUNK_END;
        }
        if (text->size > 0 && text->data[0] != '\r' &&
            (name == 0 || (name < text->size && text->data[name] != ':')))
            return CHUNK_BAD;
        if (size == 0 || size == SIZE_MAX)
            return size ? CHUNK_BAD : CHUNK_MORE;
        message_skip(text, size);
    }
}

/* The size of a chunk, whose line is taken off. Else MORE or BAD. */
static enum chunk_result message_judge_size(struct bytes *text, uint64_t *ret_size)
{
    const size_t digits = strspn(text->data, "0123456789abcdefABCDEF");

    if (digits > 15 || (digits == 0 && text->size > 0))
        return CHUNK_BAD;
    if (digits == text->size)
        return CHUNK_MORE;
    if (text->data[digits] != ';' && text->data[digits] != '\r')
        return CHUNK_BAD;
    const size_t size = message_line(*text);
    if (size == 0 || size == SIZE_MAX)
        return size ? CHUNK_BAD : CHUNK_MORE;
    *ret_size = strtoull(text->data, NULL, 16);
    message_skip(text, size);
    return CHUNK_DATA;
}

/* Decodes a body that lies before a NUL which is no part of it. */
static enum chunk_result message_judge_chunks(struct bytes *text, struct buffer *out)
{
    for (;;) {
        uint64_t size;
        const enum chunk_result result = message_judge_size(text, &size);

        if (result != CHUNK_DATA)
            return result;
        if (size == 0)
            return message_judge_trailers(text);
        const size_t here = size < text->size ? (size_t)size : text->size;
        buffer_append(out, text->data, here);
        message_skip(text, here);
        const size_t end = message_line(*text);
        if (text->size > 0 && end != 2 && !(text->size == 1 && text->data[0] == '\r'))
            return CHUNK_BAD;
        if (end != 2)
            return CHUNK_MORE;
        message_skip(text, 2);
    }
}

static enum chunk_result message_decode(struct bytes *text, struct buffer *out,
                                        struct random *random)
{
    struct chunk_decoder decoder = {0};

    for (;;) {
        const size_t cut = text->size ? 1 + random_below(random, text->size) : 0;
        struct bytes piece = {text->data, cut}, data;
        const enum chunk_result result = chunk_next(&decoder, &piece, &data);
        size_t unused = 0;

        if (result == CHUNK_DATA) {
            unused = random_below(random, data.size + 1);
            if (random_below(random, 2))
                unused = 0;
            chunk_give_back(&decoder, unused);
            buffer_append(out, data.data, data.size - unused);
        }
        message_skip(text, cut - piece.size - unused);
        if (result == CHUNK_END || result == CHUNK_BAD || text->size == 0)
            return result == CHUNK_DATA ? CHUNK_MORE : result;
    }
}

static void message_check_chunks(struct bytes text, struct random *random)
{
    struct bytes rest = text, judged_rest = text;
    struct buffer out, judged_out;

    if (text.size > CHUNK_EXTRA_BYTES_MAX) /* which bounds less than all */
        return;
    buffer_init(&out);
    buffer_init(&judged_out);
    const enum chunk_result result = message_decode(&rest, &out, random);
    REQUIRE(result == message_judge_chunks(&judged_rest, &judged_out));
    REQUIRE(bytes_equal(buffer_bytes(&out), buffer_bytes(&judged_out)));
    REQUIRE(result != CHUNK_END || rest.data == judged_rest.data);
    buffer_deinit(&out);
    buffer_deinit(&judged_out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *copy = malloc(size); /* so that a look past it is seen; a NUL behind it for the judges */
    REQUIRE(copy);
    memcpy(copy, data + 1, size - 1);
    copy[size - 1] = '\0';
    const struct bytes text = {copy, size - 1};
    struct random random = random_seeded(size);
    for (size_t i = 0; i < size; i++)
        random.state_ = random_mix(random.state_ + data[i]);
    if (data[0] == 'c')
        message_check_chunks(text, &random);
    else
        message_check_head(text, &random);
    free(copy);
    return 0;
}
