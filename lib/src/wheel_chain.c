/* wheel_chain.c - the chunks of a bucket, one after another. */
#include "wheel_private.h"

void tw__wheel_chain_link(struct tw_wheel *wheel, struct wheel_chain *chain,
                          struct wheel_chunk *chunk)
{
    chunk->next = NULL;
    chunk->stamp = wheel->sweep_number;
    if (chain->head) {
        struct wheel_chunk *last = tw__wheel_chunk_of(chain->end);
        last->count = (uint32_t)(chain->end - last->entries);
        last->next = chunk;
    } else {
        chain->head = chunk;
    }
    chain->end = chunk->entries;
    chain->limit = chunk->entries + CHUNK_ENTRIES;
}

struct wheel_chunk *tw__wheel_chain_detach(struct wheel_chain *chain)
{
    struct wheel_chunk *chunk = chain->head;
    if (chunk == tw__wheel_chunk_of(chain->end)) {
        chunk->count = (uint32_t)(chain->end - chunk->entries);
        *chain = (struct wheel_chain){0};
    } else {
        chain->head = chunk->next;
    }
    return chunk;
}
