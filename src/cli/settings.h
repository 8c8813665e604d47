/*
 * settings.h - where the daemon is and how to speak to it: from flags, the environment, a context
 * or the config file, in this order.
 *
 *     # ~/.config/tickwheel/config, or ~/.config/tickwheel/contexts/NAME
 *     url = https://timers.example:8463
 *     token_file = /run/secrets/tickwheel
 *     output = table
 *
 * Errors     ERROR_INVALID with the line, never with the value of a token.
 * Threads    Any: no globals.
 */
#ifndef TICKWHEEL_CLI_SETTINGS_H
#define TICKWHEEL_CLI_SETTINGS_H

#include "base/bytes.h"
#include "base/error.h"

#define CLI_CONFIG_BYTES_MAX (64 * 1024)
#define CLI_FILE_SIZE        4096

/* X(NAME, name in a file, environment variables that set it): of several variables the first one
 * wins. The flag has the same NAME. */
#define CLI_SETTING_LIST(X)                                  \
    X(URL, "url", "TICKWHEEL_URL", "")                       \
    X(TOKEN, "token", "TICKWHEEL_TOKEN", "")                 \
    X(TOKEN_FILE, "token_file", "", "")                      \
    X(CA_FILE, "ca_file", "CURL_CA_BUNDLE", "SSL_CERT_FILE") \
    X(CLIENT_CERT, "client_cert", "", "")                    \
    X(CLIENT_KEY, "client_key", "", "")                      \
    X(OUTPUT, "output", "", "")

enum cli_setting {
#define X(name, text, variable, other) CLI_SETTING_##name,
    CLI_SETTING_LIST(X)
#undef X
        CLI_SETTING_COUNT
};

enum cli_form {
    CLI_FORM_TABLE,
    CLI_FORM_JSON,
    CLI_FORM_IDS,
    CLI_FORM_KEYS,
};

struct cli_settings {
    /* begins with http:// or https://, and has no slash at its end; "" if it is not set */
    char url[512];
    char token[256];                /* Visible ASCII; "" if it is not set. */
    char token_file[CLI_FILE_SIZE]; /* File with the token; "" if it is not set, or `token` is. */
    char ca_file[CLI_FILE_SIZE];    /* PEM file of the authorities to trust; "" for the system's. */
    char client_cert[CLI_FILE_SIZE]; /* PEM file of the certificate to show; "" for none. */
    char client_key[CLI_FILE_SIZE];  /* PEM file of its key; "" if it is in client_cert. */
    enum cli_form form;
    uint64_t timeout_ms;
};

/* Checks a value and sets it. An address without a scheme gets http://. A token and a token file
 * replace each other. */
enum error_code cli_settings_set(struct cli_settings *settings, enum cli_setting setting,
                                 struct bytes text, struct error *ret_error);

/* Returns a setting in the form that a file has; "" if it is not set, and for `output`. */
const char *cli_settings_text(const struct cli_settings *settings, enum cli_setting setting);

/* Returns the name of a setting in a file. */
const char *cli_setting_name(enum cli_setting setting);

/* Sets the token to the first line of a token file, without blanks at its ends. */
enum error_code cli_settings_read_token(struct cli_settings *settings, struct bytes text,
                                        struct error *ret_error);

/* Reads the text of a config file, which errors call `name`. */
enum error_code cli_settings_read(struct cli_settings *settings, struct bytes text,
                                  const char *name, struct error *ret_error);

#endif
