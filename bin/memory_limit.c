/* memory_limit.c - tries whether a start gets the threads and the memory that it will need. */
#include "steps.h"

#include "sys/process.h"

enum {
    /* threads of the daemon, except the shards */
    MEMORY_LIMIT_THREADS = 14,
    MEMORY_LIMIT_THREADS_CLUSTER = 12, /* threads of the control topic and its Kafka client */
    /* memory that a start needs besides stacks; caches are filled later */
    MEMORY_LIMIT_BYTES = 32 << 20,
};

enum error_code memory_limit_check(const struct config *config, struct error *ret_error)
{
    size_t threads = MEMORY_LIMIT_THREADS + (config->shards ? config->shards : process_cores());

    if (config_is_cluster(config))
        threads += MEMORY_LIMIT_THREADS_CLUSTER + config->partitions;
    return process_try(threads, MEMORY_LIMIT_BYTES, ret_error);
}
