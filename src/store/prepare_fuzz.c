/* Goal: no body makes a storage that follows a log fail otherwise than by refusing it. Method: the
 * input is a body, whose checksum is made to fit half of the time; it is applied to a storage in
 * memory, all of which is then read. */
#include "store/testing/memory.h"
#include "store/rowop.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void prepare_fuzz_read(struct storage *storage)
{
    const struct storage_scan scan = {
        .kind = STORAGE_SCAN_ALL, .to = {WALL_NEVER, 0}, .rows_max = 100, .bytes_max = SIZE_MAX};
    struct tenant_counts tenant_counts;
    struct storage_page page;
    struct storage_meta meta;

    assert(storage_scan(storage, &scan, &page, NULL) == ERROR_NONE);
    storage_page_free(&page);
    assert(storage_load_meta(storage, 0, &meta, NULL) == ERROR_NONE);
    tenant_counts_init(&tenant_counts);
    assert(storage_load_tenant_counts(storage, 0, &tenant_counts, NULL) == ERROR_NONE);
    tenant_counts_deinit(&tenant_counts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct storage_place place = {.next = 1};

    if (size < 1)
        return 0;
    struct storage *storage = memory_storage_create(1);
    if (!storage)
        return 0;
    struct buffer body;
    buffer_init(&body);
    buffer_append(&body, data + 1, size - 1);
    if (data[0] & 1)
        rowop_end(&body, 0);
    if (storage_apply(storage, 0, buffer_bytes(&body), &place, NULL) == ERROR_NONE)
        prepare_fuzz_read(storage);
    buffer_deinit(&body);
    storage_close(storage);
    return 0;
}
