#include "engine/history.h"

#include <stdlib.h>

void history_init(struct history *history, size_t count_max)
{
    *history = (struct history){.count_max = count_max};
    map_init(&history->map);
}

void history_deinit(struct history *history)
{
    map_deinit(&history->map);
    free(history->entries);
}

struct history_entry *history_find(const struct history *history, uint64_t serial)
{
    return map_get(&history->map, serial);
}

void history_forget(struct history *history, uint64_t serial)
{
    struct history_entry *entry = map_remove(&history->map, serial);

    if (entry)
        *entry = (struct history_entry){0};
}

struct history_entry *history_begin(struct history *history, uint64_t serial)
{
    struct history_entry *entry = history_find(history, serial);

    if (!entry) {
        if (!history->entries && history->count_max > 0)
            history->entries = calloc(history->count_max, sizeof(*entry));
        if (!history->entries)
            return NULL;
        entry = &history->entries[history->next];
        if (history->count == history->count_max && map_get(&history->map, entry->serial) == entry)
            map_remove(&history->map, entry->serial);
        if (!map_put(&history->map, serial, entry))
            return NULL;
        history->next = (history->next + 1) % history->count_max;
        history->count += history->count < history->count_max;
    }
    *entry = (struct history_entry){.serial = serial};
    return entry;
}
