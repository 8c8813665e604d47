/* problem.c - the JSON of a problem, and the HTTP status of each error. */
#include "api/json/problem.h"

#include "base/json_write.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>

/* Relative to the server, and part of the contract: clients compare it. */
#define TYPE_PREFIX "/problems/"

/* HTTP status of every error of base/error.h: an error without a row here does not compile. */
enum {
    STATUS_NONE = 200,
    STATUS_BAD_REQUEST = 400,
    STATUS_NOT_JSON = 400,
    STATUS_UNAUTHENTICATED = 401,
    STATUS_FORBIDDEN = 403,
    STATUS_FOREIGN_SITE = 403,
    STATUS_NOT_FOUND = 404,
    STATUS_METHOD = 405,
    STATUS_ALREADY_FIRING = 409,
    STATUS_PAUSED = 409,
    STATUS_NOT_LEASED = 409,
    STATUS_KEY_IN_USE = 409,
    STATUS_BACKUP_OFF = 409,
    STATUS_BACKUP_RUNS = 409,
    STATUS_BACKUP_EXISTS = 409,
    STATUS_CLOCK_RUNS = 409,
    STATUS_GONE = 410,
    STATUS_NOT_AWAITED = 410,
    STATUS_VERSION_MISMATCH = 412,
    STATUS_TOO_LARGE = 413,
    STATUS_MEDIA_TYPE = 415,
    STATUS_INVALID = 422,
    STATUS_REQUEST_DIFFERS = 422,
    STATUS_TOO_MANY = 429,
    STATUS_RATE_EXCEEDED = 429,
    STATUS_HEADERS_TOO_LARGE = 431,
    STATUS_INTERNAL = 500,
    STATUS_CORRUPT = 500,
    STATUS_NO_MEMORY = 503,
    STATUS_OVERLOADED = 503,
    STATUS_DISK_FULL = 503,
    STATUS_IO = 503,
    STATUS_UNREADABLE = 503,
    STATUS_IN_DOUBT = 503,
    STATUS_NO_BROKERS = 503,
    STATUS_STOPPING = 503,
    STATUS_CONFIGURED = 409,
};

static const uint16_t problem_statuses[] = {
#define X(name, slug, title) [ERROR_##name] = STATUS_##name,
    ERROR_LIST(X)
#undef X
};

/* Removes an incomplete character at the end of a text that filled its field. */
static void problem_cut_whole(char *text)
{
    const char *end = text + strlen(text);

    for (char *at = text; at < end;) {
        size_t size = utf8_size(at, end);

        if (size == 0) {
            if (end - at < 4)
                *at = '\0';
            return;
        }
        at += size;
    }
}

void problem_init(struct problem *ret_problem)
{
    ret_problem->code = ERROR_NONE;
    ret_problem->fault_count = 0;
    ret_problem->faults[0] = (struct problem_fault){0};
}

static __attribute__((format(printf, 4, 0))) void
problem_append_fault(struct problem *problem, enum error_code code, const char *pointer,
                     const char *detail_format, va_list arguments)
{
    if (problem->fault_count == PROBLEM_FAULTS)
        return;
    if (problem->fault_count == 0)
        problem->code = code;
    struct problem_fault *fault = &problem->faults[problem->fault_count++];
    snprintf(fault->pointer, sizeof(fault->pointer), "%s", pointer);
    problem_cut_whole(fault->pointer);
    vsnprintf(fault->detail, sizeof(fault->detail), detail_format, arguments);
    problem_cut_whole(fault->detail);
}

enum error_code problem_set(struct problem *ret_problem, enum error_code code, const char *pointer,
                            const char *detail_format, ...)
{
    problem_init(ret_problem);
    va_list arguments;
    va_start(arguments, detail_format);
    problem_append_fault(ret_problem, code, pointer, detail_format, arguments);
    va_end(arguments);
    return code;
}

enum error_code problem_add(struct problem *problem, enum error_code code, const char *pointer,
                            const char *detail_format, ...)
{
    va_list arguments;

    va_start(arguments, detail_format);
    problem_append_fault(problem, code, pointer, detail_format, arguments);
    va_end(arguments);
    return code;
}

int problem_status(enum error_code code)
{
    return problem_statuses[code];
}

static void problem_put_type(struct buffer *out, enum error_code code)
{
    json_put_name(out, "type");
    buffer_printf(out, "\"" TYPE_PREFIX "%s\"", error_slug(code));
}

void problem_put_error(struct buffer *out, enum error_code code)
{
    problem_put_type(out, code);
    json_put_number(out, "status", (uint64_t)problem_status(code));
}

void problem_put(const struct problem *problem, struct buffer *out)
{
    const char *title = error_title(problem->code);

    problem_put_type(out, problem->code);
    json_put_text(out, "title", title);
    json_put_number(out, "status", (uint64_t)problem_status(problem->code));
    json_put_some(out, "detail", bytes_of(problem->faults[0].detail));
    if (!problem->faults[0].pointer[0])
        return;
    json_open(out, "errors", '[');
    for (unsigned i = 0; i < problem->fault_count; i++) {
        const struct problem_fault *fault = &problem->faults[i];

        json_open(out, NULL, '{');
        json_put_text(out, fault->pointer[0] == '#' ? "pointer" : "parameter", fault->pointer);
        json_put_text(out, "detail", fault->detail[0] ? fault->detail : title);
        json_close(out, '}');
    }
    json_close(out, ']');
}

void problem_format(const struct problem *problem, struct buffer *out)
{
    json_open(out, NULL, '{');
    problem_put(problem, out);
    json_close(out, '}');
}
