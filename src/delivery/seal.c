/* seal.c - see seal.h. A sealed text is "NAME:" and base64 of nonce, ciphertext and tag. The
 * name is authenticated together with `bound`. */
#include "delivery/seal.h"

#include "base/base64.h"
#include "sys/entropy.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>

enum { SEAL_KEY_SIZE = 32, SEAL_KEY_TEXT_SIZE = 44, SEAL_NONCE_SIZE = 12, SEAL_TAG_SIZE = 16 };

struct seal_key {
    char name[SEAL_KEY_NAME_MAX];
    size_t name_size;
    uint8_t bytes[SEAL_KEY_SIZE];
};

struct seal_keys {
    size_t count;
    struct seal_key keys[SEAL_KEYS_MAX];
};

/* ---- keys ---- */

static bool seal_is_name(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++) {
        const char c = name.data[i], letter = (char)(c | 0x20);

        if (!(c >= '0' && c <= '9') && !(letter >= 'a' && letter <= 'z') && c != '_' && c != '-')
            return false;
    }
    return name.size > 0 && name.size <= SEAL_KEY_NAME_MAX;
}

/* Removes the text before the mark, and the mark. */
static bool seal_cut(struct bytes *text, char mark, struct bytes *ret_name)
{
    if (text->size == 0 || !memchr(text->data, mark, text->size))
        return false;
    *ret_name = bytes_cut(text, mark);
    return true;
}

static const struct seal_key *seal_find_key(const struct seal_keys *keys, struct bytes name)
{
    for (size_t i = 0; i < keys->count; i++)
        if (bytes_equal((struct bytes){keys->keys[i].name, keys->keys[i].name_size}, name))
            return &keys->keys[i];
    return NULL;
}

static enum error_code seal_parse_key(struct seal_keys *keys, struct bytes word,
                                      struct error *ret_error)
{
    uint8_t decoded[SEAL_KEY_TEXT_SIZE / 4 * 3];
    struct bytes name;
    size_t size = 0;

    if (!seal_cut(&word, '=', &name) || !seal_is_name(name))
        return error_set(ret_error, ERROR_INVALID,
                         "a key is NAME=BASE64, its name 1 to %d letters, digits and _ -",
                         SEAL_KEY_NAME_MAX);
    if (seal_find_key(keys, name))
        return error_set(ret_error, ERROR_INVALID, "the key %.*s is given twice", (int)name.size,
                         name.data);
    if (keys->count == SEAL_KEYS_MAX)
        return error_set(ret_error, ERROR_INVALID, "there may be at most %d keys", SEAL_KEYS_MAX);
    const bool is_key = word.size <= SEAL_KEY_TEXT_SIZE && base64_decode(word, decoded, &size) &&
                        size == SEAL_KEY_SIZE;
    if (is_key) {
        struct seal_key *key = &keys->keys[keys->count++];

        memcpy(key->name, name.data, name.size);
        key->name_size = name.size;
        memcpy(key->bytes, decoded, SEAL_KEY_SIZE);
    }
    OPENSSL_cleanse(decoded, sizeof(decoded));
    return is_key ? ERROR_NONE
                  : error_set(ret_error, ERROR_INVALID,
                              "the key %.*s is not base64 of %d bytes (openssl rand -base64 %d)",
                              (int)name.size, name.data, SEAL_KEY_SIZE, SEAL_KEY_SIZE);
}

enum error_code seal_keys_create(const char *text, struct seal_keys **ret_keys,
                                 struct error *ret_error)
{
    struct seal_keys *keys = calloc(1, sizeof(*keys));
    struct bytes rest = bytes_of(text), word;
    enum error_code code = ERROR_NONE;

    if (!keys)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    while (!code && bytes_next_word(&rest, &word))
        code = seal_parse_key(keys, word, ret_error);
    if (code)
        seal_keys_destroy(keys);
    else
        *ret_keys = keys;
    return code;
}

void seal_keys_destroy(struct seal_keys *keys)
{
    if (!keys)
        return;
    OPENSSL_cleanse(keys, sizeof(*keys));
    free(keys);
}

/* Removes the name of the key and the colon from the text. */
static const struct seal_key *seal_cut_key(const struct seal_keys *keys, struct bytes *text,
                                           struct bytes *ret_name)
{
    return seal_cut(text, ':', ret_name) ? seal_find_key(keys, *ret_name) : NULL;
}

bool seal_is_newest(const struct seal_keys *keys, struct bytes text)
{
    struct bytes name;

    return keys->count > 0 && seal_cut_key(keys, &text, &name) == &keys->keys[0];
}

/* ---- sealing ---- */

/* Begins to seal or to open: sets the key, the nonce and what is authenticated. */
static bool seal_begin(EVP_CIPHER_CTX *context, const struct seal_key *key, struct bytes bound,
                       const uint8_t *nonce, int encrypts)
{
    const struct bytes name = {key->name, key->name_size};
    int size;

    return EVP_CipherInit_ex(context, EVP_aes_256_gcm(), NULL, key->bytes, nonce, encrypts) == 1 &&
           EVP_CipherUpdate(context, NULL, &size, (const uint8_t *)name.data, (int)name.size) ==
               1 &&
           EVP_CipherUpdate(context, NULL, &size, (const uint8_t *)":", 1) == 1 &&
           EVP_CipherUpdate(context, NULL, &size, (const uint8_t *)bound.data, (int)bound.size) ==
               1;
}

/* Writes nonce, ciphertext and tag to `to`. */
static enum error_code seal_encrypt(const struct seal_key *key, struct bytes bound,
                                    struct bytes plain, uint8_t *to)
{
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    enum error_code code = context ? ERROR_NONE : ERROR_NO_MEMORY;
    uint8_t *text = to + SEAL_NONCE_SIZE;
    int size = 0, rest = 0;

    if (!code)
        code = entropy_fill(to, SEAL_NONCE_SIZE);
    if (!code &&
        (!seal_begin(context, key, bound, to, 1) ||
         EVP_CipherUpdate(context, text, &size, (const uint8_t *)plain.data, (int)plain.size) !=
             1 ||
         EVP_CipherFinal_ex(context, text + size, &rest) != 1 ||
         EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, SEAL_TAG_SIZE, text + plain.size) != 1))
        code = ERROR_NO_MEMORY;
    EVP_CIPHER_CTX_free(context);
    return code;
}

enum error_code seal_append(const struct seal_keys *keys, struct bytes bound, struct bytes plain,
                            struct buffer *out)
{
    const size_t size = SEAL_NONCE_SIZE + plain.size + SEAL_TAG_SIZE;

    if (keys->count == 0 || plain.size > SEAL_PLAIN_BYTES_MAX)
        return ERROR_INVALID;
    uint8_t *sealed = malloc(size);
    if (!sealed)
        return ERROR_NO_MEMORY;
    const struct seal_key *key = &keys->keys[0];
    enum error_code code = seal_encrypt(key, bound, plain, sealed);
    if (!code) {
        buffer_append(out, key->name, key->name_size);
        buffer_append(out, ":", 1);
        base64_append(out, (struct bytes){(const char *)sealed, size});
        code = buffer_failed(out) ? ERROR_NO_MEMORY : ERROR_NONE;
    }
    free(sealed);
    return code;
}

/* ---- opening ---- */

static bool seal_decrypt(const struct seal_key *key, struct bytes bound, uint8_t *sealed,
                         size_t plain_size, uint8_t *to)
{
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    uint8_t *text = sealed + SEAL_NONCE_SIZE;
    int size = 0, rest = 0;
    const bool is_open =
        context && seal_begin(context, key, bound, sealed, 0) &&
        EVP_CipherUpdate(context, to, &size, text, (int)plain_size) == 1 &&
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, SEAL_TAG_SIZE, text + plain_size) == 1 &&
        EVP_CipherFinal_ex(context, to + size, &rest) == 1;

    EVP_CIPHER_CTX_free(context);
    return is_open;
}

enum error_code seal_open(const struct seal_keys *keys, struct bytes bound, struct bytes text,
                          struct buffer *out, struct error *ret_error)
{
    struct bytes name = {0};
    const struct seal_key *key = seal_cut_key(keys, &text, &name);
    size_t size = 0;

    if (!key)
        return error_set(ret_error, ERROR_INVALID,
                         "it was sealed with the key %.*s, which secrets_keys lacks",
                         (int)(name.size <= SEAL_KEY_NAME_MAX ? name.size : 0), name.data);
    uint8_t *sealed = malloc(base64_decoded_size_max(text.size) + 1);
    if (!sealed)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    bool is_open = base64_decode(text, sealed, &size) && size >= SEAL_NONCE_SIZE + SEAL_TAG_SIZE &&
                   size - SEAL_NONCE_SIZE - SEAL_TAG_SIZE <= SEAL_PLAIN_BYTES_MAX;
    const size_t plain = is_open ? size - SEAL_NONCE_SIZE - SEAL_TAG_SIZE : 0;
    const size_t before = out->size;
    char *to = is_open ? buffer_reserve(out, plain + 1) : NULL;
    const bool has_memory = !is_open || to;
    is_open = is_open && to && seal_decrypt(key, bound, sealed, plain, (uint8_t *)to);
    if (to && !is_open)
        OPENSSL_cleanse(to, plain + 1);
    out->size = before + (is_open ? plain : 0);
    free(sealed);
    if (!has_memory)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    return is_open ? ERROR_NONE
                   : error_set(ret_error, ERROR_INVALID,
                               "it does not open with the key %.*s: it is damaged, or that is "
                               "another key of this name",
                               (int)name.size, name.data);
}

void seal_wipe(struct buffer *buffer)
{
    if (buffer->data)
        OPENSSL_cleanse(buffer->data, buffer->capacity);
    buffer_deinit(buffer);
}
