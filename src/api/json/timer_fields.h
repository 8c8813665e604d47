/*
 * timer_fields.h - the table of a timer's fields, timer_fields.def, as C.
 *
 * Threads    None; constants.
 */
#ifndef TICKWHEEL_API_JSON_TIMER_FIELDS_H
#define TICKWHEEL_API_JSON_TIMER_FIELDS_H

#include "base/bytes.h"
#include "base/error.h"
#include "timer/timer.h"

struct timer_parse;

enum timer_field {
#define SERVER(name, ...) FIELD_##name,
#define HIDDEN            SERVER
#define ASKED             SERVER
#include "api/json/timer_fields.def"
    FIELD_COUNT, /* no field */
};

_Static_assert(FIELD_COUNT <= 64, "a bit of a field set for each");

#define TIMER_FIELD_BIT(name) (UINT64_C(1) << FIELD_##name)

/* Effect of a patch on a field. */
enum timer_field_change {
    FIELD_REPLACED, /* the new value replaces the old one */
    FIELD_MERGED,   /* the members of the new object replace those of the old one */
};

/* When an answer has a field. */
enum timer_field_when {
    FIELD_ALWAYS,
    FIELD_CONTENT, /* while timer_keeps_content */
};

struct timer_field_row {
    const char *name;
    /* reads the value in a request; NULL if only the server sets the field */
    enum error_code (*parse)(struct timer_parse *parse);
    uint32_t patch; /* bit of enum timer_patch_field; 0 for none */
    enum timer_field_change change;
    const char *kept; /* reason why null does not remove it; NULL if it does */
    enum timer_field_when when;
    /* appends the member, if the timer has it; NULL if no answer shows the field */
    void (*show)(const struct timer *timer, struct buffer *out);
    const char *text;  /* row of docs/api.md; "" if the field shares the row before; or NULL */
    const char *asked; /* JSON Schema in a request, and in an answer; NULL if it is in none */
    const char *shown;
};

/* Indexed by enum timer_field. */
extern const struct timer_field_row timer_fields[FIELD_COUNT];

/* Returns FIELD_COUNT for a name that no field has. */
enum timer_field timer_field_find(struct bytes name);

/* Appends the rows of docs/api.md, a list in Markdown. */
void timer_fields_format_docs(struct buffer *out);

#define SERVER(name, ...) void timer_show_##name(const struct timer *timer, struct buffer *out);
#define HIDDEN(name, ...) enum error_code timer_parse_##name(struct timer_parse *parse);
#define ASKED(name, ...)  HIDDEN(name) SERVER(name)
#include "api/json/timer_fields.def"

#endif
