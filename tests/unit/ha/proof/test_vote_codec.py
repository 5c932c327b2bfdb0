"""The bytes of questions and answers about sequences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof.copy_record import SEQUENCE_MAX
from mqbroker.ha.proof.paxos import Answer, Ballot, Held, Question, Round, Verdict
from mqbroker.ha.proof.ports import Introduction
from mqbroker.ha.proof.vote_codec import (
    BALLOT_MAX,
    VOTE_SIZE_MAX,
    decode_answer,
    decode_introduction,
    decode_question,
    encode_answer,
    encode_introduction,
    encode_question,
)
from mqclient.errors import MalformedPacketError

ids = st.text(alphabet="abcdef0123456789-", min_size=1, max_size=64)
ballots = st.builds(Ballot, st.integers(1, BALLOT_MAX), st.binary(min_size=16, max_size=16))
helds = st.builds(Held, st.integers(0, SEQUENCE_MAX), ballots, ballots, ids)
GOOD = Question(Round.ACCEPT, "node", 2, Ballot(1, bytes(16)), "copy")


class VoteCodecTests(SynchronousTestCase):
    @given(ids, st.integers(1, SEQUENCE_MAX), ballots, ids, st.sampled_from(Round))
    def test_a_question_is_heard_as_it_was_asked(self, node_id: str, sequence: int, ballot: Ballot, value: str, asked: Round) -> None:
        question = Question(asked, node_id, sequence, ballot, value if asked is Round.ACCEPT else "")
        self.assertEqual(decode_question(encode_question(question)), question)

    @given(ids, st.sampled_from(Round), ballots, st.sampled_from(Verdict), helds)
    def test_an_answer_is_heard_as_it_was_given(self, voter: str, asked: Round, ballot: Ballot, verdict: Verdict, held: Held) -> None:
        answer = Answer(voter, asked, ballot, verdict, held)
        self.assertEqual(decode_answer(encode_answer(answer)), answer)

    @given(st.binary(max_size=200))
    def test_garbage_is_refused(self, data: bytes) -> None:
        for decode in (decode_question, decode_answer):
            try:
                decode(data)
            except MalformedPacketError:
                pass

    def test_questions_that_nobody_asks_are_refused(self) -> None:
        self.assertEqual(decode_question(encode_question(GOOD)), GOOD)
        nobody = Ballot(0, bytes(16))
        for bad in (
            Question(Round.ACCEPT, "node", 2, GOOD.ballot, ""),
            Question(Round.PROMISE, "node", 2, GOOD.ballot, "copy"),
            Question(Round.ACCEPT, "", 2, GOOD.ballot, "copy"),
            Question(Round.ACCEPT, "node", 0, GOOD.ballot, "copy"),
            Question(Round.ACCEPT, "node", -1, GOOD.ballot, "copy"),
            Question(Round.ACCEPT, "node", 2, nobody, "copy"),
            Question(Round.ACCEPT, "node", 2, Ballot(BALLOT_MAX + 1, bytes(16)), "copy"),
            Question(Round.ACCEPT, "node", 2, GOOD.ballot, "c" * 65),
        ):
            self.assertRaises(MalformedPacketError, decode_question, encode_question(bad))
        self.assertRaises(MalformedPacketError, decode_question, encode_question(GOOD) + bytes(VOTE_SIZE_MAX))
        self.assertRaises(MalformedPacketError, decode_question, b"\x02" + encode_question(GOOD)[1:])

    def test_a_verdict_that_is_none_is_refused(self) -> None:
        data = bytearray(encode_answer(Answer("v", Round.PROMISE, GOOD.ballot, Verdict.PAST, Held())))
        place = data.index(2, 4 + 2 + 1 + 8 + 16)
        data[place] = 3
        self.assertRaises(MalformedPacketError, decode_answer, bytes(data))

    def test_an_introduction_is_that_of_the_asked_broker(self) -> None:
        said = encode_introduction("node", votes=True, paired=False)
        self.assertEqual(decode_introduction(said, "node"), Introduction(java=False, votes=True, paired=False))
        for data, node_id in ((said, "another"), (said[:-1], "node"), (b"", "node"), (said + bytes(VOTE_SIZE_MAX), "node")):
            self.assertRaises(MalformedPacketError, decode_introduction, data, node_id)
