/* head.c - the strict parser of request heads. */
#include "http/head.h"

#include <strings.h>

enum {
    LENGTH_DIGITS_MAX = 19, /* maximum of digits of a length, which fits into 64 bits */
};

/* Fields that say where the request ends and for which host it is. */
struct head_framing {
    unsigned hosts, lengths, codings;
    struct bytes length, coding; /* values of the last Content-Length and Transfer-Encoding */
    bool closes, keeps_alive;    /* options in Connection */
};

/* A set of bytes below 0x80: a bit for each, 32 to a word. */
typedef const uint32_t head_set[4];

static inline bool head_is_in(head_set set, char byte)
{
    const unsigned char index = (unsigned char)byte;

    return index < 0x80 && (set[index / 32] >> index % 32 & 1);
}

bool head_is_token_byte(char byte)
{
    /* Letters, digits and !#$%&'*+-.^_`|~ */
    static head_set token = {0, 0x03ff6cfa, 0xc7fffffe, 0x57ffffff};

    return head_is_in(token, byte);
}

bool head_is_value_byte(char byte)
{
    return ((unsigned char)byte >= ' ' && byte != 0x7f) || byte == '\t';
}

static bool head_is_target_byte(char byte)
{
    return byte > ' ' && byte < 0x7f;
}

/* True if a host may contain the byte: all bytes of a target except /?#@\"<>, and except the comma,
 * at which some programs would end one host and begin another. */
static bool head_is_host_byte(char byte)
{
    static head_set host = {0, 0x2fff6ff2, 0xeffffffe, 0x7fffffff};

    return head_is_in(host, byte);
}

enum head_result head_find_end(struct bytes text, size_t max, size_t *seen, size_t *ret_size)
{
    const size_t size = text.size < max ? text.size : max;

    if (size > 0 && !head_is_token_byte(text.data[0]))
        return HEAD_BAD;
    while (*seen < size) {
        const char *feed = memchr(text.data + *seen, '\n', size - *seen);
        if (!feed) {
            *seen = size;
            break;
        }
        const size_t at = (size_t)(feed - text.data);
        *seen = at + 1;
        if (at == 0 || text.data[at - 1] != '\r')
            return HEAD_BAD;
        if (at >= 3 && text.data[at - 2] == '\n') {
            *ret_size = at + 1;
            return HEAD_WHOLE;
        }
    }
    return size < max ? HEAD_MORE : HEAD_TOO_LARGE;
}

/* Returns how many bytes from `at` on satisfy `is_of_kind`. */
static uint32_t head_span(struct bytes text, size_t at, bool (*is_of_kind)(char byte))
{
    size_t end = at;

    while (end < text.size && is_of_kind(text.data[end]))
        end++;
    return (uint32_t)(end - at);
}

static bool head_has(struct bytes text, size_t at, struct bytes wanted)
{
    return text.size - at >= wanted.size && memcmp(text.data + at, wanted.data, wanted.size) == 0;
}

/* Parses the request line. Returns the offset after it; 0 if it is invalid. */
static size_t head_parse_line(struct bytes text, struct head *head)
{
    head->method = (struct head_part){0, head_span(text, 0, head_is_token_byte)};
    size_t at = head->method.size;
    if (at == 0 || !head_has(text, at, BYTES(" ")))
        return 0;
    at++;
    head->target = (struct head_part){(uint32_t)at, head_span(text, at, head_is_target_byte)};
    at += head->target.size;
    if (head->target.size == 0)
        return 0;
    head->is_http_1_0 = head_has(text, at, BYTES(" HTTP/1.0\r\n"));
    if (!head->is_http_1_0 && !head_has(text, at, BYTES(" HTTP/1.1\r\n")))
        return 0;
    return at + sizeof(" HTTP/1.1\r\n") - 1;
}

/* Parses one field line. Returns the offset after it; 0 if it is invalid. */
static size_t head_parse_field(struct bytes text, size_t at, struct head_field *ret_field)
{
    const uint32_t name_size = head_span(text, at, head_is_token_byte);
    size_t colon = at + name_size;

    if (name_size == 0 || !head_has(text, colon, BYTES(":")))
        return 0;
    size_t begin = colon + 1, end = begin + head_span(text, begin, head_is_value_byte);
    const size_t next = end + 2;
    if (!head_has(text, end, BYTES("\r\n")))
        return 0;
    while (begin < end && bytes_is_blank(text.data[begin]))
        begin++;
    while (end > begin && bytes_is_blank(text.data[end - 1]))
        end--;
    ret_field->name = (struct head_part){(uint32_t)at, name_size};
    ret_field->value = (struct head_part){(uint32_t)begin, (uint32_t)(end - begin)};
    return next;
}

static bool head_is_word(struct bytes text, struct bytes word)
{
    return text.size == word.size && strncasecmp(text.data, word.data, word.size) == 0;
}

static void head_note_connection(struct head_framing *framing, struct bytes value)
{
    while (value.size > 0) {
        const struct bytes option = bytes_trim(bytes_cut(&value, ','));

        framing->closes |= head_is_word(option, BYTES("close"));
        framing->keeps_alive |= head_is_word(option, BYTES("keep-alive"));
    }
}

static bool head_is_host(struct bytes value)
{
    return head_span(value, 0, head_is_host_byte) == value.size;
}

/* Stores a field that frames the request. Returns false if it is invalid. */
static bool head_note(struct head *head, struct head_framing *framing, struct bytes name,
                      struct bytes value)
{
    switch (name.size) { /* quick, because most field names have none of these lengths */
    case 4:
        if (!head_is_word(name, BYTES("Host")))
            break;
        framing->hosts++;
        return head_is_host(value);
    case 6:
        if (head_is_word(name, BYTES("Expect")))
            head->expects_continue |= head_is_word(value, BYTES("100-continue"));
        break;
    case 10:
        if (head_is_word(name, BYTES("Connection")))
            head_note_connection(framing, value);
        break;
    case 14:
        if (!head_is_word(name, BYTES("Content-Length")))
            break;
        framing->lengths++;
        framing->length = value;
        break;
    case 17:
        if (!head_is_word(name, BYTES("Transfer-Encoding")))
            break;
        framing->codings++;
        framing->coding = value;
        break;
    default:
        break;
    }
    return true;
}

static bool head_read_length(struct bytes text, uint64_t *ret_length)
{
    uint64_t length = 0;

    if (text.size == 0 || text.size > LENGTH_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        length = length * 10 + (uint64_t)(text.data[i] - '0');
    }
    *ret_length = length;
    return true;
}

/* Derives the framing from the stored fields. Returns false if they contradict each other; by such
 * requests attackers get a second request past a proxy. HTTP/1.1 has exactly one Host, HTTP/1.0 at
 * most one and no codings. */
static bool head_conclude(struct head *head, const struct head_framing *framing)
{
    if (framing->hosts > 1 || (framing->hosts == 0 && !head->is_http_1_0))
        return false;
    if (framing->lengths + framing->codings > 1 || (framing->codings && head->is_http_1_0))
        return false;
    head->is_chunked = framing->codings > 0;
    if (head->is_chunked && !head_is_word(framing->coding, BYTES("chunked")))
        return false;
    if (framing->lengths && !head_read_length(framing->length, &head->content_length))
        return false;
    head->expects_continue &= !head->is_http_1_0 && (head->is_chunked || head->content_length > 0);
    head->keeps_alive = !framing->closes && (framing->keeps_alive || !head->is_http_1_0);
    return true;
}

enum head_result head_parse(struct bytes text, struct head *ret_head)
{
    struct head *head = ret_head;
    struct head_framing framing = {0};

    head->content_length = 0;
    head->expects_continue = false;
    head->field_count = 0;
    size_t at = head_parse_line(text, head);
    if (at == 0)
        return HEAD_BAD;
    while (!head_has(text, at, BYTES("\r\n"))) {
        if (head->field_count == HEAD_FIELDS_MAX)
            return HEAD_TOO_LARGE;
        struct head_field *field = &head->fields[head->field_count];
        at = head_parse_field(text, at, field);
        if (at == 0 || !head_note(head, &framing, head_part(text.data, field->name),
                                  head_part(text.data, field->value)))
            return HEAD_BAD;
        head->field_count++;
    }
    return at + 2 == text.size && head_conclude(head, &framing) ? HEAD_WHOLE : HEAD_BAD;
}
