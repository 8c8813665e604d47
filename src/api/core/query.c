/* query.c - finds the parameters of a query in its form, and collects their faults. */
#include "api/core/query.h"

#include "base/number.h"
#include "calendar/rfc3339.h"
#include "http/target.h"

#include <assert.h>
#include <stdio.h>

static size_t query_index(const struct query_form *form, struct bytes name)
{
    size_t i = 0;

    while (i < form->count && !bytes_equal(name, bytes_of(form->names[i])))
        i++;
    return i;
}

static void query_refuse_unknown(const struct query_form *form, struct bytes name,
                                 struct problem *problem)
{
    char known[160] = "";
    size_t size = 0;

    for (size_t i = 0; i < form->count && size < sizeof(known); i++)
        size += (size_t)snprintf(known + size, sizeof(known) - size, "%s%s",
                                 i == 0                ? ""
                                 : i + 1 < form->count ? ", "
                                                       : " and ",
                                 form->names[i]);
    char shown[64];
    snprintf(shown, sizeof(shown), "%.*s", (int)name.size, name.data);
    query_fault(problem, shown, "The parameters are %s", known);
}

static void query_take(const struct query_form *form, uint32_t *seen, void *context,
                       const struct http_parameter *parameter, struct problem *problem)
{
    size_t index = query_index(form, parameter->name);

    if (index == form->count) {
        query_refuse_unknown(form, parameter->name, problem);
    } else if (*seen & ~form->repeatable & 1u << index) {
        query_fault(problem, form->names[index], "It is given twice");
    } else {
        *seen |= 1u << index;
        form->take(context, index, parameter->value, problem);
    }
}

enum error_code query_read(struct bytes text, char *room, const struct query_form *form,
                           void *context, struct problem *ret_problem)
{
    assert(form->count <= 32 && form->parameters_max <= QUERY_PARAMETERS);
    problem_init(ret_problem);
    struct http_parameter parameters[QUERY_PARAMETERS];
    size_t count;
    if (http_query_parse(text, room, parameters, form->parameters_max, &count))
        return problem_set(ret_problem, ERROR_BAD_REQUEST, "",
                           "The query is malformed, or has more than %zu parameters",
                           form->parameters_max);
    uint32_t seen = 0;
    for (size_t i = 0; i < count; i++)
        query_take(form, &seen, context, &parameters[i], ret_problem);
    return ret_problem->code;
}

void query_number(const char *name, struct bytes value, uint64_t min, uint64_t max,
                  uint64_t *ret_number, struct problem *problem)
{
    uint64_t number;

    if (number_parse(value, 10, &number) && number >= min && number <= max)
        *ret_number = number;
    else
        query_fault(problem, name, "It must be %llu to %llu", (unsigned long long)min,
                    (unsigned long long)max);
}

void query_wall(const char *name, struct bytes value, struct wall *ret_wall,
                struct problem *problem)
{
    struct wall wall;

    if ((number_parse(value, 10, &wall.ms) || !rfc3339_parse(value, &wall, NULL)) &&
        wall.ms <= WALL_MS_MAX)
        *ret_wall = wall;
    else
        query_fault(problem, name, "It must be a time of RFC 3339, or milliseconds since 1970");
}
