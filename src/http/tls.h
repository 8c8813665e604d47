/*
 * tls.h - TLS of the server: its identity, which is a certificate chain with its key, and the
 * sessions of connections.
 *
 * Ownership  An identity counts its holders, and each session is one. So the identity for new
 *            sessions can be replaced at any time.
 * Threads    An identity is immutable: any. A session has one owner.
 */
#ifndef TICKWHEEL_HTTP_TLS_H
#define TICKWHEEL_HTTP_TLS_H

#include "base/bytes.h"
#include "base/error.h"

#include <sys/types.h>

struct tls_identity;
struct tls_session;

/* Reads certificate and key in PEM. After the server's certificate come those that lead to a
 * trusted one. Returns ERROR_INVALID if one cannot be read, or if key and certificate do not belong
 * together. */
enum error_code tls_identity_create(struct bytes certificate, struct bytes key,
                                    struct tls_identity **ret_identity, struct error *ret_error);

struct tls_identity *tls_identity_hold(struct tls_identity *identity);

/* NULL has no effect. */
void tls_identity_release(struct tls_identity *identity);

/* Opens a session with the client of a non-blocking socket. Its first receive begins the handshake.
 * The caller still owns the socket. Returns NULL if out of memory. */
struct tls_session *tls_session_open(struct tls_identity *identity, int socket);

/* Announces the end to the client, once, if the socket can take the message. */
void tls_session_finish(struct tls_session *session);

/* NULL has no effect. */
void tls_session_close(struct tls_session *session);

/* Behave as recv and send. They return -1 with EAGAIN in errno if the call must wait, also for the
 * handshake. The next send after EAGAIN must begin with the same bytes. SIGPIPE must be ignored. */
ssize_t tls_session_receive(struct tls_session *session, char *room, size_t size);
ssize_t tls_session_send(struct tls_session *session, struct bytes data);

#endif
