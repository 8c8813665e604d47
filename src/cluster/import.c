/* import.c - the records of an import; see import.h. */
#include "cluster/import.h"

#include "base/random.h"
#include "cluster/sweep.h"
#include "store/record.h"
#include "store/rowop.h"
#include "store/store_key.h"

#include <stdlib.h>

/* Node number of imported frames; no node has it. Nothing depends on their node and `sent`. */
enum { IMPORT_NO_NODE = 0 };

struct import {
    struct storage *storage;
    uint16_t partition;
    uint64_t cluster, epoch, incarnation, seq;
    uint64_t live, live_counted;
    struct sweep sweep;
    struct buffer body; /* body of a commit */
    size_t body_done;   /* size of its part that is in frames */
    bool has_begun, is_over;
    struct buffer frame;
};

enum error_code import_open(struct storage *storage, uint16_t partition, uint64_t cluster,
                            uint64_t epoch, struct import **ret_import, struct error *ret_error)
{
    const struct sweep_limits limits = {.log_bytes_min = 1, .factor = 1};
    struct storage_meta meta;
    struct storage_place place;
    enum error_code code = storage_load_meta(storage, partition, &meta, ret_error);

    if (!code)
        code = storage_load_place(storage, partition, &place, ret_error);
    if (code)
        return code;
    struct import *import = calloc(1, sizeof(*import));
    if (!import)
        return error_set(ret_error, ERROR_NO_MEMORY, "import");
    import->storage = storage;
    import->partition = partition;
    import->cluster = cluster;
    import->epoch = epoch;
    import->incarnation = random_mix(
        meta.epoch ^ random_mix(meta.pending ^ meta.watermark.ms << 8 ^ random_mix(place.next)));
    import->live_counted = meta.pending;
    buffer_init(&import->body);
    buffer_init(&import->frame);
    sweep_start(&import->sweep, &limits, partition);
    *ret_import = import;
    return ERROR_NONE;
}

void import_close(struct import *import)
{
    if (!import)
        return;
    buffer_deinit(&import->body);
    buffer_deinit(&import->frame);
    free(import);
}

/* Returns the number of live timers in a part of the sweep. */
static uint64_t import_count(struct bytes body)
{
    struct sweep_record record;
    struct rowop op;
    uint64_t count = 0;

    if (!sweep_decode(body, &record) || record.kind != SWEEP_ROWS || !rowop_open(&record.rows))
        return 0;
    while (rowop_next(&record.rows, &op))
        count += op.table == ROWOP_TIMERS && !record_row_is_over(op.value);
    return count;
}

/* Makes the body of the next commit, empty at the end of the sweep. A part of an export may have
 * no rows. */
static enum error_code import_fill(struct import *import, struct error *ret_error)
{
    /* The sweep begins with the first record of the log. */
    const struct sweep_log log = {.has_begin = true, .begin = 0};
    enum error_code code = ERROR_NONE;

    if (import->has_begun)
        sweep_advance(&import->sweep, &log);
    import->has_begun = true;
    buffer_clear(&import->body);
    import->body_done = 0;
    while (!code && sweep_is_going(&import->sweep) && !import->body.size)
        code = sweep_next(&import->sweep, import->storage, &import->body, ret_error);
    import->live += code ? 0 : import_count(buffer_bytes(&import->body));
    return code;
}

enum error_code import_next(struct import *import, struct error *ret_error)
{
    struct frame frame = {.kind = FRAME_COMMIT,
                          .is_sweep = true,
                          .partition = import->partition,
                          .node = IMPORT_NO_NODE,
                          .incarnation = import->incarnation,
                          .epoch = import->epoch,
                          .seq = ++import->seq};

    buffer_clear(&import->frame);
    if (import->is_over)
        return ERROR_NONE;
    if (import->body_done == import->body.size) {
        const enum error_code code = import_fill(import, ret_error);
        if (code)
            return code;
    }
    const size_t left = import->body.size - import->body_done;
    const size_t size = left < FRAME_BODY_SIZE_MAX ? left : FRAME_BODY_SIZE_MAX;
    frame.body = (struct bytes){import->body.data + import->body_done, size};
    frame.has_more = size < left;
    import->body_done += size;
    if (!size) {
        import->is_over = true;
        frame.kind = FRAME_RELEASE;
        frame.is_sweep = false;
        frame.body = (struct bytes){0};
    }
    frame_encode(&frame, import->cluster, &import->frame);
    return buffer_failed(&import->frame) ? error_set(ret_error, ERROR_NO_MEMORY, "import")
                                         : ERROR_NONE;
}

struct bytes import_frame(const struct import *import)
{
    return buffer_bytes(&import->frame);
}

bool import_is_repeat(const struct import *import, struct bytes record)
{
    struct frame frame;

    return !frame_decode(record, import->cluster, &frame, NULL) &&
           frame.partition == import->partition && frame.node == IMPORT_NO_NODE &&
           frame.epoch == import->epoch && frame.incarnation == import->incarnation &&
           frame.seq < import->seq;
}

uint64_t import_live(const struct import *import)
{
    return import->live;
}

uint64_t import_live_counted(const struct import *import)
{
    return import->live_counted;
}
