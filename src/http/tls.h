/*
 * tls.h - the identity of the server in TLS, a certificate chain and its key; and the sessions of
 * connections that were shown it.
 *
 * Ownership  An identity is counted: each session holds its own, so another identity can take
 *            the place for new sessions.
 * Threads    An identity: any; immutable. A session: one owner.
 */
#ifndef TICKWHEEL_HTTP_TLS_H
#define TICKWHEEL_HTTP_TLS_H

#include "base/bytes.h"
#include "base/error.h"

#include <sys/types.h>

struct tls_identity;
struct tls_session;

/* Takes certificate and key in PEM; behind the certificate stand those that lead to a trusted
 * one. INVALID when one cannot be read, or they do not belong together. */
enum error_code tls_identity_create(struct bytes certificate, struct bytes key,
                                    struct tls_identity **ret_identity, struct error *ret_error);

struct tls_identity *tls_identity_hold(struct tls_identity *identity);

/* NULL is allowed. */
void tls_identity_release(struct tls_identity *identity);

/* A session with the client of a socket that does not block; its first receive begins the
 * handshake. The socket stays the caller's. NULL when out of memory. */
struct tls_session *tls_session_open(struct tls_identity *identity, int socket);

/* Tells the client of the end, once, if the socket takes it. */
void tls_session_finish(struct tls_session *session);

/* NULL is allowed. */
void tls_session_close(struct tls_session *session);

/* Behave as recv and send: -1 with EAGAIN in errno when the call must wait, also for the
 * handshake. The next send after EAGAIN begins with the bytes of the one before. SIGPIPE must be
 * ignored. */
ssize_t tls_session_receive(struct tls_session *session, char *room, size_t size);
ssize_t tls_session_send(struct tls_session *session, struct bytes data);

#endif
