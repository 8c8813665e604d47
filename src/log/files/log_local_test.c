/* Goal: the partitions of a data folder append together and read back exactly what landed; whatever
 * fails, each append has one result, and it is true. Method: a disk in memory that counts its
 * calls, fails, fills up and is damaged; at the end threads on a real folder. */
#include "log/files/log_local_testing.h"
#include "sys/clock.h"

#include <inttypes.h>

static int locals_set_up(void **state)
{
    struct locals *locals = malloc(sizeof(*locals));

    assert_non_null(locals);
    locals_init(locals, 1);
    *state = locals;
    return 0;
}

static int locals_tear_down(void **state)
{
    locals_deinit(*state);
    free(*state);
    return 0;
}

static void locals_append(struct locals *locals, uint16_t partition, uint64_t ticket,
                          const char *text)
{
    struct error error = {.text = ""};

    if (log_append(locals_log(locals, partition), ticket, bytes_of(text), &error))
        fail_msg("%s", error.text);
}

static void assert_landed(struct locals *locals, uint16_t partition, uint64_t ticket,
                          uint64_t offset)
{
    struct log_event event;

    assert_int_equal(locals_next(locals, partition, &event), LOG_LANDED);
    assert_int_equal(event.ticket, ticket);
    assert_int_equal(event.offset, offset);
}

static void locals_put(struct locals *locals, uint16_t partition, const char *text)
{
    struct log_event event;

    locals_append(locals, partition, 1, text);
    assert_true(log_local_flush(locals->local));
    assert_int_equal(locals_next(locals, partition, &event), LOG_LANDED);
}

/* Appends a record that fills a quarter of a segment. */
static void locals_put_large(struct locals *locals, uint16_t partition)
{
    static char text[LOCALS_SEGMENT / 4 - 100];

    memset(text, 'x', sizeof(text) - 1);
    locals_put(locals, partition, text);
}

static void locals_follow(struct locals *locals, uint16_t partition, uint64_t offset)
{
    assert_int_equal(log_follow(locals_log(locals, partition), offset, NULL), ERROR_NONE);
}

static void assert_local_record(struct locals *locals, uint16_t partition, uint64_t offset,
                                const char *text)
{
    struct log_event event;

    assert_int_equal(locals_next(locals, partition, &event), LOG_RECORD);
    assert_int_equal(event.offset, offset);
    assert_true(bytes_equal(event.bytes, bytes_of(text)));
}

static void assert_end(struct locals *locals, uint16_t partition, uint64_t offset)
{
    struct log_event event;

    assert_int_equal(locals_next(locals, partition, &event), LOG_END);
    assert_int_equal(event.offset, offset);
}

static void assert_nothing(struct locals *locals, uint16_t partition)
{
    struct log_event event;

    assert_int_equal(locals_next(locals, partition, &event), LOG_NOTHING);
}

static void assert_not_landed(struct locals *locals, uint16_t partition, enum log_kind kind,
                              enum error_code code)
{
    struct log_event event;

    assert_int_equal(locals_next(locals, partition, &event), kind);
    assert_int_equal(event.code, code);
    assert_true(event.reason && event.reason[0]);
}

static void assert_pending(struct locals *locals, uint64_t count, uint64_t bytes)
{
    uint64_t found_count, found_bytes;

    log_local_pending(locals->local, &found_count, &found_bytes);
    assert_int_equal(found_count, count);
    assert_int_equal(found_bytes, bytes);
}

/* ---- appends ---- */

static void test_partitions_share_a_write_and_a_sync(void **state)
{
    struct locals *locals = *state;

    locals_put(locals, 0, "first");
    locals->told[0] = 0;
    locals_append(locals, 5, 50, "five");
    locals_append(locals, 2, 20, "two");
    locals_append(locals, 7, 70, "seven");
    assert_pending(locals, 3, 12);
    const uint64_t calls = locals->memory->calls;
    assert_true(log_local_flush(locals->local));
    assert_int_equal(locals->memory->calls - calls, 2);
    assert_pending(locals, 0, 0);
    assert_true(locals->told[5] == 1 && locals->told[2] == 1 && locals->told[7] == 1);
    assert_int_equal(locals->told[0], 0);
    assert_landed(locals, 2, 20, 3);
    assert_landed(locals, 5, 50, 2);
    assert_landed(locals, 7, 70, 4);
    assert_nothing(locals, 5);
}

static void test_one_append_at_a_time(void **state)
{
    struct locals *locals = *state;
    struct log *log = locals_log(locals, 1);

    assert_int_equal(log_append(log, 1, BYTES(""), NULL), ERROR_INVALID);
    locals_append(locals, 1, 1, "one");
    assert_int_equal(log_append(log, 2, BYTES("two"), NULL), ERROR_OVERLOADED);
    log_local_flush(locals->local);
    assert_int_equal(log_append(log, 2, BYTES("two"), NULL), ERROR_OVERLOADED);
    assert_landed(locals, 1, 1, 1);
    locals_append(locals, 1, 2, "two");
    log_local_flush(locals->local);
    assert_landed(locals, 1, 2, 2);
}

static void test_closing_drops_an_append(void **state)
{
    struct locals *locals = *state;

    locals_append(locals, 1, 1, "dropped");
    locals_append(locals, 2, 2, "kept");
    log_close(locals_log(locals, 1));
    assert_pending(locals, 1, 4);
    log_local_flush(locals->local);
    assert_landed(locals, 2, 2, 1);
    assert_nothing(locals, 1);
    locals_put(locals, 1, "again");
}

/* The tests' disk calls this before it syncs. */
static struct locals *syncing_locals(struct locals *set)
{
    static struct locals *locals;

    if (set)
        locals = set;
    return locals;
}

static int sync_hook(const struct disk_calls *disk, int file)
{
    struct locals *locals = syncing_locals(NULL);

    locals->memory->disk.sync = disk_memory_sync;
    assert_false(log_local_flush(locals->local));
    locals_append(locals, 2, 2, "later");
    assert_int_equal(log_append(locals_log(locals, 1), 3, BYTES("more"), NULL), ERROR_OVERLOADED);
    log_close(locals_log(locals, 3));
    return disk_memory_sync(disk, file);
}

static void test_appends_gather_during_a_write(void **state)
{
    struct locals *locals = *state;

    locals_put(locals, 0, "first");
    locals_append(locals, 1, 1, "now");
    locals_append(locals, 3, 3, "unreported");
    syncing_locals(locals);
    locals->memory->disk.sync = sync_hook;
    assert_true(log_local_flush(locals->local));
    assert_landed(locals, 1, 1, 2);
    assert_nothing(locals, 2);
    assert_nothing(locals, 3);
    assert_pending(locals, 1, 5);
    assert_true(log_local_flush(locals->local));
    assert_landed(locals, 2, 2, 4);
}

static void test_a_wake_ends_a_wait(void **state)
{
    struct locals *locals = *state;
    struct log *log = locals_log(locals, 1);
    struct log_event event;

    log_wake(log);
    assert_int_equal(log_wait(log, UINT64_MAX / 2, &event), LOG_NOTHING);
    assert_int_equal(log_wait(log, 1, &event), LOG_NOTHING);
    log_wake(log);
    assert_int_equal(log_wait(log, 0, &event), LOG_NOTHING);
    assert_int_equal(log_wait(log, 1, &event), LOG_NOTHING);
}

/* ---- failures ---- */

static void test_a_full_disk_refuses(void **state)
{
    struct locals *locals = *state;
    char text[100];

    for (int i = 0; i < 4; i++)
        locals_put_large(locals, 0);
    locals->memory->room = 0;
    locals->held_back = LOCALS_SEGMENT + 100;
    locals_put_large(locals, 0); /* frees the space that is held back */
    assert_int_equal(locals->relieved, 1);
    for (int i = 0; i < 2; i++)
        locals_put_large(locals, 0);
    locals->memory->room = 0;
    static char large[LOCALS_SEGMENT / 2];
    memset(large, 'y', sizeof(large) - 1);
    locals_append(locals, 1, 10, large);
    locals_append(locals, 2, 20, "with it");
    assert_true(log_local_flush(locals->local));
    assert_int_equal(log_get_trouble(locals_log(locals, 3), text, sizeof(text)), LOG_FINE);
    assert_int_equal(log_get_trouble(locals_log(locals, 1), text, sizeof(text)), LOG_SLOW);
    assert_true(text[0]);
    assert_not_landed(locals, 1, LOG_REFUSED, ERROR_DISK_FULL);
    assert_not_landed(locals, 2, LOG_REFUSED, ERROR_DISK_FULL);
    locals_put(locals, 2, "small");
    locals->memory->room = UINT64_MAX;
    locals_put(locals, 1, "at last");
    assert_int_equal(log_get_trouble(locals_log(locals, 1), text, sizeof(text)), LOG_FINE);
    locals_reopen(locals);
    locals_follow(locals, 1, 1);
    locals_follow(locals, 2, 1);
    assert_nothing(locals, 1); /* the other one has not read */
    assert_nothing(locals, 1);
    assert_local_record(locals, 2, 8, "small");
    assert_end(locals, 2, 10);
    assert_local_record(locals, 1, 9, "at last");
    assert_end(locals, 1, 10);
}

static void test_an_append_in_doubt_is_removed(void **state)
{
    struct locals *locals = *state;

    locals_follow(locals, 1, 1);
    assert_end(locals, 1, 1);
    locals_put(locals, 1, "landed");
    disk_memory_fail(locals->memory, 2, 1, EIO); /* the sync */
    locals_append(locals, 1, 5, "in doubt");
    log_local_flush(locals->local);
    struct log_local_stats stats;
    log_local_get_stats(locals->local, &stats);
    assert_true(stats.is_in_doubt);
    assert_not_landed(locals, 1, LOG_FAILED, ERROR_IO);
    log_local_note_end(locals->local);
    assert_nothing(locals, 1); /* no end while in doubt */
    disk_memory_fail(locals->memory, 1, 1, EIO);
    locals_append(locals, 2, 6, "refused: the repair fails");
    log_local_flush(locals->local);
    assert_not_landed(locals, 2, LOG_REFUSED, ERROR_IO);
    assert_nothing(locals, 1);
    const unsigned told = locals->told[1];
    locals_put(locals, 2, "next");
    assert_true(locals->told[1] > told);
    assert_end(locals, 1, 3);
    assert_nothing(locals, 1);
    locals_crash(locals, false);
    locals_follow(locals, 1, 1);
    assert_local_record(locals, 1, 1, "landed");
    assert_end(locals, 1, 3);
}

static void test_a_repair_ends_a_doubt(void **state)
{
    struct locals *locals = *state;

    locals_put(locals, 1, "landed");
    locals_follow(locals, 1, 2);
    disk_memory_fail(locals->memory, 1, 1, EIO);
    locals_append(locals, 1, 5, "in doubt");
    log_local_flush(locals->local);
    assert_not_landed(locals, 1, LOG_FAILED, ERROR_IO);
    assert_nothing(locals, 1);
    assert_true(log_local_flush(locals->local)); /* nothing waits: it repairs */
    assert_end(locals, 1, 2);
}

/* ---- reading ---- */

static void test_a_restart_reads_what_landed(void **state)
{
    struct locals *locals = *state;

    locals_put(locals, 1, "a");
    locals_put(locals, 2, "b");
    locals_put(locals, 1, "c");
    locals_crash(locals, true);
    for (uint16_t i = 0; i < LOCALS_PARTITIONS; i++)
        locals_follow(locals, i, i == 2 ? 0 : 1); /* no offset: the first */
    assert_local_record(locals, 1, 1, "a");
    assert_local_record(locals, 1, 3, "c");
    assert_local_record(locals, 2, 2, "b");
    for (uint16_t i = 0; i < LOCALS_PARTITIONS; i++)
        assert_end(locals, i, 4);
    locals_put(locals, 1, "d"); /* is not read back */
    assert_nothing(locals, 1);
    log_local_note_end(locals->local);
    locals_append(locals, 2, 1, "e");
    assert_end(locals, 1, 5);
    assert_nothing(locals, 1);
    assert_nothing(locals, 2); /* its append is in flight */
    log_local_flush(locals->local);
    assert_landed(locals, 2, 1, 5);
    assert_end(locals, 2, 6);
    log_close(locals_log(locals, 2));
    assert_int_equal(log_follow_begin(locals_log(locals, 2), NULL), ERROR_NONE);
    assert_local_record(locals, 2, 2, "b");
    assert_local_record(locals, 2, 5, "e");
    assert_end(locals, 2, 6);
    assert_int_equal(log_follow_end(locals_log(locals, 2), 1, NULL), ERROR_INVALID);
}

static unsigned *segment_reads(void)
{
    static unsigned count;

    return &count;
}

static int counting_read(const struct disk_calls *disk, int file, uint64_t at, void *to,
                         size_t size, size_t *ret_size)
{
    ++*segment_reads();
    return disk_memory_read(disk, file, at, to, size, ret_size);
}

/* Reads until there is nothing. Returns the number of records; `*ret_is_ended` says if the end
 * came. */
static unsigned locals_drain(struct locals *locals, uint16_t partition, bool *ret_is_ended)
{
    struct log_event event;
    unsigned count = 0;

    while (locals_next(locals, partition, &event) == LOG_RECORD)
        count++;
    *ret_is_ended = event.kind == LOG_END;
    return count;
}

static void locals_fill(struct locals *locals, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        locals_put_large(locals, 0);
        locals_put_large(locals, 1);
    }
    *segment_reads() = 0;
    locals->memory->disk.read = counting_read;
}

static void test_followers_share_one_pass(void **state)
{
    struct locals *locals = *state;
    unsigned records[2] = {0}, turns = 0;
    bool is_ended[2] = {false};

    locals_fill(locals, 20); /* 40 records in 10 segments */
    locals_follow(locals, 0, 1);
    locals_follow(locals, 1, 1);
    while (!is_ended[0] || !is_ended[1]) {
        for (uint16_t i = 0; i < 2; i++)
            if (!is_ended[i])
                records[i] += locals_drain(locals, i, &is_ended[i]);
        assert_true(locals->local->window.bytes.size <= LOCALS_SEGMENT);
        assert_true(turns++ < 100);
    }
    assert_int_equal(records[0], 20);
    assert_int_equal(records[1], 20);
    assert_int_equal(*segment_reads(), 10);
    assert_null(locals->local->window.bytes.data);
}

static void test_a_later_follower_begins_again(void **state)
{
    struct locals *locals = *state;
    bool is_ended = false, is_other_ended = false;

    locals_fill(locals, 20);
    locals_follow(locals, 0, 21);
    assert_int_equal(log_local_partition(locals->local, 0)->is_private, true);
    struct log_event event;
    assert_int_equal(locals_next(locals, 0, &event), LOG_RECORD);
    assert_int_equal(event.offset, 21);
    locals_follow(locals, 1, 1);
    unsigned records = 1, others = 0;
    for (int turn = 0; turn < 100 && !(is_ended && is_other_ended); turn++) {
        if (!is_ended)
            records += locals_drain(locals, 0, &is_ended);
        if (!is_other_ended)
            others += locals_drain(locals, 1, &is_other_ended);
    }
    assert_true(is_ended && is_other_ended);
    assert_int_equal(records, 10);
    assert_int_equal(others, 20);
    assert_int_equal(*segment_reads(), 11);
}

static void test_a_follower_that_does_not_read_is_left(void **state)
{
    struct locals *locals = *state;
    bool is_ended = false;
    unsigned records = 0;

    locals_fill(locals, 20);
    locals_follow(locals, 0, 1);
    locals_follow(locals, 1, 1);
    for (int turn = 0; turn < 100 && !is_ended; turn++) {
        records += locals_drain(locals, 0, &is_ended);
        if (turn == 0)
            assert_true(!is_ended && locals->local->window.end == 5);
        if (locals->local->exhausted_at.ns)
            locals->local->exhausted_at.ns = 1; /* long ago */
    }
    assert_true(is_ended);
    assert_int_equal(records, 20);
    assert_int_equal(locals_drain(locals, 1, &is_ended), 20);
    assert_true(is_ended);
}

static void test_a_follower_that_is_closed_holds_nobody_back(void **state)
{
    struct locals *locals = *state;
    bool is_ended = false;

    locals_fill(locals, 20);
    locals_follow(locals, 0, 1);
    locals_follow(locals, 1, 1);
    assert_int_equal(locals_drain(locals, 0, &is_ended), 2);
    locals->told[0] = 0;
    log_close(locals_log(locals, 1));
    assert_int_equal(locals->told[0], 1);
    assert_int_equal(locals_drain(locals, 0, &is_ended), 18);
    assert_true(is_ended);
}

static void test_trims_wait_for_all(void **state)
{
    struct locals *locals = *state;
    struct log_event event;

    assert_int_equal(log_local_trims_due(locals->local), 0);
    locals_fill(locals, 40); /* 80 records in 20 segments */
    assert_in_range(log_local_trims_due(locals->local), 10, 20);
    for (uint16_t i = 0; i < LOCALS_PARTITIONS - 1; i++)
        assert_int_equal(log_trim(locals_log(locals, i), 81, NULL), ERROR_NONE);
    assert_int_equal(log_trim(locals_log(locals, 0), 81, NULL), ERROR_OVERLOADED);
    assert_nothing(locals, 0);
    log_local_trim(locals->local);
    assert_int_equal(locals_next(locals, 0, &event), LOG_TRIMMED);
    assert_int_equal(event.offset, 1); /* the last partition still needs all records */
    assert_int_equal(log_trim(locals_log(locals, LOCALS_PARTITIONS - 1), 61, NULL), ERROR_NONE);
    log_local_trim(locals->local);
    assert_int_equal(locals_next(locals, LOCALS_PARTITIONS - 1, &event), LOG_TRIMMED);
    assert_in_range(event.offset, 2, 61);
    struct log_local_stats stats;
    log_local_get_stats(locals->local, &stats);
    assert_int_equal(stats.first, event.offset);
    locals_follow(locals, 0, 1);
    assert_int_equal(locals_next(locals, 0, &event), LOG_LOST);
    assert_int_equal(event.code, ERROR_CORRUPT);
    assert_nothing(locals, 0);
    locals_follow(locals, 0, 82);
    assert_int_equal(locals_next(locals, 0, &event), LOG_LOST);
    locals_follow(locals, 0, 79);
    assert_int_equal(locals_next(locals, 0, &event), LOG_RECORD);
    disk_memory_fail(locals->memory, 1, 100, EIO);
    for (uint16_t i = 0; i < LOCALS_PARTITIONS; i++)
        log_trim(locals_log(locals, i), 81, NULL);
    log_local_trim(locals->local);
    assert_int_equal(locals_next(locals, LOCALS_PARTITIONS - 1, &event), LOG_TRIM_FAILED);
    assert_true(event.reason[0]);
}

static void locals_damage(struct locals *locals)
{
    locals_fill(locals, 20);
    char *byte = disk_memory_byte(locals->memory, "000000000005.segment", 3000);
    assert_non_null(byte);
    *byte = (char)(*byte ^ 1);
    locals_follow(locals, 0, 1);
    locals_follow(locals, 1, 1);
}

static void test_damage_is_reported(void **state)
{
    struct locals *locals = *state;
    struct log_event event;
    bool is_ended;
    unsigned records = 0;

    locals_damage(locals);
    assert_int_equal(locals_drain(locals, 0, &is_ended), 2);
    for (int turn = 0; turn < 8; turn++)
        records += locals_drain(locals, turn % 2 == 0, &is_ended);
    assert_int_equal(records, 14); /* with the first two, those of four segments */
    locals_follow(locals, 0, 17);
    locals_follow(locals, 1, 18);
    assert_int_equal(locals_next(locals, 1, &event), LOG_LOST);
    assert_int_equal(locals_next(locals, 0, &event), LOG_LOST);
    assert_int_equal(event.code, ERROR_CORRUPT);
    assert_non_null(strstr(event.reason, "restore a backup"));
    locals_follow(locals, 1, 21);
    assert_int_equal(locals_drain(locals, 1, &is_ended), 10);
    assert_true(is_ended);
}

static void test_damage_is_skipped(void **state)
{
    struct locals *locals = *state;
    unsigned records = 0;
    bool is_ended[2] = {false};

    locals->options.skips_damage = true;
    locals_reopen(locals);
    locals_damage(locals);
    for (int turn = 0; turn < 100 && !(is_ended[0] && is_ended[1]); turn++)
        for (uint16_t i = 0; i < 2; i++)
            if (!is_ended[i])
                records += locals_drain(locals, i, &is_ended[i]);
    assert_true(is_ended[0] && is_ended[1]);
    assert_int_equal(records, 39);
    struct log_local_stats stats;
    log_local_get_stats(locals->local, &stats);
    assert_true(stats.has_loss && stats.lost == 1 && stats.loss.text[0]);
    locals_follow(locals, 0, 1); /* the same loss */
    assert_int_equal(locals_drain(locals, 0, &is_ended[0]) + 19, records);
    log_local_get_stats(locals->local, &stats);
    assert_int_equal(stats.lost, 1);
}

static void test_a_reader_appends_nothing(void **state)
{
    struct locals *locals = *state;

    locals_put(locals, 3, "kept");
    locals->options.mode = LOG_FILES_READ;
    locals_reopen(locals);
    assert_int_equal(log_append(locals_log(locals, 3), 1, BYTES("x"), NULL), ERROR_IO);
    assert_int_equal(log_trim(locals_log(locals, 3), 1, NULL), ERROR_IO);
    assert_int_equal(log_local_start(locals->local, NULL), ERROR_NONE);
    assert_true(log_local_flush(locals->local));
    locals_follow(locals, 3, 1);
    assert_local_record(locals, 3, 1, "kept");
    assert_end(locals, 3, 2);
}

static void test_a_missing_log(void **state)
{
    struct locals *locals = *state;
    struct log_local_stats stats;
    struct log_local *other;

    locals_put(locals, 3, "one");
    log_local_close(locals->local);
    locals->local = NULL;
    locals->options.mode = LOG_FILES_MAKE; /* there is one */
    assert_int_equal(log_local_open(&locals->options, &other, NULL), ERROR_CORRUPT);
    locals->options.mode = LOG_FILES_OPEN;
    files_remove_folder(locals->log_folder);
    assert_int_equal(log_local_open(&locals->options, &other, NULL), ERROR_CORRUPT);
    locals->options.skips_damage = true;
    locals->options.reached = 50; /* another partition's table has record 49 */
    memset(locals->memory->live, 0, sizeof(locals->memory->live));
    locals->memory->live_count = locals->memory->change_count = 0;
    locals_open(locals);
    log_local_get_stats(locals->local, &stats);
    assert_true(stats.has_loss && stats.end == 50);
    locals_follow(locals, 3, 1);
    assert_end(locals, 3, 50);
    files_make_folder(locals->log_folder, NULL);
}

/* ---- threads ---- */

enum { OWNERS = 4, OWNED = 2, OWNER_RECORDS = 300, OWNER_WAIT_MS = 120000 };

struct owner {
    pthread_t thread;
    struct log_local *local;
    uint16_t number;
    struct random random;
};

static void *owner_run(void *argument)
{
    struct owner *owner = argument;
    struct log_event event;

    for (uint64_t i = 1; i <= OWNER_RECORDS; i++) {
        char text[32];

        snprintf(text, sizeof(text), "%" PRIu64, i);
        for (uint16_t j = 0; j < OWNED; j++) {
            struct log *log =
                log_local_partition(owner->local, (uint16_t)(owner->number * OWNED + j));
            if (log_append(log, i, bytes_of(text), NULL))
                abort();
        }
        if (random_below(&owner->random, 2))
            log_local_flush(owner->local);
        else
            log_local_kick(owner->local);
        for (uint16_t j = 0; j < OWNED; j++) {
            struct log *log =
                log_local_partition(owner->local, (uint16_t)(owner->number * OWNED + j));

            if (log_wait(log, OWNER_WAIT_MS, &event) != LOG_LANDED || event.ticket != i)
                abort();
            if (i % 50 == 0 &&
                (log_trim(log, i, NULL) || log_wait(log, OWNER_WAIT_MS, &event) != LOG_TRIMMED))
                abort();
        }
    }
    return NULL;
}

static void *owner_read(void *argument)
{
    struct owner *owner = argument;
    struct log_event event;
    uint64_t expected[OWNED] = {0};
    unsigned ended = 0;

    for (uint16_t j = 0; ended < OWNED; j = (uint16_t)((j + 1) % OWNED)) {
        struct log *log = log_local_partition(owner->local, (uint16_t)(owner->number * OWNED + j));
        const enum log_kind kind = log_wait(log, 1, &event);

        ended += kind == LOG_END;
        if (kind != LOG_RECORD)
            continue;
        char text[32] = "";
        memcpy(text, event.bytes.data, event.bytes.size);
        const uint64_t number = strtoull(text, NULL, 10);
        if (expected[j] && number != expected[j])
            abort();
        expected[j] = number + 1;
    }
    for (uint16_t j = 0; j < OWNED; j++)
        if (expected[j] != OWNER_RECORDS + 1)
            abort();
    return NULL;
}

static void owners_run(struct log_local *local, void *(*run)(void *))
{
    struct owner owners[OWNERS];

    for (uint16_t i = 0; i < OWNERS; i++) {
        owners[i] = (struct owner){.local = local, .number = i, .random = random_seeded(i + 1)};
        assert_int_equal(pthread_create(&owners[i].thread, NULL, run, &owners[i]), 0);
    }
    for (int i = 0; i < OWNERS; i++)
        pthread_join(owners[i].thread, NULL);
}

static void test_owners_on_threads(void **state)
{
    struct locals *locals = *state;
    struct log_local_options options = locals->options;
    struct log_local_stats stats;
    struct log_local *local;

    options.home = locals->log_folder; /* a folder beside the other's */
    options.partition_count = OWNERS * OWNED;
    options.segment_bytes = 16384;
    options.disk = NULL;
    options.has_id = false;
    options.mode = LOG_FILES_MAKE;
    options.told = NULL;
    assert_int_equal(log_local_open(&options, &local, NULL), ERROR_NONE);
    assert_int_equal(log_local_start(local, NULL), ERROR_NONE);
    owners_run(local, owner_run);
    log_local_get_stats(local, &stats);
    assert_int_equal(stats.end, OWNERS * OWNED * OWNER_RECORDS + 1);
    log_local_close(local);
    options.mode = LOG_FILES_OPEN;
    options.begin = stats.first;
    assert_int_equal(log_local_open(&options, &local, NULL), ERROR_NONE);
    for (uint16_t i = 0; i < options.partition_count; i++)
        assert_int_equal(log_follow_begin(log_local_partition(local, i), NULL), ERROR_NONE);
    owners_run(local, owner_read);
    log_local_close(local);
}

/* The first append of a new log takes the spare file, so another one is made without waiting for
 * more appends: a failed append on a full disk needs it. */
static void test_the_first_append_has_a_spare_made(void **state)
{
    struct locals *locals = *state;
    struct log_local_options options = locals->options;
    const struct instant end = instant_add_ms(instant_now(), 60000);
    struct log_local_stats stats;
    struct log_local *local;

    options.home = locals->log_folder;
    options.disk = NULL;
    options.has_id = false;
    options.mode = LOG_FILES_MAKE;
    options.told = NULL;
    assert_int_equal(log_local_open(&options, &local, NULL), ERROR_NONE);
    assert_int_equal(log_local_start(local, NULL), ERROR_NONE);
    assert_int_equal(log_append(log_local_partition(local, 0), 1, BYTES("one"), NULL), ERROR_NONE);
    assert_true(log_local_flush(local));
    do
        log_local_get_stats(local, &stats);
    while (stats.reserved < 2 * LOCALS_SEGMENT && instant_now().ns < end.ns);
    assert_int_equal(stats.reserved, 2 * LOCALS_SEGMENT);
    log_local_close(local);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, locals_set_up, locals_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_partitions_share_a_write_and_a_sync),
        TEST(test_one_append_at_a_time),
        TEST(test_closing_drops_an_append),
        TEST(test_appends_gather_during_a_write),
        TEST(test_a_wake_ends_a_wait),
        TEST(test_a_full_disk_refuses),
        TEST(test_an_append_in_doubt_is_removed),
        TEST(test_a_repair_ends_a_doubt),
        TEST(test_a_restart_reads_what_landed),
        TEST(test_followers_share_one_pass),
        TEST(test_a_later_follower_begins_again),
        TEST(test_a_follower_that_does_not_read_is_left),
        TEST(test_a_follower_that_is_closed_holds_nobody_back),
        TEST(test_trims_wait_for_all),
        TEST(test_damage_is_reported),
        TEST(test_damage_is_skipped),
        TEST(test_a_reader_appends_nothing),
        TEST(test_a_missing_log),
        TEST(test_owners_on_threads),
        TEST(test_the_first_append_has_a_spare_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
