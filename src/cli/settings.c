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

enum error_code cli_settings_set_url(struct cli_settings *settings, struct bytes text,
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
    /* A user and a password would appear in error texts, and `?` and `#` would cut a path off. */
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

enum error_code cli_settings_set_token(struct cli_settings *settings, struct bytes text,
                                       struct error *ret_error)
{
    if (!settings_is_visible(text) || text.size >= sizeof(settings->token))
        return error_set(ret_error, ERROR_INVALID,
                         "a token has visible ASCII characters, at most %zu",
                         sizeof(settings->token) - 1);
    memcpy(settings->token, text.data, text.size);
    settings->token[text.size] = '\0';
    return ERROR_NONE;
}

enum error_code cli_settings_set_ca_file(struct cli_settings *settings, struct bytes text,
                                         struct error *ret_error)
{
    if (text.size == 0 || text.size >= sizeof(settings->ca_file) ||
        memchr(text.data, '\0', text.size))
        return error_set(ret_error, ERROR_INVALID, "the name of a CA file has up to %zu bytes",
                         sizeof(settings->ca_file) - 1);
    memcpy(settings->ca_file, text.data, text.size);
    settings->ca_file[text.size] = '\0';
    return ERROR_NONE;
}

enum error_code cli_settings_set_form(struct cli_settings *settings, struct bytes text,
                                      struct error *ret_error)
{
    static const char *const forms[] = {"table", "json", "ids"};

    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
        if (bytes_equal(text, bytes_of(forms[i]))) {
            settings->form = (enum cli_form)i;
            return ERROR_NONE;
        }
    return error_set(ret_error, ERROR_INVALID, "the output is table, json or ids");
}

enum error_code cli_settings_read(struct cli_settings *settings, struct bytes text,
                                  const char *name, struct error *ret_error)
{
    static const struct {
        const char *name;
        enum error_code (*set)(struct cli_settings *settings, struct bytes text,
                               struct error *ret_error);
    } lines[] = {
        {"url", cli_settings_set_url},
        {"token", cli_settings_set_token},
        {"ca_file", cli_settings_set_ca_file},
        {"output", cli_settings_set_form},
    };

    for (size_t number = 1; text.size > 0; number++) {
        struct bytes rest = bytes_trim(bytes_cut(&text, '\n'));
        if (rest.size == 0 || rest.data[0] == '#')
            continue;
        struct bytes word = bytes_trim(bytes_cut(&rest, '='));
        struct error error = {.text =
                                  "a line is: url, token, ca_file or output, an =, and the value"};
        enum error_code code = ERROR_INVALID;
        for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
            if (bytes_equal(word, bytes_of(lines[i].name)))
                code = lines[i].set(settings, bytes_trim(rest), &error);
        if (code)
            return error_set(ret_error, code, "%s, line %zu: %s", name, number, error.text);
    }
    return ERROR_NONE;
}
