/*
 * lines_fuzz - a stream is the same lines wherever it is cut, and they are those that a look at the
 * whole text finds. The first byte is the limit of a line, the second seeds the cuts.
 */
#include "api/timers/lines.h"

#include "base/random.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

/* The next line of the whole text; the same results as lines.h. */
static enum lines_result whole_next(struct bytes *rest, size_t line_max, uint64_t *number,
                                    struct bytes *ret_line)
{
    while (rest->size > 0) {
        const char *end = memchr(rest->data, '\n', rest->size);
        struct bytes line = {rest->data, end ? (size_t)(end - rest->data) : rest->size};

        *rest = (struct bytes){rest->data + line.size + !!end, rest->size - line.size - !!end};
        (*number)++;
        line.size -= line.size > 0 && line.data[line.size - 1] == '\r';
        if (line.size > line_max)
            return LINES_TOO_LONG;
        if (*number == 1 && line.size >= 3 && memcmp(line.data, "\xef\xbb\xbf", 3) == 0)
            line = (struct bytes){line.data + 3, line.size - 3}; /* a byte order mark */
        for (size_t i = 0; i < line.size; i++)
            if (!strchr(" \t\r", line.data[i]) || !line.data[i]) {
                *ret_line = line;
                return LINES_LINE;
            }
    }
    return LINES_MORE;
}

/* What has come out of the cut stream is what comes next in the whole one. */
static void lines_fuzz_compare(const struct lines *lines, enum lines_result result,
                               struct bytes line, struct bytes *whole, size_t line_max,
                               uint64_t *number)
{
    struct bytes expected;

    REQUIRE(whole_next(whole, line_max, number, &expected) == result);
    REQUIRE(lines_number(lines) == *number);
    REQUIRE(result != LINES_LINE || bytes_equal(line, expected));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t line_max = size > 0 ? data[0] % 64 : 0;
    struct random random = random_seeded(size > 1 ? data[1] : 0);
    struct bytes text =
        size > 2 ? (struct bytes){(const char *)data + 2, size - 2} : (struct bytes){0};
    struct bytes whole = text;
    struct lines lines;

    lines_init(&lines, line_max);
    struct bytes line;
    enum lines_result result;
    uint64_t number = 0;
    while (text.size > 0) {
        size_t cut = 1 + random_below(&random, random_below(&random, 4) ? 8 : text.size);

        cut = cut < text.size ? cut : text.size;
        char *copy = malloc(cut); /* so that a line that points into what is gone is seen */
        REQUIRE(copy);
        memcpy(copy, text.data, cut);
        struct bytes chunk = {copy, cut};
        while ((result = lines_next(&lines, &chunk, &line)) != LINES_MORE)
            lines_fuzz_compare(&lines, result, line, &whole, line_max, &number);
        REQUIRE(chunk.size == 0);
        free(copy);
        text = (struct bytes){text.data + cut, text.size - cut};
    }
    while ((result = lines_last(&lines, &line)) != LINES_MORE)
        lines_fuzz_compare(&lines, result, line, &whole, line_max, &number);
    REQUIRE(whole_next(&whole, line_max, &number, &line) == LINES_MORE);
    lines_deinit(&lines);
    return 0;
}
