/*
 * Goal: no list of brokers can crash `doctor`, and neither user nor password of a broker is taken
 * for a host. Method: any bytes as a list; the slices lie in the list, in order.
 */
#include "cli/broker_list.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes list = {(const char *)data, size};
    const char *from = list.data, *end = list.size ? list.data + list.size : list.data;

    for (struct listed_broker broker; broker_list_next(&list, &broker);) {
        if (!broker.name.size || !broker.hosts.size || broker.name.data < from ||
            broker.hosts.data < broker.name.data + broker.name.size ||
            broker.hosts.data + broker.hosts.size > end)
            abort();
        if (memchr(broker.hosts.data, '@', broker.hosts.size) ||
            memchr(broker.hosts.data, '/', broker.hosts.size))
            abort();
        from = broker.hosts.data + broker.hosts.size;
    }
    return 0;
}
