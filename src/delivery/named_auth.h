/*
 * named_auth.h - the kinds of authentication of named targets: a row for each, which one file
 * defines.
 *
 * A kind has fields, which a definition gives as members of `auth`; secret ones are sealed. Before
 * each attempt `apply` adds to the request what the fields say.
 *
 * Errors     A reason is a sentence about the field, without its value.
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_DELIVERY_NAMED_AUTH_H
#define TICKWHEEL_DELIVERY_NAMED_AUTH_H

#include "base/bytes.h"
#include "delivery/oauth_message.h"

/* X(file, "kind"): named_auth_FILE is in named_auth_FILE.c. */
#define NAMED_AUTH_LIST(X)        \
    X(bearer, "bearer")           \
    X(basic, "basic")             \
    X(header, "header")           \
    X(certificate, "certificate") \
    X(oauth2, "oauth2")           \
    X(oidc, "oidc")

#define NAMED_FIELDS_MAX 6 /* maximum of fields of a kind */

/* What authentication adds to a request. The owner wipes it. */
struct named_request {
    struct buffer headers;         /* "name: value\n" each */
    struct bytes certificate, key; /* PEM, for TLS; empty for none */
    struct oauth_client oauth;     /* client whose token is sent; empty url for none */
    bool is_oidc;                  /* a token of this service is sent */
    struct bytes audience;         /* its audience; empty for the origin of the target */
};

struct named_auth_field {
    const char *name; /* NULL ends the fields */
    bool is_secret;
    size_t size_max;
    bool is_optional; /* may be left out, unless it is secret */
    bool is_address;  /* secrets go there: with another value they must be sent again */
};

struct named_auth {
    const char *kind;
    bool needs_tls; /* true if the URL must begin with https */
    struct named_auth_field fields[NAMED_FIELDS_MAX + 1];
    /* Checks the values of all fields; the data of a secret is NULL if it is not known yet. Returns
     * the index of a wrong field with the reason; -1 if there is none. */
    int (*check)(const struct bytes *values, const char **ret_reason);
    void (*apply)(const struct bytes *values, struct named_request *request);
};

/* Returns the row; NULL if there is no such kind. */
const struct named_auth *named_auth_find(struct bytes kind);

/* Returns the index of the field; -1 if the kind has none of this name. */
int named_auth_field(const struct named_auth *auth, struct bytes name);

/* Checks that each given value is visible ASCII; the `check` of most kinds. */
int named_auth_check_visible(const struct bytes *values, const char **ret_reason);

#define X(file, kind) extern const struct named_auth named_auth_##file;
NAMED_AUTH_LIST(X)
#undef X

#endif
