/* holidays_parse.c - reads calendars of holidays: the form in JSON, and the choice of the form. */
#include "base/json.h"
#include "calendar/holidays.h"
#include "calendar/ical.h"

/* ---- the form in JSON ---- */

/* Reads a string into `room`, decoded. */
static bool holidays_read_string(struct json_reader *reader, struct buffer *room,
                                 struct bytes *ret_text)
{
    struct json_string string;

    if (json_peek(reader) != JSON_STRING || !json_read_string(reader, &string))
        return false;
    *ret_text = string.raw;
    if (!string.escaped)
        return true;
    buffer_clear(room);
    char *text = buffer_reserve(room, string.raw.size);
    ret_text->data = text;
    return text && json_string_decode(&string, text, string.raw.size, &ret_text->size);
}

static enum error_code holidays_wrong_element(size_t index, const char *what,
                                              struct error *ret_error)
{
    return error_set(ret_error, ERROR_INVALID, "element %zu %s", index + 1, what);
}

struct holidays_element {
    struct bytes date, name;
};

static bool holidays_read_element(struct json_reader *reader, struct buffer rooms[2],
                                  struct holidays_element *ret_element)
{
    struct json_string name;

    *ret_element = (struct holidays_element){0};
    if (json_peek(reader) == JSON_STRING)
        return holidays_read_string(reader, &rooms[0], &ret_element->date);
    bool is_good = json_peek(reader) == JSON_OBJECT && json_enter_object(reader);
    while (is_good && json_next_member(reader, &name)) {
        if (bytes_equal(name.raw, BYTES("date")) && !ret_element->date.data)
            is_good = holidays_read_string(reader, &rooms[0], &ret_element->date);
        else
            is_good = bytes_equal(name.raw, BYTES("name")) && !ret_element->name.data &&
                      holidays_read_string(reader, &rooms[1], &ret_element->name);
    }
    return is_good;
}

static enum error_code holidays_read_elements(struct json_reader *reader, struct buffer rooms[2],
                                              struct holidays_draft *draft, struct error *ret_error)
{
    enum error_code code = ERROR_NONE;

    for (size_t i = 0; !code && json_next_element(reader); i++) {
        struct holidays_element element;
        int64_t first, last;

        if (!holidays_read_element(reader, rooms, &element))
            return holidays_wrong_element(i, "is neither a date nor an object of `date` and `name`",
                                          ret_error);
        if (!holidays_parse_span(element.date, &first, &last))
            return holidays_wrong_element(
                i, "has no date such as 2026-12-25 or 2026-12-24/2027-01-01", ret_error);
        if (bytes_has_control(element.name))
            return holidays_wrong_element(i, "has a name with a control character", ret_error);
        code = holidays_draft_add(draft, first, last, element.name, ret_error);
    }
    return code;
}

static enum error_code holidays_parse_json(struct bytes text, struct holidays_draft *draft,
                                           struct error *ret_error)
{
    struct json_reader reader;
    struct buffer rooms[2];

    json_reader_init(&reader, text);
    if (json_peek(&reader) != JSON_ARRAY || !json_enter_array(&reader))
        return error_set(ret_error, ERROR_INVALID, "it is not a JSON array of dates");
    for (int i = 0; i < 2; i++)
        buffer_init(&rooms[i]);
    enum error_code code = holidays_read_elements(&reader, rooms, draft, ret_error);
    for (int i = 0; i < 2; i++)
        buffer_deinit(&rooms[i]);
    if (!code && !json_finish(&reader))
        code = error_set(ret_error, ERROR_INVALID, "it is not valid JSON: %s", json_error(&reader));
    return code;
}

/* ---- both ---- */

enum error_code holidays_parse(struct bytes text, struct holidays **ret_holidays,
                               struct error *ret_error)
{
    struct holidays_draft draft;

    if (text.size > HOLIDAYS_BYTES_MAX)
        return error_set(ret_error, ERROR_TOO_MANY, "it has more than %d bytes",
                         HOLIDAYS_BYTES_MAX);
    if (bytes_has_prefix(text, BYTES("\xEF\xBB\xBF"))) /* a byte order mark */
        text = (struct bytes){text.data + 3, text.size - 3};
    size_t blank = 0;
    while (blank < text.size && memchr(" \t\r\n", text.data[blank], 4))
        blank++;
    holidays_draft_init(&draft);
    enum error_code code = blank < text.size && text.data[blank] == '['
                               ? holidays_parse_json(text, &draft, ret_error)
                               : ical_parse(text, &draft, ret_error);
    if (!code)
        code = holidays_make(&draft, ret_holidays, ret_error);
    holidays_draft_deinit(&draft);
    return code;
}
