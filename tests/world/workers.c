/* workers.c - simulated workers on the real queue of leases; checks leases and answers. */
#include "workers.h"

#include "judge.h"
#include "world.h"

#include <assert.h>
#include <stdlib.h>

enum { ASKS_MAX = 2, MS = 1000000 };

#define CREW_MS_MAX (UINT64_C(100) * 365 * 24 * 3600 * 1000)

static const char LEASE[] = "a lease lasts as long as was asked for, and no longer";
static const char ACK[] = "an answer of the queue is true";

static struct crew *crew_of(struct world *world, uint16_t partition)
{
    return &world->workers.crews[partition];
}

/* Returns the time of the process, which counts from its start. A process lasts at most some
 * centuries. */
static struct instant instant_of(const struct world *world, const struct crew *crew)
{
    return instant_add_ms((struct instant){0}, world_ms(world) - crew->start_ms);
}

void workers_init(struct world *world)
{
    world->workers = (struct workers){0};
    list_init(&world->workers.jobs);
    for (size_t p = 0; p < PARTITIONS_MAX; p++)
        list_init(&world->workers.crews[p].asks);
}

static void free_job(struct worker_job *job)
{
    list_remove(&job->link);
    free(job);
}

void workers_forget(struct world *world)
{
    struct list *link;

    while ((link = list_pop(&world->workers.jobs)))
        free(list_item(link, struct worker_job, link));
}

void workers_start(struct world *world, uint16_t partition)
{
    struct crew *crew = crew_of(world, partition);

    crew->start_ms = world_ms(world);
    uint8_t secret[QUEUE_SECRET_SIZE] = {0};
    put_le(secret, random_next(&world->random), 8);
    put_le(secret + 8, random_next(&world->random), 8);
    crew->queue = queue_create(secret, 0, instant_of(world, crew));
    assert(crew->queue);
    crew->number++;
    crew->held = 0;
}

void workers_end(struct world *world, uint16_t partition)
{
    struct crew *crew = crew_of(world, partition);

    queue_destroy(crew->queue);
    crew->queue = NULL;
    struct list *link;
    while ((link = list_pop(&crew->asks)))
        free(list_item(link, struct worker_ask, link));
}

/* ---- asking ---- */

static uint64_t draw_lease(struct world *world)
{
    if (world->is_quiet)
        return 1000 + world->plan.answer_delay_ms;
    return 1 + world_skewed(world, world->plan.timeout_ms_max);
}

/* Asks for as many items as there is room for. If `is_patient`, the worker waits for long. */
static void ask(struct world *world, struct sim_partition *partition, bool is_patient)
{
    struct crew *crew = crew_of(world, partition->index);
    uint64_t room = world->plan.pulled_max;

    room -= crew->held < room ? crew->held : room;
    size_t asks = 0;
    LIST_FOR_EACH (&crew->asks, link) {
        const uint32_t items = list_item(link, struct worker_ask, link)->request.items_max;

        room -= items < room ? items : room;
        asks++;
    }
    if (room == 0 || asks == ASKS_MAX || partition->is_draining)
        return;
    struct worker_ask *ask = calloc(1, sizeof(*ask));
    assert(ask);
    ask->request.kind = QUEUE_LEASE;
    ask->request.queue = BYTES("sim");
    ask->request.items_max = 1 + (uint32_t)world_skewed(world, room - 1);
    ask->request.bytes_max = world_chance(world, 800) ? SIZE_MAX : 1;
    ask->request.lease_ms = draw_lease(world);
    ask->request.wait_until = instant_of(world, crew);
    if (is_patient || asks == 0 || world_chance(world, 500))
        ask->request.wait_until =
            instant_add_ms(instant_of(world, crew),
                           world->is_quiet ? UINT64_MAX : 1000 + world_skewed(world, 3600000));
    list_push(&crew->asks, &ask->link);
    queue_submit(crew->queue, instant_of(world, crew), &ask->request);
}

/* ---- what becomes of it ---- */

static void speak_later(struct world *world, struct worker_job *job, uint64_t delay_ms)
{
    world_post_at(world, world_ms(world) + delay_ms, EVENT_WORKER, world->host.life, job);
}

static void draw_nack(struct world *world, struct worker_job *job, enum delivery_result result)
{
    job->request.kind = QUEUE_NACK;
    job->request.outcome = (struct delivery_outcome){.result = result, .error = "nack"};
    if (result == DELIVERY_FAILED && world_chance(world, 500)) {
        job->request.outcome.pause = DELIVERY_PAUSE_EXACT;
        job->request.outcome.retry_after_ms =
            world_chance(world, 500) ? 0 : world_skewed(world, 3600000);
    }
}

/* Decides what the worker reports, and when. */
static void decide(struct world *world, struct worker_job *job)
{
    const uint64_t lease_ms = job->end_ms > world_ms(world) ? job->end_ms - world_ms(world) : 1;
    uint64_t delay_ms = world_skewed(world, world->plan.answer_delay_ms);

    job->request = (struct queue_request){.kind = QUEUE_ACK};
    switch (world->origins.modes[QUEUE_ORIGIN]) {
    case ORIGIN_FLAKY:
        if (world_chance(world, 400))
            draw_nack(world, job, DELIVERY_FAILED);
        break;
    case ORIGIN_FAILING:
    case ORIGIN_BUSY:
        draw_nack(world, job, DELIVERY_FAILED);
        break;
    case ORIGIN_ENDING:
        if (world_chance(world, 600))
            draw_nack(world, job, DELIVERY_ENDED);
        break;
    case ORIGIN_HANGING: /* reports after the end of its lease */
        delay_ms = lease_ms + 1 + world_skewed(world, 1000);
        break;
    case ORIGIN_SLOW:
        delay_ms = lease_ms + world_below(world, 3) - 1;
        if (world_chance(world, 300)) {
            job->request.kind = QUEUE_EXTEND;
            job->request.lease_ms = draw_lease(world);
        }
        break;
    default:
        break;
    }
    speak_later(world, job, delay_ms);
}

static void take_lease(struct world *world, struct sim_partition *partition,
                       const struct queue_lease *lease, uint64_t lease_ms)
{
    struct worker_job *job = calloc(1, sizeof(*job));
    struct twin *twin = model_twin_of(world, partition->index, lease->delivery->timer);

    assert(job);
    LIST_FOR_EACH (&world->workers.jobs, link) {
        const struct worker_job *other = list_item(link, struct worker_job, link);

        if (other->twin == twin && !other->is_ended && !other->is_spoken)
            world_fail(world, twin->number, "one delivery at a time", "it is leased already");
    }
    job->twin = twin;
    job->partition = partition->index;
    job->crew = crew_of(world, partition->index)->number;
    job->receipt = lease->receipt;
    job->end_ms = world_ms(world) + lease_ms;
    job->version = twin->row.version;
    job->step = world->step;
    list_push(&world->workers.jobs, &job->link);
    twin->received++;
    world->totals->duplicates += twin->received > 1;
    world->totals->leases++;
    world_tempt(world, world->plan.answer_delay_ms);
    decide(world, job);
}

void workers_speak(struct world *world, struct worker_job *job)
{
    struct sim_partition *partition = &world->host.partitions[job->partition];
    struct crew *crew = crew_of(world, job->partition);

    if (!crew->queue) {
        free_job(job);
        return;
    }
    world_note(world, "worker", job->partition, job->twin->number, job->request.kind, job->end_ms);
    job->request.queue = BYTES("sim");
    job->request.receipts = &job->receipt;
    job->request.verdicts = &job->verdict;
    job->request.receipt_count = 1;
    job->is_spoken = true;
    job->is_late = job->is_ended || job->crew != crew->number;
    job->faults = partition->faults;
    queue_submit(crew->queue, instant_of(world, crew), &job->request);
    if (job->request.kind == QUEUE_EXTEND && job->verdict == QUEUE_OK)
        job->end_ms = world_ms(world) + job->request.lease_ms;
    host_worked(world, job->partition);
}

/* ---- judging ---- */

static void judge_verdict(struct world *world, struct worker_job *job)
{
    const struct sim_partition *partition = &world->host.partitions[job->partition];
    const struct twin *twin = job->twin;

    world_note(world, "verdict", job->partition, twin->number, job->request.kind, job->verdict);
    switch (job->verdict) {
    case QUEUE_STALE:
        if (!job->is_late)
            world_fail(world, twin->number, ACK, "the lease is stale, but did not end");
        world->totals->stales++;
        break;
    case QUEUE_UNKNOWN:
        if (partition->faults == job->faults)
            world_fail(world, twin->number, ACK, "unknown, but the storage did not fail");
        break;
    default:
        if (job->is_late)
            world_fail(world, twin->number, LEASE, "spoken of after it ended");
        if (job->request.kind != QUEUE_EXTEND && !twin->was_damaged && twin->row.is_stored &&
            twin->row.version <= job->version)
            world_fail(world, twin->number, "acknowledged is durable",
                       "an outcome is told of that is not durable");
        world->totals->recorded += job->request.kind != QUEUE_EXTEND;
        break;
    }
}

static void verdict(struct world *world, struct worker_job *job)
{
    judge_verdict(world, job);
    if (job->request.kind != QUEUE_EXTEND || job->verdict != QUEUE_OK) {
        free_job(job);
        return;
    }
    job->is_spoken = false;
    decide(world, job);
}

/* Checks a delivery that comes back: its worker has reported, its lease has ended, or all leases
 * end. */
static void judge_ended(struct world *world, const struct sim_partition *partition,
                        const struct delivery *delivery)
{
    struct twin *twin = model_twin_of(world, partition->index, delivery->timer);

    LIST_FOR_EACH (&world->workers.jobs, link) {
        struct worker_job *job = list_item(link, struct worker_job, link);

        const bool is_settled = job->is_spoken && job->request.kind != QUEUE_EXTEND;

        if (job->twin != twin || job->is_ended || is_settled != delivery->wants_record)
            continue;
        if (!delivery->wants_record) {
            job->is_ended = true;
            if (delivery->outcome.result != DELIVERY_RETURNED && world_ms(world) < job->end_ms)
                world_fail(world, twin->number, LEASE, "it ended %llu ms early",
                           (unsigned long long)(job->end_ms - world_ms(world)));
            world->totals->timed_out += delivery->outcome.result != DELIVERY_RETURNED;
        }
        return;
    }
    world_fail(world, twin->number, LEASE, "nobody had it");
}

/* ---- leases that clients end ---- */

static const char RELEASE[] = "a lease that a call ends is a failed attempt, and its item is ready";

static bool has_lease(const struct world *world, const struct worker_job *job)
{
    return job->crew == world->workers.crews[job->partition].number && !job->is_ended &&
           (!job->is_spoken || job->request.kind == QUEUE_EXTEND);
}

struct delivery *workers_release(struct world *world, struct sim_partition *partition,
                                 const struct timer_id *id)
{
    struct crew *crew = crew_of(world, partition->index);
    struct delivery *delivery = crew->queue ? queue_release(crew->queue, id) : NULL;

    if (!delivery)
        return NULL;
    const struct delivery_outcome *outcome = &delivery->outcome;
    const struct twin *twin = model_twin_of(world, partition->index, delivery->timer);
    bool is_held = false;
    LIST_FOR_EACH (&world->workers.jobs, link) {
        struct worker_job *job = list_item(link, struct worker_job, link);

        if (job->twin != twin || !has_lease(world, job))
            continue;
        job->is_ended = is_held = true;
    }
    if (!is_held)
        world_fail(world, twin->number, LEASE, "released, and nobody had it");
    if (outcome->result != DELIVERY_FAILED || outcome->pause != DELIVERY_PAUSE_EXACT ||
        outcome->retry_after_ms > 0 || delivery->wants_record ||
        strcmp(outcome->error, "the lease was released by a call") != 0)
        world_fail(world, twin->number, RELEASE, "but its outcome is %d: %s", outcome->result,
                   outcome->error);
    crew->held--;
    world->totals->released++;
    return delivery;
}

bool workers_hold(const struct world *world, const struct twin *twin, uint64_t step)
{
    LIST_FOR_EACH (&world->workers.jobs, link) {
        const struct worker_job *job = list_item(link, struct worker_job, link);

        if (job->twin == twin && has_lease(world, job) && job->step < step)
            return true;
    }
    return false;
}

void workers_judge(struct world *world, uint16_t partition, uint64_t slack_ms)
{
    const struct crew *crew = crew_of(world, partition);
    const uint64_t fault_ms = world->host.partitions[partition].fault_ms;

    LIST_FOR_EACH (&world->workers.jobs, link) {
        const struct worker_job *job = list_item(link, struct worker_job, link);
        const uint64_t since_ms = slack_ms && job->end_ms < fault_ms ? fault_ms : job->end_ms;

        if (job->partition == partition && job->crew == crew->number && !job->is_ended &&
            !job->is_spoken && world_ms(world) > since_ms + slack_ms)
            world_fail(world, job->twin->number, LEASE, "it ended %llu ms ago, and is not back",
                       (unsigned long long)(world_ms(world) - job->end_ms));
    }
}

/* ---- turns ---- */

static bool take_ended(struct world *world, struct sim_partition *partition)
{
    struct crew *crew = crew_of(world, partition->index);
    struct delivery *delivery;
    bool is_any = false;

    while ((delivery = queue_take_ended(crew->queue))) {
        judge_ended(world, partition, delivery);
        crew->held--;
        is_any = true;
        host_delivered(world, partition->index,
                       model_twin_of(world, partition->index, delivery->timer), QUEUE_ORIGIN,
                       delivery);
    }
    return is_any;
}

static bool give(struct world *world, struct sim_partition *partition)
{
    struct crew *crew = crew_of(world, partition->index);
    struct bytes name;
    bool is_any = false;

    while (queue_wants(crew->queue, &name)) {
        struct delivery *delivery = host_pull(world, partition);

        if (delivery && world_chance(world, 100)) { /* the answer with the item is lost */
            origins_return(world, partition->index, delivery);
            continue;
        }
        crew->held += delivery != NULL;
        is_any |= delivery != NULL;
        queue_give(crew->queue, instant_of(world, crew), delivery);
        host_take_woken(world, partition);
    }
    return is_any;
}

static bool take_replies(struct world *world, struct sim_partition *partition)
{
    struct crew *crew = crew_of(world, partition->index);
    struct queue_request *request;
    bool is_any = false;

    while ((request = queue_take_reply(crew->queue))) {
        is_any = true;
        if (request->kind == QUEUE_LEASE) {
            struct worker_ask *ask = list_item(request, struct worker_ask, request);

            LIST_FOR_EACH (request->leases, link)
                take_lease(world, partition, list_item(link, struct queue_lease, link),
                           request->lease_ms);
            list_remove(&ask->link);
            free(ask);
        } else {
            verdict(world, list_item(request, struct worker_job, request));
        }
    }
    return is_any;
}

/* Replaces a queue that has become too old: no process reaches an age at which a clock of
 * nanoseconds ends. Returns false while reports to the old queue are under way. */
static bool renew(struct world *world, uint16_t partition)
{
    bool is_busy = crew_of(world, partition)->held > 0;

    LIST_FOR_EACH (&world->workers.jobs, link) {
        const struct worker_job *job = list_item(link, struct worker_job, link);

        is_busy |= job->partition == partition && job->is_spoken;
    }
    if (is_busy)
        return false;
    workers_end(world, partition);
    workers_start(world, partition);
    return true;
}

void workers_turn(struct world *world, struct sim_partition *partition)
{
    struct crew *crew = crew_of(world, partition->index);

    if (crew->is_turning || !crew->queue || partition->lazy_until_ms > 0)
        return;
    crew->is_turning = true;
    bool is_more = true;
    for (int round = 0; is_more; round++) {
        if (world_ms(world) - crew->start_ms <= CREW_MS_MAX || renew(world, partition->index))
            ask(world, partition, round > 0);
        queue_advance(crew->queue, instant_of(world, crew));
        is_more = take_ended(world, partition);
        host_take_woken(world, partition);
        is_more |= give(world, partition);
        is_more |= take_replies(world, partition);
    }
    workers_judge(world, partition->index, 0);
    crew->is_turning = false;
}

uint64_t workers_wake_ms(const struct world *world, uint16_t partition)
{
    const struct crew *crew = &world->workers.crews[partition];

    if (!crew->queue)
        return UINT64_MAX;
    uint64_t at_ms = queue_wake_at(crew->queue).ns;
    return at_ms == UINT64_MAX ? at_ms : crew->start_ms + at_ms / MS;
}

void workers_drain(struct world *world, uint16_t partition)
{
    queue_stop_waiting(crew_of(world, partition)->queue);
    queue_return_all(crew_of(world, partition)->queue);
}

void workers_crash(struct world *world, uint16_t partition)
{
    struct crew *crew = crew_of(world, partition);

    queue_return_all(crew->queue);
    struct delivery *delivery;
    while ((delivery = queue_take_ended(crew->queue))) {
        world->totals->outcomes_lost++;
        host_discard_delivery(world, partition, delivery);
    }
}
