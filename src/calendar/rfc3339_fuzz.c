/*
 * rfc3339_fuzz - a text is a time exactly when it has the form and its fields are within theirs;
 * then it is that time for timegm() too, not earlier and less than a millisecond later; and written
 * again it is the same moment.
 */
#include "base/check.h"
#include "calendar/rfc3339.h"

#include <stdio.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int rfc3339_fuzz_number_at(const char *text, int digits)
{
    int number = 0;

    while (digits-- > 0)
        number = number * 10 + (*text++ - '0');
    return number;
}

static int days_of(int year, int month)
{
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return month == 2                                              ? 28 + is_leap
           : month == 4 || month == 6 || month == 9 || month == 11 ? 30
                                                                   : 31;
}

/* Whether `form` begins the text: 0 is a digit, T and Z may be small. */
static bool has_form(const char *text, const char *form)
{
    for (; *form; form++, text++) {
        if (*form == '0' ? *text < '0' || *text > '9'
                         : *text != *form && !(*form == 'T' && *text == 't'))
            return false;
    }
    return true;
}

/* By the letter of RFC 3339, but for a leap second, which is left to the test of it. */
static bool is_time(const char *text)
{
    int month = rfc3339_fuzz_number_at(text + 5, 2), seconds = rfc3339_fuzz_number_at(text + 17, 2);

    if (!has_form(text, "0000-00-00T00:00:00") || rfc3339_fuzz_number_at(text, 4) < 2 ||
        month < 1 || month > 12 || rfc3339_fuzz_number_at(text + 8, 2) < 1 ||
        rfc3339_fuzz_number_at(text + 8, 2) > days_of(rfc3339_fuzz_number_at(text, 4), month) ||
        rfc3339_fuzz_number_at(text + 11, 2) > 23 || rfc3339_fuzz_number_at(text + 14, 2) > 59 ||
        seconds > 59)
        return false;
    text += 19;
    if (*text == '.') {
        size_t digits = strspn(text + 1, "0123456789");

        if (digits < 1 || digits > 9)
            return false;
        text += 1 + digits;
    }
    if (*text == 'Z' || *text == 'z')
        return text[1] == '\0';
    return (*text == '+' || *text == '-') && has_form(text + 1, "00:00") && text[6] == '\0' &&
           rfc3339_fuzz_number_at(text + 1, 2) <= 23 && rfc3339_fuzz_number_at(text + 4, 2) <= 59;
}

/* Nanoseconds since 1970 of a text that has passed. */
static __int128 reference_ns(const char *text)
{
    int used = 0;
    char sign = '+';
    struct tm tm = {0};

    CHECK(sscanf(text, "%4d-%2d-%2d%*1[Tt]%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                 &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &used) == 6);
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    text += used;
    long long fraction = 0;
    if (*text == '.') {
        CHECK(sscanf(text, ".%lld%n", &fraction, &used) == 1);
        int digits = 0;
        for (digits = used - 1; digits < 9; digits++)
            fraction *= 10;
        text += used;
    }
    int offset_hours = 0, offset_minutes = 0;
    if (*text != 'Z' && *text != 'z')
        CHECK(sscanf(text, "%c%2d:%2d", &sign, &offset_hours, &offset_minutes) == 3);
    if (tm.tm_sec == 60)
        fraction = 0; /* timegm takes it as the next second */
    return ((__int128)timegm(&tm) -
            (sign == '-' ? -1 : 1) * (offset_hours * 3600 + offset_minutes * 60)) *
               1000000000 +
           fraction;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[64] = "";

    if (size < sizeof(text) && !memchr(data, '\0', size))
        memcpy(text, data, size);
    struct wall wall;
    if (rfc3339_parse((struct bytes){(const char *)data, size}, &wall, NULL)) {
        CHECK(!is_time(text));
        return 0;
    }
    CHECK(is_time(text) || memcmp(text + 16, ":60", 3) == 0);
    __int128 expected = reference_ns(text);
    if (expected < 0)
        expected = 0;
    CHECK((__int128)wall.ms * 1000000 >= expected &&
          (__int128)wall.ms * 1000000 < expected + 1000000);
    char written[RFC3339_TEXT_SIZE];
    rfc3339_format(wall, written);
    struct wall again;
    CHECK(rfc3339_parse(bytes_of(written), &again, NULL) == ERROR_NONE);
    CHECK(again.ms == (wall.ms > WALL_MS_MAX ? WALL_MS_MAX : wall.ms));
    return 0;
}
