/*
 * config_table.h - the table of config.h as rows to walk: for the files that make the config, not
 * for its users.
 *
 * Threads    Constant: any.
 */
#ifndef TICKWHEEL_OPS_CONFIG_TABLE_H
#define TICKWHEEL_OPS_CONFIG_TABLE_H

#include "ops/config.h"

enum config_type {
    CONFIG_TYPE_SECTION, /* a heading: has only name and help */
    CONFIG_TYPE_U32,
    CONFIG_TYPE_U64,
    CONFIG_TYPE_DURATION,
    CONFIG_TYPE_BYTES,
    CONFIG_TYPE_TEXT,
    CONFIG_TYPE_LIST,
    CONFIG_TYPE_SECRET,
    CONFIG_TYPE_CHOICE,
};

struct config_row {
    enum config_type type;
    const char *name;
    const char *preset; /* default value; for a choice, all its words */
    uint64_t min, max;
    const char *help;
    size_t offset; /* offset of the field in struct config */
};

#define CONFIG_ROWS_MAX  192
#define CONFIG_NAME_SIZE 64 /* size of the longest name, with its NUL */
/* maximum of a line in the config file; libinih cuts lines at 198 bytes without an error */
#define CONFIG_LINE_BYTES_MAX 190

extern const struct config_row config_rows[];
extern const size_t config_row_count;

/* Returns the field of that name; NULL if there is none. */
const struct config_row *config_row_find(const char *name);

/* Returns the field whose name is nearest to a misspelt one; NULL if none is near. */
const struct config_row *config_row_nearest(const char *name);

/* Appends the value in the form in which it is written in the file. */
void config_row_format_value(const struct config_row *row, const struct config *config,
                             struct buffer *buffer);

void config_row_format_default(const struct config_row *row, struct buffer *buffer);

/* Appends the limits of a field, such as "1 to 65535", "100ms to 24h", "always or never", "at most
 * 45 bytes". */
void config_row_format_limits(const struct config_row *row, struct buffer *buffer);

#endif
