/*
 * storage_model.h - for tests: a storage too simple to be wrong, and a source of random commits.
 *
 * The model is one flat array of every timer that there ever was. A seed and a number of commits
 * say exactly what it holds, so a test that lost its storage can make the model of any moment
 * again.
 */
#ifndef TICKWHEEL_STORE_STORAGE_MODEL_H
#define TICKWHEEL_STORE_STORAGE_MODEL_H

#include "timer/name.h"
#include "timer/runs.h"
#include "store/storage_testing.h"

enum {
    MODEL_PARTITIONS = 3,
    MODEL_TIMERS_MAX = 600,
    MODEL_RANGE = 200, /* positions 1 .. 200: many timers share one */
    MODEL_BATCHES_MAX = 4,
    MODEL_WRITES_MAX = 12,
};

struct model_row {
    struct timer *timer; /* as last written */
    struct wall at;      /* position of its row */
    bool is_trimmed;
};

#define MODEL_TENANTS 3

static const char *const model_tenants[MODEL_TENANTS] = {"", "shop", "shop-2"};

struct model {
    struct model_row rows[MODEL_TIMERS_MAX];
    size_t count;
    struct storage_meta metas[MODEL_PARTITIONS];
    uint64_t ledgers[MODEL_PARTITIONS]; /* number of the commit with the last one; 0 if none */
    struct random random;
    uint64_t commit_count;
};

/* Batches of one commit with their timers. */
struct model_commit {
    struct storage_batch batches[MODEL_BATCHES_MAX];
    struct storage_batch *pointers[MODEL_BATCHES_MAX];
    struct storage_write writes[MODEL_BATCHES_MAX][MODEL_WRITES_MAX];
    char ledger[8]; /* of each third commit: its number */
    size_t count;
};

static inline void model_init(struct model *model, uint64_t seed)
{
    memset(model, 0, sizeof(*model));
    model->random = random_seeded(seed);
}

static inline void model_deinit(struct model *model)
{
    for (size_t i = 0; i < model->count; i++)
        timer_free(model->rows[i].timer);
    model->count = 0;
}

static inline void model_write_deinit(struct storage_write *write)
{
    timer_free((struct timer *)write->old);
    timer_free(write->timer);
}

static inline void model_commit_deinit(struct model_commit *commit)
{
    for (size_t i = 0; i < commit->count; i++)
        for (size_t j = 0; j < commit->batches[i].write_count; j++)
            model_write_deinit(&commit->writes[i][j]);
}

/* ---- random timers ---- */

static inline uint64_t model_below(struct model *model, uint64_t bound)
{
    return random_below(&model->random, bound);
}

static inline struct wall model_position(struct model *model)
{
    return (struct wall){1 + model_below(model, MODEL_RANGE)};
}

/* Returns one of a few names, or none, in a form that fits every kind of name; `ends` gives more
 * of them. */
static inline struct bytes model_name(struct model *model, char ends)
{
    static const char *const names[] = {"", "0123456789abcdef-a", "0123456789abcdef-b"};
    static const char *const lists[] = {"", "0123456789abcdef-a\n",
                                        "0123456789abcdef-b\n0123456789abcdef-a\n"};

    return bytes_of((ends ? lists : names)[model_below(model, 3)]);
}

/* Returns no runs, or a few. */
static inline struct bytes model_runs(struct model *model, char rooms[2][RUNS_BYTES_MAX])
{
    struct bytes runs = {0};

    for (uint64_t i = 0, count = model_below(model, 4); i < count; i++) {
        const struct run run = {.planned = model_position(model),
                                .started = model_position(model),
                                .status = (uint16_t)model_below(model, 600),
                                .attempts = (uint8_t)model_below(model, 100),
                                .outcome = (enum run_outcome)model_below(model, RUN_OUTCOME_COUNT),
                                .error = model_name(model, 0)};

        runs = runs_add(runs, &run, rooms[i % 2]);
    }
    return runs;
}

/* Returns a timer with this id, and random texts and fields. */
static inline struct timer *model_timer(struct model *model, struct timer_id id)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789{}[]\",:. \n";
    char bytes[600], runs[2][RUNS_BYTES_MAX];
    struct timer_texts texts = {0};
    struct bytes *each[] = {&texts.target,  &texts.payload, &texts.content_type,
                            &texts.headers, &texts.labels,  &texts.last_error};
    struct timer *timer;

    texts.key = model_name(model, 0);
    texts.watch = model_name(model, '\n');
    texts.request = model_name(model, 0);
    texts.schedule = model_name(model, 0);
    texts.tenant = bytes_of(model_tenants[model_below(model, MODEL_TENANTS)]);
    texts.trace = model_name(model, 0);
    texts.runs = model_runs(model, runs);
    texts.on_dead = model_name(model, 0);
    texts.on_success = model_name(model, 0);
    texts.report_of = model_name(model, 0);
    texts.zoned = model_name(model, 0);
    texts.method = model_name(model, 0);
    texts.targets = model_name(model, '\n');
    texts.parts = model_name(model, '\n');
    texts.debounce = model_name(model, 0);
    texts.firing_of = model_name(model, 0);
    texts.flow = model_name(model, 0);
    texts.ack_timeout = model_name(model, 0);
    texts.awaits = model_name(model, 0);
    const bool is_paused = model_below(model, 4) == 0;
    texts.note = is_paused ? model_name(model, 0) : (struct bytes){0};

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = letters[model_below(model, sizeof(letters))];
    for (size_t i = 0; i < 6; i++) {
        size_t size = model_below(model, 3) ? (size_t)model_below(model, 100) : 0;

        *each[i] = (struct bytes){bytes + 100 * i, size};
    }
    timer = timer_alloc(&texts);
    assert_non_null(timer);
    timer->id = id;
    timer->due = model_below(model, 2) ? id.first : model_position(model);
    timer->created = model_position(model);
    timer->version = (uint32_t)model_below(model, UINT32_MAX);
    timer->attempts = (uint32_t)model_below(model, 20);
    timer->state = is_paused ? TIMER_PAUSED : (enum timer_state)model_below(model, TIMER_FIRED);
    timer->paused = is_paused ? model_position(model) : (struct wall){0};
    if (model_below(model, 2))
        timer->retry =
            (struct retry_policy){(uint32_t)model_below(model, 100), model_below(model, 1000),
                                  model_below(model, 1000000),       model_below(model, 1000000),
                                  model_below(model, 1000000),       model_below(model, 2)};
    timer->failing = model_below(model, 2) ? model_position(model) : (struct wall){0};
    return timer;
}

static inline void model_end(struct model *model, struct timer *timer)
{
    timer->state = (enum timer_state)(TIMER_FIRED + model_below(model, 3));
    timer->ended = model_position(model);
    timer->paused = (struct wall){0};
}

/* ---- random writes ---- */

/* Writes `timer` into the row: the model takes a copy, and the write gets the old timer. */
static inline struct storage_write model_write(struct model_row *row, struct timer *timer)
{
    struct storage_write write = {
        .timer = timer,
        .was_at = row->at,
        .old = row->timer,
        .was_final = row->timer && timer_is_final(row->timer->state),
    };

    row->timer = timer_copy(timer, &timer->texts);
    assert_non_null(row->timer);
    if (!timer_is_final(timer->state) || (timer->state == TIMER_DEAD && row->at.ms) ||
        row->at.ms == STORAGE_PAUSED_AT.ms)
        row->at = timer->at;
    else if (!row->at.ms)
        row->at = timer->id.first;
    return write;
}

static inline struct storage_write model_create(struct model *model, uint16_t partition)
{
    /* An odd factor makes every serial different, in no order. */
    uint64_t serial = (model->count + 1) * UINT64_C(0x9e3779b97f4a7c15);
    struct timer *timer =
        model_timer(model, (struct timer_id){model_position(model), partition, serial});

    timer->at = model_below(model, 8) ? timer->id.first : model_position(model);
    if (model_below(model, 16) == 0)
        model_end(model, timer);
    return model_write(&model->rows[model->count++], timer);
}

/* Picks a live row, or sometimes a dead letter, which then lives again. */
static inline struct model_row *model_pick(struct model *model, uint16_t partition)
{
    size_t begin = (size_t)model_below(model, model->count);
    const bool redrives = model_below(model, 8) == 0;

    for (size_t i = 0; i < model->count; i++) {
        struct model_row *row = &model->rows[(begin + i) % model->count];

        if (row->timer->id.partition == partition && !row->is_trimmed &&
            (!timer_is_final(row->timer->state) || (redrives && row->timer->state == TIMER_DEAD)))
            return row;
    }
    return NULL;
}

/* Changes only the due time, to a later one, and the version. */
static inline struct storage_write model_touch(struct model *model, struct model_row *row)
{
    struct timer *timer = timer_copy(row->timer, &row->timer->texts);
    struct storage_write write;

    assert_non_null(timer);
    timer->at = row->at;
    timer->due.ms = row->at.ms + 1 + model_below(model, MODEL_RANGE);
    timer->version += 1 + (uint32_t)model_below(model, 2);
    write = model_write(row, timer);
    write.is_touch = true;
    return write;
}

static inline struct storage_write model_forget(struct model_row *row)
{
    struct timer *timer = timer_copy(row->timer, &row->timer->texts);
    struct storage_write write;

    assert_non_null(timer);
    timer->at = row->at;
    write = model_write(row, timer);
    write.is_forgotten = true;
    row->is_trimmed = true;
    return write;
}

static inline struct storage_write model_change(struct model *model, struct model_row *row)
{
    struct timer *drawn = model_timer(model, row->timer->id), *timer;
    struct timer_texts texts = drawn->texts;
    const bool ends = !timer_is_final(row->timer->state) && model_below(model, 3) == 0;

    texts.key = row->timer->texts.key; /* the key never changes ... */
    texts.request = row->timer->texts.request;
    texts.tenant = row->timer->texts.tenant;
    if (ends) /* ... and this one only until it ends */
        texts.watch = row->timer->texts.watch;
    timer = timer_copy(drawn, &texts);
    assert_non_null(timer);
    timer_free(drawn);
    timer->at = row->at;
    if (ends) {
        timer->at = model_position(model); /* only a dead or a formerly paused one moves there */
        model_end(model, timer);
        return model_write(row, timer);
    }
    switch (model_below(model, 4)) {
    case 0: /* replaced in place */
        break;
    case 1:
        timer->at = timer->id.first;
        break;
    case 2:
        timer->at.ms = row->at.ms - 1 + model_below(model, 2); /* moves to a neighbour, or stays */
        timer->at.ms += timer->at.ms == 0;
        break;
    default:
        timer->at = timer->state == TIMER_PAUSED && model_below(model, 2) ? STORAGE_PAUSED_AT
                                                                          : model_position(model);
    }
    return model_write(row, timer);
}

/* ---- random metas ---- */

static inline void model_trim(struct model *model, uint16_t partition, struct wall from,
                              struct wall to)
{
    for (size_t i = 0; i < model->count; i++) {
        struct model_row *row = &model->rows[i];

        if (row->timer->id.partition == partition && row->at.ms >= from.ms && row->at.ms < to.ms) {
            assert_true(row->is_trimmed || timer_is_final(row->timer->state));
            row->is_trimmed = true;
        }
    }
}

/* Sets watermark and trim anywhere up to the first live row; the trim also goes down. */
static inline struct storage_meta model_meta(struct model *model, uint16_t partition)
{
    struct storage_meta meta = {.epoch = model->commit_count,
                                .watermark = {MODEL_RANGE + 2},
                                .placed = {model->commit_count % 3},
                                .over_to = {model->commit_count % 2}};
    struct wall old = model->metas[partition].trim;

    for (size_t i = 0; i < model->count; i++) {
        const struct model_row *row = &model->rows[i];

        if (row->timer->id.partition == partition && !timer_is_final(row->timer->state)) {
            meta.watermark = wall_min(meta.watermark, row->at);
            meta.pending++;
        }
    }
    meta.watermark.ms -= model_below(model, meta.watermark.ms / 4 + 1);
    meta.trim = wall_min(old, meta.watermark);
    if (model_below(model, 4) == 0)
        meta.trim.ms = model_below(model, meta.watermark.ms + 1);
    model_trim(model, partition, old, meta.trim);
    return model->metas[partition] = meta;
}

/* ---- commits ---- */

/* Makes the next random commit, which the model has applied. */
static inline void model_next(struct model *model, struct model_commit *commit)
{
    put_le(commit->ledger, ++model->commit_count, 8);
    commit->count = 1 + (size_t)model_below(model, MODEL_BATCHES_MAX);
    for (size_t i = 0; i < commit->count; i++) {
        struct storage_batch *batch = &commit->batches[i];

        *batch = (struct storage_batch){.partition = (uint16_t)model_below(model, MODEL_PARTITIONS),
                                        .writes = commit->writes[i]};
        commit->pointers[i] = batch;
        for (size_t n = (size_t)model_below(model, MODEL_WRITES_MAX + 1); n > 0; n--) {
            struct storage_write *write = &commit->writes[i][batch->write_count];
            struct model_row *row = NULL;

            if (model->count && model_below(model, 3))
                row = model_pick(model, batch->partition);
            if (row && !timer_is_final(row->timer->state) && model_below(model, 3) == 0)
                *write = model_touch(model, row);
            else if (row && timer_is_final(row->timer->state) && model_below(model, 2))
                *write = model_forget(row);
            else if (row)
                *write = model_change(model, row);
            else if (model->count < MODEL_TIMERS_MAX)
                *write = model_create(model, batch->partition);
            else
                continue;
            batch->write_count++;
        }
        batch->meta = model_meta(model, batch->partition);
        if (model->commit_count % 3)
            continue;
        batch->ledger = (struct bytes){commit->ledger, sizeof(commit->ledger)};
        model->ledgers[batch->partition] = model->commit_count;
    }
}

/* Returns the model after `count` commits. */
static inline void model_replay(struct model *model, uint64_t seed, uint64_t count)
{
    struct model_commit commit;

    model_init(model, seed);
    while (model->commit_count < count) {
        model_next(model, &commit);
        model_commit_deinit(&commit);
    }
}

/* ---- comparing ---- */

static inline int model_compare_rows(const void *left, const void *right)
{
    const struct model_row *a = *(const struct model_row *const *)left;
    const struct model_row *b = *(const struct model_row *const *)right;
    struct storage_position p = {a->at, a->timer->id.serial}, q = {b->at, b->timer->id.serial};

    return storage_position_before(p, q) ? -1 : storage_position_before(q, p);
}

static inline void model_assert_scan(struct model *model, struct storage *storage,
                                     uint16_t partition, enum storage_scan_kind kind,
                                     size_t rows_max)
{
    const struct model_row *expected[MODEL_TIMERS_MAX];
    struct storage_page page = testing_scan_all(storage, partition, kind, rows_max);
    size_t count = 0;

    for (size_t i = 0; i < model->count; i++) {
        const struct model_row *row = &model->rows[i];

        if (row->timer->id.partition == partition && !row->is_trimmed &&
            (kind == STORAGE_SCAN_ALL || !timer_is_final(row->timer->state)))
            expected[count++] = row;
    }
    qsort(expected, count, sizeof(expected[0]), model_compare_rows);
    assert_int_equal(page.count, count);
    for (size_t i = 0; i < count; i++)
        testing_assert_timer(page.timers[i], expected[i]->timer, expected[i]->at);
    storage_page_free(&page);
}

static inline bool model_has_name(const struct timer *timer, uint64_t hash)
{
    struct name_walk walk = {.timer = timer};
    struct name name;

    while (name_next(&walk, &name))
        if (name.hash == hash && !(name.kind == NAME_WATCH && timer_is_final(timer->state)))
            return true;
    return false;
}

static inline const struct model_row *model_find(const struct model *model, uint64_t serial)
{
    for (size_t i = 0; i < model->count; i++)
        if (model->rows[i].timer->id.serial == serial)
            return &model->rows[i];
    return NULL;
}

/* Checks that lookups return all timers, newest first, page by page. A trimmed one may still
 * have names. */
static inline void model_assert_lookup(struct model *model, struct storage *storage,
                                       uint16_t partition, uint64_t hash, size_t count_max)
{
    struct storage_lookup lookup = {partition, hash, UINT64_MAX, count_max};
    struct storage_names names;
    size_t found = 0, expected = 0;

    do {
        assert_int_equal(storage_lookup(storage, &lookup, &names, NULL), ERROR_NONE);
        assert_true(names.count <= count_max);
        for (size_t i = 0; i < names.count; i++) {
            const struct model_row *row = model_find(model, names.ids[i].serial);

            assert_non_null(row);
            assert_true(timer_id_equal(&row->timer->id, &names.ids[i]));
            assert_true(names.ids[i].serial < lookup.serial_below);
            assert_true(row->is_trimmed || model_has_name(row->timer, hash));
            found += !row->is_trimmed;
            lookup.serial_below = names.ids[i].serial;
        }
        free(names.ids);
    } while (names.count == count_max);
    for (size_t i = 0; i < model->count; i++)
        expected += !model->rows[i].is_trimmed && model->rows[i].timer->id.partition == partition &&
                    model_has_name(model->rows[i].timer, hash);
    assert_int_equal(found, expected);
}

static inline void model_assert_names(struct model *model, struct storage *storage,
                                      struct random *random)
{
    static const char *const texts[] = {"0123456789abcdef-a", "0123456789abcdef-b", "none"};

    for (size_t i = 0; i < MODEL_PARTITIONS * MODEL_TENANTS * 3; i++) {
        const struct name_space space = {
            (uint16_t)(i % MODEL_PARTITIONS),
            bytes_of(model_tenants[i / MODEL_PARTITIONS % MODEL_TENANTS])};
        const struct bytes text = bytes_of(texts[i / MODEL_PARTITIONS / MODEL_TENANTS]);
        const size_t count_max = 1 + (size_t)random_below(random, 20);
        const uint16_t p = space.partition;

        model_assert_lookup(model, storage, p, name_hash(space, NAME_KEY, text), count_max);
        model_assert_lookup(model, storage, p, name_hash(space, NAME_WATCH, text), count_max);
        model_assert_lookup(model, storage, p,
                            name_hash_request(space, text, name_of_request(text)), count_max);
    }
}

/* Checks the number of live timers of each tenant. */
static inline void model_assert_tenant_counts(struct model *model, struct storage *storage,
                                              uint16_t p)
{
    struct tenant_counts tenant_counts;

    tenant_counts_init(&tenant_counts);
    assert_int_equal(storage_load_tenant_counts(storage, p, &tenant_counts, NULL), ERROR_NONE);
    for (size_t t = 0; t < MODEL_TENANTS; t++) {
        const struct bytes tenant = bytes_of(model_tenants[t]);
        size_t expected = 0;

        for (size_t i = 0; tenant.size && i < model->count; i++) {
            const struct timer *timer = model->rows[i].timer;

            expected += timer->id.partition == p && bytes_equal(timer->texts.tenant, tenant) &&
                        !timer_is_final(timer->state);
        }
        assert_int_equal(tenant_counts_count(&tenant_counts, tenant), expected);
    }
    tenant_counts_deinit(&tenant_counts);
}

static inline void model_assert_ledger(const struct model *model, struct storage *storage,
                                       uint16_t partition)
{
    const uint64_t expected = model->ledgers[partition];
    struct buffer ledger;

    buffer_init(&ledger);
    assert_int_equal(storage_load_ledger(storage, partition, &ledger, NULL), ERROR_NONE);
    assert_int_equal(ledger.size, expected ? 8 : 0);
    assert_true(!expected || get_le(ledger.data, 8) == expected);
    buffer_deinit(&ledger);
}

/* Checks that every call of the storage returns what the model has. `random` is not the model's
 * own, so that the check changes nothing. */
static inline void model_assert_equal(struct model *model, struct storage *storage,
                                      struct random *random)
{
    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++) {
        const struct storage_meta *expected = &model->metas[p];
        struct storage_meta meta;

        assert_int_equal(storage_load_meta(storage, p, &meta, NULL), ERROR_NONE);
        assert_true(meta.epoch == expected->epoch && meta.pending == expected->pending);
        assert_true(meta.watermark.ms == expected->watermark.ms);
        assert_true(meta.trim.ms == expected->trim.ms);
        assert_true(meta.placed.ms == expected->placed.ms);
        assert_true(meta.over_to.ms == expected->over_to.ms);
        model_assert_tenant_counts(model, storage, p);
        model_assert_ledger(model, storage, p);
        model_assert_scan(model, storage, p, STORAGE_SCAN_LIVE, 1 + random_below(random, 400));
        model_assert_scan(model, storage, p, STORAGE_SCAN_ALL, 1 + random_below(random, 40));
    }
    model_assert_names(model, storage, random);
    for (size_t i = 0; i < model->count; i++) {
        const struct model_row *row = &model->rows[i];
        struct timer_id id = row->timer->id;

        if (row->is_trimmed)
            testing_assert_not_found(storage, &id, ERROR_NOT_FOUND);
        else
            testing_assert_found(storage, row->timer, row->at.ms);
        id.first.ms += 1 + random_below(random, 3);
        testing_assert_not_found(storage, &id, ERROR_NOT_FOUND);
    }
}

#endif
