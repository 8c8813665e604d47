/*
 * signing.h - signatures of webhooks (Standard Webhooks): receive verifies them, by a secret or a
 * public key; listen signs by a secret.
 *
 * Errors     CLI_EXIT_USAGE, complained about, never with a part of the secret.
 * Ownership  A key holds a copy of the secret; wipe it by signing_key_wipe.
 * Threads    One.
 */
#ifndef TICKWHEEL_CLI_SIGNING_H
#define TICKWHEEL_CLI_SIGNING_H

#include "cli/cli.h"

#define SIGNING_KEY_BYTES_MAX 64

struct signing_key {
    /* has room for more, because base64 is decoded in steps of 3 bytes */
    char bytes[SIGNING_KEY_BYTES_MAX + 8];
    size_t size; /* 0 if there is no secret */
    bool is_public;
};

enum signing_use { SIGNING_TO_SIGN, SIGNING_TO_VERIFY };

/* Reads the secret of --secret or TICKWHEEL_WEBHOOK_SECRET: "whsec_" and base64, or @FILE. To
 * verify it may be a public key of Ed25519, "whpk_" and base64. */
enum cli_exit signing_read_key(const struct cli *cli, enum signing_use use,
                               struct signing_key *ret_key);
void signing_key_wipe(struct signing_key *key);

/* Appends "v1,...", the signature of webhook-id, webhook-timestamp and body by a secret. Appends
 * nothing if out of memory. */
void signing_append(const struct signing_key *key, struct bytes id, struct bytes timestamp,
                    struct bytes body, struct buffer *out);

/* True if one of the signatures, which are separated by blanks, is that of webhook-id,
 * webhook-timestamp and body. */
bool signing_is_valid(const struct signing_key *key, struct bytes id, struct bytes timestamp,
                      struct bytes body, struct bytes signatures);

#endif
