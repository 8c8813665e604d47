/* Whatever the bytes: no read or write out of bounds, and what was accepted can be decoded. */
#include "delivery/broker_url.h"
#include "timer/target.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void broker_url_fuzz_decode(struct bytes text)
{
    struct buffer out;

    buffer_init(&out);
    broker_url_decode(text, &out);
    if (buffer_failed(&out) || out.size > text.size + 1 || memchr(out.data, '\0', out.size - 1))
        abort();
    buffer_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = {(const char *)data, size};
    struct broker_url url;
    char host[256];
    uint16_t port;

    if (broker_url_parse(text, &url, NULL) == ERROR_NONE)
        broker_url_host(&url, 1, host, &port, NULL);
    struct target target;
    if (target_parse(text, &target, NULL) == ERROR_NONE &&
        target_sharing(&target) == TARGET_SHARES_CONNECTION) {
        for (size_t i = 0; i < target.path_count; i++)
            broker_url_fuzz_decode(target_slice(text, target.paths[i]));
        broker_url_fuzz_decode(target_slice(text, target.key));
    }
    return 0;
}
