/* field.c - parses values of header fields: media types, what a client accepts, entity tags,
 * preferences. */
#include "http/field.h"

#include <strings.h>

static bool field_equals_caseless(struct bytes text, const char *word)
{
    return text.size == strlen(word) && strncasecmp(text.data, word, text.size) == 0;
}

/* Removes the text up to the next `mark` outside quotes from `rest`, and also the mark. Returns
 * that text. */
static struct bytes field_cut(struct bytes *rest, char mark)
{
    struct bytes piece = *rest;
    bool is_quoted = false;
    size_t i;

    for (i = 0; i < rest->size && (is_quoted || rest->data[i] != mark); i++) {
        if (rest->data[i] == '"')
            is_quoted = !is_quoted;
        else if (is_quoted && rest->data[i] == '\\' && i + 1 < rest->size)
            i++;
    }
    piece.size = i;
    *rest = i < rest->size ? (struct bytes){rest->data + i + 1, rest->size - i - 1}
                           : (struct bytes){rest->data + i, 0};
    return bytes_trim(piece);
}

static struct bytes field_unquote(struct bytes text)
{
    if (text.size >= 2 && text.data[0] == '"' && text.data[text.size - 1] == '"')
        return (struct bytes){text.data + 1, text.size - 2};
    return text;
}

bool http_media_type_is(struct bytes field, const char *type)
{
    if (!field_equals_caseless(field_cut(&field, ';'), type))
        return false;
    while (field.size > 0) {
        struct bytes value = field_cut(&field, ';');
        struct bytes name = field_cut(&value, '=');

        if (field_equals_caseless(name, "charset") &&
            !field_equals_caseless(field_unquote(bytes_trim(value)), "utf-8"))
            return false;
    }
    return true;
}

/* Reads a weight such as "0.25", in thousandths; 0 for an invalid one (RFC 9110, 12.4.2). */
static unsigned field_weight(struct bytes text)
{
    if (text.size == 0 || text.size > 5 || (text.data[0] != '0' && text.data[0] != '1') ||
        (text.size > 1 && text.data[1] != '.'))
        return 0;
    unsigned weight = text.data[0] == '1' ? 1000 : 0;
    unsigned digit = 100;
    for (size_t i = 2; i < text.size; i++, digit /= 10) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return 0;
        weight += (unsigned)(text.data[i] - '0') * digit;
    }
    return weight <= 1000 ? weight : 0;
}

/* Returns the weight of a media range by its parameters. */
static unsigned field_range_weight(struct bytes parameters, const char *version)
{
    unsigned weight = 1000;

    while (parameters.size > 0) {
        struct bytes value = field_cut(&parameters, ';');
        struct bytes name = field_cut(&value, '=');

        value = field_unquote(bytes_trim(value));
        if (field_equals_caseless(name, "version") && !field_equals_caseless(value, version))
            return 0;
        if (field_equals_caseless(name, "q"))
            weight = field_weight(value);
    }
    return weight;
}

unsigned http_accept_weight(struct bytes field, const char *type, const char *version)
{
    unsigned best = 0;

    while (field.size > 0) {
        struct bytes range = field_cut(&field, ',');

        if (!field_equals_caseless(field_cut(&range, ';'), type))
            continue;
        const unsigned weight = field_range_weight(range, version);
        if (weight > best)
            best = weight;
    }
    return best;
}

/* True for bytes that RFC 9110 allows in an entity tag. */
static bool field_is_tag_byte(char byte)
{
    return byte == '!' || (byte >= '#' && byte != 0x7f) || (unsigned char)byte >= 0x80;
}

enum http_tag_kind http_tag_parse(struct bytes field, struct bytes *ret_opaque)
{
    field = bytes_trim(field);
    if (field.size == 1 && field.data[0] == '*')
        return HTTP_TAG_ANY;
    enum http_tag_kind kind = HTTP_TAG_STRONG;
    if (bytes_has_prefix(field, BYTES("W/"))) {
        kind = HTTP_TAG_WEAK;
        field = (struct bytes){field.data + 2, field.size - 2};
    }
    if (field.size < 2 || field.data[0] != '"')
        return HTTP_TAG_BAD;
    size_t i;
    for (i = 1; i < field.size && field.data[i] != '"'; i++)
        if (!field_is_tag_byte(field.data[i]))
            return HTTP_TAG_BAD;
    if (i == field.size)
        return HTTP_TAG_BAD;
    *ret_opaque = (struct bytes){field.data + 1, i - 1};
    field = bytes_trim((struct bytes){field.data + i + 1, field.size - i - 1});
    if (field.size == 0)
        return kind;
    return field.data[0] == ',' ? HTTP_TAG_LIST : HTTP_TAG_BAD;
}

bool http_prefers(struct bytes field, const char *name, const char *value)
{
    while (field.size > 0) {
        struct bytes preference = field_cut(&field, ',');
        struct bytes wanted = field_cut(&preference, ';'); /* the parameters are ignored */
        struct bytes wanted_name = field_cut(&wanted, '=');

        if (field_equals_caseless(wanted_name, name))
            return field_equals_caseless(field_unquote(bytes_trim(wanted)), value);
    }
    return false;
}
