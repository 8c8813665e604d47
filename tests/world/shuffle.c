/*
 * shuffle.c - the wheel may hand out equal deadlines in any order; here each run and each moment
 * draws an order at random. The linker puts this in place of tw_wheel_expire (CMakeLists.txt).
 */
#include "base/random.h"
#include "tickwheel/wheel.h"

size_t __real_tw_wheel_expire(struct tw_wheel *wheel, uint64_t now, struct tw_expired *ret_due,
                              size_t limit);
size_t __wrap_tw_wheel_expire(struct tw_wheel *wheel, uint64_t now, struct tw_expired *ret_due,
                              size_t limit);

static void shuffle(struct random *random, struct tw_expired *due, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        const size_t k = random_below(random, i);
        const struct tw_expired last = due[i - 1];

        due[i - 1] = due[k];
        due[k] = last;
    }
}

size_t __wrap_tw_wheel_expire(struct tw_wheel *wheel, uint64_t now, struct tw_expired *ret_due,
                              size_t limit)
{
    const size_t count = __real_tw_wheel_expire(wheel, now, ret_due, limit);
    struct random random = random_seeded(random_mix(now) ^ count);
    size_t end;

    for (size_t first = 0; first < count; first = end) {
        for (end = first; end < count && ret_due[end].deadline == ret_due[first].deadline; end++)
            continue;
        shuffle(&random, ret_due + first, end - first);
    }
    return count;
}
