/*
 * Who owns one timer: its client, the engine, the storage, its target, a clock that steps both ways,
 * and crashes at any moment. docs/reliability.md has the properties and the limits of this
 * model.
 *
 * PLANT=1 .. 7 plants a bug: each must be found (formal_test.py).
 */
#ifndef PLANT
#define PLANT 0
#endif
#define CRASHES_MAX  2
#define REFUSALS_MAX 1 /* by the target */
#define FAULTS_MAX   1 /* of the disk */
#define STEPS_MAX    3 /* of the clock over the due time, forth and back */

mtype = { NONE, LIVE, FIRED, CANCELLED };              /* a row */
mtype = { ABSENT, RESTING, WRITING, OUT };             /* the timer in the engine's memory */
mtype = { NOTHING, CREATE, CANCEL, OUTCOME, RETRY };   /* purpose of a request or a write */
mtype = { UNKNOWN, DONE, FAILED };                     /* a write, an attempt, an answer */

/* The disk: what a crash leaves. */
mtype row = NONE;

/* The engine and the write it waits for: lost in a crash. */
bool up = true;
mtype memory = ABSENT;
mtype reason = NOTHING; /* of the write that is out */
mtype written = NONE;   /* the row that it leaves */
mtype result = UNKNOWN;

/* The client's call, one at a time. */
mtype asked = NOTHING;

/* A delivery on its way, and its answer: a crash does not take back the delivery. */
bool on_the_wire = false;
mtype attempt = UNKNOWN;

bool due = false;
byte crashes, refusals, faults, steps;

/* What the properties speak of. */
bool created = false;   /* was answered with success */
bool cancelled = false; /* the cancel was answered with success */
bool is_begun = false;  /* an attempt of this life of the engine that no write has recorded */
byte received = 0;

inline write(why, what)
{
    reason = why;
    written = what;
    result = UNKNOWN;
    memory = WRITING;
}

inline answer()
{
    asked = NOTHING;
}

proctype client()
{
    asked = CREATE;
    asked == NOTHING;
    if
    :: !created -> asked = CREATE; asked == NOTHING /* again, with an equal Idempotency-Key */
    :: true
    fi;
    if
    :: asked = CANCEL; asked == NOTHING
    :: true
    fi
}

active proctype engine()
{
    run client();
    do
    /* Commands. */
    :: atomic { up && asked == CREATE && memory == ABSENT && row == NONE ->
        write(CREATE, LIVE);
#if PLANT == 1
        created = true; answer() /* before it is durable */
#endif
       }
    :: atomic { up && asked == CREATE && row != NONE && memory != WRITING ->
        created = true; answer() } /* it is there since before a crash */
    :: atomic { up && asked == CANCEL && memory == RESTING ->
        write(CANCEL, CANCELLED);
#if PLANT == 2
        memory = RESTING /* goes on resting while it is written */
#endif
       }
#if PLANT == 6
    :: atomic { up && asked == CANCEL && memory == OUT -> write(CANCEL, CANCELLED) }
#else
    :: atomic { up && asked == CANCEL && memory == OUT -> answer() } /* already-firing */
#endif
    :: atomic { up && asked == CANCEL && memory == ABSENT -> answer() } /* gone */

    /* It is due. */
    :: atomic { up && memory == RESTING && (due || PLANT == 4) ->
        assert(due);
        assert(!cancelled);
#if PLANT == 5
        write(OUTCOME, FIRED); /* first noted, then sent */
#else
        memory = OUT;
#endif
        on_the_wire = true;
        is_begun = true;
        attempt = UNKNOWN }
    :: atomic { up && memory == OUT && attempt == DONE -> write(OUTCOME, FIRED) }
    :: atomic { up && memory == OUT && attempt == FAILED -> write(RETRY, LIVE) }

    /* A write is done, or failed: then our own are tried again, and a client's is answered so. */
    :: atomic { up && result == DONE ->
        result = UNKNOWN;
        if
        :: reason == CREATE -> memory = RESTING; created = true; answer()
        :: reason == CANCEL -> memory = ABSENT; cancelled = true; answer(); assert(!is_begun)
        :: reason == OUTCOME -> memory = ABSENT; is_begun = false
        :: reason == RETRY -> memory = RESTING; is_begun = false
        fi;
        reason = NOTHING }
    :: atomic { up && result == FAILED ->
        if
        :: reason == CREATE -> memory = ABSENT; reason = NOTHING; answer()
        :: reason == CANCEL -> memory = RESTING; reason = NOTHING; answer()
        :: else -> skip
        fi;
        result = UNKNOWN }

    /* Recovery. */
    :: atomic { !up ->
        up = true;
        if
        :: row == LIVE && PLANT != 3 -> memory = RESTING
        :: else -> memory = ABSENT
        fi }
    od
}

active proctype disk()
{
    do
    :: atomic { up && reason != NOTHING && result == UNKNOWN -> row = written; result = DONE }
    :: atomic { up && reason != NOTHING && result == UNKNOWN && faults < FAULTS_MAX ->
        faults++; result = FAILED }
    od
}

/* The engine does not ask for the answer to a delivery from before a crash. */
active proctype target()
{
    do
    :: atomic { on_the_wire -> on_the_wire = false; received++; attempt = DONE }
    :: atomic { on_the_wire && refusals < REFUSALS_MAX ->
        on_the_wire = false; refusals++; attempt = FAILED }
    od
}

/* It ends past the due time. */
active proctype clock()
{
    do
    :: atomic { !due -> due = true }
    :: atomic { due && steps < STEPS_MAX ->
        steps++;
        due = false;
#if PLANT == 7
        if
        :: memory == WRITING && reason == OUTCOME -> memory = RESTING /* put back a second time */
        :: else -> skip
        fi
#endif
       }
    od
}

active proctype crash()
{
    do
    :: atomic { up && crashes < CRASHES_MAX ->
        crashes++;
        up = false;
        memory = ABSENT;
        reason = NOTHING;
        result = UNKNOWN;
        attempt = UNKNOWN;
        is_begun = false;
        if /* the network loses it, or not */
        :: on_the_wire = false
        :: true
        fi;
        asked = NOTHING } /* the client does not learn what became of its call */
    od
}

#define acknowledged created
#define stored       (row != NONE)
#define ended        (received > 0 || row == CANCELLED)
#define explained    (received <= 1 + crashes)

ltl acknowledged_is_durable { [] (acknowledged -> stored) }
ltl never_both { [] !(cancelled && row == FIRED) }
ltl cancelled_is_durable { [] (cancelled -> row == CANCELLED) }
ltl fired_was_received { [] (row == FIRED -> received > 0) }
ltl repeats_are_explained { [] explained }
ltl never_neither { [] (acknowledged -> <> ended) }
