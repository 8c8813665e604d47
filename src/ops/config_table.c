/* config_table.c - the table of settings: rows by name, suggestions for unknown names, values as
 * text. */
#include "ops/config_table.h"

#include "base/nearest.h"
#include "calendar/duration.h"

#include <stdio.h>

#define OFFSET_U32(name)      offsetof(struct config, name)
#define OFFSET_U64(name)      offsetof(struct config, name)
#define OFFSET_DURATION(name) offsetof(struct config, name##_ms)
#define OFFSET_BYTES(name)    offsetof(struct config, name)
#define OFFSET_TEXT(name)     offsetof(struct config, name)
#define OFFSET_LIST(name)     offsetof(struct config, name)
#define OFFSET_SECRET(name)   offsetof(struct config, name)
#define OFFSET_CHOICE(name)   offsetof(struct config, name)

const struct config_row config_rows[] = {
#define SECTION(name, sentence) {CONFIG_TYPE_SECTION, name, "", 0, 0, sentence, 0},
#define FIELD(type, name, preset, min, max, help) \
    {CONFIG_TYPE_##type, #name, preset, min, max, help, OFFSET_##type(name)},
    CONFIG_TABLE(SECTION, FIELD)
#undef SECTION
#undef FIELD
};

const size_t config_row_count = sizeof(config_rows) / sizeof(config_rows[0]);

_Static_assert(sizeof(config_rows) / sizeof(config_rows[0]) <= CONFIG_ROWS_MAX, "raise the limit");
#define SECTION(name, sentence)
#define FIELD(type, name, preset, min, max, help) \
    _Static_assert(sizeof(#name) <= CONFIG_NAME_SIZE, "raise the limit");
CONFIG_TABLE(SECTION, FIELD)
#undef SECTION
#undef FIELD

const struct config_row *config_row_find(const char *name)
{
    for (size_t i = 0; i < config_row_count; i++)
        if (config_rows[i].type != CONFIG_TYPE_SECTION && strcmp(config_rows[i].name, name) == 0)
            return &config_rows[i];
    return NULL;
}

const struct config_row *config_row_nearest(const char *name)
{
    struct nearest nearest = nearest_to(bytes_of(name));

    for (size_t i = 0; i < config_row_count; i++)
        if (config_rows[i].type != CONFIG_TYPE_SECTION)
            nearest_try(&nearest, config_rows[i].name);
    return nearest.name ? config_row_find(nearest.name) : NULL;
}

static void config_table_format_scaled(uint64_t value, struct buffer *buffer)
{
    static const char units[] = "KMGT";
    size_t unit = 0;

    for (; unit < 4 && value && value % 1024 == 0; unit++)
        value /= 1024;
    buffer_append_u64(buffer, value);
    if (unit)
        buffer_append(buffer, &units[unit - 1], 1);
}

static void config_table_format_number(enum config_type type, uint64_t value, struct buffer *buffer)
{
    char duration[DURATION_TEXT_SIZE];

    if (type == CONFIG_TYPE_DURATION)
        buffer_append(buffer, duration, duration_format(value, duration));
    else if (type == CONFIG_TYPE_BYTES)
        config_table_format_scaled(value, buffer);
    else
        buffer_append_u64(buffer, value);
}

/* Returns the n-th word of a text such as "always|never". */
static struct bytes config_table_choice_word(const char *words, unsigned n)
{
    for (; n; n--)
        words = strchr(words, '|') + 1;
    struct bytes word = bytes_of(words);
    if (strchr(words, '|'))
        word.size = (size_t)(strchr(words, '|') - words);
    return word;
}

void config_row_format_value(const struct config_row *row, const struct config *config,
                             struct buffer *buffer)
{
    const char *at = (const char *)config + row->offset;
    uint64_t u64;
    uint32_t u32;

    switch (row->type) {
    case CONFIG_TYPE_SECTION:
        return;
    case CONFIG_TYPE_U32:
        memcpy(&u32, at, sizeof(u32));
        buffer_append_u64(buffer, u32);
        return;
    case CONFIG_TYPE_U64:
    case CONFIG_TYPE_DURATION:
    case CONFIG_TYPE_BYTES:
        memcpy(&u64, at, sizeof(u64));
        config_table_format_number(row->type, u64, buffer);
        return;
    case CONFIG_TYPE_TEXT:
    case CONFIG_TYPE_LIST:
        buffer_append_text(buffer, at);
        return;
    case CONFIG_TYPE_SECRET:
        buffer_append_text(buffer, *at ? "(hidden)" : "");
        return;
    case CONFIG_TYPE_CHOICE:
        memcpy(&u32, at, sizeof(u32));
        buffer_append_bytes(buffer, config_table_choice_word(row->preset, u32));
        return;
    }
}

void config_row_format_default(const struct config_row *row, struct buffer *buffer)
{
    if (row->type == CONFIG_TYPE_CHOICE)
        buffer_append_bytes(buffer, config_table_choice_word(row->preset, 0));
    else
        buffer_append_text(buffer, row->preset);
}

void config_row_format_limits(const struct config_row *row, struct buffer *buffer)
{
    switch (row->type) {
    case CONFIG_TYPE_SECTION:
        return;
    case CONFIG_TYPE_CHOICE:
        for (const char *at = row->preset; *at; at++)
            buffer_append_text(buffer, *at == '|' ? " or " : (char[2]){*at, '\0'});
        return;
    case CONFIG_TYPE_TEXT:
    case CONFIG_TYPE_LIST:
    case CONFIG_TYPE_SECRET:
        buffer_printf(buffer, "%s%llu bytes", row->min ? "1 to " : "at most ",
                      (unsigned long long)row->max);
        return;
    default:
        if (row->max == UINT64_MAX) {
            buffer_append_text(buffer, "from ");
            config_table_format_number(row->type, row->min, buffer);
            return;
        }
        config_table_format_number(row->type, row->min, buffer);
        buffer_append_text(buffer, " to ");
        config_table_format_number(row->type, row->max, buffer);
    }
}
