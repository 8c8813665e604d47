/*
 * duration_fuzz - a text that is a duration is the sum of its parts, by a slower way to add them
 * up; and written again it is the same duration.
 */
#include "base/check.h"
#include "calendar/duration.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* False when the text is none. Numbers are added in 128 bits and stopped at 2^64. */
static bool duration_fuzz_reference(struct bytes text, unsigned __int128 *ret_ms)
{
    static const char *const names[] = {"w", "d", "h", "m", "s", "ms"};
    static const uint64_t units[] = {604800000, 86400000, 3600000, 60000, 1000, 1};
    const unsigned __int128 stop = (unsigned __int128)1 << 64;

    *ret_ms = 0;
    size_t at = 0, unit = 0;
    while (at < text.size) {
        unsigned __int128 value = 0;
        size_t digits = at;

        for (; at < text.size && text.data[at] >= '0' && text.data[at] <= '9'; at++)
            if (value < stop)
                value = value * 10 + (unsigned)(text.data[at] - '0');
        size_t letters = at;
        for (; at < text.size && (text.data[at] < '0' || text.data[at] > '9'); at++)
            ;
        size_t found;
        for (found = unit; found < 6; found++)
            if (bytes_equal(bytes_of(names[found]),
                            (struct bytes){text.data + letters, at - letters}))
                break;
        if (letters == digits || found == 6)
            return false;
        *ret_ms += value * units[found];
        unit = found + 1;
    }
    return text.size > 0 && *ret_ms < stop;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = {(const char *)data, size};
    unsigned __int128 expected;
    uint64_t ms;

    if (duration_fuzz_reference(text, &expected)) {
        CHECK(duration_parse(text, &ms, NULL) == ERROR_NONE && ms == expected);
        char written[DURATION_TEXT_SIZE];
        text = (struct bytes){written, duration_format(ms, written)};
        uint64_t again;
        CHECK(duration_parse(text, &again, NULL) == ERROR_NONE && again == ms);
    } else {
        CHECK(duration_parse(text, &ms, NULL) == ERROR_INVALID);
    }
    return 0;
}
