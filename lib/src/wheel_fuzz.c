/*
 * wheel_fuzz.c - verbs made of bytes, to a wheel and to a model, which must agree.
 *
 * The first byte picks where the clock starts, the second the portions and the slack; then each
 * verb is a byte, a byte that says which timer or how many, and a deadline or a time of a size byte
 * and up to eight more.
 */
#include "wheel_oracle.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MANY_FROM = 198 }; /* verbs for many; a multiple of the 9 others */

struct wheel_bytes {
    const uint8_t *at;
    size_t left;
};

static uint8_t take_byte(struct wheel_bytes *bytes)
{
    if (bytes->left == 0)
        return 0;
    bytes->left--;
    return *bytes->at++;
}

static uint64_t take_number(struct wheel_bytes *bytes)
{
    unsigned size = take_byte(bytes) % 9;
    uint64_t number = 0;
    while (size-- > 0)
        number = number << 8 | take_byte(bytes);
    return number;
}

static uint64_t later(uint64_t now, uint64_t delay)
{
    return delay > TW_NEVER - now ? TW_NEVER : now + delay;
}

static void do_verb(struct trial *trial, struct wheel_bytes *bytes)
{
    uint8_t verb = take_byte(bytes);
    uint8_t which = take_byte(bytes);
    if (verb >= MANY_FROM) {
        uint64_t deadline = later(trial->now, take_number(bytes));
        trial_many(trial, (verb - MANY_FROM) % TRIAL_MANY_COUNT, which, 1u + which % 100u, deadline,
                   which * which);
        return;
    }
    switch (verb % 9) {
    case 0:
        trial_schedule(trial, later(trial->now, take_number(bytes)));
        break;
    case 1:
        trial_open(trial);
        break;
    case 2:
        trial_set(trial, which, later(trial->now, take_number(bytes)));
        break;
    case 3:
        trial_set(trial, which, take_number(bytes)); /* absolute: often overdue */
        break;
    case 4:
        trial_disarm(trial, which);
        break;
    case 5:
        trial_end(trial, which);
        break;
    case 6:
        trial_use_stale(trial, which, take_number(bytes));
        break;
    case 7:
        trial_expire(trial, later(trial->now, take_number(bytes)), which);
        break;
    default:
        trial_drain(trial, later(trial->now, take_number(bytes)), 1u + which);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t starts[] = {0,
                                      200,
                                      0xff00,
                                      0xffff00,
                                      0xffffff00,
                                      0xffffffff00,
                                      (UINT64_C(1) << 63) - 40,
                                      UINT64_MAX - 70000,
                                      UINT64_MAX - 3};
    struct wheel_bytes bytes = {data, size};
    struct trial trial;
    uint8_t start = take_byte(&bytes), sizes = take_byte(&bytes);
    struct tw_wheel_options options = {.start = starts[start % 9] + start / 9};
    trial_init(&trial, &options, 64u << (sizes & 3), (sizes >> 2 & 3) * 20u);
    while (bytes.left > 0) {
        do_verb(&trial, &bytes);
        trial_check(&trial);
    }
    trial_drain(&trial, TW_NEVER, 5);
    trial_check(&trial);
    trial_deinit(&trial);
    return 0;
}
