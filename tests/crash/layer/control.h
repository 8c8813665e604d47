/*
 * control.h - commands of a test to the layer while the daemon runs, and the layer's answers.
 *
 * One page of a file, mapped by both sides. tests/crash/faults.py writes these fields in this
 * order, each eight bytes.
 *
 *     FAULTS_CONTROL   the file, at least CONTROL_BYTES long
 *     FAULTS_JOURNAL   where powerloss.c appends changes of the disk
 *     FAULTS_FOLDER    the folder that it looks after, absolute
 */
#ifndef TICKWHEEL_CRASH_CONTROL_H
#define TICKWHEEL_CRASH_CONTROL_H

#include <stdatomic.h>
#include <stdint.h>

#define CONTROL_BYTES 4096

struct control {
    _Atomic int64_t clock_offset_ns; /* added to the wall clock */
    _Atomic uint64_t space_bytes;    /* what still fits on the disk; UINT64_MAX: no limit */
    _Atomic uint64_t writes_to_fail; /* number of calls that fail with EIO */
    _Atomic uint64_t syncs_to_fail;
    _Atomic uint64_t short_every;   /* each n-th write is done half; 0: none */
    _Atomic uint64_t cut_at;        /* at this step the process is killed; 0: never */
    _Atomic uint64_t steps;         /* entries of the journal, of this process */
    _Atomic uint64_t writes_failed; /* counts of the above that were done */
    _Atomic uint64_t syncs_failed;
    _Atomic uint64_t shorts;
    _Atomic uint64_t refused_full;
    _Atomic uint64_t reads_to_fail; /* number of reads at a position that fail with EIO */
};

/* Never NULL: without a file it is a control that asks for nothing. */
struct control *control_get(void);

#endif
