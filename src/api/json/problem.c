/* problem.c - the JSON of a problem, and the HTTP status of each error. */
#include "api/json/problem.h"

#include "base/json.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>

/* Relative to the server, and part of the contract: clients compare it. */
#define TYPE_PREFIX "/problems/"

/* The HTTP status of every error of base/error.h: an error without a row here does not compile. */
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
    STATUS_KEY_IN_USE = 409,
    STATUS_BACKUP_OFF = 409,
    STATUS_BACKUP_RUNS = 409,
    STATUS_BACKUP_EXISTS = 409,
    STATUS_GONE = 410,
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
};

static const uint16_t problem_statuses[] = {
#define X(name, slug, title) [ERROR_##name] = STATUS_##name,
    ERROR_LIST(X)
#undef X
};

/* A text that filled its field may end within a character: removes the incomplete character. */
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

static void problem_append_member(struct buffer *out, const char *name, const char *value)
{
    buffer_append_text(out, name);
    json_append_string(out, bytes_of(value));
}

/* {"pointer":...,"detail":...}, or "parameter" for a parameter of the query. */
static void problem_format_fault(const struct problem_fault *fault, const char *title,
                                 struct buffer *out)
{
    problem_append_member(
        out, fault->pointer[0] == '#' ? "{\"pointer\":" : "{\"parameter\":", fault->pointer);
    problem_append_member(out, ",\"detail\":", fault->detail[0] ? fault->detail : title);
    buffer_append_text(out, "}");
}

void problem_format(const struct problem *problem, struct buffer *out)
{
    const struct problem_fault *first = &problem->faults[0];
    const char *title = error_title(problem->code);

    buffer_append_text(out, "{\"type\":\"" TYPE_PREFIX);
    buffer_append_text(out, error_slug(problem->code));
    problem_append_member(out, "\",\"title\":", title);
    buffer_append_text(out, ",\"status\":");
    buffer_append_u64(out, (uint64_t)problem_status(problem->code));
    if (first->detail[0])
        problem_append_member(out, ",\"detail\":", first->detail);
    if (first->pointer[0]) {
        for (unsigned i = 0; i < problem->fault_count; i++) {
            buffer_append_text(out, i ? "," : ",\"errors\":[");
            problem_format_fault(&problem->faults[i], title, out);
        }
        buffer_append_text(out, "]");
    }
    buffer_append_text(out, "}");
}
