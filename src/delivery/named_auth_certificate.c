/* A client certificate for TLS, and its private key; both PEM. */
#include "delivery/named_auth.h"

#include <openssl/err.h>
#include <openssl/pem.h>

/* Refuses to ask a terminal for the password of an encrypted key. */
static int auth_certificate_no_password(char *to, int size, int writes, void *context)
{
    (void)to, (void)size, (void)writes, (void)context;
    return -1;
}

static int auth_certificate_check(const struct bytes *values, const char **ret_reason)
{
    BIO *text = BIO_new_mem_buf(values[0].data, (int)values[0].size);
    BIO *secret = values[1].data ? BIO_new_mem_buf(values[1].data, (int)values[1].size) : NULL;
    X509 *certificate = text ? PEM_read_bio_X509(text, NULL, NULL, NULL) : NULL;
    EVP_PKEY *key =
        secret ? PEM_read_bio_PrivateKey(secret, NULL, auth_certificate_no_password, NULL) : NULL;
    int wrong = -1;

    if (!certificate) {
        *ret_reason = "It must be a certificate in PEM";
        wrong = 0;
    } else if (secret && !key) {
        *ret_reason = "It must be a private key in PEM, without a password";
        wrong = 1;
    } else if (key && X509_check_private_key(certificate, key) != 1) {
        *ret_reason = "This is not the key of the certificate";
        wrong = 1;
    }
    EVP_PKEY_free(key);
    X509_free(certificate);
    BIO_free(secret);
    BIO_free(text);
    ERR_clear_error();
    return wrong;
}

static void auth_certificate_apply(const struct bytes *values, struct named_request *request)
{
    request->certificate = values[0];
    request->key = values[1];
}

const struct named_auth named_auth_certificate = {
    .kind = "certificate",
    .needs_tls = true,
    .fields = {{"certificate", false, 16384}, {"key", true, 16384}},
    .check = auth_certificate_check,
    .apply = auth_certificate_apply,
};
