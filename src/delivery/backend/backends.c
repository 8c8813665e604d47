/* The kinds of broker that this program was built with: those whose library the build has found. */
#include "delivery/broker_backend.h"

const struct broker_backend *const broker_backends[] = {
#ifdef TICKWHEEL_WITH_REDIS
    &broker_redis,
#endif
#ifdef TICKWHEEL_WITH_NATS
    &broker_nats,
#endif
#ifdef TICKWHEEL_WITH_KAFKA
    &broker_kafka,
#endif
#ifdef TICKWHEEL_WITH_RABBITMQ
    &broker_rabbitmq,
#endif
    NULL,
};
