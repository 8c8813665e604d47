/* backfill.c - a backfill as text, and its rate. */
#include "timer/backfill.h"

#include "base/json.h"
#include "base/json_write.h"
#include "base/number.h"
#include "calendar/rfc3339.h"
#include "timer/timer.h"

void backfill_put(const struct backfill *backfill, struct buffer *to)
{
    if (!backfill->of.size)
        return;
    json_open(to, "backfill", '{');
    json_put_string(to, "of", backfill->of);
    if (backfill->count) {
        rfc3339_put(to, "from", backfill->from);
        rfc3339_put(to, "to", backfill->to);
        json_put_string(to, "rate", backfill->rate);
        json_put_number(to, "count", backfill->count);
        json_put_number(to, "done", backfill->done);
    }
    json_close(to, '}');
}

static bool backfill_read_number(struct json_reader *reader, uint64_t *ret_number)
{
    struct bytes number;

    return json_peek(reader) == JSON_NUMBER && json_read_number(reader, &number) &&
           json_number_u64(number, ret_number) == JSON_U64_OK;
}

static bool backfill_read_text(struct json_reader *reader, struct bytes *ret_text)
{
    struct json_string string;

    if (json_peek(reader) != JSON_STRING || !json_read_string(reader, &string))
        return false;
    *ret_text = string.raw;
    return !string.escaped && string.raw.size > 0;
}

static bool backfill_read_wall(struct json_reader *reader, struct wall *ret_wall)
{
    struct bytes text;

    return backfill_read_text(reader, &text) && !rfc3339_parse(text, ret_wall, NULL);
}

static bool backfill_read_member(struct json_reader *reader, struct bytes name,
                                 struct backfill *backfill)
{
#define IS(text) bytes_equal(name, BYTES(text))
    if (IS("of"))
        return backfill_read_text(reader, &backfill->of);
    if (IS("from"))
        return backfill_read_wall(reader, &backfill->from);
    if (IS("to"))
        return backfill_read_wall(reader, &backfill->to);
    if (IS("rate"))
        return backfill_read_text(reader, &backfill->rate) &&
               backfill_rate_parse(backfill->rate, &backfill->pace_ms);
    if (IS("count"))
        return backfill_read_number(reader, &backfill->count) &&
               backfill->count <= BACKFILL_COUNT_MAX;
    return IS("done") && backfill_read_number(reader, &backfill->done);
#undef IS
}

bool backfill_read(struct json_reader *reader, struct backfill *ret_backfill)
{
    struct backfill backfill = {.count = 0};
    struct json_string name;
    bool is_good = json_peek(reader) == JSON_OBJECT && json_enter_object(reader);

    while (is_good && json_next_member(reader, &name))
        is_good = backfill_read_member(reader, name.raw, &backfill);
    struct timer_id id; /* it becomes a header */
    if (!is_good || timer_id_parse(backfill.of, &id) || !!backfill.count != !!backfill.pace_ms)
        return false;
    *ret_backfill = backfill;
    return true;
}

bool backfill_rate_parse(struct bytes text, uint64_t *ret_pace_ms)
{
    static const struct {
        char name;
        uint64_t ms;
    } units[] = {{'s', 1000}, {'m', 60 * 1000}, {'h', 3600 * 1000}};
    uint64_t rate;

    if (text.size < 3 || text.data[text.size - 2] != '/' ||
        !number_parse((struct bytes){text.data, text.size - 2}, 10, &rate) || text.data[0] == '0' ||
        rate > BACKFILL_RATE_MAX)
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
        if (text.data[text.size - 1] == units[i].name) {
            *ret_pace_ms = (units[i].ms + rate - 1) / rate;
            return true;
        }
    return false;
}
