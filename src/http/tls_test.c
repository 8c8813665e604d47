/*
 * Goal: an identity is a certificate with its own key, and nothing else is taken for one. Method:
 * two of them, made here, whole, mixed and broken.
 */
#include "http/tls.h"

#include "http/server.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define VALID_S 86400

struct pem {
    BIO *certificate, *key;
};

static void make(struct pem *pem)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();

    assert_true(key && certificate);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(certificate), 0));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(certificate), VALID_S));
    assert_int_equal(X509_set_pubkey(certificate, key), 1);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    pem->certificate = BIO_new(BIO_s_mem());
    pem->key = BIO_new(BIO_s_mem());
    assert_int_equal(PEM_write_bio_X509(pem->certificate, certificate), 1);
    assert_int_equal(PEM_write_bio_PrivateKey(pem->key, key, NULL, NULL, 0, NULL, NULL), 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

static struct bytes bytes_of_bio(BIO *bio)
{
    char *data;
    const long size = BIO_get_mem_data(bio, &data);

    return (struct bytes){data, (size_t)size};
}

static void tls_test_assert_refused(struct bytes certificate, struct bytes key)
{
    struct tls_identity *const untouched = (struct tls_identity *)1, *identity = untouched;
    struct error error;

    assert_int_equal(tls_identity_create(certificate, key, &identity, &error), ERROR_INVALID);
    assert_ptr_equal(identity, untouched);
    assert_true(error.text[0] != '\0');
}

static void test_identities(void **state)
{
    (void)state;
    struct bytes certificates[2], keys[2];
    struct pem pems[2];
    for (int i = 0; i < 2; i++) {
        make(&pems[i]);
        certificates[i] = bytes_of_bio(pems[i].certificate);
        keys[i] = bytes_of_bio(pems[i].key);
    }
    struct tls_identity *identity = NULL;
    struct error error;
    assert_int_equal(tls_identity_create(certificates[0], keys[0], &identity, &error), ERROR_NONE);
    assert_ptr_equal(tls_identity_hold(identity), identity);
    tls_identity_release(identity);
    tls_identity_release(identity);
    tls_identity_release(NULL);
    tls_test_assert_refused(certificates[0], keys[1]);
    tls_test_assert_refused(keys[0], certificates[0]);
    tls_test_assert_refused(certificates[0], (struct bytes){0});
    tls_test_assert_refused((struct bytes){0}, keys[0]);
    tls_test_assert_refused(BYTES("-----BEGIN CERTIFICATE-----\nxxxx\n-----END CERTIFICATE-----\n"),
                            keys[0]);
    tls_test_assert_refused((struct bytes){certificates[0].data, certificates[0].size / 2},
                            keys[0]);
    struct buffer chain;
    buffer_init(&chain);
    buffer_append_bytes(&chain, certificates[0]);
    buffer_append_bytes(&chain, certificates[1]);
    assert_int_equal(tls_identity_create(buffer_bytes(&chain), keys[0], &identity, &error), 0);
    tls_identity_release(identity);
    tls_test_assert_refused(buffer_bytes(&chain), keys[1]);
    tls_test_assert_refused((struct bytes){chain.data, chain.size - certificates[1].size / 2},
                            keys[0]);
    buffer_deinit(&chain);
    for (int i = 0; i < 2; i++) {
        BIO_free(pems[i].certificate);
        BIO_free(pems[i].key);
    }
}

static void test_loopback(void **state)
{
    static const char *const inside[] = {"127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"};
    static const char *const outside[] = {
        "0.0.0.0",     "::", "128.0.0.1",  "10.0.0.1",         "::2", "fe80::1", "::ffff:10.0.0.1",
        "::127.0.0.1", "",   "localhost.", "127.0.0.1.example"};

    (void)state;
    for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++)
        assert_true(http_address_is_loopback(inside[i]));
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++)
        assert_false(http_address_is_loopback(outside[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identities),
        cmocka_unit_test(test_loopback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
