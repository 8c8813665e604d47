/* Goal: each row of the table of states in docs/cluster-design.md, and each rule about records,
 * does what it says. Method: one machine, a log that is handed to it record by record, and times of
 * a clock that starts just below 2^32 milliseconds. */
#include "cluster/ownership.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ME = 1, OTHER = 2, LEASE_MS = 2000 };

struct stand {
    struct ownership own;
    struct instant now;
    uint64_t next; /* the offset that the log gives next */
    uint64_t ticket;
    struct frame sent;
};

static const struct instant start = {UINT64_C(4294967290) * 1000000};

static enum ownership_state state_of(struct stand *stand)
{
    ownership_check(&stand->own);
    return ownership_state(&stand->own);
}

static void wait_ms(struct stand *stand, uint64_t ms)
{
    stand->now = instant_add_ms(stand->now, ms);
    ownership_advance(&stand->own, stand->now);
    ownership_check(&stand->own);
}

static enum ownership_verdict show(struct stand *stand, const struct frame *frame)
{
    enum ownership_verdict verdict = ownership_read(&stand->own, stand->next++, frame, stand->now);

    ownership_check(&stand->own);
    return verdict;
}

static struct frame other_frame(enum frame_kind kind, uint64_t epoch, uint64_t seq)
{
    return (struct frame){
        .kind = kind, .node = OTHER, .incarnation = 22, .epoch = epoch, .seq = seq};
}

static enum ownership_verdict show_other(struct stand *stand, enum frame_kind kind, uint64_t epoch,
                                         uint64_t seq)
{
    struct frame frame = other_frame(kind, epoch, seq);

    return show(stand, &frame);
}

/* A node on standby behind an empty log. */
static void be_standby(struct stand *stand)
{
    const struct ownership_options options = {
        .node = ME, .incarnation = 11, .lease_ms = LEASE_MS, .handover_ms = 500, .seed = 1};

    *stand = (struct stand){.now = start};
    ownership_init(&stand->own, &options, &(struct ownership_place){0}, start);
    ownership_restored(&stand->own);
    assert_int_equal(state_of(stand), OWNERSHIP_STANDBY);
}

static bool append(struct stand *stand, enum ownership_offer offer)
{
    uint64_t ticket = ownership_append(&stand->own, offer, stand->now, &stand->sent);

    if (ticket > 0)
        stand->ticket = ticket;
    return ticket > 0;
}

/* The append lands, and is answered; it is not read. */
static void answer_at(struct stand *stand, uint64_t offset)
{
    ownership_landed(&stand->own, stand->ticket, offset, stand->now);
    ownership_check(&stand->own);
}

/* The append lands, is answered and read. */
static void answer_and_show(struct stand *stand)
{
    answer_at(stand, stand->next);
    show(stand, &stand->sent);
}

static void claim(struct stand *stand)
{
    ownership_plan(&stand->own, ME, stand->now);
    wait_ms(stand, LEASE_MS * 6 / 5);
    assert_int_equal(state_of(stand), OWNERSHIP_CLAIMING);
    assert_true(append(stand, OWNERSHIP_NOTHING));
    assert_int_equal(stand->sent.kind, FRAME_CLAIM);
}

static void become_active(struct stand *stand)
{
    be_standby(stand);
    claim(stand);
    answer_and_show(stand);
    assert_int_equal(state_of(stand), OWNERSHIP_RECOVERING);
    ownership_recovered(&stand->own);
    wait_ms(stand, 0);
    assert_int_equal(state_of(stand), OWNERSHIP_ACTIVE);
    assert_true(ownership_may_act(&stand->own, stand->now));
}

/* ---- the table of states ---- */

static void test_restoring_claims_nothing(void **state)
{
    const struct ownership_options options = {.node = ME, .lease_ms = LEASE_MS};
    struct stand stand = {.now = start};

    (void)state;
    ownership_init(&stand.own, &options, &(struct ownership_place){0}, start);
    ownership_plan(&stand.own, ME, start);
    wait_ms(&stand, 100 * LEASE_MS);
    assert_int_equal(state_of(&stand), OWNERSHIP_RESTORING);
    assert_int_equal(ownership_wake_at(&stand.own, stand.now).ns, UINT64_MAX);
    ownership_restored(&stand.own);
    wait_ms(&stand, 0);
    assert_int_equal(state_of(&stand), OWNERSHIP_CLAIMING);
}

static void test_standby_claims_behind_silence(void **state)
{
    struct stand stand;

    (void)state;
    be_standby(&stand);
    wait_ms(&stand, 100 * LEASE_MS);
    assert_int_equal(state_of(&stand), OWNERSHIP_STANDBY); /* not planned */
    show_other(&stand, FRAME_CLAIM, 1, 0);
    ownership_plan(&stand.own, ME, stand.now);
    wait_ms(&stand, LEASE_MS * 6 / 5 - 1);
    assert_int_equal(state_of(&stand), OWNERSHIP_STANDBY);
    assert_int_equal(ownership_wake_at(&stand.own, stand.now).ns, instant_add_ms(stand.now, 1).ns);
    show_other(&stand, FRAME_KEEP, 1, 1);
    wait_ms(&stand, 1);
    assert_int_equal(state_of(&stand), OWNERSHIP_STANDBY);
    wait_ms(&stand, LEASE_MS * 6 / 5 - 1);
    assert_int_equal(state_of(&stand), OWNERSHIP_CLAIMING);
    assert_true(append(&stand, OWNERSHIP_NOTHING));
    assert_int_equal(stand.sent.epoch, 2);
    assert_int_equal(stand.sent.seq, 0);
    assert_false(append(&stand, OWNERSHIP_COMMIT)); /* one in flight */
}

static void test_standby_claims_behind_a_release(void **state)
{
    struct stand stand;

    (void)state;
    be_standby(&stand);
    ownership_plan(&stand.own, ME, stand.now);
    show_other(&stand, FRAME_CLAIM, 1, 0);
    show_other(&stand, FRAME_RELEASE, 1, 1);
    wait_ms(&stand, 0);
    assert_int_equal(state_of(&stand), OWNERSHIP_CLAIMING);
    assert_true(append(&stand, OWNERSHIP_NOTHING));
    answer_and_show(&stand);
    ownership_recovered(&stand.own);
    wait_ms(&stand, 0);
    assert_int_equal(state_of(&stand), OWNERSHIP_ACTIVE); /* without a wait */
}

/* The lease of the last owner counts from the reading of its last valid record before the claim. */
static void test_recovering_waits_for_the_lease_before(void **state)
{
    struct stand stand;

    (void)state;
    be_standby(&stand);
    show_other(&stand, FRAME_CLAIM, 1, 0);
    claim(&stand);
    show_other(&stand, FRAME_KEEP, 1, 1);
    answer_and_show(&stand);
    ownership_recovered(&stand.own);
    uint64_t until = LEASE_MS + LEASE_MS / 32 + 1;
    for (uint64_t ms = 0; ms < until; ms += 31) {
        assert_int_equal(state_of(&stand), OWNERSHIP_RECOVERING);
        assert_false(ownership_may_act(&stand.own, stand.now));
        if (append(&stand, OWNERSHIP_NOTHING)) {
            assert_int_equal(stand.sent.kind, FRAME_KEEP);
            answer_and_show(&stand);
        }
        wait_ms(&stand, 31);
    }
    assert_int_equal(state_of(&stand), OWNERSHIP_ACTIVE);
}

static void test_recovering_needs_the_engine_and_the_own_lease(void **state)
{
    struct stand stand;

    (void)state;
    be_standby(&stand);
    claim(&stand);
    answer_and_show(&stand);
    wait_ms(&stand, LEASE_MS);
    assert_int_equal(state_of(&stand), OWNERSHIP_RECOVERING);
    ownership_recovered(&stand.own);
    wait_ms(&stand, 0);
    assert_int_equal(state_of(&stand), OWNERSHIP_RECOVERING); /* its lease is over */
    assert_true(ownership_wake_at(&stand.own, stand.now).ns > stand.now.ns);
    assert_true(append(&stand, OWNERSHIP_NOTHING));
    answer_and_show(&stand);
    wait_ms(&stand, 0);
    assert_int_equal(state_of(&stand), OWNERSHIP_ACTIVE);
}

static void test_claiming_ends_on_standby(void **state)
{
    struct stand stand;

    (void)state;
    /* Refused: another claim came before. */
    be_standby(&stand);
    claim(&stand);
    show_other(&stand, FRAME_CLAIM, 1, 0);
    answer_and_show(&stand);
    assert_int_equal(state_of(&stand), OWNERSHIP_STANDBY);
    /* An error, and the pause that follows. */
    be_standby(&stand);
    claim(&stand);
    ownership_failed(&stand.own, stand.ticket, stand.now);
    assert_int_equal(state_of(&stand), OWNERSHIP_STANDBY);
    wait_ms(&stand, 199);
    assert_int_equal(state_of(&stand), OWNERSHIP_STANDBY);
    wait_ms(&stand, 301);
    assert_int_equal(state_of(&stand), OWNERSHIP_CLAIMING);
    /* No answer. */
    be_standby(&stand);
    claim(&stand);
    wait_ms(&stand, (OWNERSHIP_APPEND_LEASES + 1) * LEASE_MS - 1);
    assert_int_equal(state_of(&stand), OWNERSHIP_CLAIMING);
    wait_ms(&stand, 1);
    assert_int_equal(state_of(&stand), OWNERSHIP_STANDBY);
}

/* Another record has the place of an append: a commit failed for good, and so did a claim. The
 * answer for an earlier append is ignored. */
static void test_a_taken_place_ends_the_ownership(void **state)
{
    struct stand stand;

    (void)state;
    be_standby(&stand);
    claim(&stand);
    ownership_fenced(&stand.own, stand.ticket, stand.now);
    assert_int_equal(state_of(&stand), OWNERSHIP_STANDBY);
    become_active(&stand);
    assert_true(append(&stand, OWNERSHIP_COMMIT));
    ownership_fenced(&stand.own, stand.ticket - 1, stand.now);
    assert_int_equal(state_of(&stand), OWNERSHIP_ACTIVE);
    ownership_fenced(&stand.own, stand.ticket, stand.now);
    assert_int_equal(state_of(&stand), OWNERSHIP_LEAVING);
    assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_FAILED);
    assert_false(ownership_may_act(&stand.own, stand.now));
}

static void test_active_drains_and_releases(void **state)
{
    struct stand stand;

    (void)state;
    become_active(&stand);
    ownership_plan(&stand.own, OTHER, stand.now);
    assert_int_equal(state_of(&stand), OWNERSHIP_DRAINING);
    assert_false(ownership_may_act(&stand.own, stand.now));
    assert_true(append(&stand, OWNERSHIP_COMMIT)); /* outcomes */
    assert_int_equal(stand.sent.kind, FRAME_COMMIT);
    answer_and_show(&stand);
    ownership_drained(&stand.own);
    assert_true(append(&stand, OWNERSHIP_NOTHING));
    assert_int_equal(stand.sent.kind, FRAME_RELEASE);
    assert_int_equal(stand.sent.to, OTHER);
    answer_and_show(&stand);
    assert_int_equal(state_of(&stand), OWNERSHIP_LEAVING);
    assert_false(append(&stand, OWNERSHIP_COMMIT));
    ownership_left(&stand.own);
    assert_int_equal(state_of(&stand), OWNERSHIP_STANDBY);
}

/* A release tells the next owner that no lease lasts any more: neither the own one nor that of the
 * owner before, which may not know of the claim. */
static void test_recovering_releases_behind_the_lease_before(void **state)
{
    struct stand stand;

    (void)state;
    be_standby(&stand);
    show_other(&stand, FRAME_CLAIM, 1, 0);
    claim(&stand);
    show_other(&stand, FRAME_KEEP, 1, 1);
    answer_and_show(&stand);
    ownership_plan(&stand.own, OTHER, stand.now);
    ownership_drained(&stand.own);
    assert_int_equal(state_of(&stand), OWNERSHIP_RECOVERING);
    wait_ms(&stand, LEASE_MS);
    assert_int_equal(state_of(&stand), OWNERSHIP_RECOVERING);
    assert_int_equal(ownership_wake_at(&stand.own, stand.now).ns,
                     instant_add_ms(stand.now, LEASE_MS / 32 + 1).ns);
    wait_ms(&stand, LEASE_MS / 32 + 1);
    assert_int_equal(state_of(&stand), OWNERSHIP_DRAINING);
}

static void test_draining_has_an_end(void **state)
{
    struct stand stand;

    (void)state;
    become_active(&stand);
    ownership_plan(&stand.own, OTHER, stand.now);
    wait_ms(&stand, 499);
    if (append(&stand, OWNERSHIP_NOTHING)) {
        assert_int_equal(stand.sent.kind, FRAME_KEEP);
        answer_and_show(&stand);
    }
    wait_ms(&stand, 1);
    assert_true(append(&stand, OWNERSHIP_COMMIT)); /* offered, but the time is over */
    assert_int_equal(stand.sent.kind, FRAME_RELEASE);
}

static void test_owner_leaves(void **state)
{
    struct stand stand;

    (void)state;
    /* A foreign claim. */
    become_active(&stand);
    show_other(&stand, FRAME_CLAIM, 2, 0);
    assert_int_equal(state_of(&stand), OWNERSHIP_LEAVING);
    assert_false(ownership_may_act(&stand.own, stand.now));
    /* An append in doubt. */
    become_active(&stand);
    assert_true(append(&stand, OWNERSHIP_COMMIT));
    ownership_failed(&stand.own, stand.ticket, stand.now);
    assert_int_equal(state_of(&stand), OWNERSHIP_LEAVING);
    assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_IN_DOUBT);
    assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_NO_RESULT);
    /* No answer. */
    become_active(&stand);
    assert_true(append(&stand, OWNERSHIP_COMMIT));
    wait_ms(&stand, (OWNERSHIP_APPEND_LEASES + 1) * LEASE_MS - 1);
    assert_int_equal(state_of(&stand), OWNERSHIP_ACTIVE);
    assert_false(ownership_may_act(&stand.own, stand.now));
    wait_ms(&stand, 1);
    assert_int_equal(state_of(&stand), OWNERSHIP_LEAVING);
    assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_IN_DOUBT);
    /* A late answer changes nothing any more. */
    answer_at(&stand, stand.next);
    assert_int_equal(state_of(&stand), OWNERSHIP_LEAVING);
}

/* Kept for ever, whatever comes. */
static void assert_broken(struct stand *stand)
{
    assert_int_equal(state_of(stand), OWNERSHIP_BROKEN);
    assert_false(ownership_may_act(&stand->own, stand->now));
    assert_false(append(stand, OWNERSHIP_COMMIT));
    assert_int_equal(show_other(stand, FRAME_CLAIM, 2, 0), OWNERSHIP_REFUSED);
    ownership_restored(&stand->own);
    ownership_left(&stand->own);
    ownership_plan(&stand->own, ME, stand->now);
    wait_ms(stand, 100 * LEASE_MS);
    assert_int_equal(state_of(stand), OWNERSHIP_BROKEN);
}

/* Markers and aborted records are gaps. */
static void test_gaps_are_no_loss(void **state)
{
    struct stand stand;

    (void)state;
    be_standby(&stand);
    assert_int_equal(show_other(&stand, FRAME_CLAIM, 1, 0), OWNERSHIP_VALID);
    stand.next += 3;
    assert_int_equal(show_other(&stand, FRAME_COMMIT, 1, 1), OWNERSHIP_VALID);
    assert_int_equal(ownership_place(&stand.own)->next, stand.next);
    assert_int_equal(state_of(&stand), OWNERSHIP_STANDBY);
}

static void send_transaction(struct stand *stand, size_t frames)
{
    assert_true(append(stand, OWNERSHIP_COMMIT));
    ownership_transact(&stand->own, frames);
}

/* The frames of a transaction follow on the last record, or on one marker. A commit behind a gap
 * does not say whether the marker was in it. */
static void test_transactions(void **state)
{
    struct stand stand;

    (void)state;
    become_active(&stand);
    const uint64_t first = ownership_follows_from(&stand.own);
    assert_int_equal(ownership_follows_to(&stand.own), first);
    send_transaction(&stand, 3);
    answer_at(&stand, first + 2);
    assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_DURABLE);
    assert_int_equal(ownership_follows_from(&stand.own), first + 3);
    assert_int_equal(ownership_follows_to(&stand.own), first + 4);
    send_transaction(&stand, 1); /* behind the marker */
    assert_int_equal(stand.sent.seq, 4);
    answer_at(&stand, first + 4);
    assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_DURABLE);
    assert_true(append(&stand, OWNERSHIP_COMMIT)); /* in front of it */
    answer_at(&stand, first + 5);
    assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_DURABLE);
    assert_int_equal(ownership_follows_to(&stand.own), first + 7);
    assert_true(append(&stand, OWNERSHIP_COMMIT));
    answer_at(&stand, first + 7); /* behind what may be the marker: only the reading tells */
    assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_NO_RESULT);
}

static void test_a_gap_hides_the_marker(void **state)
{
    struct stand stand;

    (void)state;
    become_active(&stand);
    send_transaction(&stand, 1);
    answer_and_show(&stand);
    assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_DURABLE);
    assert_true(append(&stand, OWNERSHIP_COMMIT));
    answer_at(&stand, stand.next + 1);
    assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_NO_RESULT);
    show_other(&stand, FRAME_CLAIM, 1, 0); /* it is no marker */
    show(&stand, &stand.sent);
    assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_DURABLE);
    assert_int_equal(ownership_follows_to(&stand.own), ownership_follows_from(&stand.own));
}

static void test_an_owner_gives_up(void **state)
{
    struct stand stand;

    (void)state;
    become_active(&stand);
    send_transaction(&stand, 1);
    ownership_give_up(&stand.own, stand.now);
    assert_int_equal(state_of(&stand), OWNERSHIP_LEAVING);
    assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_IN_DOUBT);
}

static void test_lost_records_break(void **state)
{
    struct stand stand;

    (void)state;
    /* A hole in the sequence, in the epochs, under a claim. */
    const struct frame behind[] = {other_frame(FRAME_COMMIT, 1, 2), other_frame(FRAME_COMMIT, 2, 1),
                                   other_frame(FRAME_CLAIM, 3, 0)};
    for (size_t i = 0; i < sizeof(behind) / sizeof(*behind); i++) {
        be_standby(&stand);
        assert_int_equal(show_other(&stand, FRAME_CLAIM, 1, 0), OWNERSHIP_VALID);
        assert_int_equal(show(&stand, &behind[i]), OWNERSHIP_REFUSED);
        assert_broken(&stand);
        assert_true(*ownership_why(&stand.own));
    }
    /* The claim of this epoch was read in another log: its owner appends. */
    for (int i = 0; i < 2; i++) {
        struct frame frame = other_frame(FRAME_COMMIT, 1, 1);

        be_standby(&stand);
        assert_int_equal(show_other(&stand, FRAME_CLAIM, 1, 0), OWNERSHIP_VALID);
        if (i)
            frame.incarnation++;
        else
            frame.node++;
        assert_int_equal(show(&stand, &frame), OWNERSHIP_REFUSED);
        assert_broken(&stand);
        assert_non_null(strstr(ownership_why(&stand.own), "another owner appended"));
    }
    /* A record that was acknowledged to this node is not there. */
    become_active(&stand);
    assert_true(append(&stand, OWNERSHIP_COMMIT));
    answer_at(&stand, stand.next);
    stand.next++;
    show_other(&stand, FRAME_CLAIM, 1, 0);
    assert_broken(&stand);
    /* An own append lands where an acknowledged record was. */
    become_active(&stand);
    assert_true(append(&stand, OWNERSHIP_COMMIT));
    answer_at(&stand, 0);
    assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_IN_DOUBT);
    assert_broken(&stand);
    /* So does an own claim. */
    be_standby(&stand);
    show_other(&stand, FRAME_CLAIM, 1, 0);
    show_other(&stand, FRAME_COMMIT, 1, 1);
    claim(&stand);
    answer_at(&stand, 0);
    assert_broken(&stand);
    /* Another record lies where an own append landed. */
    become_active(&stand);
    show_other(&stand, FRAME_CLAIM, 1, 0);
    assert_true(append(&stand, OWNERSHIP_COMMIT));
    answer_at(&stand, stand.next);
    show_other(&stand, FRAME_CLAIM, 1, 0);
    assert_broken(&stand);
    become_active(&stand);
    ownership_break(&stand.own);
    assert_broken(&stand);
}

/* A claim that lands twice, and is told of twice, is no other log. */
static void test_a_second_answer(void **state)
{
    struct stand stand;

    (void)state;
    be_standby(&stand);
    show_other(&stand, FRAME_CLAIM, 1, 0);
    claim(&stand);
    const uint64_t first = stand.next;
    answer_at(&stand, first + 1); /* of the second copy: the first one is passed by */
    show(&stand, &stand.sent);
    answer_at(&stand, first);
    assert_int_equal(state_of(&stand), OWNERSHIP_CLAIMING);
    show(&stand, &stand.sent);
    assert_int_equal(state_of(&stand), OWNERSHIP_STANDBY);
}

/* ---- records ---- */

static void test_verdicts(void **state)
{
    struct stand stand;

    (void)state;
    be_standby(&stand);
    assert_int_equal(show_other(&stand, FRAME_CLAIM, 1, 0), OWNERSHIP_VALID);
    assert_int_equal(show_other(&stand, FRAME_CLAIM, 1, 0), OWNERSHIP_REFUSED);
    assert_int_equal(show_other(&stand, FRAME_COMMIT, 1, 1), OWNERSHIP_VALID);
    assert_int_equal(show_other(&stand, FRAME_COMMIT, 1, 1), OWNERSHIP_REPEATED);
    assert_int_equal(show_other(&stand, FRAME_NOTE, 9, 0), OWNERSHIP_REFUSED); /* no hole */
    assert_int_equal(show_other(&stand, FRAME_KEEP, 1, 2), OWNERSHIP_VALID);
    assert_int_equal(show_other(&stand, FRAME_RELEASE, 1, 3), OWNERSHIP_VALID);
    assert_int_equal(show_other(&stand, FRAME_COMMIT, 1, 4), OWNERSHIP_REFUSED);
    struct frame frame = other_frame(FRAME_CLAIM, 2, 0);
    frame.node = 3;
    assert_int_equal(show(&stand, &frame), OWNERSHIP_VALID);
    assert_int_equal(show_other(&stand, FRAME_COMMIT, 1, 4), OWNERSHIP_REFUSED); /* late */
    frame = other_frame(FRAME_CLAIM, 2, 0);
    assert_int_equal(ownership_read(&stand.own, 0, &frame, stand.now), OWNERSHIP_REPEATED);
    assert_int_equal(ownership_place(&stand.own)->epoch, 2);
    assert_int_equal(ownership_place(&stand.own)->owner, 3);
    assert_int_equal(ownership_place(&stand.own)->next, stand.next);
}

static void test_a_commit_that_follows_on_is_durable_unread(void **state)
{
    struct stand stand;

    (void)state;
    become_active(&stand);
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(append(&stand, OWNERSHIP_COMMIT));
        assert_int_equal(stand.sent.seq, 1 + i);
        answer_at(&stand, stand.next + i);
        assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_DURABLE);
    }
}

/* A claim that comes later does not undo a commit; one that came before refuses it. */
static void test_a_commit_is_judged_at_its_place(void **state)
{
    struct stand stand;

    (void)state;
    become_active(&stand);
    assert_true(append(&stand, OWNERSHIP_COMMIT));
    show_other(&stand, FRAME_CLAIM, 1, 0); /* late: refused */
    show(&stand, &stand.sent);
    show_other(&stand, FRAME_CLAIM, 2, 0);
    assert_int_equal(state_of(&stand), OWNERSHIP_LEAVING);
    assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_DURABLE);

    become_active(&stand);
    assert_true(append(&stand, OWNERSHIP_COMMIT));
    show_other(&stand, FRAME_CLAIM, 2, 0); /* the commit was not read before: it cannot be valid */
    assert_int_equal(state_of(&stand), OWNERSHIP_LEAVING);
    assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_FAILED);

    become_active(&stand);
    assert_true(append(&stand, OWNERSHIP_COMMIT));
    show_other(&stand, FRAME_CLAIM, 1, 0);
    answer_and_show(&stand);
    assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_DURABLE);
    assert_int_equal(state_of(&stand), OWNERSHIP_ACTIVE);

    /* The log took it twice, and answers with the second. */
    assert_true(append(&stand, OWNERSHIP_COMMIT));
    show(&stand, &stand.sent);
    answer_and_show(&stand);
    assert_int_equal(ownership_take_result(&stand.own), OWNERSHIP_DURABLE);
    assert_int_equal(state_of(&stand), OWNERSHIP_ACTIVE);
}

/* A claim that was given up lands, is valid for all readers, and is not taken for the next one. */
static void test_a_second_claim_is_not_the_first(void **state)
{
    struct stand stand;

    (void)state;
    be_standby(&stand);
    claim(&stand);
    struct frame first = stand.sent;
    uint64_t first_ticket = stand.ticket;
    ownership_failed(&stand.own, stand.ticket, stand.now);
    wait_ms(&stand, 500);
    assert_true(append(&stand, OWNERSHIP_NOTHING));
    assert_int_equal(show(&stand, &first), OWNERSHIP_VALID);
    ownership_landed(&stand.own, first_ticket, stand.next - 1, stand.now);
    assert_int_equal(state_of(&stand), OWNERSHIP_CLAIMING); /* an old ticket */
    answer_at(&stand, stand.next);
    assert_int_equal(show(&stand, &stand.sent), OWNERSHIP_REFUSED);
    assert_int_equal(state_of(&stand), OWNERSHIP_STANDBY);
}

/* Its claim was valid, but the next one was read before the answer came. */
static void test_a_claim_that_is_over_owns_nothing(void **state)
{
    struct stand stand;

    (void)state;
    be_standby(&stand);
    claim(&stand);
    show(&stand, &stand.sent);
    assert_int_equal(state_of(&stand), OWNERSHIP_CLAIMING);
    show_other(&stand, FRAME_CLAIM, 2, 0);
    answer_at(&stand, 0);
    assert_int_equal(state_of(&stand), OWNERSHIP_STANDBY);
}

static void test_the_lease_counts_from_the_sending(void **state)
{
    struct stand stand;

    (void)state;
    become_active(&stand);
    assert_true(append(&stand, OWNERSHIP_COMMIT));
    wait_ms(&stand, 1500);
    answer_and_show(&stand);
    wait_ms(&stand, 499);
    assert_true(ownership_may_act(&stand.own, stand.now));
    wait_ms(&stand, 1);
    assert_false(ownership_may_act(&stand.own, stand.now));
    assert_true(append(&stand, OWNERSHIP_NOTHING));
    assert_int_equal(stand.sent.kind, FRAME_KEEP);
    answer_and_show(&stand);
    assert_true(ownership_may_act(&stand.own, stand.now));
    wait_ms(&stand, LEASE_MS / 16 * 3 - 1); /* the earliest time of the next keep */
    assert_false(append(&stand, OWNERSHIP_NOTHING));
    wait_ms(&stand, LEASE_MS / 16 + 1); /* the latest one */
    assert_true(append(&stand, OWNERSHIP_NOTHING));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_restoring_claims_nothing),
        cmocka_unit_test(test_standby_claims_behind_silence),
        cmocka_unit_test(test_standby_claims_behind_a_release),
        cmocka_unit_test(test_recovering_waits_for_the_lease_before),
        cmocka_unit_test(test_recovering_needs_the_engine_and_the_own_lease),
        cmocka_unit_test(test_claiming_ends_on_standby),
        cmocka_unit_test(test_a_taken_place_ends_the_ownership),
        cmocka_unit_test(test_active_drains_and_releases),
        cmocka_unit_test(test_recovering_releases_behind_the_lease_before),
        cmocka_unit_test(test_draining_has_an_end),
        cmocka_unit_test(test_owner_leaves),
        cmocka_unit_test(test_gaps_are_no_loss),
        cmocka_unit_test(test_transactions),
        cmocka_unit_test(test_a_gap_hides_the_marker),
        cmocka_unit_test(test_an_owner_gives_up),
        cmocka_unit_test(test_lost_records_break),
        cmocka_unit_test(test_a_second_answer),
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_a_commit_that_follows_on_is_durable_unread),
        cmocka_unit_test(test_a_commit_is_judged_at_its_place),
        cmocka_unit_test(test_a_second_claim_is_not_the_first),
        cmocka_unit_test(test_a_claim_that_is_over_owns_nothing),
        cmocka_unit_test(test_the_lease_counts_from_the_sending),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
