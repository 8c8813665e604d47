/*
 * target_fuzz - percent-encoding is undone as libc's scanf would do it, and what is undone and
 * encoded anew is undone as the same; segments put together are the path, parameters the query.
 */
#include "http/target.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

/* SIZE_MAX: there is a bad escape. */
static size_t target_fuzz_reference(struct bytes text, char *room)
{
    size_t size = 0;

    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '%') {
            char digits[3] = "";

            if (i + 2 >= text.size)
                return SIZE_MAX;
            memcpy(digits, text.data + i + 1, 2);
            unsigned byte;
            int used = 0;
            if (!strchr("0123456789abcdefABCDEF", digits[0]) ||
                sscanf(digits, "%2x%n", &byte, &used) != 1 || used != 2 || byte == 0)
                return SIZE_MAX;
            room[size++] = (char)byte;
            i += 2;
        } else {
            room[size++] = text.data[i];
        }
    }
    return size;
}

static void check_decode(struct bytes text)
{
    char *ours = malloc(text.size + 1), *theirs = malloc(text.size + 1);

    REQUIRE(ours && theirs);
    size_t size = target_fuzz_reference(text, theirs);
    struct bytes decoded;
    if (http_percent_decode(text, ours, &decoded)) {
        REQUIRE(size == SIZE_MAX);
    } else {
        REQUIRE(bytes_equal(decoded, (struct bytes){theirs, size}));
        struct buffer encoded;
        buffer_init(&encoded);
        for (size_t i = 0; i < decoded.size; i++)
            if (decoded.data[i])
                buffer_printf(&encoded, "%%%02X", (unsigned)(uint8_t)decoded.data[i]);
            else
                buffer_append(&encoded, "", 1);
        char *again = malloc(encoded.size + 1);
        struct bytes back;
        REQUIRE(again && !http_percent_decode(buffer_bytes(&encoded), again, &back));
        REQUIRE(bytes_equal(back, decoded));
        free(again);
        buffer_deinit(&encoded);
    }
    free(theirs);
    free(ours);
}

static void check_path(struct bytes path)
{
    struct bytes rest = path, segment;
    size_t size = 0;

    while (http_path_next(&rest, &segment)) {
        REQUIRE(!segment.size || !memchr(segment.data, '/', segment.size));
        REQUIRE(path.data[size] == '/' && segment.data == path.data + size + 1);
        size += 1 + segment.size;
    }
    REQUIRE(size == path.size);
}

static void check_query(struct bytes query)
{
    char *room = malloc(query.size + !query.size);

    REQUIRE(room);
    struct http_parameter parameters[8];
    size_t count;
    if (http_query_parse(query, room, parameters, 8, &count) == ERROR_NONE) {
        REQUIRE(count <= 8);
        size_t size = 0;
        for (size_t i = 0; i < count; i++) {
            REQUIRE(parameters[i].name.size + parameters[i].value.size > 0);
            size += parameters[i].name.size + parameters[i].value.size;
        }
        REQUIRE(size <= query.size);
    }
    free(room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + !size); /* so that a look past it is seen */
    const struct bytes text = {copy, size};

    REQUIRE(copy);
    if (size)
        memcpy(copy, data, size);
    check_decode(text);
    struct http_target target;
    if (http_target_parse(text, &target) == ERROR_NONE) {
        REQUIRE(target.path.size > 0 && !memchr(target.path.data, '?', target.path.size));
        check_path(target.path);
        check_query(target.query);
    }
    free(copy);
    return 0;
}
