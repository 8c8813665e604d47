/* judge.c - the promises of a cluster, with rules of its own on valid records; see judge.h. */
#include "judge.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void judge_broken(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    printf("BROKEN: ");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    fflush(stdout);
    exit(EXIT_FAILURE);
}

/* Whether the next record of the log is valid, by docs/cluster.md. */
static bool truth_accepts(const struct truth *truth, const struct frame *frame)
{
    if (frame->kind == FRAME_CLAIM)
        return frame->epoch == truth->epoch + 1;
    return frame->epoch == truth->epoch && frame->node == truth->node &&
           frame->incarnation == truth->incarnation && frame->seq == truth->seq + 1 &&
           !truth->is_released;
}

void judge_land(struct truth *truth, const struct frame *frame)
{
    uint64_t offset = truth->size++;
    bool is_valid = truth_accepts(truth, frame);

    CHECK(offset < RECORDS_MAX);
    if (is_valid) {
        for (size_t i = 0; i < truth->failed_count; i++)
            if (truth->failed[i].epoch == frame->epoch && truth->failed[i].seq == frame->seq &&
                frame->kind == FRAME_COMMIT)
                judge_broken("a commit that was answered as failed is valid at %" PRIu64, offset);
        if (frame->kind == FRAME_CLAIM) {
            truth->epoch = frame->epoch;
            truth->node = frame->node;
            truth->incarnation = frame->incarnation;
        }
        truth->seq = frame->seq;
        truth->is_released = frame->kind == FRAME_RELEASE;
        replica_apply(&truth->replica, offset, frame);
    }
    truth->zombies += frame->kind != FRAME_CLAIM && frame->epoch < truth->epoch;
    truth->repeats += !is_valid && frame->epoch == truth->epoch;
    truth->records[offset].epoch = frame->epoch;
    truth->records[offset].seq = frame->seq;
    truth->records[offset].is_valid = is_valid;
    truth->records[offset].hash = replica_hash(&truth->replica);
}

void judge_replica(const struct truth *truth, const struct replica *replica)
{
    if (replica->next > truth->size)
        judge_broken("a replica is ahead of the log: %" PRIu64, replica->next);
    if (replica->next > 0 && truth->records[replica->next - 1].hash != replica_hash(replica))
        judge_broken("a replica differs from the log before %" PRIu64, replica->next);
}

/* 1 + the offset of the valid record; 0: there is none. */
static uint64_t truth_find(const struct truth *truth, const struct frame *frame)
{
    for (uint64_t i = truth->size; i > 0; i--)
        if (truth->records[i - 1].is_valid && truth->records[i - 1].epoch == frame->epoch &&
            truth->records[i - 1].seq == frame->seq)
            return i;
    return 0;
}

void judge_durable(struct truth *truth, const struct frame *frames, size_t count,
                   const struct replica_change *changes, size_t change_count,
                   const struct replica *replica)
{
    uint64_t place = 0;

    for (size_t i = 0; i < count; i++) {
        place = truth_find(truth, &frames[i]);
        if (place == 0)
            judge_broken("a commit is acknowledged, and not valid in the log: epoch %" PRIu64
                         " seq %" PRIu64,
                         frames[i].epoch, frames[i].seq);
    }
    if (replica->next < place)
        judge_broken("a commit is acknowledged, and not applied: %" PRIu64, place - 1);
    for (size_t i = 0; i < change_count; i++) {
        const struct replica_change *change = &changes[i];
        const struct cell *cell = &replica->cells[change->timer];

        if (place > truth->acked[change->timer])
            truth->acked[change->timer] = place;
        if (change->kind == CHANGE_CANCEL && cell->kind == CHANGE_CANCEL && cell->id == change->id)
            truth->is_cancelled[change->id] = true;
    }
}

void judge_failed(struct truth *truth, const struct frame *frame)
{
    if (truth_find(truth, frame))
        judge_broken("a commit is answered as failed, and valid in the log: epoch %" PRIu64
                     " seq %" PRIu64,
                     frame->epoch, frame->seq);
    CHECK(truth->failed_count < VERDICT_MAX);
    truth->failed[truth->failed_count].epoch = frame->epoch;
    truth->failed[truth->failed_count++].seq = frame->seq;
}

void judge_read(const struct truth *truth, const struct replica *replica, uint32_t timer)
{
    /* The place of the last change is in the cell, or behind: it changed nothing. */
    if (replica->next < truth->acked[timer])
        judge_broken("a read misses an acknowledged change at %" PRIu64, truth->acked[timer] - 1);
}

void judge_deliver(struct truth *truth, uint64_t epoch, uint32_t id)
{
    if (truth->is_cancelled[id])
        judge_broken("timer %" PRIu32 " is delivered after its cancel was answered", id);
    if (truth->delivered_in[id] > epoch)
        judge_broken("timer %" PRIu32 " is delivered in epoch %" PRIu64 " after %" PRIu64, id,
                     epoch, truth->delivered_in[id]);
    if (truth->delivered_in[id] == epoch)
        judge_broken("timer %" PRIu32 " is delivered twice in epoch %" PRIu64, id, epoch);
    truth->duplicates += truth->delivered_in[id] > 0;
    truth->delivered_in[id] = epoch;
}
