/* content.c - draws the contents of timers, and compares them with rows, deliveries and answers. */
#include "content.h"

#include "plan.h"
#include "tenants.h"
#include "timer/awaits.h"
#include "timer/fanout.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAYLOAD_MAX = 4096 };

struct content_texts {
    char target[CONTENT_TARGET_SIZE], targets[FAN_MAX * CONTENT_TARGET_SIZE], headers[40],
        labels[CONTENT_LABELS_SIZE], payload[PAYLOAD_MAX];
    char on_dead[80], on_success[80], report_of[TIMER_ID_TEXT_SIZE], firing_of[TIMER_ID_TEXT_SIZE];
    char key[CONTENT_NAME_SIZE], request[CONTENT_NAME_SIZE], watch[EVENTS_MAX * CONTENT_NAME_SIZE];
    char schedule[RHYTHM_TEXT_SIZE], flow[20], debounce[DEBOUNCE_TEXT_SIZE];
    char ack_timeout[ACK_TIMEOUT_TEXT_SIZE];
    struct timer_texts texts;
};

#define PRINT(field, ...)                                              \
    (struct bytes)                                                     \
    {                                                                  \
        (field), (size_t)snprintf((field), sizeof(field), __VA_ARGS__) \
    }

static struct bytes payload_text(const struct content *content, char text[PAYLOAD_MAX])
{
    size_t size = (size_t)snprintf(text, PAYLOAD_MAX, "\"%" PRIu32 " ", content->payload);

    while (size < content->payload_size && size < PAYLOAD_MAX - 1)
        text[size++] = '.';
    text[size++] = '"';
    return (struct bytes){text, size};
}

struct bytes content_key_text(uint8_t key, char ret_text[CONTENT_NAME_SIZE])
{
    return (struct bytes){ret_text, (size_t)snprintf(ret_text, CONTENT_NAME_SIZE, "key-%u", key)};
}

struct bytes content_event_text(uint8_t event, char ret_text[CONTENT_NAME_SIZE])
{
    return (struct bytes){ret_text,
                          (size_t)snprintf(ret_text, CONTENT_NAME_SIZE, "event:%u", event)};
}

struct bytes content_group_text(uint8_t group, char ret_text[CONTENT_NAME_SIZE])
{
    return (struct bytes){
        ret_text, (size_t)snprintf(ret_text, CONTENT_NAME_SIZE, "{\"group\":\"%u\"}", group)};
}

static struct bytes watch_text(uint8_t watch, char *text)
{
    size_t size = 0;

    for (uint8_t event = 1; event <= EVENTS_MAX; event++) {
        if (!(watch & 1u << event))
            continue;
        size += content_event_text(event, text + size).size;
        text[size++] = '\n';
    }
    return (struct bytes){text, size};
}

static void write_names(const struct content *content, struct content_texts *ret)
{
    if (content->key)
        ret->texts.key = content_key_text(content->key, ret->key);
    if (content->request) /* the fingerprint precedes it: NAME_FINGERPRINT_SIZE */
        ret->texts.request =
            PRINT(ret->request, "%016u%u", content->variant + 1u, content->request);
    ret->texts.tenant = tenants_text(content->tenant);
    ret->texts.watch = watch_text(content->watch, ret->watch);
    ret->texts.schedule = rhythm_text(&content->rhythm, ret->schedule);
}

struct bytes content_labels_text(const struct content *content, char text[CONTENT_LABELS_SIZE])
{
    if (content_is_report(content) && !content->labels)
        return (struct bytes){0};
    const int size = snprintf(text, 80, "{\"timer\":\"%" PRIu32 "\",\"label\":\"%" PRIu32 "\"",
                              content->number, content->labels);
    const int more = content->group ? snprintf(text + size, 80 - (size_t)size, ",\"group\":\"%u\"}",
                                               content->group)
                                    : snprintf(text + size, 80 - (size_t)size, "}");

    return (struct bytes){text, (size_t)(size + more)};
}

static struct bytes report_target_text(uint8_t target, char text[80])
{
    if (!target)
        return (struct bytes){0};
    const uint8_t origin = target - 1;
    const int size = origin == QUEUE_ORIGIN
                         ? snprintf(text, 80, "queue:sim?priority=0")
                         : snprintf(text, 80, "http://host-%u.example:8%u/report", origin, origin);

    return (struct bytes){text, (size_t)size};
}

static void write_reports(const struct content *content, struct content_texts *ret)
{
    if (content_is_report(content) && !content->target)
        ret->texts.target = report_target_text(1 + content->origin, ret->target);
    ret->texts.on_dead = report_target_text(content->on_dead, ret->on_dead);
    ret->texts.on_success = report_target_text(content->on_success, ret->on_success);
    if (content->firing_of.serial) {
        timer_id_format(&content->firing_of, ret->firing_of);
        ret->texts.firing_of = bytes_of(ret->firing_of);
    }
    if (!content_is_report(content))
        return;
    timer_id_format(&content->report_of, ret->report_of);
    ret->texts.report_of = bytes_of(ret->report_of);
}

/* Targets of one origin have several URLs, so that a limit per origin differs from one per URL. */
struct bytes content_target_text(const struct fan_target *target, char text[CONTENT_TARGET_SIZE])
{
    if (target->origin == MESSAGE_ORIGIN)
        return BYTES("kafka://bus/due");
    const int size =
        target->origin == QUEUE_ORIGIN
            ? snprintf(text, CONTENT_TARGET_SIZE, "queue:sim?priority=%" PRIu32, target->target - 1)
            : snprintf(text, CONTENT_TARGET_SIZE, "http://host-%u.example:8%u%s%" PRIu32,
                       target->origin, target->origin,
                       target->target % 2 ? "/t/" : "?t=", target->target);
    return (struct bytes){text, (size_t)size};
}

/* Writes a line for each of several targets. */
static struct bytes targets_text(const struct content *content, char *text)
{
    size_t size = 0;

    for (size_t i = 0; i < content->fan_count; i++) {
        size += content_target_text(&content->fan[i], text + size).size;
        text[size++] = '\n';
    }
    return (struct bytes){text, size};
}

static void write_texts(const struct content *content, struct content_texts *ret)
{
    const struct fan_target target = {content->target, content->origin};

    ret->texts = (struct timer_texts){
        .target = content_target_text(content->fan_count ? &content->fan[0] : &target, ret->target),
        .targets = targets_text(content, ret->targets),
        .labels = content_labels_text(content, ret->labels),
    };
    if (content->payload)
        ret->texts.payload = payload_text(content, ret->payload);
    if (content->payload % 2)
        ret->texts.content_type = BYTES("text/plain");
    if (content->headers)
        ret->texts.headers = PRINT(ret->headers, "x-token: %" PRIu32 "\n", content->headers);
    if (content->flow)
        ret->texts.flow = PRINT(ret->flow, "flow-%u\n%u 0 0", content->flow, content->flow);
    if (content->ack_timeout_ms) {
        ack_timeout_format(content->ack_timeout_ms, ret->ack_timeout);
        ret->texts.ack_timeout = bytes_of(ret->ack_timeout);
    }
    if (content->debounce.for_ms)
        ret->texts.debounce = debounce_write(&content->debounce, ret->debounce);
    write_names(content, ret);
    write_reports(content, ret);
}

struct content content_of_report(const struct content *about, const struct timer_id *id,
                                 uint8_t target, struct bytes body)
{
    const uint8_t origin = target - 1;

    return (struct content){
        .retry = RETRY_POLICY_DEFAULT,
        .target = origin == QUEUE_ORIGIN, /* 1: the lowest priority */
        .origin = origin,
        .tenant = about->tenant,
        .report_of = *id,
        .body_sum = bytes_hash(0, body),
        .rhythm = RHYTHM_NONE,
    };
}

void content_debounce(struct content *content, struct wall call, struct wall first)
{
    struct debounce *debounce = &content->debounce;

    debounce->first = first;
    content->due =
        wall_min(wall_add(call, debounce->for_ms), wall_add(first, debounce->at_most_ms));
    content->due = wall_min(content->due, (struct wall){WALL_MS_MAX});
}

struct content content_of_firing(const struct content *of, const struct timer_id *id,
                                 struct wall due)
{
    struct content content = *of;

    content.due = due;
    content.key = content.request = 0;
    content.debounce = (struct debounce){.for_ms = 0};
    content.firing_of = *id;
    content.rhythm = RHYTHM_NONE;
    content.rhythm.drop_after_ms = of->rhythm.drop_after_ms;
    content.rhythm.backfill.of = of->rhythm.backfill.of;
    return content;
}

struct content content_of_part(const struct content *of, const struct timer_id *id, size_t i)
{
    struct content content = *of;

    content.target = of->fan[i].target;
    content.origin = of->fan[i].origin;
    content.fan_count = 0;
    content.key = content.request = content.watch = content.on_dead = content.on_success = 0;
    content.rhythm = RHYTHM_NONE;
    content.debounce = (struct debounce){.for_ms = 0};
    content.retry.until_next = false;
    content.report_of = content.firing_of = (struct timer_id){{0}, 0, 0};
    content.part_of = *id;
    return content;
}

/* True if the timer says that it is the part that it is to be. How the parts of a timer stand is
 * checked in made.c. */
static bool is_part_as_asked(const struct content *content, const struct timer *timer)
{
    struct timer_id id;

    if (fanout_is_part(timer, &id))
        return timer_id_equal(&id, &content->part_of);
    return !content->part_of.serial && (content->fan_count || !timer->texts.parts.size);
}

struct timer *content_timer(const struct content *content)
{
    struct content_texts texts;

    write_texts(content, &texts);
    struct timer *timer = timer_alloc(&texts.texts);
    assert(timer);
    timer->due = content->due;
    timer->created = content->created;
    timer->retry = content->retry;
    return timer;
}

static bool retry_equal(const struct retry_policy *a, const struct retry_policy *b)
{
    return a->attempts_max == b->attempts_max && a->base_ms == b->base_ms &&
           a->cap_ms == b->cap_ms && a->timeout_ms == b->timeout_ms &&
           a->give_up_ms == b->give_up_ms && a->until_next == b->until_next;
}

bool content_matches(const struct content *content, const struct timer *timer)
{
    const bool may_lack = timer_is_final(timer->state) && timer->state != TIMER_DEAD;
    const struct timer_texts *texts = &timer->texts;
    struct content_texts want;

    write_texts(content, &want);
    if (timer->due.ms != content->due.ms || timer->created.ms != content->created.ms ||
        !retry_equal(&timer->retry, &content->retry) ||
        !bytes_equal(texts->target, want.texts.target) ||
        !bytes_equal(texts->targets, want.texts.targets) || !is_part_as_asked(content, timer) ||
        !bytes_equal(texts->labels, want.texts.labels) ||
        !bytes_equal(texts->key, want.texts.key) ||
        !bytes_equal(texts->request, want.texts.request) ||
        !bytes_equal(texts->tenant, want.texts.tenant) ||
        !bytes_equal(texts->report_of, want.texts.report_of) ||
        !bytes_equal(texts->firing_of, want.texts.firing_of))
        return false;
    if (may_lack && !texts->payload.size && !texts->headers.size && !texts->watch.size &&
        !texts->schedule.size && !texts->on_dead.size && !texts->on_success.size &&
        !texts->flow.size && !texts->debounce.size && !texts->ack_timeout.size)
        return true;
    return (content->body_sum ? bytes_hash(0, texts->payload) == content->body_sum
                              : bytes_equal(texts->payload, want.texts.payload)) &&
           bytes_equal(texts->content_type, want.texts.content_type) &&
           bytes_equal(texts->on_dead, want.texts.on_dead) &&
           bytes_equal(texts->on_success, want.texts.on_success) &&
           bytes_equal(texts->flow, want.texts.flow) &&
           bytes_equal(texts->ack_timeout, want.texts.ack_timeout) &&
           bytes_equal(texts->debounce, want.texts.debounce) &&
           bytes_equal(texts->headers, want.texts.headers) &&
           bytes_equal(texts->watch, want.texts.watch) &&
           bytes_equal(texts->schedule, want.texts.schedule);
}

/* A timer that repeats keeps its due time; two times given as delays are equal if the delays are.
 * */
bool content_is_same(const struct content *there, const struct content *asked)
{
    const uint32_t all = PATCH_TARGET | PATCH_PAYLOAD | PATCH_HEADERS | PATCH_LABELS | PATCH_RETRY |
                         PATCH_ON_DEAD | PATCH_ON_SUCCESS | PATCH_FLOW | PATCH_ACK_TIMEOUT;
    char a[RHYTHM_TEXT_SIZE], b[RHYTHM_TEXT_SIZE];

    return content_equal(there, asked, all) && there->watch == asked->watch &&
           bytes_equal(rhythm_text(&there->rhythm, a), rhythm_text(&asked->rhythm, b)) &&
           (there->due.ms == asked->due.ms || rhythm_recurs(&there->rhythm) ||
            there->due.ms - there->created.ms == asked->due.ms - asked->created.ms);
}

void content_patch(struct content *content, uint32_t fields, const struct content *values)
{
    if (fields & PATCH_DUE)
        content->due = values->due;
    if (fields & PATCH_RETRY)
        content->retry = values->retry;
    if (fields & PATCH_TARGET) {
        content->target = values->target;
        content->origin = values->origin;
        content->fan_count = values->fan_count;
        memcpy(content->fan, values->fan, sizeof(content->fan));
    }
    if (fields & PATCH_PAYLOAD) {
        content->payload = values->payload;
        content->payload_size = values->payload_size;
        content->body_sum = 0;
    }
    if (fields & PATCH_HEADERS)
        content->headers = values->headers;
    if (fields & PATCH_LABELS) {
        content->labels = values->labels;
        content->number = values->number;
        content->group = values->group;
    }
    if (fields & PATCH_WATCH)
        content->watch = values->watch;
    if (fields & PATCH_ON_DEAD)
        content->on_dead = values->on_dead;
    if (fields & PATCH_ON_SUCCESS)
        content->on_success = values->on_success;
    if (fields & PATCH_FLOW)
        content->flow = values->flow;
    if (fields & PATCH_ACK_TIMEOUT)
        content->ack_timeout_ms = values->ack_timeout_ms;
    if (fields & PATCH_SCHEDULE) {
        content->rhythm = values->rhythm;
        if (!content->rhythm.cron && !content->rhythm.is_from_named)
            content->rhythm.from = wall_add(content->created, content->rhythm.period_ms);
    }
}

static bool has_same_targets(const struct content *a, const struct content *b)
{
    bool is_same = a->target == b->target && a->origin == b->origin && a->fan_count == b->fan_count;

    for (size_t i = 0; i < a->fan_count; i++)
        is_same =
            is_same && a->fan[i].target == b->fan[i].target && a->fan[i].origin == b->fan[i].origin;
    return is_same;
}

bool content_equal(const struct content *a, const struct content *b, uint32_t fields)
{
    return (!(fields & PATCH_DUE) || a->due.ms == b->due.ms) &&
           (!(fields & PATCH_RETRY) || retry_equal(&a->retry, &b->retry)) &&
           (!(fields & PATCH_TARGET) || has_same_targets(a, b)) &&
           (!(fields & PATCH_PAYLOAD) ||
            (a->payload == b->payload && (!a->payload || a->payload_size == b->payload_size))) &&
           (!(fields & PATCH_HEADERS) || a->headers == b->headers) &&
           (!(fields & PATCH_ON_DEAD) || a->on_dead == b->on_dead) &&
           (!(fields & PATCH_ON_SUCCESS) || a->on_success == b->on_success) &&
           (!(fields & PATCH_FLOW) || a->flow == b->flow) &&
           (!(fields & PATCH_ACK_TIMEOUT) || a->ack_timeout_ms == b->ack_timeout_ms) &&
           (!(fields & PATCH_LABELS) ||
            (a->labels == b->labels && a->number == b->number && a->group == b->group));
}

uint32_t content_number(const struct timer *timer)
{
    const struct bytes prefix = BYTES("{\"timer\":\"");

    if (!bytes_has_prefix(timer->texts.labels, prefix))
        return 0;
    return (uint32_t)strtoul(timer->texts.labels.data + prefix.size, NULL, 10);
}
