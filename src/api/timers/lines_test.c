/*
 * Goal: the same lines come out however the text is cut, and a line over the limit is lost alone.
 * Method: a splitter too simple to be wrong (cut the whole text at newlines) beside the real one,
 * on random texts in random pieces; the seed is printed.
 */
#include "api/timers/lines.h"

#include "base/random.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    LINE_MAX_BYTES = 6,
    ROUNDS = 20000,
};

/* What became of each line, one after another: its number, then "T" or its text. */
static void note(struct buffer *out, uint64_t number, enum lines_result result, struct bytes line)
{
    buffer_printf(out, "%llu:", (unsigned long long)number);
    if (result == LINES_TOO_LONG)
        buffer_append_text(out, "T");
    else
        buffer_append_bytes(out, line);
    buffer_append_text(out, ";");
}

static void split_simply(struct bytes text, struct buffer *out)
{
    uint64_t number = 0;

    while (text.size > 0) {
        const char *end = memchr(text.data, '\n', text.size);
        struct bytes line = {text.data, end ? (size_t)(end - text.data) : text.size};

        text.data += line.size + (end != NULL);
        text.size -= line.size + (end != NULL);
        number++;
        if (line.size && line.data[line.size - 1] == '\r')
            line.size--;
        bool is_blank = true;
        for (size_t i = 0; i < line.size; i++)
            is_blank = is_blank && strchr(" \t\r", line.data[i]);
        if (line.size > LINE_MAX_BYTES)
            note(out, number, LINES_TOO_LONG, line);
        else if (!is_blank)
            note(out, number, LINES_LINE, line);
    }
}

static void split_in_pieces(struct bytes text, struct random *random, struct buffer *out)
{
    struct lines lines;

    lines_init(&lines, LINE_MAX_BYTES);
    enum lines_result result;
    struct bytes line;
    while (text.size > 0) {
        size_t size = 1 + random_below(random, text.size < 5 ? text.size : 5);
        /* In memory of its own, so that a look past it is seen. */
        char *piece = malloc(size);
        struct bytes chunk = {piece, size};

        assert_non_null(piece);
        memcpy(piece, text.data, size);
        text = (struct bytes){text.data + size, text.size - size};
        while ((result = lines_next(&lines, &chunk, &line)) != LINES_MORE)
            note(out, lines_number(&lines), result, line);
        assert_int_equal(chunk.size, 0);
        assert_true(lines.carry_.size <= LINE_MAX_BYTES + 1); /* room for a CR */
        free(piece);
    }
    result = lines_last(&lines, &line);
    if (result != LINES_MORE)
        note(out, lines_number(&lines), result, line);
    lines_deinit(&lines);
}

/* proves: batch-upload */
static void splits_like_the_simple_one(void **state)
{
    static const char alphabet[] = "ab \t\r\n\n";

    (void)state;
    struct random random = random_seeded(testing_seed());
    struct buffer wanted;
    buffer_init(&wanted);
    struct buffer got;
    buffer_init(&got);
    for (int round = 0; round < ROUNDS; round++) {
        char text[40];
        size_t size = random_below(&random, sizeof(text));

        for (size_t i = 0; i < size; i++)
            text[i] = alphabet[random_below(&random, sizeof(alphabet) - 1)];
        buffer_clear(&wanted);
        buffer_clear(&got);
        split_simply((struct bytes){text, size}, &wanted);
        split_in_pieces((struct bytes){text, size}, &random, &got);
        if (!bytes_equal(buffer_bytes(&wanted), buffer_bytes(&got)))
            fail_msg("%.*s: %.*s instead of %.*s", (int)size, text, (int)got.size, got.data,
                     (int)wanted.size, wanted.data);
    }
    buffer_deinit(&wanted);
    buffer_deinit(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_like_the_simple_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
