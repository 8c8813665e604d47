/* Goal: whatever fails or crashes, the log holds what it acknowledged, in order, and nothing that a
 * later append made sure to be absent. Method: random appends, trims, restarts and readings
 * on a disk in memory that fails, tears and loses power, compared with an array. */
#include "log/files/log_disk_testing.h"
#include "log/files/log_files_private.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>

enum { ROUNDS = 300, STEPS = 150, RECORDS = 4096, AT_ONCE = 4, BODY = 2500, PARTITIONS = 3 };
enum { SEGMENT = 16 * 1024 };

struct log_oracle_record {
    uint64_t offset, seed;
    uint16_t partition;
    size_t size;
};

struct log_oracle {
    struct disk_memory *memory;
    struct random random;
    struct log_files *log;
    struct log_oracle_record records[RECORDS]; /* that were acknowledged */
    size_t count;
    struct log_oracle_record doubt[AT_ONCE]; /* of the append that failed last */
    size_t doubt_count;
    uint64_t trimmed; /* records before it are not needed */
    size_t read;      /* records seen by a reading */
    uint64_t appends, failures, cuts, kills, doubts_kept, torn;
};

static void oracle_body(char *to, const struct log_oracle_record *record)
{
    struct random random = random_seeded(record->seed);

    for (size_t i = 0; i < record->size; i++)
        to[i] = (char)random_next(&random);
}

static struct log_files_options oracle_options(const struct log_oracle *oracle)
{
    return (struct log_files_options){.folder = "memory",
                                      .segment_bytes = SEGMENT,
                                      .segments_kept = oracle->trimmed % 3,
                                      .begin = oracle->trimmed,
                                      .disk = &oracle->memory->disk};
}

static bool oracle_matches(const struct log_oracle_record *expected,
                           const struct log_record *record)
{
    char body[BODY + 1];

    oracle_body(body, expected);
    return record->offset == expected->offset && record->partition == expected->partition &&
           bytes_equal(record->body, (struct bytes){body, expected->size});
}

static enum error_code oracle_visit(void *context, const struct log_record *record,
                                    struct error *ret_error)
{
    struct log_oracle *oracle = context;

    (void)ret_error;
    while (oracle->read < oracle->count && oracle->records[oracle->read].offset < record->offset)
        assert_true(oracle->records[oracle->read++].offset < oracle->trimmed);
    if (oracle->read < oracle->count) {
        assert_true(oracle_matches(&oracle->records[oracle->read++], record));
        return ERROR_NONE;
    }
    /* What was in doubt is there as a whole; it counts as acknowledged from now on. */
    assert_true(oracle->doubt_count > 0);
    assert_true(oracle_matches(&oracle->doubt[0], record));
    oracle->records[oracle->count++] = oracle->doubt[0];
    oracle->read++;
    memmove(oracle->doubt, oracle->doubt + 1, --oracle->doubt_count * sizeof(oracle->doubt[0]));
    oracle->doubts_kept++;
    return ERROR_NONE;
}

static void oracle_read_all(struct log_oracle *oracle)
{
    size_t doubts = oracle->doubt_count;
    uint64_t from = log_files_first(oracle->log);
    struct error error = {0};

    assert_true(from <= oracle->trimmed);
    oracle->read = 0;
    if (log_files_read(oracle->log, from, oracle_visit, oracle, &error))
        fail_msg("%s", error.text);
    while (oracle->read < oracle->count && oracle->records[oracle->read].offset < oracle->trimmed)
        oracle->read++;
    assert_int_equal(oracle->read, oracle->count);
    assert_true(oracle->doubt_count == 0 || oracle->doubt_count == doubts);
}

static void oracle_open(struct log_oracle *oracle)
{
    struct log_files_options options = oracle_options(oracle);
    struct error error = {0};
    struct log_files_stats stats;

    if (log_files_open(&options, &oracle->log, &error))
        fail_msg("%s", error.text);
    log_files_check(oracle->log);
    log_files_get_stats(oracle->log, &stats);
    oracle->torn += stats.torn;
    oracle_read_all(oracle);
    /* Not there after a restart: never again. */
    oracle->doubt_count = 0;
}

static uint64_t oracle_segment(const struct log_oracle *oracle)
{
    const struct log_part *last = log_files_last(oracle->log);

    return last ? last->number : 0;
}

static void oracle_append(struct log_oracle *oracle)
{
    struct log_record records[AT_ONCE];
    struct log_oracle_record made[AT_ONCE];
    size_t count = 1 + random_below(&oracle->random, AT_ONCE);
    bool is_small = random_below(&oracle->random, 2);
    static char bodies[AT_ONCE][BODY + 1];

    if (oracle->count + 2 * AT_ONCE > RECORDS)
        return;
    for (size_t i = 0; i < count; i++) {
        made[i] = (struct log_oracle_record){
            .seed = random_next(&oracle->random),
            .partition = (uint16_t)random_below(&oracle->random, PARTITIONS),
            .size = 1 + random_below(&oracle->random, is_small ? 60 : BODY),
        };
        oracle_body(bodies[i], &made[i]);
        records[i] =
            (struct log_record){.partition = made[i].partition, .body = {bodies[i], made[i].size}};
    }
    uint64_t next = log_files_end(oracle->log), segment = oracle_segment(oracle);
    enum error_code code = log_files_append(oracle->log, records, count, NULL);
    struct log_files_stats stats;
    log_files_get_stats(oracle->log, &stats);
    for (size_t i = 0; i < count; i++)
        made[i].offset = next + i;
    oracle->appends++;
    if (code == ERROR_NONE || oracle_segment(oracle) != segment)
        oracle->doubt_count = 0; /* certain to be absent */
    if (code == ERROR_NONE) {
        for (size_t i = 0; i < count; i++)
            assert_true(records[i].offset == made[i].offset);
        memcpy(oracle->records + oracle->count, made, count * sizeof(made[0]));
        oracle->count += count;
        assert_false(stats.is_in_doubt);
        return;
    }
    oracle->failures++;
    assert_true(log_files_end(oracle->log) == next);
    assert_true(stats.is_in_doubt || oracle->doubt_count == 0);
    if (stats.is_in_doubt && oracle->doubt_count == 0) {
        assert_int_equal(code, ERROR_IO);
        memcpy(oracle->doubt, made, count * sizeof(made[0]));
        oracle->doubt_count = count;
    }
}

static void oracle_crash(struct log_oracle *oracle, bool is_cut)
{
    struct disk_memory *memory = oracle->memory;

    memory->has_ended = true;
    log_files_close(oracle->log);
    memory->has_ended = false;
    memory->fail_at = 0;
    if (is_cut)
        disk_memory_cut(memory);
    oracle->cuts += is_cut;
    oracle->kills += !is_cut;
    assert_int_equal(memory->open_count, 0);
    memory->room = UINT64_MAX;
    oracle_open(oracle);
}

static void oracle_step(struct log_oracle *oracle)
{
    static const int errors[] = {EIO, ENOSPC, EDQUOT, ENOMEM};
    struct random *random = &oracle->random;
    struct disk_memory *memory = oracle->memory;

    switch (1 + random_below(random, 15)) {
    case 1:
        if (oracle->count) {
            uint64_t at = oracle->records[random_below(random, oracle->count)].offset;

            if (at > oracle->trimmed)
                oracle->trimmed = at;
        }
        log_files_trim(oracle->log, oracle->trimmed, NULL);
        break;
    case 2:
        oracle_crash(oracle, true);
        break;
    case 3:
        oracle_crash(oracle, false);
        break;
    case 4:
        memory->fail_at = 0;
        memory->room = UINT64_MAX;
        log_files_close(oracle->log);
        oracle_open(oracle);
        break;
    case 5:
        disk_memory_fail(memory, 1 + random_below(random, 6), 1 + random_below(random, 8),
                         errors[random_below(random, 4)]);
        break;
    case 6:
        memory->room = random_below(random, 2) ? random_below(random, 2 * SEGMENT) : UINT64_MAX;
        break;
    case 7: {
        struct log_files_stats stats;

        if (log_files_repair(oracle->log, NULL) == ERROR_NONE) {
            log_files_get_stats(oracle->log, &stats);
            assert_false(stats.is_in_doubt);
            oracle->doubt_count = 0;
        }
        break;
    }
    default:
        oracle_append(oracle);
    }
    log_files_check(oracle->log);
}

static void test_log_model(void **state)
{
    const uint64_t seed = testing_seed();

    (void)state;
    struct log_oracle *oracle = malloc(sizeof(*oracle));
    uint64_t totals[6] = {0};
    assert_non_null(oracle);
    for (int round = 0; round < ROUNDS; round++) {
        memset(oracle, 0, sizeof(*oracle));
        oracle->memory = disk_memory_create(seed + (uint64_t)round);
        oracle->random = random_seeded(~(seed + (uint64_t)round));
        oracle->trimmed = 1;
        oracle_open(oracle);
        for (int step = 0; step < STEPS; step++)
            oracle_step(oracle);
        oracle->memory->fail_at = 0;
        oracle->memory->room = UINT64_MAX;
        oracle_crash(oracle, true);
        log_files_close(oracle->log);
        assert_int_equal(oracle->memory->open_count, 0);
        free(oracle->memory);
        totals[0] += oracle->appends, totals[1] += oracle->failures, totals[2] += oracle->cuts;
        totals[3] += oracle->kills, totals[4] += oracle->doubts_kept, totals[5] += oracle->torn;
    }
    free(oracle);
    printf("appends %" PRIu64 ", of which %" PRIu64 " failed; power cuts %" PRIu64
           ", kills %" PRIu64 "; records in doubt that were kept %" PRIu64 ", torn ends %" PRIu64
           "\n",
           totals[0], totals[1], totals[2], totals[3], totals[4], totals[5]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_log_model)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
