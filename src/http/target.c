/* target.c - parses request targets and queries, and undoes percent-encoding. */
#include "http/target.h"

#include "base/percent.h"

#include <strings.h>

static bool target_is_target_byte(char byte)
{
    return byte > ' ' && byte < 0x7f && byte != '#';
}

/* Cuts "http://host" off a target in the absolute form. Returns the rest. */
static struct bytes target_take_authority(struct bytes target, struct bytes *ret_authority)
{
    size_t scheme = 0;

    if (target.size >= 7 && strncasecmp(target.data, "http://", 7) == 0)
        scheme = 7;
    else if (target.size >= 8 && strncasecmp(target.data, "https://", 8) == 0)
        scheme = 8;
    *ret_authority = (struct bytes){0};
    if (!scheme)
        return target;
    size_t i;
    for (i = scheme; i < target.size && target.data[i] != '/' && target.data[i] != '?'; i++)
        continue;
    if (i == target.size || target.data[i] == '?')
        return BYTES(""); /* an empty path might mean the root, which is not served in this form */
    *ret_authority = (struct bytes){target.data + scheme, i - scheme};
    return (struct bytes){target.data + i, target.size - i};
}

enum error_code http_target_parse(struct bytes target, struct http_target *ret_target)
{
    for (size_t i = 0; i < target.size; i++)
        if (!target_is_target_byte(target.data[i]))
            return ERROR_BAD_REQUEST;
    target = target_take_authority(target, &ret_target->authority);
    if (target.size == 0 || target.data[0] != '/')
        return ERROR_BAD_REQUEST;
    const char *mark = memchr(target.data, '?', target.size);
    ret_target->path = target;
    ret_target->query = BYTES("");
    if (mark) {
        ret_target->path.size = (size_t)(mark - target.data);
        ret_target->query = (struct bytes){mark + 1, target.size - ret_target->path.size - 1};
    }
    return ERROR_NONE;
}

bool http_path_next(struct bytes *path, struct bytes *ret_segment)
{
    if (path->size == 0 || path->data[0] != '/')
        return false;
    path->data++;
    path->size--;
    const char *slash = path->size ? memchr(path->data, '/', path->size) : NULL;
    *ret_segment = *path;
    if (slash)
        ret_segment->size = (size_t)(slash - path->data);
    path->data += ret_segment->size;
    path->size -= ret_segment->size;
    return true;
}

/* Decodes the text; a '+' becomes `plus`. Returns the number of bytes written, or SIZE_MAX if the
 * text is invalid. */
static size_t target_decode(struct bytes text, char plus, char *room)
{
    size_t size = 0;

    for (size_t i = 0; i < text.size; i++) {
        char byte = text.data[i];

        if (byte == '%') {
            int decoded = percent_byte(text, i);

            if (decoded <= 0)
                return SIZE_MAX;
            byte = (char)decoded;
            i += 2;
        } else if (byte == '+') {
            byte = plus;
        }
        room[size++] = byte;
    }
    return size;
}

enum error_code http_percent_decode(struct bytes text, char *room, struct bytes *ret_text)
{
    size_t size = target_decode(text, '+', room);

    if (size == SIZE_MAX)
        return ERROR_BAD_REQUEST;
    *ret_text = (struct bytes){room, size};
    return ERROR_NONE;
}

enum error_code http_query_parse(struct bytes query, char *room,
                                 struct http_parameter *ret_parameters, size_t max,
                                 size_t *ret_count)
{
    size_t count = 0;

    while (query.size > 0) {
        struct bytes value = bytes_cut(&query, '&');
        struct bytes name = bytes_cut(&value, '=');

        if (name.size == 0 && value.size == 0)
            continue;
        if (count == max)
            return ERROR_BAD_REQUEST;
        size_t name_size = target_decode(name, ' ', room);
        if (name_size == SIZE_MAX)
            return ERROR_BAD_REQUEST;
        size_t value_size = target_decode(value, ' ', room + name_size);
        if (value_size == SIZE_MAX)
            return ERROR_BAD_REQUEST;
        ret_parameters[count].name = (struct bytes){room, name_size};
        ret_parameters[count++].value = (struct bytes){room + name_size, value_size};
        room += name_size + value_size;
    }
    *ret_count = count;
    return ERROR_NONE;
}
