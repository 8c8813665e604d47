/*
 * problem.h - the body of an error: RFC 9457 problem details with a pointer to the wrong field.
 */
#ifndef TICKWHEEL_API_JSON_PROBLEM_H
#define TICKWHEEL_API_JSON_PROBLEM_H

#include "base/bytes.h"
#include "base/error.h"

#define PROBLEM_FAULTS 8 /* maximum of faults reported for one request */

struct problem_fault {
    /* JSON pointer in fragment form, "#/retry/base", or the name of a query parameter; empty for
     * none */
    char pointer[128];
    char detail[256]; /* one sentence for people; empty if the title is enough */
};

struct problem {
    enum error_code code;
    unsigned fault_count;
    struct problem_fault faults[PROBLEM_FAULTS]; /* the first always has a value */
};

/* Begins a problem without faults; problem_add may follow. */
void problem_init(struct problem *ret_problem);

/* Fills `ret_problem` with one fault and returns `code`. */
enum error_code problem_set(struct problem *ret_problem, enum error_code code, const char *pointer,
                            const char *detail_format, ...) __attribute__((format(printf, 4, 5)));

/* Adds a fault, up to PROBLEM_FAULTS; the first one sets the code of the problem. Returns
 * `code`. */
enum error_code problem_add(struct problem *problem, enum error_code code, const char *pointer,
                            const char *detail_format, ...) __attribute__((format(printf, 4, 5)));

/* Returns the HTTP status of an answer with this error; 200 for ERROR_NONE. */
int problem_status(enum error_code code);

/* Appends the type and the status of an error as members of the open object. */
void problem_put_error(struct buffer *out, enum error_code code);

/* Appends type, title, status, detail and errors as members of the open object. */
void problem_put(const struct problem *problem, struct buffer *out);

/* Appends the problem as an object, without a newline. */
void problem_format(const struct problem *problem, struct buffer *out);

#endif
