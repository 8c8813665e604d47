/*
 * signatures.h - the signing secrets of a node: those that all tenants share, and those of single
 * tenants.
 *
 *     signatures_create("whsec_MfKQ9r8... shop=whsec_AAECAwQ...", &signatures, &error);
 *     struct signature *signature = signatures_find(signatures, tenant);
 *
 * Whoever verifies by a shared secret can sign with it. A tenant with secrets of its own is signed
 * by these alone, so that the receivers of other tenants cannot sign for it.
 *
 * Errors     ERROR_INVALID with the tenant and the reason, never with a part of a secret.
 * Ownership  The secrets are copied.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_DELIVERY_SIGNATURES_H
#define TICKWHEEL_DELIVERY_SIGNATURES_H

#include "delivery/signature.h"

#define SIGNATURES_TENANTS_MAX 256 /* maximum of tenants with secrets of their own */

struct signatures;

/* Parses words separated by blanks or line ends: a secret that is shared, or TENANT= and a secret
 * of that tenant. The tenant "-" is the unnamed one. Without a word nothing is signed. */
enum error_code signatures_create(const char *text, struct signatures **ret_signatures,
                                  struct error *ret_error);
void signatures_destroy(struct signatures *signatures);

/* Returns what signs the webhooks of the tenant; NULL if they are not signed. */
struct signature *signatures_find(const struct signatures *signatures, struct bytes tenant);

#endif
