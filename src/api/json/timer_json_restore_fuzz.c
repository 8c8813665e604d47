/*
 * timer_json_restore_fuzz - lines of an import, of any bytes: the answer is a live timer within all
 * limits, which is shown and read again as the timer that it is; or a problem that is valid JSON.
 */
#include "api/json/timer_json.h"
#include "base/json_oracle.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW ((struct wall){UINT64_C(1795132800000)})

static const struct timer_json_limits restore_limits = {
    .payload_bytes_max = 256,
    .target_bytes_max = 128,
    .labels_max = 8,
    .headers_bytes_max = 256,
};

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static void restore_check_problem(enum error_code code, const struct problem *problem)
{
    struct buffer text;

    REQUIRE(problem->code == code);
    REQUIRE(code == ERROR_NOT_JSON || code == ERROR_INVALID || code == ERROR_TOO_LARGE);
    REQUIRE((problem->faults[0].pointer[0] == '#') == (code != ERROR_NOT_JSON));
    REQUIRE(problem->faults[0].detail[0] != '\0');
    buffer_init(&text);
    problem_format(problem, &text);
    json_t *json = json_loadb(text.data, text.size, JSON_ALLOW_NUL, NULL);
    REQUIRE(json != NULL);
    json_decref(json);
    buffer_deinit(&text);
}

static void restore_check_limits(const struct timer *timer)
{
    REQUIRE(timer->due.ms <= WALL_MS_MAX && timer->created.ms <= WALL_MS_MAX);
    REQUIRE(timer->version >= 1 && timer->attempts <= UINT8_MAX);
    REQUIRE(timer->state == TIMER_SCHEDULED || timer->state == TIMER_RETRYING ||
            timer->state == TIMER_PAUSED);
    REQUIRE(timer->state == TIMER_PAUSED || timer->at.ms <= WALL_MS_MAX);
    REQUIRE(timer->state == TIMER_RETRYING || timer->state == TIMER_PAUSED || !timer->at.ms);
    REQUIRE((timer->state == TIMER_PAUSED) || !timer->paused.ms);
    REQUIRE(timer->texts.payload.size <= restore_limits.payload_bytes_max);
    REQUIRE(timer->texts.target.size <= restore_limits.target_bytes_max);
    REQUIRE(timer->texts.headers.size <= restore_limits.headers_bytes_max);
    REQUIRE(timer->texts.last_error.size <= TIMER_NOTE_SIZE_MAX);
    REQUIRE(timer->texts.note.size <= TIMER_NOTE_SIZE_MAX);
    REQUIRE(timer->texts.key.size || timer->texts.request.size);
}

/* The id that is shown is another one, so the text that names the import is too. */
static void restore_check_round_trip(const struct timer *timer)
{
    struct buffer shown;
    struct timer *back;
    struct problem problem;

    buffer_init(&shown);
    timer_json_format(timer, &(struct timer_json_view){0}, &shown);
    REQUIRE(!timer_json_parse_restore(buffer_bytes(&shown), &restore_limits, NOW, &back, &problem));
    REQUIRE(back->due.ms == timer->due.ms && back->created.ms == timer->created.ms);
    REQUIRE(back->at.ms == timer->at.ms && back->paused.ms == timer->paused.ms);
    REQUIRE(back->version == timer->version && back->attempts == timer->attempts);
    REQUIRE(back->state == timer->state);
    REQUIRE(back->retry.attempts_max == timer->retry.attempts_max &&
            back->retry.base_ms == timer->retry.base_ms &&
            back->retry.cap_ms == timer->retry.cap_ms &&
            back->retry.timeout_ms == timer->retry.timeout_ms);
    back->texts.request = timer->texts.request;
#define X(tag, name, ...) REQUIRE(bytes_equal(back->texts.name, timer->texts.name));
    TIMER_TEXT_LIST(X)
#undef X
    timer_free(back);
    buffer_deinit(&shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes line = {(const char *)data, size};
    struct timer *timer;
    struct problem problem;
    const enum error_code code =
        timer_json_parse_restore(line, &restore_limits, NOW, &timer, &problem);

    if (code) {
        restore_check_problem(code, &problem);
        return 0;
    }
    restore_check_limits(timer);
    restore_check_round_trip(timer);
    timer_free(timer);
    return 0;
}
