/*
 * Messages that are committed together with the record that they are sent: exactly once. Two nodes, one
 * log, and the transactions of one transactional id. docs/cluster-design.md has the rules in words.
 *
 * A frame of a transaction lies in the log before it is decided, and a marker follows later. Readers see
 * neither markers nor what was aborted, and nothing behind a frame that has no marker yet. An owner
 * commits only when its frame lies behind its last record, with at most the marker between that it knows
 * to be there. Leases are not here: partition.pml has them.
 *
 * PLANT=1 .. 5 plants an error: 1 a commit whatever lies before its frame; 2 readers that pass what is
 * not decided; 3 a transaction that begins before the marker of the last one; 4 readers that take what
 * was aborted; 5 the answer taken before the decision.
 * 6 and 7 deny what must be possible: 6 a commit behind a marker that was not read; 7 a frame of a former
 * owner that is aborted.
 * Each must be found (formal_test.py).
 */
#ifndef PLANT
#define PLANT 0
#endif
#ifndef LOG_MAX
#define LOG_MAX 5
#endif
#ifndef FAULTS_MAX
#define FAULTS_MAX 1
#endif
#define NODES   2
#define FIRINGS 2
#define DEALS   5
#define NOBODY  255

mtype = { NOTHING, CLAIM, KEEP, FRAME, MARKER };
mtype = { STANDBY, CLAIMING, OWNER };
mtype = { IDLE, SENT, LANDED, STAGED, ASKED }; /* what an owner waits for; SENT and LANDED of a keep, too */
mtype = { OPEN, COMMITTED, ABORTED };

/* The log. */
byte size;
mtype log[LOG_MAX] = NOTHING;
bool valid[LOG_MAX];     /* by the records before it */
byte log_node[LOG_MAX], log_deal[LOG_MAX];
byte valid_epoch, valid_owner = NOBODY;

/* Transactions, from 1 on. */
byte deals, producer;
mtype deal[DEALS] = OPEN;
bool is_asked[DEALS], is_marked[DEALS];
byte deal_producer[DEALS], deal_at[DEALS] = NOBODY, firing[DEALS];

byte messages[FIRINGS]; /* committed ones of each firing */
byte faults;

/* Of each node. */
byte place[NODES], seen_epoch[NODES], fired[NODES];
mtype state[NODES] = STANDBY, waits[NODES] = IDLE;
byte epoch[NODES], last[NODES], slack[NODES], my_producer[NODES], my_deal[NODES];
mtype sent[NODES] = NOTHING;
byte sent_at[NODES];
bool is_judged[NODES];

inline add(kind_, node_, deal_, is_valid_)
{
    log[size] = kind_;
    log_node[size] = node_;
    log_deal[size] = deal_;
    valid[size] = is_valid_;
    size++
}

inline forget()
{
    sent[me] = NOTHING;
    sent_at[me] = 0;
    is_judged[me] = false;
    waits[me] = IDLE;
    my_deal[me] = 0
}

inline stand_by()
{
    forget();
    state[me] = STANDBY;
    epoch[me] = 0;
    last[me] = 0;
    slack[me] = 0
}

/* Ends what older producers have open. */
inline fence()
{
    if
    :: deals > 0 && deal[deals] == OPEN -> deal[deals] = ABORTED
    :: else -> skip
    fi;
    if
    :: deals > 0 && !is_marked[deals] ->
        is_marked[deals] = true;
        if
        :: deal_at[deals] != NOBODY -> add(MARKER, NOBODY, 0, false)
        :: else -> skip
        fi
    :: else -> skip
    fi;
    producer++;
    my_producer[me] = producer
}

#if PLANT == 2
#define READABLE(at) true
#else
#define READABLE(at) (log_deal[at] == 0 || is_marked[log_deal[at]])
#endif
#if PLANT == 4
#define IS_SEEN(at) (log[at] != MARKER)
#else
#define IS_SEEN(at) (log[at] != MARKER && (log_deal[at] == 0 || deal[log_deal[at]] != ABORTED))
#endif
#if PLANT == 1
#define FITS(me) true
#else
#define FITS(me) (sent_at[me] > last[me] && sent_at[me] <= last[me] + 1 + slack[me])
#endif
#if PLANT == 3
#define MAY_BEGIN (deals == 0 || deal[deals] != OPEN)
#else
#define MAY_BEGIN (deals == 0 || is_marked[deals])
#endif

inline read()
{
    if
    :: IS_SEEN(place[me]) && valid[place[me]] ->
        if
        :: log[place[me]] == CLAIM ->
            seen_epoch[me]++;
            if
            :: state[me] == CLAIMING && sent[me] == CLAIM && waits[me] == LANDED &&
               sent_at[me] == place[me] ->
                state[me] = OWNER;
                epoch[me] = seen_epoch[me];
                last[me] = place[me];
                slack[me] = 0;
                forget()
            :: state[me] == OWNER && seen_epoch[me] > epoch[me] -> stand_by()
            :: else -> skip
            fi
        :: log[place[me]] == FRAME && firing[log_deal[place[me]]] == fired[me] ->
            assert(messages[fired[me]] == 1);
            fired[me]++
        :: else -> skip
        fi
    :: else -> skip
    fi;
    if
    :: sent[me] == KEEP && waits[me] == LANDED && sent_at[me] == place[me] -> is_judged[me] = true
    :: sent[me] == CLAIM && waits[me] == LANDED && sent_at[me] == place[me] && state[me] == CLAIMING ->
        stand_by() /* it is not valid */
    :: else -> skip
    fi;
    place[me]++
}

proctype node(byte me)
{
    do
    :: d_step { place[me] < size && READABLE(place[me]) -> read() }

    :: d_step { state[me] == STANDBY && size < LOG_MAX && (size > 0 || me == 0) -> /* the nodes are alike */
        state[me] = CLAIMING;
        sent[me] = CLAIM;
        waits[me] = SENT;
        epoch[me] = seen_epoch[me] + 1 }
    /* It may fence before that, and has to when a former owner stopped within a transaction. */
    :: d_step { state[me] == CLAIMING && waits[me] == SENT && deals > 0 && !is_marked[deals] &&
                size + 1 < LOG_MAX -> fence() }

    /* A keep, or a commit without messages. */
    :: d_step { state[me] == OWNER && waits[me] == IDLE && size < LOG_MAX ->
        sent[me] = KEEP;
        waits[me] = SENT }
    :: d_step { sent[me] == KEEP && waits[me] == LANDED && (sent_at[me] == last[me] + 1 || is_judged[me]) ->
        if
        :: valid[sent_at[me]] ->
            if
            :: sent_at[me] != last[me] + 1 -> slack[me] = 0
            :: else -> skip
            fi;
            last[me] = sent_at[me];
            forget()
        :: else -> stand_by()
        fi }

    /* A transaction: the message is staged, the frame follows, and then the commit. */
    :: d_step { state[me] == OWNER && waits[me] == IDLE && fired[me] < FIRINGS && size + 1 < LOG_MAX &&
                deals + 1 < DEALS && (my_producer[me] != producer || producer == 0 || MAY_BEGIN) ->
        if
        :: my_producer[me] != producer || producer == 0 -> fence()
        :: else -> skip
        fi;
        deals++;
        deal_producer[deals] = my_producer[me];
        firing[deals] = fired[me];
        my_deal[me] = deals;
        sent[me] = FRAME;
        waits[me] = STAGED }
    :: d_step { waits[me] == LANDED && sent[me] == FRAME ->
        if
        :: FITS(me) ->
#if PLANT == 6
            assert(sent_at[me] == last[me] + 1 || place[me] > last[me] + 1);
#endif
            is_asked[my_deal[me]] = true;
            waits[me] = ASKED
        :: else ->
#if PLANT == 7
            assert(valid[sent_at[me]]);
#endif
            stand_by()
        fi }
    :: d_step { waits[me] == ASKED && (deal[my_deal[me]] == COMMITTED || PLANT == 5) ->
        assert(deal[my_deal[me]] == COMMITTED && valid[sent_at[me]]);
        if
        :: fired[me] == firing[my_deal[me]] -> fired[me]++
        :: else -> skip
        fi;
        last[me] = sent_at[me];
        slack[me] = 1;
        forget() }
    :: d_step { waits[me] == ASKED && deal[my_deal[me]] == ABORTED -> stand_by() }

    /* Its answer is lost, or it crashes. */
    :: d_step { state[me] != STANDBY && faults < FAULTS_MAX ->
        faults++;
        stand_by() }
    od
}

/* What is sent reaches the log, late or never. */
proctype network(byte me)
{
    do
    :: d_step { waits[me] == SENT && size < LOG_MAX ->
        sent_at[me] = size;
        waits[me] = LANDED;
        if
        :: sent[me] == CLAIM && epoch[me] == valid_epoch + 1 ->
            valid_epoch = epoch[me];
            valid_owner = me;
            add(CLAIM, me, 0, true)
        :: sent[me] == KEEP && epoch[me] == valid_epoch && valid_owner == me -> add(KEEP, me, 0, true)
        :: else -> add(sent[me], me, 0, false)
        fi }
    :: d_step { waits[me] == STAGED && deal[my_deal[me]] == OPEN && deal_producer[my_deal[me]] == producer &&
                size + 1 < LOG_MAX ->
        sent_at[me] = size;
        deal_at[my_deal[me]] = size;
        waits[me] = LANDED;
        add(FRAME, me, my_deal[me], (epoch[me] == valid_epoch && valid_owner == me)) }
    :: d_step { waits[me] == STAGED && (deal[my_deal[me]] != OPEN || deal_producer[my_deal[me]] != producer) ->
        stand_by() } /* fenced */
    od
}

/* The brokers: the last transaction is the only one that is not marked. */
proctype brokers()
{
    do
    :: d_step { deals > 0 && is_asked[deals] && deal[deals] == OPEN && deal_producer[deals] == producer ->
        deal[deals] = COMMITTED;
        messages[firing[deals]]++;
        assert(valid[deal_at[deals]]);
        assert(messages[firing[deals]] == 1) }
    :: d_step { deals > 0 && deal[deals] == OPEN && faults < FAULTS_MAX -> /* its time is over */
        faults++;
        deal[deals] = ABORTED }
    :: d_step { deals > 0 && deal[deals] != OPEN && !is_marked[deals] && size < LOG_MAX ->
        is_marked[deals] = true;
        if
        :: deal_at[deals] != NOBODY -> add(MARKER, NOBODY, 0, false)
        :: else -> skip
        fi }
    :: true -> skip /* the log is full: nothing more happens */
    od
}

init
{
    atomic {
        run node(0);
        run network(0);
        run node(1);
        run network(1);
        run brokers()
    }
}
