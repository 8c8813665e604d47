/* lines.c - cuts a stream into lines, and limits their length. */
#include "api/timers/lines.h"

void lines_init(struct lines *lines, size_t line_max)
{
    *lines = (struct lines){.line_max_ = line_max};
}

void lines_deinit(struct lines *lines)
{
    buffer_deinit(&lines->carry_);
}

static void lines_carry_forget(struct lines *lines)
{
    if (lines->is_carry_returned_ || lines->lost_ != LINES_MORE)
        buffer_clear(&lines->carry_);
    lines->is_carry_returned_ = false;
}

/* Keeps `piece`, unless that makes the line too long. */
static void lines_carry(struct lines *lines, struct bytes piece)
{
    if (lines->lost_ != LINES_MORE || piece.size == 0)
        return;
    /* One byte beyond the limit may be the CR of the line's end. */
    if (piece.size > lines->line_max_ + 1 - lines->carry_.size) {
        lines->lost_ = LINES_TOO_LONG;
        buffer_deinit(&lines->carry_);
        return;
    }
    buffer_append_bytes(&lines->carry_, piece);
    if (buffer_failed(&lines->carry_)) {
        lines->lost_ = LINES_NO_MEMORY;
        buffer_deinit(&lines->carry_);
    }
}

/* Returns a complete line; LINES_MORE if it is empty. */
static enum lines_result lines_finish(struct lines *lines, struct bytes line,
                                      struct bytes *ret_line)
{
    enum lines_result result = lines->lost_;

    lines->lost_ = LINES_MORE;
    lines->number_++;
    if (result != LINES_MORE)
        return result;
    if (line.size && line.data[line.size - 1] == '\r')
        line.size--;
    if (line.size > lines->line_max_)
        return LINES_TOO_LONG;
    if (lines->number_ == 1 && bytes_has_prefix(line, BYTES("\xef\xbb\xbf")))
        line = (struct bytes){line.data + 3, line.size - 3}; /* byte order mark */
    for (size_t i = 0; i < line.size; i++) {
        if (line.data[i] == ' ' || line.data[i] == '\t' || line.data[i] == '\r')
            continue;
        *ret_line = line;
        return LINES_LINE;
    }
    return LINES_MORE;
}

enum lines_result lines_next(struct lines *lines, struct bytes *chunk, struct bytes *ret_line)
{
    lines_carry_forget(lines);
    while (chunk->size > 0) {
        const char *end = memchr(chunk->data, '\n', chunk->size);
        struct bytes piece = *chunk;

        if (!end) {
            lines_carry(lines, piece);
            *chunk = (struct bytes){chunk->data + chunk->size, 0};
            break;
        }
        piece.size = (size_t)(end - chunk->data);
        *chunk = (struct bytes){end + 1, chunk->size - piece.size - 1};
        if (lines->carry_.size > 0) {
            lines_carry(lines, piece);
            piece = buffer_bytes(&lines->carry_);
            lines->is_carry_returned_ = true;
        }
        enum lines_result result = lines_finish(lines, piece, ret_line);
        if (result != LINES_MORE)
            return result;
        lines_carry_forget(lines);
    }
    return LINES_MORE;
}

enum lines_result lines_last(struct lines *lines, struct bytes *ret_line)
{
    lines_carry_forget(lines);
    if (lines->carry_.size == 0 && lines->lost_ == LINES_MORE)
        return LINES_MORE;
    lines->is_carry_returned_ = true;
    return lines_finish(lines, buffer_bytes(&lines->carry_), ret_line);
}
