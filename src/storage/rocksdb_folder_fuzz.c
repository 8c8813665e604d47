/* Goal: no bytes in a CLOSED make reading it go out of bounds, and no line gives a name that leads
 * out of the folder. Method: the input with and without a head and a sum that fit. */
#include "base/checksum.h"
#include "storage/rocksdb_folder.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void folder_read_all(struct bytes text)
{
    struct folder_file file;

    while (folder_closed_next(&text, &file)) {
        assert(file.name[0] && !strchr(file.name, '/'));
        assert(memchr(file.name, '\0', sizeof(file.name)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = {size ? (const char *)data : NULL, size};

    folder_read_all(text);
    if (folder_closed_open(&text))
        folder_read_all(text);
    struct buffer sealed;
    buffer_init(&sealed);
    buffer_append_text(&sealed, "tickwheel closed 1\n");
    buffer_append(&sealed, data, size);
    buffer_printf(&sealed, "sum %08x\n", checksum_crc32c(0, sealed.data, sealed.size));
    text = buffer_bytes(&sealed);
    assert(folder_closed_open(&text));
    assert(text.size == size);
    folder_read_all(text);
    buffer_deinit(&sealed);
    return 0;
}
