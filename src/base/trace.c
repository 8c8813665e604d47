/* trace.c - reads and writes W3C traceparent fields. */
#include "base/trace.h"

#include "base/hex.h"

/* Offsets of the parts of "00-<trace>-<span>-<flags>". */
enum {
    AT_TRACE = 3,
    AT_SPAN = 36,
    AT_FLAGS = 53,
};

#define FLAG_SAMPLED 1

bool trace_parent_parse(struct bytes field, struct trace_parent *ret_parent)
{
    const char *at = field.data;
    uint64_t version;

    if (field.size < TRACE_PARENT_SIZE || !hex_read(at, 2, &version) || version == 0xff)
        return false;
    if (field.size > TRACE_PARENT_SIZE && (version == 0 || at[TRACE_PARENT_SIZE] != '-'))
        return false;
    if (at[AT_TRACE - 1] != '-' || at[AT_SPAN - 1] != '-' || at[AT_FLAGS - 1] != '-')
        return false;
    struct trace_parent parent;
    uint64_t flags;
    if (!hex_read(at + AT_TRACE, 16, &parent.trace_high) ||
        !hex_read(at + AT_TRACE + 16, 16, &parent.trace_low) ||
        !hex_read(at + AT_SPAN, 16, &parent.span) || !hex_read(at + AT_FLAGS, 2, &flags))
        return false;
    if ((parent.trace_high | parent.trace_low) == 0 || parent.span == 0)
        return false;
    parent.is_sampled = flags & FLAG_SAMPLED;
    *ret_parent = parent;
    return true;
}

void trace_parent_format(const struct trace_parent *parent, char ret_text[TRACE_PARENT_SIZE + 1])
{
    memset(ret_text, '-', TRACE_PARENT_SIZE);
    ret_text[TRACE_PARENT_SIZE] = '\0';
    hex_write(ret_text, 2, 0);
    hex_write(ret_text + AT_TRACE, 16, parent->trace_high);
    hex_write(ret_text + AT_TRACE + 16, 16, parent->trace_low);
    hex_write(ret_text + AT_SPAN, 16, parent->span);
    hex_write(ret_text + AT_FLAGS, 2, parent->is_sampled ? FLAG_SAMPLED : 0);
}

static uint64_t trace_not_zero(struct random *random)
{
    uint64_t value;

    do
        value = random_next(random);
    while (value == 0);
    return value;
}

struct trace_parent trace_parent_new(struct random *high, struct random *low, bool is_sampled)
{
    return (struct trace_parent){
        .trace_high = random_next(high),
        .trace_low = trace_not_zero(low),
        .span = trace_not_zero(high),
        .is_sampled = is_sampled,
    };
}
