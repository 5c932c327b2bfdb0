"""``reload cls``: here and at all linked members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.imq.places import Place, parse_places
from mqbroker.imq.administration.reloading import Reloading
from mqbroker.imq.links.requests import Peer
from mqbroker.messaging.event import Event
from mqclient.errors import IllegalStateError, NotConnectedError
from mqclient.management import ManagementError


class Asked:
    """A linked member whose answer the test gives."""

    def __init__(self, name: str) -> None:
        self.node_id = self.name = name
        self.answers: list[tuple[str, Deferred[Any]]] = []

    def ask(self, operation: str, *parameters: Any) -> Deferred[Any]:
        self.answers.append((operation, Deferred()))
        return self.answers[-1][1]


class AskedPeers:
    def __init__(self, *names: str) -> None:
        self.linked: Event[Peer] = Event()
        self.unlinked: Event[Peer] = Event()
        self.peers = {name: Asked(name) for name in names}

    @property
    def by_id(self) -> Mapping[str, Peer]:
        return self.peers

    def at(self, place: str) -> Peer | None:
        return self.peers.get(place)


class ReloadTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.file = "a,b"
        self.changed: list[str] = []
        self.peers = AskedPeers("b:1", "c:1")
        self.reloading = Reloading(("a:1",), self.read, lambda places: self.changed.append(",".join(map(str, places))), self.peers)

    def read(self) -> tuple[Place, ...]:
        if not self.file:
            raise ManagementError("no brokers")
        return parse_places(self.file)

    def test_one_broker_reads_its_files(self) -> None:
        self.reloading.here()
        self.assertEqual((self.changed, self.reloading.brokers), (["a:7676,b:7676"], ("a:7676", "b:7676")))

    def test_files_that_cannot_be_used_change_nothing(self) -> None:
        self.file = ""
        self.assertRaises(ManagementError, self.reloading.here)
        self.assertEqual((self.changed, self.reloading.brokers), ([], ("a:1",)))

    def test_all_members_are_asked_and_waited_for(self) -> None:
        done = Deferred.fromCoroutine(self.reloading.everywhere())
        self.assertEqual(len(self.changed), 1)
        for peer in self.peers.peers.values():
            [(operation, answer)] = peer.answers
            self.assertEqual(operation, "reload")
            self.assertNoResult(done)
            answer.callback(None)
        self.assertIsNone(self.successResultOf(done))

    def test_members_that_could_not_are_named(self) -> None:
        done = Deferred.fromCoroutine(self.reloading.everywhere())
        for peer, error in zip(self.peers.peers.values(), (ManagementError("bad file"), NotConnectedError("lost")), strict=True):
            peer.answers[0][1].errback(error)
        failure = self.failureResultOf(done, IllegalStateError)
        self.assertEqual(str(failure.value), "b:1: bad file; c:1: lost")
