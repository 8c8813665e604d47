/* A timer: one allocation with its texts; its id as text; the pauses of its retries. */
#include "timer/timer.h"

#include "base/footprint.h"
#include "base/json_write.h"

#include <assert.h>
#include <stdlib.h>

/* ---- the id ----
 *
 * 128 bits, most significant first: first 48, partition 16, serial 64. 26 characters of 5 bits hold
 * 130; the last two are zero, and a text in which they are not is no id. The alphabet is in the
 * order of ASCII, so texts sort as the numbers do. */

enum { ID_CHARACTERS = TIMER_ID_TEXT_SIZE - 1 };

#define ID_FIRST_MAX ((UINT64_C(1) << 48) - 1)

static const char id_digits[] = "0123456789abcdefghijklmnopqrstuv";

/* Returns the value of a character; more than 31 for an invalid one. */
static unsigned timer_id_digit_value(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'v')
        return c - 'a' + 10u;
    return 255;
}

void timer_id_format(const struct timer_id *id, char ret_text[TIMER_ID_TEXT_SIZE])
{
    uint64_t high = id->first.ms << 16 | id->partition, low = id->serial;

    assert(id->first.ms <= ID_FIRST_MAX);
    /* The digits are 12 of the upper 60 bits, one of the 5 bits between, 12 of the following 60
     * bits, and one of the last 3 bits, padded to 5. */
    for (unsigned i = 0; i < 12; i++)
        ret_text[i] = id_digits[high >> (59 - 5 * i) & 31];
    ret_text[12] = id_digits[(high << 1 & 30) | low >> 63];
    for (unsigned i = 0; i < 12; i++)
        ret_text[13 + i] = id_digits[low >> (58 - 5 * i) & 31];
    ret_text[25] = id_digits[low << 2 & 31];
    ret_text[ID_CHARACTERS] = '\0';
}

void timer_id_put(struct buffer *out, const char *name, const struct timer_id *id)
{
    char text[TIMER_ID_TEXT_SIZE + 1] = "\"";

    timer_id_format(id, text + 1);
    text[TIMER_ID_TEXT_SIZE] = '"';
    json_put_raw(out, name, (struct bytes){text, sizeof(text)});
}

enum error_code timer_id_parse(struct bytes text, struct timer_id *ret_id)
{
    if (text.size != ID_CHARACTERS)
        return ERROR_NOT_FOUND;
    uint64_t high = 0;
    unsigned value, bad = 0;
    for (unsigned i = 0; i < 12; i++) {
        bad |= value = timer_id_digit_value((unsigned char)text.data[i]);
        high = high << 5 | value;
    }
    bad |= value = timer_id_digit_value((unsigned char)text.data[12]);
    high = high << 4 | value >> 1;
    uint64_t low = value & 1;
    for (unsigned i = 13; i < 25; i++) {
        bad |= value = timer_id_digit_value((unsigned char)text.data[i]);
        low = low << 5 | value;
    }
    bad |= value = timer_id_digit_value((unsigned char)text.data[25]);
    low = low << 3 | value >> 2;
    if (bad > 31 || (value & 3))
        return ERROR_NOT_FOUND;
    *ret_id = (struct timer_id){{high >> 16}, (uint16_t)high, low};
    return ERROR_NONE;
}

/* ---- the timer ---- */

const char *timer_state_text(enum timer_state state)
{
    static const char *const texts[] = {
#define X(name, text) text,
        TIMER_STATE_LIST(X)
#undef X
    };

    return texts[state];
}

static size_t timer_texts_size(const struct timer_texts *texts)
{
    size_t size = 0;

#define X(tag, name, ...) size += texts->name.size;
    TIMER_TEXT_LIST(X)
#undef X
    return size;
}

static struct bytes timer_place_text(char **at, struct bytes text)
{
    struct bytes placed = {*at, text.size};

    if (!text.size)
        return (struct bytes){0};
    memcpy(*at, text.data, text.size);
    *at += text.size;
    return placed;
}

/* Allocates a timer and copies its texts. Only texts and footprint are initialized. */
static struct timer *timer_place(const struct timer_texts *texts)
{
    size_t size = sizeof(struct timer) + timer_texts_size(texts);
    struct timer *timer = malloc(size);
    char *at = (char *)(timer + 1);

    if (!timer)
        return NULL;
#define X(tag, name, ...) timer->texts.name = timer_place_text(&at, texts->name);
    TIMER_TEXT_LIST(X)
#undef X
    timer->footprint = footprint_of(size);
    return timer;
}

/* Copies a timer with other texts; `target` was parsed from texts->target. */
static struct timer *timer_copy_parsed(const struct timer *timer, const struct timer_texts *texts,
                                       const struct target *target)
{
    struct timer *copy = timer_place(texts);

    if (!copy)
        return NULL;
    const struct timer_texts placed = copy->texts;
    const size_t footprint = copy->footprint;
    *copy = *timer;
    copy->texts = placed;
    copy->target = *target;
    copy->footprint = footprint;
    copy->next = NULL;
    return copy;
}

static struct target timer_read_target(struct bytes text)
{
    struct target target;

    if (!text.size || target_parse(text, &target, NULL))
        target = target_unknown(text);
    return target;
}

struct timer *timer_alloc_parsed(const struct timer_texts *texts, const struct target *target)
{
    static const struct timer blank = {.version = 1};
    struct timer *timer = timer_copy_parsed(&blank, texts, target);

    if (timer)
        timer->retry = RETRY_POLICY_DEFAULT;
    return timer;
}

struct timer *timer_alloc(const struct timer_texts *texts)
{
    const struct target target = timer_read_target(texts->target);

    return timer_alloc_parsed(texts, &target);
}

struct timer *timer_copy(const struct timer *timer, const struct timer_texts *texts)
{
    if (timer->target.kind != TARGET_UNKNOWN && texts->target.data == timer->texts.target.data &&
        texts->target.size == timer->texts.target.size)
        return timer_copy_parsed(timer, texts, &timer->target);
    const struct target target = timer_read_target(texts->target);
    return timer_copy_parsed(timer, texts, &target);
}

struct timer *timer_resumed(const struct timer *timer, struct wall now)
{
    struct timer_texts texts = timer->texts;

    assert(timer->state == TIMER_PAUSED);
    texts.note = (struct bytes){0};
    struct timer *copy = timer_copy(timer, &texts);
    if (!copy)
        return NULL;
    copy->version++;
    copy->paused = copy->failing = (struct wall){0};
    copy->state = copy->attempts ? TIMER_RETRYING : TIMER_SCHEDULED;
    copy->at = wall_max(copy->due, now);
    return copy;
}

void timer_free(struct timer *timer)
{
    free(timer);
}

static bool timer_is_webhook_text(struct bytes text)
{
    const struct target target = timer_read_target(text);

    return target_is_webhook(&target);
}

bool timer_texts_have_webhook(const struct timer_texts *texts)
{
    struct bytes targets = texts->targets, target;
    bool has_any = !targets.size && timer_is_webhook_text(texts->target);

    while (!has_any && timer_watch_next(&targets, &target))
        has_any = timer_is_webhook_text(target);
    return has_any;
}

void timer_texts_patch(struct timer_texts *texts, uint32_t fields, const struct timer_texts *values)
{
    if (fields & PATCH_TARGET && !bytes_equal(texts->targets, values->targets))
        texts->parts = (struct bytes){0};
    if (fields & PATCH_TARGET && (!bytes_equal(texts->target, values->target) ||
                                  !bytes_equal(texts->targets, values->targets)))
        texts->order = (struct bytes){0};
#define X(tag, name, kept, patch) \
    if (fields & PATCH_##patch)   \
        texts->name = values->name;
    TIMER_TEXT_LIST(X)
#undef X
    if (fields & PATCH_SCHEDULE)
        texts->zoned = values->zoned;
    if (fields & PATCH_TARGET && !timer_texts_have_webhook(texts))
        texts->method = (struct bytes){0};
}

bool timer_texts_have(const struct timer_texts *texts, uint32_t fields,
                      const struct timer_texts *values)
{
#define X(tag, name, kept, patch)                                          \
    if (fields & PATCH_##patch && !bytes_equal(texts->name, values->name)) \
        return false;
    TIMER_TEXT_LIST(X)
#undef X
    return true;
}

bool timer_watch_next(struct bytes *watch, struct bytes *ret_name)
{
    const char *end = watch->size ? memchr(watch->data, '\n', watch->size) : NULL;

    if (!end)
        return false;
    *ret_name = (struct bytes){watch->data, (size_t)(end - watch->data)};
    watch->size -= ret_name->size + 1;
    watch->data = end + 1;
    return true;
}

/* ---- retries ---- */

#define RETRY_AFTER_MS_MAX (UINT64_C(24) * 3600 * 1000)

bool retry_policy_equal(const struct retry_policy *a, const struct retry_policy *b)
{
    return a->attempts_max == b->attempts_max && a->base_ms == b->base_ms &&
           a->cap_ms == b->cap_ms && a->timeout_ms == b->timeout_ms &&
           a->give_up_ms == b->give_up_ms && a->until_next == b->until_next;
}

uint64_t retry_delay_ms(const struct retry_policy *policy, uint32_t attempts,
                        uint64_t retry_after_ms, struct random *random)
{
    uint32_t doublings = attempts > 0 ? attempts - 1 : 0;
    uint64_t span_ms = policy->cap_ms;

    if (doublings < 64 && policy->base_ms <= policy->cap_ms >> doublings)
        span_ms = policy->base_ms << doublings;
    uint64_t delay_ms = random_below(random, span_ms == UINT64_MAX ? span_ms : span_ms + 1);
    if (retry_after_ms > RETRY_AFTER_MS_MAX)
        retry_after_ms = RETRY_AFTER_MS_MAX;
    if (delay_ms < retry_after_ms)
        delay_ms = retry_after_ms;
    return delay_ms ? delay_ms : 1;
}
