/* delivery_table.c - a hash table with linear probing, in memory and encoded. */
#include "delivery_log/delivery_table.h"

#include <assert.h>
#include <stdlib.h>

enum { TABLE_CAPACITY_MIN = 64 };

void delivery_table_deinit(struct delivery_table *table)
{
    free(table->slots);
    *table = (struct delivery_table){0};
}

static struct delivery_slot *delivery_table_slot(const struct delivery_table *table, uint32_t hash)
{
    uint32_t i = hash & (table->capacity - 1);

    while (table->slots[i].hash && table->slots[i].hash != hash)
        i = (i + 1) & (table->capacity - 1);
    return &table->slots[i];
}

bool delivery_table_reserve(struct delivery_table *table, uint32_t more)
{
    struct delivery_table larger = {.capacity = table->capacity, .count = table->count};

    if (!larger.capacity)
        larger.capacity = TABLE_CAPACITY_MIN;
    while (table->count + more > larger.capacity / 4 * 3)
        larger.capacity *= 2;
    if (larger.capacity == table->capacity)
        return true;
    larger.slots = calloc(larger.capacity, sizeof(*larger.slots));
    if (!larger.slots)
        return false;
    for (uint32_t i = 0; i < table->capacity; i++)
        if (table->slots[i].hash)
            *delivery_table_slot(&larger, table->slots[i].hash) = table->slots[i];
    free(table->slots);
    *table = larger;
    return true;
}

uint32_t delivery_table_put(struct delivery_table *table, uint32_t hash, uint32_t offset)
{
    struct delivery_slot *slot = delivery_table_slot(table, hash);
    const uint32_t before = slot->offset;

    assert(hash && offset);
    table->count += !slot->hash;
    assert(table->count < table->capacity);
    *slot = (struct delivery_slot){hash, offset};
    return before;
}

uint32_t delivery_table_get(const struct delivery_table *table, uint32_t hash)
{
    return table->capacity ? delivery_table_slot(table, hash)->offset : 0;
}

void delivery_table_encode(const struct delivery_table *table, struct buffer *to)
{
    const size_t size = (size_t)table->capacity * DELIVERY_SLOT_SIZE;
    char *slots = buffer_reserve(to, size);

    if (!slots)
        return;
    for (uint32_t i = 0; i < table->capacity; i++) {
        put_le(slots + i * DELIVERY_SLOT_SIZE, table->slots[i].hash, 4);
        put_le(slots + i * DELIVERY_SLOT_SIZE + 4, table->slots[i].offset, 4);
    }
    to->size += size;
}

uint32_t delivery_table_find(struct bytes slots, uint32_t hash)
{
    const size_t capacity = slots.size / DELIVERY_SLOT_SIZE;

    if (!capacity || (capacity & (capacity - 1)))
        return 0;
    for (size_t i = 0; i < capacity; i++) {
        const char *slot = slots.data + ((hash + i) & (capacity - 1)) * DELIVERY_SLOT_SIZE;
        const uint32_t found = (uint32_t)get_le(slot, 4);

        if (!found || found == hash)
            return found ? (uint32_t)get_le(slot + 4, 4) : 0;
    }
    return 0;
}
