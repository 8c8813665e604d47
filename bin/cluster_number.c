/*
 * cluster_number.c - a number for a node whose cluster_node_id is auto.
 *
 * The number is claimed by a note in the control topic, which says that the node is to own nothing
 * yet. The order of that log decides between two nodes that claim one number: the first record of
 * a number has it. The node keeps its number in its data folder. Numbers are taken at random from
 * many, since the log forgets a node that was away for hours.
 */
#include "steps.h"

#include "base/number.h"
#include "cluster/frame.h"
#include "cluster/roster.h"
#include "node/node_cluster_log.h"
#include "sys/clock.h"
#include "sys/entropy.h"
#include "sys/files.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    NUMBER_FIRST = 1000,
    NUMBER_COUNT = 999000,
    NUMBER_WAIT_MS = 30000,
    NUMBER_POLL_MS = 100,
    NUMBER_FILE_SIZE = 32,
};

struct cluster_number {
    struct log *log;
    uint64_t cluster, incarnation;
    bool used[NUMBER_COUNT]; /* numbers that records name; indexed by number - NUMBER_FIRST */
    uint32_t wanted;         /* number to claim; 0 if none was chosen yet */
    bool is_mine;            /* the claim of this node was the first record with its number */
};

static bool cluster_number_path(const struct config *config, char ret_path[PATH_MAX])
{
    return (size_t)snprintf(ret_path, PATH_MAX, "%s/NODE", config->data_folder) < PATH_MAX;
}

/* Reads the number from the data folder. Returns false if it has none. */
static bool cluster_number_load(const struct config *config, uint32_t *ret_number)
{
    char path[PATH_MAX];
    struct buffer text;
    uint64_t number = 0;

    buffer_init(&text);
    bool is_there = cluster_number_path(config, path) &&
                    files_read_regular(path, NUMBER_FILE_SIZE, &text, NULL) == ERROR_NONE;
    struct bytes rest = buffer_bytes(&text);
    is_there = is_there && number_parse(bytes_cut(&rest, '\n'), 10, &number) && number > 0 &&
               number <= UINT32_MAX;
    buffer_deinit(&text);
    *ret_number = (uint32_t)number;
    return is_there;
}

enum error_code cluster_number_keep(const struct config *config, struct error *ret_error)
{
    char path[PATH_MAX], text[NUMBER_FILE_SIZE];
    uint32_t kept;

    if (cluster_number_load(config, &kept) && kept == config->cluster_node_id)
        return ERROR_NONE;
    if (!cluster_number_path(config, path))
        return error_set(ret_error, ERROR_IO, "a path of %zu bytes", strlen(config->data_folder));
    snprintf(text, sizeof(text), "%" PRIu32 "\n", config->cluster_node_id);
    return files_write(path, bytes_of(text), ret_error);
}

/* Claims a number that is in no record. */
static enum error_code cluster_number_claim(struct cluster_number *number, struct error *ret_error)
{
    static const struct roster_note note = {.weight = 0};
    struct buffer body, record;
    uint64_t random = 0;
    uint32_t at = 0;

    for (int tries = 0; tries < 100; tries++) {
        if (entropy_u64(&random))
            return error_set(ret_error, ERROR_IO, "the system gives no entropy");
        at = (uint32_t)(random % NUMBER_COUNT);
        if (!number->used[at])
            break;
    }
    number->wanted = NUMBER_FIRST + at;
    buffer_init(&body);
    buffer_init(&record);
    roster_note_encode(&note, &body);
    const struct frame frame = {.kind = FRAME_NOTE,
                                .node = number->wanted,
                                .incarnation = number->incarnation,
                                .sent = wall_now(),
                                .body = buffer_bytes(&body)};
    frame_encode(&frame, number->cluster, &record);
    const enum error_code code =
        buffer_failed(&record)
            ? error_set(ret_error, ERROR_NO_MEMORY, "out of memory")
            : log_append(number->log, number->wanted, buffer_bytes(&record), ret_error);
    buffer_deinit(&record);
    buffer_deinit(&body);
    return code;
}

static void cluster_number_read(struct cluster_number *number, struct bytes bytes)
{
    struct frame frame;

    if (frame_decode(bytes, number->cluster, &frame, NULL) || frame.node < NUMBER_FIRST ||
        frame.node >= NUMBER_FIRST + NUMBER_COUNT)
        return;
    bool *used = &number->used[frame.node - NUMBER_FIRST];
    number->is_mine |=
        frame.node == number->wanted && !*used && frame.incarnation == number->incarnation;
    *used = true;
}

/* Reads the log from its first record on, appends a claim, and reads on until the claim is
 * found. */
static enum error_code cluster_number_run(struct cluster_number *number, struct error *ret_error)
{
    const struct instant until = instant_add_ms(instant_now(), NUMBER_WAIT_MS);
    enum error_code code = log_follow_begin(number->log, ret_error);
    bool is_sent = false;

    while (!code && !number->is_mine && instant_now().ns < until.ns) {
        struct log_event event;

        switch (log_wait(number->log, NUMBER_POLL_MS, &event)) {
        case LOG_RECORD:
            cluster_number_read(number, event.bytes);
            break;
        case LOG_END:
            if (!is_sent)
                code = cluster_number_claim(number, ret_error);
            is_sent = true;
            break;
        case LOG_FAILED:
            code = error_set(ret_error, ERROR_IO, "no number was claimed: %.120s", event.reason);
            break;
        case LOG_LOST:
            code = error_set(ret_error, ERROR_IO, "the control log cannot be read: %.100s",
                             event.reason);
            break;
        default:
            break;
        }
        if (!code && is_sent && !number->is_mine &&
            /* another node has claimed the number before */
            number->used[number->wanted - NUMBER_FIRST])
            code = cluster_number_claim(number, ret_error);
    }
    return code || number->is_mine ? code
                                   : error_set(ret_error, ERROR_IO, "no number was claimed in %d s",
                                               NUMBER_WAIT_MS / 1000);
}

enum error_code cluster_number_find(struct config *config, struct error *ret_error)
{
    struct cluster_log_options options = node_cluster_log_options(config);
    struct cluster_log_client *client = NULL;
    struct founding founding;

    if (cluster_number_load(config, &config->cluster_node_id))
        return ERROR_NONE;
    struct cluster_number *number = calloc(1, sizeof(*number));
    if (!number)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    options.append_timeout_ms = NUMBER_WAIT_MS;
    enum error_code code = cluster_log_identify(&options, &number->cluster, &founding, ret_error);
    if (!code && entropy_u64(&number->incarnation))
        code = error_set(ret_error, ERROR_IO, "the system gives no entropy");
    if (!code)
        code = cluster_log_client_open(&options, &client, ret_error);
    if (!code)
        code =
            cluster_log_open(client, CLUSTER_LOG_CONTROL, NUMBER_WAIT_MS, &number->log, ret_error);
    if (!code)
        code = cluster_number_run(number, ret_error);
    log_close(number->log);
    cluster_log_client_close(client);
    config->cluster_node_id = code ? 0 : number->wanted;
    free(number);
    return code;
}
