/* hide.c - looks for a secret at each place of a text; see hide.h. */
#include "delivery/hide.h"

#include "timer/sensitive_headers.h"

#define HIDE_MASK_SIZE (sizeof(HEADER_MASK) - 1)

/* Returns the size of the secret where the text begins with it, or ends within it; 0 if it does
 * neither. */
static size_t hide_match(struct bytes secret, struct bytes text)
{
    size_t at = 0, matched = 0;

    while (matched < secret.size && at < text.size) {
        const bool is_escaped = text.data[at] == '\\' && secret.data[matched] != '\\' &&
                                (at + 1 == text.size || text.data[at + 1] == secret.data[matched]);

        if (!is_escaped && text.data[at] != secret.data[matched])
            return 0;
        matched += !is_escaped;
        at++;
    }
    return matched == secret.size || matched >= HIDE_SIZE_MIN ? at : 0;
}

void hide_secret(struct bytes secret, char *text, uint32_t *size)
{
    size_t to = 0;

    if (secret.size < HIDE_SIZE_MIN)
        return;
    for (size_t from = 0; from < *size;) {
        const size_t found = hide_match(secret, (struct bytes){text + from, *size - from});

        if (found) {
            memcpy(text + to, HEADER_MASK, HIDE_MASK_SIZE);
            to += HIDE_MASK_SIZE;
            from += found;
        } else {
            text[to++] = text[from++];
        }
    }
    *size = (uint32_t)to;
}
