/* diskwheel_part.c - what a partition has once: its meta, notes and counts of tenants. */
#include "store/wheel/diskwheel_store.h"

static bool diskwheel_part_set_buffer(struct buffer *buffer, enum rowop_kind kind,
                                      struct bytes value)
{
    buffer_clear(buffer);
    if (kind == ROWOP_PUT)
        buffer_append_bytes(buffer, value);
    return !buffer_failed(buffer);
}

static bool diskwheel_part_count(struct tenant_counts *counts, enum rowop_kind kind,
                                 struct bytes tenant, struct bytes key, struct bytes value)
{
    uint64_t count = 0;

    if (kind == ROWOP_PUT && record_number_decode(key, value, &count, NULL))
        return false;
    const bool is_counted =
        tenant_counts_add(counts, tenant, (int64_t)(count - tenant_counts_count(counts, tenant)));
    while (tenant_counts_take_changed(counts))
        continue;
    return is_counted;
}

bool diskwheel_part_set(struct diskwheel_part *part, uint16_t partition, enum rowop_kind kind,
                        struct bytes key, struct bytes value)
{
    enum storage_note note;
    struct storage_meta meta;
    struct bytes tenant;
    uint16_t of;

    if (store_tenant_key_parse(key, &of, &tenant))
        return diskwheel_part_count(&part->counts.tenant_counts, kind, tenant, key, value);
    if (store_note_key_parse(key, &note, &of))
        return diskwheel_part_set_buffer(&part->notes[note], kind, value);
    if (!store_meta_key_parse(key, &of) || record_meta_decode(partition, value, &meta, NULL))
        return false;
    part->counts.trim = meta.trim;
    part->counts.pending = meta.pending;
    return diskwheel_part_set_buffer(&part->meta, kind, value);
}

enum error_code diskwheel_part_check(const struct diskwheel_part *part, struct error *ret_error)
{
    return part->is_torn ? error_set(ret_error, ERROR_IO, "changes were applied in part")
                         : ERROR_NONE;
}

void diskwheel_part_reset(struct diskwheel_part *part)
{
    buffer_clear(&part->meta);
    for (size_t i = 0; i < STORAGE_NOTE_COUNT; i++)
        buffer_clear(&part->notes[i]);
    tenant_counts_clear(&part->counts.tenant_counts);
    part->counts.trim = (struct wall){0};
    part->counts.pending = 0;
    part->serial_max = 0;
    part->is_torn = false;
}
