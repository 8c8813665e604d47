/* timer_fields.c - the table of a timer's fields. */
#include "api/json/timer_fields.h"

#include "api/json/timer_json_parse.h"

const struct timer_field_row timer_fields[FIELD_COUNT] = {
#define JSON(...)             #__VA_ARGS__
#define SERVER(name_, shown_) {.name = #name_, .show = timer_show_##name_, .shown = shown_},
#define HIDDEN(name_, patch_, change_, kept_, text_, asked_) \
    {.name = #name_,                                         \
     .parse = timer_parse_##name_,                           \
     .patch = patch_,                                        \
     .change = FIELD_##change_,                              \
     .kept = kept_,                                          \
     .text = text_,                                          \
     .asked = asked_},
#define ASKED(name_, patch_, change_, kept_, when_, text_, asked_, shown_) \
    {.name = #name_,                                                       \
     .parse = timer_parse_##name_,                                         \
     .patch = patch_,                                                      \
     .change = FIELD_##change_,                                            \
     .kept = kept_,                                                        \
     .when = FIELD_##when_,                                                \
     .show = timer_show_##name_,                                           \
     .text = text_,                                                        \
     .asked = asked_,                                                      \
     .shown = shown_},
#include "api/json/timer_fields.def"
};

enum timer_field timer_field_find(struct bytes name)
{
#define SERVER(field, ...)                                                                     \
    if (name.size == sizeof(#field) - 1 && memcmp(name.data, #field, sizeof(#field) - 1) == 0) \
        return FIELD_##field;
#define HIDDEN SERVER
#define ASKED  SERVER
#include "api/json/timer_fields.def"
    return FIELD_COUNT;
}

void timer_fields_format_docs(struct buffer *out)
{
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const char *text = timer_fields[i].text;

        if (!text)
            continue;
        buffer_printf(out, "- `%s`", timer_fields[i].name);
        for (; i + 1 < FIELD_COUNT && timer_fields[i + 1].text && !*timer_fields[i + 1].text; i++)
            buffer_printf(out, ", `%s`", timer_fields[i + 1].name);
        buffer_printf(out, ": %s\n", text);
    }
}
