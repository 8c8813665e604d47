/* Looks up names and values in the JSON object of labels. */
#include "timer/labels.h"

#include "base/json.h"

/* Enters the object of labels. Returns false if there are no labels. */
static bool labels_enter(struct json_reader *reader, struct bytes labels)
{
    json_reader_init(reader, labels);
    return labels.size > 0 && json_peek(reader) == JSON_OBJECT && json_enter_object(reader);
}

static bool labels_next(struct json_reader *reader, struct json_string *ret_name,
                        struct json_string *ret_value)
{
    return json_next_member(reader, ret_name) && json_peek(reader) == JSON_STRING &&
           json_read_string(reader, ret_value);
}

static bool labels_is_text(const struct json_string *string, struct bytes text)
{
    char decoded[LABEL_SIZE_MAX];
    size_t size;

    return json_string_decode(string, decoded, sizeof(decoded), &size) &&
           bytes_equal((struct bytes){decoded, size}, text);
}

bool labels_find(struct bytes labels, struct bytes name, char ret_value[LABEL_SIZE_MAX],
                 size_t *ret_size)
{
    struct json_reader reader;

    if (!labels_enter(&reader, labels))
        return false;
    struct json_string its_name, its_value;
    while (labels_next(&reader, &its_name, &its_value))
        if (labels_is_text(&its_name, name))
            return json_string_decode(&its_value, ret_value, LABEL_SIZE_MAX, ret_size);
    return false;
}

bool labels_have(struct bytes labels, struct bytes name, struct bytes value)
{
    char found[LABEL_SIZE_MAX];
    size_t size;

    return labels_find(labels, name, found, &size) &&
           bytes_equal((struct bytes){found, size}, value);
}

/* Like labels_have, for a name and a value that are written as in stored labels, not decoded. */
static bool labels_have_raw(struct bytes labels, struct bytes name, struct bytes value)
{
    struct json_reader reader;

    if (!labels_enter(&reader, labels))
        return false;
    struct json_string its_name, its_value;
    while (labels_next(&reader, &its_name, &its_value))
        if (bytes_equal(its_name.raw, name))
            return bytes_equal(its_value.raw, value);
    return false;
}

bool labels_have_all(struct bytes labels, struct bytes wanted)
{
    struct json_reader reader;

    if (!labels_enter(&reader, wanted))
        return wanted.size == 0;
    struct json_string name, value;
    while (labels_next(&reader, &name, &value))
        if (!labels_have_raw(labels, name.raw, value.raw))
            return false;
    return true;
}
