/* sweep.c - see sweep.h; docs/cluster-design.md has the bytes, and the reasons. */
#include "cluster/sweep.h"

#include "cluster/frame.h"

#include <assert.h>

enum { SWEEP_HEAD_SIZE = 9, SWEEP_END_SIZE = 17 };

/* ---- records ---- */

void sweep_encode(const struct sweep_record *record, struct buffer *to)
{
    char head[SWEEP_END_SIZE];

    put_le(head, record->kind, 1);
    put_le(head + 1, record->begin, 8);
    put_le(head + SWEEP_HEAD_SIZE, record->bytes, 8);
    buffer_append(to, head, record->kind == SWEEP_END ? SWEEP_END_SIZE : SWEEP_HEAD_SIZE);
}

bool sweep_decode(struct bytes body, struct sweep_record *ret_record)
{
    if (body.size < SWEEP_HEAD_SIZE)
        return false;
    struct sweep_record record = {.kind = (enum sweep_kind)get_le(body.data, 1),
                                  .begin = get_le(body.data + 1, 8)};
    const struct bytes rest = {body.data + SWEEP_HEAD_SIZE, body.size - SWEEP_HEAD_SIZE};
    switch (record.kind) {
    case SWEEP_BEGIN:
        if (record.begin || rest.size)
            return false;
        break;
    case SWEEP_ROWS:
        if (!rest.size)
            return false;
        record.rows = rest;
        break;
    case SWEEP_END:
        if (rest.size != SWEEP_END_SIZE - SWEEP_HEAD_SIZE)
            return false;
        record.bytes = get_le(rest.data, 8);
        break;
    default:
        return false;
    }
    *ret_record = record;
    return true;
}

/* ---- what a reader knows of the log ---- */

/* Initializes from a place. A log whose rows are missing begins with the sweep that has them. */
void sweep_log_init(struct sweep_log *log, const struct storage_place *place)
{
    *log = (struct sweep_log){
        .bytes = place->log_bytes,
        .live_bytes = place->live_bytes,
        .missing_end = place->sweep_end,
        .counted = place->next,
        .has_begin = place->sweep_end > 0,
        .begin = place->sweep_end > 0 ? place->sweep_end - 1 : 0,
    };
}

void sweep_count(struct sweep_log *log, uint64_t offset, size_t size)
{
    if (offset < log->counted)
        return;
    log->counted = offset + 1;
    log->bytes += size + SWEEP_RECORD_OVERHEAD;
}

static void sweep_end_log(struct sweep_log *log, const struct sweep_record *record)
{
    /* If the begin is unknown, the next sweep comes early. */
    if (log->has_begin && log->begin == record->begin)
        log->bytes -= log->begin_bytes;
    log->has_begin = false;
    log->live_bytes = record->bytes;
    log->missing_end = 0;
    log->trim = record->begin;
}

enum sweep_use sweep_read(struct sweep_log *log, uint64_t offset, const struct sweep_record *record)
{
    const uint64_t begin = record->kind == SWEEP_BEGIN ? offset : record->begin;

    if (log->missing_end && log->missing_end != begin + 1)
        return SWEEP_BROKEN;
    if (record->kind == SWEEP_ROWS)
        return log->missing_end ? SWEEP_APPLY : SWEEP_PASS;
    if (record->kind == SWEEP_END) {
        sweep_end_log(log, record);
    } else {
        log->has_begin = true;
        log->begin = offset;
        log->begin_bytes = log->missing_end ? 0 : log->bytes;
    }
    return SWEEP_PASS;
}

/* ---- the owner ---- */

bool sweep_is_due(const struct sweep_limits *limits, const struct sweep_log *log)
{
    return limits->log_bytes_min && log->bytes > limits->log_bytes_min &&
           log->bytes / limits->factor > log->live_bytes;
}

void sweep_start(struct sweep *sweep, const struct sweep_limits *limits, uint16_t partition)
{
    *sweep = (struct sweep){
        .step_ = SWEEP_BEGINS,
        .export_ = {.partition = partition,
                    .rows_max = limits->rows_max ? limits->rows_max : (size_t)SWEEP_ROWS_MAX,
                    .bytes_max = SWEEP_BYTES_MAX}};
}

void sweep_give_up(struct sweep *sweep)
{
    sweep->step_ = SWEEP_IDLE;
}

bool sweep_is_slow(const struct sweep *sweep, const struct sweep_limits *limits,
                   const struct sweep_log *log)
{
    const uint64_t most = sweep->log_bytes_ + sweep->log_bytes_ / 2 + limits->log_bytes_min / 4;

    return log->has_begin && log->bytes - log->begin_bytes > most;
}

enum error_code sweep_next(struct sweep *sweep, struct storage *storage, struct buffer *to,
                           struct error *ret_error)
{
    const size_t before = to->size;
    struct sweep_record record = {.kind = SWEEP_BEGIN, .begin = sweep->begin_};

    if (sweep->step_ == SWEEP_COPIES && sweep->export_.is_done)
        sweep->step_ = SWEEP_ENDS;
    if (sweep->step_ == SWEEP_COPIES)
        record.kind = SWEEP_ROWS;
    if (sweep->step_ == SWEEP_ENDS) {
        record.kind = SWEEP_END;
        record.bytes = sweep->bytes_;
    }
    sweep_encode(&record, to);
    if (buffer_failed(to))
        return error_set(ret_error, ERROR_NO_MEMORY, "sweep");
    if (record.kind != SWEEP_ROWS)
        return ERROR_NONE;
    const size_t head = to->size;
    const enum error_code code = storage_export(storage, &sweep->export_, to, ret_error);
    sweep->bytes_ += to->size - head;
    if (code || to->size == head)
        to->size = before;
    else
        sweep->log_bytes_ +=
            to->size - before + FRAME_SIZE_OVERHEAD + (uint64_t)SWEEP_RECORD_OVERHEAD;
    return code;
}

void sweep_advance(struct sweep *sweep, const struct sweep_log *log)
{
    if (sweep->step_ == SWEEP_BEGINS) {
        assert(log->has_begin);
        sweep->begin_ = log->begin;
        sweep->step_ = SWEEP_COPIES;
    } else if (sweep->step_ == SWEEP_ENDS) {
        sweep->step_ = SWEEP_IDLE;
    }
}
