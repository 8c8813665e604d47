/*
 * named_target.h - the definition of a named target, as JSON: what a client sends, what the table
 * of definitions stores, and what is shown.
 *
 *     {"url": "https://api.billing.example/v1", "method": "PUT", "headers": {"x-team": "a"},
 *      "auth": {"kind": "bearer", "token": "s3cret"}, "ca": "-----BEGIN CERTIFICATE----- ...",
 *      "signing": "whsec_...", "limits": {"concurrency": 2, "rate": "10/s"}}
 *
 * A secret is a text when a client sends it, and in the configuration; {"secret_ref": "env:NAME"}
 * or "file:PATH" if it is kept elsewhere; {"set": true}, as it is shown, if it stays; {"sealed":
 * ..., "since": ...} when stored.
 *
 * Errors     ERROR_INVALID with the place, such as "#/auth/token", and the reason as a sentence.
 *            Neither shows a value. ERROR_NO_MEMORY.
 * Ownership  A target borrows from its text, and from memory of its own that deinit wipes.
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_DELIVERY_NAMED_TARGET_H
#define TICKWHEEL_DELIVERY_NAMED_TARGET_H

#include "base/error.h"
#include "base/time.h"
#include "delivery/named_auth.h"
#include "timer/named_limits.h"

#define NAMED_URL_SIZE_MAX     2048
#define NAMED_HEADERS_SIZE_MAX 4096
#define NAMED_CA_SIZE_MAX      32768

/* Indices of the signing secrets, and of those before them, which a rotation still uses for a
 * while; after the fields of authentication. */
#define NAMED_SIGNING    NAMED_FIELDS_MAX
#define NAMED_BEFORE     (NAMED_FIELDS_MAX + 1)
#define NAMED_VALUES_MAX (NAMED_FIELDS_MAX + 2)

#define NAMED_OVERLAP_MS_MAX UINT64_C(2592000000) /* 30 days */

#define NAMED_SIGNING_SIZE_MAX 512 /* maximum of bytes of the signing secrets: four, and spaces */

#define NAMED_HEADER_IS_SECRET "A secret belongs into `auth`: kind bearer, basic or header"

/* NAMED_CONFIGURED is what a file of the configuration has: a secret there has no earlier value. */
enum named_form { NAMED_SENT, NAMED_CONFIGURED, NAMED_STORED };

/* The value of a field of authentication. */
struct named_value {
    struct bytes text;   /* of a field without secrets; of a secret that is not sealed */
    struct bytes ref;    /* "env:NAME" or "file:PATH" */
    struct bytes sealed; /* seal.h */
    struct wall since;   /* time at which the secret was set */
    struct wall until;   /* of NAMED_BEFORE: time from which it signs no longer */
};

struct named_target {
    struct bytes url, method, ca; /* empty method: POST; empty ca: the authorities of the daemon */
    struct bytes headers;         /* "name: value\n" each */
    struct named_limits limits;
    /* further headers that are shown as *** (timer/sensitive_headers.h); set by whoever shows it */
    struct bytes sensitive_headers;
    const struct named_auth *auth;               /* NULL for none */
    struct named_value values[NAMED_VALUES_MAX]; /* of the fields, and of signing */
    bool has_no_signing;                         /* "signing": null, which ends it */
    struct buffer room_;
};

struct named_fault {
    char place[64];
    char
        member[64]; /* name of a member there that does not exist, cut to the size; empty if none */
    char reason[200];
};

/* Parses a definition. */
enum error_code named_target_parse(struct bytes json, enum named_form form,
                                   struct named_target *ret_target, struct named_fault *ret_fault);
void named_target_deinit(struct named_target *target);

/* Parses the body of a rotation: {"signing": SECRET, "overlap": DURATION}. */
enum error_code named_rotation_parse(struct bytes json, struct named_target *ret_target,
                                     uint64_t *ret_overlap_ms, struct named_fault *ret_fault);

/* Returns the field of a value; NULL if the target has none with this index. */
const struct named_auth_field *named_target_field(const struct named_target *target, int index);

/* Returns what a value's secret is bound to beside its field: the kind of authentication. */
const char *named_target_kind(const struct named_target *target, int index);

/* Returns where the value stands in the definition, such as "#/auth/". */
const char *named_target_place(int index);

/* Returns the address up to the path, such as "https://api.billing.example". */
struct bytes named_target_origin(const struct named_target *target);

/* True if the secret is known or can be found. */
static inline bool named_value_is_set(const struct named_value *value)
{
    return value->text.size || value->ref.size || value->sealed.size;
}

/* Appends the members of the definition to the open object: in their stored form, or as shown. */
enum named_view { NAMED_VIEW_STORED, NAMED_VIEW_SHOWN };
void named_target_put(const struct named_target *target, enum named_view view, struct buffer *out);

#endif
