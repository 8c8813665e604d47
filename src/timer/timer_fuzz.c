/*
 * timer_fuzz - a text is an id exactly when it is what timer_id_format writes of it, and texts sort
 * as ids do. The input is a text, and an id of 18 bytes.
 */
#include "timer/timer.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static int timer_fuzz_compare(const struct timer_id *a, const struct timer_id *b)
{
    if (a->first.ms != b->first.ms)
        return a->first.ms < b->first.ms ? -1 : 1;
    if (a->partition != b->partition)
        return a->partition < b->partition ? -1 : 1;
    return (a->serial > b->serial) - (a->serial < b->serial);
}

/* The slow way: 128 bits, five at a time, and two at the end that are 0. */
static bool timer_fuzz_reference(struct bytes text, struct timer_id *ret_id)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuv";

    if (text.size != 26)
        return false;
    unsigned __int128 number = 0;
    for (size_t i = 0; i < 26; i++) {
        const char *digit = text.data[i] ? strchr(digits, text.data[i]) : NULL;
        unsigned value = digit ? (unsigned)(digit - digits) : 32;

        if (value > 31 || (i == 25 && value % 4))
            return false;
        number = i == 25 ? number << 3 | value / 4 : number << 5 | value;
    }
    *ret_id =
        (struct timer_id){{(uint64_t)(number >> 80)}, (uint16_t)(number >> 64), (uint64_t)number};
    return true;
}

static void check_text(struct bytes text)
{
    struct timer_id id, expected;

    if (timer_id_parse(text, &id)) {
        REQUIRE(!timer_fuzz_reference(text, &expected));
    } else {
        REQUIRE(timer_fuzz_reference(text, &expected) && timer_id_equal(&id, &expected));
        char again[TIMER_ID_TEXT_SIZE];
        timer_id_format(&id, again);
        REQUIRE(bytes_equal(text, bytes_of(again)));
    }
}

static uint64_t timer_fuzz_number_at(const uint8_t *data, size_t size)
{
    uint64_t number = 0;

    while (size-- > 0)
        number = number << 8 | *data++;
    return number;
}

static void check_id(const uint8_t *data)
{
    struct timer_id id = {{timer_fuzz_number_at(data, 6)},
                          (uint16_t)timer_fuzz_number_at(data + 6, 2),
                          timer_fuzz_number_at(data + 8, 8)};
    struct timer_id other = id;
    char text[TIMER_ID_TEXT_SIZE];

    timer_id_format(&id, text);
    struct timer_id back;
    REQUIRE(timer_id_parse(bytes_of(text), &back) == ERROR_NONE && timer_id_equal(&id, &back));
    if (data[16] & 1)
        other.first.ms ^= UINT64_C(1) << data[17] % 48;
    if (data[16] & 2)
        other.partition ^= (uint16_t)(1 << data[17] % 16);
    if (data[16] & 4)
        other.serial ^= UINT64_C(1) << data[17] % 64;
    char other_text[TIMER_ID_TEXT_SIZE];
    timer_id_format(&other, other_text);
    int order = strcmp(text, other_text);
    REQUIRE((order > 0) - (order < 0) == timer_fuzz_compare(&id, &other));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + !size); /* so that a look past it is seen */
    struct bytes text = {copy, size};

    REQUIRE(copy);
    if (size)
        memcpy(copy, data, size);
    check_text(text);
    if (size >= 18)
        check_id(data);
    free(copy);
    return 0;
}
