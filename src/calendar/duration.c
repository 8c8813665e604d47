/* duration.c - parses and formats durations such as 1h30m. */
#include "calendar/duration.h"

#include "base/json_write.h"

struct unit {
    char name[3];
    uint8_t size;
    uint64_t ms;
};

/* Units in the order in which they may be written, the largest first. */
static const struct unit units[] = {
    {"w", 1, 604800000}, {"d", 1, 86400000}, {"h", 1, 3600000},
    {"m", 1, 60000},     {"s", 1, 1000},     {"ms", 2, 1},
};

#define UNIT_COUNT (sizeof(units) / sizeof(units[0]))

/* Returns the unit whose name fills [at, end) up to the next digit; UNIT_COUNT if there is none. */
static size_t duration_find_unit(const char *at, const char *end)
{
    const char *stop = at;

    while (stop < end && (*stop < '0' || *stop > '9'))
        stop++;
    size_t i;
    for (i = 0; i < UNIT_COUNT; i++)
        if ((size_t)(stop - at) == units[i].size && memcmp(at, units[i].name, units[i].size) == 0)
            break;
    return i;
}

enum error_code duration_parse(struct bytes text, uint64_t *ret_ms, struct error *ret_error)
{
    const char *at = text.data, *end = at + text.size;

    if (at == end)
        return error_set(ret_error, ERROR_INVALID, "it is empty");
    size_t unit_next = 0; /* the largest unit allowed next */
    uint64_t sum = 0;
    while (at < end) {
        const char *digits = at;
        uint64_t value = 0;
        bool fits = true;

        for (; at < end && *at >= '0' && *at <= '9'; at++)
            fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
                   !__builtin_add_overflow(value, (uint64_t)(*at - '0'), &value);
        if (at == digits)
            return error_set(ret_error, ERROR_INVALID, "a whole number is expected before a unit");
        size_t unit = duration_find_unit(at, end);
        if (unit == UNIT_COUNT)
            return error_set(ret_error, ERROR_INVALID,
                             "a whole number must be followed by one of w, d, h, m, s, ms");
        if (unit < unit_next)
            return error_set(ret_error, ERROR_INVALID,
                             "each unit may stand once, the larger before the smaller");
        if (!fits || __builtin_mul_overflow(value, units[unit].ms, &value) ||
            __builtin_add_overflow(sum, value, &sum))
            return error_set(ret_error, ERROR_INVALID, "it is longer than 2^64 - 1 ms");
        at += units[unit].size;
        unit_next = unit + 1;
    }
    *ret_ms = sum;
    return ERROR_NONE;
}

size_t duration_format(uint64_t ms, char ret_text[DURATION_TEXT_SIZE])
{
    size_t size = 0;

    for (size_t i = 1; i < UNIT_COUNT; i++) { /* no weeks: "10d" reads better than "1w3d" */
        uint64_t value = ms / units[i].ms;
        char digits[20];
        size_t at = sizeof(digits);

        ms %= units[i].ms;
        if (value == 0)
            continue;
        for (; value; value /= 10)
            digits[--at] = (char)('0' + value % 10);
        memcpy(ret_text + size, digits + at, sizeof(digits) - at);
        size += sizeof(digits) - at;
        memcpy(ret_text + size, units[i].name, units[i].size);
        size += units[i].size;
    }
    if (size == 0) {
        memcpy(ret_text, "0s", 2);
        size = 2;
    }
    ret_text[size] = '\0';
    return size;
}

size_t duration_format_rough(uint64_t ms, char ret_text[DURATION_TEXT_SIZE])
{
    static const struct {
        uint64_t from_ms, unit_ms;
    } steps[] = {
        {10 * 24 * 3600 * 1000, 24 * 3600 * 1000},
        {10 * 3600 * 1000, 3600 * 1000},
        {10 * 60 * 1000, 60 * 1000},
        {1000, 1000},
        {0, 1},
    };
    size_t i = 0;

    while (ms < steps[i].from_ms)
        i++;
    const uint64_t rest = ms % steps[i].unit_ms;
    const uint64_t up = rest >= (steps[i].unit_ms + 1) / 2 ? steps[i].unit_ms : 0;
    return duration_format(ms - rest <= UINT64_MAX - up ? ms - rest + up : ms - rest, ret_text);
}

void duration_put(struct buffer *out, const char *name, uint64_t ms)
{
    char text[DURATION_TEXT_SIZE + 1] = "\"";
    const size_t size = duration_format(ms, text + 1);

    text[1 + size] = '"';
    json_put_raw(out, name, (struct bytes){text, size + 2});
}
