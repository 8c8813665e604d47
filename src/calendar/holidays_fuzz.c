/*
 * holidays_fuzz - whatever the text is, a calendar of it keeps its invariants, and the same days
 * written as JSON are the same calendar.
 */
#include "calendar/holidays.h"

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct holidays *holidays_fuzz_again(const struct holidays *holidays)
{
    struct buffer text;
    struct holidays *again;
    size_t count;
    const struct holiday *spans = holidays_all(holidays, &count);

    buffer_init(&text);
    buffer_append_text(&text, "[");
    for (size_t i = 0; i < count; i++) {
        char first[HOLIDAYS_DAY_SIZE], last[HOLIDAYS_DAY_SIZE];

        holidays_format_day(spans[i].first, first);
        holidays_format_day(spans[i].last, last);
        buffer_printf(&text, "%s\"%s/%s\"", i ? "," : "", first, last);
    }
    buffer_append_text(&text, "]");
    CHECK(!buffer_failed(&text));
    CHECK(!holidays_parse(buffer_bytes(&text), &again, NULL));
    buffer_deinit(&text);
    return again;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct holidays *holidays;
    struct error error = {.text = ""};

    if (holidays_parse((struct bytes){(const char *)data, size}, &holidays, &error)) {
        CHECK(*error.text);
        return 0;
    }
    holidays_check(holidays);
    struct holidays *again = holidays_fuzz_again(holidays);
    for (int64_t day = -1; day <= HOLIDAYS_DAY_END; day++)
        CHECK(!holidays_find(holidays, day) == !holidays_find(again, day));
    holidays_leave(again);
    holidays_leave(holidays);
    return 0;
}
