/* entropy.c - random bytes from the kernel. */
#include "sys/entropy.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>

enum error_code entropy_fill(void *to, size_t size)
{
    char *at = to;

    /* The kernel may return fewer bytes than requested if they are more than 256. */
    while (size) {
        ssize_t got = getrandom(at, size, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ERROR_IO;
        at += got;
        size -= (size_t)got;
    }
    return ERROR_NONE;
}

enum error_code entropy_u64(uint64_t *ret_value)
{
    return entropy_fill(ret_value, sizeof(*ret_value));
}
