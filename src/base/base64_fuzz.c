/*
 * base64_fuzz - any bytes written are read as the same; any text that is read is what its bytes are
 * written as, so no two texts say the same.
 */
#include "base/base64.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes input = {(const char *)data, size};
    size_t room = base64_decoded_size_max(size);
    char *decoded = malloc(room + !room);

    REQUIRE(decoded);
    struct buffer text;
    buffer_init(&text);
    size_t decoded_size;
    if (base64_decode(input, decoded, &decoded_size)) {
        REQUIRE(decoded_size <= room);
        base64_append(&text, (struct bytes){decoded, decoded_size});
        REQUIRE(bytes_equal(buffer_bytes(&text), input));
    }
    buffer_clear(&text);
    base64_append(&text, input);
    room = base64_decoded_size_max(text.size);
    char *back = malloc(room + !room);
    REQUIRE(back && base64_decode(buffer_bytes(&text), back, &decoded_size));
    REQUIRE(bytes_equal((struct bytes){back, decoded_size}, input));
    free(back);
    free(decoded);
    buffer_deinit(&text);
    return 0;
}
