/* sensitive_headers.c - see sensitive_headers.h. */
#include "timer/sensitive_headers.h"

#include <strings.h>

static bool sensitive_headers_have(struct bytes list, struct bytes name)
{
    while (list.size > 0) {
        const size_t size = strcspn(list.data, ", \t");
        const size_t part = size < list.size ? size : list.size;

        if (part > 0 && part == name.size && strncasecmp(list.data, name.data, part) == 0)
            return true;
        const size_t cut = part < list.size ? part + 1 : part;
        list = (struct bytes){list.data + cut, list.size - cut};
    }
    return false;
}

bool header_is_sensitive(struct bytes name, struct bytes more)
{
    return sensitive_headers_have(BYTES("authorization,cookie,proxy-authorization,x-api-key"),
                                  name) ||
           sensitive_headers_have(more, name);
}
