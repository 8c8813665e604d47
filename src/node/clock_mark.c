/* clock_mark.c - the file CLOCK of a data folder; see clock_mark.h. */
#include "node/clock_mark.h"

#include "base/bytes.h"
#include "calendar/rfc3339.h"
#include "store/folder.h"
#include "sys/files.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define MARK_WORD "virtual "
#define MARK_SIZE 64

/* Parses a time, whose seconds may be missing: 2027-01-01T00:00Z. */
static enum error_code clock_choice_time(const char *text, struct wall *ret_at,
                                         struct error *ret_error)
{
    const size_t minutes = sizeof("2027-01-01T00:00") - 1;
    char whole[48];

    if (strlen(text) > minutes && text[minutes] != ':' && strlen(text) < sizeof(whole) - 3) {
        snprintf(whole, sizeof(whole), "%.*s:00%s", (int)minutes, text, text + minutes);
        text = whole;
    }
    struct error cause;
    struct wall at;
    if (rfc3339_parse(bytes_of(text), &at, &cause))
        return error_set(ret_error, ERROR_INVALID, "clock: %s", cause.text);
    if (at.ms == 0 || at.ms > WALL_MS_MAX)
        return error_set(ret_error, ERROR_INVALID, "clock: the time must be between 1970 and 9999");
    *ret_at = at;
    return ERROR_NONE;
}

enum error_code clock_choice_parse(const char *text, struct clock_choice *ret_choice,
                                   struct error *ret_error)
{
    struct clock_choice choice = {.is_virtual = strncmp(text, "virtual", 7) == 0};
    enum error_code code = ERROR_NONE;

    if (choice.is_virtual && text[7] == '=')
        code = clock_choice_time(text + 8, &choice.at, ret_error);
    else if (strcmp(text, "real") != 0 && strcmp(text, "virtual") != 0)
        code = error_set(ret_error, ERROR_INVALID,
                         "clock: \"%.40s\" is none of: real, virtual, virtual=2027-01-01T00:00Z",
                         text);
    if (!code)
        *ret_choice = choice;
    return code;
}

static enum error_code clock_mark_path(const char *folder, const char *name,
                                       char ret_path[PATH_MAX], struct error *ret_error)
{
    if ((size_t)snprintf(ret_path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
        return error_set(ret_error, ERROR_IO, "%.200s: the path is too long", folder);
    return ERROR_NONE;
}

static enum error_code clock_mark_read(const char *path, struct wall *ret_at,
                                       struct error *ret_error)
{
    const size_t word = sizeof(MARK_WORD) - 1;
    struct buffer text;

    buffer_init(&text);
    enum error_code code = files_read_regular(path, MARK_SIZE, &text, ret_error);
    if (!code) {
        const bool has_end = text.size > 0 && text.data[text.size - 1] == '\n';

        if (!has_end || text.size <= word + 1 || memcmp(text.data, MARK_WORD, word) != 0 ||
            rfc3339_parse((struct bytes){text.data + word, text.size - word - 1}, ret_at, NULL) ||
            ret_at->ms == 0 || ret_at->ms > WALL_MS_MAX)
            code = error_set(ret_error, ERROR_CORRUPT,
                             "%.150s is damaged: write `virtual ` and a time into it", path);
    }
    buffer_deinit(&text);
    return code;
}

enum error_code clock_mark_begin(const char *folder, const struct clock_choice *choice,
                                 struct wall now, struct wall *ret_at, struct error *ret_error)
{
    char mark[PATH_MAX], identity[PATH_MAX];
    enum error_code code = clock_mark_path(folder, FOLDER_CLOCK_NAME, mark, ret_error);

    if (!code)
        code = clock_mark_path(folder, FOLDER_IDENTITY_NAME, identity, ret_error);
    if (code)
        return code;
    const bool is_marked = files_exists(mark);
    *ret_at = (struct wall){0};
    if (is_marked && !choice->is_virtual)
        return error_set(ret_error, ERROR_INVALID,
                         "%.100s is the data folder of a virtual clock: start it with --clock "
                         "virtual, or use another data_folder",
                         folder);
    if (!is_marked && choice->is_virtual && files_exists(identity))
        return error_set(ret_error, ERROR_INVALID,
                         "%.100s is the data folder of a real clock: use another data_folder, or "
                         "clock = real",
                         folder);
    if (!choice->is_virtual)
        return ERROR_NONE;
    if (is_marked)
        return clock_mark_read(mark, ret_at, ret_error);
    const struct wall at = choice->at.ms ? choice->at : (struct wall){now.ms - now.ms % 1000};
    code = files_make_folder(folder, ret_error);
    if (!code)
        code = clock_mark_write(folder, at, ret_error);
    if (!code)
        *ret_at = at;
    return code;
}

enum error_code clock_mark_write(const char *folder, struct wall at, struct error *ret_error)
{
    char path[PATH_MAX], time[RFC3339_TEXT_SIZE], text[MARK_SIZE];
    const enum error_code code = clock_mark_path(folder, FOLDER_CLOCK_NAME, path, ret_error);

    if (code)
        return code;
    rfc3339_format(at, time);
    snprintf(text, sizeof(text), MARK_WORD "%s\n", time);
    return files_write(path, bytes_of(text), ret_error);
}
