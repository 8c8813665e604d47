/* Goal: no bytes in a FOLDER or CLOSED make reading it go out of bounds, no line gives a
 * name that leads out of the folder and that of its log, and a FOLDER has one encoding. Method: the
 * input with and without a head and a sum that fit. */
#include "base/checksum.h"
#include "store/folder.h"

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

/* A list with a sum that fits opens, and only by its own head. */
static struct bytes folder_seal_list(struct buffer *sealed, const char *head, struct bytes lines)
{
    buffer_clear(sealed);
    buffer_append_text(sealed, head);
    buffer_append_bytes(sealed, lines);
    buffer_printf(sealed, "sum %08x\n", checksum_crc32c(0, sealed->data, sealed->size));
    return buffer_bytes(sealed);
}

static void folder_read_identity(struct bytes text)
{
    struct folder_identity identity;
    struct buffer again;
    uint64_t format;

    if (folder_identity_decode(text, &identity, &format))
        return;
    buffer_init(&again);
    folder_identity_encode(&identity, &again);
    struct folder_identity read;
    assert(!folder_identity_decode(buffer_bytes(&again), &read, &format));
    assert(read.has_log == identity.has_log && read.cluster == identity.cluster &&
           memcmp(read.log_id, identity.log_id, LOG_ID_SIZE) == 0);
    buffer_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes lines = {size ? (const char *)data : NULL, size};
    struct bytes text = lines;

    folder_read_all(text);
    if (folder_closed_open(&text))
        folder_read_all(text);
    struct buffer sealed;
    buffer_init(&sealed);
    text = folder_seal_list(&sealed, "tickwheel closed 1\n", lines);
    assert(folder_closed_open(&text) && text.size == size);
    folder_read_all(text);
    text = folder_seal_list(&sealed, "tickwheel open 1\n", lines);
    assert(!folder_closed_open(&text));
    folder_read_identity(lines);
    folder_read_identity(folder_seal_list(&sealed, "tickwheel folder\nformat 6\n", lines));
    buffer_deinit(&sealed);
    return 0;
}
