/*
 * token_issuer.h - tokens (JWT) by which a receiver recognises this service and the tenant whose
 * timer it calls for.
 *
 *     token_issuer_create(&options, &issuer, &error);
 *     struct bytes token = token_issuer_find(issuer, tenant, audience, now_s);
 *
 * A token is for one tenant (sub) and one audience (aud), so a receiver cannot use it elsewhere. It
 * serves all webhooks of half its life: signing by RSA takes longer than many webhooks.
 *
 * Time       The caller hands in the time. A token that is not of this time is made anew.
 * Errors     ERROR_INVALID says what is wrong with the keys.
 * Ownership  The texts are copied. A token is valid until the next call.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_DELIVERY_TOKEN_ISSUER_H
#define TICKWHEEL_DELIVERY_TOKEN_ISSUER_H

#include "delivery/token_keys.h"

#define TOKEN_ISSUER_KEPT_MAX 1024 /* maximum of tokens that are kept */

struct token_issuer_options {
    const char *issuer; /* iss */
    /* PEM file of the private keys; the first one signs. Empty: keys that the daemon made */
    const char *keys_file;
    struct vault *vault; /* for those: gives and opens them (token_keys.h); borrowed */
    uint32_t life_s;     /* time from iat to exp, in seconds */
};

struct token_issuer;

enum error_code token_issuer_create(const struct token_issuer_options *options,
                                    struct token_issuer **ret_issuer, struct error *ret_error);
void token_issuer_destroy(struct token_issuer *issuer);

/* Looks, each second, which key signs. Returns false if there is none yet, or it does not open. */
bool token_issuer_is_ready(struct token_issuer *issuer, uint64_t now_s, struct error *ret_reason);

/* Returns a token that is valid for at least half its life. Empty if out of memory. The
 * issuer was ready before. */
struct bytes token_issuer_find(struct token_issuer *issuer, struct bytes tenant,
                               struct bytes audience, uint64_t now_s);

/* Appends the public keys of the file as a JWK set; nothing without a file. */
void token_issuer_append_set(const struct token_issuer *issuer, struct buffer *out);

#endif
