/*
 * named.h - named targets at work: looks a timer's target up in the table of definitions before
 * each attempt, and makes the timer as it is sent: with the URL, the method, the headers and the
 * credentials of the definition.
 *
 *     code = named_resolve(named, delivery, &error);     delivery->sent is what to send
 *     ...
 *     named_release(delivery);                           before it goes back to the engine
 *
 * Secrets are opened here and nowhere else, and wiped with the delivery.
 *
 * References `file:PATH` is below secrets_folder, and below the folder of the tenant's name there
 *            if the tenant has a name. `env:NAME` is for the operator: in definitions of the
 *            configuration, and of the tenant without a name. NAME begins with TICKWHEEL_SECRET_.
 * Errors     ERROR_INVALID with the reason, without secrets.
 * Threads    Any.
 */
#ifndef TICKWHEEL_DELIVERY_NAMED_H
#define TICKWHEEL_DELIVERY_NAMED_H

#include "delivery/guard.h"
#include "delivery/named_target.h"
#include "delivery/vault.h"
#include "delivery/signature.h"
#include "engine/delivery.h"

#define NAMED_SECRET_ENV "TICKWHEEL_SECRET_"

struct named_options {
    struct definition_board *board; /* borrowed; NULL means that there are no named targets */
    const char *keys;               /* seal.h; empty for none */
    const char *secrets_folder;     /* empty for none; copied */
    const char *sensitive_headers;  /* further ones (timer/sensitive_headers.h); copied */
    const struct guard *guard;      /* borrowed */
    bool issues_tokens;             /* whether authentication by oidc may be defined */
};

/* Client certificate and authorities of an attempt, in PEM; empty for none. */
struct named_identity {
    struct bytes certificate, key, ca;
};

struct named;

enum error_code named_create(const struct named_options *options, struct named **ret_named,
                             struct error *ret_error);
void named_destroy(struct named *named); /* NULL is allowed */

/* Replaces the keys. On an error nothing changes. */
enum error_code named_reload(struct named *named, const char *keys, struct error *ret_error);

/* Returns the keys and the definitions. */
struct vault *named_vault(struct named *named);

/* Checks that the tenant has the target. */
enum error_code named_check(struct named *named, struct bytes tenant, struct bytes text,
                            const struct target *target, struct error *ret_error);

/* Returns the number of definitions with a sealed secret that does not open, for want of its key;
 * the reason for the first of them. */
size_t named_count_closed(struct named *named, struct error *ret_reason);

/* Sets `sent` of the delivery. On an error it is NULL. */
enum error_code named_resolve(struct named *named, struct delivery *delivery,
                              struct error *ret_error);

/* Wipes and frees `sent`, if it is set. */
void named_release(struct delivery *delivery);

/* Returns the identity of a delivery; NULL if it needs none. */
const struct named_identity *named_identity_of(const struct delivery *delivery);

/* Returns what signs the delivery by secrets of its target; NULL if that has none. */
struct signature *named_signature_of(const struct delivery *delivery);

/* Returns the client of OAuth 2.0 whose token the delivery needs; NULL if it needs none. */
const struct oauth_client *named_oauth_of(const struct delivery *delivery);

/* Sets that token, which is copied: another delivery may end it before this one is sent. `sent`
 * must be set, without a token. Returns false if out of memory. */
bool named_set_bearer(struct delivery *delivery, struct bytes token);

/* Returns that token; empty if there is none. */
struct bytes named_bearer_of(const struct delivery *delivery);

/* Replaces the credentials of the request in the answer that is kept: those of the target, and the
 * values of sensitive headers. */
void named_hide_in_answer(const struct named *named, struct delivery *delivery);

/* True if the delivery needs a token of this service. */
bool named_is_oidc(const struct delivery *delivery);

/* Returns the audience of a token of this service; empty for the origin of the target. */
struct bytes named_audience_of(const struct delivery *delivery);

/* Makes the stored form of what a client sent: seals its secrets. A secret that is left out is kept
 * from `last`, if that is of the same kind of authentication and calls the same host. ERROR_INVALID
 * with the place. */
enum error_code named_store(struct named *named, struct bytes tenant, struct bytes name,
                            struct wall now, struct named_target *target, struct bytes last,
                            struct buffer *out, struct named_fault *ret_fault);

/* Checks a definition of the configuration. ERROR_INVALID with the place. */
enum error_code named_check_configured(struct named *named, struct bytes json,
                                       struct named_fault *ret_fault);

/* Makes the stored form of the definition with the signing secrets of the rotation. Those of before
 * sign too for `overlap_ms`. ERROR_INVALID with the place. */
enum error_code named_rotate(struct named *named, const struct definition *row, struct wall now,
                             const struct named_target *rotation, uint64_t overlap_ms,
                             struct buffer *out, struct named_fault *ret_fault);

/* Appends the stored form with all secrets sealed by the first key. `ret_has_changed` is false if
 * they are. */
enum error_code named_reseal(struct named *named, const struct definition *row, struct buffer *out,
                             bool *ret_has_changed, struct error *ret_error);

#endif
