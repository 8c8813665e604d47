/*
 * settings.h - where the daemon is and how to speak to it: from flags, the environment, or the
 * config file, in this order.
 *
 *     # ~/.config/tickwheel/config
 *     url = https://timers.example:8463
 *     token = tw_...
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
#define CLI_CA_FILE_SIZE     4096

enum cli_form {
    CLI_FORM_TABLE,
    CLI_FORM_JSON,
    CLI_FORM_IDS,
};

struct cli_settings {
    char url[512]; /* with http:// or https://, without a slash at its end; "" when it is not set */
    char token[256];                /* visible ASCII; "" when it is not set */
    char ca_file[CLI_CA_FILE_SIZE]; /* PEM file of the authorities that are trusted; "": those of
                                       the system */
    enum cli_form form;
    uint64_t timeout_ms;
};

/* Checks the address of a daemon; without a scheme it gets http://. */
enum error_code cli_settings_set_url(struct cli_settings *settings, struct bytes text,
                                     struct error *ret_error);

enum error_code cli_settings_set_token(struct cli_settings *settings, struct bytes text,
                                       struct error *ret_error);

/* The name of a file that exists. */
enum error_code cli_settings_set_ca_file(struct cli_settings *settings, struct bytes text,
                                         struct error *ret_error);

enum error_code cli_settings_set_form(struct cli_settings *settings, struct bytes text,
                                      struct error *ret_error);

/* Reads the text of a config file; `name` stands in errors. */
enum error_code cli_settings_read(struct cli_settings *settings, struct bytes text,
                                  const char *name, struct error *ret_error);

#endif
