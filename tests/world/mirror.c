/* mirror.c - rows of a log in memory, and looks at those of nodes; see mirror.h. */
#include "mirror.h"

#include "base/check.h"
#include "base/random.h"
#include "cluster/sweep.h"
#include "store/testing/memory.h"

void mirror_init(struct mirror *mirror)
{
    *mirror = (struct mirror){.storage = memory_storage_create(1)};
    CHECK(mirror->storage);
    buffer_init(&mirror->part);
}

void mirror_deinit(struct mirror *mirror)
{
    buffer_deinit(&mirror->part);
    storage_close(mirror->storage);
    mirror->storage = NULL;
}

/* Applies the body of a whole commit. */
static void mirror_apply_body(struct mirror *mirror, uint64_t offset, bool is_sweep,
                              struct bytes body)
{
    const struct storage_place place = {.next = offset + 1};
    struct sweep_record record;

    if (is_sweep) {
        CHECK(sweep_decode(body, &record));
        body = record.rows;
        if (!mirror->takes_copies || record.kind != SWEEP_ROWS)
            return;
    }
    CHECK(storage_apply(mirror->storage, 0, body, &place, NULL) == ERROR_NONE);
}

void mirror_apply(struct mirror *mirror, uint64_t offset, const struct frame *frame)
{
    if (frame->kind == FRAME_CLAIM)
        buffer_clear(&mirror->part);
    if (frame->kind != FRAME_COMMIT)
        return;
    buffer_append_bytes(&mirror->part, frame->body);
    if (frame->has_more)
        return;
    mirror_apply_body(mirror, offset, frame->is_sweep, buffer_bytes(&mirror->part));
    buffer_clear(&mirror->part);
}

struct storage_page mirror_rows(struct storage *storage, enum storage_scan_kind kind)
{
    const struct storage_scan scan = {
        .kind = kind, .to = {WALL_NEVER, 0}, .rows_max = SIZE_MAX, .bytes_max = SIZE_MAX};
    struct storage_page page;

    CHECK(storage_scan(storage, &scan, &page, NULL) == ERROR_NONE);
    return page;
}

static uint64_t mirror_hash_tenants(struct storage *storage)
{
    struct tenant_counts counts;

    tenant_counts_init(&counts);
    CHECK(storage_load_tenant_counts(storage, 0, &counts, NULL) == ERROR_NONE);
    const uint64_t count = tenant_counts_count(&counts, BYTES("shop"));
    tenant_counts_deinit(&counts);
    return random_mix(count);
}

uint64_t mirror_hash(struct storage *storage)
{
    struct storage_export export = {.rows_max = UINT32_MAX, .bytes_max = SIZE_MAX};
    struct buffer body;
    uint64_t hash = mirror_hash_tenants(storage);

    buffer_init(&body);
    while (!export.is_done)
        CHECK(storage_export(storage, &export, &body, NULL) == ERROR_NONE);
    hash = random_mix(hash ^ bytes_hash(0, buffer_bytes(&body)));
    buffer_deinit(&body);
    return random_mix(hash ^ export.rows);
}
