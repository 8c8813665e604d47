/*
 * store_key.h - the keys of stored records as bytes, in tables and in row operations; see
 * record.h.
 *
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_STORE_STORE_KEY_H
#define TICKWHEEL_STORE_STORE_KEY_H

#include "store/record.h"

/* "t" and the partition, before the tenant's name. */
#define STORE_TENANT_PREFIX "t"
#define STORE_TENANT_SIZE   3

struct store_key {
    char data[RECORD_ROW_SIZE];
    size_t size;
};

/* Key of the number of a tenant's live timers in a partition, in the meta table. */
struct store_tenant_key {
    char data[STORE_TENANT_SIZE + TENANT_SIZE_MAX];
    size_t size;
};

struct store_key store_row_key(struct record_key key); /* for a name's entry too */
struct store_key store_pointer_key(struct record_key key);
struct store_key store_meta_key(uint16_t partition);
struct store_key store_place_key(uint16_t partition);
struct store_key store_note_key(enum storage_note note, uint16_t partition);
struct store_tenant_key store_tenant_key(uint16_t partition, struct bytes tenant);

/* Returns false if it is no such key. */
bool store_row_key_parse(struct bytes key, struct record_key *ret_key);
bool store_pointer_key_parse(struct bytes key, struct record_key *ret_key);
bool store_meta_key_parse(struct bytes key, uint16_t *ret_partition);
bool store_place_key_parse(struct bytes key, uint16_t *ret_partition);
bool store_note_key_parse(struct bytes key, enum storage_note *ret_note, uint16_t *ret_partition);
bool store_tenant_key_parse(struct bytes key, uint16_t *ret_partition, struct bytes *ret_tenant);

#endif
