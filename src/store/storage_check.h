/*
 * storage_check.h - what a look through a whole data folder finds: is every record readable, and
 * does what belongs together agree?
 *
 *     struct storage_check check = {.told = print_finding};
 *     if (diskwheel_check(storage, &check, &error)) ...            or diskwheel_check
 *     printf("%llu findings\n", check.findings);
 *     storage_check_deinit(&check);
 *
 * A backend reads all records and hands them to a checker, which compares each with those that it
 * belongs to: a row with its pointer and its names, a pointer and a name with their row, the metas
 * with the count of rows.
 *
 *     struct storage_checker checker = {.check = &check, .get = get, .context = backend};
 *     if (storage_checker_begin(&checker)) {
 *         storage_checker_load_metas(&checker, storage);
 *         for each record   storage_checker_look(&checker, table, key, value);
 *     }
 *     return storage_checker_end(&checker, &error);
 *
 * Errors     ERROR_NO_MEMORY. Damage is a finding, not an error.
 * Threads    One.
 */
#ifndef TICKWHEEL_STORE_STORAGE_CHECK_H
#define TICKWHEEL_STORE_STORAGE_CHECK_H

#include "base/error.h"
#include "base/time.h"
#include "store/rowop.h"
#include "store/storage.h"
#include "store/store_key.h"

struct storage_check_partition {
    struct storage_meta meta;
    uint64_t live, over, dead; /* rows; a dead letter counts only as dead */
    uint64_t damaged;          /* unreadable rows, and those set aside before */
    uint64_t bytes;            /* size of keys and values of rows */
    struct wall oldest;        /* first live position; 0 if none is live */
};

struct storage_check {
    /* Called with one line for each of the first TOLD_MAX findings. May be NULL. */
    void (*told)(void *context, const char *finding);
    void *context;

    uint64_t findings;
    uint64_t format;
    uint64_t pointers, names, set_aside;
    uint64_t blocks_unread; /* of tables */
    uint64_t missing;       /* live timers that are counted and cannot be read */
    uint64_t disk_bytes;
    bool was_closed; /* closed by a clean stop */
    uint16_t partition_count;
    struct storage_check_partition *partitions; /* freed by storage_check_deinit */
};

#define STORAGE_CHECK_TOLD_MAX 1000

void storage_check_deinit(struct storage_check *check);

/* ---- for backends ---- */

struct storage_checker {
    struct storage_check *check; /* partition_count is set */

    /* Replaces the contents of `to` by a record. ERROR_NOT_FOUND if there is none. */
    enum error_code (*get)(void *context, enum rowop_table table, struct bytes key,
                           struct buffer *to);
    void *context;

    /* [partitions]: live timers of tenants, by rows and by metas */
    struct tenant_counts *counted, *told;
    struct buffer value; /* value of the record that is looked up */
    bool is_out_of_memory;
};

/* Returns false if out of memory. */
bool storage_checker_begin(struct storage_checker *checker);

/* Reads the metas, with which rows are compared. */
void storage_checker_load_metas(struct storage_checker *checker, struct storage *storage);

/* Looks at a record. */
void storage_checker_look(struct storage_checker *checker, enum rowop_table table, struct bytes key,
                          struct bytes value);

/* Looks at the key of a record that was set aside. */
void storage_checker_look_set_aside(struct storage_checker *checker, enum rowop_table table,
                                    struct bytes key);

/* Counts a finding, and reports the first STORAGE_CHECK_TOLD_MAX. */
__attribute__((format(printf, 2, 3))) void storage_checker_find(struct storage_checker *checker,
                                                                const char *format, ...);

/* Compares the counts. */
enum error_code storage_checker_end(struct storage_checker *checker, struct error *ret_error);

#endif
