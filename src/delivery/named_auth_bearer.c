/* A token in the header authorization (RFC 6750). */
#include "delivery/named_auth.h"

static void auth_bearer_apply(const struct bytes *values, struct named_request *request)
{
    buffer_append_text(&request->headers, "authorization: Bearer ");
    buffer_append_bytes(&request->headers, values[0]);
    buffer_append(&request->headers, "\n", 1);
}

const struct named_auth named_auth_bearer = {
    .kind = "bearer",
    .fields = {{"token", true, 8192}},
    .check = named_auth_check_visible,
    .apply = auth_bearer_apply,
};
