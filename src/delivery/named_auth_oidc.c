/* A token of this service, as of an OpenID provider; minted by token_issuer.h. */
#include "delivery/named_auth.h"

static void auth_oidc_apply(const struct bytes *values, struct named_request *request)
{
    request->is_oidc = true;
    request->audience = values[0];
}

const struct named_auth named_auth_oidc = {
    .kind = "oidc",
    .fields = {{"audience", false, 1024, .is_optional = true}},
    .check = named_auth_check_visible,
    .apply = auth_oidc_apply,
};
