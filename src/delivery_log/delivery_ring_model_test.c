/* Goal: every search finds exactly what a scan of all kept entries would find, in order, over
 * pages, restarts and kills. Method: random entries of a few tenants, and random questions,
 * compared with an array; the ring may only have lost the oldest entries of a tenant, or after a
 * kill the newest ones that were not flushed. */
#include "base/random.h"
#include "delivery_log/delivery_log_testing.h"
#include "seed.h"

enum { ROUNDS = 8, STEPS = 400, TENANTS = 3, ENTRIES = 100000, TEXT = 16 };

struct ring_model_entry {
    unsigned timer, key, target, origin, status, outcome;
    uint64_t stamp, ended_us;
};

struct ring_model {
    struct testing_log log;
    struct random random;
    struct ring_model_tenant {
        struct ring_model_entry *entries;
        size_t first, count; /* entries before `first` were dropped */
        size_t flushed;
        uint64_t last_stamp;
    } tenants[TENANTS];
    uint64_t clock_us;
};

static const char *const tenant_names[TENANTS] = {"", "one", "two"};

static struct wall model_now(const struct ring_model *model)
{
    return (struct wall){model->clock_us / 1000};
}

static struct bytes model_text(char room[TEXT], char kind, unsigned number)
{
    if (!number)
        return (struct bytes){0};
    snprintf(room, TEXT, "%c%u", kind, number);
    return bytes_of(room);
}

static void model_add(struct ring_model *model)
{
    const size_t index = random_below(&model->random, TENANTS);
    struct ring_model_tenant *tenant = &model->tenants[index];
    struct ring_model_entry *added = &tenant->entries[tenant->count++];
    char rooms[DELIVERY_TEXTS][TEXT];

    assert_true(tenant->count <= ENTRIES);
    *added = (struct ring_model_entry){.timer = 1 + (unsigned)random_below(&model->random, 500),
                                       .key = (unsigned)random_below(&model->random, 50),
                                       .target = 1 + (unsigned)random_below(&model->random, 20),
                                       .status = 200 + (unsigned)random_below(&model->random, 5),
                                       .outcome = (unsigned)random_below(&model->random, 3)};
    added->origin = 1 + added->target / 4;
    model->clock_us += random_below(&model->random, 3) * 1000;
    if (random_below(&model->random, 50) == 0)
        model->clock_us -= 20000;
    added->stamp = model->clock_us > tenant->last_stamp ? model->clock_us : tenant->last_stamp + 1;
    added->ended_us = model->clock_us;
    tenant->last_stamp = added->stamp;
    const struct delivery_entry entry = {
        .ended_us = model->clock_us,
        .attempt = 1,
        .status = (uint16_t)added->status,
        .outcome = added->outcome,
        .texts = {[DELIVERY_TEXT_timer] = model_text(rooms[0], 't', added->timer),
                  [DELIVERY_TEXT_key] = model_text(rooms[1], 'k', added->key),
                  [DELIVERY_TEXT_target] = model_text(rooms[2], 'g', added->target),
                  [DELIVERY_TEXT_origin] = model_text(rooms[3], 'o', added->origin)}};
    testing_log_add(&model->log, tenant_names[index], &entry);
}

static bool model_wants(const struct ring_model_entry *asked, const struct delivery_query *query,
                        const struct ring_model_entry *entry)
{
    return (!asked->timer || asked->timer == entry->timer) &&
           (!asked->key || asked->key == entry->key) &&
           (!asked->target || asked->target == entry->target) &&
           (!asked->origin || asked->origin == entry->origin) &&
           (query->outcomes & 1u << entry->outcome) && entry->status >= query->status_min &&
           entry->status <= query->status_max && entry->ended_us >= query->since;
}

static unsigned model_maybe(struct ring_model *model, unsigned max)
{
    return random_below(&model->random, 3) ? 0 : 1 + (unsigned)random_below(&model->random, max);
}

/* Walks the pages of an answer, and compares them with the array from its newest entry on. Returns
 * the index of the oldest entry that was found. */
static size_t model_compare(struct ring_model *model, size_t index,
                            const struct ring_model_entry *asked, struct delivery_query *query)
{
    const struct ring_model_tenant *tenant = &model->tenants[index];
    size_t at = tenant->count, oldest = tenant->count;

    query->tenant = bytes_of(tenant_names[index]);
    do {
        delivery_ring_search(model->log.ring, query, model_now(model));
        struct bytes rest = buffer_bytes(&query->found);
        for (uint32_t i = 0; i < query->count; i++) {
            struct delivery_entry entry;

            assert_true(delivery_entry_decode(rest, &entry));
            while (at > 0 && !model_wants(asked, query, &tenant->entries[at - 1]))
                at--;
            assert_true(at > 0);
            assert_true(entry.stamp == tenant->entries[--at].stamp);
            oldest = at;
            const size_t size = delivery_entry_size(rest);
            rest = (struct bytes){rest.data + size, rest.size - size};
        }
        query->before = query->next;
        query->count = query->looks = 0;
        buffer_clear(&query->found);
    } while (query->next);
    while (at > tenant->first && !model_wants(asked, query, &tenant->entries[at - 1]))
        at--;
    delivery_query_deinit(query);
    assert_true(at == tenant->first);
    return oldest;
}

/* Reads all entries of a tenant, and forgets those that the ring has dropped. */
static void model_resume(struct ring_model *model, size_t index)
{
    struct ring_model_tenant *tenant = &model->tenants[index];
    struct delivery_query query;

    delivery_query_init(&query);
    query.limit = DELIVERY_QUERY_COUNT_MAX;
    query.tenant = bytes_of(tenant_names[index]);
    delivery_ring_search(model->log.ring, &query, model_now(model));
    struct delivery_entry newest = {.stamp = 0};
    if (query.count)
        assert_true(delivery_entry_decode(buffer_bytes(&query.found), &newest));
    delivery_query_deinit(&query);
    while (tenant->count > tenant->flushed &&
           tenant->entries[tenant->count - 1].stamp > newest.stamp)
        tenant->count--; /* lost by a kill */
    tenant->flushed = tenant->count;
    tenant->last_stamp = newest.stamp;
    const size_t first = tenant->first;
    tenant->first = 0;
    size_t at = tenant->count;
    uint64_t before = UINT64_MAX;
    do { /* every entry, newest first, without a gap */
        delivery_query_init(&query);
        query.tenant = bytes_of(tenant_names[index]);
        query.before = before;
        delivery_ring_search(model->log.ring, &query, model_now(model));
        struct bytes rest = buffer_bytes(&query.found);
        for (uint32_t i = 0; i < query.count; i++) {
            struct delivery_entry entry;

            assert_true(at > 0 && delivery_entry_decode(rest, &entry));
            assert_true(entry.stamp == tenant->entries[--at].stamp);
            rest = (struct bytes){rest.data + delivery_entry_size(rest),
                                  rest.size - delivery_entry_size(rest)};
        }
        before = query.next;
        delivery_query_deinit(&query);
    } while (before);
    assert_true(at >= first);
    tenant->first = at;
}

static void model_ask(struct ring_model *model)
{
    const size_t index = random_below(&model->random, TENANTS);
    struct ring_model_tenant *tenant = &model->tenants[index];
    char rooms[4][TEXT];
    struct delivery_query query;

    const struct ring_model_entry asked = {.timer = model_maybe(model, 500),
                                           .key = model_maybe(model, 49),
                                           .target = model_maybe(model, 20),
                                           .origin = model_maybe(model, 6)};
    delivery_query_init(&query);
    query.timer = model_text(rooms[0], 't', asked.timer);
    query.key = model_text(rooms[1], 'k', asked.key);
    query.target = model_text(rooms[2], 'g', asked.target);
    query.origin = model_text(rooms[3], 'o', asked.origin);
    query.limit = 1 + (uint32_t)random_below(&model->random, DELIVERY_QUERY_COUNT_MAX);
    if (random_below(&model->random, 2))
        query.outcomes = 1 + (unsigned)random_below(&model->random, 7);
    if (random_below(&model->random, 2))
        query.status_min = query.status_max = (uint16_t)(200 + random_below(&model->random, 5));
    if (tenant->count > tenant->first && random_below(&model->random, 2))
        query.since = tenant
                          ->entries[tenant->first +
                                    random_below(&model->random, tenant->count - tenant->first)]
                          .stamp;
    model_compare(model, index, &asked, &query);
}

static void model_flush(struct ring_model *model)
{
    delivery_ring_flush(model->log.ring, model_now(model));
    delivery_ring_check(model->log.ring);
    for (size_t i = 0; i < TENANTS; i++) {
        model->tenants[i].flushed = model->tenants[i].count;
        model_resume(model, i);
    }
}

static void run_round(uint64_t seed)
{
    struct ring_model model = {.random = random_seeded(seed),
                               .clock_us = UINT64_C(1000000000000000)};

    testing_log_init(&model.log, DELIVERY_RING_BYTES_MIN);
    for (size_t i = 0; i < TENANTS; i++) {
        model.tenants[i].entries = calloc(ENTRIES, sizeof(struct ring_model_entry));
        assert_non_null(model.tenants[i].entries);
    }
    for (int step = 0; step < STEPS; step++) {
        const uint64_t kind = random_below(&model.random, 20);

        if (kind < 12)
            for (uint64_t n = random_below(&model.random, 200); n > 0; n--)
                model_add(&model);
        else if (kind < 17)
            model_ask(&model);
        else
            model_flush(&model);
        if (kind != 19)
            continue;
        for (uint64_t n = random_below(&model.random, 2) * 100; n > 0; n--)
            model_add(&model); /* lost by the kill, in whole or in part */
        testing_log_reopen(&model.log);
        for (size_t i = 0; i < TENANTS; i++)
            model_resume(&model, i);
    }
    struct delivery_ring_stats stats;
    delivery_ring_stats(model.log.ring, &stats);
    assert_int_equal(stats.dropped + stats.damaged, 0);
    testing_log_deinit(&model.log);
    for (size_t i = 0; i < TENANTS; i++)
        free(model.tenants[i].entries);
}

static void finds_what_a_scan_finds(void **state)
{
    uint64_t seed = testing_seed();

    (void)state;
    for (int round = 0; round < ROUNDS; round++, seed++) {
        testing_seed_print(seed);
        run_round(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_what_a_scan_finds)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
