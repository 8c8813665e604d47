/*
 * storage_writing.h - for tests: writes batches to a storage without keeping them in a log.
 */
#ifndef TICKWHEEL_STORE_STORAGE_WRITING_H
#define TICKWHEEL_STORE_STORAGE_WRITING_H

#include "store/storage.h"

/* Applies batches of one partition as one body. Its place is the next one. */
static inline enum error_code storage_write_body(struct storage *storage,
                                                 struct storage_batch *const *batches, size_t count,
                                                 struct error *ret_error)
{
    const uint16_t partition = batches[0]->partition;
    struct storage_place place;
    struct buffer body;

    enum error_code code = storage_load_place(storage, partition, &place, ret_error);
    if (code)
        return code;
    place.next++;
    buffer_init(&body);
    code = storage_prepare(storage, batches, count, &body, ret_error);
    if (!code)
        code = storage_apply(storage, partition, buffer_bytes(&body), &place, ret_error);
    buffer_deinit(&body);
    return code;
}

/* Writes the batches in order. Consecutive batches of one partition take effect together or not at
 * all. After a failure the later ones have no effect. */
static inline enum error_code storage_write(struct storage *storage,
                                            struct storage_batch *const *batches, size_t count,
                                            struct error *ret_error)
{
    enum error_code code = ERROR_NONE;

    for (size_t begin = 0, end; begin < count && !code; begin = end) {
        for (end = begin + 1; end < count && batches[end]->partition == batches[begin]->partition;)
            end++;
        code = storage_write_body(storage, batches + begin, end - begin, ret_error);
    }
    return code;
}

#endif
