/* crontab.c - lines of a crontab, as Vixie's cron reads them. */
#include "cli/crontab.h"

#include "base/utf8.h"

#define CRONTAB_FIELDS 5

static struct bytes crontab_skip_blanks(struct bytes text)
{
    while (text.size && bytes_is_blank(*text.data))
        text = (struct bytes){text.data + 1, text.size - 1};
    return text;
}

static bool crontab_is_utf8(struct bytes text)
{
    while (text.size) {
        size_t size = utf8_size(text.data, text.data + text.size);

        if (!size)
            return false;
        text = (struct bytes){text.data + size, text.size - size};
    }
    return true;
}

/* ---- variables ---- */

/* Returns the text without the quotes around it, if both are equal. */
static struct bytes crontab_unquote(struct bytes text)
{
    bool is_quoted = text.size > 1 && (*text.data == '"' || *text.data == '\'') &&
                     text.data[text.size - 1] == *text.data;

    return is_quoted ? (struct bytes){text.data + 1, text.size - 2} : text;
}

/* True if the line has the form NAME = value. */
static bool crontab_read_variable(struct bytes line, struct crontab_variable *ret_variable)
{
    size_t size = 0;

    while (size < line.size && line.data[size] != '=' && !bytes_is_blank(line.data[size]))
        size++;
    struct bytes behind = crontab_skip_blanks((struct bytes){line.data + size, line.size - size});
    if (!size || !behind.size || *behind.data != '=')
        return false;
    ret_variable->name = crontab_unquote((struct bytes){line.data, size});
    ret_variable->value =
        crontab_unquote(bytes_trim((struct bytes){behind.data + 1, behind.size - 1}));
    return true;
}

/* Returns the index of a variable; the number of variables if it has not been set. */
static size_t crontab_find(const struct crontab *crontab, struct bytes name)
{
    size_t i = 0;

    while (i < crontab->variable_count && !bytes_equal(crontab->variables[i].name, name))
        i++;
    return i;
}

static enum crontab_step crontab_set(struct crontab *crontab,
                                     const struct crontab_variable *variable,
                                     struct error *ret_error)
{
    size_t index = crontab_find(crontab, variable->name);

    if (bytes_equal(variable->name, BYTES("RANDOM_DELAY")) && variable->value.size) {
        error_set(ret_error, ERROR_INVALID, "RANDOM_DELAY: a delay is not imported");
        return CRONTAB_WRONG;
    }
    if (index == CRONTAB_VARIABLES_MAX) {
        error_set(ret_error, ERROR_INVALID, "there are more than %d variables",
                  CRONTAB_VARIABLES_MAX);
        return CRONTAB_WRONG;
    }
    crontab->variables[index] = *variable;
    crontab->variable_count += index == crontab->variable_count;
    return CRONTAB_EMPTY;
}

struct bytes crontab_variable(const struct crontab *crontab, const char *name)
{
    size_t index = crontab_find(crontab, bytes_of(name));

    return index < crontab->variable_count ? crontab->variables[index].value
                                           : (struct bytes){NULL, 0};
}

/* ---- entries ---- */

/* Removes the schedule from the line, and stores it in the entry. */
static enum error_code crontab_read_schedule(struct bytes *line, struct crontab_entry *entry,
                                             struct error *ret_error)
{
    size_t fields = *line->data == '@' ? 1 : CRONTAB_FIELDS;
    struct bytes word;

    if (*line->data == '-')
        return error_set(ret_error, ERROR_INVALID,
                         "a - before the schedule, which keeps cron from logging, is not imported");
    if (bytes_has_prefix(*line, BYTES("@reboot")))
        return error_set(ret_error, ERROR_INVALID, "@reboot is no time");
    for (size_t i = 0; i < fields; i++) {
        if (!bytes_next_word(line, &word))
            return error_set(ret_error, ERROR_INVALID, "there are fewer than five fields");
        buffer_append_text(&entry->schedule, i ? " " : "");
        buffer_append_bytes(&entry->schedule, word);
    }
    return cron_parse(buffer_bytes(&entry->schedule), &entry->cron, ret_error);
}

/* Splits a command at its first % without a backslash. */
static void crontab_read_command(struct crontab_entry *entry)
{
    struct bytes text = entry->text;
    struct buffer *to = &entry->command;

    for (size_t i = 0; i < text.size; i++) {
        bool is_escaped = text.data[i] == '\\' && i + 1 < text.size && text.data[i + 1] == '%';

        if (text.data[i] == '%' && !entry->has_input) {
            entry->has_input = true;
            to = &entry->input;
        } else if (text.data[i] == '%') {
            buffer_append_text(to, "\n");
        } else {
            i += is_escaped;
            buffer_append(to, &text.data[i], 1);
        }
    }
    /* cron also adds a line break here */
    if (entry->has_input &&
        (!entry->input.size || entry->input.data[entry->input.size - 1] != '\n'))
        buffer_append_text(&entry->input, "\n");
}

static enum error_code crontab_read_entry(const struct crontab *crontab, struct bytes line,
                                          struct crontab_entry *entry, struct error *ret_error)
{
    buffer_clear(&entry->schedule);
    buffer_clear(&entry->command);
    buffer_clear(&entry->input);
    entry->has_input = false;
    entry->user = (struct bytes){NULL, 0};
    enum error_code code = crontab_read_schedule(&line, entry, ret_error);
    if (code)
        return code;
    if (crontab->kind == CRONTAB_OF_SYSTEM)
        bytes_next_word(&line, &entry->user);
    entry->text = bytes_trim(line);
    if (!entry->text.size)
        return error_set(ret_error, ERROR_INVALID, "there is no command");
    crontab_read_command(entry);
    if (buffer_failed(&entry->schedule) || buffer_failed(&entry->command) ||
        buffer_failed(&entry->input))
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    return ERROR_NONE;
}

enum crontab_step crontab_next(struct crontab *crontab, struct crontab_entry *entry,
                               struct error *ret_error)
{
    struct crontab_variable variable;

    if (!crontab->rest.size)
        return CRONTAB_END;
    struct bytes line = bytes_cut(&crontab->rest, '\n');
    crontab->line++;
    if (line.size && line.data[line.size - 1] == '\r')
        line.size--;
    line = bytes_trim(line);
    if (!line.size || *line.data == '#')
        return CRONTAB_EMPTY;
    if (!crontab_is_utf8(line) || memchr(line.data, '\0', line.size)) {
        error_set(ret_error, ERROR_INVALID, "the line is not UTF-8, as JSON asks");
        return CRONTAB_WRONG;
    }
    if (crontab_read_variable(line, &variable))
        return crontab_set(crontab, &variable, ret_error);
    return crontab_read_entry(crontab, line, entry, ret_error) ? CRONTAB_WRONG : CRONTAB_ENTRY;
}

void crontab_entry_deinit(struct crontab_entry *entry)
{
    buffer_deinit(&entry->schedule);
    buffer_deinit(&entry->command);
    buffer_deinit(&entry->input);
}
