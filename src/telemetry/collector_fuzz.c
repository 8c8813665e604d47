/*
 * collector_fuzz - any bytes as the answer of a collector, as the texts of a span and as a URL.
 * What is exported is valid JSON that ends where it should; no value of a query and no password is
 * in a URL; and an answer rejects spans only if it is JSON with that word.
 */
#include "base/json.h"
#include "telemetry/collector.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static void collector_fuzz_json(struct bytes text)
{
    struct span span = {.context = {1, 2, 3, true}, .has_failed = true}, back;
    struct buffer bytes, out;

    for (size_t i = 0; i < SPAN_TEXTS; i++)
        span_set_text(&span, (enum span_text)i, text);
    buffer_init(&bytes);
    buffer_init(&out);
    span_encode(&span, &bytes);
    struct bytes rest = buffer_bytes(&bytes);
    REQUIRE(bytes.size <= SPAN_SIZE_MAX && span_decode(&rest, &back) && rest.size == 0);
    span_append_json(&back, &out);
    struct json_reader reader;
    json_reader_init(&reader, buffer_bytes(&out));
    REQUIRE(json_peek(&reader) == JSON_OBJECT && json_skip(&reader, NULL) && json_finish(&reader));
    buffer_deinit(&bytes);
    buffer_deinit(&out);
}

/* Each part of the query ends in REDACTED or in nothing. */
static void collector_fuzz_url(struct bytes url)
{
    struct buffer out;

    buffer_init(&out);
    buffer_append(&out, "", 0);
    span_append_url(&out, url);
    struct bytes query = buffer_bytes(&out);
    REQUIRE(!query.size || !memchr(query.data, '#', query.size));
    const char *mark = query.size ? memchr(query.data, '?', query.size) : NULL;
    while (mark) {
        const char *end = query.data + query.size;
        const char *next = memchr(mark + 1, '&', (size_t)(end - mark - 1));
        const struct bytes part = {mark + 1, (size_t)((next ? next : end) - mark - 1)};

        REQUIRE(!part.size ||
                (part.size >= 8 && !memcmp(part.data + part.size - 8, "REDACTED", 8)));
        mark = next;
    }
    buffer_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes text = {(const char *)data, size};

    collector_fuzz_json(text);
    collector_fuzz_url(text);
    if (collector_rejected(text)) {
        struct json_reader reader;

        json_reader_init(&reader, text);
        REQUIRE(json_peek(&reader) == JSON_OBJECT && json_skip(&reader, NULL) &&
                json_finish(&reader));
        REQUIRE(memmem(data, size, "rejectedSpans", 13));
    }
    return 0;
}
