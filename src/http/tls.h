/*
 * tls.h - the identity of the server in TLS: a certificate chain and its key.
 *
 * Ownership  Counted: each connection holds the identity that it was opened with, so another one
 *            can take its place for new connections.
 * Threads    Any; immutable.
 */
#ifndef TICKWHEEL_HTTP_TLS_H
#define TICKWHEEL_HTTP_TLS_H

#include "base/bytes.h"
#include "base/error.h"

struct tls_identity;

/* TLS 1.2 and 1.3, with ciphers of at least 128 bits that authenticate, and with keys that the key
 * of the certificate does not give away later; in GnuTLS's words. */
#define TLS_PRIORITIES "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-MAC-ALL:+AEAD"

/* Both in PEM: the certificate with those that lead to a trusted one behind it, and its key.
 * INVALID when one cannot be read, or they do not belong together. */
enum error_code tls_identity_create(struct bytes certificate, struct bytes key,
                                    struct tls_identity **ret_identity, struct error *ret_error);

struct tls_identity *tls_identity_hold(struct tls_identity *identity);

/* NULL is allowed. */
void tls_identity_release(struct tls_identity *identity);

/* The texts it was made of, NUL-terminated. */
const char *tls_identity_certificate(const struct tls_identity *identity);
const char *tls_identity_key(const struct tls_identity *identity);

/* Lets a session that has not begun its handshake show this identity; it must outlive the session.
 * False when out of memory. */
bool tls_identity_show(const struct tls_identity *identity, void *session);

#endif
