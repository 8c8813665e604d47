/* zone.c - queries of a time zone: offsets and transitions. */
#include "base/check.h"
#include "calendar/zone_private.h"

#include <stdlib.h>

static const struct zone utc = {.offset_first_s = 0};

const struct zone *zone_utc(void)
{
    return &utc;
}

void zone_destroy(struct zone *zone)
{
    if (zone != &utc)
        free(zone);
}

/* Returns the number of transitions at or before `at`. */
static uint32_t zone_count_until(const struct zone *zone, int64_t at)
{
    uint32_t low = 0, high = zone->transition_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (zone->transitions[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the offset before the transition `index`, even at the begin of the cycle, because its
 * last transition and the one before its first set equal offsets. */
static int32_t zone_offset_before(const struct zone *zone, uint32_t index)
{
    return index ? zone->transitions[index - 1].offset_s : zone->offset_first_s;
}

struct zone_stretch zone_stretch_at(const struct zone *zone, int64_t at)
{
    const struct zone_transition *list = zone->transitions;
    bool has_cycle = zone->cycle_first < zone->transition_count;
    int64_t shift = 0;

    if (has_cycle && at >= list[zone->cycle_first].at) {
        shift = (at - list[zone->cycle_first].at) / ZONE_CYCLE_S * ZONE_CYCLE_S;
        at -= shift;
    }
    uint32_t count = zone_count_until(zone, at);
    if (count == 0)
        return (struct zone_stretch){INT64_MIN, zone->transition_count ? list[0].at : INT64_MAX,
                                     zone->offset_first_s, zone->offset_first_s};
    return (struct zone_stretch){
        list[count - 1].at + shift,
        count < zone->transition_count ? list[count].at + shift
        : has_cycle                    ? list[zone->cycle_first].at + ZONE_CYCLE_S + shift
                                       : INT64_MAX,
        list[count - 1].offset_s,
        zone_offset_before(zone, count - 1),
    };
}

static bool zone_is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '+' || c == '-';
}

enum error_code zone_name_check(struct bytes name, struct error *ret_error)
{
    if (name.size == 0 || name.size > ZONE_NAME_SIZE_MAX)
        return error_set(ret_error, ERROR_INVALID, "a time zone's name has 1 to %d characters",
                         ZONE_NAME_SIZE_MAX);
    size_t part = 0; /* beginning of the part that is being read */
    for (size_t i = 0; i <= name.size; i++) {
        if (i < name.size && name.data[i] != '/') {
            if (!zone_is_name_character(name.data[i]))
                return error_set(ret_error, ERROR_INVALID,
                                 "a time zone is named as IANA does, such as Europe/Berlin");
            continue;
        }
        if (i == part)
            return error_set(ret_error, ERROR_INVALID,
                             "a time zone's name has no empty part and no / at its ends");
        part = i + 1;
    }
    if (bytes_has_prefix(name, BYTES("posix/")) || bytes_has_prefix(name, BYTES("right/")) ||
        bytes_equal(name, BYTES("localtime")) || bytes_equal(name, BYTES("posixrules")))
        return error_set(ret_error, ERROR_INVALID, "that is a file, and no time zone of IANA's");
    return ERROR_NONE;
}

void zone_check(const struct zone *zone)
{
    const struct zone_transition *list = zone->transitions;
    uint32_t count = zone->transition_count, first = zone->cycle_first;

    CHECK(first <= count);
    CHECK(labs(zone->offset_first_s) < ZONE_OFFSET_S_MAX);
    int64_t change_before = 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t change = labs(list[i].offset_s - zone_offset_before(zone, i));

        CHECK(labs(list[i].offset_s) < ZONE_OFFSET_S_MAX);
        CHECK(change != 0);
        CHECK(i == 0 || list[i].at - list[i - 1].at >= change + change_before);
        change_before = change;
    }
    if (first == count)
        return;
    CHECK(zone_offset_before(zone, first) == list[count - 1].offset_s);
    CHECK(list[first].at + ZONE_CYCLE_S - list[count - 1].at >=
          change_before + labs(list[first].offset_s - zone_offset_before(zone, first)));
}
