/* store_key.c - writes and reads keys; see store_key.h. */
#include "store/store_key.h"

struct store_key store_row_key(struct record_key key)
{
    struct store_key bytes = {.size = RECORD_ROW_SIZE};

    put_be(bytes.data, key.high, 8);
    put_be(bytes.data + 8, key.low, 8);
    return bytes;
}

struct store_key store_pointer_key(struct record_key key)
{
    struct store_key bytes = {.size = RECORD_POINTER_SIZE};

    put_be(bytes.data, key.high, 2);
    put_be(bytes.data + 2, key.low, 8);
    return bytes;
}

/* Returns the key of a record that each partition has once in the meta table. */
static struct store_key store_key_of_partition(char letter, uint16_t partition)
{
    struct store_key bytes = {.data = {letter}, .size = 3};

    put_be(bytes.data + 1, partition, 2);
    return bytes;
}

struct store_key store_meta_key(uint16_t partition)
{
    return store_key_of_partition('p', partition);
}

struct store_key store_place_key(uint16_t partition)
{
    return store_key_of_partition('l', partition);
}

/* The letters of enum storage_note in keys. */
static const char store_note_letters[STORAGE_NOTE_COUNT] = {'h', 'o'};

struct store_key store_note_key(enum storage_note note, uint16_t partition)
{
    return store_key_of_partition(store_note_letters[note], partition);
}

struct store_tenant_key store_tenant_key(uint16_t partition, struct bytes tenant)
{
    struct store_tenant_key key = {.data = "t", .size = STORE_TENANT_SIZE + tenant.size};

    put_be(key.data + 1, partition, 2);
    if (tenant.size)
        memcpy(key.data + STORE_TENANT_SIZE, tenant.data, tenant.size);
    return key;
}

bool store_row_key_parse(struct bytes key, struct record_key *ret_key)
{
    if (key.size != RECORD_ROW_SIZE)
        return false;
    *ret_key = (struct record_key){get_be(key.data, 8), get_be(key.data + 8, 8)};
    return true;
}

bool store_pointer_key_parse(struct bytes key, struct record_key *ret_key)
{
    if (key.size != RECORD_POINTER_SIZE)
        return false;
    *ret_key = (struct record_key){get_be(key.data, 2), get_be(key.data + 2, 8)};
    return true;
}

static bool store_key_parse_partition(struct bytes key, char letter, uint16_t *ret_partition)
{
    if (key.size != 3 || key.data[0] != letter)
        return false;
    *ret_partition = (uint16_t)get_be(key.data + 1, 2);
    return true;
}

bool store_meta_key_parse(struct bytes key, uint16_t *ret_partition)
{
    return store_key_parse_partition(key, 'p', ret_partition);
}

bool store_place_key_parse(struct bytes key, uint16_t *ret_partition)
{
    return store_key_parse_partition(key, 'l', ret_partition);
}

bool store_note_key_parse(struct bytes key, enum storage_note *ret_note, uint16_t *ret_partition)
{
    for (size_t i = 0; i < STORAGE_NOTE_COUNT; i++)
        if (store_key_parse_partition(key, store_note_letters[i], ret_partition)) {
            *ret_note = (enum storage_note)i;
            return true;
        }
    return false;
}

bool store_tenant_key_parse(struct bytes key, uint16_t *ret_partition, struct bytes *ret_tenant)
{
    if (key.size <= STORE_TENANT_SIZE || key.data[0] != STORE_TENANT_PREFIX[0])
        return false;
    const struct bytes tenant = {key.data + STORE_TENANT_SIZE, key.size - STORE_TENANT_SIZE};
    if (!tenant_is_valid(tenant))
        return false;
    *ret_partition = (uint16_t)get_be(key.data + 1, 2);
    *ret_tenant = tenant;
    return true;
}
