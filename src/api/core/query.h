/*
 * query.h - reads the query of a request strictly: only known parameters, each once unless it may
 * be repeated. Every fault is reported, with the name of its parameter.
 *
 *     static const struct query_form form = {names, 2, .parameters_max = 8, .take = take};
 *     if (query_read(call->query, room, &form, job, &problem))
 *         call_answer_problem(call, &problem);
 *
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_API_CORE_QUERY_H
#define TICKWHEEL_API_CORE_QUERY_H

#include "api/json/problem.h"
#include "base/time.h"

#define QUERY_PARAMETERS 32 /* maximum of parameters of a form */

/* Parameters of a query. */
struct query_form {
    const char *const *names;
    size_t count;
    uint32_t repeatable; /* bits of the parameters that may be repeated */
    size_t parameters_max;
    /* Takes the value of the parameter names[index]; reports a wrong one by query_fault. */
    void (*take)(void *context, size_t index, struct bytes value, struct problem *problem);
};

/* Decodes the query into `room` (text.size bytes) and passes each parameter to `take`. BAD_REQUEST
 * when the query is malformed or has too many parameters, INVALID when parameters are wrong. */
enum error_code query_read(struct bytes text, char *room, const struct query_form *form,
                           void *context, struct problem *ret_problem);

/* Reports a wrong parameter. */
#define query_fault(problem, name, ...) problem_add(problem, ERROR_INVALID, name, __VA_ARGS__)

/* Reads a whole number from `min` to `max`; reports any other value. */
void query_number(const char *name, struct bytes value, uint64_t min, uint64_t max,
                  uint64_t *ret_number, struct problem *problem);

/* Reads an instant: RFC 3339, or milliseconds since 1970; reports any other value. */
void query_wall(const char *name, struct bytes value, struct wall *ret_wall,
                struct problem *problem);

#endif
