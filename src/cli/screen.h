/*
 * screen.h - text for people: tables, times in words, colours, and the guard against control
 * characters from outside.
 *
 * A server, a payload and a key may hold any characters. Escape sequences among them would move the
 * cursor, set the title or hide text, so everything that comes from outside goes through
 * screen_append, which writes control characters, and those that turn the direction of text, as
 * \uXXXX: in a JSON text that is the same string.
 *
 * Threads    One.
 */
#ifndef TICKWHEEL_CLI_SCREEN_H
#define TICKWHEEL_CLI_SCREEN_H

#include "base/bytes.h"
#include "base/time.h"
#include "calendar/zone.h"

enum screen_colour {
    SCREEN_PLAIN,
    SCREEN_BOLD,
    SCREEN_DIM,
    SCREEN_RED,
    SCREEN_GREEN,
    SCREEN_YELLOW,
    SCREEN_BLUE,
};

/* Whether text is written in colours. */
enum screen_style {
    SCREEN_STYLE_PLAIN,
    SCREEN_STYLE_COLOURED,
};

/* Appends text of any origin in a form in which a terminal only shows it. Bytes that are not UTF-8
 * become U+FFFD; line breaks and tabs become \u000a and \u0009. */
void screen_append(struct buffer *out, struct bytes text);

/* Appends a JSON text on one line: white space between its tokens becomes blanks. */
void screen_append_json(struct buffer *out, struct bytes json);

/* Appends text in a colour, by screen_append. */
void screen_append_coloured(struct buffer *out, enum screen_style style, enum screen_colour colour,
                            struct bytes text);

/* Returns how many places the text takes on a terminal: one for each character. */
size_t screen_width(struct bytes text);

/* Returns the colour for a state of a timer. */
enum screen_colour screen_colour_of_state(struct bytes state);

/* Appends "in 9m32s" or "3d ago", rounded to a unit that suits the distance. */
void screen_append_distance(struct buffer *out, struct wall now, struct wall then);

/* Appends a time as clocks in the zone show it: "Tue 2026-11-24 09:30:00 +01:00". */
void screen_append_local(struct buffer *out, const struct zone *zone, struct wall at);

/* Appends a bar whose length shows `value` in proportion to `most`: up to SCREEN_BAR_WIDTH places,
 * in steps of an eighth. */
void screen_append_bar(struct buffer *out, uint64_t value, uint64_t most);

/* Appends text that functions of this file made, with their marks in ASCII: "#" and "-" for bars,
 * "~" where a cell was cut, "?" for U+FFFD. Each takes one place, as the mark does. Other
 * characters come from the user, and stay. */
void screen_append_ascii(struct buffer *out, struct bytes text);

/* ---- tables ---- */

#define SCREEN_BAR_WIDTH   50
#define SCREEN_COLUMNS_MAX 12

/* A table: cells in rows. Cells are cut to SCREEN_CELL_WIDTH_MAX, except those in the last
 * column. */
#define SCREEN_CELL_WIDTH_MAX 48

struct screen_table {
    size_t columns;
    struct buffer text;  /* text of all cells, without control characters */
    struct buffer cells; /* struct screen_cell */
};

void screen_table_init(struct screen_table *table, size_t columns);
void screen_table_deinit(struct screen_table *table);

/* Adds the next cell. The text may be of any origin. */
void screen_table_add(struct screen_table *table, enum screen_colour colour, struct bytes text);

/* Adds a cell of at most `width` places. Longer text is cut. */
void screen_table_add_cut(struct screen_table *table, enum screen_colour colour, struct bytes text,
                          size_t width);

/* Appends all rows, with aligned columns that are separated by two blanks. */
void screen_table_append(const struct screen_table *table, enum screen_style style,
                         struct buffer *out);

/* Appends two texts of several lines side by side. The right one begins after `width` places. */
void screen_append_beside(struct buffer *out, struct bytes left, size_t width, struct bytes right);

#endif
