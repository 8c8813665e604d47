/* founding.c - the record that founds a cluster; see founding.h. */
#include "cluster/founding.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#define FOUNDING_LABEL "tickwheel cluster secret"

bool founding_set_secret(struct founding *founding, struct bytes secret)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;

    founding->has_digest = false;
    memset(founding->digest, 0, sizeof(founding->digest));
    if (!secret.size)
        return true;
    if (!HMAC(EVP_sha256(), secret.data, (int)secret.size, (const uint8_t *)FOUNDING_LABEL,
              strlen(FOUNDING_LABEL), digest, &size))
        return false;
    memcpy(founding->digest, digest, sizeof(founding->digest));
    founding->has_digest = true;
    return true;
}

bool founding_agrees(const struct founding *founding, const struct founding *other)
{
    return !founding->has_digest || !other->has_digest ||
           CRYPTO_memcmp(founding->digest, other->digest, FOUNDING_DIGEST_SIZE) == 0;
}

size_t founding_encode(const struct founding *founding, char ret_body[FOUNDING_SIZE_LARGEST])
{
    put_le(ret_body, founding->partition_count, 2);
    if (!founding->has_digest)
        return 2;
    memcpy(ret_body + 2, founding->digest, FOUNDING_DIGEST_SIZE);
    return FOUNDING_SIZE_LARGEST;
}

bool founding_decode(struct bytes body, struct founding *ret_founding)
{
    if (body.size != 2 && body.size != FOUNDING_SIZE_LARGEST)
        return false;
    *ret_founding = (struct founding){.partition_count = (uint16_t)get_le(body.data, 2),
                                      .has_digest = body.size > 2};
    if (ret_founding->has_digest)
        memcpy(ret_founding->digest, body.data + 2, FOUNDING_DIGEST_SIZE);
    return true;
}
