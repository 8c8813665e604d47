/*
 * runner_race_test.c - cancel against expiry, and the like, in every order: two or three actors are
 * stepped from one yield point of the runner to the next, one at a time. All orders with up to
 * three interruptions are gone through, then random ones with any number. TEST_SEED replays the
 * random ones, TEST_ORDERS says how many for each scene.
 *
 * The runner's sources are compiled into this test once more, with the yield points in them. The
 * actors are contexts of one thread, so that a step costs no turn of the system's scheduler.
 */
#include <stdint.h>

static void yield_point(const char *place);
static uintptr_t who_am_i(void);
#define TW_RUNNER_HOOK(place) yield_point(place)
#define TW_RUNNER_SELF        who_am_i()

#include "runner.c"
#include "runner_lane.c"
#include "runner_verbs.c"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

enum {
    ACTORS_MAX = 3,
    STACK = 1 << 17,
    STEPS_MAX = 4096,
    CUTS_MAX = 3,
    ORDERS_DEFAULT = 500,
    MS = 1000000
};

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: in scene %s: not %s\n", __FILE__, __LINE__, stage.scene->name, \
                    #condition);                                                                   \
            print_steps();                                                                         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct scene {
    const char *name;
    void (*set_up)(void);
    void (*acts[ACTORS_MAX])(void); /* the first is most often the runner */
    void (*judge)(void);
};

/* Who acts, and what has become of the timers. One play at a time. */
static struct stage {
    const struct scene *scene;
    int actor; /* ACTORS_MAX: none, the play is being set up or judged */
    ucontext_t contexts[ACTORS_MAX + 1];
    _Alignas(16) char stacks[ACTORS_MAX][STACK];
    size_t arena_used;
    _Alignas(4096) char arena[1 << 20];
    int actor_count;
    bool is_over[ACTORS_MAX];

    /* Decisions: at each step, which of the actors that could go on was let. */
    unsigned char choices[STEPS_MAX], options[STEPS_MAX];
    const char *places[STEPS_MAX];
    unsigned char actors[STEPS_MAX];
    int step_count, given_count, cuts;
    uint64_t *random; /* NULL: the given choices, then the first of each */

    struct tw_virtual clock;
    struct tw_runner *runner;
    struct tw_runner_wheel *wheel;
    tw_handle timer;
    uint64_t fired[8]; /* by data */
    uint64_t last_deadline_ns;
    enum tw_runner_answer answers[ACTORS_MAX];
    tw_handle made;
    size_t left;
} stage = {.actor = ACTORS_MAX};

/* Spread over the lanes as threads are. */
static uintptr_t who_am_i(void)
{
    return 4096u * (unsigned)(stage.actor + 1);
}

static uint64_t draw(uint64_t *random)
{
    uint64_t mixed = *random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

static void print_steps(void)
{
    for (int i = 0; i < stage.step_count; i++)
        fprintf(stderr, "  %d: actor %d at %s -> %d\n", i, stage.actors[i], stage.places[i],
                stage.choices[i]);
}

/* Decides who is next. Going on is the first choice; the others come round. */
static int choose(const char *place, int from)
{
    bool is_spinning = strcmp(place, "spin") == 0;
    bool is_stuck = is_spinning || (from >= 0 && stage.is_over[from]);
    int candidates[ACTORS_MAX], count = 0;
    for (int i = 0; i < stage.actor_count; i++) {
        int actor = (from < 0 ? i : from + i) % stage.actor_count;
        if (!stage.is_over[actor] && !(is_stuck && actor == from))
            candidates[count++] = actor;
    }
    if (count == 0)
        return is_stuck && !stage.is_over[from] ? from : ACTORS_MAX;
    MUST(stage.step_count < STEPS_MAX);
    int step = stage.step_count++, choice = 0;
    /* Who spins is passed over in turn: else there were no end of orders. */
    bool may_cut = !is_spinning && (is_stuck || from < 0 || stage.cuts < CUTS_MAX);
    stage.options[step] = (unsigned char)(may_cut ? count : 1);
    if (stage.random && !is_spinning)
        choice = (int)(draw(stage.random) % (uint64_t)count);
    else if (!stage.random && step < stage.given_count)
        choice = stage.choices[step];
    stage.choices[step] = (unsigned char)choice;
    stage.places[step] = place;
    stage.actors[step] = (unsigned char)(from < 0 ? 9 : from);
    stage.cuts += !is_stuck && from >= 0 && choice > 0;
    return candidates[choice];
}

static void pass_to(int next)
{
    int self = stage.actor;
    stage.actor = next;
    if (next != self)
        swapcontext(&stage.contexts[self], &stage.contexts[next]);
}

static void yield_point(const char *place)
{
    if (stage.actor != ACTORS_MAX)
        pass_to(choose(place, stage.actor));
}

static void act(void)
{
    stage.scene->acts[stage.actor]();
    stage.is_over[stage.actor] = true;
    pass_to(choose("the end", stage.actor));
}

static void begin_act(int actor)
{
    ucontext_t *context = &stage.contexts[actor];
    MUST(getcontext(context) == 0);
    context->uc_stack.ss_sp = stage.stacks[actor];
    context->uc_stack.ss_size = STACK;
    context->uc_link = NULL;
    makecontext(context, act, 0);
}

/* Thousands of runners, one after the other: in the same memory. */
static void *arena_take(void *context, size_t alignment, size_t size)
{
    (void)context;
    size_t from = (stage.arena_used + alignment - 1) / alignment * alignment;
    MUST(from + size <= sizeof(stage.arena));
    stage.arena_used = from + size;
    return stage.arena + from;
}

static void arena_give(void *context, void *memory, size_t size)
{
    (void)context;
    (void)memory;
    (void)size;
}

static void note(void *context, const struct tw_expired *due, size_t count)
{
    (void)context;
    for (size_t i = 0; i < count; i++) {
        MUST(due[i].deadline <= tw_runner_now(stage.runner).ns); /* never early */
        stage.fired[due[i].data]++;
        stage.last_deadline_ns = due[i].deadline;
    }
    yield_point("handler");
}

/* The deadline of a timer; NEVER_NS when it has none. */
static uint64_t deadline_of(tw_handle timer)
{
    tw_handle inner = tw__runner_inner(timer);
    struct runner_lane *lane = tw__runner_lane_of(stage.wheel, timer);
    struct tw_wheel_place place;
    return tw_wheel_find(lane->wheel, inner, &place) ? tw__runner_cell(lane, inner)->deadline_ns
                                                     : NEVER_NS;
}

/* The runner sleeps until the timer's tick at most, or is about to look. */
static void judge_sleep(void)
{
    uint64_t until = atomic_load(&stage.runner->sleep_until_ns);
    uint64_t deadline_ns = deadline_of(stage.timer);
    MUST(deadline_ns == NEVER_NS || until <= deadline_ns + MS);
    tw_runner_check(stage.runner);
}

static struct tw_instant at_ms(uint64_t ms)
{
    return (struct tw_instant){ms * MS};
}

/* Plays once, with the choices given or random ones. */
static void play(const struct scene *scene)
{
    stage.scene = scene;
    stage.step_count = stage.cuts = stage.actor_count = 0;
    stage.made = TW_NONE;
    stage.left = 0;
    memset(stage.fired, 0, sizeof(stage.fired));
    memset(stage.answers, 0x7f, sizeof(stage.answers));
    memset(stage.is_over, 0, sizeof(stage.is_over));
    MUST(tw_virtual_init(&stage.clock, (struct tw_instant){50 * MS}));
    stage.arena_used = 0;
    stage.runner = tw_runner_create(&(struct tw_runner_options){
        .clock = &stage.clock.clock, .allocate = arena_take, .release = arena_give});
    stage.wheel = tw_runner_add(stage.runner, &(struct tw_runner_wheel_options){.handler = note});
    scene->set_up();
    tw_virtual_set(&stage.clock, at_ms(100));
    while (stage.actor_count < ACTORS_MAX && scene->acts[stage.actor_count])
        stage.actor_count++;
    for (int i = 0; i < stage.actor_count; i++)
        begin_act(i);
    pass_to(choose("the beginning", -1));
    scene->judge();
    tw_runner_destroy(stage.runner);
    tw_virtual_deinit(&stage.clock);
}

/* The next order, depth first: the last decision that has another option. False after the last. */
static bool next_order(void)
{
    for (int i = stage.step_count - 1; i >= 0; i--)
        if (stage.choices[i] + 1 < stage.options[i]) {
            stage.choices[i]++;
            stage.given_count = i + 1;
            return true;
        }
    return false;
}

/* Acts. */

/* What the runner's thread does until it would wait. */
static void act_runner(void)
{
    for (;;) {
        bool is_done;
        (void)runner_handle_all(stage.runner, SIZE_MAX, &is_done);
        struct tw_instant until = runner_announce_sleep(stage.runner);
        if (runner_may_sleep(stage.runner, until) || atomic_load(&stage.runner->is_stopped))
            return;
        atomic_store(&stage.runner->sleep_until_ns, 0);
    }
}

static void act_cancel(void)
{
    stage.answers[stage.actor] = tw_runner_cancel(stage.wheel, stage.timer);
}

static void act_later(void)
{
    stage.answers[stage.actor] = tw_runner_reschedule(stage.wheel, stage.timer, at_ms(300));
}

static void act_sooner(void)
{
    stage.answers[stage.actor] = tw_runner_reschedule(stage.wheel, stage.timer, at_ms(150));
}

static void act_recycle(void)
{
    stage.answers[stage.actor] = tw_runner_cancel(stage.wheel, stage.timer);
    stage.made = tw_runner_schedule(stage.wheel, at_ms(200), 2);
}

static void act_schedule(void)
{
    stage.timer = tw_runner_schedule(stage.wheel, at_ms(120), 1);
}

/* Two that are due at once, the second in the slot of the first if that has fired. */
static void act_schedule_two(void)
{
    (void)tw_runner_schedule(stage.wheel, at_ms(90), 1);
    stage.timer = tw_runner_schedule(stage.wheel, at_ms(90), 2);
}

static void act_arm_far(void)
{
    stage.answers[stage.actor] = tw_runner_arm_sooner(stage.wheel, stage.timer, at_ms(300));
}

static void act_arm_near(void)
{
    stage.answers[stage.actor] = tw_runner_arm_sooner(stage.wheel, stage.timer, at_ms(150));
}

static void act_close(void)
{
    stage.answers[stage.actor] = tw_runner_close(stage.wheel, stage.timer);
    stage.made = tw_runner_open(stage.wheel, 2);
}

static void act_disarm(void)
{
    stage.answers[stage.actor] = tw_runner_disarm(stage.wheel, stage.timer);
}

static void act_stop(void)
{
    struct tw_expired left[4];
    tw_runner_stop(stage.runner);
    stage.left += tw_runner_take_left(stage.wheel, left, 4);
}

static void act_schedule_or_not(void)
{
    stage.made = tw_runner_schedule(stage.wheel, at_ms(120), 2);
    stage.answers[stage.actor] = tw_runner_arm(stage.wheel, stage.timer, at_ms(150));
}

/* Scenes. */

/* Time stands at 100 ms. The timer is due or not. */
static void set_up_at(uint64_t ms)
{
    bool is_done;
    stage.timer = tw_runner_schedule(stage.wheel, at_ms(ms), 1);
    (void)runner_handle_all(stage.runner, SIZE_MAX, &is_done);
}

static void set_up_due(void)
{
    set_up_at(90);
}

static void set_up_waiting(void)
{
    set_up_at(200);
}

static void set_up_unread(void)
{
    stage.timer = tw_runner_schedule(stage.wheel, at_ms(400), 1);
}

static void set_up_nothing(void)
{
}

static void set_up_opened(void)
{
    stage.timer = tw_runner_open(stage.wheel, 1);
}

static void set_up_opened_due(void)
{
    bool is_done;
    set_up_opened();
    (void)tw_runner_arm(stage.wheel, stage.timer, at_ms(90));
    (void)runner_handle_all(stage.runner, SIZE_MAX, &is_done);
}

static void judge_cancel(void)
{
    MUST(stage.fired[1] + (stage.answers[1] == TW_RUNNER_OK) == 1);
    judge_sleep();
}

static void judge_two_cancels(void)
{
    MUST(stage.fired[1] + (stage.answers[1] == TW_RUNNER_OK) + (stage.answers[2] == TW_RUNNER_OK) ==
         1);
    judge_sleep();
}

static void judge_later(void)
{
    MUST(stage.fired[1] + (stage.answers[1] == TW_RUNNER_OK) == 1);
    MUST(stage.fired[1] == 0 || stage.last_deadline_ns == 90 * MS);
    judge_sleep();
}

static void judge_later_or_cancelled(void)
{
    bool is_cancelled = stage.answers[2] == TW_RUNNER_OK;
    MUST(stage.fired[1] + is_cancelled <= 1);
    MUST(stage.fired[1] + is_cancelled == 1 || stage.answers[1] == TW_RUNNER_OK);
    judge_sleep();
}

static void judge_moves(void)
{
    uint64_t ns = deadline_of(stage.timer);
    MUST(stage.fired[1] == 0 && stage.answers[1] == TW_RUNNER_OK);
    MUST(stage.answers[2] == TW_RUNNER_OK && (ns == 150 * MS || ns == 300 * UINT64_C(1000000)));
    judge_sleep();
}

static void judge_recycled(void)
{
    MUST(stage.fired[1] + (stage.answers[1] == TW_RUNNER_OK) == 1 && stage.fired[2] == 0);
    stage.timer = stage.made;
    judge_sleep();
    MUST(tw_runner_cancel(stage.wheel, stage.made) == TW_RUNNER_OK);
}

static void judge_scheduled(void)
{
    MUST(stage.timer != TW_NONE && stage.fired[1] == 0);
    judge_sleep();
}

static void judge_two_due(void)
{
    struct tw_runner_stats stats;
    act_runner();
    tw_runner_wheel_stats(stage.wheel, &stats);
    MUST(stage.fired[1] == 1 && stage.fired[2] == 1);
    MUST(stats.held == 0);
    judge_sleep();
}

static void judge_nearest(void)
{
    uint64_t ns = deadline_of(stage.timer);
    MUST(stage.answers[1] == TW_RUNNER_OK && stage.answers[2] == TW_RUNNER_OK && ns == 150 * MS);
    judge_sleep();
}

static void judge_armed_again(void)
{
    MUST(stage.answers[1] == TW_RUNNER_OK);
    judge_sleep();
    /* Armed before it fired, the sooner one counts, now or when the runner was rung for. */
    act_runner();
    MUST(stage.fired[1] == 1);
}

static void judge_closed(void)
{
    MUST(stage.answers[1] == TW_RUNNER_OK ? stage.fired[1] <= 1
                                          : stage.answers[1] == TW_RUNNER_RUNNING);
    MUST(stage.answers[1] != TW_RUNNER_RUNNING || stage.fired[1] == 1);
    stage.timer = stage.made;
    judge_sleep();
    MUST(tw_runner_close(stage.wheel, stage.made) == TW_RUNNER_OK);
}

static void judge_disarmed(void)
{
    MUST(stage.fired[1] + (stage.answers[1] == TW_RUNNER_OK) == 1);
    judge_sleep();
}

static void judge_stopped(void)
{
    size_t wanted = (stage.made != TW_NONE) + (stage.answers[1] == TW_RUNNER_OK);
    MUST(stage.left == wanted && stage.fired[1] + stage.fired[2] == 0);
    tw_runner_check(stage.runner);
}

static const struct scene scenes[] = {
    {"cancel against expiry", set_up_due, {act_runner, act_cancel}, judge_cancel},
    {"two cancels", set_up_due, {act_runner, act_cancel, act_cancel}, judge_two_cancels},
    {"later against expiry", set_up_due, {act_runner, act_later}, judge_later},
    {"later, cancel, expiry",
     set_up_due,
     {act_runner, act_later, act_cancel},
     judge_later_or_cancelled},
    {"sooner and later", set_up_waiting, {act_runner, act_sooner, act_later}, judge_moves},
    {"moves before the runner has looked",
     set_up_unread,
     {act_runner, act_sooner, act_later},
     judge_moves},
    {"a slot changes hands", set_up_due, {act_runner, act_recycle}, judge_recycled},
    {"a waiting slot changes hands", set_up_waiting, {act_runner, act_recycle}, judge_recycled},
    {"a slot fires twice", set_up_nothing, {act_runner, act_schedule_two}, judge_two_due},
    {"schedule against sleep", set_up_nothing, {act_runner, act_schedule}, judge_scheduled},
    {"two say how soon", set_up_opened, {act_runner, act_arm_far, act_arm_near}, judge_nearest},
    {"armed while it fires", set_up_opened_due, {act_runner, act_arm_near}, judge_armed_again},
    {"closed while it fires", set_up_opened_due, {act_runner, act_close}, judge_closed},
    {"disarmed while it fires", set_up_opened_due, {act_runner, act_disarm}, judge_disarmed},
    {"stop against schedule and arm",
     set_up_opened,
     {act_stop, act_schedule_or_not},
     judge_stopped},
};

/* ThreadSanitizer loses its way among contexts; and there is but one thread for it to see. */
static void skip_under_tsan(void)
{
#ifdef __SANITIZE_THREAD__
    skip();
#endif
}

static void every_order_with_three_interruptions(void **state)
{
    (void)state;
    skip_under_tsan();
    uint64_t sum = 0;
    stage.random = NULL;
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        uint64_t orders = 0;
        stage.given_count = 0;
        do {
            play(&scenes[i]);
            orders++;
        } while (next_order());
        printf("%s: %" PRIu64 " orders\n", scenes[i].name, orders);
        sum += orders;
    }
    printf("%" PRIu64 " orders in all\n", sum);
}

static void random_orders(void **state)
{
    (void)state;
    skip_under_tsan();
    const char *orders = getenv("TEST_ORDERS");
    uint64_t seed = testing_seed();
    stage.random = &seed;
    long count = orders ? strtol(orders, NULL, 10) : ORDERS_DEFAULT;
    for (long order = 0; order < count; order++)
        for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
            play(&scenes[i]);
    stage.random = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_with_three_interruptions),
        cmocka_unit_test(random_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
