/*
 * broker_message.h - one delivery as a message for a broker, in memory that is used again for the
 * next.
 *
 * The fields are the timer's own headers, then content-type and the headers that a webhook has
 * too: webhook-id, tickwheel-due, tickwheel-attempt, tickwheel-epoch.
 *
 * Ownership  The builder owns everything that the message points to but the payload; valid until
 *            the next build or deinit.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_DELIVERY_BROKER_MESSAGE_H
#define TICKWHEEL_DELIVERY_BROKER_MESSAGE_H

#include "delivery/broker_backend.h"

struct broker_builder {
    struct buffer text_;
    struct named_bytes *fields_;
    size_t capacity_;
};

static inline void broker_builder_init(struct broker_builder *builder)
{
    *builder = (struct broker_builder){0};
}

void broker_builder_deinit(struct broker_builder *builder);

/* Builds the message. Omits reserved and malformed headers of the timer. Returns ERROR_NO_MEMORY if
 * memory is out. */
enum error_code broker_message_build(struct broker_builder *builder,
                                     const struct delivery *delivery,
                                     struct broker_message *ret_message, struct error *ret_error);

#endif
