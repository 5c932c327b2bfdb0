"""This broker as a voter about the activations of other nodes: what it says is durable, and replicated, before it is said (decision 36)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from mqbroker.ha.proof.paxos import Answer, Ballot, Held, Question, consider
from mqbroker.ha.proof.vote_codec import decode_question, encode_answer
from mqclient.errors import ProtocolError

if TYPE_CHECKING:
    from mqbroker.messaging.ports import Store

VOTES_KIND = "activation-votes"
"""The kind of the settings that hold promises, by the node id they are about."""

NODES_MAX = 1000
"""Nodes that a broker keeps promises about: they are kept for good, and who asks may make up node ids."""


class Voter:
    """Answers the questions of proposers, which come as votes of the name :data:`~mqbroker.ha.proof.vote_codec.ACTIVATION_VOTE`.

    Only an active broker is one: ``settings`` are those that its store has kept.
    """

    def __init__(self, store: Store, node_id: str, settings: Mapping[tuple[str, str], str]) -> None:
        self._store = store
        self._node_id = node_id
        self._held = {key: _held(text) for (kind, key), text in settings.items() if kind == VOTES_KIND}

    def answer(self, vote: bytes) -> Deferred[bytes]:
        """The answer, once everything that this broker was told to keep so far is durable.

        Raises MalformedPacketError, and ProtocolError for a node that is one too many.
        """
        question = decode_question(vote)
        answer = encode_answer(self._consider(question))
        given: Deferred[bytes] = Deferred()
        # Also an answer that changes nothing waits: it tells of earlier changes.
        self._store.when_synced(self._store.ticket(), given.callback, answer)
        return given

    def _consider(self, question: Question) -> Answer:
        node_id = question.node_id
        before = self._held.get(node_id)
        if before is None and len(self._held) >= NODES_MAX:
            raise ProtocolError(f"there are votes about {NODES_MAX} nodes: {node_id} is one too many")
        held, verdict = consider(before or Held(), question)
        if held != before:
            self._held[node_id] = held
            batch = self._store.begin()
            batch.put_setting(VOTES_KIND, node_id, _text(held))
            self._store.commit(batch)
        return Answer(self._node_id, question.round, question.ballot, verdict, held)


def _text(held: Held) -> str:
    return json.dumps([held.sequence, *_ballot_texts(held.promised), *_ballot_texts(held.accepted), held.value])


def _ballot_texts(ballot: Ballot) -> tuple[int, str]:
    return ballot.number, ballot.proposer.hex()


def _held(text: str) -> Held:
    sequence, promised, promised_by, accepted, accepted_by, value = json.loads(text)
    return Held(sequence, Ballot(promised, bytes.fromhex(promised_by)), Ballot(accepted, bytes.fromhex(accepted_by)), value)
