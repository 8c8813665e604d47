/*
 * Goal: no crontab can crash the command line, and each entry has a schedule that the service takes
 * and a command that can stand in JSON. Method: any bytes as a crontab of either kind.
 */
#include "base/utf8.h"
#include "cli/crontab.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void crontab_fuzz_check(struct bytes text)
{
    for (size_t at = 0, size; at < text.size; at += size)
        if (!(size = utf8_size(text.data + at, text.data + text.size)) || !text.data[at])
            abort();
}

static void crontab_fuzz_kind(struct bytes text, enum crontab_kind kind)
{
    struct crontab crontab = {.rest = text, .kind = kind};
    struct crontab_entry entry = {0};
    enum crontab_step step;
    struct error error;
    struct cron cron;
    size_t lines = 0;

    while ((step = crontab_next(&crontab, &entry, &error)) != CRONTAB_END) {
        if (crontab.line != ++lines || crontab.variable_count > CRONTAB_VARIABLES_MAX)
            abort();
        if (step != CRONTAB_ENTRY)
            continue;
        if (cron_parse(buffer_bytes(&entry.schedule), &cron, NULL) || !entry.text.size)
            abort();
        crontab_fuzz_check(buffer_bytes(&entry.command));
        crontab_fuzz_check(buffer_bytes(&entry.input));
        crontab_fuzz_check(entry.user);
        if (entry.has_input && entry.input.data[entry.input.size - 1] != '\n')
            abort();
    }
    crontab_entry_deinit(&entry);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = {(const char *)data, size};

    crontab_fuzz_kind(text, CRONTAB_OF_USER);
    crontab_fuzz_kind(text, CRONTAB_OF_SYSTEM);
    return 0;
}
