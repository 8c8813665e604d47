/* diskwheel_choose.c - classes, tiers, and which runs are rewritten; see diskwheel_choose.h. */
#include "store/wheel/diskwheel_choose.h"

#include <stdlib.h>

enum {
    CHOOSE_RUNS = 64,      /* maximum of runs at once */
    CHOOSE_MANY = 16,      /* runs of a class and tier that are rewritten together */
    CHOOSE_MANY_NEAR = 64, /* the same of the nearest class */
    CHOOSE_STEP = 16,      /* a tier begins at this part of the one above */
    CHOOSE_TOP = 2,        /* size at which the top begins, as a multiple of the memory */
    CHOOSE_MOST = 8,       /* maximum of bytes rewritten at once, as a multiple of the memory */
    CHOOSE_SPARSE = 4,     /* a run with less than this part of its records is rewritten */
    CHOOSE_LEAST = 2 * DISKWHEEL_CLASSES, /* number of runs that surely become fewer */
    CHOOSE_GROUPS = DISKWHEEL_CLASSES * DISKWHEEL_TIERS,
    CHOOSE_ALL = CHOOSE_GROUPS,
    CHOOSE_SPARSE_ONES,
};

/* An hour, four days, a hundred days. */
static const uint64_t choose_distances[DISKWHEEL_CLASSES - 1] = {
    UINT64_C(3600) * 1000, UINT64_C(4) * 86400 * 1000, UINT64_C(100) * 86400 * 1000};

unsigned diskwheel_choose_class(struct wall now, uint64_t ends_ms)
{
    unsigned number = 0;

    while (number < DISKWHEEL_CLASSES - 1 && ends_ms > now.ms &&
           ends_ms - now.ms > choose_distances[number])
        number++;
    return number;
}

unsigned diskwheel_choose_tier(const struct diskwheel_choice *choice, uint64_t bytes)
{
    uint64_t least = CHOOSE_TOP * choice->memory;
    unsigned tier = 0;

    for (; bytes < least && tier < DISKWHEEL_TIERS - 1; least /= CHOOSE_STEP)
        tier++;
    return tier;
}

/* Returns by how much `before` is above `begin`, at most `rows`. */
static uint64_t diskwheel_choose_rows_behind(uint64_t before, uint64_t begin, uint64_t rows)
{
    const uint64_t count = before > begin ? before - begin : 0;

    return count < rows ? count : rows;
}

/* Returns the number of rows that cuts ended, but for those that share a block with others. */
static uint64_t diskwheel_choose_cut_rows(const struct diskwheel_run *run)
{
    const struct diskwheel_run_table *timers = &run->tables[DISKWHEEL_TIMERS];
    uint64_t rows = 0, begin = 0;

    for (size_t i = 0; i < run->slice_count; begin += run->slices[i++].rows) {
        const struct diskwheel_run_slice *slice = &run->slices[i];
        const uint64_t cut = atomic_load(&run->kept_cuts[slice->partition]);

        if (cut == DISKWHEEL_CUT_ALL)
            rows += slice->rows;
        else if (cut > slice->at_min)
            rows += diskwheel_choose_rows_behind(
                diskwheel_run_rows_before(
                    timers, record_row_key(slice->partition, (struct storage_position){{cut}, 0})),
                begin, slice->rows);
    }
    return rows;
}

uint64_t diskwheel_choose_live(const struct diskwheel_run *run)
{
    uint64_t live = 0;

    for (enum diskwheel_table i = 0; i < DISKWHEEL_TABLES; i++) {
        const struct diskwheel_run_table *table = &run->tables[i];
        const uint64_t marked = atomic_load(&table->marked_count);
        const uint64_t cut = i == DISKWHEEL_TIMERS ? diskwheel_choose_cut_rows(run) : 0;

        live += table->record_count - (cut > marked ? cut : marked);
    }
    return live;
}

/* Returns the time from which the run's rows are forgotten; 0 if it has none. */
static uint64_t diskwheel_choose_end(const struct diskwheel_choice *choice,
                                     const struct diskwheel_run *run)
{
    uint64_t last = 0;

    for (size_t i = 0; i < run->slice_count; i++)
        last = run->slices[i].at_max > last ? run->slices[i].at_max : last;
    if (!last)
        return 0;
    return last < UINT64_MAX - choice->retain_ms ? last + choice->retain_ms : UINT64_MAX;
}

/* True if much of the run is over, or all of it probably is. A run of an earlier start that has no
 * rows is copied, once. One whose index was made anew, or that has a flipped bit, gets a file that
 * is whole. */
static bool diskwheel_choose_is_sparse(const struct diskwheel_choice *choice,
                                       const struct diskwheel_run *run)
{
    const uint64_t stale_at = run->stale_at ? run->stale_at : diskwheel_choose_end(choice, run);
    uint64_t records = 0;

    if (choice->now.ms > stale_at || run->is_mended || atomic_load(&run->damaged_blocks))
        return true;
    for (enum diskwheel_table i = 0; i < DISKWHEEL_TABLES; i++)
        records += run->tables[i].record_count;
    return diskwheel_choose_live(run) < records / CHOOSE_SPARSE;
}

/* A run of the view, and the group to which it belongs. */
struct choose_run {
    struct diskwheel_run *run;
    size_t at; /* in the view */
    unsigned group;
    bool is_sparse, is_chosen;
};

struct choose_runs {
    struct choose_run *all; /* the oldest first */
    size_t count, chosen;
};

static int diskwheel_choose_compare(const void *left, const void *right)
{
    const struct choose_run *a = left, *b = right;

    if (a->run->bytes != b->run->bytes)
        return a->run->bytes < b->run->bytes ? -1 : 1;
    return a->at < b->at ? -1 : 1;
}

static int diskwheel_choose_compare_age(const void *left, const void *right)
{
    const struct choose_run *a = left, *b = right;

    return a->at < b->at ? -1 : 1;
}

/* A run that lost records is not rewritten: what is left of it is read where it is. Returns false
 * if out of memory. */
static bool diskwheel_choose_list(const struct diskwheel_choice *choice,
                                  const struct diskwheel_view *view, struct choose_runs *runs)
{
    runs->all = malloc((view->count + 1) * sizeof(*runs->all));
    if (!runs->all)
        return false;
    for (size_t i = 0; i < view->count; i++) {
        struct diskwheel_run *run = view->runs[i];

        if (atomic_load(&run->damaged_records))
            continue;
        runs->all[runs->count++] = (struct choose_run){
            run, i,
            DISKWHEEL_CLASSES * diskwheel_choose_tier(choice, run->bytes) +
                diskwheel_choose_class(choice->now, diskwheel_choose_end(choice, run)),
            diskwheel_choose_is_sparse(choice, run), false};
    }
    return true;
}

/* Chooses runs of the group, in their order. Runs that follow each other have serials that do, and
 * their copies, too: few runs then have the serial of a row in their range. */
static void diskwheel_choose_take(const struct diskwheel_choice *choice, struct choose_runs *runs,
                                  unsigned group)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < runs->count && runs->chosen < CHOOSE_RUNS; i++) {
        struct choose_run *one = &runs->all[i];

        if (group == CHOOSE_ALL ||
            (group == CHOOSE_SPARSE_ONES ? one->is_sparse : one->group == group))
            bytes += one->run->bytes;
        else
            continue;
        if (runs->chosen && bytes > CHOOSE_MOST * choice->memory)
            break;
        one->is_chosen = true;
        runs->chosen++;
    }
}

/* Returns a group with too many runs, of the smallest tier that has one; CHOOSE_ALL if there is
 * none. */
static unsigned diskwheel_choose_group(const struct choose_runs *runs)
{
    size_t counts[CHOOSE_GROUPS] = {0};

    for (size_t i = 0; i < runs->count; i++)
        counts[runs->all[i].group]++;
    for (unsigned group = CHOOSE_GROUPS; group-- > DISKWHEEL_CLASSES;) /* not the top */
        if (counts[group] >= (group % DISKWHEEL_CLASSES ? CHOOSE_MANY : CHOOSE_MANY_NEAR))
            return group;
    return CHOOSE_ALL;
}

static void diskwheel_choose_some(const struct diskwheel_choice *choice, struct choose_runs *runs)
{
    const unsigned group = diskwheel_choose_group(runs);

    diskwheel_choose_take(choice, runs, CHOOSE_SPARSE_ONES);
    if (runs->chosen)
        return;
    if (group != CHOOSE_ALL) {
        diskwheel_choose_take(choice, runs, group);
    } else if (runs->count > choice->runs_max) {
        qsort(runs->all, runs->count, sizeof(*runs->all), diskwheel_choose_compare);
        diskwheel_choose_take(choice, runs, CHOOSE_ALL);
        qsort(runs->all, runs->count, sizeof(*runs->all), diskwheel_choose_compare_age);
        if (runs->chosen < CHOOSE_LEAST)
            runs->chosen = 0;
    }
}

struct diskwheel_view *diskwheel_choose(const struct diskwheel_choice *choice,
                                        const struct diskwheel_view *view)
{
    struct diskwheel_view *chosen = NULL;
    struct choose_runs runs = {.all = NULL};

    if (!diskwheel_choose_list(choice, view, &runs))
        return NULL;
    diskwheel_choose_some(choice, &runs);
    if (runs.chosen)
        chosen = diskwheel_view_create(runs.chosen);
    for (size_t i = 0; i < runs.count && chosen; i++)
        if (runs.all[i].is_chosen)
            chosen->runs[chosen->count++] = diskwheel_run_hold(runs.all[i].run);
    free(runs.all);
    return chosen;
}
