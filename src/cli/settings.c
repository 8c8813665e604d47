/* settings.c - the settings of the command line, and its config file. */
#include "cli/settings.h"

#include <stdio.h>

static bool settings_is_visible(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] <= ' ' || text.data[i] > '~')
            return false;
    return text.size > 0;
}

static const char *const SETTINGS_NAMES[] = {
#define X(name, text, variable, other) text,
    CLI_SETTING_LIST(X)
#undef X
};

/* Offset of the text of each setting in struct cli_settings; `output` has none. */
static const size_t SETTINGS_OFFSETS[] = {
    [CLI_SETTING_URL] = offsetof(struct cli_settings, url),
    [CLI_SETTING_TOKEN] = offsetof(struct cli_settings, token),
    [CLI_SETTING_TOKEN_FILE] = offsetof(struct cli_settings, token_file),
    [CLI_SETTING_CA_FILE] = offsetof(struct cli_settings, ca_file),
    [CLI_SETTING_CLIENT_CERT] = offsetof(struct cli_settings, client_cert),
    [CLI_SETTING_CLIENT_KEY] = offsetof(struct cli_settings, client_key),
};

static enum error_code settings_set_url(struct cli_settings *settings, struct bytes text,
                                        struct error *ret_error)
{
    const char *scheme = "";
    struct bytes rest = text;

    if (bytes_has_prefix(text, BYTES("http://")))
        rest = (struct bytes){text.data + 7, text.size - 7};
    else if (bytes_has_prefix(text, BYTES("https://")))
        rest = (struct bytes){text.data + 8, text.size - 8};
    else
        scheme = "http://";
    /* A user and a password would be shown in error texts; `?` and `#` would end a path. */
    if (!settings_is_visible(rest) || memchr(rest.data, '@', rest.size) ||
        memchr(rest.data, '?', rest.size) || memchr(rest.data, '#', rest.size) ||
        rest.data[0] == '/')
        return error_set(ret_error, ERROR_INVALID,
                         "the URL of the daemon has the form http://HOST:PORT");
    for (size_t i = 0; i + 3 <= rest.size; i++)
        if (memcmp(rest.data + i, "://", 3) == 0)
            return error_set(ret_error, ERROR_INVALID,
                             "the URL of the daemon begins with http:// or https://");
    while (text.size > 0 && text.data[text.size - 1] == '/')
        text.size--;
    if (strlen(scheme) + text.size >= sizeof(settings->url))
        return error_set(ret_error, ERROR_INVALID, "the URL of the daemon is too long");
    snprintf(settings->url, sizeof(settings->url), "%s%.*s", scheme, (int)text.size, text.data);
    return ERROR_NONE;
}

static enum error_code settings_set_token(struct cli_settings *settings, struct bytes text,
                                          struct error *ret_error)
{
    if (!settings_is_visible(text) || text.size >= sizeof(settings->token))
        return error_set(ret_error, ERROR_INVALID,
                         "a token has visible ASCII characters, at most %zu",
                         sizeof(settings->token) - 1);
    memcpy(settings->token, text.data, text.size);
    settings->token[text.size] = '\0';
    settings->token_file[0] = '\0';
    return ERROR_NONE;
}

static enum error_code settings_set_file(struct cli_settings *settings, enum cli_setting setting,
                                         struct bytes text, struct error *ret_error)
{
    char *file = (char *)settings + SETTINGS_OFFSETS[setting];

    if (text.size == 0 || text.size >= CLI_FILE_SIZE || memchr(text.data, '\0', text.size))
        return error_set(ret_error, ERROR_INVALID, "the name of a file has 1 to %d bytes",
                         CLI_FILE_SIZE - 1);
    memcpy(file, text.data, text.size);
    file[text.size] = '\0';
    if (setting == CLI_SETTING_TOKEN_FILE)
        settings->token[0] = '\0';
    return ERROR_NONE;
}

static enum error_code settings_set_form(struct cli_settings *settings, struct bytes text,
                                         struct error *ret_error)
{
    static const char *const forms[] = {"table", "json", "ids", "keys"};

    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
        if (bytes_equal(text, bytes_of(forms[i]))) {
            settings->form = (enum cli_form)i;
            return ERROR_NONE;
        }
    return error_set(ret_error, ERROR_INVALID, "the output is table, json, ids or keys");
}

enum error_code cli_settings_set(struct cli_settings *settings, enum cli_setting setting,
                                 struct bytes text, struct error *ret_error)
{
    switch (setting) {
    case CLI_SETTING_URL:
        return settings_set_url(settings, text, ret_error);
    case CLI_SETTING_TOKEN:
        return settings_set_token(settings, text, ret_error);
    case CLI_SETTING_OUTPUT:
        return settings_set_form(settings, text, ret_error);
    default:
        return settings_set_file(settings, setting, text, ret_error);
    }
}

const char *cli_settings_text(const struct cli_settings *settings, enum cli_setting setting)
{
    return setting == CLI_SETTING_OUTPUT ? "" : (const char *)settings + SETTINGS_OFFSETS[setting];
}

const char *cli_setting_name(enum cli_setting setting)
{
    return SETTINGS_NAMES[setting];
}

enum error_code cli_settings_read_token(struct cli_settings *settings, struct bytes text,
                                        struct error *ret_error)
{
    return settings_set_token(settings, bytes_trim(bytes_cut(&text, '\n')), ret_error);
}

/* Reads a line NAME = VALUE, and sets the setting. */
static enum error_code settings_read_line(struct cli_settings *settings, struct bytes line,
                                          struct error *ret_error)
{
    struct bytes name = bytes_trim(bytes_cut(&line, '='));

    for (enum cli_setting i = 0; i < CLI_SETTING_COUNT; i++)
        if (bytes_equal(name, bytes_of(SETTINGS_NAMES[i])))
            return cli_settings_set(settings, i, bytes_trim(line), ret_error);
    return error_set(ret_error, ERROR_INVALID,
                     "a line is: url, token, token_file, ca_file, client_cert, client_key or "
                     "output, an =, and the value");
}

enum error_code cli_settings_read(struct cli_settings *settings, struct bytes text,
                                  const char *name, struct error *ret_error)
{
    for (size_t number = 1; text.size > 0; number++) {
        struct bytes line = bytes_trim(bytes_cut(&text, '\n'));
        struct error error;

        if (line.size == 0 || line.data[0] == '#')
            continue;
        enum error_code code = settings_read_line(settings, line, &error);
        if (code)
            return error_set(ret_error, code, "%s, line %zu: %s", name, number, error.text);
    }
    return ERROR_NONE;
}
