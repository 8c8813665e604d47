/*
 * value.h - values in a JSON text, as slices of it: numbers and payloads keep their bytes.
 *
 *     struct cli_list list;
 *     cli_list_init(&list, cli_member(page, "timers"));
 *     for (struct bytes timer; cli_list_next(&list, &timer);)
 *         cli_append_value(out, cli_member(timer, "id"));
 *
 * The text must have been checked (cli_is_json). A member that is missing is a slice without data.
 *
 * Time       A look-up reads the object up to the member.
 * Threads    Any.
 */
#ifndef TICKWHEEL_CLI_VALUE_H
#define TICKWHEEL_CLI_VALUE_H

#include "base/json.h"

/* True if the text is one JSON value. If not, `ret_why`, which may be NULL, and `ret_offset` say
 * why and where. */
bool cli_is_json(struct bytes text, const char **ret_why, size_t *ret_offset);

/* Returns the value of a member of an object; empty if there is none, or the value is no object. */
struct bytes cli_member(struct bytes object, const char *name);

struct cli_list {
    struct json_reader reader_;
    bool is_over_;
};

/* Walks the elements of an array. Any other value has none. */
void cli_list_init(struct cli_list *list, struct bytes array);
bool cli_list_next(struct cli_list *list, struct bytes *ret_value);

/* Walks the members of an object. Their decoded names are stored in `name`, and cut at its size. */
void cli_members_init(struct cli_list *list, struct bytes object);
bool cli_members_next(struct cli_list *list, char name[64], struct bytes *ret_value);

/* Appends the text of a string without quotes and escapes. Any other value is appended as it is. */
void cli_append_value(struct buffer *out, struct bytes value);

/* True if the value is a string with this text. */
bool cli_is_text(struct bytes value, const char *text);

/* Returns a whole number; `otherwise` if the value is not one. */
uint64_t cli_number(struct bytes value, uint64_t otherwise);

static inline bool cli_is_true(struct bytes value)
{
    return bytes_equal(value, BYTES("true"));
}

#endif
