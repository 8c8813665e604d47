/* zone_parse.c - reads TZif files (RFC 8536). */
#include "calendar/zone_private.h"

#include <stdlib.h>

/*
 * A TZif file is a header and a block of data with times of 32 bits, for old readers; then a header
 * and a block with times of 64 bits; then a footer, the rule between two line ends. Only the second
 * half counts here. Every length is known from its header before anything is read.
 */
enum {
    HEADER_SIZE = 44,
    TIME_COUNT_MAX = 2000,     /* limit of IANA's reference code */
    TYPE_COUNT_MAX = 256,      /* the number of a type is one byte */
    CHARACTER_COUNT_MAX = 512, /* bytes of all abbreviations */
    /* years computed before the rule begins, to find its first offset */
    YEARS_BEFORE = 2,
    /* 400 years, plus the years by which a rule may reach beyond its own */
    YEARS = YEARS_BEFORE + 403,
};

/* begin of 1969; timers need no earlier times */
#define HORIZON  (-INT64_C(365) * SECONDS_PER_DAY)
#define TIME_END INT64_C(253402300800) /* the year 10000 */

struct header {
    char version;
    uint32_t isut_count, isstd_count, leap_count, time_count, type_count, character_count;
};

/* A block of data in the file, and where its parts are. */
struct block {
    struct header header;
    size_t time_size; /* 4 or 8 */
    const char *times, *types, *offsets, *end;
};

static enum error_code zone_parse_invalid(struct error *ret_error, const char *reason)
{
    return error_set(ret_error, ERROR_INVALID, "not a time zone file: %s", reason);
}

static enum error_code zone_parse_read_header(const char *at, struct header *ret,
                                              struct error *ret_error)
{
    if (memcmp(at, "TZif", 4) != 0)
        return zone_parse_invalid(ret_error, "it does not begin with TZif");
    *ret = (struct header){
        at[4],
        (uint32_t)get_be(at + 20, 4),
        (uint32_t)get_be(at + 24, 4),
        (uint32_t)get_be(at + 28, 4),
        (uint32_t)get_be(at + 32, 4),
        (uint32_t)get_be(at + 36, 4),
        (uint32_t)get_be(at + 40, 4),
    };
    if (ret->version < '2')
        return zone_parse_invalid(ret_error, "its version is older than 2");
    if (ret->time_count > TIME_COUNT_MAX || ret->type_count > TYPE_COUNT_MAX ||
        ret->character_count > CHARACTER_COUNT_MAX || ret->leap_count > TIME_COUNT_MAX)
        return zone_parse_invalid(ret_error, "it is over a limit");
    if ((ret->isut_count && ret->isut_count != ret->type_count) ||
        (ret->isstd_count && ret->isstd_count != ret->type_count))
        return zone_parse_invalid(ret_error, "its counts do not agree");
    return ERROR_NONE;
}

/* Reads one half of the file, from `at`. */
static enum error_code zone_parse_read_block(const char *at, const char *end, size_t time_size,
                                             struct block *ret, struct error *ret_error)
{
    struct block block = {.time_size = time_size};

    if (end - at < HEADER_SIZE)
        return zone_parse_invalid(ret_error, "it ends within a header");
    enum error_code code = zone_parse_read_header(at, &block.header, ret_error);
    if (code)
        return code;
    block.times = at + HEADER_SIZE;
    block.types = block.times + block.header.time_count * time_size;
    block.offsets = block.types + block.header.time_count;
    size_t size = block.header.time_count * (time_size + 1) + block.header.type_count * 6 +
                  block.header.character_count + block.header.leap_count * (time_size + 4) +
                  block.header.isstd_count + block.header.isut_count;
    if ((size_t)(end - block.times) < size)
        return zone_parse_invalid(ret_error, "it ends within its data");
    block.end = block.times + size;
    *ret = block;
    return ERROR_NONE;
}

static int64_t zone_parse_time_of(const struct block *block, uint32_t index)
{
    return (int64_t)get_be(block->times + index * block->time_size, 8);
}

static int32_t zone_parse_offset_of(const struct block *block, unsigned type)
{
    return (int32_t)get_be(block->offsets + type * 6, 4);
}

static enum error_code zone_parse_check_block(const struct block *block, struct error *ret_error)
{
    const struct header *header = &block->header;

    if (header->leap_count)
        return zone_parse_invalid(ret_error, "it counts leap seconds, which Unix time does not");
    if (header->type_count == 0 || header->character_count == 0)
        return zone_parse_invalid(ret_error, "it has no types");
    for (uint32_t i = 0; i < header->type_count; i++) {
        const uint8_t *type = (const uint8_t *)block->offsets + i * 6;
        int32_t offset_s = zone_parse_offset_of(block, i);

        if (offset_s <= -ZONE_OFFSET_S_MAX || offset_s >= ZONE_OFFSET_S_MAX)
            return zone_parse_invalid(ret_error, "an offset is larger than 26 hours");
        if (type[4] > 1 || type[5] >= header->character_count)
            return zone_parse_invalid(ret_error, "a type is damaged");
    }
    for (uint32_t i = 0; i < header->time_count; i++) {
        if ((uint8_t)block->types[i] >= header->type_count)
            return zone_parse_invalid(ret_error, "a transition has no type");
        if (i && zone_parse_time_of(block, i) <= zone_parse_time_of(block, i - 1))
            return zone_parse_invalid(ret_error, "its transitions are not in order");
        if (zone_parse_time_of(block, i) >= TIME_END)
            return zone_parse_invalid(ret_error, "a transition lies beyond the year 9999");
    }
    return ERROR_NONE;
}

static int32_t zone_parse_offset_last(const struct zone *zone)
{
    return zone->transition_count ? zone->transitions[zone->transition_count - 1].offset_s
                                  : zone->offset_first_s;
}

/* Skips a transition that changes only the name or the summer flag. */
static void zone_parse_append(struct zone *zone, int64_t at, int32_t offset_s)
{
    if (offset_s != zone_parse_offset_last(zone))
        zone->transitions[zone->transition_count++] = (struct zone_transition){at, offset_s};
}

static void zone_parse_append_table(struct zone *zone, const struct block *block)
{
    zone->offset_first_s = zone_parse_offset_of(block, 0);
    for (uint32_t i = 0; i < block->header.time_count; i++) {
        int32_t offset_s = zone_parse_offset_of(block, (uint8_t)block->types[i]);

        if (zone_parse_time_of(block, i) <= HORIZON)
            zone->offset_first_s = offset_s;
        else
            zone_parse_append(zone, zone_parse_time_of(block, i), offset_s);
    }
}

/* Returns the rule's transitions from `year` on. The start of summer is the first of each pair
 * only if the rule's text says so. */
static size_t zone_parse_list_rule(const struct zone_rule *rule, int year,
                                   struct zone_transition ret_list[2 * YEARS])
{
    size_t count = 0;

    for (int i = 0; i < YEARS; i++) {
        struct zone_transition pair[2] = {{0, rule->offset_s}, {0, rule->summer_offset_s}};

        zone_rule_year(rule, year + i, &pair[1].at, &pair[0].at);
        for (size_t j = 0; j < 2; j++) { /* its place is among the last few */
            size_t place = count++;

            for (; place > 0 && ret_list[place - 1].at > pair[j].at; place--)
                ret_list[place] = ret_list[place - 1];
            ret_list[place] = pair[j];
        }
    }
    return count;
}

/* Appends the transitions of the rule after the table, until they repeat. Returns false if they
 * contradict the end of the table. */
static bool zone_parse_append_rule(struct zone *zone, const struct zone_rule *rule,
                                   int64_t table_end)
{
    struct zone_transition list[2 * YEARS];
    int64_t from = table_end < HORIZON ? HORIZON : table_end;
    int year = calendar_date(floor_divide(from, SECONDS_PER_DAY)).year;
    size_t count = zone_parse_list_rule(rule, year - YEARS_BEFORE, list), i = 0;
    uint32_t first = zone->transition_count;
    int32_t offset_s = rule->offset_s;

    for (; list[i].at <= from; i++)
        offset_s = list[i].offset_s;
    if (table_end < HORIZON)
        zone->offset_first_s = offset_s;
    if (zone_parse_offset_last(zone) != offset_s)
        return false;
    for (; i < count; i++) {
        /* Every change of a rule occurs within two years. */
        if (list[i].at >= (zone->transition_count > first
                               ? zone->transitions[first].at + ZONE_CYCLE_S
                               : from + 2 * 366 * SECONDS_PER_DAY))
            break;
        /* If summer ends when the next one begins, it does not end. */
        if (i + 1 == count || list[i + 1].at > list[i].at)
            zone_parse_append(zone, list[i].at, list[i].offset_s);
    }
    zone->cycle_first = first;
    return true;
}

/* True if each reading has a clear meaning; see zone_check. */
static bool zone_parse_is_well_spaced(const struct zone *zone)
{
    const struct zone_transition *list = zone->transitions;
    uint32_t count = zone->transition_count, first = zone->cycle_first;
    int32_t offset_s = zone->offset_first_s;
    int64_t change_before = 0, change;

    for (uint32_t i = 0; i < count; i++) {
        change = labs(list[i].offset_s - offset_s);
        if (i && list[i].at - list[i - 1].at < change + change_before)
            return false;
        change_before = change;
        offset_s = list[i].offset_s;
    }
    if (first == count)
        return true;
    change = labs(list[first].offset_s - offset_s);
    return list[first].at + ZONE_CYCLE_S - list[count - 1].at >= change + change_before;
}

/* Fills a zone, which has room for all transitions. */
static enum error_code zone_parse_build(struct zone *zone, const struct block *block,
                                        const struct zone_rule *rule, struct error *ret_error)
{
    uint32_t times = block->header.time_count;
    int64_t table_end = times ? zone_parse_time_of(block, times - 1) : INT64_MIN;

    zone_parse_append_table(zone, block);
    zone->cycle_first = zone->transition_count;
    if (rule && !rule->has_summer) {
        if (times == 0)
            zone->offset_first_s = rule->offset_s;
        if (zone_parse_offset_last(zone) != rule->offset_s)
            return zone_parse_invalid(ret_error, "its footer contradicts its table");
    } else if (rule && !zone_parse_append_rule(zone, rule, table_end)) {
        return zone_parse_invalid(ret_error, "its footer contradicts its table");
    }
    if (!zone_parse_is_well_spaced(zone))
        return zone_parse_invalid(ret_error,
                                  "its clocks are changed again too soon after a change");
    return ERROR_NONE;
}

/* Reads "\nCET-1CEST,M3.5.0,M10.5.0/3\n", up to the end of the file. */
static enum error_code zone_parse_read_footer(const char *at, const char *end,
                                              struct bytes *ret_text, struct error *ret_error)
{
    if (end - at < 2 || *at != '\n' || end[-1] != '\n')
        return zone_parse_invalid(ret_error, "its footer is damaged");
    *ret_text = (struct bytes){at + 1, (size_t)(end - at - 2)};
    return ERROR_NONE;
}

enum error_code zone_parse(struct bytes file, struct zone **ret_zone, struct error *ret_error)
{
    const char *end = file.data + file.size;

    if (file.size > ZONE_FILE_SIZE_MAX)
        return zone_parse_invalid(ret_error, "it is too long");
    struct block first;
    enum error_code code = zone_parse_read_block(file.data, end, 4, &first, ret_error);
    struct block second;
    if (!code)
        code = zone_parse_read_block(first.end, end, 8, &second, ret_error);
    if (!code)
        code = zone_parse_check_block(&second, ret_error);
    struct bytes footer;
    if (!code)
        code = zone_parse_read_footer(second.end, end, &footer, ret_error);
    if (code)
        return code;
    struct zone_rule rule = {0};
    if (footer.size && !zone_rule_parse(footer, &rule))
        return zone_parse_invalid(ret_error, "its footer is no rule");

    size_t room = second.header.time_count + (rule.has_summer ? 2 * YEARS : 0);
    struct zone *zone = calloc(1, sizeof(*zone) + room * sizeof(zone->transitions[0]));
    if (!zone)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory for a time zone");
    code = zone_parse_build(zone, &second, footer.size ? &rule : NULL, ret_error);
    if (code) {
        free(zone);
        return code;
    }
    struct zone *smaller =
        realloc(zone, sizeof(*zone) + zone->transition_count * sizeof(zone->transitions[0]));
    *ret_zone = smaller ? smaller : zone;
    return ERROR_NONE;
}
