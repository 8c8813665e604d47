/*
 * request_purgatory.c - a message board whose readers wait for enough messages.
 *
 *     request_purgatory < lines
 *
 *     put TOPIC                         one more message for a topic, 0 to 255
 *     get NAME COUNT MS TOPIC...        an answer once the topics have COUNT messages in all, or
 *                                       after MS milliseconds with as many as there are
 *
 * The main thread reads the lines and reports events; a second thread handles time-outs. When both
 * could complete a reader, the purgatory lets exactly one of them do it.
 */
#include <tickwheel/clock.h>
#include <tickwheel/purgatory.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOPICS = 256, TOPICS_MAX = 16, NAME_SIZE = 64 };

struct board {
    struct tw_purgatory *purgatory;
    const struct tw_clock *clock;
    struct tw_waiter alarm; /* the time-out thread waits on it */
    atomic_bool is_over;
    _Atomic uint64_t messages[TOPICS];
};

/* [quote: operation] */
/* The operation. It belongs to the purgatory from submit to complete, which frees it. */
struct page_reader {
    char name[NAME_SIZE];
    uint64_t wanted;
    uint64_t topics[TOPICS_MAX]; /* also the keys under which it is watched */
    size_t topic_count;
};

static uint64_t count_messages(struct board *board, const struct page_reader *reader)
{
    uint64_t count = 0;
    for (size_t i = 0; i < reader->topic_count; i++)
        count += atomic_load(&board->messages[reader->topics[i]]);
    return count;
}

static bool has_enough(void *board, void *operation)
{
    struct page_reader *reader = operation;
    return count_messages(board, reader) >= reader->wanted;
}

static void answer(void *board, void *operation, enum tw_completion why)
{
    static const char *const reasons[] = {[TW_COMPLETED_AT_ONCE] = "at once",
                                          [TW_COMPLETED_BY_EVENT] = "after a wait",
                                          [TW_COMPLETED_BY_TIMEOUT] = "timed out",
                                          [TW_COMPLETED_BY_DESTROY] = "the board is closed"};
    struct page_reader *reader = operation;
    printf("%s: %" PRIu64 " messages, %s\n", reader->name, count_messages(board, reader),
           reasons[why]);
    free(reader);
}
/* [end] */

/* [quote: time] */
static void *keep_time(void *context)
{
    struct board *board = context;
    while (!atomic_load(&board->is_over)) {
        struct tw_instant now = tw_clock_now(board->clock);
        while (tw_purgatory_expire(board->purgatory, now.ns, 256) == 256)
            continue;
        uint64_t wake_at = tw_purgatory_wake_at(board->purgatory);
        tw_clock_wait(board->clock, &board->alarm, (struct tw_instant){wake_at});
    }
    return NULL;
}

/* Called when a new reader's time-out is before the planned wake-up of the time-out thread. */
static void wake_sooner(void *context, uint64_t wake_at)
{
    struct board *board = context;
    (void)wake_at;
    tw_waiter_wake(&board->alarm);
}
/* [end] */

static void put(struct board *board, uint64_t topic)
{
    atomic_fetch_add(&board->messages[topic], 1);
    tw_purgatory_try_key(board->purgatory, topic);
}

static bool get(struct board *board, struct page_reader *reader, uint64_t delay_ms)
{
    struct tw_instant deadline = tw_instant_after(board->clock, delay_ms * 1000000);
    return tw_purgatory_submit(board->purgatory, reader, reader->topics, reader->topic_count,
                               deadline.ns);
}

/* Returns whether the line was valid and its reader, if any, was accepted. */
static bool do_line(struct board *board, const char *line)
{
    uint64_t topic, delay_ms;
    int length;
    if (sscanf(line, "put %" SCNu64, &topic) == 1 && topic < TOPICS) {
        put(board, topic);
        return true;
    }
    struct page_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return false;
    if (sscanf(line, "get %63s %" SCNu64 " %" SCNu64 "%n", reader->name, &reader->wanted, &delay_ms,
               &length) == 3 &&
        delay_ms <= UINT64_MAX / 1000000) {
        for (const char *at = line + length;
             reader->topic_count < TOPICS_MAX &&
             sscanf(at, "%" SCNu64 "%n", &topic, &length) == 1 && topic < TOPICS;
             at += length)
            reader->topics[reader->topic_count++] = topic;
        if (reader->topic_count > 0 && get(board, reader, delay_ms))
            return true;
    }
    free(reader);
    return false;
}

int main(void)
{
    static struct board board;
    char line[4096];
    pthread_t time_keeper;

    board.clock = tw_clock_monotonic();
    board.purgatory =
        tw_purgatory_create(&(struct tw_purgatory_options){.try_complete = has_enough,
                                                           .complete = answer,
                                                           .on_sooner = wake_sooner,
                                                           .context = &board,
                                                           .start = tw_clock_now(board.clock).ns});
    if (!board.purgatory || !tw_waiter_init(&board.alarm) ||
        pthread_create(&time_keeper, NULL, keep_time, &board) != 0)
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof(line), stdin))
        if (!do_line(&board, line))
            printf("not taken: %s", line);

    atomic_store(&board.is_over, true);
    tw_waiter_wake(&board.alarm);
    pthread_join(time_keeper, NULL);
    tw_purgatory_destroy(board.purgatory); /* answers the readers that still wait */
    tw_waiter_deinit(&board.alarm);
    return 0;
}
