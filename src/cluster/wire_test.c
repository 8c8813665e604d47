/* Goal: commands and answers arrive as they were sent, in the bytes that an earlier build sent, and
 * no damage goes unnoticed. Method: golden bytes; random commands of each kind, and random answers,
 * compared field by field; each flipped bit, each prefix; contradictions under a sum that fits.
 * A new field breaks the build of this test until it is listed, and a new kind that of wire.c. */
#include "base/checksum.h"
#include "cluster/wire.h"
#include "cluster/wire_testing.h"
#include "timer/timer_testing.h"

#define CLUSTER UINT64_C(0x0807060504030201)

/* ---- every field, in order: the compiler warns when one is missing ---- */

/* Of a command: behind each what becomes of it. */
static const struct command no_command = {
    {NULL, NULL}, /* link: the holder's */
    COMMAND_CREATE,
    0,                                     /* partition */
    {{0}, 0, 0},                           /* id */
    {NULL, 0},                             /* name */
    {NULL, 0},                             /* labels */
    {NULL, 0},                             /* tenant */
    {0},                                   /* not_before */
    0,                                     /* if_version */
    false,                                 /* must_exist */
    false,                                 /* has_acted: the node's own */
    {ANSWER_ACK, {NULL, 0}, {NULL, 0}, 0}, /* answer */
    NULL,                                  /* timers */
    NULL,                                  /* results: answered */
    0,                                     /* timer_count */
    0,                                     /* tenant_pending_max */
    0,                                     /* patch_fields */
    NULL,                                  /* patch */
    COMMAND_CREATE,                        /* each */
    NULL,                                  /* events */
    0,                                     /* event_count */
    {0, 0, 0, 0, false},                   /* origin: wire_source_test.c, like the next */
    NULL,                                  /* ledger */
    NULL,                                  /* forecast */
    NULL,                                  /* survey */
    NULL,                                  /* work */
    /* scan: its partition is the command's, and the tenant, labels and looks are the engine's */
    {0, STORAGE_SCAN_LIVE, {{0}, 0}, {{0}, 0}, 0, 0, 0, 0, {0}, {0}, NULL},
    ERROR_NONE,                                  /* answered, as all down to explained */
    NULL,                                        /* timer */
    {NULL, 0, 0, 0, {{0}, 0}},                   /* page */
    {0, 0},                                      /* completed */
    {.place = PLACE_FINAL, .reason = WAIT_ROOM}, /* explained */
    0,                                           /* pending_: the engine's own, as all behind it */
    0,
    {{NULL, NULL}, {NULL, NULL}, 0},
    false,
    {false, false, 0, 0, NULL, 0, 0},
    LOOKUP_WAITS,
    NULL,
    {NULL, NULL},
    {false, false, 0, ERROR_NONE},
};

/* ---- random commands ---- */

static const struct command_work no_work = {
    {NULL, 0}, 0, 0, 0, NULL, WORK_ACK, {DELIVERY_DONE, 0, 0, false, 0, 0, ""}, NULL, NULL, 0, 0};

enum { ITEMS = 5, UNITS = 7, EVENTS = 3, TIMERS = 4, RECEIPTS = 6 };

/* A command with room for all that one may have. */
struct sample {
    struct command command;
    struct timer *timers[TIMERS];
    struct command_created results[TIMERS];
    struct command_event events[EVENTS];
    struct forecast forecast;
    struct timer_filter filter;
    uint64_t due[UNITS];
    struct survey survey;
    const struct timer *items[ITEMS];
    struct command_work work;
    struct command_work_item work_items[ITEMS];
    struct command_receipt receipts[RECEIPTS];
    uint8_t verdicts[RECEIPTS];
    char texts[8][16];
};

static struct bytes wire_random_text(struct random *random, char room[16])
{
    const size_t size = 1 + random_below(random, 15);

    for (size_t i = 0; i < size; i++)
        room[i] = (char)('a' + random_below(random, 26));
    return (struct bytes){room, size};
}

static struct timer *random_timer(struct random *random, enum timer_state state)
{
    char rooms[6][16];
    const bool is_claim = state == TIMER_SCHEDULED && random_below(random, 4) == 0;
    struct timer_texts texts = {.target =
                                    is_claim ? (struct bytes){0} : BYTES("https://shop.example/x"),
                                .tenant = wire_random_text(random, rooms[0]),
                                .key = wire_random_text(random, rooms[1]),
                                .labels = wire_random_text(random, rooms[2])};

    if (timer_keeps_content(state))
        texts.payload = wire_random_text(random, rooms[3]);
    if (state == TIMER_PAUSED)
        texts.note = wire_random_text(random, rooms[4]);
    struct timer *timer = timer_alloc(&texts);
    assert_non_null(timer);
    timer->id = (struct timer_id){
        {random_below(random, 1u << 30)}, (uint16_t)random_below(random, 9), random_next(random)};
    timer->at.ms = 1 + random_below(random, 1u << 30);
    timer->due.ms = random_below(random, 2) ? timer->at.ms : random_next(random);
    timer->created.ms = random_next(random);
    timer->version = (uint32_t)random_next(random);
    timer->attempts = (uint32_t)random_below(random, 9);
    timer->state = state;
    if (timer_is_final(state))
        timer->ended.ms = random_next(random);
    if (state == TIMER_PAUSED)
        timer->paused.ms = random_next(random);
    if (random_below(random, 2))
        timer->retry = (struct retry_policy){3, 5, 7, random_next(random), 9, true};
    timer->failing.ms = random_below(random, 2) ? random_next(random) : 0;
    return timer;
}

static void random_patch(struct random *random, struct command *command, enum command_kind kind)
{
    if (kind != COMMAND_PATCH && kind != COMMAND_TOUCH && kind != COMMAND_PAUSE &&
        (kind != COMMAND_REDRIVE || random_below(random, 2)))
        return;
    struct timer *timer = random_timer(random, TIMER_SCHEDULED);
    char room[16];
    struct timer_texts texts = timer->texts;
    texts.note = wire_random_text(random, room); /* which a row of this state has not */
    command->patch = timer_copy(timer, &texts);
    assert_non_null(command->patch);
    timer_free(timer);
    if (kind == COMMAND_PATCH)
        command->patch_fields = 1 + (uint32_t)random_below(random, 2 * PATCH_ACK_TIMEOUT - 1);
    else if (kind == COMMAND_TOUCH)
        command->patch_fields = PATCH_DUE;
    else if (kind == COMMAND_REDRIVE)
        command->patch_fields = PATCH_TARGET;
}

static void random_complete(struct random *random, struct sample *sample)
{
    static const enum command_kind kinds[] = {COMMAND_CANCEL, COMMAND_FIRE, COMMAND_PATCH,
                                              COMMAND_PAUSE, COMMAND_RESUME};
    struct command *command = &sample->command;

    command->each = kinds[random_below(random, 5)];
    if (random_below(random, 2) &&
        (command->each == COMMAND_CANCEL || command->each == COMMAND_FIRE)) {
        command->name = (struct bytes){0};
        command->events = sample->events;
        command->event_count = EVENTS;
        for (size_t i = 0; i < EVENTS; i++)
            sample->events[i].name = wire_random_text(random, sample->texts[3 + i]);
    } else if (random_below(random, 2)) {
        command->labels = wire_random_text(random, sample->texts[2]);
    }
    random_patch(random, command, command->each);
}

static void random_work(struct random *random, struct sample *sample)
{
    struct command_work *work = &sample->work;

    *work = no_work;
    sample->command.work = work;
    work->queue = wire_random_text(random, sample->texts[7]);
    work->lease_ms = random_next(random);
    if (sample->command.kind == COMMAND_LEASE) {
        work->items_max = ITEMS;
        work->bytes_max = random_next(random);
        work->items = sample->work_items;
        return;
    }
    work->report = (enum work_report)random_below(random, 3);
    if (work->report == WORK_NACK) {
        work->outcome.result = random_below(random, 2) ? DELIVERY_FAILED : DELIVERY_ENDED;
        work->outcome.pause = (enum delivery_pause)random_below(random, 2);
        work->outcome.retry_after_ms = random_next(random);
        wire_random_text(random, work->outcome.error); /* and zeros behind it */
    }
    work->receipt_count = 1 + random_below(random, RECEIPTS);
    for (size_t i = 0; i < work->receipt_count; i++)
        sample->receipts[i] = (struct command_receipt){random_next(random), random_next(random)};
    work->receipts = sample->receipts;
    work->verdicts = sample->verdicts;
}

static const struct timer_filter *random_filter(struct random *random, struct sample *sample)
{
    struct timer_filter *filter = &sample->filter;
    *filter = (struct timer_filter){.states = (uint32_t)random_next(random),
                                    .repeats = random_below(random, 2),
                                    .key_prefix = wire_random_text(random, sample->texts[6]),
                                    .error = BYTES(""), /* differs from none */
                                    .label_count = random_below(random, 3)};
    if (random_below(random, 2))
        filter->flow = wire_random_text(random, sample->texts[7]);
    filter->labels[0].key = filter->labels[1].value = filter->key_prefix;
    return random_below(random, 2) ? filter : NULL;
}

static void random_questions(struct random *random, struct sample *sample)
{
    struct command *command = &sample->command;

    if (command->kind == COMMAND_LIST)
        command->scan = (struct storage_scan){.partition = command->partition,
                                              .kind = STORAGE_SCAN_ALL,
                                              .from = {{random_next(random)}, random_next(random)},
                                              .to = {{random_next(random)}, random_next(random)},
                                              .rows_max = 1 + random_below(random, 1000),
                                              .bytes_max = random_next(random),
                                              .row_bytes = random_next(random),
                                              .filter = random_filter(random, sample)};
    sample->forecast = (struct forecast){.from = {random_next(random)},
                                         .unit_ms = 1 + random_below(random, 1000),
                                         .count = UNITS,
                                         .rows_max = random_next(random),
                                         .due = sample->due};
    if (command->kind == COMMAND_FORECAST)
        command->forecast = &sample->forecast;
    sample->survey = (struct survey){.items = sample->items, .items_max = ITEMS};
    sample->survey.kind = (enum survey_kind)random_below(random, SURVEY_TENANTS + 1);
    sample->survey.queue = wire_random_text(random, sample->texts[7]);
    if (command->kind == COMMAND_SURVEY)
        command->survey = &sample->survey;
    if (command_is_work(command->kind))
        random_work(random, sample);
}

/* What command.h says that the kind has, and nothing else. */
static void random_command(struct random *random, enum command_kind kind, struct sample *sample)
{
    struct command *command = &sample->command;
    const bool is_one = (kind >= COMMAND_GET && kind <= COMMAND_FORGET) || kind >= COMMAND_RELEASE;

    *sample = (struct sample){.command = no_command};
    command->kind = kind;
    command->partition = (uint16_t)random_below(random, 1024);
    command->tenant = wire_random_text(random, sample->texts[0]);
    if (is_one)
        command->id = (struct timer_id){
            {random_next(random)}, (uint16_t)random_next(random), random_next(random)};
    if (kind == COMMAND_ANSWER)
        command->answer = an_answer;
    if ((is_one && kind != COMMAND_ANSWER) || kind == COMMAND_COMPLETE)
        command->name = wire_random_text(random, sample->texts[1]);
    command->not_before.ms = kind == COMMAND_REDRIVE ? random_next(random) : 0;
    if (kind == COMMAND_PUT || (is_one && kind >= COMMAND_PATCH && kind != COMMAND_ANSWER))
        command->if_version = (uint32_t)random_next(random);
    if (kind == COMMAND_CREATE || kind == COMMAND_PUT || kind == COMMAND_REDRIVE)
        command->tenant_pending_max = random_next(random);
    if (kind == COMMAND_CREATE || kind == COMMAND_PUT) {
        command->must_exist = kind == COMMAND_PUT && random_below(random, 2);
        command->timers = sample->timers;
        command->results = sample->results;
        command->timer_count = kind == COMMAND_PUT ? 1 : TIMERS;
        for (size_t i = 0; i < command->timer_count; i++)
            sample->timers[i] = random_timer(random, TIMER_SCHEDULED);
    }
    if (kind == COMMAND_COMPLETE)
        random_complete(random, sample);
    else
        random_patch(random, command, kind);
    random_questions(random, sample);
}

static void sample_free(struct sample *sample)
{
    for (size_t i = 0; i < TIMERS; i++)
        timer_free(sample->timers[i]);
    timer_free(sample->command.patch);
}

/* ---- comparing ---- */

static void assert_texts_equal(struct bytes a, struct bytes b)
{
    assert_true(bytes_equal(a, b));
}

static void assert_ids_equal(const struct timer_id *a, const struct timer_id *b)
{
    assert_true(timer_id_equal(a, b));
}

static void assert_timers_equal(const struct timer *a, const struct timer *b)
{
    assert_true(!a == !b);
    if (!a)
        return;
    assert_ids_equal(&a->id, &b->id);
    assert_true(a->due.ms == b->due.ms && a->at.ms == b->at.ms);
    assert_true(a->created.ms == b->created.ms && a->ended.ms == b->ended.ms);
    assert_true(a->paused.ms == b->paused.ms && a->version == b->version);
    assert_true(a->attempts == b->attempts && a->state == b->state);
    assert_true(retry_policy_equal(&a->retry, &b->retry));
    assert_int_equal(a->target.kind, b->target.kind);
#define X(tag, name, ...) assert_texts_equal(a->texts.name, b->texts.name);
    TIMER_TEXT_LIST(X)
#undef X
}

static void assert_work_equal(const struct command_work *a, const struct command_work *b)
{
    assert_texts_equal(a->queue, b->queue);
    assert_true(a->lease_ms == b->lease_ms && a->items_max == b->items_max);
    assert_true(a->bytes_max == b->bytes_max && a->report == b->report);
    assert_memory_equal(&a->outcome, &b->outcome, sizeof(a->outcome));
    assert_int_equal(a->receipt_count, b->receipt_count);
    for (size_t i = 0; i < a->receipt_count; i++)
        assert_memory_equal(&a->receipts[i], &b->receipts[i], sizeof(a->receipts[i]));
}

static void assert_work_answers_equal(const struct command_work *a, const struct command_work *b)
{
    assert_int_equal(a->item_count, b->item_count);
    for (size_t i = 0; i < a->item_count; i++) {
        assert_memory_equal(&a->items[i].receipt, &b->items[i].receipt,
                            sizeof(struct command_receipt));
        assert_int_equal(a->items[i].attempt, b->items[i].attempt);
        assert_timers_equal(a->items[i].timer, b->items[i].timer);
    }
    for (size_t i = 0; i < a->receipt_count; i++)
        assert_int_equal(a->verdicts[i], b->verdicts[i]);
}

static void assert_questions_equal(const struct command *a, const struct command *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->partition, b->partition);
    assert_ids_equal(&a->id, &b->id);
    assert_texts_equal(a->name, b->name);
    assert_texts_equal(a->labels, b->labels);
    assert_texts_equal(a->tenant, b->tenant);
    assert_true(a->not_before.ms == b->not_before.ms && a->if_version == b->if_version);
    assert_int_equal(a->must_exist, b->must_exist);
    assert_true(a->timer_count == b->timer_count && !a->results == !b->results);
    for (size_t i = 0; i < a->timer_count; i++)
        assert_timers_equal(a->timers[i], b->timers[i]);
    assert_true(a->tenant_pending_max == b->tenant_pending_max);
    assert_int_equal(a->patch_fields, b->patch_fields);
    assert_timers_equal(a->patch, b->patch);
    assert_int_equal(a->each, b->each);
    assert_int_equal(a->event_count, b->event_count);
    for (size_t i = 0; i < a->event_count; i++)
        assert_texts_equal(a->events[i].name, b->events[i].name);
    assert_true(!a->forecast == !b->forecast && !a->survey == !b->survey);
    if (a->forecast) {
        assert_true(a->forecast->from.ms == b->forecast->from.ms);
        assert_true(a->forecast->unit_ms == b->forecast->unit_ms);
        assert_true(a->forecast->count == b->forecast->count);
        assert_true(a->forecast->rows_max == b->forecast->rows_max);
    }
    if (a->survey) {
        assert_int_equal(a->survey->kind, b->survey->kind);
        assert_texts_equal(a->survey->queue, b->survey->queue);
        assert_int_equal(a->survey->items_max, b->survey->items_max);
    }
    assert_true(!a->work == !b->work);
    if (a->work)
        assert_work_equal(a->work, b->work);
    assert_int_equal(a->scan.partition, b->scan.partition);
    assert_int_equal(a->scan.kind, b->scan.kind);
    assert_true(a->scan.from.at.ms == b->scan.from.at.ms);
    assert_true(a->scan.from.serial == b->scan.from.serial);
    assert_true(a->scan.to.at.ms == b->scan.to.at.ms);
    assert_true(a->scan.to.serial == b->scan.to.serial);
    assert_true(a->scan.rows_max == b->scan.rows_max);
    assert_true(a->scan.bytes_max == b->scan.bytes_max);
    assert_true(a->scan.row_bytes == b->scan.row_bytes);
    assert_true(!a->scan.filter == !b->scan.filter);
    for (const struct timer_filter *f = a->scan.filter, *g = b->scan.filter; f; f = NULL) {
        assert_true(f->states == g->states && f->repeats == g->repeats);
        assert_true(!g->target.data && g->error.data);
        assert_texts_equal(f->key_prefix, g->key_prefix);
        assert_texts_equal(f->flow, g->flow);
        assert_int_equal(f->label_count, g->label_count);
        for (size_t i = 0; i < f->label_count; i++)
            assert_texts_equal(f->labels[i].value, g->labels[i].value);
    }
}

static void assert_explained_equal(const struct explained *a, const struct explained *b)
{
    assert_int_equal(a->place, b->place);
    assert_int_equal(a->reason, b->reason);
    assert_true(a->now.ms == b->now.ms && a->until.ms == b->until.ms);
    assert_true(a->read_at.ms == b->read_at.ms && a->since.ms == b->since.ms);
    assert_true(a->wheel_level == b->wheel_level && a->wheel_bucket == b->wheel_bucket);
    assert_true(a->inflight == b->inflight && a->inflight_max == b->inflight_max);
    assert_int_equal(a->is_spilled, b->is_spilled);
    assert_memory_equal(&a->lateness, &b->lateness, sizeof(a->lateness));
}

static void assert_surveys_equal(const struct survey *a, const struct survey *b)
{
    assert_int_equal(a->row_count, b->row_count);
    for (size_t i = 0; i < a->row_count; i++) {
        const struct survey_row *x = &a->rows[i], *y = &b->rows[i];

        assert_texts_equal(survey_name(a, x), survey_name(b, y));
        assert_true(x->ready == y->ready && x->taken == y->taken);
        assert_true(x->oldest.ms == y->oldest.ms && x->is_spilled == y->is_spilled);
    }
    assert_int_equal(a->is_cut, b->is_cut);
    assert_int_equal(a->item_count, b->item_count);
    for (size_t i = 0; i < a->item_count; i++)
        assert_timers_equal(a->items[i], b->items[i]);
    assert_int_equal(a->number_count, b->number_count);
    for (size_t i = 0; i < a->number_count; i++)
        assert_true(a->numbers[i] == b->numbers[i]);
    assert_int_equal(a->failure_count, b->failure_count);
    for (size_t i = 0; i < a->failure_count; i++) {
        const struct survey_failure *x = &a->failures[i], *y = &b->failures[i];

        assert_texts_equal(survey_origin(a, x), survey_origin(b, y));
        assert_texts_equal(survey_path(a, x), survey_path(b, y));
        assert_texts_equal(survey_error(a, x), survey_error(b, y));
        assert_true(x->state == y->state && x->failures == y->failures && x->wait_ms == y->wait_ms);
    }
}

static void assert_answers_equal(const struct command *a, const struct command *b)
{
    assert_int_equal(a->error, b->error);
    assert_timers_equal(a->timer, b->timer);
    for (size_t i = 0; i < a->timer_count; i++) {
        assert_int_equal(a->results[i].error, b->results[i].error);
        assert_int_equal(a->results[i].existed, b->results[i].existed);
        assert_int_equal(a->results[i].is_repeated, b->results[i].is_repeated);
        assert_ids_equal(&a->results[i].id, &b->results[i].id);
    }
    assert_int_equal(a->page.count, b->page.count);
    assert_true(a->page.own == b->page.own);
    assert_true(a->page.next.at.ms == b->page.next.at.ms);
    assert_true(a->page.next.serial == b->page.next.serial);
    for (size_t i = 0; i < a->page.count; i++)
        assert_timers_equal(a->page.timers[i], b->page.timers[i]);
    assert_memory_equal(&a->completed, &b->completed, sizeof(a->completed));
    for (size_t i = 0; i < a->event_count; i++) {
        assert_int_equal(a->events[i].error, b->events[i].error);
        assert_memory_equal(&a->events[i].completed, &b->events[i].completed,
                            sizeof(a->events[i].completed));
    }
    assert_explained_equal(&a->explained, &b->explained);
    if (a->forecast) {
        assert_memory_equal(a->forecast->due, b->forecast->due, UNITS * sizeof(uint64_t));
        assert_true(a->forecast->overdue == b->forecast->overdue);
        assert_true(a->forecast->rows == b->forecast->rows);
        assert_true(a->forecast->rows_own == b->forecast->rows_own);
        assert_true(a->forecast->firings == b->forecast->firings);
        assert_true(a->forecast->until.ms == b->forecast->until.ms);
    }
    if (a->survey)
        assert_surveys_equal(a->survey, b->survey);
    if (a->work)
        assert_work_answers_equal(a->work, b->work);
}

/* ---- commands ---- */

static void message_of(struct buffer *buffer, const struct command *command)
{
    const struct wire_head head = {WIRE_COMMANDS, CLUSTER, 7, 1};

    buffer_init(buffer);
    const size_t begin = wire_begin(buffer, &head);
    assert_int_equal(wire_put_command(buffer, begin, command), ERROR_NONE);
    wire_end(buffer, begin);
    assert_false(buffer_failed(buffer));
}

static bool takes_command(struct bytes message, struct command *ret_command)
{
    struct wire_reader reader;

    if (wire_open(message, &reader, NULL) || !wire_take_command(&reader, ret_command))
        return false;
    if (wire_is_over(&reader))
        return true;
    wire_command_deinit(ret_command);
    return false;
}

static void test_each_command_comes_back(void **state)
{
    struct random random = {testing_seed()};

    (void)state;
    for (int i = 0; i < 2000; i++) {
        struct sample sample;
        struct buffer buffer;
        struct command again;

        random_command(&random, (enum command_kind)(i % COMMAND_LEDGER), &sample);
        message_of(&buffer, &sample.command);
        assert_true(takes_command(buffer_bytes(&buffer), &again));
        assert_questions_equal(&sample.command, &again);
        wire_command_deinit(&again);
        buffer_deinit(&buffer);
        sample_free(&sample);
    }
}

static void test_golden_commands(void **state)
{
    static const uint8_t get[] = {
        'T', 'W', 'M', 1, 1, 2, 3, 4, 5, 6,   7,   8,   1,   7, 0, 0, 0,   1,   0,
        0,   0,   2,   5, 0, 4, 0, 0, 0, 'a', 'c', 'm', 'e', 9, 0, 0, 0,   0,   0,
        0,   0,   3,   0, 1, 2, 0, 0, 0, 0,   0,   0,   3,   0, 0, 0, 'k', 'e', 'y',
    };
    const struct command command = {.kind = COMMAND_GET,
                                    .partition = 5,
                                    .tenant = BYTES("acme"),
                                    .id = {{9}, 3, 513},
                                    .name = BYTES("key")};
    struct buffer buffer;

    (void)state;
    message_of(&buffer, &command);
    assert_int_equal(buffer.size, sizeof(get) + 4);
    assert_memory_equal(buffer.data, get, sizeof(get));
    assert_int_equal(get_le(buffer.data + sizeof(get), 4), checksum_crc32c(0, get, sizeof(get)));
    struct command again;
    for (size_t bit = 0; bit < 8 * buffer.size; bit++) {
        buffer.data[bit / 8] ^= (char)(1 << bit % 8);
        assert_false(takes_command(buffer_bytes(&buffer), &again));
        buffer.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t size = 0; size < buffer.size; size++)
        assert_false(takes_command((struct bytes){buffer.data, size}, &again));
    buffer_deinit(&buffer);
}

/* A timer is its row: at behind its size, the key and the row of record.h. */
static void test_golden_create(void **state)
{
    static const uint8_t head[] = {
        0, 1, 0, 0, 0, 0, 0,    /* CREATE, partition 1, no tenant */
        0, 0, 0, 0, 0, 0, 0, 0, /* no limit */
        0, 1, 0, 0, 0,          /* one timer */
    };
    struct timer *timer = timer_alloc(&(struct timer_texts){.target = BYTES("log:x")});
    struct command_created result;
    const struct command command = {.kind = COMMAND_CREATE,
                                    .partition = 1,
                                    .timers = &timer,
                                    .results = &result,
                                    .timer_count = 1};
    struct buffer buffer;

    (void)state;
    assert_non_null(timer);
    timer->due.ms = 77;
    message_of(&buffer, &command);
    assert_memory_equal(buffer.data + 21, head, sizeof(head));
    const char *row = buffer.data + 21 + sizeof(head);
    const size_t size = get_le(row, 4);
    assert_int_equal(buffer.size, 21 + sizeof(head) + 20 + size + 4);
    assert_int_equal(get_le(row + 4, 8), 0);
    assert_int_equal(get_le(row + 12, 8), 0);
    assert_int_equal(row[20], 1); /* the version of rows */
    assert_memory_equal(row + 20 + size - 4 - 5, "log:x", 5);
    buffer_deinit(&buffer);
    timer_free(timer);
}

static void test_many_commands_in_one_message(void **state)
{
    const struct wire_head head = {WIRE_COMMANDS, CLUSTER, 7, 0};
    struct sample samples[40];
    struct random random;
    struct buffer buffer;

    (void)state;
    random = (struct random){testing_seed()};
    buffer_init(&buffer);
    buffer_append_text(&buffer, "in front");
    const size_t begin = wire_begin(&buffer, &head);
    for (size_t i = 0; i < 40; i++) {
        random_command(&random, (enum command_kind)(i % COMMAND_LEDGER), &samples[i]);
        assert_int_equal(wire_put_command(&buffer, begin, &samples[i].command), ERROR_NONE);
    }
    wire_set_count(&buffer, begin, 40);
    wire_end(&buffer, begin);
    struct wire_reader reader;
    const struct bytes message = {buffer.data + begin, buffer.size - begin};
    assert_int_equal(wire_open(message, &reader, NULL), ERROR_NONE);
    assert_true(reader.head.cluster == CLUSTER && reader.head.node == 7);
    assert_true(reader.head.kind == WIRE_COMMANDS && reader.head.count == 40);
    for (size_t i = 0; i < 40; i++) {
        struct command again;

        assert_true(wire_take_command(&reader, &again));
        assert_questions_equal(&samples[i].command, &again);
        wire_command_deinit(&again);
        sample_free(&samples[i]);
    }
    assert_true(wire_is_over(&reader));
    struct command none;
    assert_false(wire_take_command(&reader, &none));
    buffer_deinit(&buffer);
}

/* Bytes of a command that say what no node sends; the engine would stop at some of them. */
static void test_commands_that_no_node_sends(void **state)
{
    char note[TIMER_NOTE_SIZE_MAX + 1] = {0};
    struct timer *plain = timer_alloc(&(struct timer_texts){.target = BYTES("log:x")});
    struct timer *noted = timer_alloc(&(struct timer_texts){.note = {note, sizeof(note)}});
    struct command_created result;
    struct command_event event = {.name = BYTES("e")};
    struct forecast forecast = {.unit_ms = 1, .count = 0};
    const struct command cases[] = {
        {.kind = COMMAND_PATCH, .patch = NULL},
        {.kind = COMMAND_PATCH, .patch = plain, .patch_fields = 0},
        {.kind = COMMAND_PATCH, .patch = plain, .patch_fields = 2 * PATCH_ACK_TIMEOUT},
        {.kind = COMMAND_TOUCH, .patch = plain, .patch_fields = PATCH_LABELS},
        {.kind = COMMAND_PAUSE, .patch = plain}, /* until no time */
        {.kind = COMMAND_REDRIVE, .patch = plain, .patch_fields = PATCH_TARGET | PATCH_LABELS},
        {.kind = COMMAND_PATCH, .patch = noted, .patch_fields = PATCH_DUE},
        {.kind = COMMAND_COMPLETE, .each = COMMAND_GET},
        {.kind = COMMAND_COMPLETE, .each = COMMAND_CANCEL, .patch = plain},
        {.kind = COMMAND_COMPLETE, .each = COMMAND_RESUME, .events = &event, .event_count = 1},
        {.kind = COMMAND_COMPLETE,
         .each = COMMAND_CANCEL,
         .labels = BYTES("{}"),
         .events = &event,
         .event_count = 1},
        {.kind = COMMAND_CREATE, .timers = &plain, .results = &result, .timer_count = 0},
        {.kind = COMMAND_CREATE,
         .timers = &plain,
         .results = &result,
         .timer_count = 1,
         .must_exist = true},
        {.kind = COMMAND_LIST, .scan = {.rows_max = 0}},
        {.kind = COMMAND_FORECAST, .forecast = &forecast},
    };

    (void)state;
    assert_true(plain && noted);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct buffer buffer;
        struct command again;

        message_of(&buffer, &cases[i]);
        if (takes_command(buffer_bytes(&buffer), &again))
            fail_msg("case %zu is accepted", i);
        buffer_deinit(&buffer);
    }
    timer_free(plain);
    timer_free(noted);
}

static void test_wire_limits(void **state)
{
    char *text = calloc(1, WIRE_TEXT_SIZE_MAX + 1);
    const struct wire_head head = {WIRE_COMMANDS, CLUSTER, 7, 1};
    struct command command = {.kind = COMMAND_GET, .name = {text, WIRE_TEXT_SIZE_MAX}};
    struct buffer buffer;

    (void)state;
    assert_non_null(text);
    message_of(&buffer, &command);
    struct command again;
    assert_true(takes_command(buffer_bytes(&buffer), &again));
    wire_command_deinit(&again);
    buffer_clear(&buffer);
    command.name.size++;
    const size_t begin = wire_begin(&buffer, &head), size = buffer.size;
    assert_int_equal(wire_put_command(&buffer, begin, &command), ERROR_TOO_LARGE);
    assert_int_equal(buffer.size, size);
    command = (struct command){.kind = COMMAND_GET, .tenant = {text, WIRE_TEXT_SIZE_MAX}};
    size_t count = 0;
    while (wire_put_command(&buffer, begin, &command) == ERROR_NONE) /* until the message is full */
        count++;
    assert_int_equal(count, (WIRE_MESSAGE_SIZE_MAX - 25) / (WIRE_TEXT_SIZE_MAX + 29));
    wire_set_count(&buffer, begin, (uint32_t)count);
    wire_end(&buffer, begin);
    struct wire_reader reader;
    assert_int_equal(wire_open(buffer_bytes(&buffer), &reader, NULL), ERROR_NONE);
    wire_set_count(&buffer, begin, WIRE_COUNT_MAX + 1);
    buffer.size -= 4;
    wire_end(&buffer, begin);
    assert_int_equal(wire_open(buffer_bytes(&buffer), &reader, NULL), ERROR_CORRUPT);
    buffer_deinit(&buffer);
    free(text);
}

/* No message has the reader take more memory for answers than WIRE_ROOM_MAX. */
static void test_room_for_answers_is_bounded(void **state)
{
    static uint64_t due[WIRE_COUNT_MAX];
    struct forecast forecast = {.unit_ms = 1, .count = WIRE_COUNT_MAX, .due = due};
    const struct command command = {.kind = COMMAND_FORECAST, .forecast = &forecast};
    const struct wire_head head = {WIRE_COMMANDS, CLUSTER, 7, 200};
    struct command taken[200];
    struct buffer buffer;
    uint32_t count = 0;

    (void)state;
    buffer_init(&buffer);
    const size_t begin = wire_begin(&buffer, &head);
    for (int i = 0; i < 200; i++)
        assert_int_equal(wire_put_command(&buffer, begin, &command), ERROR_NONE);
    wire_end(&buffer, begin);
    struct wire_reader reader;
    assert_int_equal(wire_open(buffer_bytes(&buffer), &reader, NULL), ERROR_NONE);
    while (count < 200 && wire_take_command(&reader, &taken[count]))
        count++;
    assert_int_equal(count, WIRE_ROOM_MAX / (WIRE_COUNT_MAX * 8) - 1);
    while (count-- > 0)
        wire_command_deinit(&taken[count]);
    buffer_deinit(&buffer);
}

/* ---- answers ---- */

static struct wall random_wall(struct random *random)
{
    return (struct wall){random_next(random)};
}

static void random_explained(struct random *random, struct explained *explained)
{
    *explained = (struct explained){
        (enum explain_place)random_below(random, PLACE_INFLIGHT + 1),
        random_wall(random),
        (unsigned)random_next(random),
        (unsigned)random_next(random),
        random_below(random, 2),
        random_wall(random),
        (enum wait_reason)random_below(random, WAIT_REASONS),
        random_wall(random),
        (uint32_t)random_next(random),
        (uint32_t)random_next(random),
        random_wall(random),
        {(uint32_t)random_next(random), {0}},
        {random_wall(random), random_wall(random), 3, {'a', ' ', 'b'}},
        (uint32_t)random_next(random),
    };
    for (size_t i = 0; i < LATENESS_STAGES; i++)
        explained->lateness.ms[i] = (uint32_t)random_next(random);
}

static void random_counts(struct random *random, struct command *command)
{
    for (size_t i = 0; i < command->timer_count; i++)
        command->results[i] =
            (struct command_created){(enum error_code)random_below(random, ERROR_COUNT),
                                     random_below(random, 2),
                                     random_below(random, 2),
                                     {random_wall(random), 3, random_next(random)}};
    for (size_t i = 0; i < command->event_count; i++) {
        command->events[i].error = (enum error_code)random_below(random, ERROR_COUNT);
        command->events[i].completed =
            (struct command_completed){random_next(random), random_next(random)};
    }
    if (command->kind == COMMAND_COMPLETE)
        command->completed = (struct command_completed){random_next(random), random_next(random)};
    if (command->kind == COMMAND_FORECAST) {
        for (size_t i = 0; i < UNITS; i++)
            command->forecast->due[i] = random_next(random);
        command->forecast->overdue = random_next(random);
        command->forecast->rows = random_next(random);
        command->forecast->rows_own = random_next(random);
        command->forecast->firings = random_next(random);
        command->forecast->until = random_wall(random);
    }
}

static void random_survey(struct random *random, struct survey *survey, struct timer *timers[ITEMS])
{
    for (size_t count = random_below(random, 4); count > 0; count--) {
        char room[16];
        struct survey_row *row = survey_add(survey, wire_random_text(random, room));

        assert_non_null(row);
        row->ready = random_next(random);
        row->taken = random_next(random);
        row->oldest = random_wall(random);
        row->is_spilled = random_below(random, 2);
    }
    survey->is_cut = random_below(random, 2);
    survey->item_count = random_below(random, ITEMS + 1);
    for (size_t i = 0; i < survey->item_count; i++)
        survey->items[i] = timers[i];
    survey->number_count = survey->kind == SURVEY_STATS ? random_below(random, 4) : 0;
    survey->numbers = calloc(4, sizeof(*survey->numbers));
    assert_non_null(survey->numbers);
    for (size_t i = 0; i < survey->number_count; i++)
        survey->numbers[i] = random_next(random);
    const size_t failures = survey->kind == SURVEY_FAILURES ? random_below(random, 4) : 0;
    for (size_t i = 0; i < failures; i++) {
        const struct survey_failure failure = {.state = (uint8_t)random_below(random, 3),
                                               .failures = (uint32_t)random_next(random),
                                               .wait_ms = random_next(random)};
        char texts[3][16];

        survey_add_failure(survey, &failure, wire_random_text(random, texts[0]),
                           wire_random_text(random, texts[1]), wire_random_text(random, texts[2]));
    }
}

/* Fills in an answer; its timers are `timers`. */
static void random_answer(struct random *random, struct command *command,
                          struct timer *timers[ITEMS])
{
    command->error = (enum error_code)random_below(random, ERROR_COUNT);
    if (command->kind < COMMAND_COMPLETE || command->kind >= COMMAND_RELEASE)
        command->timer = timers[0];
    if (command->kind == COMMAND_EXPLAIN)
        random_explained(random, &command->explained);
    random_counts(random, command);
    if (command->kind == COMMAND_LIST)
        command->page = (struct storage_page){timers,
                                              random_below(random, ITEMS + 1),
                                              0,
                                              command->scan.filter ? random_next(random) : 0,
                                              {random_wall(random), random_next(random)}};
    if (command->kind == COMMAND_SURVEY)
        random_survey(random, command->survey, timers);
    if (command->kind == COMMAND_LEASE)
        while (command->work->item_count < random_below(random, ITEMS + 1))
            command->work->items[command->work->item_count++] =
                (struct command_work_item){{random_next(random), random_next(random)},
                                           (uint32_t)random_next(random),
                                           timers[0]};
    for (size_t i = 0; command->kind == COMMAND_REPORT && i < command->work->receipt_count; i++)
        command->work->verdicts[i] = (uint8_t)random_below(random, 3);
}

static void answer_message(struct buffer *buffer, const struct wire_answer *answer,
                           const struct command *command)
{
    buffer_init(buffer);
    const size_t begin = wire_begin(buffer, &(struct wire_head){WIRE_ANSWERS, CLUSTER, 7, 1});
    wire_put_answer(buffer, begin, answer, command);
    wire_end(buffer, begin);
    assert_false(buffer_failed(buffer));
}

static bool takes_answer(const struct buffer *buffer, struct command *command,
                         struct wire_answer *ret_answer, struct wire_held *ret_held)
{
    struct wire_reader reader;

    return wire_open(buffer_bytes(buffer), &reader, NULL) == ERROR_NONE &&
           wire_take_answer(&reader, command, ret_answer, ret_held) && wire_is_over(&reader);
}

static void test_each_answer_comes_back(void **state)
{
    struct random random = {testing_seed()};

    (void)state;
    for (int i = 0; i < 2000; i++) {
        const enum command_kind kind = (enum command_kind)(i % COMMAND_LEDGER);
        struct timer *timers[ITEMS];
        struct sample sample;
        struct buffer question, buffer;
        struct command asked; /* as the other node has it: the question alone */
        struct wire_answer answer = {.fate = WIRE_ANSWERED}, again;
        struct wire_held held;

        for (size_t j = 0; j < ITEMS; j++)
            timers[j] = random_timer(&random, (enum timer_state)random_below(&random, 7));
        random_command(&random, kind, &sample);
        message_of(&question, &sample.command);
        assert_true(takes_command(buffer_bytes(&question), &asked));
        random_answer(&random, &sample.command, timers);
        answer_message(&buffer, &answer, &sample.command);
        /* A row of a timer that is over keeps no payload: these have none. */
        assert_true(takes_answer(&buffer, &asked, &again, &held));
        assert_int_equal(again.fate, WIRE_ANSWERED);
        assert_answers_equal(&sample.command, &asked);
        wire_held_deinit(&held);
        wire_command_deinit(&asked);
        buffer_deinit(&question);
        buffer_deinit(&buffer);
        survey_deinit(&sample.survey);
        sample_free(&sample);
        for (size_t j = 0; j < ITEMS; j++)
            timer_free(timers[j]);
    }
}

static void test_other_fates(void **state)
{
    struct command command = {.kind = COMMAND_GET};
    struct wire_answer again;
    struct wire_held held;
    struct buffer buffer;

    (void)state;
    for (enum error_code error = ERROR_NONE + 1; error < ERROR_COUNT; error++) {
        answer_message(&buffer, &(struct wire_answer){.fate = WIRE_FAILED, .error = error},
                       &command);
        assert_true(takes_answer(&buffer, &command, &again, &held));
        assert_true(again.fate == WIRE_FAILED && again.error == error);
        buffer_deinit(&buffer);
    }
    answer_message(&buffer, &(struct wire_answer){.fate = WIRE_ELSEWHERE, .node = 0x01020304},
                   &command);
    static const uint8_t golden[] = {2, 4, 3, 2, 1};
    assert_memory_equal(buffer.data + 21, golden, sizeof(golden));
    assert_true(takes_answer(&buffer, &command, &again, &held));
    assert_true(again.fate == WIRE_ELSEWHERE && again.node == 0x01020304);
    buffer_deinit(&buffer);
}

/* The answer to another command, one without the timer that its reader shows, and one that is too
 * large for a message. */
static void test_answers_that_do_not_fit(void **state)
{
    const struct wire_answer answered = {.fate = WIRE_ANSWERED};
    struct command list = {.kind = COMMAND_LIST}, get = {.kind = COMMAND_GET};
    struct wire_answer again;
    struct wire_held held;
    struct buffer buffer;

    (void)state;
    answer_message(&buffer, &answered, &list);
    assert_false(takes_answer(&buffer, &get, &again, &held));
    buffer_deinit(&buffer);
    answer_message(&buffer, &answered, &get);
    assert_false(takes_answer(&buffer, &get, &again, &held));
    buffer_deinit(&buffer);
    struct command cancel = {.kind = COMMAND_CANCEL, .error = ERROR_NOT_FOUND};
    answer_message(&buffer, &answered, &cancel);
    assert_true(takes_answer(&buffer, &cancel, &again, &held));
    assert_false(takes_answer(&buffer, &get, &again, &held)); /* of the same form */
    buffer_deinit(&buffer);

    const size_t size = (size_t)WIRE_MESSAGE_SIZE_MAX / 2;
    char *payload = calloc(1, size);
    assert_non_null(payload);
    struct timer *large = timer_alloc(&(struct timer_texts){.payload = {payload, size}});
    assert_non_null(large);
    list.page = (struct storage_page){(struct timer *[]){large, large}, 2, 0, 0, {{0}, 0}};
    answer_message(&buffer, &answered, &list);
    assert_true(takes_answer(&buffer, &list, &again, &held));
    assert_true(again.fate == WIRE_FAILED && again.error == ERROR_OVERLOADED);
    buffer_deinit(&buffer);
    timer_free(large);
    free(payload);
}

static void test_failure_is_seen_everywhere(void **state)
{
    struct command_created results[2] = {no_result, no_result};
    struct command_event events[2] = {no_event, no_event};
    struct forecast forecast = no_forecast;
    struct survey_row row = no_row;
    struct survey survey = no_survey;
    struct command command = {.kind = COMMAND_CREATE,
                              .results = results,
                              .timer_count = 2,
                              .events = events,
                              .event_count = 2,
                              .forecast = &forecast,
                              .survey = &survey};

    (void)state;
    (void)row;
    wire_fail(&command, ERROR_OVERLOADED);
    assert_int_equal(command.error, ERROR_OVERLOADED);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(results[i].error, ERROR_OVERLOADED);
        assert_int_equal(events[i].error, ERROR_OVERLOADED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_command_comes_back),
        cmocka_unit_test(test_golden_commands),
        cmocka_unit_test(test_golden_create),
        cmocka_unit_test(test_many_commands_in_one_message),
        cmocka_unit_test(test_commands_that_no_node_sends),
        cmocka_unit_test(test_wire_limits),
        cmocka_unit_test(test_room_for_answers_is_bounded),
        cmocka_unit_test(test_each_answer_comes_back),
        cmocka_unit_test(test_other_fates),
        cmocka_unit_test(test_answers_that_do_not_fit),
        cmocka_unit_test(test_failure_is_seen_everywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
