#include "api/json/problem.h"

#include "base/json.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>

/* Relative to the server, and part of the contract: clients compare it. */
#define TYPE_PREFIX "/problems/"

/* A text that filled its field may have lost the end of its last character: drops the rest of it.
 */
static void cut_whole(char *text)
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

enum error_code problem_set(struct problem *ret_problem, enum error_code code, const char *pointer,
                            const char *detail_format, ...)
{
    va_list arguments;

    ret_problem->code = code;
    snprintf(ret_problem->pointer, sizeof(ret_problem->pointer), "%s", pointer);
    va_start(arguments, detail_format);
    vsnprintf(ret_problem->detail, sizeof(ret_problem->detail), detail_format, arguments);
    va_end(arguments);
    cut_whole(ret_problem->detail);
    return code;
}

static void append_member(struct buffer *out, const char *name, const char *value)
{
    buffer_append_text(out, name);
    json_append_string(out, bytes_of(value));
}

void problem_format(const struct problem *problem, struct buffer *out)
{
    const char *detail = problem->detail[0] ? problem->detail : error_title(problem->code);

    buffer_append_text(out, "{\"type\":\"" TYPE_PREFIX);
    buffer_append_text(out, error_slug(problem->code));
    append_member(out, "\",\"title\":", error_title(problem->code));
    buffer_append_text(out, ",\"status\":");
    buffer_append_u64(out, (uint64_t)error_status(problem->code));
    if (problem->detail[0])
        append_member(out, ",\"detail\":", problem->detail);
    if (problem->pointer[0]) {
        append_member(out, ",\"errors\":[{\"pointer\":", problem->pointer);
        append_member(out, ",\"detail\":", detail);
        buffer_append_text(out, "}]");
    }
    buffer_append_text(out, "}");
}
