/* Reads a host name as an address in every spelling that a resolver accepts. */
#include "delivery/guard_host.h"

#include "base/hex.h"
#include "base/number.h"
#include "base/percent.h"

#include <arpa/inet.h>
#include <netinet/in.h>

/* Maximum size of a host. It exceeds that of any host name, even of 253 characters in
 * percent-encoded UTF-8. */
#define GUARD_HOST_SIZE_MAX 2048

/* Stands for any character beyond ASCII that IDNA does not map to ASCII. It can be part of a name,
 * but not of an address. */
#define OTHER '\x80'

/* Decodes percent-encoding once. Returns the size; -1 for a percent sign without two digits. */
static int guard_host_decode_percent(struct bytes host, char ret_text[GUARD_HOST_SIZE_MAX])
{
    int size = 0;

    for (size_t i = 0; i < host.size; i++) {
        char c = host.data[i];

        if (c == '%') {
            int decoded = percent_byte(host, i);

            if (decoded < 0)
                return -1;
            c = (char)decoded;
            i += 2;
        }
        ret_text[size++] = c;
    }
    return size;
}

/* ---- characters beyond ASCII ---- */

/* Part of the mapping by which IDNA (Unicode TS 46) replaces characters that only look different. A
 * row maps `count` characters from `first` on: to the numbers from `number` on, or to the
 * characters from `sign` on, followed by a dot if `dot` is set. The table is not complete:
 * addresses are checked again at connect. */
static const struct fold {
    uint32_t first;
    uint8_t count;
    char sign; /* 0 if the row maps to numbers */
    uint8_t number;
    char dot; /* '.' or 0 */
} folds[] = {
    {0xff01, 94, '!', 0, 0}, /* full width, all of ASCII */
    {0x3002, 1, '.', 0, 0},  /* ideographic full stop */
    {0xff61, 1, '.', 0, 0},  /* its half width form */
    {0x2024, 1, '.', 0, 0},  /* one dot leader */
    {0x00b2, 2, 0, 2, 0},    /* superscript digits */
    {0x00b9, 1, 0, 1, 0},    /* " */
    {0x2070, 1, 0, 0, 0},    /* " */
    {0x2074, 6, 0, 4, 0},    /* " */
    {0x2080, 10, 0, 0, 0},   /* subscript digits */
    {0x24ea, 1, 0, 0, 0},    /* circled numbers */
    {0x2460, 20, 0, 1, 0},   /* " */
    {0x3251, 15, 0, 21, 0},  /* " */
    {0x32b1, 15, 0, 36, 0},  /* " */
    {0x2488, 20, 0, 1, '.'}, /* numbers with a full stop */
    {0x24b6, 26, 'a', 0, 0}, /* circled letters */
    {0x24d0, 26, 'a', 0, 0}, /* " */
    {0x210e, 1, 'h', 0, 0},  /* letters used as symbols */
    {0x2113, 1, 'l', 0, 0},  /* " */
    {0x2134, 1, 'o', 0, 0},  /* " */
    {0x017f, 1, 's', 0, 0},  /* long s */
    {0x1fbf0, 10, 0, 0, 0},  /* segmented digits */
};

/* True for soft hyphens, joiners, variation selectors and the like, which the mapping omits. */
static bool guard_host_is_ignored(uint32_t c)
{
    return c == 0x00ad || c == 0x034f || (c >= 0x200b && c <= 0x200d) || c == 0x2060 ||
           c == 0x2064 || c == 0xfeff || (c >= 0xfe00 && c <= 0xfe0f);
}

/* Writes what the character is mapped to. Returns the size, at most 3. */
static size_t guard_host_fold_character(uint32_t c, char ret_text[3])
{
    if (guard_host_is_ignored(c))
        return 0;
    /* mathematical letters: alphabets of capitals and small letters */
    if (c >= 0x1d400 && c < 0x1d6a4) {
        ret_text[0] = (char)('a' + (c - 0x1d400) % 26);
        return 1;
    }
    if (c >= 0x1d7ce && c < 0x1d800) { /* mathematical digits */
        ret_text[0] = (char)('0' + (c - 0x1d7ce) % 10);
        return 1;
    }
    size_t size = 0;
    for (size_t i = 0; i < sizeof(folds) / sizeof(folds[0]); i++) {
        const struct fold *fold = &folds[i];
        uint32_t index = c - fold->first;

        if (c < fold->first || index >= fold->count)
            continue;
        if (fold->sign) {
            ret_text[size++] = (char)((uint32_t)fold->sign + index);
        } else {
            if (fold->number + index >= 10)
                ret_text[size++] = (char)('0' + (fold->number + index) / 10);
            ret_text[size++] = (char)('0' + (fold->number + index) % 10);
        }
        if (fold->dot)
            ret_text[size++] = fold->dot;
        return size;
    }
    ret_text[0] = OTHER;
    return 1;
}

/* Decodes the first character of a text that does not begin with ASCII. Returns its size; 0 if it
 * is not valid UTF-8, as overlong forms and surrogates. */
static size_t guard_host_decode_utf8(const char *text, size_t size, uint32_t *ret_character)
{
    uint8_t lead = (uint8_t)text[0];
    size_t width = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t c = lead & (0xffu >> (width + 1));

    if (lead < 0xc2 || lead > 0xf4 || size < width)
        return 0;
    for (size_t i = 1; i < width; i++) {
        if (((uint8_t)text[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | ((uint8_t)text[i] & 0x3f);
    }
    if (c < least[width] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    *ret_character = c;
    return width;
}

/* Maps `text` in place to lower-case ASCII and OTHER. The text never grows, because a character
 * that is mapped to three bytes has at least three. Returns the new size; -1 if it is not UTF-8. */
static int guard_host_fold_text(char *text, int size)
{
    int to = 0;

    for (int from = 0; from < size;) {
        uint32_t c = (uint8_t)text[from];
        size_t width = 1, count = 1;
        char folded[3] = {(char)c};

        if (c >= 0x80) {
            width = guard_host_decode_utf8(text + from, (size_t)(size - from), &c);
            if (width == 0)
                return -1;
            count = guard_host_fold_character(c, folded);
        }
        from += (int)width;
        for (size_t i = 0; i < count; i++) {
            char folded_char = folded[i];

            if (folded_char >= 'A' && folded_char <= 'Z')
                folded_char = (char)(folded_char - 'A' + 'a');
            text[to++] = folded_char;
        }
    }
    return to;
}

/* ---- addresses ---- */

/* Parses one number of an IPv4 address: 0x.. hex, 0.. octal, otherwise decimal. */
static bool guard_host_parse_number(const char *text, size_t size, uint64_t *ret_value)
{
    unsigned base = 10;

    if (size > 2 && text[0] == '0' && text[1] == 'x') {
        base = 16;
        text += 2;
        size -= 2;
    } else if (size > 1 && text[0] == '0') {
        base = 8;
    }
    return number_parse((struct bytes){text, size}, base, ret_value) && *ret_value <= UINT32_MAX;
}

/* Parses an IPv4 address like inet_aton: up to four numbers, of which the last fills all remaining
 * bytes. */
static bool guard_host_parse_ipv4(const char *text, size_t size, uint8_t ret_address[4])
{
    uint64_t address = 0;
    const char *end = text + size;

    for (unsigned part = 0; part < 4; part++) {
        const char *dot = memchr(text, '.', (size_t)(end - text));
        const char *part_end = dot ? dot : end;

        uint64_t number;
        if (!guard_host_parse_number(text, (size_t)(part_end - text), &number))
            return false;
        if (!dot) {
            if (number >> (8 * (4 - part)) != 0)
                return false;
            put_be(ret_address, address << (8 * (4 - part)) | number, 4);
            return true;
        }
        if (number > 255)
            return false;
        address = address << 8 | number;
        text = dot + 1;
    }
    return false; /* more than four numbers */
}

/* Parses an IPv6 address, with or without a zone. */
static bool guard_host_parse_ipv6(struct bytes host, uint8_t ret_address[16])
{
    const char *zone = memchr(host.data, '%', host.size);
    size_t size = zone ? (size_t)(zone - host.data) : host.size;
    char text[INET6_ADDRSTRLEN];

    if (size >= sizeof(text) || (zone && size + 1 == host.size) ||
        memchr(host.data, '\0', host.size))
        return false;
    for (size_t i = size; i < host.size; i++)
        if ((uint8_t)host.data[i] <= ' ' || strchr("[]/?#@\\:", host.data[i]))
            return false;
    memcpy(text, host.data, size);
    text[size] = '\0';
    return inet_pton(AF_INET6, text, ret_address) == 1;
}

/* ---- names ---- */

/* True if the text is a host name: letters, digits, hyphens and underscores in labels of 1 to 63,
 * separated by single dots. A final dot must have been removed. */
static bool guard_host_is_name(const char *text, size_t size)
{
    size_t label_size = 0;

    for (size_t i = 0; i < size; i++) {
        char c = text[i];

        if (c == '.') {
            if (label_size == 0)
                return false;
            label_size = 0;
            continue;
        }
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_' &&
            c != OTHER)
            return false;
        if (++label_size > 63)
            return false;
    }
    return label_size > 0;
}

/* True if the last label is a number. No top-level domain is a number, so the text is meant as an
 * address (the URL Standard's "ends in a number"). */
static bool guard_host_ends_in_number(const char *text, size_t size)
{
    const char *dot = memrchr(text, '.', size);
    const char *label = dot ? dot + 1 : text;
    size_t label_size = (size_t)(text + size - label), i = 0;

    if (label_size >= 2 && label[0] == '0' && label[1] == 'x') {
        for (i = 2; i < label_size && hex_digit(label[i]) >= 0; i++)
            continue;
        return i == label_size;
    }
    for (i = 0; i < label_size && label[i] >= '0' && label[i] <= '9'; i++)
        continue;
    return i == label_size;
}

static bool guard_host_is_localhost(const char *text, size_t size)
{
    static const char *const names[] = {"localhost", "localhost.localdomain", "localhost6",
                                        "ip6-localhost", "ip6-loopback"};
    static const char below[] = ".localhost";
    size_t below_size = sizeof(below) - 1;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (size == strlen(names[i]) && memcmp(text, names[i], size) == 0)
            return true;
    return size > below_size && memcmp(text + size - below_size, below, below_size) == 0;
}

enum guard_host guard_host_parse(struct bytes host, uint8_t ret_address[16])
{
    uint8_t address[16] = {[10] = 0xff, 0xff};
    bool is_bracketed = host.size >= 2 && host.data[0] == '[' && host.data[host.size - 1] == ']';

    if (host.size == 0 || host.size > GUARD_HOST_SIZE_MAX)
        return GUARD_HOST_INVALID;
    if (is_bracketed || memchr(host.data, ':', host.size)) {
        if (is_bracketed)
            host = (struct bytes){host.data + 1, host.size - 2};
        return guard_host_parse_ipv6(host, ret_address) ? GUARD_HOST_ADDRESS : GUARD_HOST_INVALID;
    }
    char text[GUARD_HOST_SIZE_MAX];
    int size = guard_host_decode_percent(host, text);
    if (size >= 0)
        size = guard_host_fold_text(text, size);
    if (size > 0 && text[size - 1] == '.')
        size--;
    if (size <= 0 || !guard_host_is_name(text, (size_t)size))
        return GUARD_HOST_INVALID;
    if (guard_host_ends_in_number(text, (size_t)size)) {
        if (!guard_host_parse_ipv4(text, (size_t)size, address + 12))
            return GUARD_HOST_INVALID;
        memcpy(ret_address, address, sizeof(address));
        return GUARD_HOST_ADDRESS;
    }
    return guard_host_is_localhost(text, (size_t)size) ? GUARD_HOST_LOCALHOST : GUARD_HOST_NAME;
}
