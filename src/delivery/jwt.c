/* jwt.c - signs JSON Web Tokens by OpenSSL's EVP_DigestSign. */
#include "delivery/jwt.h"

#include "base/base64.h"
#include "base/json_write.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#define P256_SIZE          32 /* bytes of a coordinate, and of each half of a signature */
#define SIGNATURE_SIZE_MAX (JWT_RSA_BITS_MAX / 8)

struct jwt_key {
    EVP_PKEY *pair;
    bool is_rsa;
    struct buffer members; /* members of the public key as JSON, in the order of RFC 7638 */
    struct buffer name;    /* thumbprint, as text */
};

struct jwt_keys {
    struct jwt_key keys[JWT_KEYS_MAX];
    size_t count;
};

static bool jwt_put_number(struct buffer *out, const char *name, const EVP_PKEY *pair,
                           const char *parameter, int size)
{
    uint8_t bytes[SIGNATURE_SIZE_MAX];
    BIGNUM *number = NULL;
    struct buffer text;

    if (EVP_PKEY_get_bn_param(pair, parameter, &number) != 1)
        return false;
    const int written = BN_bn2binpad(number, bytes, size ? size : BN_num_bytes(number));
    BN_free(number);
    if (written <= 0)
        return false;
    buffer_init(&text);
    base64_append_url(&text, (struct bytes){(const char *)bytes, (size_t)written});
    json_put_string(out, name, buffer_bytes(&text));
    const bool is_put = !buffer_failed(&text);
    buffer_deinit(&text);
    return is_put;
}

/* Writes the public key's members and its thumbprint. */
static bool jwt_key_describe(struct jwt_key *key)
{
    struct buffer *out = &key->members;
    bool is_whole;

    json_open(out, NULL, '{');
    if (key->is_rsa) {
        is_whole = jwt_put_number(out, "e", key->pair, OSSL_PKEY_PARAM_RSA_E, 0);
        json_put_text(out, "kty", "RSA");
        is_whole &= jwt_put_number(out, "n", key->pair, OSSL_PKEY_PARAM_RSA_N, 0);
    } else {
        json_put_text(out, "crv", "P-256");
        json_put_text(out, "kty", "EC");
        is_whole = jwt_put_number(out, "x", key->pair, OSSL_PKEY_PARAM_EC_PUB_X, P256_SIZE);
        is_whole &= jwt_put_number(out, "y", key->pair, OSSL_PKEY_PARAM_EC_PUB_Y, P256_SIZE);
    }
    json_close(out, '}');
    if (!is_whole || buffer_failed(out))
        return false;
    uint8_t hash[SHA256_DIGEST_LENGTH];
    SHA256((const uint8_t *)out->data, out->size, hash);
    base64_append_url(&key->name, (struct bytes){(const char *)hash, sizeof(hash)});
    return !buffer_failed(&key->name);
}

static enum error_code jwt_key_check(struct jwt_key *key, size_t number, struct error *ret_error)
{
    const int bits = EVP_PKEY_get_bits(key->pair);
    char group[32] = "";

    key->is_rsa = EVP_PKEY_get_base_id(key->pair) == EVP_PKEY_RSA;
    if (key->is_rsa && (bits < JWT_RSA_BITS_MIN || bits > JWT_RSA_BITS_MAX))
        return error_set(ret_error, ERROR_INVALID, "key %zu has %d bits, not %d to %d", number,
                         bits, JWT_RSA_BITS_MIN, JWT_RSA_BITS_MAX);
    if (!key->is_rsa && (EVP_PKEY_get_group_name(key->pair, group, sizeof(group), NULL) != 1 ||
                         strcmp(group, SN_X9_62_prime256v1) != 0))
        return error_set(ret_error, ERROR_INVALID, "key %zu is neither RSA nor of curve P-256",
                         number);
    return jwt_key_describe(key) ? ERROR_NONE
                                 : error_set(ret_error, ERROR_NO_MEMORY, "no memory for keys");
}

/* Called for a key with a pass phrase. Without it OpenSSL would ask on the terminal. */
static int jwt_refuse_phrase(char *to, int size, int is_writing, void *context)
{
    (void)to;
    (void)size;
    (void)is_writing;
    (void)context;
    return -1;
}

/* True if no further block of PEM follows. */
static bool jwt_is_end(BIO *source)
{
    char *rest = NULL;
    const long size = BIO_get_mem_data(source, &rest);

    return size <= 0 || !memmem(rest, (size_t)size, "-----BEGIN", 10);
}

static enum error_code jwt_keys_read(struct jwt_keys *keys, BIO *source, struct error *ret_error)
{
    do {
        EVP_PKEY *pair = PEM_read_bio_PrivateKey(source, NULL, jwt_refuse_phrase, NULL);

        ERR_clear_error();
        if (!pair)
            return error_set(ret_error, ERROR_INVALID,
                             "key %zu is not a private key in PEM without a pass phrase",
                             keys->count + 1);
        if (keys->count == JWT_KEYS_MAX) {
            EVP_PKEY_free(pair);
            return error_set(ret_error, ERROR_INVALID, "more than %d keys", JWT_KEYS_MAX);
        }
        struct jwt_key *key = &keys->keys[keys->count++];
        key->pair = pair;
        const enum error_code code = jwt_key_check(key, keys->count, ret_error);
        if (code)
            return code;
    } while (!jwt_is_end(source));
    return ERROR_NONE;
}

enum error_code jwt_keys_parse(struct bytes pem, struct jwt_keys **ret_keys,
                               struct error *ret_error)
{
    struct jwt_keys *keys = calloc(1, sizeof(*keys));
    BIO *source =
        pem.size > INT32_MAX ? NULL : BIO_new_mem_buf(pem.size > 0 ? pem.data : "", (int)pem.size);
    enum error_code code = ERROR_NO_MEMORY;

    if (keys && source)
        code = jwt_keys_read(keys, source, ret_error);
    else
        error_set(ret_error, code, "no memory for keys");
    BIO_free(source);
    if (code)
        jwt_keys_destroy(keys);
    else
        *ret_keys = keys;
    return code;
}

void jwt_keys_destroy(struct jwt_keys *keys)
{
    if (!keys)
        return;
    for (size_t i = 0; i < keys->count; i++) {
        EVP_PKEY_free(keys->keys[i].pair);
        buffer_deinit(&keys->keys[i].members);
        buffer_deinit(&keys->keys[i].name);
    }
    free(keys);
}

static const char *jwt_algorithm(const struct jwt_key *key)
{
    return key->is_rsa ? "RS256" : "ES256";
}

/* Writes the halves of an ECDSA signature, which OpenSSL writes in DER, one after the other. */
static bool jwt_flatten(const uint8_t *der, size_t size, uint8_t ret_signature[2 * P256_SIZE])
{
    ECDSA_SIG *halves = d2i_ECDSA_SIG(NULL, &der, (long)size);
    const bool is_flat =
        halves && BN_bn2binpad(ECDSA_SIG_get0_r(halves), ret_signature, P256_SIZE) == P256_SIZE &&
        BN_bn2binpad(ECDSA_SIG_get0_s(halves), ret_signature + P256_SIZE, P256_SIZE) == P256_SIZE;

    ECDSA_SIG_free(halves);
    return is_flat;
}

static bool jwt_sign(const struct jwt_key *key, struct bytes text, struct buffer *out)
{
    uint8_t signature[SIGNATURE_SIZE_MAX], flat[2 * P256_SIZE];
    size_t size = sizeof(signature);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool is_signed =
        context && EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key->pair) == 1 &&
        EVP_DigestSign(context, signature, &size, (const uint8_t *)text.data, text.size) == 1;

    EVP_MD_CTX_free(context);
    if (is_signed && !key->is_rsa)
        is_signed = jwt_flatten(signature, size, flat);
    if (is_signed) {
        buffer_append_text(out, ".");
        base64_append_url(out, key->is_rsa ? (struct bytes){(const char *)signature, size}
                                           : (struct bytes){(const char *)flat, sizeof(flat)});
    }
    ERR_clear_error();
    return is_signed;
}

enum error_code jwt_append(const struct jwt_keys *keys, struct bytes claims, struct buffer *out)
{
    const struct jwt_key *key = &keys->keys[0];
    const size_t start = out->size;
    struct buffer header;

    buffer_init(&header);
    json_open(&header, NULL, '{');
    json_put_text(&header, "alg", jwt_algorithm(key));
    json_put_string(&header, "kid", buffer_bytes(&key->name));
    json_put_text(&header, "typ", "JWT");
    json_close(&header, '}');
    base64_append_url(out, buffer_bytes(&header));
    buffer_append_text(out, ".");
    base64_append_url(out, claims);
    const bool is_whole = !buffer_failed(&header) && !buffer_failed(out);
    buffer_deinit(&header);
    if (!is_whole)
        return ERROR_NO_MEMORY;
    const struct bytes text = {out->data + start, out->size - start};
    return jwt_sign(key, text, out) ? ERROR_NONE : ERROR_NO_MEMORY;
}

/* Appends the public key to the open array, or by itself. */
static void jwt_put_public(const struct jwt_key *key, struct buffer *out)
{
    struct bytes members = buffer_bytes(&key->members);

    members.size--; /* the end of the object, which goes on */
    json_put_raw(out, NULL, members);
    json_put_string(out, "kid", buffer_bytes(&key->name));
    json_put_text(out, "alg", jwt_algorithm(key));
    json_put_text(out, "use", "sig");
    json_close(out, '}');
}

void jwt_keys_append_set(const struct jwt_keys *keys, struct buffer *out)
{
    json_open(out, NULL, '{');
    json_open(out, "keys", '[');
    for (size_t i = 0; i < keys->count; i++)
        jwt_put_public(&keys->keys[i], out);
    json_close(out, ']');
    json_close(out, '}');
}

/* ---- a new key ---- */

enum error_code jwt_keys_make(enum jwt_algorithm algorithm, struct jwt_keys **ret_keys)
{
    struct jwt_keys *keys = calloc(1, sizeof(*keys));
    struct jwt_key *key = keys ? &keys->keys[keys->count++] : NULL;
    enum error_code code = ERROR_NO_MEMORY;

    if (key)
        key->pair = algorithm == JWT_RS256 ? EVP_RSA_gen(JWT_RSA_BITS_MIN)
                                           : EVP_EC_gen(SN_X9_62_prime256v1);
    if (key && key->pair)
        code = jwt_key_check(key, 1, NULL);
    ERR_clear_error();
    if (code)
        jwt_keys_destroy(keys);
    else
        *ret_keys = keys;
    return code;
}

struct bytes jwt_keys_name(const struct jwt_keys *keys)
{
    return buffer_bytes(&keys->keys[0].name);
}

const char *jwt_keys_algorithm(const struct jwt_keys *keys)
{
    return jwt_algorithm(&keys->keys[0]);
}

void jwt_keys_append_public(const struct jwt_keys *keys, struct buffer *out)
{
    jwt_put_public(&keys->keys[0], out);
}

/* OpenSSL wipes the memory of a BIO when it is freed. */
enum error_code jwt_keys_append_private(const struct jwt_keys *keys, struct buffer *out)
{
    BIO *text = BIO_new(BIO_s_mem());
    bool is_written = text && PEM_write_bio_PKCS8PrivateKey(text, keys->keys[0].pair, NULL, NULL, 0,
                                                            NULL, NULL) == 1;
    char *data = NULL;
    const long size = is_written ? BIO_get_mem_data(text, &data) : 0;

    is_written = size > 0 && buffer_reserve(out, (size_t)size);
    if (is_written)
        buffer_append(out, data, (size_t)size);
    BIO_free(text);
    ERR_clear_error();
    return is_written ? ERROR_NONE : ERROR_NO_MEMORY;
}
