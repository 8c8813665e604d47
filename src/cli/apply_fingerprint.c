/* apply_fingerprint.c - fingerprints by PBKDF2 with SHA-256. They are short, because they share the
 * room of a tenant's definitions. */
#include "cli/apply_fingerprint.h"

#include "base/hex.h"
#include "sys/entropy.h"

#include <limits.h>
#include <openssl/evp.h>

#define FINGERPRINT_SALT_SIZE   8
#define FINGERPRINT_HASH_SIZE   16
#define FINGERPRINT_ROUNDS_SLOW 50000 /* some 10 to 20 ms */

static bool fingerprint_write(struct bytes document, enum apply_secrecy secrecy,
                              const uint8_t salt[FINGERPRINT_SALT_SIZE],
                              char ret_text[APPLY_FINGERPRINT_SIZE])
{
    uint8_t hash[FINGERPRINT_HASH_SIZE];
    const int rounds = secrecy == APPLY_SECRET ? FINGERPRINT_ROUNDS_SLOW : 1;

    if (document.size > INT_MAX ||
        PKCS5_PBKDF2_HMAC(document.data, (int)document.size, salt, FINGERPRINT_SALT_SIZE, rounds,
                          EVP_sha256(), sizeof(hash), hash) != 1)
        return false;
    for (size_t i = 0; i < FINGERPRINT_SALT_SIZE; i++)
        hex_write(ret_text + 2 * i, 2, salt[i]);
    for (size_t i = 0; i < sizeof(hash); i++)
        hex_write(ret_text + 2 * (FINGERPRINT_SALT_SIZE + i), 2, hash[i]);
    ret_text[APPLY_FINGERPRINT_SIZE - 1] = '\0';
    return true;
}

bool apply_fingerprint_make(struct bytes document, enum apply_secrecy secrecy,
                            char ret_text[APPLY_FINGERPRINT_SIZE])
{
    uint8_t salt[FINGERPRINT_SALT_SIZE];

    return !entropy_fill(salt, sizeof(salt)) &&
           fingerprint_write(document, secrecy, salt, ret_text);
}

bool apply_fingerprint_is(struct bytes fingerprint, struct bytes document,
                          enum apply_secrecy secrecy)
{
    uint8_t salt[FINGERPRINT_SALT_SIZE];
    char text[APPLY_FINGERPRINT_SIZE];

    if (fingerprint.size != APPLY_FINGERPRINT_SIZE - 1)
        return false;
    for (size_t i = 0; i < sizeof(salt); i++) {
        uint64_t byte;

        if (!hex_read(fingerprint.data + 2 * i, 2, &byte))
            return false;
        salt[i] = (uint8_t)byte;
    }
    return fingerprint_write(document, secrecy, salt, text) &&
           bytes_equal(fingerprint, bytes_of(text));
}
