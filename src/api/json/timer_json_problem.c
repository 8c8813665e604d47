/* timer_json_problem.c - problems of a timer's JSON: unknown fields, suggestions and pointers. */
#include "api/json/timer_json_parse.h"

#include "base/utf8.h"

#define NEAR_SIZE_MAX 24 /* longer than any field's name */

enum error_code timer_parse_not_json(struct timer_parse *parse)
{
    return problem_set(parse->problem, ERROR_NOT_JSON, "", "Byte %zu: %s",
                       json_error_offset(&parse->reader), json_error(&parse->reader));
}

enum error_code timer_parse_invalid_error(struct timer_parse *parse, const char *pointer,
                                          const struct error *error)
{
    char first = error->text[0];

    if (first >= 'a' && first <= 'z')
        first = (char)(first - 'a' + 'A');
    return timer_parse_invalid(parse, pointer, "%c%s", first, error->text + 1);
}

void timer_name_text(struct bytes name, char ret_text[TIMER_NAME_TEXT_SIZE])
{
    size_t size = name.size;

    if (size >= TIMER_NAME_TEXT_SIZE)
        size = utf8_cut(name.data, TIMER_NAME_TEXT_SIZE - 4);
    for (size_t i = 0; i < size; i++)
        ret_text[i] = (uint8_t)name.data[i] < 0x20 || name.data[i] == 0x7f ? '?' : name.data[i];
    memcpy(ret_text + size, size < name.size ? "..." : "", size < name.size ? 4 : 1);
}

/* Encodes one byte of a name for a JSON pointer (RFC 6901) in a URL's fragment (RFC 3986). */
static size_t problem_pointer_byte(char c, char ret_text[4])
{
    static const char digits[] = "0123456789ABCDEF";

    if (c == '~' || c == '/') {
        memcpy(ret_text, c == '~' ? "~0" : "~1", 2);
        return 2;
    }
    if ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
        (c && strchr("-._!$&'()*+,;=:@?", c))) {
        ret_text[0] = c;
        return 1;
    }
    ret_text[0] = '%';
    ret_text[1] = digits[(uint8_t)c >> 4];
    ret_text[2] = digits[(uint8_t)c & 15];
    return 3;
}

void timer_pointer(const char *parent, struct bytes name, char *ret_text, size_t capacity)
{
    size_t parent_size = strlen(parent), size = parent_size;

    memcpy(ret_text, parent, parent_size + 1);
    ret_text[size++] = '/';
    for (size_t i = 0; i < name.size; i++) {
        char bytes[4];
        size_t more = problem_pointer_byte(name.data[i], bytes);

        if (size + more >= capacity) {
            ret_text[parent_size] = '\0';
            return;
        }
        memcpy(ret_text + size, bytes, more);
        size += more;
    }
    ret_text[size] = '\0';
}

/* Returns how many letters must be added, removed or changed to make one name of the other. */
static size_t problem_distance(struct bytes a, struct bytes b)
{
    size_t row[NEAR_SIZE_MAX + 1]; /* row[j]: from the letters of `a` so far to j letters of `b` */

    for (size_t j = 0; j <= b.size; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.size; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b.size; j++) {
            size_t best = diagonal + ((a.data[i - 1] | 0x20) != (b.data[j - 1] | 0x20));

            diagonal = row[j];
            if (best > row[j - 1] + 1)
                best = row[j - 1] + 1;
            if (best > row[j] + 1)
                best = row[j] + 1;
            row[j] = best;
        }
    }
    return row[b.size];
}

enum error_code timer_parse_unknown(struct timer_parse *parse, const char *parent,
                                    struct bytes name, const char *const *known, size_t known_count)
{
    char pointer[sizeof(parse->problem->faults[0].pointer)];
    size_t nearest_distance = 1 + name.size / 4; /* a larger distance means another word */

    timer_pointer(parent, name, pointer, sizeof(pointer));
    char text[TIMER_NAME_TEXT_SIZE];
    timer_name_text(name, text);
    const char *nearest = NULL;
    for (size_t i = 0; i < known_count && name.size <= NEAR_SIZE_MAX; i++) {
        size_t off = problem_distance(name, bytes_of(known[i]));

        if (off <= nearest_distance && off < strlen(known[i])) {
            nearest = known[i];
            nearest_distance = off - (off > 0);
        }
    }
    if (nearest)
        return timer_parse_invalid(parse, pointer, "There is no field `%s`: did you mean `%s`?",
                                   text, nearest);
    return timer_parse_invalid(parse, pointer, "There is no field `%s`", text);
}

enum error_code timer_parse_no_memory(struct timer_parse *parse)
{
    return problem_set(parse->problem, ERROR_NO_MEMORY, "", "%s", "");
}

enum error_code timer_parse_prefer_not_json(struct timer_parse *parse, enum error_code code)
{
    if (code == ERROR_INVALID || code == ERROR_TOO_LARGE) {
        json_reader_init(&parse->reader, parse->json);
        if (!json_skip(&parse->reader, NULL) || !json_finish(&parse->reader))
            return timer_parse_not_json(parse);
    }
    return code;
}
