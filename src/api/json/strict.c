/* strict.c - reads values that several strict bodies have. */
#include "api/json/strict.h"

enum error_code strict_integer(struct timer_parse *parse, const char *pointer, uint64_t min,
                               uint64_t max, uint64_t *ret_value)
{
    enum json_type type = json_peek(&parse->reader);

    if (type == JSON_NONE)
        return timer_parse_not_json(parse);
    if (type != JSON_NUMBER)
        return timer_parse_invalid(parse, pointer, "It must be a number");
    uint64_t value;
    enum error_code code = timer_parse_integer(parse, pointer, &value);
    if (code)
        return code;
    if (value < min || value > max)
        return timer_parse_invalid(parse, pointer, "It must be %llu to %llu",
                                   (unsigned long long)min, (unsigned long long)max);
    *ret_value = value;
    return ERROR_NONE;
}

enum error_code strict_strings(struct timer_parse *parse, const char *pointer, size_t count_max,
                               void (*take)(void *reading, struct bytes text), void *reading)
{
    enum json_type type = json_peek(&parse->reader);

    if (type != JSON_ARRAY && type != JSON_NONE)
        return timer_parse_invalid(parse, pointer, "It must be an array of strings");
    if (type == JSON_NONE || !json_enter_array(&parse->reader))
        return timer_parse_not_json(parse);
    size_t count = 0;
    for (; json_next_element(&parse->reader); count++) {
        struct bytes text;
        enum error_code code = timer_parse_string(parse, pointer, &text);

        if (code)
            return code;
        if (count == count_max)
            return timer_parse_invalid(parse, pointer, "There may be at most %zu", count_max);
        take(reading, text);
    }
    if (json_error(&parse->reader))
        return timer_parse_not_json(parse);
    return count ? ERROR_NONE : timer_parse_invalid(parse, pointer, "There must be at least one");
}

enum error_code strict_twice(struct timer_parse *parse, const char *parent, struct bytes name)
{
    char pointer[64];

    timer_pointer(parent, name, pointer, sizeof(pointer));
    return timer_parse_invalid(parse, pointer, "It is given twice");
}
