/* Owners in classes by the number of bits of their amounts: the highest class that has one has an
 * owner of more than half of the most. */
#include "timer/tenant_latest.h"

#include <assert.h>
#include <stdlib.h>

static unsigned tenant_latest_class(uint64_t amount)
{
    return amount ? 64 - (unsigned)__builtin_clzll(amount) : 0;
}

static void tenant_latest_owner_init(struct tenant_latest_owner *owner, uint64_t key)
{
    *owner = (struct tenant_latest_owner){.key = key};
    list_init(&owner->link_);
    list_init(&owner->things);
}

void tenant_latest_init(struct tenant_latest *latest)
{
    latest->amount = 0;
    map_init(&latest->owners_);
    for (size_t i = 0; i < sizeof(latest->classes_) / sizeof(latest->classes_[0]); i++)
        list_init(&latest->classes_[i]);
    tenant_latest_owner_init(&latest->others_, 0);
}

void tenant_latest_deinit(struct tenant_latest *latest)
{
    size_t cursor = 0;

    for (struct tenant_latest_owner *owner; (owner = map_next(&latest->owners_, &cursor));)
        free(owner);
    map_deinit(&latest->owners_);
}

static struct tenant_latest_owner *tenant_latest_owner(struct tenant_latest *latest, uint64_t key)
{
    struct tenant_latest_owner *owner = map_get(&latest->owners_, key);

    if (owner)
        return owner;
    owner = malloc(sizeof(*owner));
    if (owner && map_put(&latest->owners_, key, owner)) {
        tenant_latest_owner_init(owner, key);
        return owner;
    }
    free(owner);
    return &latest->others_;
}

static void tenant_latest_set(struct tenant_latest *latest, struct tenant_latest_owner *owner,
                              uint64_t amount)
{
    const bool is_listed = owner->link_.next != &owner->link_;

    latest->amount += amount - owner->amount;
    if (!is_listed || tenant_latest_class(amount) != tenant_latest_class(owner->amount)) {
        list_remove(&owner->link_);
        list_push(&latest->classes_[tenant_latest_class(amount)], &owner->link_);
    }
    owner->amount = amount;
}

void tenant_latest_add(struct tenant_latest *latest, uint64_t tenant,
                       struct tenant_latest_place *place, uint64_t amount)
{
    struct tenant_latest_owner *owner = tenant_latest_owner(latest, tenant);

    *place = (struct tenant_latest_place){.owner_ = owner, .amount_ = amount};
    list_init(&place->link_);
    list_push(&owner->things, &place->link_);
    tenant_latest_set(latest, owner, owner->amount + amount);
}

void tenant_latest_remove(struct tenant_latest *latest, struct tenant_latest_place *place)
{
    struct tenant_latest_owner *owner = place->owner_;

    assert(owner && owner->amount >= place->amount_);
    list_remove(&place->link_);
    tenant_latest_set(latest, owner, owner->amount - place->amount_);
    *place = (struct tenant_latest_place){.owner_ = NULL};
    if (!list_is_empty(&owner->things))
        return;
    list_remove(&owner->link_);
    if (owner == &latest->others_)
        return;
    map_remove(&latest->owners_, owner->key);
    free(owner);
}

struct tenant_latest_place *tenant_latest_first(const struct tenant_latest *latest)
{
    for (size_t i = sizeof(latest->classes_) / sizeof(latest->classes_[0]); i-- > 0;) {
        const struct list *class = &latest->classes_[i];

        if (list_is_empty(class))
            continue;
        struct tenant_latest_owner *owner =
            list_item(class->next, struct tenant_latest_owner, link_);
        return list_item(owner->things.next, struct tenant_latest_place, link_);
    }
    return NULL;
}
