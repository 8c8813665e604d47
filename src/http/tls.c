/* tls.c - identities and sessions of the server, by OpenSSL. */
#include "http/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

/* An identity is an SSL_CTX, and a session is an SSL. Both count their holders. */
static SSL_CTX *tls_context(struct tls_identity *identity)
{
    return (SSL_CTX *)identity;
}

static SSL *tls_ssl(struct tls_session *session)
{
    return (SSL *)session;
}

/* Gives no password: without this callback OpenSSL would ask for one at the terminal. */
static int tls_no_password(char *room, int size, int is_writing, void *context)
{
    (void)room, (void)size, (void)is_writing, (void)context;
    return -1;
}

/* Adds the certificates after the first one. Returns false if one cannot be read or stored. */
static bool tls_use_chain(SSL_CTX *context, BIO *pem)
{
    X509 *certificate;

    while ((certificate = PEM_read_bio_X509(pem, NULL, tls_no_password, NULL)))
        if (SSL_CTX_add0_chain_cert(context, certificate) != 1) {
            X509_free(certificate);
            return false;
        }
    /* at the end of the text OpenSSL reports this error */
    return ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
}

static bool tls_use_certificate(SSL_CTX *context, struct bytes text)
{
    BIO *pem = BIO_new_mem_buf(text.data ? text.data : "", (int)text.size);
    X509 *certificate = pem ? PEM_read_bio_X509(pem, NULL, tls_no_password, NULL) : NULL;
    const bool is_used = certificate && SSL_CTX_use_certificate(context, certificate) == 1 &&
                         tls_use_chain(context, pem);

    X509_free(certificate);
    BIO_free(pem);
    return is_used;
}

static bool tls_use_key(SSL_CTX *context, struct bytes text)
{
    BIO *pem = BIO_new_mem_buf(text.data ? text.data : "", (int)text.size);
    EVP_PKEY *key = pem ? PEM_read_bio_PrivateKey(pem, NULL, tls_no_password, NULL) : NULL;
    const bool is_used =
        key && SSL_CTX_use_PrivateKey(context, key) == 1 && SSL_CTX_check_private_key(context) == 1;

    EVP_PKEY_free(key);
    BIO_free(pem);
    return is_used;
}

/* Allows TLS 1.2 and 1.3, and only suites with forward secrecy and authenticated encryption.
 * Tickets are off, because their key is used for a long time, and who gets it can read earlier
 * sessions. */
static bool tls_restrict(SSL_CTX *context)
{
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    return SSL_CTX_set_num_tickets(context, 0) == 1 &&
           SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1;
}

enum error_code tls_identity_create(struct bytes certificate, struct bytes key,
                                    struct tls_identity **ret_identity, struct error *ret_error)
{
    ERR_clear_error();
    if (certificate.size > INT_MAX || key.size > INT_MAX)
        return error_set(ret_error, ERROR_INVALID, "too large");
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (!context)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    if (tls_restrict(context) && tls_use_certificate(context, certificate) &&
        tls_use_key(context, key)) {
        ERR_clear_error();
        *ret_identity = (struct tls_identity *)context;
        return ERROR_NONE;
    }
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    SSL_CTX_free(context);
    return error_set(ret_error, ERROR_INVALID, "%s", reason ? reason : "it cannot be read");
}

struct tls_identity *tls_identity_hold(struct tls_identity *identity)
{
    SSL_CTX_up_ref(tls_context(identity));
    return identity;
}

void tls_identity_release(struct tls_identity *identity)
{
    SSL_CTX_free(tls_context(identity));
}

struct tls_session *tls_session_open(struct tls_identity *identity, int socket)
{
    SSL *ssl = SSL_new(tls_context(identity));

    if (!ssl || SSL_set_fd(ssl, socket) != 1) {
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }
    SSL_set_accept_state(ssl);
    return (struct tls_session *)ssl;
}

void tls_session_finish(struct tls_session *session)
{
    ERR_clear_error();
    if (SSL_is_init_finished(tls_ssl(session)))
        SSL_shutdown(tls_ssl(session));
    ERR_clear_error();
}

void tls_session_close(struct tls_session *session)
{
    SSL_free(tls_ssl(session));
}

/* Sets errno and returns -1 or 0, as recv or send would for this result of OpenSSL. */
static ssize_t tls_failure(SSL *ssl, int result)
{
    const int error = SSL_get_error(ssl, result);

    ERR_clear_error();
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    const bool waits = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
    errno = waits ? EAGAIN : ECONNRESET;
    return -1;
}

ssize_t tls_session_receive(struct tls_session *session, char *room, size_t size)
{
    size_t received;

    ERR_clear_error();
    const int result = SSL_read_ex(tls_ssl(session), room, size, &received);
    return result > 0 ? (ssize_t)received : tls_failure(tls_ssl(session), result);
}

ssize_t tls_session_send(struct tls_session *session, struct bytes data)
{
    size_t sent;

    ERR_clear_error();
    const int result = SSL_write_ex(tls_ssl(session), data.data, data.size, &sent);
    return result > 0 ? (ssize_t)sent : tls_failure(tls_ssl(session), result);
}
