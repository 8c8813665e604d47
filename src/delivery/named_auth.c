/* named_auth.c - the table of kinds of authentication; see named_auth.h. */
#include "delivery/named_auth.h"

static const struct named_auth *const named_auths[] = {
#define X(file, kind) &named_auth_##file,
    NAMED_AUTH_LIST(X)
#undef X
};

const struct named_auth *named_auth_find(struct bytes kind)
{
    for (size_t i = 0; i < sizeof(named_auths) / sizeof(named_auths[0]); i++)
        if (bytes_equal(kind, bytes_of(named_auths[i]->kind)))
            return named_auths[i];
    return NULL;
}

int named_auth_field(const struct named_auth *auth, struct bytes name)
{
    for (int i = 0; auth->fields[i].name; i++)
        if (bytes_equal(name, bytes_of(auth->fields[i].name)))
            return i;
    return -1;
}

int named_auth_check_visible(const struct bytes *values, const char **ret_reason)
{
    for (int i = 0; i < NAMED_FIELDS_MAX; i++)
        for (size_t at = 0; at < values[i].size && values[i].data; at++)
            if (values[i].data[at] <= ' ' || values[i].data[at] > '~') {
                *ret_reason = "It may have visible characters of ASCII only";
                return i;
            }
    return -1;
}
