/* contexts.c - files of settings, and the verb context. */
#include "cli/contexts.h"

#include "base/json_write.h"
#include "cli/client.h"
#include "cli/verbs.h"
#include "sys/files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define CONTEXTS_NAME_SIZE 64 /* Room of a name with its end, in bytes. */

/* ---- files ---- */

/* Writes the path of a file of the user. Returns false if the environment does not name the
 * folder. */
static bool contexts_path(const char *folder, const char *name, char ret_path[PATH_MAX])
{
    const char *root = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    const bool has_root = root && *root;

    if (!has_root && !(home && *home))
        return false;
    return snprintf(ret_path, PATH_MAX, "%s%s/tickwheel/%s%s", has_root ? root : home,
                    has_root ? "" : "/.config", folder, name) < PATH_MAX;
}

static bool contexts_is_name(const char *name)
{
    static const char valid[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

    return *name && *name != '.' && *name != '-' && strlen(name) < CONTEXTS_NAME_SIZE &&
           strspn(name, valid) == strlen(name);
}

/* Writes the path of a context's file. Returns false if there is no context of this name. */
static bool contexts_find(const char *name, char ret_path[PATH_MAX])
{
    return contexts_is_name(name) && contexts_path("contexts/", name, ret_path) &&
           files_exists(ret_path);
}

/* Reads a file of settings, and warns of a token in it that others may read. */
static enum error_code contexts_read_file(struct cli_settings *settings, const char *path,
                                          struct error *ret_error)
{
    struct buffer text;

    buffer_init(&text);
    enum error_code code = files_read_regular(path, CLI_CONFIG_BYTES_MAX, &text, ret_error);
    if (!code)
        code = cli_settings_read(settings, buffer_bytes(&text), path, ret_error);
    if (!code && *settings->token && !files_is_private(path))
        cli_complain(CLI_EXIT_DONE, "other users may read the token in %s: chmod 600 it", path);
    buffer_deinit(&text);
    return code;
}

/* Reads the name of the context in use; "" if there is none. */
static enum error_code contexts_read_used(char ret_name[CONTEXTS_NAME_SIZE],
                                          struct error *ret_error)
{
    char path[PATH_MAX];
    struct buffer text;

    *ret_name = '\0';
    if (!contexts_path("context", "", path) || !files_exists(path))
        return ERROR_NONE;
    buffer_init(&text);
    enum error_code code = files_read_regular(path, CONTEXTS_NAME_SIZE, &text, ret_error);
    struct bytes name = bytes_trim(buffer_bytes(&text));
    if (!code && name.size < CONTEXTS_NAME_SIZE)
        snprintf(ret_name, CONTEXTS_NAME_SIZE, "%.*s", (int)name.size, name.data);
    if (!code && !contexts_is_name(ret_name))
        code =
            error_set(ret_error, ERROR_INVALID,
                      "%s holds no name of a context: tickwheel context use NAME writes it", path);
    buffer_deinit(&text);
    return code;
}

static enum error_code contexts_read_one(struct cli_settings *settings, const char *name,
                                         struct error *ret_error)
{
    char path[PATH_MAX];

    if (!contexts_find(name, path))
        return error_set(ret_error, ERROR_INVALID,
                         "there is no context \"%s\": tickwheel context lists them", name);
    *settings = (struct cli_settings){.form = settings->form};
    return contexts_read_file(settings, path, ret_error);
}

enum error_code contexts_read(struct cli_settings *settings, const char *name,
                              struct error *ret_error)
{
    char path[PATH_MAX], used[CONTEXTS_NAME_SIZE] = "";
    enum error_code code = ERROR_NONE;

    if (contexts_path("config", "", path) && files_exists(path))
        code = contexts_read_file(settings, path, ret_error);
    if (!code && !name)
        code = contexts_read_used(used, ret_error);
    if (code || (!name && !*used))
        return code;
    return contexts_read_one(settings, name ? name : used, ret_error);
}

/* ---- the verb ---- */

static bool contexts_collect(void *context, const struct files_entry *entry)
{
    char name[CONTEXTS_NAME_SIZE] = {0};

    if (entry->is_folder || !contexts_is_name(entry->name))
        return true;
    memcpy(name, entry->name, strlen(entry->name));
    buffer_append(context, name, sizeof(name));
    return true;
}

static int contexts_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void contexts_show(struct cli *cli, struct screen_table *table, const char *name,
                          const struct cli_settings *settings, bool is_used)
{
    const char *token = *settings->token_file ? settings->token_file
                        : *settings->token    ? "in the context"
                                              : "none";

    if (cli->settings.form == CLI_FORM_TABLE) {
        screen_table_add(table, SCREEN_GREEN, bytes_of(is_used ? "*" : ""));
        screen_table_add(table, SCREEN_PLAIN, bytes_of(name));
        screen_table_add(table, SCREEN_PLAIN, bytes_of(settings->url));
        screen_table_add(table, SCREEN_PLAIN, bytes_of(token));
        return;
    }
    if (cli->settings.form == CLI_FORM_IDS) {
        buffer_printf(&cli->out, "%s\n", name);
        return;
    }
    json_open(&cli->out, NULL, '{');
    json_put_text(&cli->out, "name", name);
    json_put_flag(&cli->out, "in_use", is_used);
    for (enum cli_setting i = 0; i < CLI_SETTING_COUNT; i++)
        if (i != CLI_SETTING_TOKEN && *cli_settings_text(settings, i))
            json_put_text(&cli->out, cli_setting_name(i), cli_settings_text(settings, i));
    json_close(&cli->out, '}');
    buffer_append_text(&cli->out, "\n");
}

static enum cli_exit contexts_list(struct cli *cli)
{
    static const char *const heads[] = {"", "NAME", "URL", "TOKEN"};
    char folder[PATH_MAX], used[CONTEXTS_NAME_SIZE];
    enum cli_exit code = CLI_EXIT_DONE;
    struct screen_table table;
    struct buffer names;
    struct error error;

    if (contexts_read_used(used, &error))
        code = cli_complain(CLI_EXIT_USAGE, "%s", error.text);
    buffer_init(&names);
    if (contexts_path("contexts", "", folder) && files_exists(folder) &&
        files_list(folder, contexts_collect, &names, &error))
        code = cli_complain(CLI_EXIT_FAILED, "%s", error.text);
    screen_table_init(&table, 4);
    for (size_t i = 0; i < 4; i++)
        screen_table_add(&table, SCREEN_BOLD, bytes_of(heads[i]));
    if (names.size)
        qsort(names.data, names.size / CONTEXTS_NAME_SIZE, CONTEXTS_NAME_SIZE, contexts_compare);
    for (size_t at = 0; at < names.size; at += CONTEXTS_NAME_SIZE) {
        const char *name = names.data + at;
        struct cli_settings settings = {0};

        if (contexts_read_one(&settings, name, &error))
            code = cli_complain(CLI_EXIT_USAGE, "%s", error.text);
        contexts_show(cli, &table, name, &settings, strcmp(name, used) == 0);
    }
    if (cli->settings.form == CLI_FORM_TABLE)
        screen_table_append(&table, cli_style(cli), &cli->out);
    screen_table_deinit(&table);
    buffer_deinit(&names);
    return code;
}

/* Appends a line for each setting. Paths of files are absolute, so that they are valid in any
 * folder. */
static enum cli_exit contexts_append(const struct cli_settings *settings, struct buffer *text)
{
    for (enum cli_setting i = 0; i < CLI_SETTING_COUNT; i++) {
        const char *value = cli_settings_text(settings, i);
        char path[PATH_MAX];

        if (*value && i != CLI_SETTING_URL && i != CLI_SETTING_TOKEN) {
            if (!realpath(value, path))
                return cli_complain(CLI_EXIT_USAGE, "there is no file %s", value);
            if (strchr(path, '\n') || bytes_trim(bytes_of(path)).size != strlen(path))
                return cli_complain(CLI_EXIT_USAGE,
                                    "a context cannot hold the path %s: it ends in a blank, or has "
                                    "more than a line",
                                    path);
            value = path;
        }
        if (*value)
            buffer_printf(text, "%s = %s\n", cli_setting_name(i), value);
    }
    return CLI_EXIT_DONE;
}

static enum cli_exit contexts_write(const char *folder, const char *name, struct bytes text)
{
    char parent[PATH_MAX], path[PATH_MAX];
    struct error error;

    if (!contexts_path(folder, "", parent) || !contexts_path(folder, name, path))
        return cli_complain(CLI_EXIT_USAGE, "neither HOME nor XDG_CONFIG_HOME names a folder");
    if (files_make_folder(parent, &error) || files_write(path, text, &error))
        return cli_complain(CLI_EXIT_FAILED, "%s", error.text);
    return CLI_EXIT_DONE;
}

static enum cli_exit contexts_add(struct cli *cli, const char *name)
{
    char path[PATH_MAX];
    struct buffer text;

    if (!cli_flag(cli, CLI_FLAG_URL))
        return cli_complain(CLI_EXIT_USAGE, "name the daemon of the context by --url");
    if (!contexts_is_name(name))
        return cli_complain(CLI_EXIT_USAGE,
                            "the name of a context has up to %d letters, digits, and - _ .",
                            CONTEXTS_NAME_SIZE - 1);
    if (!cli_flag(cli, CLI_FLAG_REPLACE) && contexts_find(name, path))
        return cli_complain(CLI_EXIT_CONFLICT,
                            "there is a context \"%s\" already; --replace replaces it", name);
    buffer_init(&text);
    enum cli_exit code = contexts_append(&cli->settings, &text);
    if (!code)
        code = contexts_write("contexts/", name, buffer_bytes(&text));
    buffer_deinit(&text);
    return code;
}

static enum cli_exit contexts_remove(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct error error;

    if (contexts_path(folder, name, path) && files_remove(path, &error))
        return cli_complain(CLI_EXIT_FAILED, "%s", error.text);
    return CLI_EXIT_DONE;
}

/* Runs `use NAME`, or `remove NAME`, after which that context is no longer in use. */
static enum cli_exit contexts_use_or_remove(const char *act, const char *name)
{
    char path[PATH_MAX], used[CONTEXTS_NAME_SIZE];
    struct error error;

    if (!contexts_find(name, path))
        return cli_complain(CLI_EXIT_USAGE,
                            "there is no context \"%s\": tickwheel context lists them", name);
    if (strcmp(act, "use") == 0)
        return contexts_write("", "context", bytes_of(name));
    enum cli_exit code = contexts_remove("contexts/", name);
    if (!code && !contexts_read_used(used, &error) && strcmp(used, name) == 0)
        code = contexts_remove("context", "");
    return code;
}

enum cli_exit contexts_run(struct cli *cli)
{
    const char *act = cli->options.argument_count ? cli->options.arguments[0] : "list";
    const char *name = cli->options.argument_count == 2 ? cli->options.arguments[1] : NULL;

    if (strcmp(act, "list") == 0 && !name)
        return contexts_list(cli);
    if (strcmp(act, "use") == 0 && !name)
        return contexts_remove("context", "");
    if (strcmp(act, "add") == 0 && name)
        return contexts_add(cli, name);
    if (name && (strcmp(act, "use") == 0 || strcmp(act, "remove") == 0))
        return contexts_use_or_remove(act, name);
    return cli_complain(CLI_EXIT_USAGE,
                        "context is followed by list, add NAME, use [NAME] or remove NAME");
}
