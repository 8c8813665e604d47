/* holidays.c - calendars of holidays as sorted spans. */
#include "calendar/holidays.h"

#include "base/check.h"
#include "base/utf8.h"
#include "calendar/calendar.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct holidays {
    atomic_uint holders;
    size_t count;
    char *names;
    struct holiday spans[];
};

/* ---- dates as text ---- */

static bool holidays_parse_digits(const char *text, size_t count, int *ret_number)
{
    *ret_number = 0;
    for (size_t i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *ret_number = *ret_number * 10 + (text[i] - '0');
    }
    return true;
}

static bool holidays_parse_day(struct bytes text, int64_t *ret_day)
{
    int year, month, day;

    if (text.size != 10 || text.data[4] != '-' || text.data[7] != '-' ||
        !holidays_parse_digits(text.data, 4, &year) ||
        !holidays_parse_digits(text.data + 5, 2, &month) ||
        !holidays_parse_digits(text.data + 8, 2, &day) || month < 1 || month > 12 || day < 1 ||
        (unsigned)day > calendar_month_days(year, (unsigned)month))
        return false;
    *ret_day = calendar_days(year, (unsigned)month, (unsigned)day);
    return true;
}

bool holidays_parse_span(struct bytes text, int64_t *ret_first, int64_t *ret_last)
{
    const struct bytes first = bytes_cut(&text, '/');

    if (!holidays_parse_day(first, ret_first))
        return false;
    if (first.data + first.size == text.data + text.size) {
        *ret_last = *ret_first;
        return true;
    }
    return holidays_parse_day(text, ret_last) && *ret_first <= *ret_last;
}

void holidays_format_day(int64_t day, char ret_text[HOLIDAYS_DAY_SIZE])
{
    const struct date date = calendar_date(day);

    snprintf(ret_text, HOLIDAYS_DAY_SIZE, "%04d-%02d-%02d", (int)date.year, date.month, date.day);
}

/* ---- drafts ---- */

void holidays_draft_init(struct holidays_draft *draft)
{
    *draft = (struct holidays_draft){0};
    buffer_init(&draft->names);
}

void holidays_draft_deinit(struct holidays_draft *draft)
{
    free(draft->spans);
    buffer_deinit(&draft->names);
}

static bool holidays_draft_grow(struct holidays_draft *draft)
{
    const size_t capacity = draft->capacity ? draft->capacity * 2 : 64;

    if (draft->count < draft->capacity)
        return true;
    struct holiday *spans = realloc(draft->spans, capacity * sizeof(*spans));
    if (!spans)
        return false;
    draft->spans = spans;
    draft->capacity = capacity;
    return true;
}

/* Cuts a name to its limit, before a byte that begins a character. */
static struct bytes holidays_cut_name(struct bytes name)
{
    if (name.size > HOLIDAYS_NAME_SIZE_MAX)
        name.size = utf8_cut(name.data, HOLIDAYS_NAME_SIZE_MAX);
    return name;
}

/* Returns the offset of a name in the draft, which is that of the last span if both are equal: the
 * instances of one rule follow each other. */
static size_t holidays_draft_name(struct holidays_draft *draft, struct bytes name)
{
    if (draft->count) {
        const struct bytes last = draft->spans[draft->count - 1].name;
        const size_t offset = (size_t)(uintptr_t)last.data;

        if (last.size == name.size &&
            (!name.size || !memcmp(draft->names.data + offset, name.data, name.size)))
            return offset;
    }
    const size_t offset = draft->names.size;
    buffer_append_bytes(&draft->names, name);
    return offset;
}

enum error_code holidays_draft_add(struct holidays_draft *draft, int64_t first, int64_t last,
                                   struct bytes name, struct error *ret_error)
{
    if (first < 0)
        first = 0;
    if (last >= HOLIDAYS_DAY_END)
        last = HOLIDAYS_DAY_END - 1;
    if (first > last)
        return ERROR_NONE;
    if (draft->count == HOLIDAYS_SPANS_MAX)
        return error_set(ret_error, ERROR_TOO_MANY, "it names more than %d days until 2100",
                         HOLIDAYS_SPANS_MAX);
    name = holidays_cut_name(name);
    const size_t offset = holidays_draft_name(draft, name);
    if (buffer_failed(&draft->names) || !holidays_draft_grow(draft))
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory for a calendar");
    draft->spans[draft->count++] = (struct holiday){
        (int32_t)first, (int32_t)last, {(const char *)(uintptr_t)offset, name.size}};
    return ERROR_NONE;
}

/* ---- what a draft becomes ---- */

static int holidays_compare(const void *left, const void *right)
{
    const struct holiday *a = left, *b = right;

    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    /* the order of the text, so that the result does not depend on the sort */
    return (uintptr_t)a->name.data < (uintptr_t)b->name.data
               ? -1
               : (uintptr_t)a->name.data > (uintptr_t)b->name.data;
}

/* Makes the spans disjoint: of one that overlaps an earlier one, only the rest counts. */
enum error_code holidays_make(struct holidays_draft *draft, struct holidays **ret_holidays,
                              struct error *ret_error)
{
    struct holidays *holidays = malloc(sizeof(*holidays) + draft->count * sizeof(struct holiday));

    if (!holidays)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory for a calendar");
    if (draft->count)
        qsort(draft->spans, draft->count, sizeof(draft->spans[0]), holidays_compare);
    atomic_init(&holidays->holders, 1);
    holidays->count = 0;
    holidays->names = draft->names.data;
    buffer_init(&draft->names);
    int32_t from = 0;
    for (size_t i = 0; i < draft->count; i++) {
        struct holiday span = draft->spans[i];

        if (span.first < from)
            span.first = from;
        if (span.first > span.last)
            continue;
        span.name.data = span.name.size ? holidays->names + (uintptr_t)span.name.data : NULL;
        holidays->spans[holidays->count++] = span;
        from = span.last + 1;
    }
    *ret_holidays = holidays;
    return ERROR_NONE;
}

struct holidays *holidays_hold(struct holidays *holidays)
{
    atomic_fetch_add(&holidays->holders, 1);
    return holidays;
}

void holidays_leave(struct holidays *holidays)
{
    if (!holidays || atomic_fetch_sub(&holidays->holders, 1) != 1)
        return;
    free(holidays->names);
    free(holidays);
}

const struct holiday *holidays_find(const struct holidays *holidays, int64_t day)
{
    size_t low = 0, high = holidays->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (holidays->spans[middle].last < day)
            low = middle + 1;
        else
            high = middle;
    }
    return low < holidays->count && holidays->spans[low].first <= day ? &holidays->spans[low]
                                                                      : NULL;
}

const struct holiday *holidays_all(const struct holidays *holidays, size_t *ret_count)
{
    *ret_count = holidays->count;
    return holidays->spans;
}

void holidays_check(const struct holidays *holidays)
{
    CHECK(holidays->holders > 0 && holidays->count <= HOLIDAYS_SPANS_MAX);
    for (size_t i = 0; i < holidays->count; i++) {
        const struct holiday *span = &holidays->spans[i];

        CHECK(span->first >= (i ? span[-1].last + 1 : 0) && span->first <= span->last);
        CHECK(span->last < HOLIDAYS_DAY_END && span->name.size <= HOLIDAYS_NAME_SIZE_MAX);
        CHECK(!bytes_has_control(span->name));
    }
}
