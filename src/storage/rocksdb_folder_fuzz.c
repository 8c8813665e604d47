/* Goal: no bytes in a CLOSED or LIVE make reading it go out of bounds, and no line gives a name
 * that leads out of the folder and that of its log. Method: the input with and without a head and a
 * sum that fit. */
#include "base/checksum.h"
#include "storage/rocksdb_folder.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void folder_read_all(struct bytes text)
{
    struct folder_file file;

    while (folder_closed_next(&text, &file)) {
        const size_t skipped = strncmp(file.name, FOLDER_LOG_NAME "/", 4) == 0 ? 4 : 0;

        assert(file.name[skipped] && !strchr(file.name + skipped, '/'));
        assert(strcmp(file.name + skipped, ".") != 0 && strcmp(file.name + skipped, "..") != 0);
        assert(memchr(file.name, '\0', sizeof(file.name)));
    }
}

static void folder_read_logs(struct bytes text)
{
    const size_t size = text.size;
    struct folder_log log;

    while (folder_live_next(&text, &log))
        assert(text.size < size);
}

/* A list with a sum that fits opens, and only by its own head. */
static struct bytes folder_seal_list(struct buffer *sealed, const char *head, struct bytes lines)
{
    buffer_clear(sealed);
    buffer_append_text(sealed, head);
    buffer_append_bytes(sealed, lines);
    buffer_printf(sealed, "sum %08x\n", checksum_crc32c(0, sealed->data, sealed->size));
    return buffer_bytes(sealed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes lines = {size ? (const char *)data : NULL, size};
    struct bytes text = lines;

    folder_read_all(text);
    folder_read_logs(text);
    if (folder_closed_open(&text))
        folder_read_all(text);
    text = lines;
    if (folder_live_open(&text))
        folder_read_logs(text);
    struct buffer sealed;
    buffer_init(&sealed);
    text = folder_seal_list(&sealed, "tickwheel closed 1\n", lines);
    assert(!folder_live_open(&text) && folder_closed_open(&text) && text.size == size);
    folder_read_all(text);
    text = folder_seal_list(&sealed, "tickwheel live 1\n", lines);
    assert(!folder_closed_open(&text) && folder_live_open(&text) && text.size == size);
    folder_read_logs(text);
    buffer_deinit(&sealed);
    return 0;
}
