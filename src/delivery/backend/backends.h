/*
 * backends.h - every backend by name, built in or not; the list of those that are is
 * broker_backends.
 */
#ifndef TICKWHEEL_DELIVERY_BACKEND_BACKENDS_H
#define TICKWHEEL_DELIVERY_BACKEND_BACKENDS_H

#include "delivery/broker_backend.h"

extern const struct broker_backend broker_redis;    /* redis.c: streams, by hiredis */
extern const struct broker_backend broker_nats;     /* nats.c: JetStream, by nats.c */
extern const struct broker_backend broker_kafka;    /* kafka.c: topics, by librdkafka */
extern const struct broker_backend broker_rabbitmq; /* rabbitmq.c: exchanges, by librabbitmq */

#endif
