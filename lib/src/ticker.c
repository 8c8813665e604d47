/*
 * ticker.c - ticks at absolute times: tick n is due at start + n periods, whenever it is taken.
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
    ticker->next_ns_ = tw_instant_add(now, ticker->period_ns_).ns;
    ticker->state_ = TW_TICKER_RUNNING_;
}

void tw_ticker_stop(struct tw_ticker *ticker)
{
    ticker->state_ = TW_TICKER_STOPPED_;
}

/* Ticks due by `now` and not taken yet. None at the end of the range of instants. */
static uint64_t ticker_missed(const struct tw_ticker *ticker, struct tw_instant now)
{
    if (now.ns < ticker->next_ns_ || ticker->next_ns_ == UINT64_MAX)
        return 0;
    return (now.ns - ticker->next_ns_) / ticker->period_ns_ + 1;
}

static void ticker_move_on(struct tw_ticker *ticker, uint64_t count)
{
    uint64_t gone = ticker->next_ns_ + (count - 1) * ticker->period_ns_; /* not after now */
    ticker->next_ns_ = tw_instant_add((struct tw_instant){gone}, ticker->period_ns_).ns;
    ticker->tick_ += count;
}

void tw_ticker_pause(struct tw_ticker *ticker, struct tw_instant now)
{
    if (ticker->state_ != TW_TICKER_RUNNING_)
        return;
    /* If ticks were missed, the next tick is before `now` and the difference is above INT64_MAX. */
    ticker->next_ns_ -= now.ns;
    ticker->state_ = TW_TICKER_PAUSED_;
}

void tw_ticker_resume(struct tw_ticker *ticker, struct tw_instant now)
{
    if (ticker->state_ != TW_TICKER_PAUSED_)
        return;
    if (ticker->next_ns_ <= INT64_MAX)
        ticker->next_ns_ = tw_instant_add(now, ticker->next_ns_).ns;
    else
        ticker->next_ns_ += now.ns;
    ticker->state_ = TW_TICKER_RUNNING_;
}

void tw_ticker_reset(struct tw_ticker *ticker, struct tw_instant now)
{
    ticker->tick_ = 0;
    ticker->skipped_ = 0;
    if (ticker->state_ == TW_TICKER_RUNNING_)
        tw_ticker_start(ticker, now);
    else
        ticker->next_ns_ = ticker->period_ns_;
}

struct tw_ticks tw_ticker_take(struct tw_ticker *ticker, struct tw_instant now)
{
    uint64_t count = ticker->state_ == TW_TICKER_RUNNING_ ? ticker_missed(ticker, now) : 0;
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
    bool is_running = ticker->state_ == TW_TICKER_RUNNING_;
    return (struct tw_instant){is_running ? ticker->next_ns_ : TW_INSTANT_NEVER_NS};
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
