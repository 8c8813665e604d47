/* Goal: any bytes as `targets` and `parts` of a timer are read within bounds, and what was read is
 * written and read again as it is. Method: the input's first half and second half. */
#include "timer/fanout.h"

#include "base/check.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fanout_fuzz_check_again(const struct fanout *fanout, struct timer *timer)
{
    char room[FANOUT_TEXT_SIZE_MAX];
    struct fanout again;

    timer->texts.parts = fanout_write(fanout, room);
    CHECK(fanout_read(timer, &again));
    CHECK(again.count == fanout->count && again.due.ms == fanout->due.ms &&
          again.started.ms == fanout->started.ms && again.known == fanout->known);
    for (size_t i = 0; i < again.count; i++) {
        const struct fanout_part *a = &again.parts[i], *b = &fanout->parts[i];

        CHECK(a->state == b->state && a->attempts == b->attempts && a->has_id == b->has_id);
        CHECK(!a->has_id || timer_id_equal(&a->id, &b->id));
        CHECK(bytes_equal(a->target, b->target) && a->last_error.size <= b->last_error.size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes targets = {(const char *)data, size / 2};
    const struct bytes parts = {(const char *)data + size / 2, size - size / 2};
    struct timer *timer = timer_alloc(&(struct timer_texts){.targets = targets, .parts = parts});
    struct timer_id parent;
    struct fanout fanout;

    CHECK(timer);
    fanout_is_part(timer, &parent);
    if (fanout_read(timer, &fanout)) {
        CHECK(fanout.count > 0 && fanout.count <= FANOUT_PARTS_MAX);
        fanout_fuzz_check_again(&fanout, timer);
    }
    timer_free(timer);
    return 0;
}
