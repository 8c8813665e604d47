/* Goal: whatever fails or crashes, each partition reads exactly the records that landed, in order,
 * and the host is told of every event. Method: random appends, flushes, trims, followers and
 * restarts on a disk in memory that fails and loses power, compared with an array. */
#include "log/files/log_local_testing.h"
#include "sys/entropy.h"

#include <inttypes.h>

enum { ROUNDS = 200, STEPS = 200, RECORDS = 2048, BODY = 700 };

struct local_model_record {
    uint64_t offset, seed; /* offset 0 while it is in doubt */
    uint16_t partition;
    size_t size;
};

struct local_model_part {
    bool is_in_flight;
    struct local_model_record append;
    bool has_doubt; /* `doubt` failed, and neither LOG_END nor a restart has ended that */
    struct local_model_record doubt;
    bool is_following, has_ended;
    uint64_t next;   /* offset from which it reads */
    uint64_t needed; /* records before it were trimmed */
    unsigned told;   /* told count at the last LOG_NOTHING */
    bool is_quiet;   /* nothing was there, and nothing was asked since */
};

struct local_model {
    struct locals locals;
    struct random random;
    struct local_model_record records[RECORDS]; /* that landed */
    size_t count;
    struct local_model_part parts[LOCALS_PARTITIONS];
    uint64_t ticket;
    uint64_t landed, refused, failed, read, crashes, doubts_kept;
};

static struct bytes local_model_body(const struct local_model_record *record, char to[BODY])
{
    struct random random = random_seeded(record->seed);

    for (size_t i = 0; i < record->size; i++)
        to[i] = (char)random_next(&random);
    return (struct bytes){to, record->size};
}

static bool local_model_is(const struct local_model_record *record, struct bytes bytes)
{
    char body[BODY];

    return bytes_equal(local_model_body(record, body), bytes);
}

static uint64_t local_model_end(const struct local_model *model)
{
    return model->count ? model->records[model->count - 1].offset + 1 : 1;
}

/* Returns the first record of the partition from `offset` on; NULL if there is none. */
static struct local_model_record *local_model_find(struct local_model *model, uint16_t partition,
                                                   uint64_t offset)
{
    for (size_t i = 0; i < model->count; i++)
        if (model->records[i].partition == partition && model->records[i].offset >= offset)
            return &model->records[i];
    return NULL;
}

static void local_model_add(struct local_model *model, const struct local_model_record *record)
{
    size_t at = model->count++;

    assert_true(model->count <= RECORDS);
    for (; at > 0 && model->records[at - 1].offset > record->offset; at--)
        model->records[at] = model->records[at - 1];
    assert_true(at == 0 || model->records[at - 1].offset < record->offset);
    model->records[at] = *record;
}

/* ---- events ---- */

static void local_model_read(struct local_model *model, uint16_t partition,
                             const struct log_event *event)
{
    struct local_model_part *part = &model->parts[partition];
    struct local_model_record *expected = local_model_find(model, partition, part->next);

    assert_true(part->is_following && !part->has_ended);
    model->read++;
    if (!expected || expected->offset != event->offset) {
        /* What was in doubt before a crash is there. */
        assert_true(part->has_doubt && local_model_is(&part->doubt, event->bytes));
        part->doubt.offset = event->offset;
        part->has_doubt = false;
        local_model_add(model, &part->doubt);
        model->doubts_kept++;
    } else {
        assert_true(local_model_is(expected, event->bytes));
    }
    part->next = event->offset + 1;
}

static void local_model_note_end(struct local_model *model, uint16_t partition,
                                 const struct log_event *event)
{
    struct local_model_part *part = &model->parts[partition];
    struct log_local_stats stats;

    log_local_get_stats(model->locals.local, &stats);
    assert_true(part->is_following && !stats.is_in_doubt);
    assert_int_equal(event->offset, stats.end);
    assert_true(part->has_ended || !local_model_find(model, partition, part->next));
    part->has_ended = true;
    part->has_doubt = false;
    part->next = event->offset;
}

static void local_model_note_result(struct local_model *model, uint16_t partition,
                                    const struct log_event *event)
{
    struct local_model_part *part = &model->parts[partition];

    assert_true(part->is_in_flight && event->ticket == model->ticket);
    part->is_in_flight = false;
    if (event->kind == LOG_LANDED) {
        part->append.offset = event->offset;
        local_model_add(model, &part->append);
        model->landed++;
    } else if (event->kind == LOG_FAILED) {
        part->has_doubt = true;
        part->doubt = part->append;
        model->failed++;
    } else {
        model->refused++;
    }
}

/* Takes all events of a partition. */
static void local_model_take(struct local_model *model, uint16_t partition)
{
    struct local_model_part *part = &model->parts[partition];
    struct log_event event;

    while (locals_next(&model->locals, partition, &event) != LOG_NOTHING) {
        assert_true(!part->is_quiet || model->locals.told[partition] != part->told);
        part->is_quiet = false;
        switch (event.kind) {
        case LOG_RECORD:
            local_model_read(model, partition, &event);
            break;
        case LOG_END:
            local_model_note_end(model, partition, &event);
            break;
        case LOG_LANDED:
        case LOG_FAILED:
        case LOG_REFUSED:
            local_model_note_result(model, partition, &event);
            break;
        case LOG_TRIMMED:
        case LOG_TRIM_FAILED:
            break;
        default:
            fail_msg("event %d: %s", event.kind, event.reason);
        }
    }
    part->is_quiet = true;
    part->told = model->locals.told[partition];
}

static bool local_model_has_news(const struct local_model *model)
{
    for (uint16_t i = 0; i < LOCALS_PARTITIONS; i++)
        if (!model->parts[i].is_quiet || model->locals.told[i] != model->parts[i].told)
            return true;
    return false;
}

static void local_model_take_all(struct local_model *model)
{
    while (local_model_has_news(model))
        for (uint16_t i = 0; i < LOCALS_PARTITIONS; i++)
            local_model_take(model, i);
}

/* ---- verbs ---- */

static void local_model_append(struct local_model *model, uint16_t partition)
{
    struct local_model_part *part = &model->parts[partition];
    char body[BODY];
    const struct local_model_record record = {
        .seed = random_next(&model->random),
        .partition = partition,
        .size = 1 + random_below(&model->random, BODY),
    };
    const enum error_code code = log_append(locals_log(&model->locals, partition), model->ticket,
                                            local_model_body(&record, body), NULL);

    assert_int_equal(code, part->is_in_flight ? ERROR_OVERLOADED : ERROR_NONE);
    if (code)
        return;
    part->append = record;
    part->is_in_flight = true;
}

static void local_model_flush(struct local_model *model)
{
    assert_true(log_local_flush(model->locals.local));
    local_model_take_all(model);
    for (uint16_t i = 0; i < LOCALS_PARTITIONS; i++)
        assert_false(model->parts[i].is_in_flight);
    log_files_check(model->locals.local->home.files);
    model->ticket++;
}

static void local_model_follow(struct local_model *model, uint16_t partition)
{
    struct local_model_part *part = &model->parts[partition];
    const uint64_t end = local_model_end(model), least = part->needed ? part->needed : 1;

    part->next = least + random_below(&model->random, end - least + 1);
    part->is_following = true;
    part->has_ended = part->is_quiet = false;
    assert_int_equal(log_follow(locals_log(&model->locals, partition), part->next, NULL),
                     ERROR_NONE);
}

static void local_model_trim(struct local_model *model, uint16_t partition)
{
    struct local_model_part *part = &model->parts[partition];
    const uint64_t end = local_model_end(model);
    uint64_t before = part->needed ? part->needed : 1;

    before += random_below(&model->random, end - before + 1);
    if (part->is_following && !part->has_ended && before > part->next)
        before = part->next;
    if (log_trim(locals_log(&model->locals, partition), before, NULL) == ERROR_NONE &&
        before > part->needed)
        part->needed = before;
    if (random_below(&model->random, 2))
        log_local_trim(model->locals.local);
}

/* Reads everything after a restart: what was in doubt is there, or never will be. */
static void local_model_check_all(struct local_model *model)
{
    for (uint16_t i = 0; i < LOCALS_PARTITIONS; i++) {
        struct local_model_part *part = &model->parts[i];

        part->is_in_flight = part->is_quiet = part->has_ended = false;
        part->is_following = true;
        part->next = part->needed ? part->needed : 1;
        assert_int_equal(log_follow(locals_log(&model->locals, i), part->next, NULL), ERROR_NONE);
    }
    local_model_take_all(model);
    for (uint16_t i = 0; i < LOCALS_PARTITIONS; i++)
        assert_true(model->parts[i].has_ended && !model->parts[i].has_doubt);
}

static void local_model_restart(struct local_model *model, unsigned how)
{
    struct locals *locals = &model->locals;

    model->crashes += how > 0;
    locals->options.begin = UINT64_MAX;
    for (uint16_t i = 0; i < LOCALS_PARTITIONS; i++)
        if (model->parts[i].needed < locals->options.begin)
            locals->options.begin = model->parts[i].needed;
    locals->options.reached = local_model_end(model);
    if (how == 0) {
        locals->memory->fail_at = 0;
        locals->memory->room = UINT64_MAX;
        locals_reopen(locals);
    } else {
        locals_crash(locals, how == 1);
    }
    local_model_check_all(model);
}

static void local_model_disturb(struct local_model *model)
{
    static const int errors[] = {EIO, ENOSPC, EDQUOT, ENOMEM};
    struct random *random = &model->random;
    struct locals *locals = &model->locals;

    if (random_below(random, 2))
        disk_memory_fail(locals->memory, 1 + random_below(random, 6), 1 + random_below(random, 8),
                         errors[random_below(random, 4)]);
    else
        locals->memory->room =
            random_below(random, 2) ? random_below(random, 2 * LOCALS_SEGMENT) : UINT64_MAX;
    locals->held_back = random_below(random, 2) ? LOCALS_SEGMENT : 0;
}

static void local_model_step(struct local_model *model)
{
    struct random *random = &model->random;
    const uint16_t partition = (uint16_t)random_below(random, LOCALS_PARTITIONS);

    switch (random_below(random, 20)) {
    case 0:
        if (random_below(random, 4) == 0)
            local_model_restart(model, (unsigned)random_below(random, 3));
        break;
    case 1:
        local_model_disturb(model);
        break;
    case 2:
    case 3:
        local_model_trim(model, partition);
        break;
    case 4:
        local_model_follow(model, partition);
        break;
    case 5:
        log_local_note_end(model->locals.local);
        break;
    case 6:
    case 7:
    case 8:
    case 9:
        local_model_flush(model);
        break;
    case 10:
    case 11:
        local_model_take(model, partition);
        break;
    default:
        local_model_append(model, partition);
    }
}

static void local_model_run(struct local_model *model, uint64_t seed)
{
    memset(model, 0, sizeof(*model));
    locals_init(&model->locals, seed);
    model->random = random_seeded(~seed);
    for (int step = 0; step < STEPS; step++)
        local_model_step(model);
    local_model_restart(model, 1);
    locals_deinit(&model->locals);
}

static void test_log_local_model(void **state)
{
    const char *text = getenv("TEST_SEED");
    struct local_model *model = malloc(sizeof(*model));
    uint64_t seed = 0, totals[6] = {0};

    (void)state;
    assert_non_null(model);
    if (text)
        seed = strtoull(text, NULL, 10);
    else
        assert_int_equal(entropy_u64(&seed), ERROR_NONE);
    printf("TEST_SEED=%" PRIu64 "\n", seed);
    fflush(stdout);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        local_model_run(model, seed + round);
        totals[0] += model->landed, totals[1] += model->refused, totals[2] += model->failed;
        totals[3] += model->read, totals[4] += model->crashes, totals[5] += model->doubts_kept;
    }
    free(model);
    printf("landed %" PRIu64 ", refused %" PRIu64 ", in doubt %" PRIu64 "; read %" PRIu64
           "; crashes %" PRIu64 ", after which %" PRIu64 " in doubt were there\n",
           totals[0], totals[1], totals[2], totals[3], totals[4], totals[5]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_log_local_model)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
