/*
 * zone_testing.h - time zones made up for tests: the contents of a TZif file from a list of changes
 * and a footer.
 */
#ifndef TICKWHEEL_CALENDAR_ZONE_TESTING_H
#define TICKWHEEL_CALENDAR_ZONE_TESTING_H

#include "calendar/zone.h"

#include <stdlib.h>

struct zone_change {
    int64_t at;
    int32_t offset_s;
};

static inline void zone_testing_header(struct buffer *buffer, size_t times, size_t types)
{
    static const char magic[20] = "TZif2";
    char counts[24] = {0};

    buffer_append(buffer, magic, sizeof(magic));
    put_be(counts + 12, times, 4);
    put_be(counts + 16, types, 4);
    put_be(counts + 20, 4, 4);
    buffer_append(buffer, counts, sizeof(counts));
}

/* Appends a file whose clocks show `offset_s`, until the changes. */
static inline void zone_testing_file(struct buffer *buffer, int32_t offset_s,
                                     const struct zone_change *changes, size_t count,
                                     const char *footer)
{
    char number[8];

    zone_testing_header(buffer, 0, 1);
    buffer_append(buffer, "\0\0\0\0\0\0UTC", 10);
    zone_testing_header(buffer, count, count + 1);
    for (size_t i = 0; i < count; i++) {
        put_be(number, (uint64_t)changes[i].at, 8);
        buffer_append(buffer, number, 8);
    }
    for (size_t i = 0; i < count; i++) {
        number[0] = (char)(i + 1);
        buffer_append(buffer, number, 1);
    }
    for (size_t i = 0; i <= count; i++) {
        put_be(number, (uint32_t)(i ? changes[i - 1].offset_s : offset_s), 4);
        number[4] = number[5] = 0;
        buffer_append(buffer, number, 6);
    }
    buffer_append(buffer, "XYZ", 4);
    buffer_append_text(buffer, "\n");
    buffer_append_text(buffer, footer);
    buffer_append_text(buffer, "\n");
}

/* A zone that follows a rule in all its years: "CET-1CEST,M3.5.0,M10.5.0/3". NULL when refused. */
static inline struct zone *zone_testing_rule(const char *rule)
{
    struct zone *zone = NULL;
    struct buffer buffer;

    buffer_init(&buffer);
    zone_testing_file(&buffer, 0, NULL, 0, rule);
    if (buffer_failed(&buffer))
        abort();
    zone_parse(buffer_bytes(&buffer), &zone, NULL);
    buffer_deinit(&buffer);
    return zone;
}

/* The same with changes and, if not NULL, a rule for what comes after. */
static inline struct zone *zone_testing_changes(int32_t offset_s, const struct zone_change *changes,
                                                size_t count, const char *rule)
{
    struct zone *zone = NULL;
    struct buffer buffer;

    buffer_init(&buffer);
    zone_testing_file(&buffer, offset_s, changes, count, rule ? rule : "");
    if (buffer_failed(&buffer))
        abort();
    zone_parse(buffer_bytes(&buffer), &zone, NULL);
    buffer_deinit(&buffer);
    return zone;
}

#endif
