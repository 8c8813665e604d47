/* tls.c - a certificate chain and its key for GnuTLS, counted by holders. */
#include "http/tls.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdatomic.h>
#include <stdlib.h>

struct tls_identity {
    atomic_size_t holders;
    gnutls_certificate_credentials_t credentials;
    char *certificate, *key;
};

static void tls_identity_free(struct tls_identity *identity)
{
    if (identity->credentials)
        gnutls_certificate_free_credentials(identity->credentials);
    if (identity->key)
        gnutls_memset(identity->key, 0, strlen(identity->key));
    free(identity->certificate);
    free(identity->key);
    free(identity);
}

static char *tls_copy(struct bytes text)
{
    return text.size ? strndup(text.data, text.size) : strdup("");
}

/* GnuTLS's result. Taking the credentials from a certificate that is broken, it would lose memory:
 * so the first one is looked at before. */
static int tls_check_certificate(const gnutls_datum_t *chain)
{
    gnutls_x509_crt_t certificate;
    int result = gnutls_x509_crt_init(&certificate);

    if (result < 0)
        return result;
    result = gnutls_x509_crt_import(certificate, chain, GNUTLS_X509_FMT_PEM);
    gnutls_x509_crt_deinit(certificate);
    return result;
}

enum error_code tls_identity_create(struct bytes certificate, struct bytes key,
                                    struct tls_identity **ret_identity, struct error *ret_error)
{
    struct tls_identity *identity = calloc(1, sizeof(*identity));

    if (!identity)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    atomic_init(&identity->holders, 1);
    identity->certificate = tls_copy(certificate);
    identity->key = tls_copy(key);
    if (!identity->certificate || !identity->key ||
        gnutls_certificate_allocate_credentials(&identity->credentials) < 0) {
        tls_identity_free(identity);
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    }
    gnutls_datum_t chain =
        (gnutls_datum_t){(unsigned char *)identity->certificate, (unsigned)certificate.size};
    gnutls_datum_t secret = (gnutls_datum_t){(unsigned char *)identity->key, (unsigned)key.size};
    int result = tls_check_certificate(&chain);
    if (result >= 0)
        result = gnutls_certificate_set_x509_key_mem(identity->credentials, &chain, &secret,
                                                     GNUTLS_X509_FMT_PEM);
    if (result < 0) {
        tls_identity_free(identity);
        return error_set(ret_error, ERROR_INVALID, "%s", gnutls_strerror(result));
    }
    *ret_identity = identity;
    return ERROR_NONE;
}

struct tls_identity *tls_identity_hold(struct tls_identity *identity)
{
    atomic_fetch_add(&identity->holders, 1);
    return identity;
}

void tls_identity_release(struct tls_identity *identity)
{
    if (identity && atomic_fetch_sub(&identity->holders, 1) == 1)
        tls_identity_free(identity);
}

const char *tls_identity_certificate(const struct tls_identity *identity)
{
    return identity->certificate;
}

const char *tls_identity_key(const struct tls_identity *identity)
{
    return identity->key;
}

bool tls_identity_show(const struct tls_identity *identity, void *session)
{
    return gnutls_credentials_set((gnutls_session_t)session, GNUTLS_CRD_CERTIFICATE,
                                  identity->credentials) == 0;
}
