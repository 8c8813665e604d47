/*
 * rfc3339_fuzz - what is read as a time is that time for timegm() too, not earlier and less than a
 * millisecond later; and written again it is the same moment.
 */
#include "base/rfc3339.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* Nanoseconds since 1970 of a text that has passed. */
static __int128 reference_ns(const char *text)
{
    int offset_hours = 0, offset_minutes = 0, used = 0;
    long long fraction = 0;
    char sign = '+';
    struct tm tm = {0};

    require(sscanf(text, "%4d-%2d-%2d%*1[Tt]%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                   &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &used) == 6);
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    text += used;
    if (*text == '.') {
        int digits = 0;

        require(sscanf(text, ".%lld%n", &fraction, &used) == 1);
        for (digits = used - 1; digits < 9; digits++)
            fraction *= 10;
        text += used;
    }
    if (*text != 'Z' && *text != 'z')
        require(sscanf(text, "%c%2d:%2d", &sign, &offset_hours, &offset_minutes) == 3);
    if (tm.tm_sec == 60)
        fraction = 0; /* timegm takes it as the next second */
    return ((__int128)timegm(&tm) -
            (sign == '-' ? -1 : 1) * (offset_hours * 3600 + offset_minutes * 60)) *
               1000000000 +
           fraction;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[64] = "", written[RFC3339_TEXT_SIZE];
    struct wall wall, again;
    __int128 expected;

    if (rfc3339_parse((struct bytes){(const char *)data, size}, &wall, NULL))
        return 0;
    require(size < sizeof(text));
    memcpy(text, data, size);
    expected = reference_ns(text);
    if (expected < 0)
        expected = 0;
    require((__int128)wall.ms * 1000000 >= expected &&
            (__int128)wall.ms * 1000000 < expected + 1000000);
    rfc3339_format(wall, written);
    require(rfc3339_parse(bytes_of(written), &again, NULL) == ERROR_NONE);
    require(again.ms == (wall.ms > WALL_MS_MAX ? WALL_MS_MAX : wall.ms));
    return 0;
}
