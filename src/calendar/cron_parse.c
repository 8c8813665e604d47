/* cron_parse.c - parses cron expressions into sets of bits. */
#include "calendar/cron.h"

#include <stdarg.h>
#include <stdio.h>

enum field_index { SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELD_COUNT };

struct field {
    const char *name;
    unsigned min, max;
    const char *words; /* three letters each, the first for `word_min` */
    unsigned word_min;
};

static const struct field fields[FIELD_COUNT] = {
    [SECOND] = {"second", 0, 59, "", 0},
    [MINUTE] = {"minute", 0, 59, "", 0},
    [HOUR] = {"hour", 0, 23, "", 0},
    [DAY] = {"day of month", 1, 31, "", 0},
    [MONTH] = {"month", 1, 12, "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC", 1},
    [WEEKDAY] = {"day of week", 0, 6, "SUNMONTUEWEDTHUFRISAT", 0},
};

#define SUNDAY_TOO 7 /* 7 as a day of the week */
#define NUMBER_MAX 999999

struct cron_reader {
    const char *start;          /* begin of the text */
    const char *field_at, *end; /* begin and end of the field */
    const char *at;
    enum field_index index;
    const struct field *field;
    struct cron *cron;
    struct error *error;
};

/* Names the field, and the character of the text at which `at` stands, from 1. */
__attribute__((format(printf, 3, 4))) static enum error_code
cron_parse_refuse(const struct cron_reader *reader, const char *at, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    char reason[128];
    vsnprintf(reason, sizeof(reason), format, arguments);
    va_end(arguments);
    return error_set(reader->error, ERROR_INVALID, "%s, character %zu: %s", reader->field->name,
                     (size_t)(at - reader->start) + 1, reason);
}

static char cron_parse_upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool cron_parse_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes a letter in either case. */
static bool cron_parse_take(struct cron_reader *reader, char c)
{
    if (reader->at == reader->end || cron_parse_upper(*reader->at) != c)
        return false;
    reader->at++;
    return true;
}

static bool cron_parse_is_at_item_end(const struct cron_reader *reader)
{
    return reader->at == reader->end || *reader->at == ',';
}

/* ---- values ---- */

static enum error_code cron_parse_read_number(struct cron_reader *reader, unsigned min,
                                              unsigned max, unsigned *ret_number)
{
    const char *digits = reader->at;
    unsigned number = 0;

    for (; reader->at < reader->end && cron_parse_is_digit(*reader->at); reader->at++)
        if (number <= NUMBER_MAX)
            number = number * 10 + (unsigned)(*reader->at - '0');
    if (reader->at == digits)
        return cron_parse_refuse(reader, digits, "a number from %u to %u is expected", min, max);
    if (number > NUMBER_MAX)
        return cron_parse_refuse(reader, digits, "the number is not in %u-%u", min, max);
    if (number < min || number > max)
        return cron_parse_refuse(reader, digits, "%u is not in %u-%u", number, min, max);
    *ret_number = number;
    return ERROR_NONE;
}

/* Reads a word of the field, such as "JAN". */
static bool cron_parse_read_word(struct cron_reader *reader, unsigned *ret_value)
{
    const char *words = reader->field->words;

    for (unsigned i = 0; words[i] && reader->end - reader->at >= 3; i += 3)
        if (cron_parse_upper(reader->at[0]) == words[i] &&
            cron_parse_upper(reader->at[1]) == words[i + 1] &&
            cron_parse_upper(reader->at[2]) == words[i + 2]) {
            reader->at += 3;
            *ret_value = reader->field->word_min + i / 3;
            return true;
        }
    return false;
}

static enum error_code cron_parse_read_value(struct cron_reader *reader, unsigned *ret_value)
{
    const struct field *field = reader->field;
    unsigned max = reader->index == WEEKDAY ? SUNDAY_TOO : field->max;

    if (cron_parse_read_word(reader, ret_value))
        return ERROR_NONE;
    if (reader->at == reader->end || !cron_parse_is_digit(*reader->at))
        return cron_parse_refuse(reader, reader->at,
                                 field->words[0]
                                     ? "a number from %u to %u or a name such as %.3s is expected"
                                     : "a number from %u to %u is expected",
                                 field->min, max, field->words);
    return cron_parse_read_number(reader, field->min, max, ret_value);
}

/* ---- sets ---- */

/* Adds each `step`-th value from `first` to `last`. Sunday may be written as 7. */
static void cron_parse_add_range(struct cron_reader *reader, unsigned first, unsigned last,
                                 unsigned step)
{
    struct cron *cron = reader->cron;
    uint64_t bits = 0;

    for (unsigned value = first; value <= last; value += step)
        bits |= UINT64_C(1) << (reader->index == WEEKDAY ? value % 7 : value);
    switch (reader->index) {
    case SECOND:
        cron->seconds_ |= bits;
        break;
    case MINUTE:
        cron->minutes_ |= bits;
        break;
    case HOUR:
        cron->hours_ |= (uint32_t)bits;
        break;
    case DAY:
        cron->days_ |= (uint32_t)bits;
        break;
    case MONTH:
        cron->months_ |= (uint16_t)bits;
        break;
    case WEEKDAY:
    case FIELD_COUNT:
        cron->weekdays_ |= (uint8_t)bits;
        break;
    }
}

/* Reads an optional step after a range or a star: "/15". */
static enum error_code cron_parse_read_step(struct cron_reader *reader, unsigned *ret_step)
{
    unsigned max = reader->field->max - reader->field->min, step;
    const char *at = reader->at;
    enum error_code code = cron_parse_read_number(reader, 0, NUMBER_MAX, &step);

    if (code)
        return code;
    if (step < 1 || step > max)
        return cron_parse_refuse(reader, at, "a step of %u does not fit: from 1 to %u", step, max);
    *ret_step = step;
    return ERROR_NONE;
}

/* "*", "* / 5" without the blanks, "?" */
static enum error_code cron_parse_read_star(struct cron_reader *reader)
{
    unsigned step = 1;

    if (cron_parse_take(reader, '?')) {
        if (reader->index != DAY && reader->index != WEEKDAY)
            return cron_parse_refuse(reader, reader->at - 1,
                                     "? is for the day of month and of week only");
        if (reader->end - reader->field_at != 1)
            return cron_parse_refuse(reader, reader->at - 1, "? stands alone");
    } else if (cron_parse_take(reader, '*') && cron_parse_take(reader, '/')) {
        enum error_code code = cron_parse_read_step(reader, &step);

        if (code)
            return code;
    }
    cron_parse_add_range(reader, reader->field->min, reader->field->max, step);
    return ERROR_NONE;
}

/* Reads "L", "L-3" or "LW" as days of the month. */
static enum error_code cron_parse_read_last_day(struct cron_reader *reader)
{
    if (cron_parse_take(reader, 'W')) {
        reader->cron->has_last_weekday_ = 1;
        return ERROR_NONE;
    }
    unsigned before = 0;
    if (cron_parse_take(reader, '-')) {
        enum error_code code = cron_parse_read_number(reader, 1, 30, &before);
        if (code)
            return code;
    }
    reader->cron->days_from_last_ |= UINT32_C(1) << before;
    return ERROR_NONE;
}

/* Reads an optional suffix of a single day of the week: "5L", "MON#1". Returns false if there is
 * none. */
static bool cron_parse_read_weekday_suffix(struct cron_reader *reader, unsigned weekday,
                                           enum error_code *ret_code)
{
    *ret_code = ERROR_NONE;
    if (cron_parse_take(reader, 'L')) {
        reader->cron->weekdays_last_ |= (uint8_t)(1u << weekday % 7);
        return true;
    }
    if (cron_parse_take(reader, '#')) {
        unsigned nth;
        *ret_code = cron_parse_read_number(reader, 1, 5, &nth);
        if (*ret_code == ERROR_NONE)
            reader->cron->weekdays_nth_[nth - 1] |= (uint8_t)(1u << weekday % 7);
        return true;
    }
    return false;
}

/* Reads "5", "5-10", "5-10/2", "5/2", and the day fields' own forms. */
static enum error_code cron_parse_read_range(struct cron_reader *reader)
{
    const char *at = reader->at;
    unsigned first;
    enum error_code code = cron_parse_read_value(reader, &first);

    if (code)
        return code;
    if (reader->index == DAY && cron_parse_take(reader, 'W')) {
        reader->cron->days_weekday_ |= UINT32_C(1) << first;
        return ERROR_NONE;
    }
    if (reader->index == WEEKDAY && cron_parse_read_weekday_suffix(reader, first, &code))
        return code;
    unsigned int last = first;
    if (cron_parse_take(reader, '-')) {
        code = cron_parse_read_value(reader, &last);
        if (code)
            return code;
        if (reader->index == WEEKDAY && last == 0 && first > 0)
            last = SUNDAY_TOO; /* SAT-SUN */
        if (last < first)
            return cron_parse_refuse(reader, at, "the range runs backwards, from %u to %u", first,
                                     last);
    } else if (reader->at < reader->end && *reader->at == '/') {
        last = first > reader->field->max ? first : reader->field->max;
    }
    unsigned step = 1;
    if (cron_parse_take(reader, '/')) {
        code = cron_parse_read_step(reader, &step);
        if (code)
            return code;
    }
    cron_parse_add_range(reader, first, last, step);
    return ERROR_NONE;
}

static enum error_code cron_parse_read_item(struct cron_reader *reader)
{
    if (cron_parse_is_at_item_end(reader))
        return cron_parse_refuse(reader, reader->at, "a value is missing");
    enum error_code code;
    if (*reader->at == '*' || *reader->at == '?') {
        code = cron_parse_read_star(reader);
    } else if (reader->index == DAY && cron_parse_take(reader, 'L')) {
        code = cron_parse_read_last_day(reader);
    } else if (reader->index == WEEKDAY && cron_parse_upper(*reader->at) == 'L') {
        return cron_parse_refuse(reader, reader->at,
                                 "L follows a day here: 5L is the month's last Friday");
    } else {
        code = cron_parse_read_range(reader);
    }
    if (code)
        return code;
    if (!cron_parse_is_at_item_end(reader))
        return cron_parse_refuse(reader, reader->at, "what follows is not understood");
    return ERROR_NONE;
}

static enum error_code cron_parse_read_field(struct cron_reader *reader)
{
    reader->at = reader->field_at;
    enum error_code code;
    do {
        code = cron_parse_read_item(reader);
    } while (!code && cron_parse_take(reader, ','));
    return code;
}

/* ---- the whole ---- */

/* Replaces a name such as @daily by its five fields. */
static bool cron_parse_expand(struct bytes *text)
{
    static const struct {
        const char *name, *fields;
    } names[] = {
        {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
        {"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},    {"@midnight", "0 0 * * *"},
        {"@hourly", "0 * * * *"},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (bytes_equal(*text, bytes_of(names[i].name))) {
            *text = bytes_of(names[i].fields);
            return true;
        }
    return false;
}

static enum error_code cron_parse_read_fields(struct bytes text, struct cron *cron,
                                              struct error *ret_error)
{
    struct bytes words[FIELD_COUNT + 1];
    struct cron_reader reader = {.start = text.data, .cron = cron, .error = ret_error};
    size_t count = 0;

    while (count < FIELD_COUNT + 1 && bytes_next_word(&text, &words[count]))
        count++;
    if (count != 5 && count != 6)
        return error_set(ret_error, ERROR_INVALID,
                         count < 5 ? "it has %zu fields: 5 are expected, or 6 with the seconds"
                                   : "it has %zu fields or more: 5 are expected, or 6 with the "
                                     "seconds",
                         count);
    if (count == 5)
        cron->seconds_ = 1;
    for (size_t i = 0; i < count; i++) {
        reader.index = (enum field_index)(FIELD_COUNT - count + i);
        reader.field = &fields[reader.index];
        reader.field_at = words[i].data;
        reader.end = words[i].data + words[i].size;
        enum error_code code = cron_parse_read_field(&reader);
        if (code)
            return code;
    }
    cron->has_either_ = words[count - 3].data[0] != '*' && words[count - 3].data[0] != '?' &&
                        words[count - 1].data[0] != '*' && words[count - 1].data[0] != '?';
    return ERROR_NONE;
}

enum error_code cron_parse(struct bytes text, struct cron *ret_cron, struct error *ret_error)
{
    if (text.size > CRON_TEXT_SIZE_MAX)
        return error_set(ret_error, ERROR_INVALID, "it is longer than %d characters",
                         CRON_TEXT_SIZE_MAX);
    if (text.size && text.data[0] == '@' && !cron_parse_expand(&text))
        return error_set(ret_error, ERROR_INVALID,
                         "it is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight "
                         "and @hourly");
    struct cron cron = {0};
    enum error_code code = cron_parse_read_fields(text, &cron, ret_error);
    if (code)
        return code;
    if (!cron_can_fire(&cron))
        return error_set(ret_error, ERROR_INVALID, "it never fires: no month has such a day");
    *ret_cron = cron;
    return ERROR_NONE;
}

/* ---- numbers of days ---- */

/* Writes the field with names for the numbers of its days; `first` is the number of Sunday. */
static void cron_name_weekdays(struct bytes field, unsigned first, struct buffer *to)
{
    const char *words = fields[WEEKDAY].words;

    for (size_t i = 0; i < field.size; i++) {
        const char c = field.data[i];

        if (cron_parse_is_digit(c) && (i == 0 || memchr(",-", field.data[i - 1], 2)))
            buffer_append(to, words + 3 * (((unsigned)(c - '0') + 7 - first) % 7), 3);
        else
            buffer_append(to, &c, 1);
    }
}

enum error_code cron_check_weekdays(struct bytes text, struct error *ret_error)
{
    struct bytes words[FIELD_COUNT], rest = text;
    size_t count = 0;

    while (count < FIELD_COUNT && bytes_next_word(&rest, &words[count]))
        count++;
    if (count < 5 || !bytes_equal(words[count - 3], BYTES("?")))
        return ERROR_NONE;
    const struct bytes field = words[count - 1];
    bool has_number = false;
    for (size_t i = 0; i < field.size; i++)
        has_number = has_number || (cron_parse_is_digit(field.data[i]) &&
                                    (i == 0 || memchr(",-", field.data[i - 1], 2)));
    if (!has_number)
        return ERROR_NONE;
    struct buffer here, quartz;
    buffer_init(&here);
    buffer_init(&quartz);
    cron_name_weekdays(field, 0, &here);
    cron_name_weekdays(field, 1, &quartz);
    error_set(
        ret_error, ERROR_INVALID,
        "day of week, character %zu: beside ? write names: %.*s, if SUN is 1 as in Quartz, or "
        "%.*s, if SUN is 0 as in cron",
        (size_t)(field.data - text.data) + 1, (int)(quartz.size < 60 ? quartz.size : 60),
        quartz.size ? quartz.data : "", (int)(here.size < 60 ? here.size : 60),
        here.size ? here.data : "");
    buffer_deinit(&here);
    buffer_deinit(&quartz);
    return ERROR_INVALID;
}
