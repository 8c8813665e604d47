/* value.c - looking things up in JSON texts. */
#include "cli/value.h"

bool cli_is_json(struct bytes text, const char **ret_why, size_t *ret_offset)
{
    struct json_reader reader;

    json_reader_init(&reader, text);
    json_skip(&reader, NULL);
    bool is_json = json_finish(&reader);
    if (!is_json && ret_why) {
        *ret_why = json_error(&reader);
        *ret_offset = json_error_offset(&reader);
    }
    return is_json;
}

static size_t value_name(const struct json_string *name, char *to, size_t capacity)
{
    size_t size = 0;

    if (!name->escaped) {
        size = name->raw.size < capacity ? name->raw.size : capacity;
        memcpy(to, name->raw.data, size);
    } else if (!json_string_decode(name, to, capacity, &size)) {
        size = 0;
    }
    return size;
}

void cli_members_init(struct cli_list *list, struct bytes object)
{
    json_reader_init(&list->reader_, object);
    list->is_over_ = object.size == 0 || json_peek(&list->reader_) != JSON_OBJECT ||
                     !json_enter_object(&list->reader_);
}

bool cli_members_next(struct cli_list *list, char name[64], struct bytes *ret_value)
{
    struct json_string found;

    if (list->is_over_ || !json_next_member(&list->reader_, &found))
        return false;
    name[value_name(&found, name, 63)] = '\0';
    return json_skip(&list->reader_, ret_value);
}

struct bytes cli_member(struct bytes object, const char *name)
{
    struct cli_list members;
    struct bytes value;
    char found[64];

    cli_members_init(&members, object);
    while (cli_members_next(&members, found, &value))
        if (strcmp(found, name) == 0)
            return value;
    return (struct bytes){NULL, 0};
}

void cli_list_init(struct cli_list *list, struct bytes array)
{
    json_reader_init(&list->reader_, array);
    list->is_over_ = array.size == 0 || json_peek(&list->reader_) != JSON_ARRAY ||
                     !json_enter_array(&list->reader_);
}

bool cli_list_next(struct cli_list *list, struct bytes *ret_value)
{
    return !list->is_over_ && json_next_element(&list->reader_) &&
           json_skip(&list->reader_, ret_value);
}

void cli_append_value(struct buffer *out, struct bytes value)
{
    struct json_reader reader;
    struct json_string string;

    json_reader_init(&reader, value);
    if (value.size == 0 || json_peek(&reader) != JSON_STRING ||
        !json_read_string(&reader, &string)) {
        buffer_append_bytes(out, value);
        return;
    }
    char *to = buffer_reserve(out, string.raw.size);
    if (!to)
        return;
    size_t size = string.raw.size;
    if (!string.escaped)
        memcpy(to, string.raw.data, size);
    else if (!json_string_decode(&string, to, string.raw.size, &size))
        size = 0;
    out->size += size;
}

bool cli_is_text(struct bytes value, const char *text)
{
    size_t size = strlen(text);

    return value.size == size + 2 && value.data[0] == '"' &&
           memcmp(value.data + 1, text, size) == 0;
}

uint64_t cli_number(struct bytes value, uint64_t otherwise)
{
    uint64_t number = otherwise;

    if (value.size && (value.data[0] == '-' || (value.data[0] >= '0' && value.data[0] <= '9')))
        (void)json_number_u64(value, &number);
    return number;
}
