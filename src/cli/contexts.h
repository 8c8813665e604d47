/*
 * contexts.h - the files of a user: config, and a file of the same form for each context. A context
 * is a daemon with its token and certificates under a name.
 *
 *     ~/.config/tickwheel/config            settings without a context
 *     ~/.config/tickwheel/contexts/NAME     settings of a context
 *     ~/.config/tickwheel/context           name of the context in use
 *
 * XDG_CONFIG_HOME replaces ~/.config. Only the owner may read what is written.
 *
 * Errors     ERROR_INVALID or ERROR_IO with the file and its line, never with a token.
 * Threads    One.
 */
#ifndef TICKWHEEL_CLI_CONTEXTS_H
#define TICKWHEEL_CLI_CONTEXTS_H

#include "cli/settings.h"

/* Reads the config file, and then a context, which replaces its daemon, token and certificates.
 * NULL means the context in use, if there is one. */
enum error_code contexts_read(struct cli_settings *settings, const char *name,
                              struct error *ret_error);

#endif
