/* Goal: nodes that run the control agree on one plan and on what is held back, wherever they begin
 * to read; a node that leaves or dies loses its partitions in time and gets a share when it is
 * back; of two processes with one number one is refused; the log stays short. Method: up to four
 * controls on a log in memory, with appends that take a while, on a clock of the test; partitions
 * change their owner as the plan says. Holds are compared with those of a node that reads all of
 * the log. TEST_SEED repeats a run. */
#include "cluster/control.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    COUNCIL_NODES = 4, /* processes */
    COUNCIL_PARTITIONS = 8,
    COUNCIL_RECORDS_MAX = 20000,
    COUNCIL_STEP_MS = 20,
    COUNCIL_DELAY_STEPS = 4, /* of an append, at most */
    COUNCIL_LEASE_MS = 2000,
    COUNCIL_FOUNDING = 300, /* records between foundings */
};

#define COUNCIL_CLUSTER UINT64_C(0x1234)

struct council_node {
    struct council *council;
    struct cluster_control *control; /* NULL: it does not run */
    uint32_t number;
    size_t next; /* that it reads */
    bool is_asleep;
    struct buffer pending; /* an append on its way */
    uint64_t ticket;       /* 0: none */
    unsigned delay;
    struct buffer holds; /* a copy, as the control told of them last */
    uint64_t asked;      /* the last change that was asked for here */
    bool is_answered;
    enum error_code answer;
};

struct council {
    struct council_node nodes[COUNCIL_NODES];
    struct buffer log[COUNCIL_RECORDS_MAX];
    size_t begin, count; /* records before `begin` are dropped */
    bool drops;
    const char *secret; /* of nodes that are booted; NULL: none */
    unsigned trims;
    struct instant now;
    struct random random;
    uint64_t fault_each;                 /* one in so many appends has no answer; 0: none */
    uint32_t owners[COUNCIL_PARTITIONS]; /* by the logs of the partitions */
};

/* ---- the council ---- */

static void council_on_append(void *context, uint64_t ticket, struct bytes bytes)
{
    struct council_node *node = context;

    assert_int_equal(node->ticket, 0);
    buffer_clear(&node->pending);
    buffer_append_bytes(&node->pending, bytes);
    node->ticket = ticket;
    node->delay = (unsigned)random_below(&node->council->random, COUNCIL_DELAY_STEPS);
}

static void council_on_note(void *context, struct roster_note *note)
{
    struct council_node *node = context;

    note->internal_address = BYTES("host:1");
    note->place_count = COUNCIL_PARTITIONS;
    for (uint16_t p = 0; p < COUNCIL_PARTITIONS; p++)
        note->places[p] = (struct roster_place){
            p, node->council->owners[p] == node->number ? ROSTER_OWNER : ROSTER_STANDBY, 100, 0};
}

/* What is left begins with the founding of the cluster, and has all that a start reads. */
static void council_on_trim(void *context, uint64_t before)
{
    struct council *council = ((struct council_node *)context)->council;
    struct frame frame;

    assert_true(before >= council->begin && before + COUNCIL_FOUNDING <= council->count);
    assert_int_equal(
        frame_decode(buffer_bytes(&council->log[before]), COUNCIL_CLUSTER, &frame, NULL), 0);
    assert_true(frame.kind == FRAME_NOTE && frame.node == 0 && frame.body.size == 2 &&
                get_le(frame.body.data, 2) == COUNCIL_PARTITIONS);
    if (council->drops)
        council->begin = before;
    council->trims++;
}

static void council_note_holds(struct council_node *node, const struct holds *holds)
{
    buffer_clear(&node->holds);
    holds_encode(holds, 0, &node->holds);
}

static void council_on_held(void *context, const struct holds *holds,
                            const struct holds_change *change, uint64_t ask, enum error_code code)
{
    struct council_node *node = context;

    assert_true(change || (!ask && !code));
    council_note_holds(node, holds);
    if (ask == 0)
        return;
    assert_true(ask == node->asked && !node->is_answered);
    node->is_answered = true;
    node->answer = code;
}

static void council_on_unheld(void *context, uint64_t ask, enum error_code code)
{
    struct council_node *node = context;

    assert_true(ask == node->asked && !node->is_answered && code);
    node->is_answered = true;
    node->answer = code;
}

static size_t council_add(struct council *council, struct bytes bytes)
{
    assert_true(council->count < COUNCIL_RECORDS_MAX);
    buffer_init(&council->log[council->count]);
    buffer_append_bytes(&council->log[council->count], bytes);
    return council->count++;
}

/* `from`: the record that it reads first. */
static struct council_node *council_boot(struct council *council, size_t index, uint32_t number,
                                         size_t from)
{
    struct council_node *node = &council->nodes[index];
    struct control_options options = {
        .node = number,
        .partition_count = COUNCIL_PARTITIONS,
        .cluster = COUNCIL_CLUSTER,
        .incarnation = random_next(&council->random),
        .lease_ms = COUNCIL_LEASE_MS,
        .seed = random_next(&council->random),
        .records = COUNCIL_FOUNDING,
        .plan = {.clock_skew_ms_max = 500},
    };
    const struct control_events events = {node,
                                          council_on_append,
                                          council_on_note,
                                          council_on_trim,
                                          council_on_held,
                                          council_on_unheld};
    struct holds none;

    if (council->secret)
        assert_true(founding_set_secret(&options.secret, bytes_of(council->secret)));
    assert_null(node->control);
    *node = (struct council_node){.council = council, .number = number, .next = from};
    buffer_init(&node->pending);
    buffer_init(&node->holds);
    assert_true(holds_init(&none));
    council_note_holds(node, &none);
    holds_deinit(&none);
    assert_int_equal(control_create(&options, &events, council->now, &node->control, NULL), 0);
    return node;
}

/* An append that is on its way lands, or not. */
static void council_kill(struct council_node *node)
{
    if (node->ticket && random_below(&node->council->random, 2))
        council_add(node->council, buffer_bytes(&node->pending));
    control_destroy(node->control);
    buffer_deinit(&node->pending);
    buffer_deinit(&node->holds);
    node->control = NULL;
    node->ticket = 0;
}

static struct council_node *council_find(struct council *council, uint32_t number)
{
    for (size_t i = 0; i < COUNCIL_NODES; i++)
        if (council->nodes[i].control && council->nodes[i].number == number &&
            !council->nodes[i].is_asleep &&
            control_state(council->nodes[i].control) != CONTROL_REFUSED)
            return &council->nodes[i];
    return NULL;
}

/* Owners follow the plan that they have read, and dead ones are followed. */
static void council_hand_over(struct council *council, const struct council_node *node)
{
    const struct plan *plan = control_plan(node->control);

    for (uint16_t p = 0; p < COUNCIL_PARTITIONS && plan->version > 0; p++) {
        const struct council_node *owner = council_find(council, council->owners[p]);

        if (plan->entries[p].owner != node->number || owner == node)
            continue;
        if (!owner || control_plan(owner->control)->entries[p].owner != owner->number)
            council->owners[p] = node->number;
    }
}

static void council_step_node(struct council *council, struct council_node *node)
{
    if (node->ticket && node->delay-- == 0) {
        const uint64_t ticket = node->ticket;
        const bool is_in_doubt =
            council->fault_each && !random_below(&council->random, council->fault_each);

        node->ticket = 0;
        if (is_in_doubt && random_below(&council->random, 2))
            council_add(council, buffer_bytes(&node->pending));
        if (is_in_doubt)
            control_failed(node->control, ticket, council->now);
        else
            control_landed(node->control, ticket,
                           council_add(council, buffer_bytes(&node->pending)), council->now);
    }
    if (node->next < council->begin)
        control_lost(node->control, "dropped");
    if (control_take_rewind(node->control))
        node->next = council->begin;
    const size_t end = random_below(&council->random, 4) ? council->count : node->next;
    while (node->next < end) {
        control_read(node->control, node->next, buffer_bytes(&council->log[node->next]),
                     council->now);
        node->next++;
    }
    if (node->next == council->count)
        control_restored(node->control, council->now);
    if (control_take_rewind(node->control))
        node->next = council->begin;
    control_turn(node->control, council->now, (struct wall){1});
    control_check(node->control);
    assert_true(control_wake_at(node->control, council->now).ns > council->now.ns);
    if (control_state(node->control) >= CONTROL_JOINED &&
        control_state(node->control) <= CONTROL_LEFT)
        council_hand_over(council, node);
}

static void council_step(struct council *council)
{
    council->now = instant_add_ms(council->now, COUNCIL_STEP_MS);
    for (size_t i = 0; i < COUNCIL_NODES; i++)
        if (council->nodes[i].control && !council->nodes[i].is_asleep)
            council_step_node(council, &council->nodes[i]);
}

static void council_pass(struct council *council, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i += COUNCIL_STEP_MS)
        council_step(council);
}

/* The partitions that the node owns. */
static size_t council_share(const struct council *council, uint32_t number)
{
    size_t count = 0;

    for (size_t p = 0; p < COUNCIL_PARTITIONS; p++)
        count += council->owners[p] == number;
    return count;
}

/* Whether each of the first nodes owns its part of the partitions, and no other node any. */
static bool council_is_even(const struct council *council, const uint32_t *numbers, size_t count)
{
    size_t all = 0;

    for (size_t i = 0; i < count; i++) {
        const size_t share = council_share(council, numbers[i]);

        if (share < COUNCIL_PARTITIONS / count || share > (COUNCIL_PARTITIONS + count - 1) / count)
            return false;
        all += share;
    }
    return all == COUNCIL_PARTITIONS;
}

/* Returns how long it took. */
static uint64_t council_await_even(struct council *council, const uint32_t *numbers, size_t count,
                                   uint64_t ms_max)
{
    const struct instant begun = council->now;

    while (!council_is_even(council, numbers, count)) {
        if (instant_since_ns(begun, council->now) / 1000000 > ms_max)
            fail_msg("%zu nodes have no even shares after %llu ms", count,
                     (unsigned long long)ms_max);
        council_step(council);
    }
    return instant_since_ns(begun, council->now) / 1000000;
}

static uint32_t council_planner(const struct council *council)
{
    for (size_t i = 0; i < COUNCIL_NODES; i++)
        if (council->nodes[i].control)
            return control_planner(council->nodes[i].control);
    return 0;
}

/* ---- fixture ---- */

static int council_set_up(void **state)
{
    struct council *council = calloc(1, sizeof(*council));
    char body[2] = {COUNCIL_PARTITIONS, 0};
    const struct frame founding = {.kind = FRAME_NOTE, .body = {body, sizeof(body)}};
    struct buffer bytes;

    assert_non_null(council);
    council->random = random_seeded(testing_seed());
    council->now = (struct instant){UINT64_C(1000000000)};
    buffer_init(&bytes);
    frame_encode(&founding, COUNCIL_CLUSTER, &bytes);
    council_add(council, buffer_bytes(&bytes));
    buffer_deinit(&bytes);
    *state = council;
    return 0;
}

static int council_tear_down(void **state)
{
    struct council *council = *state;

    for (size_t i = 0; i < COUNCIL_NODES; i++)
        if (council->nodes[i].control)
            council_kill(&council->nodes[i]);
    for (size_t i = 0; i < council->count; i++)
        buffer_deinit(&council->log[i]);
    free(council);
    return 0;
}

static const uint32_t council_three[] = {1, 2, 3};

static void council_boot_three(struct council *council)
{
    for (size_t i = 0; i < 3; i++)
        council_boot(council, i, council_three[i], 0);
    council_await_even(council, council_three, 3, 6000);
}

/* ---- the tests ---- */

/* The log stays short, whoever is the planner, and a node that was away for long joins anew. */
static void test_a_short_log(void **state)
{
    struct council *council = *state;
    static const uint32_t two[] = {1, 2};

    council->drops = true;
    council_boot_three(council);
    council->nodes[2].is_asleep = true;
    for (int round = 0; round < 4; round++) {
        const uint32_t planner = council_planner(council);

        council_pass(council, 120000);
        assert_true(council->count - council->begin < 3 * COUNCIL_FOUNDING);
        for (size_t i = 0; i < 2; i++)
            if (council->nodes[i].number == planner) {
                council_kill(&council->nodes[i]);
                council_pass(council, 6000);
                council_boot(council, i, planner, council->begin);
            }
        council_await_even(council, two, 2, 20000);
    }
    assert_true(council->trims >= 4 && council->nodes[2].next < council->begin);
    council->nodes[2].is_asleep = false;
    council_await_even(council, council_three, 3, 20000);
    council_pass(council, 2000); /* the last plan is read by all */
    assert_int_equal(control_state(council->nodes[2].control), CONTROL_JOINED);
    const struct plan *plan = control_plan(council->nodes[0].control);
    assert_true(plan->version == control_plan(council->nodes[2].control)->version);
}

/* Trims may overtake a reader; a topic that is gone has no first record either. */
static void test_a_log_that_is_lost_again(void **state)
{
    struct council *council = *state;

    council_boot_three(council);
    council_pass(council, 2000);
    struct cluster_control *control = council->nodes[0].control;
    for (int i = 0; i < 3; i++) {
        control_lost(control, "dropped");
        assert_true(control_take_rewind(control));
        assert_int_equal(control_state(control), CONTROL_READING);
    }
    control_read(control, 0, buffer_bytes(&council->log[0]), council->now);
    for (int i = 0; i < 2; i++) {
        control_lost(control, "dropped");
        assert_true(control_take_rewind(control));
    }
    control_lost(control, "dropped");
    assert_false(control_take_rewind(control));
    assert_int_equal(control_state(control), CONTROL_BROKEN);
    council_kill(&council->nodes[0]);
}

/* A log that was dropped by no planner cannot be judged. */
static void test_an_empty_rest(void **state)
{
    struct council *council = *state;
    struct council_node *node;

    council_boot_three(council);
    council->begin = council->count;
    node = council_boot(council, 3, 4, council->begin);
    for (size_t i = 0; i < 3; i++)
        council_kill(&council->nodes[i]);
    const char bytes[2] = {COUNCIL_PARTITIONS, 0};
    const struct frame founding = {.kind = FRAME_NOTE, .body = {bytes, sizeof(bytes)}};
    struct buffer record;
    buffer_init(&record);
    frame_encode(&founding, COUNCIL_CLUSTER, &record);
    council_add(council, buffer_bytes(&record));
    buffer_deinit(&record);
    council->begin = council->count - 1;
    node->next = council->begin;
    council_pass(council, 2000);
    assert_int_equal(control_state(node->control), CONTROL_BROKEN);
}

static void council_found(struct council *council, const char *secret)
{
    struct founding changed = {.partition_count = COUNCIL_PARTITIONS};
    char body[FOUNDING_SIZE_LARGEST];
    struct buffer record;

    assert_true(founding_set_secret(&changed, bytes_of(secret)));
    const struct frame founding = {.kind = FRAME_NOTE,
                                   .body = {body, founding_encode(&changed, body)}};
    buffer_init(&record);
    frame_encode(&founding, COUNCIL_CLUSTER, &record);
    council_add(council, buffer_bytes(&record));
    buffer_deinit(&record);
}

/* A node with another secret does not join, also when no other node runs; the digest is in the log
 * from the first planner on. Another founding changes it. */
/* proves: cluster-secret */
static void test_a_secret_of_its_own(void **state)
{
    struct council *council = *state;

    council->secret = "a secret of the cluster";
    council_boot_three(council);
    council_pass(council, 3000);
    council_kill(&council->nodes[2]);
    council->secret = "another secret";
    struct council_node *stranger = council_boot(council, 2, 9, 0);
    council_pass(council, 5000);
    assert_int_equal(control_state(stranger->control), CONTROL_REFUSED);
    assert_non_null(strstr(control_error(stranger->control)->text, "another secret"));
    for (size_t i = 0; i < 3; i++)
        council_kill(&council->nodes[i]);
    stranger = council_boot(council, 2, 9, 0);
    council_pass(council, 10000);
    assert_int_equal(control_state(stranger->control), CONTROL_REFUSED);
    council->secret = "a secret of the cluster";
    struct council_node *node = council_boot(council, 0, 1, 0);
    council_pass(council, 10000);
    assert_int_equal(control_state(node->control), CONTROL_JOINED);
    council_found(council, "another secret");
    council_pass(council, 1000);
    assert_int_equal(control_state(node->control), CONTROL_REFUSED);
    council_kill(stranger);
    council->secret = "another secret";
    stranger = council_boot(council, 2, 9, 0);
    council_pass(council, 10000);
    assert_int_equal(control_state(stranger->control), CONTROL_JOINED);
}

/* The secret is changed while the nodes run: each takes a wrong one, and then the new one twice.
 * The cluster is founded with that, and then the former one ends. */
/* proves: cluster-secret */
static void test_the_secret_changes(void **state)
{
    struct council *council = *state;
    struct founding fresh = {0}, wrong = {0};

    council->secret = "a secret of the cluster";
    council_boot_three(council);
    council_pass(council, 3000);
    assert_true(founding_set_secret(&fresh, BYTES("another secret")));
    assert_true(founding_set_secret(&wrong, BYTES("a secret of nobody")));
    for (size_t i = 0; i < 3; i++) {
        control_set_secret(council->nodes[i].control, &wrong);
        control_set_secret(council->nodes[i].control, &fresh);
        control_set_secret(council->nodes[i].control, &fresh);
        council_pass(council, 3000);
        assert_int_equal(control_state(council->nodes[i].control), CONTROL_JOINED);
    }
    council_found(council, "another secret");
    council_pass(council, 3000);
    for (size_t i = 0; i < 3; i++)
        control_set_secret(council->nodes[i].control, &fresh);
    council_pass(council, 3000);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(control_state(council->nodes[i].control), CONTROL_JOINED);
    council_found(council, "a secret of the cluster");
    council_pass(council, 3000);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(control_state(council->nodes[i].control), CONTROL_REFUSED);
}

/* And then nothing moves any more, and no other plan is made. */
static void test_three_nodes_share(void **state)
{
    struct council *council = *state;

    council_boot_three(council);
    council_pass(council, 2000);
    const uint64_t version = control_plan(council->nodes[0].control)->version;
    const uint32_t planner = council_planner(council);
    assert_int_not_equal(planner, 0);
    council_pass(council, 120000); /* and the plan is repeated */
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(control_plan(council->nodes[i].control)->version, version);
        assert_int_equal(control_planner(council->nodes[i].control), planner);
        assert_int_equal(control_state(council->nodes[i].control), CONTROL_JOINED);
    }
    assert_true(council_is_even(council, council_three, 3));
}

/* Each of the three in turn leaves, and comes back: its partitions need not wait for its death. */
static void test_nodes_leave(void **state)
{
    struct council *council = *state;

    council_boot_three(council);
    for (size_t i = 0; i < 3; i++) {
        const uint32_t others[] = {council_three[(i + 1) % 3], council_three[(i + 2) % 3]};
        struct council_node *node = &council->nodes[i];

        control_leave(node->control, council->now);
        council_await_even(council, others, 2, 1000);
        council_pass(council, 1000);
        assert_int_equal(control_state(node->control), CONTROL_LEFT);
        assert_int_not_equal(council_planner(council), council_three[i]);
        council_kill(node);
        council_boot(council, i, council_three[i], 0);
        council_await_even(council, council_three, 3, 6000);
    }
}

/* The planner first, and then one that is none. */
static void test_nodes_die(void **state)
{
    struct council *council = *state;

    council_boot_three(council);
    for (int round = 0; round < 2; round++) {
        const uint32_t planner = council_planner(council);
        const size_t dying = round == 0 ? planner - 1 : planner % 3;
        const uint32_t others[] = {council_three[(dying + 1) % 3], council_three[(dying + 2) % 3]};

        council_kill(&council->nodes[dying]);
        const uint64_t took_ms = council_await_even(council, others, 2, round == 0 ? 5500 : 4000);
        print_message("%s dead: %llu ms\n", round == 0 ? "planner" : "node",
                      (unsigned long long)took_ms);
        assert_true(took_ms >= 1500); /* five notes of the planner */
        council_boot(council, dying, council_three[dying], 0);
        council_await_even(council, council_three, 3, 6000);
    }
}

/* A node restarts before it is taken for dead: it keeps its partitions. */
static void test_a_node_restarts(void **state)
{
    struct council *council = *state;
    uint32_t owners[COUNCIL_PARTITIONS];

    council_boot_three(council);
    const size_t index = council_planner(council) % 3; /* not the planner */
    council_pass(council, 2000);
    memcpy(owners, council->owners, sizeof(owners));
    council_kill(&council->nodes[index]);
    council_boot(council, index, council_three[index], 0);
    council_pass(council, 4000);
    assert_int_equal(control_state(council->nodes[index].control), CONTROL_JOINED);
    assert_memory_equal(owners, council->owners, sizeof(owners));
}

static void test_a_number_that_is_taken(void **state)
{
    struct council *council = *state;

    council_boot_three(council);
    const struct council_node *second = council_boot(council, 3, 2, 0);
    council_pass(council, 3000);
    assert_int_equal(control_state(second->control), CONTROL_REFUSED);
    assert_non_null(strstr(control_error(second->control)->text, "number 2"));
    assert_non_null(strstr(control_error(second->control)->text, "host:1"));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(control_state(council->nodes[i].control), CONTROL_JOINED);
    assert_true(council_is_even(council, council_three, 3));
}

/* Neither finds the other: the later note stays. */
static void test_two_with_one_number_start(void **state)
{
    struct council *council = *state;

    council_boot(council, 0, 2, 0);
    council_boot(council, 1, 2, 0);
    council_pass(council, 4000);
    const bool first = control_state(council->nodes[0].control) == CONTROL_REFUSED;
    const bool second = control_state(council->nodes[1].control) == CONTROL_REFUSED;
    assert_true(first != second);
    council_pass(council, 4000);
    assert_int_equal(control_state(council->nodes[first].control), CONTROL_JOINED);
    assert_int_equal(council_share(council, 2), COUNCIL_PARTITIONS);
}

/* Its process stood still, is taken for dead, and is started again elsewhere; then it wakes. */
static void test_a_process_that_was_replaced(void **state)
{
    struct council *council = *state;

    council_boot_three(council);
    council->nodes[1].is_asleep = true;
    council_pass(council, 6000);
    council_boot(council, 3, 2, 0);
    council_await_even(council, council_three, 3, 6000);
    council_pass(council, 1000);
    council->nodes[1].is_asleep = false;
    council_pass(council, 2000);
    assert_int_equal(control_state(council->nodes[1].control), CONTROL_REFUSED);
    assert_int_equal(control_state(council->nodes[3].control), CONTROL_JOINED);
    assert_true(council_is_even(council, council_three, 3));
}

/* Reading begins near the end, at each of many places; and behind all records of planners. */
static void test_reading_begins_in_the_middle(void **state)
{
    struct council *council = *state;

    council_boot_three(council);
    council_pass(council, 61000); /* the plan was repeated */
    for (uint32_t i = 0; i < 50; i++) {
        const size_t back = 1 + random_below(&council->random, 60);
        struct council_node *node = council_boot(council, 3, 10 + i, council->count - back);

        while (control_state(node->control) != CONTROL_JOINED)
            council_step_node(council, node); /* time stands still: nobody else appends */
        assert_int_equal(control_planner(node->control), council_planner(council));
        council_kill(node);
    }
}

/* Appends are in doubt: in the log, or not. In the end all agree. */
static void test_appends_in_doubt(void **state)
{
    struct council *council = *state;

    council_boot_three(council);
    council->fault_each = 8;
    for (size_t i = 0; i < 6; i++) {
        const size_t index = random_below(&council->random, 3);

        council_pass(council, 5000);
        council_kill(&council->nodes[index]);
        council_pass(council, 5000);
        council_boot(council, index, council_three[index], 0);
    }
    council->fault_each = 0;
    council_pass(council, 10000);
    council_await_even(council, council_three, 3, 6000);
    council_pass(council, 2000);
    for (size_t i = 1; i < 3; i++)
        assert_memory_equal(control_plan(council->nodes[i].control),
                            control_plan(council->nodes[0].control), sizeof(struct plan));
}

/* ---- what is held back ---- */

static const struct bytes council_names[] = {BYTES("queue:a"), BYTES("queue:b"),
                                             BYTES("http://host"), BYTES("https://host:8443")};

static struct holds_change council_pause(struct council *council, size_t name)
{
    const struct wall at = {1000 + council->count};

    return (struct holds_change){.kind = HOLDS_PAUSE,
                                 .at = at,
                                 .pause = {.tenant = BYTES("t"),
                                           .name = council_names[name],
                                           .note = BYTES("why"),
                                           .since = at,
                                           .until = WALL_NEVER}};
}

/* False: it takes none now. */
static bool council_ask(struct council *council, struct council_node *node,
                        const struct holds_change *change)
{
    struct holds_change asked = *change;

    asked.ask = node->asked + 1;
    if (!control_change(node->control, &asked, council->now))
        return false;
    node->asked = asked.ask;
    node->is_answered = false;
    return true;
}

static enum error_code council_change(struct council *council, struct council_node *node,
                                      const struct holds_change *change)
{
    assert_true(council_ask(council, node, change));
    for (uint64_t i = 0; i < 400 && !node->is_answered; i++)
        council_step(council);
    assert_true(node->is_answered);
    return node->answer;
}

/* A place near the end of the log. */
static size_t council_near_end(struct council *council)
{
    const size_t back_max = council->count < 50 ? council->count : 50;

    return council->count - 1 - random_below(&council->random, back_max);
}

/* All nodes have the holds of a node that reads all of the log, and of a node that begins near its
 * end. */
static void assert_council_holds(struct council *council)
{
    const uint32_t number = 100 + (uint32_t)council->count; /* no other process had it */
    struct council_node *whole = council_boot(council, 3, number, 0);
    struct buffer bytes;

    while (control_state(whole->control) != CONTROL_JOINED)
        council_step_node(council, whole);
    buffer_init(&bytes);
    buffer_append_bytes(&bytes, buffer_bytes(&whole->holds));
    council_kill(whole);
    struct council_node *part = council_boot(council, 3, 2 * number, council_near_end(council));
    while (control_state(part->control) != CONTROL_JOINED)
        council_step_node(council, part);
    for (size_t i = 0; i < COUNCIL_NODES; i++)
        if (council->nodes[i].control)
            assert_true(bytes_equal(buffer_bytes(&council->nodes[i].holds), buffer_bytes(&bytes)));
    council_kill(part);
    buffer_deinit(&bytes);
}

static struct holds council_read_holds(const struct council_node *node)
{
    struct holds holds;
    uint64_t read_to;

    assert_int_equal(holds_decode(buffer_bytes(&node->holds), &holds, &read_to), ERROR_NONE);
    return holds;
}

/* A change is answered when the node that was asked has made it; the others have it soon. */
static void test_holds(void **state)
{
    struct council *council = *state;
    struct council_node *node = &council->nodes[0];
    struct holds_change change = council_pause(council, 0);

    council_boot_three(council);
    assert_int_equal(council_change(council, node, &change), ERROR_NONE);
    struct holds holds = council_read_holds(node);
    assert_int_equal(holds.pauses->count, 1);
    holds_deinit(&holds);
    council_pass(council, 1000);
    assert_council_holds(council);
    change = (struct holds_change){.kind = HOLDS_MAINTAIN, .pause.note = BYTES("disk")};
    assert_int_equal(council_change(council, &council->nodes[1], &change), ERROR_NONE);
    change = council_pause(council, 0);
    change.kind = HOLDS_RESUME;
    assert_int_equal(council_change(council, &council->nodes[2], &change), ERROR_NONE);
    council_pass(council, 1000);
    holds = council_read_holds(node);
    assert_true(holds.pauses->count == 0 && holds.is_maintained && holds.note_size == 4);
    holds_deinit(&holds);
    assert_council_holds(council);
    council_pass(council, 70000); /* a copy is appended again */
    assert_council_holds(council);
    change = (struct holds_change){.kind = HOLDS_END};
    assert_int_equal(council_change(council, node, &change), ERROR_NONE);
    holds = council_read_holds(node);
    assert_false(holds.is_maintained);
    holds_deinit(&holds);
}

/* Two nodes are drained at once, each with the other as the one that stays: all nodes refuse the
 * later drain. */
static void test_drains(void **state)
{
    struct council *council = *state;
    struct council_node *node = &council->nodes[0];
    struct holds_change change = {.kind = HOLDS_DRAIN, .node = 1, .witness = 2};

    council_boot_three(council);
    assert_int_equal(council_change(council, node, &change), ERROR_NONE);
    change = (struct holds_change){.kind = HOLDS_DRAIN, .node = 2, .witness = 1};
    assert_int_equal(council_change(council, &council->nodes[1], &change), ERROR_INVALID);
    council_pass(council, 70000); /* a copy is appended */
    assert_council_holds(council);
    struct holds holds = council_read_holds(&council->nodes[2]);
    assert_true(holds_is_drained(&holds, 1) && holds.drained_count == 1);
    holds_deinit(&holds);
    change = (struct holds_change){.kind = HOLDS_UNDRAIN, .node = 1};
    assert_int_equal(council_change(council, &council->nodes[2], &change), ERROR_NONE);
    council_pass(council, 1000);
    assert_council_holds(council);
    holds = council_read_holds(node);
    assert_int_equal(holds.drained_count, 0);
    holds_deinit(&holds);
}

/* A copy that lacks a change: a node that has read the change, or begins behind it, takes another
 * one, or reads all of the log. */
static void test_a_copy_that_lacks_a_change(void **state)
{
    struct council *council = *state;
    struct council_node *node = council_boot(council, 0, 1, 0);
    const struct holds_change change = council_pause(council, 0);
    struct buffer body, bytes;
    struct frame frame;
    struct holds none;

    council_await_even(council, council_three, 1, 6000);
    assert_int_equal(council_change(council, node, &change), ERROR_NONE);
    size_t at = council->count;
    do
        assert_int_equal(
            frame_decode(buffer_bytes(&council->log[--at]), COUNCIL_CLUSTER, &frame, NULL), 0);
    while (frame.kind != FRAME_NOTE || !holds_is_form(frame.body, HOLDS_CHANGE));
    buffer_init(&body);
    buffer_init(&bytes);
    assert_true(holds_init(&none));
    holds_encode(&none, at, &body);
    frame.body = buffer_bytes(&body);
    frame_encode(&frame, COUNCIL_CLUSTER, &bytes);
    council_add(council, buffer_bytes(&bytes));
    council_pass(council, 2000); /* records of the planner follow, and no better copy yet */
    for (uint32_t i = 0; i < 2; i++) {
        struct council_node *late = council_boot(council, 3, 10 + i, at + i);

        while (control_state(late->control) != CONTROL_JOINED)
            council_step_node(council, late);
        assert_true(bytes_equal(buffer_bytes(&late->holds), buffer_bytes(&node->holds)));
        council_kill(late);
    }
    holds_deinit(&none);
    buffer_deinit(&body);
    buffer_deinit(&bytes);
}

/* The limit refuses a change on all nodes alike. */
static void test_too_many_holds(void **state)
{
    struct council *council = *state;
    struct council_node *node = &council->nodes[0];
    char name[24];

    council_boot(council, 0, 1, 0);
    council_await_even(council, council_three, 1, 6000);
    for (int i = 0; i <= TARGET_PAUSES_TENANT_MAX; i++) {
        struct holds_change change = council_pause(council, 0);

        snprintf(name, sizeof(name), "queue:%d", i);
        change.pause.name = bytes_of(name);
        assert_int_equal(council_change(council, node, &change),
                         i < TARGET_PAUSES_TENANT_MAX ? ERROR_NONE : ERROR_TOO_MANY);
    }
    assert_council_holds(council);
}

/* A change that has no answer is in doubt; one without a log is, too, in the end. */
static void test_holds_without_a_log(void **state)
{
    struct council *council = *state;
    struct council_node *node = &council->nodes[0];
    const struct holds_change change = council_pause(council, 0);

    assert_false(council_boot(council, 0, 1, 0)->control == NULL);
    assert_false(council_ask(council, node, &change)); /* it is no member yet */
    council_await_even(council, council_three, 1, 6000);
    council->fault_each = 1;
    assert_int_equal(council_change(council, node, &change), ERROR_IN_DOUBT);
    council->fault_each = 0;
    council_pass(council, 10000);
    assert_council_holds(council);
}

/* Nodes die and begin anywhere in the log, appends are in doubt, and copies stand behind changes
 * that they do not have. */
static void test_holds_in_doubt(void **state)
{
    struct council *council = *state;

    council_boot_three(council);
    council->fault_each = 10;
    for (size_t i = 0; i < 60; i++) {
        const size_t index = random_below(&council->random, 3);
        struct council_node *node = &council->nodes[index];
        struct holds_change change =
            council_pause(council, (size_t)random_below(&council->random, 4));

        change.kind = (enum holds_kind)(1 + random_below(&council->random, 5));
        council_ask(council, node, &change);
        council_pass(council, random_below(&council->random, 2000));
        if (random_below(&council->random, 8))
            continue;
        council_kill(node);
        council_boot(council, index, council_three[index], council_near_end(council));
    }
    council->fault_each = 0;
    council_pass(council, 10000);
    assert_council_holds(council);
}

static void test_records_that_cannot_be_read(void **state)
{
    struct council *council = *state;

    council_boot_three(council);
    council_add(council, BYTES("no frame"));
    council_pass(council, 1000);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(control_state(council->nodes[i].control), CONTROL_BROKEN);
    assert_true(control_plan(council->nodes[0].control)->version > 0); /* and it stays */
}

/* Only what is certain: it was appended between the two. */
static void test_clock_offset(void **state)
{
    static const struct {
        uint64_t sent_ms, appended_ms, landed_ms;
        int32_t offset_ms;
    } cases[] = {
        {1000, 1000, 1000, 0},
        {1000, 1005, 1010, 0},
        {1000, 400, 1010, 600},
        {1000, 1910, 1010, -900},
        {1000, 1999, 2000, 0},
        {UINT64_C(1) << 40, 1, UINT64_C(1) << 40, INT32_MAX},
        {1, UINT64_C(1) << 40, 2, -INT32_MAX},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(control_clock_offset_ms((struct wall){cases[i].sent_ms},
                                                 (struct wall){cases[i].appended_ms},
                                                 (struct wall){cases[i].landed_ms}),
                         cases[i].offset_ms);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, council_set_up, council_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_three_nodes_share),
        TEST(test_nodes_leave),
        TEST(test_nodes_die),
        TEST(test_a_node_restarts),
        TEST(test_a_number_that_is_taken),
        TEST(test_two_with_one_number_start),
        TEST(test_a_process_that_was_replaced),
        TEST(test_reading_begins_in_the_middle),
        TEST(test_appends_in_doubt),
        TEST(test_holds),
        TEST(test_drains),
        TEST(test_a_copy_that_lacks_a_change),
        TEST(test_too_many_holds),
        TEST(test_holds_without_a_log),
        TEST(test_holds_in_doubt),
        TEST(test_records_that_cannot_be_read),
        TEST(test_a_short_log),
        TEST(test_a_log_that_is_lost_again),
        TEST(test_an_empty_rest),
        TEST(test_a_secret_of_its_own),
        TEST(test_the_secret_changes),
        cmocka_unit_test(test_clock_offset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
