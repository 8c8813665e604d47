/*
 * logfile.h - looks through a log of RocksDB without trusting it: is it whole, and if not, does
 * anything lie behind the damage?
 *
 * RocksDB ends its recovery without a word at the first record that is damaged. At the end of a log
 * that is right: there a crash leaves a record that was never acknowledged. In the middle of the
 * log it would lose acknowledged records. The number of each write tells the two cases apart:
 * behind a torn end the numbers continue, behind lost writes they have a gap.
 *
 *     struct logfile log;
 *     logfile_begin(&log, LOGFILE_WRITES, 0);
 *     for each block of LOGFILE_BLOCK bytes    logfile_add(&log, block);
 *     logfile_end(&log);
 *
 * The format: blocks of 32 KiB, in them records: checksum 4, size 2, kind 1, and the part of a
 * write that it holds, which begins with the write's number 8 and how many numbers it takes 4.
 *
 * Threads    No state but the struct: any.
 */
#ifndef TICKWHEEL_STORE_LOGFILE_H
#define TICKWHEEL_STORE_LOGFILE_H

#include "base/bytes.h"

#define LOGFILE_BLOCK     32768
#define LOGFILE_HEAD_SIZE 12 /* of a write */
#define LOGFILE_EDIT_SIZE 96 /* of a change: its numbers, which stand before names of files */

enum logfile_kind {
    LOGFILE_WRITES,  /* 000012.log */
    LOGFILE_CHANGES, /* MANIFEST-000012: framed like a log, without numbers */
};

struct logfile {
    uint64_t records;   /* whole ones */
    uint64_t next;      /* the number that the next write should have; 0: not known */
    bool is_broken;     /* something in it is not a whole record */
    uint64_t broken_at; /* the first such byte */
    bool has_loss;      /* and whole records lie behind it that do not follow on those before */
    uint64_t lost;      /* then: how many numbers a start around it costs, at least: those that are
                           missing, and those behind them in their block, which RocksDB drops */
    uint64_t needed_from; /* of changes: logs with lower numbers are not needed any more */

    enum logfile_kind kind_;
    uint64_t offset_;  /* of the block to come */
    bool is_open_;     /* between the first part of a record and its last */
    bool was_broken_;  /* since the last whole record */
    uint64_t hole_at_; /* where a run of zeros began that may be the end */
    bool is_block_broken_,
        is_dropped_;     /* this block; the open record, for it began in such a one */
    uint64_t record_at_; /* where the open record began */
    char head_[LOGFILE_EDIT_SIZE];
    size_t head_size_;
};

/* `next` is that of the log before; 0 when there is none. */
void logfile_begin(struct logfile *log, enum logfile_kind kind, uint64_t next);

/* Takes the next LOGFILE_BLOCK bytes; fewer only at the end. */
void logfile_add(struct logfile *log, struct bytes block);

void logfile_end(struct logfile *log);

#endif
