/* signing.c - signatures of webhooks, with OpenSSL's HMAC and Ed25519. */
#include "cli/signing.h"

#include "base/base64.h"
#include "cli/fields.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>

#define SIGNING_SECRET_PREFIX "whsec_"
#define SIGNING_PUBLIC_PREFIX "whpk_"
#define SIGNING_PUBLIC_SIZE   32
#define SIGNING_BY_KEY        "v1a,"
#define SIGNING_BY_KEY_SIZE   64
#define SIGNING_BY_KEY_MAX    8 /* signatures of a webhook that are tried; the daemon sends 2 */

enum cli_exit signing_read_key(const struct cli *cli, enum signing_use use,
                               struct signing_key *ret_key)
{
    const char *flag = cli_flag(cli, CLI_FLAG_SECRET);
    const char *text = flag ? flag : getenv("TICKWHEEL_WEBHOOK_SECRET");
    struct buffer secret;

    ret_key->size = 0;
    ret_key->is_public = false;
    if (!text || !*text)
        return CLI_EXIT_DONE;
    buffer_init(&secret);
    enum cli_exit code = fields_read(text, &secret);
    struct bytes rest = buffer_bytes(&secret);
    rest = bytes_trim(bytes_cut(&rest, '\n'));
    ret_key->is_public =
        use == SIGNING_TO_VERIFY && bytes_has_prefix(rest, BYTES(SIGNING_PUBLIC_PREFIX));
    const struct bytes prefix =
        ret_key->is_public ? BYTES(SIGNING_PUBLIC_PREFIX) : BYTES(SIGNING_SECRET_PREFIX);
    const bool has_prefix = bytes_has_prefix(rest, prefix);
    const struct bytes word = {rest.data + prefix.size, has_prefix ? rest.size - prefix.size : 0};
    if (!code && (!word.size || base64_decoded_size_max(word.size) > sizeof(ret_key->bytes) ||
                  !base64_decode(word, ret_key->bytes, &ret_key->size) ||
                  (ret_key->is_public && ret_key->size != SIGNING_PUBLIC_SIZE)))
        code = cli_complain(
            CLI_EXIT_USAGE, "the secret is whsec_ and the base64 of 24 to 64 bytes%s, or @FILE",
            use == SIGNING_TO_VERIFY ? ", or the public key whpk_ and the base64 of 32 bytes" : "");
    buffer_deinit(&secret);
    return code;
}

void signing_key_wipe(struct signing_key *key)
{
    OPENSSL_cleanse(key, sizeof(*key));
}

/* Appends what is signed. */
static void signing_append_text(struct bytes id, struct bytes timestamp, struct bytes body,
                                struct buffer *out)
{
    buffer_append_bytes(out, id);
    buffer_append_text(out, ".");
    buffer_append_bytes(out, timestamp);
    buffer_append_text(out, ".");
    buffer_append_bytes(out, body);
}

void signing_append(const struct signing_key *key, struct bytes id, struct bytes timestamp,
                    struct bytes body, struct buffer *out)
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned mac_size = 0;
    struct buffer text;

    buffer_init(&text);
    signing_append_text(id, timestamp, body, &text);
    if (!buffer_failed(&text) &&
        HMAC(EVP_sha256(), key->bytes, (int)key->size, (const unsigned char *)text.data, text.size,
             mac, &mac_size)) {
        buffer_append_text(out, "v1,");
        base64_append(out, (struct bytes){(const char *)mac, mac_size});
    }
    buffer_deinit(&text);
}

/* True if `wanted` is one of the signatures. Each comparison takes constant time. */
static bool signing_is_among(struct bytes signatures, struct bytes wanted)
{
    struct bytes word;
    bool is_among = false;

    while (wanted.size && bytes_next_word(&signatures, &word))
        is_among |= word.size == wanted.size && !CRYPTO_memcmp(word.data, wanted.data, word.size);
    return is_among;
}

/* True if the base64 is a signature of the text. */
static bool signing_is_by_key(EVP_PKEY *key, struct bytes base64, struct bytes text)
{
    unsigned char signature[SIGNING_BY_KEY_SIZE + 8];
    size_t size;

    if (base64_decoded_size_max(base64.size) > sizeof(signature) ||
        !base64_decode(base64, signature, &size))
        return false;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    const bool is_valid = context && EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) == 1 &&
                          EVP_DigestVerify(context, signature, size,
                                           (const unsigned char *)text.data, text.size) == 1;
    EVP_MD_CTX_free(context);
    return is_valid;
}

static bool signing_is_among_keys(const struct signing_key *key, struct bytes signatures,
                                  struct bytes text)
{
    const struct bytes scheme = BYTES(SIGNING_BY_KEY);
    struct bytes word;
    bool is_valid = false;
    EVP_PKEY *public = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL,
                                                   (const unsigned char *)key->bytes, key->size);

    for (int left = SIGNING_BY_KEY_MAX;
         public && left && !is_valid && bytes_next_word(&signatures, &word);)
        if (bytes_has_prefix(word, scheme)) {
            word = (struct bytes){word.data + scheme.size, word.size - scheme.size};
            is_valid = signing_is_by_key(public, word, text);
            left--;
        }
    EVP_PKEY_free(public);
    return is_valid;
}

bool signing_is_valid(const struct signing_key *key, struct bytes id, struct bytes timestamp,
                      struct bytes body, struct bytes signatures)
{
    struct buffer text;

    buffer_init(&text);
    if (key->is_public)
        signing_append_text(id, timestamp, body, &text);
    else
        signing_append(key, id, timestamp, body, &text);
    const bool is_valid =
        !buffer_failed(&text) &&
        (key->is_public ? signing_is_among_keys(key, signatures, buffer_bytes(&text))
                        : signing_is_among(signatures, buffer_bytes(&text)));
    buffer_deinit(&text);
    return is_valid;
}
