/* diskwheel_view.c - lists of runs for each partition; see diskwheel_view.h. */
#include "store/wheel/diskwheel_view.h"

#include "store/wheel/diskwheel_run_private.h"

#include <assert.h>
#include <stdlib.h>

struct diskwheel_view *diskwheel_view_create(size_t count)
{
    struct diskwheel_view *view = calloc(1, sizeof(*view) + count * sizeof(struct diskwheel_run *));

    if (view)
        atomic_init(&view->references, 1);
    return view;
}

void diskwheel_view_release(struct diskwheel_view *view)
{
    if (!view || atomic_fetch_sub(&view->references, 1) != 1)
        return;
    for (size_t i = 0; i < view->count; i++)
        diskwheel_run_release(view->runs[i]);
    free(view->entries);
    free(view->starts);
    free(view);
}

static size_t diskwheel_view_entries_of(struct diskwheel_run *const *runs, size_t count)
{
    size_t entries = 0;

    for (size_t i = 0; i < count; i++)
        entries += runs[i]->slice_count + 2;
    return entries;
}

bool diskwheel_view_reserve(struct diskwheel_view *view, uint16_t partition_count,
                            struct diskwheel_run *const *runs, size_t count,
                            struct diskwheel_run *const *also, size_t also_count)
{
    view->partition_count = partition_count;
    view->capacity =
        diskwheel_view_entries_of(runs, count) + diskwheel_view_entries_of(also, also_count);
    view->entries = malloc((view->capacity + 1) * sizeof(*view->entries));
    view->starts = calloc((size_t)partition_count + 3, sizeof(*view->starts));
    return view->entries && view->starts;
}

/* Returns the number of the list of a table other than TIMERS. */
static size_t diskwheel_view_list_of(const struct diskwheel_view *view, enum diskwheel_table table)
{
    return (size_t)view->partition_count + (table == DISKWHEEL_NAMES);
}

/* Counts what each list has, at the list's number. */
static void diskwheel_view_count(struct diskwheel_view *view, const struct diskwheel_run *run)
{
    for (size_t i = 0; i < run->slice_count; i++)
        view->starts[run->slices[i].partition]++;
    for (enum diskwheel_table table = DISKWHEEL_MOVED; table < DISKWHEEL_TABLES; table++)
        view->starts[diskwheel_view_list_of(view, table)] += run->tables[table].index.count > 0;
}

/* `list` is where the next entry of a list goes, and moves on. */
static void diskwheel_view_add(struct diskwheel_view *view, size_t list, size_t number,
                               const struct diskwheel_run_slice *slice, enum diskwheel_table table)
{
    const struct diskwheel_run *run = view->runs[number];
    struct diskwheel_view_entry *entry = &view->entries[view->starts[list]++];

    *entry = (struct diskwheel_view_entry){.at_max = UINT64_MAX,
                                           .serial_min = 1,
                                           .filter = run->tables[table].filter,
                                           .filter_bytes = run->tables[table].filter_bytes,
                                           .number = number};
    if (run->is_mended) { /* it has no filters: it may have each record */
        entry->serial_min = 0;
        entry->serial_max = UINT64_MAX;
    }
    if (!slice)
        return;
    entry->at_min = slice->at_min;
    entry->at_max = slice->at_max;
    if (!slice->serial_max)
        return;
    entry->serial_min = slice->serial_min;
    entry->serial_max = slice->serial_max;
}

void diskwheel_view_index(struct diskwheel_view *view)
{
    const size_t lists = (size_t)view->partition_count + 2;
    size_t start = 0;

    for (size_t i = 0; i < view->count; i++)
        diskwheel_view_count(view, view->runs[i]);
    for (size_t i = 0; i < lists; i++) {
        const size_t count = view->starts[i];

        view->starts[i] = start;
        start += count;
    }
    assert(start <= view->capacity);
    for (size_t i = view->count; i-- > 0;) {
        const struct diskwheel_run *run = view->runs[i];

        for (size_t k = 0; k < run->slice_count; k++)
            diskwheel_view_add(view, run->slices[k].partition, i, &run->slices[k],
                               DISKWHEEL_TIMERS);
        for (enum diskwheel_table table = DISKWHEEL_MOVED; table < DISKWHEEL_TABLES; table++)
            if (run->tables[table].index.count)
                diskwheel_view_add(view, diskwheel_view_list_of(view, table), i, NULL, table);
    }
    for (size_t i = lists; i > 0; i--) /* each has become its end */
        view->starts[i] = view->starts[i - 1];
    view->starts[0] = 0;
}

static bool diskwheel_view_is_dense(const struct diskwheel_view *view, uint64_t partition)
{
    uint64_t rows = 0, least = UINT64_MAX, greatest = 0;

    for (size_t i = 0; i < view->count; i++) {
        const struct diskwheel_run_slice *slice =
            diskwheel_run_find_slice(view->runs[i], partition);

        if (!slice || !slice->serial_max)
            continue;
        rows += slice->rows;
        least = slice->serial_min < least ? slice->serial_min : least;
        greatest = slice->serial_max > greatest ? slice->serial_max : greatest;
    }
    return rows && rows >= (greatest - least) / DISKWHEEL_RUN_DENSE;
}

bool diskwheel_density_keeps(struct diskwheel_density *density, const struct diskwheel_run *run,
                             struct record_key key)
{
    if (key.high >> 48 != density->partition) {
        density->partition = key.high >> 48;
        density->is_dense = diskwheel_view_is_dense(density->view, density->partition);
    }
    return density->is_dense && diskwheel_run_is_dense_at(run, key);
}

void diskwheel_probe_begin(struct diskwheel_probe *probe, const struct diskwheel_view *view,
                           enum diskwheel_table table, struct record_key key)
{
    const size_t list =
        table == DISKWHEEL_TIMERS ? key.high >> 48 : diskwheel_view_list_of(view, table);

    *probe =
        (struct diskwheel_probe){.table = table,
                                 .at = table == DISKWHEEL_TIMERS ? key.high & RECORD_AT_MAX : 0,
                                 .serial = table == DISKWHEEL_TIMERS ? key.low : 0,
                                 .hash = diskwheel_run_hash(table, key)};
    if (list >= (size_t)view->partition_count + 2)
        return;
    probe->next = view->entries + view->starts[list];
    probe->end = view->entries + view->starts[list + 1];
    if (table == DISKWHEEL_TIMERS)
        return;
    /* the filters are far from each other: they are fetched at the same time */
    for (const struct diskwheel_view_entry *entry = probe->next; entry < probe->end; entry++)
        if (entry->filter_bytes)
            __builtin_prefetch(entry->filter +
                               diskwheel_run_filter_line(probe->hash, entry->filter_bytes));
}

bool diskwheel_probe_next(struct diskwheel_probe *probe, size_t *ret_number)
{
    while (probe->next < probe->end) {
        const struct diskwheel_view_entry *entry = probe->next++;

        if (probe->at < entry->at_min || probe->at > entry->at_max)
            continue;
        if ((entry->serial_min <= probe->serial && probe->serial <= entry->serial_max) ||
            diskwheel_run_filter_has(entry->filter, entry->filter_bytes, probe->hash)) {
            *ret_number = entry->number;
            return true;
        }
    }
    return false;
}
