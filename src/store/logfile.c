/* logfile.c - reads the framing of RocksDB's logs and manifests, to tell torn ends from damage. */
#include "store/logfile.h"

#include "base/checksum.h"
#include "store/varint.h"

enum {
    HEADER_SIZE = 7,
    RECYCLED_HEADER_SIZE = 11, /* with the number of its log */
};

enum record_kind {
    RECORD_NONE, /* room that was never written */
    RECORD_FULL,
    RECORD_FIRST,
    RECORD_MIDDLE,
    RECORD_LAST,
    RECORD_RECYCLED, /* added to the four above */
    RECORD_KINDS = 9,
};

#define SUM_MASK 0xa282ead8u /* a checksum of what holds checksums is not stored as it is */

/* One part of a record. */
struct part {
    enum record_kind kind;
    struct bytes body;
    size_t size; /* with its header */
};

void logfile_begin(struct logfile *log, enum logfile_kind kind, uint64_t next)
{
    *log = (struct logfile){.kind_ = kind, .next = next};
}

static void logfile_set_broken(struct logfile *log, uint64_t at)
{
    if (!log->is_broken)
        log->broken_at = at;
    log->is_broken = log->was_broken_ = log->is_block_broken_ = true;
    log->is_open_ = false;
}

static bool logfile_parse(struct bytes block, size_t at, struct part *ret_part)
{
    const char *data = block.data + at;
    size_t room = block.size - at;

    if (room < HEADER_SIZE)
        return false;
    ret_part->body.size = get_le(data + 4, 2);
    ret_part->kind = (enum record_kind)(uint8_t)data[6];
    if (ret_part->kind == RECORD_NONE || ret_part->kind >= RECORD_KINDS)
        return false;
    size_t header = HEADER_SIZE;
    if (ret_part->kind >= RECORD_RECYCLED) {
        header = RECYCLED_HEADER_SIZE;
        ret_part->kind = (enum record_kind)(ret_part->kind - RECORD_RECYCLED + RECORD_FULL);
    }
    ret_part->size = header + ret_part->body.size;
    if (ret_part->size > room)
        return false;
    ret_part->body.data = data + header;
    uint32_t sum = checksum_crc32c(0, data + 6, ret_part->size - 6);
    return get_le(data, 4) == (uint32_t)((sum >> 15 | sum << 17) + SUM_MASK);
}

/* A change is a list of fields, each with its tag. Those that come before the files are numbers,
 * and texts with their size. */
static void logfile_read_edit(struct logfile *log)
{
    enum {
        COMPARATOR = 1,
        LOG,
        NEXT_FILE,
        SEQUENCE,
        LOG_BEFORE = 9,
        NEEDED_FROM,
        HIGHEST_TABLE = 203
    };
    struct bytes fields = {log->head_, log->head_size_};
    uint64_t tag, number;

    while (varint_next(&fields, &tag) && varint_next(&fields, &number))
        switch (tag) {
        case COMPARATOR:
            if (number > fields.size)
                return;
            fields = (struct bytes){fields.data + number, fields.size - number};
            break;
        case NEEDED_FROM:
            if (number > log->needed_from)
                log->needed_from = number;
            break;
        case LOG:
        case NEXT_FILE:
        case SEQUENCE:
        case LOG_BEFORE:
        case HIGHEST_TABLE:
            break;
        default:
            return;
        }
}

/* The write whose head is known is whole. */
static void logfile_finish(struct logfile *log)
{
    const bool was_whole = !log->has_loss;

    log->records++;
    log->is_open_ = false;
    if (log->kind_ == LOGFILE_CHANGES)
        logfile_read_edit(log);
    if (log->kind_ == LOGFILE_CHANGES || log->head_size_ < LOGFILE_HEAD_SIZE) {
        log->has_loss |= log->was_broken_;
    } else {
        uint64_t number = get_le(log->head_, 8);
        uint64_t count = get_le(log->head_ + 8, 4);
        if (log->was_broken_ && (!log->next || number > log->next)) {
            log->has_loss = true;
            log->lost += log->next ? number - log->next : 1;
        }
        if (log->has_loss && log->is_dropped_)
            log->lost += count;
        log->next = number + count;
    }
    if (log->has_loss && was_whole && !log->is_broken)
        logfile_set_broken(log, log->hole_at_);
    log->was_broken_ = false;
}

static void logfile_take_head(struct logfile *log, struct bytes body)
{
    size_t size = sizeof(log->head_) - log->head_size_;

    if (size > body.size)
        size = body.size;
    if (size)
        memcpy(log->head_ + log->head_size_, body.data, size);
    log->head_size_ += size;
}

static void logfile_take(struct logfile *log, const struct part *part, uint64_t at)
{
    const bool begins = part->kind == RECORD_FULL || part->kind == RECORD_FIRST;

    if (begins) {
        if (log->is_open_)
            logfile_set_broken(log, log->record_at_);
        log->is_open_ = true;
        log->is_dropped_ = log->is_block_broken_;
        log->record_at_ = at;
        log->head_size_ = 0;
    } else if (!log->is_open_) {
        logfile_set_broken(log, at); /* the rest of a record whose first part is damaged */
        return;
    }
    logfile_take_head(log, part->body);
    if (part->kind == RECORD_FULL || part->kind == RECORD_LAST)
        logfile_finish(log);
}

static bool logfile_is_zero(const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (data[i])
            return false;
    return true;
}

/* Room at the end of the file, if nothing comes behind it. */
static void logfile_note_hole(struct logfile *log, uint64_t at)
{
    if (log->is_open_)
        logfile_set_broken(log, log->record_at_);
    if (!log->was_broken_)
        log->hole_at_ = at;
    log->was_broken_ = true;
}

void logfile_add(struct logfile *log, struct bytes block)
{
    log->is_block_broken_ = false;
    size_t at = 0;
    while (at < block.size) {
        if (logfile_is_zero(block.data + at, block.size - at)) {
            if (block.size - at >= HEADER_SIZE)
                logfile_note_hole(log, log->offset_ + at);
            break; /* room at the end of a block, or of a file that was made larger ahead */
        }
        struct part part;
        if (logfile_parse(block, at, &part)) {
            logfile_take(log, &part, log->offset_ + at);
            at += part.size;
            continue;
        }
        /* Whether its size can be trusted is not known either: the next whole one is looked for
         * everywhere. */
        logfile_set_broken(log, log->offset_ + at);
        do
            at++;
        while (at < block.size && !logfile_parse(block, at, &part));
    }
    log->offset_ += block.size;
}

void logfile_end(struct logfile *log)
{
    if (log->is_open_)
        logfile_set_broken(log, log->record_at_);
}
