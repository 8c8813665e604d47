/* error.c - the names of error codes, and errors with a text. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *slug, *title;
} error_table[] = {
#define X(name, slug, title) {slug, title},
    ERROR_LIST(X)
#undef X
};

const char *error_slug(enum error_code code)
{
    return error_table[code].slug;
}

const char *error_title(enum error_code code)
{
    return error_table[code].title;
}

enum error_code error_set(struct error *ret_error, enum error_code code, const char *format, ...)
{
    if (ret_error) {
        ret_error->code = code;
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(ret_error->text, sizeof(ret_error->text), format, arguments);
        va_end(arguments);
    }
    return code;
}
