/*
 * ticker.c - ticks at absolute times: each tick is due one period after the one before it, whenever
 * that was taken.
 */
#include <tickwheel/clock.h>

#include <assert.h>

void tw_ticker_init(struct tw_ticker *ticker, uint64_t period_ns, enum tw_ticker_policy policy)
{
    assert(period_ns > 0 && period_ns <= INT64_MAX);
    *ticker = (struct tw_ticker){.period_ns_ = period_ns, .policy_ = policy};
}

void tw_ticker_start(struct tw_ticker *ticker, struct tw_instant now)
{
    ticker->last_ns_ = now.ns;
    ticker->missed_ = 0;
    ticker->state_ = TW_TICKER_RUNNING_;
}

void tw_ticker_stop(struct tw_ticker *ticker)
{
    ticker->state_ = TW_TICKER_STOPPED_;
}

/* Returns the instant of the tick after the last one. */
static uint64_t ticker_next_ns(const struct tw_ticker *ticker)
{
    return tw_instant_add((struct tw_instant){ticker->last_ns_}, ticker->period_ns_).ns;
}

/* Returns how many ticks of the present period are due by `now` and were not taken. 0 at the end of
 * the range of instants. */
static uint64_t ticker_due(const struct tw_ticker *ticker, struct tw_instant now)
{
    uint64_t next_ns = ticker_next_ns(ticker);
    if (now.ns < next_ns || next_ns == TW_INSTANT_NEVER_NS)
        return 0;
    return (now.ns - ticker->last_ns_) / ticker->period_ns_;
}

/* Takes `count` due ticks, missed ones first. */
static void ticker_move_on(struct tw_ticker *ticker, uint64_t count)
{
    uint64_t missed = count < ticker->missed_ ? count : ticker->missed_;
    ticker->missed_ -= missed;
    ticker->last_ns_ += (count - missed) * ticker->period_ns_;
    ticker->tick_ += count;
}

/* Counts the ticks that are due by `now` as missed, so that the period and the instants can be
 * changed. */
static void ticker_settle(struct tw_ticker *ticker, struct tw_instant now)
{
    uint64_t due = ticker_due(ticker, now);
    ticker->missed_ += due;
    ticker->last_ns_ += due * ticker->period_ns_;
}

void tw_ticker_pause(struct tw_ticker *ticker, struct tw_instant now)
{
    if (ticker->state_ != TW_TICKER_RUNNING_)
        return;
    ticker_settle(ticker, now);
    ticker->last_ns_ = tw_instant_since((struct tw_instant){ticker->last_ns_}, now);
    ticker->state_ = TW_TICKER_PAUSED_;
}

void tw_ticker_resume(struct tw_ticker *ticker, struct tw_instant now)
{
    if (ticker->state_ != TW_TICKER_PAUSED_)
        return;
    uint64_t since_ns =
        ticker->last_ns_ < ticker->period_ns_ ? ticker->last_ns_ : ticker->period_ns_;
    ticker->last_ns_ = now.ns > since_ns ? now.ns - since_ns : 0;
    ticker->state_ = TW_TICKER_RUNNING_;
}

uint64_t tw_ticker_period(const struct tw_ticker *ticker)
{
    return ticker->period_ns_;
}

void tw_ticker_set_period(struct tw_ticker *ticker, uint64_t period_ns, struct tw_instant now)
{
    assert(period_ns > 0 && period_ns <= INT64_MAX);
    bool is_running = ticker->state_ == TW_TICKER_RUNNING_;
    if (is_running)
        ticker_settle(ticker, now);
    ticker->period_ns_ = period_ns;
    if (is_running && ticker_next_ns(ticker) < now.ns)
        ticker->last_ns_ = now.ns - period_ns;
}

bool tw_ticker_is_running(const struct tw_ticker *ticker)
{
    return ticker->state_ == TW_TICKER_RUNNING_;
}

void tw_ticker_reset(struct tw_ticker *ticker, struct tw_instant now)
{
    bool is_running = ticker->state_ == TW_TICKER_RUNNING_;
    ticker->tick_ = 0;
    ticker->skipped_ = 0;
    ticker->missed_ = 0;
    ticker->last_ns_ = is_running ? now.ns : 0;
}

struct tw_ticks tw_ticker_take(struct tw_ticker *ticker, struct tw_instant now)
{
    if (ticker->state_ != TW_TICKER_RUNNING_)
        return (struct tw_ticks){0, 0};
    uint64_t count = ticker->missed_ + ticker_due(ticker, now);
    if (count == 0)
        return (struct tw_ticks){0, 0};
    uint64_t before = ticker->tick_;
    switch (ticker->policy_) {
    case TW_TICKER_EACH:
        ticker_move_on(ticker, 1);
        return (struct tw_ticks){before + 1, 1};
    case TW_TICKER_SKIP:
        ticker_move_on(ticker, count);
        ticker->skipped_ += count - 1;
        return (struct tw_ticks){before + count, 1};
    default:
        ticker_move_on(ticker, count);
        return (struct tw_ticks){before + 1, count};
    }
}

struct tw_instant tw_ticker_next_at(const struct tw_ticker *ticker)
{
    if (ticker->state_ != TW_TICKER_RUNNING_)
        return (struct tw_instant){TW_INSTANT_NEVER_NS};
    /* The instants of missed ticks are not known, but none was later than the last tick. */
    return (struct tw_instant){ticker->missed_ > 0 ? ticker->last_ns_ : ticker_next_ns(ticker)};
}

struct tw_ticks tw_ticker_wait(struct tw_ticker *ticker, const struct tw_clock *clock,
                               struct tw_waiter *waiter)
{
    if (ticker->state_ != TW_TICKER_RUNNING_)
        return (struct tw_ticks){0, 0};
    if (!tw_clock_wait(clock, waiter, tw_ticker_next_at(ticker)))
        return (struct tw_ticks){0, 0};
    return tw_ticker_take(ticker, tw_clock_now(clock));
}

uint64_t tw_ticker_tick(const struct tw_ticker *ticker)
{
    return ticker->tick_;
}

void tw_ticker_set_tick(struct tw_ticker *ticker, uint64_t tick)
{
    ticker->tick_ = tick;
}

uint64_t tw_ticker_skipped(const struct tw_ticker *ticker)
{
    return ticker->skipped_;
}
