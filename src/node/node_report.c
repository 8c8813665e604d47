/* node_report.c - the reports of the shards; see node_report.h. */
#include "node/node_report.h"

#include "sys/clock.h"

bool node_report_init(struct node_report *report)
{
    if (mailbox_init(&report->news) != ERROR_NONE)
        return false;
    pthread_mutex_init(&report->lock, NULL);
    instant_condition_init(&report->changed);
    return true;
}

void node_report_deinit(struct node_report *report)
{
    mailbox_deinit(&report->news);
    pthread_cond_destroy(&report->changed);
    pthread_mutex_destroy(&report->lock);
}

/* With the lock. */
static void node_report_add_up(const struct node_report *report, struct shard_report *ret_sum)
{
    *ret_sum = (struct shard_report){.is_ready = true, .has_engines = true};
    for (unsigned i = 0; i < report->count; i++) {
        const struct shard_report *shard = &report->shards[i];

        engine_stats_add(&ret_sum->stats, &shard->stats);
        queue_stats_add(&ret_sum->queue, &shard->queue);
        ret_sum->used_ns += shard->used_ns;
        ret_sum->is_ready = ret_sum->is_ready && shard->is_ready;
        ret_sum->has_engines = ret_sum->has_engines && shard->has_engines;
    }
}

void node_report_put(struct node_report *report, unsigned shard, const struct shard_report *put)
{
    struct shard_report sum;

    pthread_mutex_lock(&report->lock);
    report->shards[shard] = *put;
    node_report_add_up(report, &sum);
    pthread_cond_broadcast(&report->changed);
    pthread_mutex_unlock(&report->lock);
    atomic_store(&report->is_damaged, sum.stats.unreadable > 0);
    mailbox_wake(&report->news);
}

void node_report_finish(struct node_report *report, unsigned shard)
{
    pthread_mutex_lock(&report->lock);
    report->shards[shard].is_finished = true;
    pthread_cond_broadcast(&report->changed);
    pthread_mutex_unlock(&report->lock);
}

void node_report_sum(struct node_report *report, struct shard_report *ret_sum)
{
    pthread_mutex_lock(&report->lock);
    node_report_add_up(report, ret_sum);
    pthread_mutex_unlock(&report->lock);
}

/* With the lock. */
static bool node_report_all_say(const struct node_report *report,
                                bool (*says)(const struct shard_report *shard))
{
    for (unsigned i = 0; i < report->count; i++)
        if (!says(&report->shards[i]))
            return false;
    return true;
}

void node_report_await(struct node_report *report, bool (*says)(const struct shard_report *shard),
                       uint64_t timeout_ms)
{
    const struct timespec until = instant_timespec(instant_add_ms(instant_now(), timeout_ms));
    int timed_out = 0;

    pthread_mutex_lock(&report->lock);
    while (!node_report_all_say(report, says) && !timed_out)
        timed_out = pthread_cond_timedwait(&report->changed, &report->lock, &until);
    pthread_mutex_unlock(&report->lock);
}
