/* replica.c - applies records to the storage of a simulated node; see replica.h. */
#include "replica.h"

#include "base/check.h"
#include "base/random.h"
#include "storage/memory.h"

enum { SYNC_EVERY = 512 }; /* commits that a crash can take back, at most */

void replica_init(struct replica *replica)
{
    *replica = (struct replica){.storage = memory_storage_create(1)};
    CHECK(replica->storage);
    buffer_init(&replica->part);
    memory_storage_hold(replica->storage);
}

void replica_deinit(struct replica *replica)
{
    buffer_deinit(&replica->part);
    storage_close(replica->storage);
    replica->storage = NULL;
}

void replica_apply(struct replica *replica, uint64_t offset, const struct frame *frame)
{
    if (offset < replica->next)
        return;
    replica->next = offset + 1;
    if (frame->kind == FRAME_CLAIM)
        buffer_clear(&replica->part);
    if (frame->kind != FRAME_COMMIT)
        return;
    buffer_append_bytes(&replica->part, frame->body);
    if (frame->has_more)
        return;
    const struct storage_place place = {.next = offset + 1,
                                        .epoch = frame->epoch,
                                        .seq = frame->seq,
                                        .incarnation = frame->incarnation,
                                        .node = frame->node};
    CHECK(storage_apply(replica->storage, 0, buffer_bytes(&replica->part), &place, NULL) ==
          ERROR_NONE);
    buffer_clear(&replica->part);
    if (memory_storage_held(replica->storage) >= SYNC_EVERY)
        replica_sync(replica);
}

void replica_sync(struct replica *replica)
{
    memory_storage_sync(replica->storage);
}

void replica_crash(struct replica *replica, size_t kept)
{
    memory_storage_crash(replica->storage, kept);
    buffer_clear(&replica->part);
    replica->next = replica_place(replica).next;
}

struct ownership_place replica_place(const struct replica *replica)
{
    struct storage_place place;

    CHECK(storage_load_place(replica->storage, 0, &place, NULL) == ERROR_NONE);
    return (struct ownership_place){.next = place.next,
                                    .epoch = place.epoch,
                                    .seq = place.seq,
                                    .incarnation = place.incarnation,
                                    .owner = place.node};
}

struct storage_page replica_rows(const struct replica *replica)
{
    const struct storage_scan scan = {.kind = STORAGE_SCAN_ALL,
                                      .to = {WALL_NEVER, 0},
                                      .rows_max = SIZE_MAX,
                                      .bytes_max = SIZE_MAX};
    struct storage_page page;

    CHECK(storage_scan(replica->storage, &scan, &page, NULL) == ERROR_NONE);
    return page;
}

uint64_t replica_hash(const struct replica *replica)
{
    struct storage_page page = replica_rows(replica);
    struct storage_meta meta;
    uint64_t hash = page.count;

    CHECK(storage_load_meta(replica->storage, 0, &meta, NULL) == ERROR_NONE);
    for (size_t i = 0; i < page.count; i++) {
        const struct timer *timer = page.timers[i];

        hash = random_mix(hash ^ timer->id.serial);
        hash = random_mix(hash ^ timer->at.ms ^ (uint64_t)timer->state << 60);
        hash = random_mix(hash ^ timer->due.ms ^ (uint64_t)timer->version << 40);
    }
    storage_page_free(&page);
    return random_mix(hash ^ meta.pending ^ meta.watermark.ms << 8 ^ meta.epoch << 56);
}
