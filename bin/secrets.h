/*
 * secrets.h - loads the tokens file, the certificate and its key, at the start and at SIGHUP.
 */
#ifndef TICKWHEEL_BIN_SECRETS_H
#define TICKWHEEL_BIN_SECRETS_H

#include "http/tls.h"
#include "ops/config.h"
#include "ops/tokens.h"

/* Checks that the settings of access agree, and that a daemon without tokens listens on loopback
 * only. Reads no file. On INVALID, the error names the settings to change. */
enum error_code secrets_check(const struct config *config, struct error *ret_error);

/* Returns the tokens, or NULL without tokens_file. */
enum error_code secrets_load_tokens(const struct config *config, struct tokens **ret_tokens,
                                    struct error *ret_error);

/* Returns the certificate with its key, or NULL without tls_certificate. */
enum error_code secrets_load_identity(const struct config *config,
                                      struct tls_identity **ret_identity, struct error *ret_error);

#endif
