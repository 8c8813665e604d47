/* check.c - the report of --check, printed. */
#include "steps.h"

#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "cluster/replay.h"
#include "store/wheel/diskwheel_check.h"

#include <inttypes.h>
#include <stdio.h>

enum { CHECK_FINE = 0, CHECK_DAMAGED = 1, CHECK_FAILED = 2, CHECK_TORN = 3 };

static void print_finding(void *context, const char *finding)
{
    (void)context;
    printf("  damage: %s\n", finding);
}

static void print_partition(uint32_t index, const struct storage_check_partition *partition)
{
    char oldest[RFC3339_TEXT_SIZE] = "-";

    if (partition->oldest.ms)
        rfc3339_format(partition->oldest, oldest);
    printf("  partition %" PRIu32 ": %" PRIu64 " live, %" PRIu64 " final, %" PRIu64
           " dead, %" PRIu64 " damaged, %" PRIu64 " bytes, oldest due %s, epoch %" PRIu64 "\n",
           index, partition->live, partition->over, partition->dead, partition->damaged,
           partition->bytes, oldest, partition->meta.epoch);
}

static void print_report(const char *folder, const struct storage_check *check, bool is_torn)
{
    struct storage_check_partition sum = {0};

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
    if (is_torn)
        printf(", and a log ends in an incomplete write, as after a power cut");
    printf("\n%s: ", folder);
    if (check->findings)
        printf("damaged, %" PRIu64 " findings%s\n", check->findings,
               check->findings > STORAGE_CHECK_TOLD_MAX ? " (the first 1000 are shown)" : "");
    else
        printf("valid%s\n", is_torn ? ", up to the torn end of a log" : "");
}

/* ---- as JSON ---- */

static void check_append_finding(void *context, const char *finding)
{
    json_put_text(context, NULL, finding);
}

static void check_append_partition(struct buffer *out, uint32_t index,
                                   const struct storage_check_partition *partition)
{
    json_open(out, NULL, '{');
    json_put_number(out, "partition", index);
    json_put_number(out, "live", partition->live);
    json_put_number(out, "final", partition->over);
    json_put_number(out, "dead", partition->dead);
    json_put_number(out, "damaged", partition->damaged);
    json_put_number(out, "bytes", partition->bytes);
    if (partition->oldest.ms)
        rfc3339_put(out, "oldest_due", partition->oldest);
    json_put_number(out, "epoch", partition->meta.epoch);
    json_close(out, '}');
}

/* Appends the report after the findings. */
static void check_append_report(struct buffer *out, const char *folder,
                                const struct storage_check *check, bool is_torn)
{
    json_put_text(out, "folder", folder);
    json_put_flag(out, "valid", check->findings == 0);
    json_put_flag(out, "torn", is_torn);
    json_put_number(out, "findings", check->findings);
    json_put_number(out, "format", check->format);
    json_put_flag(out, "clean_stop", check->was_closed);
    json_put_number(out, "missing_max", check->missing);
    json_put_number(out, "set_aside", check->set_aside);
    json_put_number(out, "pointers", check->pointers);
    json_put_number(out, "names", check->names);
    json_put_number(out, "bytes", check->disk_bytes);
    json_open(out, "partitions", '[');
    for (uint32_t i = 0; i < check->partition_count; i++)
        check_append_partition(out, i, &check->partitions[i]);
    json_close(out, ']');
    json_close(out, '}');
    buffer_append_text(out, "\n");
}

static bool check_print(const char *folder, const struct storage_check *check, bool is_torn,
                        enum check_form form, struct buffer *json)
{
    if (form == CHECK_PRINTS_LINES) {
        print_report(folder, check, is_torn);
    } else {
        json_close(json, ']');
        check_append_report(json, folder, check, is_torn);
        if (buffer_failed(json) || fwrite(json->data, 1, json->size, stdout) != json->size)
            return false;
    }
    return fflush(stdout) == 0;
}

int check_data(const char *folder, enum check_form form)
{
    struct storage_check check = {.told = print_finding};
    struct replay_folder opened;
    struct error error = {.text = ""};
    struct buffer json;
    enum error_code code = replay_open_folder(folder, &opened, &error);

    buffer_init(&json);
    if (form == CHECK_PRINTS_JSON) {
        check.told = check_append_finding;
        check.context = &json;
        json_open(&json, NULL, '{');
        json_open(&json, "damage", '[');
    }
    if (!code)
        code = diskwheel_check(opened.storage, &check, &error);
    storage_close(opened.storage);
    if (code) {
        fprintf(stderr, "tickwheeld: %s\n", error.text);
        buffer_deinit(&json);
        return code == ERROR_CORRUPT ? CHECK_DAMAGED : CHECK_FAILED;
    }
    /* after an unclean stop, records after an incomplete write may be lost */
    const bool is_torn = opened.torn_logs && !check.was_closed;
    const bool is_printed = check_print(folder, &check, is_torn, form, &json);
    storage_check_deinit(&check);
    buffer_deinit(&json);
    if (!is_printed)
        return CHECK_FAILED;
    if (check.findings)
        return CHECK_DAMAGED;
    return is_torn ? CHECK_TORN : CHECK_FINE;
}
