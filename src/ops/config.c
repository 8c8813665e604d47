/* config.c - sets, checks and formats single settings. */
#include "ops/config.h"

#include "base/number.h"
#include "calendar/duration.h"
#include "ops/config_table.h"

#include <assert.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>

/* number of bytes of a wrong value that an error text repeats */
enum { SHOWN = 60 };

static bool config_parse_number(const struct config_row *row, const char *text, uint64_t *ret_value)
{
    if (row->type == CONFIG_TYPE_DURATION)
        return duration_parse(bytes_of(text), ret_value, NULL) == ERROR_NONE;
    if (row->type == CONFIG_TYPE_BYTES)
        return number_parse_scaled(bytes_of(text), ret_value);
    return number_parse(bytes_of(text), 10, ret_value);
}

/* Sets the error text, such as "... must be 1 to 65535". */
static enum error_code config_refuse(const struct config_row *row, const char *value,
                                     struct error *ret_error)
{
    const char *hint = "";

    if (row->type == CONFIG_TYPE_DURATION)
        hint = ", such as 1h30m, 10s or 500ms";
    else if (row->type == CONFIG_TYPE_BYTES)
        hint = ", such as 4096, 64K or 1G";
    else if (row->type != CONFIG_TYPE_CHOICE && row->type > CONFIG_TYPE_BYTES)
        hint = ", without blanks at its ends, control characters and comments";
    struct buffer limits;
    buffer_init(&limits);
    config_row_format_limits(row, &limits);
    buffer_append(&limits, "", 1);
    if (row->type == CONFIG_TYPE_SECRET)
        value = "...";
    error_set(ret_error, ERROR_INVALID, "%s: \"%.*s\" is not possible; it must be %s%s", row->name,
              SHOWN, value, buffer_failed(&limits) ? "within its limits" : limits.data, hint);
    buffer_deinit(&limits);
    return ERROR_INVALID;
}

static bool config_set_number(const struct config_row *row, char *at, const char *value)
{
    uint64_t number;

    if (strcmp(row->name, "cluster_node_id") == 0 && strcmp(value, "auto") == 0)
        value = "0";
    if (!config_parse_number(row, value, &number) || number < row->min || number > row->max)
        return false;
    uint32_t narrow = (uint32_t)number;
    if (row->type == CONFIG_TYPE_U32)
        memcpy(at, &narrow, sizeof(narrow));
    else
        memcpy(at, &number, sizeof(number));
    return true;
}

/* True if a line of the config file can hold the value. Each setting must, so that it can be
 * printed and read again. */
static bool config_fits_a_line(const char *value, size_t size)
{
    if (size && (isblank((unsigned char)value[0]) || isblank((unsigned char)value[size - 1])))
        return false;
    for (size_t i = 0; i < size; i++)
        if (iscntrl((unsigned char)value[i]) ||
            (value[i] == ';' && (i == 0 || isblank((unsigned char)value[i - 1]))))
            return false;
    return true;
}

static bool config_set_text(const struct config_row *row, char *at, const char *value)
{
    size_t size = strlen(value);

    if (size < row->min || size > row->max || !config_fits_a_line(value, size))
        return false;
    memmove(at, value, size + 1);
    return true;
}

static bool config_set_choice(const struct config_row *row, char *at, const char *value)
{
    size_t size = strlen(value);
    uint32_t n = 0;

    _Static_assert(sizeof(enum config_log_level) == sizeof(n), "a choice is as wide as an enum");
    for (const char *word = row->preset; word; word = strchr(word, '|'), n++) {
        word += *word == '|';
        if (size && !strchr(value, '|') && strncmp(word, value, size) == 0 &&
            (word[size] == '|' || !word[size])) {
            memcpy(at, &n, sizeof(n));
            return true;
        }
    }
    return false;
}

static enum error_code config_set_row(struct config *config, const struct config_row *row,
                                      const char *value, struct error *ret_error)
{
    char *at = (char *)config + row->offset;
    bool is_set = false;

    switch (row->type) {
    case CONFIG_TYPE_SECTION:
        break;
    case CONFIG_TYPE_U32:
    case CONFIG_TYPE_U64:
    case CONFIG_TYPE_DURATION:
    case CONFIG_TYPE_BYTES:
        is_set = config_set_number(row, at, value);
        break;
    case CONFIG_TYPE_TEXT:
    case CONFIG_TYPE_LIST:
    case CONFIG_TYPE_SECRET:
        is_set = config_set_text(row, at, value);
        break;
    case CONFIG_TYPE_CHOICE:
        is_set = config_set_choice(row, at, value);
        break;
    }
    return is_set ? ERROR_NONE : config_refuse(row, value, ret_error);
}

enum error_code config_set(struct config *config, const char *name, const char *value,
                           struct error *ret_error)
{
    const struct config_row *row = config_row_find(name);

    if (!row)
        return error_set(ret_error, ERROR_INVALID, "%.*s: no such setting", SHOWN, name);
    return config_set_row(config, row, value, ret_error);
}

void config_init(struct config *ret_config)
{
    memset(ret_config, 0, sizeof(*ret_config));
    for (size_t i = 0; i < config_row_count; i++) {
        const struct config_row *row = &config_rows[i];
        bool is_plain = row->type != CONFIG_TYPE_SECTION && row->type != CONFIG_TYPE_CHOICE;

        /* the first word of a choice has the value 0, which is set already */
        if (is_plain) {
            enum error_code code = config_set_row(ret_config, row, row->preset, NULL);

            assert(code == ERROR_NONE); /* the limits of a setting include its default */
            (void)code;
        }
    }
}
