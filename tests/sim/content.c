#include "content.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAYLOAD_MAX = 4096 };

struct content_texts {
    char target[80], headers[40], labels[60], payload[PAYLOAD_MAX];
    struct timer_texts texts;
};

#define PRINT(field, ...)                                              \
    (struct bytes)                                                     \
    {                                                                  \
        (field), (size_t)snprintf((field), sizeof(field), __VA_ARGS__) \
    }

static struct bytes payload_text(const struct content *content, char text[PAYLOAD_MAX])
{
    size_t size = (size_t)snprintf(text, PAYLOAD_MAX, "\"%" PRIu32 " ", content->payload);

    while (size < content->payload_size && size < PAYLOAD_MAX - 1)
        text[size++] = '.';
    text[size++] = '"';
    return (struct bytes){text, size};
}

/* Two texts that name one origin in several ways, so that a limit per origin is not one per URL. */
static void write_texts(const struct content *content, uint32_t number, struct content_texts *ret)
{
    ret->texts = (struct timer_texts){
        .target = PRINT(ret->target, "http://host-%u.example:8%u%s%" PRIu32, content->origin,
                        content->origin, content->target % 2 ? "/t/" : "?t=", content->target),
        .labels = PRINT(ret->labels, "{\"timer\":\"%" PRIu32 "\",\"label\":\"%" PRIu32 "\"}",
                        number, content->labels),
    };
    if (content->payload)
        ret->texts.payload = payload_text(content, ret->payload);
    if (content->payload % 2)
        ret->texts.content_type = BYTES("text/plain");
    if (content->headers)
        ret->texts.headers = PRINT(ret->headers, "x-token: %" PRIu32 "\n", content->headers);
}

struct timer *content_timer(const struct content *content, uint32_t number)
{
    struct content_texts texts;
    struct timer *timer;

    write_texts(content, number, &texts);
    timer = timer_alloc(&texts.texts);
    assert(timer);
    timer->due = content->due;
    timer->retry = content->retry;
    return timer;
}

static bool retry_equal(const struct retry_policy *a, const struct retry_policy *b)
{
    return a->attempts_max == b->attempts_max && a->base_ms == b->base_ms &&
           a->cap_ms == b->cap_ms && a->timeout_ms == b->timeout_ms;
}

bool content_matches(const struct content *content, uint32_t number, const struct timer *timer)
{
    const bool is_over = timer_is_over(timer->state);
    struct content_texts want;

    write_texts(content, number, &want);
    if (timer->due.ms != content->due.ms || !retry_equal(&timer->retry, &content->retry) ||
        !bytes_equal(timer->texts.target, want.texts.target) ||
        !bytes_equal(timer->texts.labels, want.texts.labels))
        return false;
    if (is_over && timer->texts.payload.size == 0 && timer->texts.headers.size == 0)
        return true;
    return bytes_equal(timer->texts.payload, want.texts.payload) &&
           bytes_equal(timer->texts.content_type, want.texts.content_type) &&
           bytes_equal(timer->texts.headers, want.texts.headers);
}

void content_patch(struct content *content, uint32_t fields, const struct content *values)
{
    if (fields & PATCH_DUE)
        content->due = values->due;
    if (fields & PATCH_RETRY)
        content->retry = values->retry;
    if (fields & PATCH_TARGET) {
        content->target = values->target;
        content->origin = values->origin;
    }
    if (fields & PATCH_PAYLOAD) {
        content->payload = values->payload;
        content->payload_size = values->payload_size;
    }
    if (fields & PATCH_HEADERS)
        content->headers = values->headers;
    if (fields & PATCH_LABELS)
        content->labels = values->labels;
}

bool content_equal(const struct content *a, const struct content *b, uint32_t fields)
{
    return (!(fields & PATCH_DUE) || a->due.ms == b->due.ms) &&
           (!(fields & PATCH_RETRY) || retry_equal(&a->retry, &b->retry)) &&
           (!(fields & PATCH_TARGET) || a->target == b->target) &&
           (!(fields & PATCH_PAYLOAD) || a->payload == b->payload) &&
           (!(fields & PATCH_HEADERS) || a->headers == b->headers) &&
           (!(fields & PATCH_LABELS) || a->labels == b->labels);
}

uint32_t content_number(const struct timer *timer)
{
    const struct bytes prefix = BYTES("{\"timer\":\"");

    if (!bytes_has_prefix(timer->texts.labels, prefix))
        return 0;
    return (uint32_t)strtoul(timer->texts.labels.data + prefix.size, NULL, 10);
}
