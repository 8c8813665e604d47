/* delivery_ring.c - the segments of each tenant, and which of them are dropped. */
#include "delivery_log/delivery_ring.h"

#include "base/check.h"
#include "base/map.h"
#include "delivery_log/delivery_segment.h"
#include "sys/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    RING_BLOCK = 4096,            /* unit in which the bytes of files are counted */
    RING_SEGMENT_MAX = 1 << 20,   /* maximum size of a segment, without its table */
    RING_SEGMENTS = 64,           /* minimum of segments of a full ring */
    RING_TABLES_BYTES = 16 << 20, /* memory of the tables of segments that are not sealed */
};

#define RING_AGE_MS 60000 /* interval in which old segments are dropped */

/* The segments of a tenant. A tenant without segments keeps its lane, so there are at most as many
 * lanes as tenants. */
struct ring_lane {
    struct list segments;   /* oldest first */
    struct list dirty_link; /* in ring->dirty if its last segment has pending entries */
    uint64_t last_stamp;
    size_t tenant_size;
    char tenant[TENANT_SIZE_MAX];
};

struct delivery_ring {
    struct delivery_ring_options options;
    struct delivery_folder folder;
    char *path;                  /* path of the folder */
    uint64_t segment_bytes;      /* size from which a segment is sealed */
    struct map lanes;            /* by tenant_key */
    struct list dirty;           /* lanes */
    struct list loaded;          /* segments that are loaded, the last used one last */
    struct tenant_latest latest; /* segments, with their bytes */
    uint64_t next_number;        /* number of the next segment */
    uint64_t dropped, failed;    /* see struct delivery_ring_stats */
    struct error failure;        /* of the last write that failed */
    bool is_listed;   /* the segments of the folder are known; before, nothing is written */
    bool has_tried;   /* to make the folder since the last flush */
    struct wall aged; /* time at which old segments were dropped last */
};

static struct delivery_segment *delivery_ring_segment(struct list *link)
{
    return list_item(link, struct delivery_segment, link);
}

static struct bytes delivery_ring_tenant(const struct ring_lane *lane)
{
    return (struct bytes){lane->tenant, lane->tenant_size};
}

/* ---- lanes and segments ---- */

/* Returns the lane of a tenant, or a new one. NULL if out of memory, or if another tenant has an
 * equal key. */
static struct ring_lane *delivery_ring_lane(struct delivery_ring *ring, struct bytes tenant)
{
    struct ring_lane *lane = map_get(&ring->lanes, tenant_key(tenant));

    if (lane)
        return bytes_equal(delivery_ring_tenant(lane), tenant) ? lane : NULL;
    lane = calloc(1, sizeof(*lane));
    if (!lane || !map_put(&ring->lanes, tenant_key(tenant), lane)) {
        free(lane);
        return NULL;
    }
    list_init(&lane->segments);
    list_init(&lane->dirty_link);
    lane->tenant_size = tenant.size;
    if (tenant.size)
        memcpy(lane->tenant, tenant.data, tenant.size);
    return lane;
}

/* Counts the present bytes of the last segment of a lane. */
static void delivery_ring_account(struct delivery_ring *ring, const struct ring_lane *lane,
                                  struct delivery_segment *segment)
{
    const uint64_t bytes = (segment->bytes + RING_BLOCK - 1) / RING_BLOCK * RING_BLOCK;

    if (tenant_latest_has(&segment->place))
        tenant_latest_remove(&ring->latest, &segment->place);
    tenant_latest_add(&ring->latest, tenant_key(delivery_ring_tenant(lane)), &segment->place,
                      bytes);
}

/* Moves the segment to the end of ring->loaded if it is loaded; otherwise takes it out of that
 * list. */
static void delivery_ring_use(struct delivery_ring *ring, struct delivery_segment *segment)
{
    list_remove(&segment->loaded_link);
    if (segment->is_loaded)
        list_push(&ring->loaded, &segment->loaded_link);
}

static struct delivery_segment *delivery_ring_append(struct ring_lane *lane,
                                                     const struct delivery_segment *from)
{
    struct delivery_segment *segment = malloc(sizeof(*segment));

    if (!segment)
        return NULL;
    *segment = *from;
    list_init(&segment->loaded_link);
    list_init(&segment->link);
    list_push(&lane->segments, &segment->link);
    return segment;
}

static void delivery_ring_free(struct delivery_ring *ring, struct delivery_segment *segment)
{
    if (tenant_latest_has(&segment->place))
        tenant_latest_remove(&ring->latest, &segment->place);
    list_remove(&segment->loaded_link);
    list_remove(&segment->link);
    delivery_segment_deinit(segment);
    free(segment);
}

static void delivery_ring_drop(struct delivery_ring *ring, struct delivery_segment *segment)
{
    delivery_folder_remove(&ring->folder, segment->number);
    delivery_ring_free(ring, segment);
}

/* ---- opening ---- */

/* Adds the segment of a file to the lane of its tenant. Removes a corrupt file. One that cannot be
 * read now stays for the next start, because the cause may pass. Returns false if out of memory. */
static bool delivery_ring_find(struct delivery_ring *ring, uint64_t number)
{
    char tenant[TENANT_SIZE_MAX];
    struct delivery_segment found;
    size_t tenant_size = 0;

    const enum error_code code =
        delivery_segment_open(&ring->folder, number, &found, tenant, &tenant_size);
    if (code == ERROR_CORRUPT)
        delivery_folder_remove(&ring->folder, number);
    if (code) {
        ring->folder.damaged++;
        return true;
    }
    struct ring_lane *lane = delivery_ring_lane(ring, (struct bytes){tenant, tenant_size});
    struct delivery_segment *segment = lane ? delivery_ring_append(lane, &found) : NULL;
    if (!segment)
        return false;
    delivery_ring_account(ring, lane, segment);
    if (found.last_stamp > lane->last_stamp)
        lane->last_stamp = found.last_stamp;
    return true;
}

static enum error_code delivery_ring_find_all(struct delivery_ring *ring, struct error *ret_error)
{
    struct delivery_listing listing = {0};
    enum error_code code = delivery_folder_list(&ring->folder, &listing, ret_error);

    if (!code) {
        ring->next_number = listing.next_number;
        ring->is_listed = true;
    }
    for (size_t i = 0; !code && i < listing.count; i++)
        if (!delivery_ring_find(ring, listing.numbers[i]))
            code = error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    free(listing.numbers);
    return code;
}

/* Notes whether the disk is full, for the whole of a call. */
static void delivery_ring_look(struct delivery_ring *ring)
{
    ring->folder.is_full = ring->options.is_disk_full && atomic_load(ring->options.is_disk_full);
}

/* Makes the folder unless the disk is full, and finds its segments. */
static enum error_code delivery_ring_prepare(struct delivery_ring *ring, struct error *ret_error)
{
    enum error_code code = ERROR_NONE;

    ring->has_tried = true;
    if (!ring->folder.is_full)
        code = ring->folder.disk->make_folder(ring->folder.disk, ring->path, ret_error);
    return code ? code : delivery_ring_find_all(ring, ret_error);
}

enum error_code delivery_ring_open(const struct delivery_ring_options *options,
                                   struct delivery_ring **ret_ring, struct error *ret_error)
{
    struct delivery_ring *ring = calloc(1, sizeof(*ring));

    assert(options->bytes_max >= DELIVERY_RING_BYTES_MIN);
    if (!ring)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    ring->options = *options;
    ring->folder.disk = options->disk ? options->disk : disk_system();
    ring->folder.path = ring->path = strdup(options->folder);
    ring->folder.failed = &ring->failure;
    ring->segment_bytes = options->bytes_max / RING_SEGMENTS;
    if (ring->segment_bytes > RING_SEGMENT_MAX)
        ring->segment_bytes = RING_SEGMENT_MAX;
    ring->next_number = 1;
    list_init(&ring->dirty);
    list_init(&ring->loaded);
    tenant_latest_init(&ring->latest);
    delivery_ring_look(ring);
    enum error_code code = ring->path ? delivery_ring_prepare(ring, ret_error)
                                      : error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    if (code == ERROR_DISK_FULL || (code == ERROR_IO && ring->folder.is_full))
        code = ERROR_NONE; /* the folder is not there */
    if (code)
        delivery_ring_close(ring);
    else
        *ret_ring = ring;
    return code;
}

void delivery_ring_close(struct delivery_ring *ring)
{
    size_t cursor = 0;

    if (!ring)
        return;
    for (struct ring_lane *lane; (lane = map_next(&ring->lanes, &cursor)); free(lane))
        LIST_FOR_EACH (&lane->segments, link)
            delivery_ring_free(ring, delivery_ring_segment(link));
    map_deinit(&ring->lanes);
    tenant_latest_deinit(&ring->latest);
    free(ring->path);
    free(ring);
}

/* ---- adding ---- */

/* Makes a segment that is not sealed searchable: loads it, and seals it unless it is the last one
 * or the disk is full. */
static bool delivery_ring_load(struct delivery_ring *ring, struct ring_lane *lane,
                               struct delivery_segment *segment)
{
    if (segment->has_tail && !ring->folder.is_full)
        delivery_segment_unload(segment);
    if (!segment->is_loaded && delivery_segment_load(&ring->folder, segment))
        return false;
    if (segment->last_stamp > lane->last_stamp)
        lane->last_stamp = segment->last_stamp;
    if (segment->link.next != &lane->segments && !ring->folder.is_full &&
        delivery_segment_seal(&ring->folder, segment))
        return false;
    delivery_ring_account(ring, lane, segment);
    delivery_ring_use(ring, segment);
    return true;
}

static void delivery_ring_write(struct delivery_ring *ring, struct ring_lane *lane)
{
    struct delivery_segment *segment = delivery_ring_segment(lane->segments.prev);

    const uint32_t count = segment->pending_count;

    list_remove(&lane->dirty_link);
    if (ring->folder.is_full)
        delivery_segment_unload(segment);
    if (ring->folder.is_full) {
        ring->dropped += count;
    } else if (delivery_segment_flush(&ring->folder, segment)) {
        ring->dropped += count;
        ring->failed += count;
    }
    delivery_ring_account(ring, lane, segment);
    delivery_ring_use(ring, segment);
}

/* Returns the last segment, loaded and with room for an entry of this size, or a new one. NULL if
 * the disk refuses it. */
static struct delivery_segment *delivery_ring_open_segment(struct delivery_ring *ring,
                                                           struct ring_lane *lane, size_t size)
{
    struct delivery_segment *last =
        list_is_empty(&lane->segments) ? NULL : delivery_ring_segment(lane->segments.prev);
    struct delivery_segment made;

    if (last && ((last->is_loaded && !last->has_tail) ||
                 (!last->is_sealed && delivery_ring_load(ring, lane, last)))) {
        if (last->bytes + last->pending.size + size <= ring->segment_bytes)
            return last;
        delivery_ring_write(ring, lane);
        if (last->is_loaded)
            delivery_segment_seal(&ring->folder, last);
        delivery_ring_account(ring, lane, last);
        delivery_ring_use(ring, last);
    }
    const struct bytes tenant = delivery_ring_tenant(lane);
    if (delivery_segment_make(&ring->folder, ring->next_number, tenant, &made)) {
        if (ring->has_tried)
            return NULL;
        ring->has_tried = true; /* the folder may have been removed */
        if (!delivery_folder_remake(&ring->folder) ||
            delivery_segment_make(&ring->folder, ring->next_number, tenant, &made))
            return NULL;
    }
    ring->next_number++;
    struct delivery_segment *segment = delivery_ring_append(lane, &made);
    if (segment) {
        delivery_ring_account(ring, lane, segment);
        delivery_ring_use(ring, segment);
    }
    return segment;
}

void delivery_ring_add(struct delivery_ring *ring, struct bytes tenant, struct bytes encoded)
{
    const uint64_t ended_us = delivery_entry_ended_us(encoded);
    struct ring_lane *lane = NULL;

    delivery_ring_look(ring);
    if (!ring->folder.is_full && !ring->is_listed && !ring->has_tried)
        delivery_ring_prepare(ring, &ring->failure);
    if (!ring->folder.is_full && ring->is_listed)
        lane = delivery_ring_lane(ring, tenant);
    struct delivery_segment *segment =
        lane ? delivery_ring_open_segment(ring, lane, encoded.size) : NULL;
    if (!segment) {
        ring->dropped++;
        ring->failed += !ring->folder.is_full;
        return;
    }
    const uint64_t stamp = ended_us > lane->last_stamp ? ended_us : lane->last_stamp + 1;
    if (!delivery_segment_add(segment, encoded, stamp)) {
        ring->dropped++;
        return;
    }
    lane->last_stamp = stamp;
    if (list_is_empty(&lane->dirty_link))
        list_push(&ring->dirty, &lane->dirty_link);
}

/* ---- dropping ---- */

static uint64_t delivery_ring_oldest_us(const struct delivery_ring *ring, struct wall now)
{
    const uint64_t age_ms = ring->options.age_ms_max;

    return now.ms > age_ms ? (now.ms - age_ms) * 1000 : 0;
}

/* Drops the segments of a lane whose last delivery is too old. The lane has no pending entries. */
static void delivery_ring_drop_old(struct delivery_ring *ring, struct ring_lane *lane,
                                   uint64_t oldest_us)
{
    LIST_FOR_EACH (&lane->segments, link) {
        struct delivery_segment *segment = delivery_ring_segment(link);

        if (!segment->is_sealed && !delivery_ring_load(ring, lane, segment))
            return;
        if (segment->last_stamp >= oldest_us)
            return;
        delivery_ring_drop(ring, segment);
    }
}

/* Unloads the segments that were used least recently, until the tables of the others fit. */
static void delivery_ring_limit_tables(struct delivery_ring *ring)
{
    size_t bytes = 0;

    LIST_FOR_EACH (&ring->loaded, link)
        bytes += list_item(link, struct delivery_segment, loaded_link)->table.capacity *
                 sizeof(struct delivery_slot);
    while (bytes > RING_TABLES_BYTES) {
        struct delivery_segment *segment =
            list_item(ring->loaded.next, struct delivery_segment, loaded_link);

        bytes -= segment->table.capacity * sizeof(struct delivery_slot);
        delivery_segment_unload(segment);
        delivery_ring_use(ring, segment);
    }
}

void delivery_ring_flush(struct delivery_ring *ring, struct wall now)
{
    struct tenant_latest_place *place;
    size_t cursor = 0;

    delivery_ring_look(ring);
    ring->has_tried = false;
    while (!list_is_empty(&ring->dirty))
        delivery_ring_write(ring, list_item(ring->dirty.next, struct ring_lane, dirty_link));
    while (ring->latest.amount > ring->options.bytes_max &&
           (place = tenant_latest_first(&ring->latest)))
        delivery_ring_drop(ring, list_item(place, struct delivery_segment, place));
    delivery_ring_limit_tables(ring);
    if (wall_since(ring->aged, now) < RING_AGE_MS && now.ms >= ring->aged.ms)
        return;
    ring->aged = now;
    for (struct ring_lane *lane; (lane = map_next(&ring->lanes, &cursor));)
        delivery_ring_drop_old(ring, lane, delivery_ring_oldest_us(ring, now));
}

/* ---- searching ---- */

/* True if every stamp of the segment is at or above `before`. All of them are above the last stamp
 * of the previous segment. */
static bool delivery_ring_is_later(const struct ring_lane *lane,
                                   const struct delivery_segment *segment, uint64_t before)
{
    return segment->link.prev != &lane->segments &&
           delivery_ring_segment(segment->link.prev)->last_stamp + 1 >= before;
}

void delivery_ring_search(struct delivery_ring *ring, struct delivery_query *query, struct wall now)
{
    const uint64_t oldest_us = delivery_ring_oldest_us(ring, now);
    struct ring_lane *lane = map_get(&ring->lanes, tenant_key(query->tenant));

    delivery_ring_look(ring);
    query->next = 0;
    if (query->since < oldest_us)
        query->since = oldest_us;
    if (!lane || !bytes_equal(delivery_ring_tenant(lane), query->tenant))
        return;
    if (!list_is_empty(&lane->dirty_link))
        delivery_ring_write(ring, lane);
    struct list *link = lane->segments.prev;
    for (; link != &lane->segments && !delivery_query_is_full(query); link = link->prev) {
        struct delivery_segment *segment = delivery_ring_segment(link);

        if (delivery_ring_is_later(lane, segment, query->before))
            continue;
        if (!segment->is_sealed && !delivery_ring_load(ring, lane, segment)) {
            ring->folder.damaged += !segment->is_damaged;
            segment->is_damaged = true;
            continue;
        }
        if (!delivery_segment_search(&ring->folder, segment, query))
            break;
    }
    if (!delivery_query_is_full(query))
        query->next = 0;
}

void delivery_ring_stats(const struct delivery_ring *ring, struct delivery_ring_stats *ret_stats)
{
    *ret_stats = (struct delivery_ring_stats){.bytes = ring->latest.amount,
                                              .dropped = ring->dropped,
                                              .failed = ring->failed,
                                              .damaged = ring->folder.damaged};
}

const struct error *delivery_ring_failure(const struct delivery_ring *ring)
{
    return &ring->failure;
}

void delivery_ring_check(const struct delivery_ring *ring)
{
    size_t cursor = 0;
    uint64_t amount = 0;

    for (const struct ring_lane *lane; (lane = map_next(&ring->lanes, &cursor));) {
        uint64_t number = 0, last_stamp = 0;

        LIST_FOR_EACH (&lane->segments, link) {
            const struct delivery_segment *segment = delivery_ring_segment(link);

            CHECK(segment->number > number && segment->number < ring->next_number);
            CHECK(segment->last_stamp == 0 || segment->last_stamp > last_stamp);
            CHECK(!(segment->is_sealed && segment->is_loaded));
            CHECK(!segment->pending.size ||
                  (!list_is_empty(&lane->dirty_link) && link->next == &lane->segments));
            CHECK(segment->is_loaded == !list_is_empty(&segment->loaded_link));
            number = segment->number;
            last_stamp = segment->last_stamp;
            amount += segment->place.amount_;
        }
        CHECK(last_stamp <= lane->last_stamp);
    }
    CHECK(amount == ring->latest.amount);
}
