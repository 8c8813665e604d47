/* Whatever a token endpoint answers: no read or write out of bounds, a token that can stand in a
 * header, and a reason in one line. The first byte chooses the status. */
#include "delivery/oauth_message.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer token;
    uint32_t life_s = 0;
    char reason[OAUTH_REASON_SIZE] = "";

    if (size == 0)
        return 0;
    buffer_init(&token);
    const struct bytes body = {(const char *)data + 1, size - 1};
    if (oauth_answer_read(data[0] == '4' ? 401 : 200, body, &token, &life_s, reason)) {
        if (token.size == 0 || token.size > OAUTH_TOKEN_SIZE_MAX || life_s < OAUTH_LIFE_S_MIN ||
            life_s > OAUTH_LIFE_S_MAX)
            abort();
        for (size_t i = 0; i < token.size; i++)
            if (token.data[i] <= ' ' || token.data[i] > '~')
                abort();
    } else if (token.size > 0 || !reason[0] || bytes_has_control(bytes_of(reason))) {
        abort();
    }
    buffer_deinit(&token);
    return 0;
}
