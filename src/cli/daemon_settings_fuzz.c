/*
 * Goal: no config file of a daemon and no list of brokers can crash `doctor`, and neither user nor
 * password of a broker is taken for a host. Method: any bytes as a config file and as a list; the
 * slices lie in the list, in order.
 */
#include "cli/daemon_settings.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void daemon_settings_fuzz_list(struct bytes list)
{
    const char *from = list.data, *end = list.size ? list.data + list.size : list.data;

    for (struct daemon_broker broker; daemon_settings_next_broker(&list, &broker);) {
        if (!broker.name.size || !broker.hosts.size || broker.name.data < from ||
            broker.hosts.data < broker.name.data + broker.name.size ||
            broker.hosts.data + broker.hosts.size > end)
            abort();
        if (memchr(broker.hosts.data, '@', broker.hosts.size) ||
            memchr(broker.hosts.data, '/', broker.hosts.size))
            abort();
        from = broker.hosts.data + broker.hosts.size;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct daemon_settings settings;

    daemon_settings_fuzz_list((struct bytes){(const char *)data, size});
    daemon_settings_read(&settings, (struct bytes){(const char *)data, size}, NULL);
    daemon_settings_fuzz_list(daemon_settings_get(&settings, DAEMON_SETTING_BROKERS));
    daemon_settings_deinit(&settings);
    return 0;
}
