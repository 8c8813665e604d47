/*
 * tenant.h - the name of a tenant: the owner of timers. The empty name is the unnamed tenant,
 * which owns everything where there are no tokens.
 *
 * Threads    None; a pure function.
 */
#ifndef TICKWHEEL_TIMER_TENANT_H
#define TICKWHEEL_TIMER_TENANT_H

#include "base/bytes.h"
#include "base/random.h"

#define TENANT_SIZE_MAX 64

/* True if the name has 1 to TENANT_SIZE_MAX characters of A-Z a-z 0-9 . _ - */
static inline bool tenant_is_valid(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i], letter = (char)(c | 0x20);

        if (!(c >= '0' && c <= '9') && !(letter >= 'a' && letter <= 'z') && c != '.' && c != '_' &&
            c != '-')
            return false;
    }
    return name.size > 0 && name.size <= TENANT_SIZE_MAX;
}

/* Returns the hash by which tenants take turns and have shares. */
static inline uint64_t tenant_key(struct bytes name)
{
    return random_mix(bytes_hash(0, name));
}

#endif
