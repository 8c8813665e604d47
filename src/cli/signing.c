/* signing.c - signatures of webhooks, with OpenSSL's HMAC. */
#include "cli/signing.h"

#include "base/base64.h"
#include "cli/fields.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>

#define SIGNING_PREFIX "whsec_"

enum cli_exit signing_read_key(const struct cli *cli, struct signing_key *ret_key)
{
    const char *flag = cli_flag(cli, CLI_FLAG_SECRET);
    const char *text = flag ? flag : getenv("TICKWHEEL_WEBHOOK_SECRET");
    struct buffer secret;

    ret_key->size = 0;
    if (!text || !*text)
        return CLI_EXIT_DONE;
    buffer_init(&secret);
    enum cli_exit code = fields_read(text, &secret);
    struct bytes rest = buffer_bytes(&secret), word = {NULL, 0};
    rest = bytes_trim(bytes_cut(&rest, '\n'));
    if (!code && bytes_has_prefix(rest, BYTES(SIGNING_PREFIX)))
        word = (struct bytes){rest.data + sizeof(SIGNING_PREFIX) - 1,
                              rest.size - sizeof(SIGNING_PREFIX) + 1};
    if (!code && (!word.size || base64_decoded_size_max(word.size) > sizeof(ret_key->bytes) ||
                  !base64_decode(word, ret_key->bytes, &ret_key->size)))
        code = cli_complain(CLI_EXIT_USAGE,
                            "the secret is whsec_ and the base64 of 24 to 64 bytes, or @FILE");
    buffer_deinit(&secret);
    return code;
}

void signing_key_wipe(struct signing_key *key)
{
    OPENSSL_cleanse(key, sizeof(*key));
}

void signing_append(const struct signing_key *key, struct bytes id, struct bytes timestamp,
                    struct bytes body, struct buffer *out)
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned mac_size = 0;
    struct buffer text;

    buffer_init(&text);
    buffer_append_bytes(&text, id);
    buffer_append_text(&text, ".");
    buffer_append_bytes(&text, timestamp);
    buffer_append_text(&text, ".");
    buffer_append_bytes(&text, body);
    if (!buffer_failed(&text) &&
        HMAC(EVP_sha256(), key->bytes, (int)key->size, (const unsigned char *)text.data, text.size,
             mac, &mac_size)) {
        buffer_append_text(out, "v1,");
        base64_append(out, (struct bytes){(const char *)mac, mac_size});
    }
    buffer_deinit(&text);
}

bool signing_is_among(struct bytes signatures, struct bytes wanted)
{
    struct bytes word;
    bool is_among = false;

    while (wanted.size && bytes_next_word(&signatures, &word))
        is_among |= word.size == wanted.size && !CRYPTO_memcmp(word.data, wanted.data, word.size);
    return is_among;
}
