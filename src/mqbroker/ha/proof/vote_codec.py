"""The bytes of questions and answers about activation sequences.

Source: ``protocol-spec/``, chapter "Cluster packets".
"""

from __future__ import annotations

from mqbroker.ha.proof.copy_record import COPY_ID_SIZE_MAX, SEQUENCE_MAX
from mqbroker.ha.proof.paxos import Answer, Ballot, Held, Question, Round, Verdict
from mqbroker.ha.proof.ports import Introduction
from mqclient.wire.primitives import Decoder, Encoder

ACTIVATION_VOTE = "MqbrokerActivationVote"
"""The handler's name."""

INTRODUCTION = "MqbrokerVoter"
"""The handler's name of the question whether a broker votes at all; the question is empty."""

VOTE_SIZE_MAX = 1024
"""Bytes of a question or an answer about an activation sequence: ids and numbers, nothing that grows."""

BALLOT_MAX = 1 << 40
"""The highest number of a ballot that is taken: each attempt raises it by one, and none could follow the highest integer."""

PROPOSER_SIZE = 16
"""Bytes that tell proposers apart."""


def encode_question(question: Question) -> bytes:
    encoder = Encoder()
    encoder.i8(question.round)
    encoder.string(question.node_id)
    encoder.i64(question.sequence)
    _write_ballot(encoder, question.ballot)
    encoder.string(question.value)
    return bytes(encoder.data)


def decode_question(data: bytes) -> Question:
    """Raises MalformedPacketError, also for a sequence, ballot or value that nobody asks for."""
    decoder = _decoder(data)
    asked = _round(decoder)
    node_id, sequence, ballot = _id(decoder, "node_id"), _number(decoder, "sequence"), _ballot(decoder)
    value = _id(decoder, "value")
    if not node_id or not sequence or not ballot.number or bool(value) is not (asked is Round.ACCEPT):
        raise decoder.fail("node id, sequence, ballot or value does not fit the question")
    return Question(asked, node_id, sequence, ballot, value)


def encode_answer(answer: Answer) -> bytes:
    encoder = Encoder()
    encoder.string(answer.voter)
    encoder.i8(answer.round)
    _write_ballot(encoder, answer.ballot)
    encoder.i8(answer.verdict)
    encoder.i64(answer.held.sequence)
    _write_ballot(encoder, answer.held.promised)
    _write_ballot(encoder, answer.held.accepted)
    encoder.string(answer.held.value)
    return bytes(encoder.data)


def decode_answer(data: bytes) -> Answer:
    """Raises MalformedPacketError."""
    decoder = _decoder(data)
    voter, asked, ballot = _id(decoder, "voter"), _round(decoder), _ballot(decoder)
    decoder.field = "verdict"
    verdict = decoder.i8()
    if not 0 <= verdict < len(Verdict):
        raise decoder.fail(f"{verdict} is none")
    held = Held(_number(decoder, "sequence"), _ballot(decoder), _ballot(decoder), _id(decoder, "value"))
    return Answer(voter, asked, ballot, Verdict(verdict), held)


def encode_introduction(node_id: str, votes: bool, paired: bool) -> bytes:
    encoder = Encoder()
    encoder.string(node_id)
    encoder.boolean(votes)
    encoder.boolean(paired)
    return bytes(encoder.data)


def decode_introduction(data: bytes, node_id: str) -> Introduction:
    """Raises MalformedPacketError, also for the answer of another node than ``node_id``."""
    decoder = _decoder(data, INTRODUCTION)
    found = _id(decoder, "node_id")
    if found != node_id:
        raise decoder.fail(f"{found} answers for {node_id}")
    return Introduction(False, decoder.boolean(), decoder.boolean())


def _decoder(data: bytes, name: str = ACTIVATION_VOTE) -> Decoder:
    decoder = Decoder(data, name)
    if len(data) > VOTE_SIZE_MAX:
        raise decoder.fail(f"{len(data)} bytes are more than {VOTE_SIZE_MAX}")
    return decoder


def _round(decoder: Decoder) -> Round:
    decoder.field = "round"
    value = decoder.i8()
    if not 0 <= value < len(Round):
        raise decoder.fail(f"{value} is none")
    return Round(value)


def _id(decoder: Decoder, name: str) -> str:
    decoder.field = name
    text = decoder.string()
    if len(text) > COPY_ID_SIZE_MAX:
        raise decoder.fail(f"{len(text)} characters are more than {COPY_ID_SIZE_MAX}")
    return text


def _number(decoder: Decoder, name: str) -> int:
    decoder.field = name
    number = decoder.i64()
    if not 0 <= number <= SEQUENCE_MAX:
        raise decoder.fail(f"{number} is below 0")
    return number


def _write_ballot(encoder: Encoder, ballot: Ballot) -> None:
    encoder.i64(ballot.number)
    encoder.raw(ballot.proposer)


def _ballot(decoder: Decoder) -> Ballot:
    ballot = Ballot(_number(decoder, "ballot"), decoder.raw(PROPOSER_SIZE))
    if ballot.number > BALLOT_MAX:
        raise decoder.fail(f"{ballot.number} is more than {BALLOT_MAX}")
    return ballot
