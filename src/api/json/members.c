/* members.c - reads a flat JSON object into the raw values of its fields. */
#include "api/json/members.h"

#include "api/json/strict.h"

enum {
    NAME_ROOM = 64, /* no field has a longer name */
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
        else
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
