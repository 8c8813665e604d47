/* manifest.c - reads the framing of RocksDB's manifests, to tell torn ends from damage. */
#include "store/manifest.h"

#include "base/checksum.h"

enum {
    HEADER_SIZE = 7,
    RECYCLED_HEADER_SIZE = 11, /* includes the number of its log */
};

enum record_kind {
    RECORD_NONE, /* unused room */
    RECORD_FULL,
    RECORD_FIRST,
    RECORD_MIDDLE,
    RECORD_LAST,
    RECORD_RECYCLED, /* added to the four above */
    RECORD_KINDS = 9,
};

#define SUM_MASK 0xa282ead8u /* checksums of data with checksums are stored masked */

/* One part of a record. */
struct part {
    enum record_kind kind;
    size_t size; /* including its header */
};

void manifest_begin(struct manifest *manifest)
{
    *manifest = (struct manifest){.records = 0};
}

static void manifest_set_broken(struct manifest *manifest, uint64_t at)
{
    if (!manifest->is_broken)
        manifest->broken_at = at;
    manifest->is_broken = manifest->was_broken_ = true;
    manifest->is_open_ = false;
}

static bool manifest_parse(struct bytes block, size_t at, struct part *ret_part)
{
    const char *data = block.data + at;
    size_t room = block.size - at;

    if (room < HEADER_SIZE)
        return false;
    const uint64_t body = get_le(data + 4, 2);
    ret_part->kind = (enum record_kind)(uint8_t)data[6];
    if (ret_part->kind == RECORD_NONE || ret_part->kind >= RECORD_KINDS)
        return false;
    size_t header = HEADER_SIZE;
    if (ret_part->kind >= RECORD_RECYCLED) {
        header = RECYCLED_HEADER_SIZE;
        ret_part->kind = (enum record_kind)(ret_part->kind - RECORD_RECYCLED + RECORD_FULL);
    }
    ret_part->size = header + body;
    if (ret_part->size > room)
        return false;
    uint32_t sum = checksum_crc32c(0, data + 6, ret_part->size - 6);
    return get_le(data, 4) == (uint32_t)((sum >> 15 | sum << 17) + SUM_MASK);
}

static void manifest_finish(struct manifest *manifest)
{
    manifest->records++;
    manifest->is_open_ = false;
    if (manifest->was_broken_ && !manifest->has_loss) {
        manifest->has_loss = true;
        if (!manifest->is_broken)
            manifest_set_broken(manifest, manifest->hole_at_);
    }
    manifest->was_broken_ = false;
}

static void manifest_take(struct manifest *manifest, const struct part *part, uint64_t at)
{
    const bool begins = part->kind == RECORD_FULL || part->kind == RECORD_FIRST;

    if (begins) {
        if (manifest->is_open_)
            manifest_set_broken(manifest, manifest->record_at_);
        manifest->is_open_ = true;
        manifest->record_at_ = at;
    } else if (!manifest->is_open_) {
        manifest_set_broken(manifest, at); /* the rest of a record whose first part is damaged */
        return;
    }
    if (part->kind == RECORD_FULL || part->kind == RECORD_LAST)
        manifest_finish(manifest);
}

static bool manifest_is_zero(const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (data[i])
            return false;
    return true;
}

/* Notes zeros, which are unused room if nothing follows them. */
static void manifest_note_hole(struct manifest *manifest, uint64_t at)
{
    if (manifest->is_open_)
        manifest_set_broken(manifest, manifest->record_at_);
    if (!manifest->was_broken_)
        manifest->hole_at_ = at;
    manifest->was_broken_ = true;
}

void manifest_add(struct manifest *manifest, struct bytes block)
{
    size_t at = 0;
    while (at < block.size) {
        if (manifest_is_zero(block.data + at, block.size - at)) {
            if (block.size - at >= HEADER_SIZE)
                manifest_note_hole(manifest, manifest->offset_ + at);
            break; /* unused room at the end of a block, or of a preallocated file */
        }
        struct part part;
        if (manifest_parse(block, at, &part)) {
            manifest_take(manifest, &part, manifest->offset_ + at);
            at += part.size;
            continue;
        }
        /* Its size cannot be trusted either: the next valid one is searched everywhere. */
        manifest_set_broken(manifest, manifest->offset_ + at);
        do
            at++;
        while (at < block.size && !manifest_parse(block, at, &part));
    }
    manifest->offset_ += block.size;
}

void manifest_end(struct manifest *manifest)
{
    if (manifest->is_open_)
        manifest_set_broken(manifest, manifest->record_at_);
}
