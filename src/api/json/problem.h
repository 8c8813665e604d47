/*
 * problem.h - what is wrong with a request: RFC 9457 problem details with a pointer to the field.
 */
#ifndef TICKWHEEL_API_JSON_PROBLEM_H
#define TICKWHEEL_API_JSON_PROBLEM_H

#include "base/bytes.h"
#include "base/error.h"

struct problem {
    enum error_code code;
    char pointer[128]; /* JSON pointer in fragment form to the field, "#/retry/base"; empty: none */
    char detail[256];  /* one sentence for people; empty: the title says it all */
};

/* Fills `ret_problem` and returns `code`. */
enum error_code problem_set(struct problem *ret_problem, enum error_code code, const char *pointer,
                            const char *detail_format, ...) __attribute__((format(printf, 4, 5)));

/* Appends {"type":...,"title":...,"status":...,"detail":...,"errors":[...]}, without a newline. */
void problem_format(const struct problem *problem, struct buffer *out);

#endif
