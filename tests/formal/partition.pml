/*
 * Who owns a partition that moves between two nodes: an outline of a cluster that is not built yet.
 * One timer of it, already durable; its client may cancel it. The storage knows the highest epoch
 * that has written to it, and refuses lower ones (a fence); a node begins a delivery only while its
 * lease of its epoch lasts, and the next owner waits for the end of that lease.
 * docs/reliability-lab.md says what the model leaves out.
 *
 * PLANT=1 .. 5 plants a bug: each must be found (formal_test.py).
 */
#ifndef PLANT
#define PLANT 0
#endif
#define MOVES_MAX 2

mtype = { LIVE, FIRED, CANCELLED };       /* the row */
mtype = { ABSENT, RESTING, WRITING, OUT } /* the timer in a node's memory */
mtype = { NOTHING, DONE, FENCED };        /* a write's result */

mtype row = LIVE;
byte storage_epoch = 1;

byte epoch = 1; /* the highest that was issued */
byte owner = 0; /* the node that it was issued to */
byte moves = 0;

/* Of each node. */
byte node_epoch[2];
bool serves[2];
byte lease[2]; /* the epoch that it is of; 0: none */
mtype memory[2] = ABSENT;
mtype written[2] = LIVE; /* LIVE: nothing is being written */
mtype result[2] = NOTHING;
bool on_the_wire[2];
bool received_by[2]; /* and the node was told */

bool cancel_is_asked = false;
bool cancelled = false; /* answered with success */
byte received = 0;

proctype node(byte me)
{
    byte loaded = 0;

    do
    /* It becomes the owner: first the fence, then the row, then it serves. */
    :: atomic { owner == me && node_epoch[me] < epoch && !serves[me] && lease[me] == epoch ->
        node_epoch[me] = epoch;
        loaded = 0;
#if PLANT != 3
        storage_epoch = epoch
#endif
       }
    :: atomic { node_epoch[me] == epoch && !serves[me] && loaded == 0 ->
        loaded = 1;
        memory[me] = (row == LIVE -> RESTING : ABSENT) }
    :: atomic { node_epoch[me] == epoch && !serves[me] && loaded == 1 ->
#if PLANT == 3
        storage_epoch = epoch; /* after the row was read */
#endif
        loaded = 2;
        serves[me] = true }

    /* It learns that it is none any more, by itself or from the fence. */
    :: atomic { serves[me] && (node_epoch[me] != epoch || result[me] == FENCED) ->
        serves[me] = false; memory[me] = ABSENT; written[me] = LIVE; result[me] = NOTHING }

    /* It serves. */
    :: atomic { serves[me] && cancel_is_asked && memory[me] == RESTING ->
        memory[me] = WRITING; written[me] = CANCELLED; result[me] = NOTHING }
    :: atomic { serves[me] && memory[me] == RESTING &&
                (lease[me] == node_epoch[me] || PLANT == 4 || (PLANT == 5 && lease[me] != 0)) ->
        assert(!cancelled);
        memory[me] = OUT; on_the_wire[me] = true; received_by[me] = false }
    :: atomic { serves[me] && memory[me] == OUT && received_by[me] ->
        memory[me] = WRITING; written[me] = FIRED; result[me] = NOTHING }
    :: atomic { serves[me] && memory[me] == WRITING && result[me] == DONE ->
        memory[me] = ABSENT;
        if
        :: written[me] == CANCELLED -> cancelled = true; cancel_is_asked = false
        :: else -> skip
        fi;
        written[me] = LIVE; result[me] = NOTHING }

    /* The storage gets to its write, whenever that is. */
    :: atomic { written[me] != LIVE && result[me] == NOTHING ->
        if
        :: node_epoch[me] >= storage_epoch || PLANT == 1 ->
            row = written[me]; result[me] = DONE
        :: else -> result[me] = FENCED
        fi }

    /* The target gets to its delivery, whenever that is. */
    :: atomic { on_the_wire[me] -> on_the_wire[me] = false; received++; received_by[me] = true }
    od
}

/* The partition goes to the other node once the lease of the first is over. */
proctype coordinator()
{
    do
    :: atomic { moves < MOVES_MAX ->
        moves++;
#if PLANT != 2
        lease[owner] = 0;
#endif
        owner = 1 - owner;
        epoch++;
        lease[owner] = epoch }
    od
}

proctype client()
{
    if
    :: atomic { row == LIVE -> cancel_is_asked = true }
    :: true
    fi
}

init
{
    atomic {
        node_epoch[0] = 1;
        serves[0] = true;
        lease[0] = 1;
        memory[0] = RESTING;
        run node(0);
        run node(1);
        run coordinator();
        run client()
    }
}

#define ended     (received > 0 || row == CANCELLED)
#define explained (received <= 1 + moves)

ltl never_both { [] !(cancelled && row == FIRED) }
ltl cancelled_is_durable { [] (cancelled -> row == CANCELLED) }
ltl fired_was_received { [] (row == FIRED -> received > 0) }
ltl repeats_are_explained { [] explained }
ltl never_neither { <> ended }
