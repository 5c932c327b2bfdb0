"""Activations of brokers whose data have no second copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from mqbroker.ha.proof.vote_codec import ACTIVATION_VOTE, INTRODUCTION, encode_introduction
from mqbroker.ha.proof.voter import Voter

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from mqbroker.messaging.ports import Store
    from mqbroker.server.server import Server
    from mqbroker.server.transport.connection import ServerConnection
    from mqbroker.storage.disk.filesystem import FileSystem
    from mqbroker.storage.settings import StoreSettings

Answers: TypeAlias = "Mapping[str, Callable[[bytes], bytes | Deferred[bytes]]]"
"""The answers of a voter to questions, by the names of their handlers.  They raise MalformedPacketError and ProtocolError."""


def vote_for_others(server: Server, store: Store, kept: Mapping[tuple[str, str], str], paired: bool = False) -> Answers:
    """An active broker of a cluster votes about the activations of other nodes; ``kept`` are the settings that its store has.

    Without persistence it does not, and says so.  ``paired``: what it promises needs a replica.  Returns what other brokers are answered
    from now on.
    """
    votes = server.configuration.persistence_enabled
    said = encode_introduction(server.node_id, votes, paired)
    answers: dict[str, Callable[[bytes], bytes | Deferred[bytes]]] = {INTRODUCTION: lambda question: said}
    if votes:
        answers[ACTIVATION_VOTE] = Voter(store, server.node_id, kept).answer

    def vote(name: str, connection: ServerConnection, question: bytes) -> bytes | Deferred[bytes]:
        return answers[name](question)

    for name in answers:
        server.cluster_channel.register_vote(name, partial(vote, name))
    return answers


class OneCopy:
    """Base of activations whose data lie in one place.  See :class:`mqbroker.node.activation.Activation`."""

    copies = None

    def files(self, file_system: FileSystem, settings: StoreSettings) -> FileSystem:
        return file_system

    def serve(self, server: Server, store: Store, kept: Mapping[tuple[str, str], str]) -> None:
        if server.cluster is not None:
            vote_for_others(server, store, kept)

    def leave(self) -> None:
        """Nobody is told of it."""

    def hold_back(self) -> None:
        """Nobody is asked to go on."""

    def let_go(self, done: Callable[[], object]) -> None:
        done()
