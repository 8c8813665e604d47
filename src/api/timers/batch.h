/*
 * batch.h - POST /v1/timers/batch: one create per line, any number of lines, one answer per line.
 *
 * Lines are read while the upload arrives and go to the node in chunks, each to one partition. A
 * bounded number of chunks is under way; beyond it the client is held back. So memory does not grow
 * with the body, but for the answers, which are sent when the upload has ended.
 */
#ifndef TICKWHEEL_API_TIMERS_BATCH_H
#define TICKWHEEL_API_TIMERS_BATCH_H

#include "api/core/call.h"

enum {
    BATCH_CHUNK_LINES_MAX = 1024,    /* creates in one command */
    BATCH_CHUNK_BYTES_MAX = 1 << 20, /* and their memory, after which no more is added */
    BATCH_CHUNKS_MAX = 8,            /* chunks of one batch that are not answered yet */
};

void batch_begin(struct call *call);
size_t batch_body(struct call *call, struct bytes chunk);
void batch_end(struct call *call);
void batch_resumed(struct call *call);
void batch_closed(struct call *call);

#endif
