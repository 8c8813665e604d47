/*
 * Who owns a partition of a cluster: nodes that append to one log, which refuses no record and shows
 * all readers one order. docs/cluster-design.md has the rules in words.
 *
 * A record is valid or not by the records before it alone. A node is the owner from its own valid
 * claim on; it delivers and reads only under its lease, LEASE ticks from the sending of its last
 * valid record; its successor waits until that lease is over by its own clock. Records come late, and
 * also after their node gave up waiting for them; nodes stop anywhere, for any time. A fault is an
 * append that is given up, or a crash. Times count down or up to LEASE, so the clock has no end.
 *
 * PLANT=1 .. 9 plants an error: 1 an answer takes any place for the next one; 2 no wait; 3 no lease;
 * 4 a fast clock; 5 an append judged by the state behind all that was read, 6 a claim so; 7 a lease
 * from the answer on; 8 deliveries beside the release; 9 a release before the wait is over.
 * 10 .. 12 deny what must be possible: 10 a second owner delivers; 11 a success behind a record in
 * between; 12 an append of a former owner is refused.
 * Each must be found (formal_test.py).
 */
#ifndef PLANT
#define PLANT 0
#endif
#ifndef NODES
#define NODES 2
#endif
#ifndef LOG_MAX
#define LOG_MAX 4
#endif
#ifndef FAULTS_MAX
#define FAULTS_MAX 2
#endif
#ifndef LEASE
#define LEASE 2
#endif
#define NOBODY 255

mtype = { NOTHING, CLAIM, COMMIT, RELEASE };                   /* records; a keep is a COMMIT */
mtype = { STANDBY, CLAIMING, RECOVERING, ACTIVE, DRAINING };   /* a node */

/* The log: the records that are valid, NOTHING for others. A node knows what it has read. */
byte log_size;
mtype log[LOG_MAX] = NOTHING;
byte log_epoch[LOG_MAX], log_node[LOG_MAX]; /* of a claim */
byte valid_epoch;           /* behind the last record */
byte valid_owner = NOBODY;

/* Of each node: what it read. */
byte place[NODES];        /* the record that it reads next */
byte seen_epoch[NODES];
byte seen_owner[NODES] = NOBODY;
bool has_acted[NODES];  /* the last valid record is a release */
byte silence[NODES];      /* since it read a valid record, or started */

/* What it is. */
mtype state[NODES] = STANDBY;
byte epoch[NODES];
byte last[NODES];         /* the place of its last valid record */
byte lease[NODES], wait[NODES];

/* The record that it waits for, and one that it gave up and that is still on its way. */
mtype sent[NODES] = NOTHING;
byte sent_epoch[NODES], sent_age[NODES], sent_at[NODES];
bool is_landed[NODES];
bool is_judged[NODES], is_valid[NODES]; /* at its own place, when it was read */
mtype stray[NODES] = NOTHING;
byte stray_epoch[NODES];

byte faults;

inline append(node_, kind_, epoch_)
{
    if
    :: kind_ == CLAIM && epoch_ == valid_epoch + 1 ->
        valid_epoch = epoch_;
        valid_owner = node_;
        log[log_size] = CLAIM;
        log_epoch[log_size] = epoch_;
        log_node[log_size] = node_
    :: kind_ != CLAIM && epoch_ == valid_epoch && node_ == valid_owner -> log[log_size] = kind_
    :: else -> skip
    fi;
    log_size++
}

inline send(kind_, epoch_)
{
    sent[me] = kind_;
    sent_epoch[me] = epoch_;
    sent_age[me] = 0
}

inline forget()
{
    sent[me] = NOTHING;
    sent_epoch[me] = 0;
    sent_age[me] = 0;
    sent_at[me] = 0;
    is_landed[me] = false;
    is_judged[me] = false;
    is_valid[me] = false
}

/* The record that it waited for may land later. */
inline give_up()
{
    if
    :: sent[me] != NOTHING && !is_landed[me] -> stray[me] = sent[me]; stray_epoch[me] = sent_epoch[me]
    :: else -> skip
    fi;
    forget()
}

inline stand_by()
{
    state[me] = STANDBY;
    epoch[me] = 0;
    last[me] = 0;
    lease[me] = 0;
    wait[me] = 0
}

inline extend()
{
    last[me] = sent_at[me];
    lease[me] = LEASE - sent_age[me]
}

inline read()
{
    if
    :: log[place[me]] != NOTHING ->
        if
        :: log[place[me]] == CLAIM ->
            if
            :: is_landed[me] && sent_at[me] == place[me] && !has_acted[me] ->
                wait[me] = LEASE - silence[me]
            :: else -> skip
            fi;
            seen_epoch[me] = log_epoch[place[me]];
            seen_owner[me] = log_node[place[me]]
        :: else -> skip
        fi;
        has_acted[me] = (log[place[me]] == RELEASE);
        silence[me] = 0
    :: else -> skip
    fi;
    if
    :: is_landed[me] && sent_at[me] == place[me] ->
        is_judged[me] = true;
        is_valid[me] = (log[place[me]] != NOTHING)
    :: else -> skip
    fi;
    place[me]++
}

#if PLANT == 5
#define JUDGED_VALID(me) (seen_epoch[me] == epoch[me])
#else
#define JUDGED_VALID(me) is_valid[me]
#endif
#if PLANT == 6
#define CLAIM_VALID(me) (seen_epoch[me] == epoch[me] && seen_owner[me] == me)
#else
#define CLAIM_VALID(me) is_valid[me]
#endif
#if PLANT == 1
#define FOLLOWS_ON(me) true
#else
#define FOLLOWS_ON(me) (sent_at[me] == last[me] + 1)
#endif
#if PLANT == 8
#define DELIVERS(me) (state[me] == ACTIVE || state[me] == DRAINING)
#else
#define DELIVERS(me) (state[me] == ACTIVE)
#endif
#define IS_OWNER(me) (state[me] == RECOVERING || state[me] == ACTIVE || state[me] == DRAINING)

/* Whether a node with a higher epoch delivers and answers. */
#if NODES == 2
#define SUCCEEDED(me) (state[1 - me] == ACTIVE && epoch[1 - me] > epoch[me])
#else
#define SUCCEEDED(me)                                                                             \
    ((state[0] == ACTIVE && epoch[0] > epoch[me]) || (state[1] == ACTIVE && epoch[1] > epoch[me]) || \
     (state[2] == ACTIVE && epoch[2] > epoch[me]))
#endif

proctype node(byte me)
{
    do
    :: d_step { place[me] < log_size -> read() }

    /* It claims whenever it likes: only the wait behind the claim is needed. */
    :: d_step { state[me] == STANDBY && log_size < LOG_MAX ->
        state[me] = CLAIMING;
        epoch[me] = seen_epoch[me] + 1;
        send(CLAIM, epoch[me]) }
    :: d_step { state[me] == CLAIMING && is_judged[me] ->
        if
        :: CLAIM_VALID(me) ->
#if PLANT == 2
            wait[me] = 0;
#endif
            state[me] = RECOVERING;
            extend()
        :: else -> stand_by()
        fi;
        forget() }
    :: d_step { state[me] == RECOVERING && wait[me] == 0 && sent[me] == NOTHING -> state[me] = ACTIVE }

    /* It commits, or keeps its lease. */
    :: d_step { (state[me] == RECOVERING || state[me] == ACTIVE) && sent[me] == NOTHING &&
                log_size < LOG_MAX -> send(COMMIT, epoch[me]) }
    :: d_step { IS_OWNER(me) && is_landed[me] && FOLLOWS_ON(me) -> /* success, without reading */
        assert(log[sent_at[me]] != NOTHING);
        if
        :: sent[me] == RELEASE -> stand_by()
        :: else -> extend()
        fi;
        forget() }
    :: d_step { IS_OWNER(me) && is_landed[me] && !FOLLOWS_ON(me) && is_judged[me] ->
        if
        :: JUDGED_VALID(me) ->
            assert(log[sent_at[me]] != NOTHING);
#if PLANT == 11
            assert(false);
#endif
            if
            :: sent[me] == RELEASE -> stand_by()
            :: else -> extend()
            fi
        :: else ->
            assert(log[sent_at[me]] == NOTHING); /* answered: it failed */
#if PLANT == 12
            assert(false);
#endif
            stand_by()
        fi;
        forget() }

    /* It hands over. */
    :: d_step { (state[me] == ACTIVE || (PLANT == 9 && state[me] == RECOVERING)) &&
                sent[me] == NOTHING && log_size < LOG_MAX ->
        state[me] = DRAINING;
#if PLANT != 8
        lease[me] = 0;
#endif
        send(RELEASE, epoch[me]) }

    /* It reads that it is the owner no more. */
    :: d_step { IS_OWNER(me) && seen_epoch[me] != epoch[me] && !is_landed[me] ->
        give_up();
        stand_by() }

    /* It waits no longer. */
    :: d_step { sent[me] != NOTHING && faults < FAULTS_MAX ->
        faults++;
        give_up();
        stand_by() }

    /* It crashes, and reads from the beginning. */
    :: d_step { state[me] != STANDBY && faults < FAULTS_MAX ->
        faults++;
        give_up();
        stand_by();
        place[me] = 0;
        seen_epoch[me] = 0;
        seen_owner[me] = NOBODY;
        has_acted[me] = false;
        silence[me] = 0 }

    /* It begins a delivery, or answers a read. */
    :: d_step { DELIVERS(me) && (lease[me] > 0 || PLANT == 3) ->
        assert(!SUCCEEDED(me));
#if PLANT == 10
        assert(epoch[me] < 2);
#endif
       }
    od
}

/* Brings the records of a node to the log, or never. */
proctype network(byte me)
{
    do
    :: d_step { sent[me] != NOTHING && !is_landed[me] && log_size < LOG_MAX &&
                (log_size > 0 || me == 0) -> /* the nodes are alike: the first record is of node 0 */
        sent_at[me] = log_size;
        is_landed[me] = true;
        append(me, sent[me], sent_epoch[me]) }
    :: d_step { stray[me] != NOTHING && log_size < LOG_MAX && (log_size > 0 || me == 0) ->
        append(me, stray[me], stray_epoch[me]);
        stray[me] = NOTHING;
        stray_epoch[me] = 0 }
    od
}

#define DOWN(time) time = (time > 0 -> time - 1 : 0)
#define UP(time)   time = (time < LEASE -> time + 1 : LEASE)

proctype clock()
{
    byte i;

    do
    :: d_step {
        i = 0;
        do
        :: i < NODES ->
            UP(silence[i]);
            if
            :: sent[i] != NOTHING -> UP(sent_age[i])
            :: else -> skip
            fi;
            DOWN(lease[i]);
            DOWN(wait[i]);
#if PLANT == 4
            if
            :: i == 1 -> UP(silence[i]); DOWN(wait[i]) /* runs twice as fast */
            :: else -> skip
            fi;
#endif
#if PLANT == 7
            if
            :: is_landed[i] -> sent_age[i] = 0 /* the lease runs from the answer */
            :: else -> skip
            fi;
#endif
            i++
        :: else -> break
        od;
        i = 0 }
    od
}

init
{
    atomic {
        run node(0);
        run network(0);
        run node(1);
        run network(1);
#if NODES == 3
        run node(2);
        run network(2);
#endif
        run clock()
    }
}
