/* A token that an OAuth 2.0 server gives for client credentials (RFC 6749, section 4.4); fetched by
 * oauth.h. */
#include "delivery/named_auth.h"

#include "timer/target.h"

enum { OAUTH2_URL, OAUTH2_ID, OAUTH2_SECRET, OAUTH2_SCOPE, OAUTH2_AUDIENCE, OAUTH2_SENT_AS };

static bool auth_oauth2_is_url(struct bytes text)
{
    struct target target;

    return target_parse(text, &target, NULL) == ERROR_NONE && target_is_webhook(&target);
}

/* True if the scopes are separated by single spaces, which is all that may stand between them. */
static bool auth_oauth2_is_scope(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < ' ' || text.data[i] > '~')
            return false;
    return true;
}

static int auth_oauth2_check(const struct bytes *values, const char **ret_reason)
{
    struct bytes visible[NAMED_FIELDS_MAX] = {{0}};
    const struct bytes sent_as = values[OAUTH2_SENT_AS];

    if (!auth_oauth2_is_url(values[OAUTH2_URL])) {
        *ret_reason = "It must be a URL that begins with https:// or http://";
        return OAUTH2_URL;
    }
    if (!auth_oauth2_is_scope(values[OAUTH2_SCOPE])) {
        *ret_reason = "It may have visible characters of ASCII, and spaces between scopes";
        return OAUTH2_SCOPE;
    }
    if (sent_as.size && !bytes_equal(sent_as, BYTES("basic")) &&
        !bytes_equal(sent_as, BYTES("post"))) {
        *ret_reason = "It must be basic or post";
        return OAUTH2_SENT_AS;
    }
    visible[OAUTH2_ID] = values[OAUTH2_ID];
    visible[OAUTH2_SECRET] = values[OAUTH2_SECRET];
    visible[OAUTH2_AUDIENCE] = values[OAUTH2_AUDIENCE];
    return named_auth_check_visible(visible, ret_reason);
}

static void auth_oauth2_apply(const struct bytes *values, struct named_request *request)
{
    request->oauth = (struct oauth_client){
        .url = values[OAUTH2_URL],
        .id = values[OAUTH2_ID],
        .secret = values[OAUTH2_SECRET],
        .scope = values[OAUTH2_SCOPE],
        .audience = values[OAUTH2_AUDIENCE],
        .has_secret_in_body = bytes_equal(values[OAUTH2_SENT_AS], BYTES("post")),
    };
}

const struct named_auth named_auth_oauth2 = {
    .kind = "oauth2",
    .fields = {{"token_url", false, 2048, .is_address = true},
               {"client_id", false, 256},
               {"client_secret", true, 4096},
               {"scope", false, 1024, .is_optional = true},
               {"audience", false, 1024, .is_optional = true},
               {"client_auth", false, 8, .is_optional = true}},
    .check = auth_oauth2_check,
    .apply = auth_oauth2_apply,
};
