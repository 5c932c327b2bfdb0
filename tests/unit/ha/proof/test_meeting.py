"""What copies say to each other, and which of two goes on."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof.copy_record import SEQUENCE_MAX, CopyState
from mqbroker.ha.proof.meeting import Activity, Standing
from mqclient.errors import MalformedPacketError

ids = st.text(max_size=64)
standings = st.builds(
    Standing,
    ids,
    st.text(min_size=1, max_size=64),
    st.sampled_from(Activity),
    st.sampled_from(CopyState),
    st.integers(0, SEQUENCE_MAX),
    st.booleans(),
    st.booleans(),
    st.text(alphabet="abc", max_size=64),
    st.text(alphabet="abc", max_size=64),
    st.text(alphabet="abc", max_size=64),
)

P = Standing("n", "p", Activity.SEEKING, CopyState.COMPLETE, 5, primary=True, noted="b", search="s1")
B = Standing("n", "b", Activity.SEEKING, CopyState.COMPLETE, 5, primary=False, noted="p", search="s2")


class CodecTests(SynchronousTestCase):
    @given(standings)
    def test_what_is_said_is_heard(self, standing: Standing) -> None:
        data = standing.encode()
        if len(data) <= 1024:
            self.assertEqual(Standing.decode(data), standing)

    @given(st.binary(max_size=200))
    def test_garbage_is_refused(self, data: bytes) -> None:
        try:
            Standing.decode(data)
        except MalformedPacketError:
            pass

    def test_what_is_out_of_range_is_refused(self) -> None:
        for bad in (replace(P, copy_id=""), replace(P, noted="x" * 65), replace(P, sequence=-1), replace(P, search="x" * 600)):
            self.assertRaises(MalformedPacketError, Standing.decode, bad.encode())


class PreferenceTests(SynchronousTestCase):
    def test_active_goes_before_seeking_then_the_higher_sequence_then_the_primary(self) -> None:
        self.assertTrue(P.preferred_to(B))
        self.assertTrue(replace(B, sequence=6).preferred_to(P))
        self.assertTrue(replace(B, activity=Activity.ACTIVE).preferred_to(replace(P, sequence=6)))

    def test_of_two_active_ones_the_one_that_took_over_goes_on(self) -> None:
        cut = replace(P, activity=Activity.ACTIVE), replace(B, activity=Activity.ACTIVE, took_over=True)
        self.assertTrue(cut[1].preferred_to(cut[0]))
        self.assertTrue(replace(cut[0], sequence=6).preferred_to(cut[1]))
        self.assertTrue(P.preferred_to(replace(B, took_over=True)), "of two that only seek the primary does")

    @given(standings, standings)
    def test_one_of_two_is_preferred_and_never_both_yield(self, one: Standing, other: Standing) -> None:
        if one.copy_id != other.copy_id:
            self.assertNotEqual(one.preferred_to(other), other.preferred_to(one))
            if one.complete or other.complete:
                self.assertFalse(one.yields_to(other) and other.yields_to(one))


class YieldTests(SynchronousTestCase):
    def test_the_less_preferred_one_gives_itself_up(self) -> None:
        self.assertEqual((B.yields_to(P), P.yields_to(B)), (True, False))

    def test_it_does_so_only_for_the_copy_that_needs_its_word(self) -> None:
        self.assertFalse(B.yields_to(replace(P, noted="c")))
        self.assertFalse(B.yields_to(replace(P, node_id="m")))
        self.assertFalse(B.yields_to(replace(P, activity=Activity.PASSIVE)))
        self.assertFalse(replace(B, sequence=6).yields_to(P))
        self.assertFalse(B.yields_to(replace(P, state=CopyState.GIVEN_UP)))
        self.assertFalse(
            B.yields_to(replace(P, activity=Activity.ACTIVE, search="")), "a replica whose active broker just looks who is there"
        )

    def test_one_that_is_not_complete_always_gives_its_word(self) -> None:
        for state in (CopyState.GIVEN_UP, CopyState.INCOMPLETE):
            self.assertTrue(replace(P, state=state, activity=Activity.PASSIVE).yields_to(B))

    def test_of_two_active_ones_one_ends(self) -> None:
        one, other = replace(P, activity=Activity.ACTIVE, noted=""), replace(B, activity=Activity.ACTIVE, noted="", sequence=6)
        self.assertEqual((one.yields_to(other), other.yields_to(one)), (True, False))

    def test_a_word_counts_from_the_noted_copy_that_was_never_complete_later(self) -> None:
        word = replace(B, state=CopyState.GIVEN_UP, activity=Activity.PASSIVE, word_for="s1")
        self.assertTrue(word.gives_word_to(P))
        self.assertTrue(replace(word, state=CopyState.INCOMPLETE, sequence=0).gives_word_to(P))
        self.assertFalse(replace(word, state=CopyState.COMPLETE).gives_word_to(P))
        self.assertFalse(replace(word, word_for="s0").gives_word_to(P))
        self.assertFalse(replace(word, word_for="").gives_word_to(replace(P, search="")))
        self.assertFalse(replace(word, sequence=6).gives_word_to(P))
        self.assertFalse(replace(word, copy_id="c").gives_word_to(P))
        self.assertFalse(replace(word, node_id="m").gives_word_to(P))
