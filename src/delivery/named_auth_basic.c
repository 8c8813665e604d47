/* A user and a password in the header authorization (RFC 7617). */
#include "delivery/named_auth.h"

#include "base/base64.h"
#include "delivery/seal.h"

static int auth_basic_check(const struct bytes *values, const char **ret_reason)
{
    if (values[0].size && memchr(values[0].data, ':', values[0].size)) {
        *ret_reason = "It must not contain a colon";
        return 0;
    }
    return named_auth_check_visible(values, ret_reason);
}

static void auth_basic_apply(const struct bytes *values, struct named_request *request)
{
    struct buffer pair;

    buffer_init(&pair);
    if (buffer_reserve(&pair, values[0].size + 1 + values[1].size)) {
        buffer_append_bytes(&pair, values[0]);
        buffer_append(&pair, ":", 1);
        buffer_append_bytes(&pair, values[1]);
    }
    request->headers.failed |= buffer_failed(&pair);
    buffer_append_text(&request->headers, "authorization: Basic ");
    base64_append(&request->headers, buffer_bytes(&pair));
    buffer_append(&request->headers, "\n", 1);
    seal_wipe(&pair);
}

const struct named_auth named_auth_basic = {
    .kind = "basic",
    .fields = {{"username", false, 256}, {"password", true, 4096}},
    .check = auth_basic_check,
    .apply = auth_basic_apply,
};
