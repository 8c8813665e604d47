/* Hashes of keys, events and Idempotency-Keys, and the names that a timer carries. */
#include "timer/name.h"

static uint64_t name_seed_of(struct name_space space, enum name_kind kind)
{
    uint64_t seed = (uint64_t)space.partition << 8 | (uint64_t)kind;

    return space.tenant.size ? bytes_hash(seed, space.tenant) : seed;
}

uint64_t name_hash(struct name_space space, enum name_kind kind, struct bytes text)
{
    return bytes_hash(name_seed_of(space, kind), text);
}

uint64_t name_hash_request(struct name_space space, struct bytes key, struct bytes request)
{
    return bytes_hash(bytes_hash(name_seed_of(space, NAME_REQUEST), key), request);
}

bool name_next(struct name_walk *walk, struct name *ret_name)
{
    const struct timer_texts *texts = &walk->timer->texts;
    const struct name_space space = name_space_of(walk->timer);

    if (walk->step_ == 0) {
        walk->step_ = 1;
        walk->watch_ = texts->watch;
        if (texts->key.size) {
            *ret_name = (struct name){NAME_KEY, name_hash(space, NAME_KEY, texts->key)};
            return true;
        }
    }
    if (walk->step_ == 1) {
        walk->step_ = 2;
        if (texts->request.size) {
            *ret_name =
                (struct name){NAME_REQUEST, name_hash_request(space, texts->key,
                                                              name_of_request(texts->request))};
            return true;
        }
    }
    struct bytes text;
    if (!timer_watch_next(&walk->watch_, &text))
        return false;
    *ret_name = (struct name){NAME_WATCH, name_hash(space, NAME_WATCH, text)};
    return true;
}

bool name_fits(const struct timer *timer, enum name_kind kind, struct bytes text)
{
    struct bytes watch = timer->texts.watch;

    switch (kind) {
    case NAME_KEY:
        return bytes_equal(timer->texts.key, text);
    case NAME_REQUEST:
        return bytes_equal(name_of_request(timer->texts.request), text);
    case NAME_WATCH:
        break;
    }
    struct bytes name;
    while (timer_watch_next(&watch, &name))
        if (bytes_equal(name, text))
            return true;
    return false;
}
