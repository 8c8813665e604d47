/* members.c - reads a flat JSON object into the raw values of its fields. */
#include "api/json/members.h"

#include "api/json/strict.h"

enum {
    NAME_ROOM = 64, /* longer than any field's name */
};

static enum error_code members_read_members(struct timer_parse *parse, const char *const *names,
                                            size_t count, struct bytes *ret_values)
{
    if (json_peek(&parse->reader) != JSON_OBJECT)
        return timer_parse_invalid(parse, "#", "It must be an object");
    (void)json_enter_object(&parse->reader);
    struct json_string raw;
    struct bytes value;
    enum error_code code = ERROR_NONE;
    while (json_next_member(&parse->reader, &raw) && json_skip(&parse->reader, &value)) {
        char local[NAME_ROOM];
        struct bytes name = timer_member_name(&raw, local, sizeof(local));
        size_t field = 0;

        while (field < count && !bytes_equal(name, bytes_of(names[field])))
            field++;
        if (field == count)
            code = timer_parse_unknown(parse, "#", name, names, count);
        else if (ret_values[field].data)
            code = strict_twice(parse, "#", name);
        else if (!bytes_equal(value, BYTES("null"))) /* like a missing field */
            ret_values[field] = value;
        if (parse->problem->fault_count == PROBLEM_FAULTS)
            break;
    }
    return code;
}

enum error_code members_read(struct bytes json, const char *const *names, size_t count,
                             struct bytes *ret_values, struct problem *ret_problem)
{
    struct timer_parse parse = {.problem = ret_problem, .json = json};

    for (size_t i = 0; i < count; i++)
        ret_values[i] = (struct bytes){0};
    problem_init(ret_problem);
    json_reader_init(&parse.reader, json);
    if (!json_skip(&parse.reader, NULL) || !json_finish(&parse.reader))
        return timer_parse_not_json(&parse);
    json_reader_init(&parse.reader, json);
    return members_read_members(&parse, names, count, ret_values);
}

enum error_code members_count_strings(struct bytes value, const char *pointer, size_t min,
                                      size_t max, size_t *ret_count, struct problem *ret_problem)
{
    static const char wrong[] = "It must be an array of strings";
    struct json_reader reader;

    json_reader_init(&reader, value);
    if (json_peek(&reader) != JSON_ARRAY)
        return problem_set(ret_problem, ERROR_INVALID, pointer, "%s", wrong);
    (void)json_enter_array(&reader);
    size_t count = 0;
    for (; json_next_element(&reader); count++) {
        if (json_peek(&reader) != JSON_STRING)
            return problem_set(ret_problem, ERROR_INVALID, pointer, "%s", wrong);
        (void)json_skip(&reader, NULL);
    }
    if (count > max && min == 0)
        return problem_set(ret_problem, ERROR_INVALID, pointer, "It may have at most %zu elements",
                           max);
    if (count < min || count > max)
        return problem_set(ret_problem, ERROR_INVALID, pointer, "It must have %zu to %zu elements",
                           min, max);
    *ret_count = count;
    return ERROR_NONE;
}
