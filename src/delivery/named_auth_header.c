/* A key in a header of the receiver's choice, such as x-api-key. */
#include "delivery/named_auth.h"

#include "delivery/webhook.h"
#include "delivery/webhook_request.h"

static int auth_header_check(const struct bytes *values, const char **ret_reason)
{
    if (!webhook_header_is_name(values[0]) || webhook_header_is_reserved(values[0])) {
        *ret_reason = "This is no name of a header that a webhook may have";
        return 0;
    }
    if (values[1].data && bytes_has_control(values[1])) {
        *ret_reason = "It must not contain control characters";
        return 1;
    }
    return -1;
}

static void auth_header_apply(const struct bytes *values, struct named_request *request)
{
    buffer_append_bytes(&request->headers, values[0]);
    buffer_append_text(&request->headers, ": ");
    buffer_append_bytes(&request->headers, values[1]);
    buffer_append(&request->headers, "\n", 1);
}

const struct named_auth named_auth_header = {
    .kind = "header",
    .fields = {{"name", false, 128}, {"value", true, 8192}},
    .check = auth_header_check,
    .apply = auth_header_apply,
};
