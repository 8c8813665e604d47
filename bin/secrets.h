/*
 * secrets.h - what the daemon reads from files of their own, at the start and again at SIGHUP: the
 * tokens file, and the certificate with its key.
 */
#ifndef TICKWHEEL_BIN_SECRETS_H
#define TICKWHEEL_BIN_SECRETS_H

#include "http/tls.h"
#include "ops/config.h"
#include "ops/tokens.h"

/* Whether the settings of access go together, and listening is not left open to everybody: INVALID
 * says what to set. Looks at no file. */
enum error_code secrets_check(const struct config *config, struct error *ret_error);

/* The tokens; NULL when there is no tokens file. */
enum error_code secrets_load_tokens(const struct config *config, struct tokens **ret_tokens,
                                    struct error *ret_error);

/* The certificate with its key; NULL when there is none. */
enum error_code secrets_load_identity(const struct config *config,
                                      struct tls_identity **ret_identity, struct error *ret_error);

#endif
