/* Builds the message of one delivery: its fields, header values and id. */
#include "delivery/broker_message.h"

#include "calendar/rfc3339.h"
#include "delivery/webhook.h"
#include "timer/schedule.h"

#include <assert.h>
#include <stdlib.h>

/* Number of the fields that every message has, and room for their names, values and NULs. */
#define FIELDS_FIXED    8
#define TEXT_FIXED_SIZE 640

void broker_builder_deinit(struct broker_builder *builder)
{
    buffer_deinit(&builder->text_);
    free(builder->fields_);
}

/* Reserves all memory first, so that pointers into it stay valid while the message is built. */
static bool broker_message_reserve(struct broker_builder *builder, const struct timer_texts *texts)
{
    size_t count = FIELDS_FIXED;

    for (size_t i = 0; i < texts->headers.size; i++)
        count += texts->headers.data[i] == '\n';
    count++; /* the last line may have no line break */
    if (count > builder->capacity_) {
        struct named_bytes *fields = realloc(builder->fields_, count * sizeof(*fields));
        if (!fields)
            return false;
        builder->fields_ = fields;
        builder->capacity_ = count;
    }
    buffer_clear(&builder->text_);
    return buffer_reserve(&builder->text_, TEXT_FIXED_SIZE + texts->target.size + 8 +
                                               texts->content_type.size + texts->headers.size +
                                               2 * count) != NULL;
}

/* Copies the text, with a NUL after it. */
static struct bytes broker_message_keep(struct broker_builder *builder, struct bytes text)
{
    size_t start = builder->text_.size;

    buffer_append_bytes(&builder->text_, text);
    buffer_append(&builder->text_, "", 1);
    return (struct bytes){builder->text_.data + start, text.size};
}

static struct bytes message_keep_decoded(struct broker_builder *builder, struct bytes text)
{
    size_t start = builder->text_.size;

    broker_url_decode(text, &builder->text_);
    return (struct bytes){builder->text_.data + start, builder->text_.size - start - 1};
}

static struct bytes message_keep_number(struct broker_builder *builder, uint64_t number)
{
    size_t start = builder->text_.size;

    buffer_append_u64(&builder->text_, number);
    size_t size = builder->text_.size - start;
    buffer_append(&builder->text_, "", 1);
    return (struct bytes){builder->text_.data + start, size};
}

/* Copies one line "Name: value" of the timer's headers. Returns false if it must not be sent. */
static bool message_keep_own(struct broker_builder *builder, struct bytes line,
                             struct named_bytes *ret_field)
{
    const char *colon = line.size ? memchr(line.data, ':', line.size) : NULL;

    if (!colon || bytes_has_control(line))
        return false;
    struct bytes name = {line.data, (size_t)(colon - line.data)};
    if (name.size == 0 || webhook_header_is_reserved(name))
        return false;
    ret_field->name = broker_message_keep(builder, name).data;
    ret_field->value = broker_message_keep(
        builder, bytes_trim((struct bytes){colon + 1, line.size - name.size - 1}));
    return true;
}

static size_t message_keep_all_own(struct broker_builder *builder, struct bytes lines)
{
    size_t count = 0;

    while (lines.size > 0) {
        const char *newline = memchr(lines.data, '\n', lines.size);
        size_t size = newline ? (size_t)(newline - lines.data) : lines.size;

        count +=
            message_keep_own(builder, (struct bytes){lines.data, size}, &builder->fields_[count]);
        size += newline != NULL;
        lines.data += size;
        lines.size -= size;
    }
    return count;
}

/* Adds the ids of the attempt's span, and those of the span that created the timer. Returns the end
 * of the fields. */
static struct named_bytes *message_add_trace(struct broker_builder *builder,
                                             const struct delivery *delivery,
                                             struct named_bytes *field)
{
    const struct bytes link = delivery->timer->texts.trace;
    char text[TRACE_PARENT_SIZE + 1];

    trace_parent_format(&delivery->trace, text);
    *field++ = (struct named_bytes){"traceparent", broker_message_keep(builder, bytes_of(text))};
    if (link.size == TRACE_PARENT_SIZE && !bytes_has_control(link))
        *field++ = (struct named_bytes){"tickwheel-linked-traceparent",
                                        broker_message_keep(builder, link)};
    return field;
}

enum error_code broker_message_build(struct broker_builder *builder,
                                     const struct delivery *delivery,
                                     struct broker_message *ret_message, struct error *ret_error)
{
    const struct timer *timer = delivery->timer;
    const struct timer_texts *texts = &timer->texts;
    bool has_type = texts->content_type.size > 0 && !bytes_has_control(texts->content_type);
    struct broker_message message = {.payload = texts->payload,
                                     .is_json = texts->content_type.size == 0,
                                     .timer_key = texts->key};
    const struct target *target = &timer->target;

    if (!broker_message_reserve(builder, texts))
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < target->path_count; i++)
        message.names[i] =
            message_keep_decoded(builder, target_slice(texts->target, target->paths[i]));
    if (target->has_key)
        message.key = message_keep_decoded(builder, target_slice(texts->target, target->key));
    char id[WEBHOOK_ID_SIZE];
    webhook_id_format(timer, id);
    char due[RFC3339_TEXT_SIZE];
    rfc3339_format(timer->due, due);
    struct named_bytes *field = builder->fields_ + message_keep_all_own(builder, texts->headers);
    *field++ = (struct named_bytes){
        "content-type",
        broker_message_keep(builder, has_type ? texts->content_type : BYTES("application/json"))};
    *field++ = (struct named_bytes){"webhook-id", broker_message_keep(builder, bytes_of(id))};
    message.id = field[-1].value.data;
    *field++ = (struct named_bytes){"tickwheel-due", broker_message_keep(builder, bytes_of(due))};
    *field++ =
        (struct named_bytes){"tickwheel-attempt", message_keep_number(builder, delivery->attempt)};
    *field++ =
        (struct named_bytes){"tickwheel-epoch", message_keep_number(builder, delivery->epoch)};
    struct backfill backfill;
    if (schedule_backfill(texts->schedule, &backfill))
        *field++ =
            (struct named_bytes){"tickwheel-backfill", broker_message_keep(builder, backfill.of)};
    if (delivery->trace.span)
        field = message_add_trace(builder, delivery, field);
    message.fields = builder->fields_;
    message.field_count = (size_t)(field - builder->fields_);
    assert(message.field_count <= builder->capacity_ && !buffer_failed(&builder->text_));
    *ret_message = message;
    return ERROR_NONE;
}
