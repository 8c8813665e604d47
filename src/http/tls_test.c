/*
 * Goal: an identity is a certificate with its own key, and nothing else is taken for one. Method:
 * two of them, made here, whole, mixed and broken.
 */
#include "http/tls.h"

#include "http/server.h"

#include <gnutls/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define VALID_S 86400

struct pem {
    gnutls_datum_t certificate, key;
};

static void make(struct pem *pem)
{
    gnutls_x509_privkey_t key;

    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(
                         key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     0);
    gnutls_x509_crt_t certificate;
    assert_int_equal(gnutls_x509_crt_init(&certificate), 0);
    gnutls_x509_crt_set_version(certificate, 3);
    gnutls_x509_crt_set_serial(certificate, "\1", 1);
    gnutls_x509_crt_set_activation_time(certificate, 0); /* nobody looks at the time here */
    gnutls_x509_crt_set_expiration_time(certificate, VALID_S);
    gnutls_x509_crt_set_key(certificate, key);
    assert_int_equal(gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &pem->certificate),
                     0);
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem->key), 0);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
}

static struct bytes bytes_of_datum(const gnutls_datum_t *datum)
{
    return (struct bytes){(const char *)datum->data, datum->size};
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
        certificates[i] = bytes_of_datum(&pems[i].certificate);
        keys[i] = bytes_of_datum(&pems[i].key);
    }
    struct tls_identity *identity = NULL;
    struct error error;
    assert_int_equal(tls_identity_create(certificates[0], keys[0], &identity, &error), ERROR_NONE);
    assert_memory_equal(tls_identity_certificate(identity), certificates[0].data,
                        certificates[0].size);
    assert_int_equal(strlen(tls_identity_key(identity)), keys[0].size);
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
    for (int i = 0; i < 2; i++) {
        gnutls_free(pems[i].certificate.data);
        gnutls_free(pems[i].key.data);
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
