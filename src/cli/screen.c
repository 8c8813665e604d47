/* screen.c - safe text, times in words and tables. */
#include "cli/screen.h"

#include "calendar/calendar.h"

#include "base/utf8.h"
#include "calendar/duration.h"

#include <assert.h>

struct screen_cell {
    size_t at, size, width;
    enum screen_colour colour;
};

void screen_append(struct buffer *out, struct bytes text)
{
    const char *at = text.size ? text.data : "", *end = at + text.size, *plain = at;

    while (at < end) {
        size_t size = utf8_size(at, end);
        uint32_t code = size ? utf8_code(at, size) : 0xfffd;

        if (size && !utf8_is_control(code)) {
            at += size;
            continue;
        }
        buffer_append(out, plain, (size_t)(at - plain));
        if (size)
            buffer_printf(out, "\\u%04x", code);
        else
            buffer_append_text(out, "\xef\xbf\xbd");
        at += size ? size : 1;
        plain = at;
    }
    buffer_append(out, plain, (size_t)(at - plain));
}

void screen_append_json(struct buffer *out, struct bytes json)
{
    /* JSON has none of these bytes within strings, so they are between tokens. */
    while (json.size > 0) {
        size_t size = 0;
        while (size < json.size && !memchr("\n\r\t", json.data[size], 3))
            size++;
        screen_append(out, (struct bytes){json.data, size});
        json = (struct bytes){json.data + size, json.size - size};
        size = 0;
        while (size < json.size && memchr("\n\r\t ", json.data[size], 4))
            size++;
        json = (struct bytes){json.data + size, json.size - size};
        if (size && json.size)
            buffer_append_text(out, " ");
    }
}

static void screen_append_code(struct buffer *out, enum screen_style style,
                               enum screen_colour colour)
{
    static const char *const codes[] = {"\033[0m",  "\033[1m",  "\033[2m", "\033[31m",
                                        "\033[32m", "\033[33m", "\033[34m"};

    if (style == SCREEN_STYLE_COLOURED)
        buffer_append_text(out, codes[colour]);
}

void screen_append_coloured(struct buffer *out, enum screen_style style, enum screen_colour colour,
                            struct bytes text)
{
    if (colour != SCREEN_PLAIN)
        screen_append_code(out, style, colour);
    screen_append(out, text);
    if (colour != SCREEN_PLAIN)
        screen_append_code(out, style, SCREEN_PLAIN);
}

size_t screen_width(struct bytes text)
{
    size_t width = 0;

    for (size_t i = 0; i < text.size; i++)
        width += ((uint8_t)text.data[i] & 0xc0) != 0x80;
    return width;
}

enum screen_colour screen_colour_of_state(struct bytes state)
{
    static const struct {
        const char *name;
        enum screen_colour colour;
    } colours[] = {
        {"fired", SCREEN_GREEN}, {"delivering", SCREEN_BLUE}, {"retrying", SCREEN_YELLOW},
        {"dead", SCREEN_RED},    {"cancelled", SCREEN_DIM},   {"paused", SCREEN_YELLOW},
    };

    for (size_t i = 0; i < sizeof(colours) / sizeof(*colours); i++)
        if (bytes_equal(state, bytes_of(colours[i].name)))
            return colours[i].colour;
    return SCREEN_PLAIN;
}

void screen_append_distance(struct buffer *out, struct wall now, struct wall then)
{
    uint64_t ms = wall_since(now, then) + wall_since(then, now);
    char text[DURATION_TEXT_SIZE];

    duration_format_rough(ms, text);
    buffer_printf(out, ms == 0 ? "now" : then.ms < now.ms ? "%s ago" : "in %s", text);
}

void screen_append_local(struct buffer *out, const struct zone *zone, struct wall at)
{
    static const char *const weekdays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    int64_t second = (int64_t)(at.ms / 1000);
    int32_t offset = zone_stretch_at(zone, second).offset_s;
    int64_t days = floor_divide(second + offset, 86400);
    int64_t seconds = floor_modulo(second + offset, 86400);
    struct date date = calendar_date(days);
    int32_t minutes = (offset < 0 ? -offset : offset) / 60;

    buffer_printf(out, "%s %04d-%02d-%02d %02d:%02d:%02d %c%02d:%02d",
                  weekdays[calendar_weekday(days)], date.year, date.month, date.day,
                  (int)(seconds / 3600), (int)(seconds / 60 % 60), (int)(seconds % 60),
                  offset < 0 ? '-' : '+', minutes / 60, minutes % 60);
}

void screen_append_bar(struct buffer *out, uint64_t value, uint64_t most)
{
    static const char *const eighths[] = {
        "",
        "\xe2\x96\x8f",
        "\xe2\x96\x8e",
        "\xe2\x96\x8d",
        "\xe2\x96\x8c",
        "\xe2\x96\x8b",
        "\xe2\x96\x8a",
        "\xe2\x96\x89",
    };
    double share = most ? (double)value / (double)most : 0;
    unsigned size = (unsigned)(share * SCREEN_BAR_WIDTH * 8 + 0.5);

    /* a value above zero gets at least one place */
    size = value && !size ? 1 : size;
    for (; size >= 8; size -= 8)
        buffer_append_text(out, "\xe2\x96\x88");
    buffer_append_text(out, eighths[size]);
}

void screen_append_ascii(struct buffer *out, struct bytes text)
{
    static const char bars[] = "#####---"; /* U+2588, a whole place, to U+258F, an eighth of one */

    for (size_t i = 0; i < text.size; i++) {
        const uint8_t *at = (const uint8_t *)text.data + i;
        const bool has_three = text.size - i >= 3;
        char mark;

        if (has_three && at[0] == 0xe2 && at[1] == 0x96 && at[2] >= 0x88 && at[2] <= 0x8f)
            mark = bars[at[2] - 0x88];
        else if (has_three && memcmp(at, "\xe2\x80\xa6", 3) == 0)
            mark = '~';
        else if (has_three && memcmp(at, "\xef\xbf\xbd", 3) == 0)
            mark = '?';
        else {
            buffer_append(out, text.data + i, 1);
            continue;
        }
        buffer_append(out, &mark, 1);
        i += 2;
    }
}

void screen_table_init(struct screen_table *table, size_t columns)
{
    assert(columns > 0 && columns <= SCREEN_COLUMNS_MAX);
    table->columns = columns;
    buffer_init(&table->text);
    buffer_init(&table->cells);
}

void screen_table_deinit(struct screen_table *table)
{
    buffer_deinit(&table->text);
    buffer_deinit(&table->cells);
}

static const struct screen_cell *screen_cells(const struct screen_table *table, size_t *ret_count)
{
    *ret_count = table->cells.size / sizeof(struct screen_cell);
    return (const struct screen_cell *)(const void *)table->cells.data;
}

void screen_table_add(struct screen_table *table, enum screen_colour colour, struct bytes text)
{
    const size_t count = table->cells.size / sizeof(struct screen_cell);
    const bool is_last = count % table->columns + 1 == table->columns;

    screen_table_add_cut(table, colour, text, is_last ? SIZE_MAX : SCREEN_CELL_WIDTH_MAX);
}

void screen_table_add_cut(struct screen_table *table, enum screen_colour colour, struct bytes text,
                          size_t width)
{
    struct screen_cell cell = {.at = table->text.size, .colour = colour};

    screen_append(&table->text, text);
    if (table->text.failed)
        return;
    const char *at = table->text.data + cell.at;
    cell.size = table->text.size - cell.at;
    cell.width = screen_width((struct bytes){at, cell.size});
    if (cell.width > width) {
        size_t size = 0;
        for (size_t taken = 0; taken < width - 1; taken++)
            size += utf8_size(at + size, at + cell.size);
        table->text.size = cell.at + size;
        buffer_append_text(&table->text, "\xe2\x80\xa6"); /* an ellipsis */
        cell.size = table->text.size - cell.at;
        cell.width = width;
    }
    buffer_append(&table->cells, &cell, sizeof(cell));
}

void screen_table_append(const struct screen_table *table, enum screen_style style,
                         struct buffer *out)
{
    size_t count, widths[SCREEN_COLUMNS_MAX] = {0};
    const struct screen_cell *cells = screen_cells(table, &count);

    for (size_t i = 0; i < count; i++)
        if (cells[i].width > widths[i % table->columns])
            widths[i % table->columns] = cells[i].width;
    for (size_t i = 0; i < count; i++) {
        bool is_last = i % table->columns + 1 == table->columns;

        screen_append_coloured(out, style, cells[i].colour,
                               (struct bytes){table->text.data + cells[i].at, cells[i].size});
        for (size_t pad = cells[i].width; !is_last && pad < widths[i % table->columns] + 2; pad++)
            buffer_append_text(out, " ");
        if (!is_last)
            continue;
        while (out->size > 0 && out->data[out->size - 1] == ' ')
            out->size--;
        buffer_append_text(out, "\n");
    }
    out->failed = out->failed || table->text.failed || table->cells.failed;
}

void screen_append_beside(struct buffer *out, struct bytes left, size_t width, struct bytes right)
{
    while (left.size || right.size) {
        const struct bytes line = left.size ? bytes_cut(&left, '\n') : left;
        const struct bytes other = right.size ? bytes_cut(&right, '\n') : right;
        bool is_code = false;

        buffer_append_bytes(out, line);
        for (size_t i = 0, taken = 0; other.size && (i < line.size || taken < width); i++) {
            if (i >= line.size) {
                buffer_append_text(out, " ");
                taken++;
            } else if (line.data[i] == '\033') {
                is_code = true;
            } else if (is_code) {
                is_code = line.data[i] != 'm';
            } else {
                taken += ((uint8_t)line.data[i] & 0xc0) != 0x80;
            }
        }
        buffer_append_bytes(out, other);
        buffer_append_text(out, "\n");
    }
}
