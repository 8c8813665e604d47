/*
 * trace_fuzz - a field is a traceparent exactly when it is one by the letter of W3C Trace Context,
 * and what is taken is written as that field's first part, in version 00.
 */
#include "base/trace.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

/* The form "vv-tttttttttttttttttttttttttttttttt-ssssssssssssssss-ff", sign by sign. */
static bool trace_fuzz_reference(struct bytes field)
{
    static const char form[] = "hh-hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hh";

    if (field.size < sizeof(form) - 1 || memcmp(field.data, "ff", 2) == 0)
        return false;
    bool is_trace_zero = true, is_span_zero = true;
    for (size_t i = 0; form[i]; i++) {
        char c = field.data[i];

        if (form[i] == '-' ? c != '-' : !c || !strchr("0123456789abcdef", c))
            return false;
        is_trace_zero &= i < 3 || i > 34 || c == '0';
        is_span_zero &= i < 36 || i > 51 || c == '0';
    }
    if (is_trace_zero || is_span_zero)
        return false;
    return field.size == sizeof(form) - 1 ||
           (memcmp(field.data, "00", 2) != 0 && field.data[sizeof(form) - 1] == '-');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes field = {(const char *)data, size};
    struct trace_parent parent;

    REQUIRE(trace_parent_parse(field, &parent) == trace_fuzz_reference(field));
    if (!trace_fuzz_reference(field))
        return 0;
    char text[TRACE_PARENT_SIZE + 1];
    trace_parent_format(&parent, text);
    REQUIRE(memcmp(text, "00", 2) == 0 && memcmp(text + 2, field.data + 2, 51) == 0);
    REQUIRE(parent.is_sampled == !!(strchr("13579bdf", field.data[54]) != NULL));
    return 0;
}
