/* check.c - the report of --check, printed. */
#include "steps.h"

#include "calendar/rfc3339.h"
#include "node/node.h"
#include "store/rocksdb_check.h"

#include <inttypes.h>
#include <stdio.h>

enum { CHECK_FINE = 0, CHECK_DAMAGED = 1, CHECK_FAILED = 2, CHECK_TORN = 3 };

static void print_finding(void *context, const char *finding)
{
    (void)context;
    printf("  damage: %s\n", finding);
}

static void print_partition(uint32_t index, const struct rocksdb_check_partition *partition)
{
    char oldest[RFC3339_TEXT_SIZE] = "-";

    if (partition->oldest.ms)
        rfc3339_format(partition->oldest, oldest);
    printf("  partition %" PRIu32 ": %" PRIu64 " live, %" PRIu64 " final, %" PRIu64
           " dead, %" PRIu64 " damaged, %" PRIu64 " bytes, oldest due %s, epoch %" PRIu64 "\n",
           index, partition->live, partition->over, partition->dead, partition->damaged,
           partition->bytes, oldest, partition->meta.epoch);
}

/* Whether a log ends in an incomplete write after an unclean stop: records behind it, if any,
 * are lost. */
static bool is_torn(const struct rocksdb_check *check)
{
    return check->torn_logs && !check->was_closed;
}

static void print_report(const char *folder, const struct rocksdb_check *check)
{
    struct rocksdb_check_partition sum = {0};

    for (uint32_t i = 0; i < check->partition_count; i++) {
        print_partition(i, &check->partitions[i]);
        sum.live += check->partitions[i].live;
        sum.over += check->partitions[i].over;
        sum.dead += check->partitions[i].dead;
    }
    printf("  total: %" PRIu64 " live, %" PRIu64 " final, %" PRIu64 " dead, %" PRIu64
           " pointers, %" PRIu64 " names, %" PRIu64 " set aside, %" PRIu64 " bytes on disk\n",
           sum.live, sum.over, sum.dead, check->pointers, check->names, check->set_aside,
           check->disk_bytes);
    if (check->missing)
        printf("  affected: at most %" PRIu64 " live timers cannot be read\n", check->missing);
    printf("  format %" PRIu64 "; the last stop was %s", check->format,
           check->was_closed ? "clean" : "not clean");
    if (is_torn(check))
        printf(", and a log ends in an incomplete write, as after a power cut");
    printf("\n%s: ", folder);
    if (check->findings)
        printf("damaged, %" PRIu64 " findings%s\n", check->findings,
               check->findings > ROCKSDB_CHECK_TOLD_MAX ? " (the first 1000 are shown)" : "");
    else
        printf("valid%s\n", is_torn(check) ? ", up to the torn end of a log" : "");
}

int check_data(const char *folder)
{
    struct rocksdb_check check = {.told = print_finding};
    struct error error = {.text = ""};
    enum error_code code = rocksdb_check(folder, &check, &error);

    if (code) {
        fprintf(stderr, "tickwheeld: %s\n", error.text);
        return code == ERROR_CORRUPT ? CHECK_DAMAGED : CHECK_FAILED;
    }
    if (node_check_pauses(folder, &error)) {
        check.findings++;
        print_finding(NULL, error.text);
    }
    print_report(folder, &check);
    rocksdb_check_deinit(&check);
    if (fflush(stdout) != 0)
        return CHECK_FAILED;
    if (check.findings)
        return CHECK_DAMAGED;
    return is_torn(&check) ? CHECK_TORN : CHECK_FINE;
}
