"""The bytes of questions and answers about activation sequences.

Source: ``protocol-spec/``, chapter "Cluster packets".
"""

from __future__ import annotations

from mqbroker.ha.proof.copy_record import COPY_ID_SIZE_MAX, SEQUENCE_MAX
from mqbroker.ha.proof.paxos import Answer, Ballot, Held, Question, Round, Verdict
from mqbroker.ha.proof.ports import Introduction
from mqclient.wire.primitives import Reader, Writer

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
    writer = Writer()
    writer.i8(question.round)
    writer.string(question.node_id)
    writer.i64(question.sequence)
    _write_ballot(writer, question.ballot)
    writer.string(question.value)
    return bytes(writer.data)


def decode_question(data: bytes) -> Question:
    """Raises MalformedPacketError, also for a sequence, ballot or value that nobody asks for."""
    reader = _reader(data)
    asked = _round(reader)
    node_id, sequence, ballot = _id(reader, "node_id"), _number(reader, "sequence"), _ballot(reader)
    value = _id(reader, "value")
    if not node_id or not sequence or not ballot.number or bool(value) is not (asked is Round.ACCEPT):
        raise reader.fail("node id, sequence, ballot or value does not fit the question")
    return Question(asked, node_id, sequence, ballot, value)


def encode_answer(answer: Answer) -> bytes:
    writer = Writer()
    writer.string(answer.voter)
    writer.i8(answer.round)
    _write_ballot(writer, answer.ballot)
    writer.i8(answer.verdict)
    writer.i64(answer.held.sequence)
    _write_ballot(writer, answer.held.promised)
    _write_ballot(writer, answer.held.accepted)
    writer.string(answer.held.value)
    return bytes(writer.data)


def decode_answer(data: bytes) -> Answer:
    """Raises MalformedPacketError."""
    reader = _reader(data)
    voter, asked, ballot = _id(reader, "voter"), _round(reader), _ballot(reader)
    reader.field = "verdict"
    verdict = reader.i8()
    if not 0 <= verdict < len(Verdict):
        raise reader.fail(f"{verdict} is none")
    held = Held(_number(reader, "sequence"), _ballot(reader), _ballot(reader), _id(reader, "value"))
    return Answer(voter, asked, ballot, Verdict(verdict), held)


def encode_introduction(node_id: str, votes: bool, paired: bool) -> bytes:
    writer = Writer()
    writer.string(node_id)
    writer.boolean(votes)
    writer.boolean(paired)
    return bytes(writer.data)


def decode_introduction(data: bytes, node_id: str) -> Introduction:
    """Raises MalformedPacketError, also for the answer of another node than ``node_id``."""
    reader = _reader(data, INTRODUCTION)
    found = _id(reader, "node_id")
    if found != node_id:
        raise reader.fail(f"{found} answers for {node_id}")
    return Introduction(False, reader.boolean(), reader.boolean())


def _reader(data: bytes, name: str = ACTIVATION_VOTE) -> Reader:
    reader = Reader(data, name)
    if len(data) > VOTE_SIZE_MAX:
        raise reader.fail(f"{len(data)} bytes are more than {VOTE_SIZE_MAX}")
    return reader


def _round(reader: Reader) -> Round:
    reader.field = "round"
    value = reader.i8()
    if not 0 <= value < len(Round):
        raise reader.fail(f"{value} is none")
    return Round(value)


def _id(reader: Reader, name: str) -> str:
    reader.field = name
    text = reader.string()
    if len(text) > COPY_ID_SIZE_MAX:
        raise reader.fail(f"{len(text)} characters are more than {COPY_ID_SIZE_MAX}")
    return text


def _number(reader: Reader, name: str) -> int:
    reader.field = name
    number = reader.i64()
    if not 0 <= number <= SEQUENCE_MAX:
        raise reader.fail(f"{number} is below 0")
    return number


def _write_ballot(writer: Writer, ballot: Ballot) -> None:
    writer.i64(ballot.number)
    writer.raw(ballot.proposer)


def _ballot(reader: Reader) -> Ballot:
    ballot = Ballot(_number(reader, "ballot"), reader.raw(PROPOSER_SIZE))
    if ballot.number > BALLOT_MAX:
        raise reader.fail(f"{ballot.number} is more than {BALLOT_MAX}")
    return ballot
