"""Queues and topics that only administrators may create."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.definitions.auto_creation import AutoCreation
from mqbroker.imq.definitions.registrar import HomeRegistrar
from mqbroker.messaging.administration.registrar import AddressDefinition, Change
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST
from mqclient.errors import AddressDoesNotExistError
from tests.support.broker import World


def created(name: str, *types: int, auto_created: bool = True) -> Change:
    return Change("create", AddressDefinition(name, frozenset(types), auto_created))


class AutoCreationTests(SynchronousTestCase):
    def refused(self, allowed: AutoCreation, change: Change) -> str:
        return str(self.assertRaises(AddressDoesNotExistError, allowed.check, change))

    def test_each_kind_is_for_itself(self) -> None:
        no_queues, no_topics = AutoCreation(queues=False), AutoCreation(topics=False)
        no_queues.check(created("a", MULTICAST))
        no_topics.check(created("a", ANYCAST))
        self.assertIn("a: imq.autocreate.queue is false", self.refused(no_queues, created("a", ANYCAST)))
        self.assertIn("a: imq.autocreate.topic is false", self.refused(no_topics, created("a", ANYCAST, MULTICAST)))

    def test_administrators_may_create_and_delete(self) -> None:
        nothing = AutoCreation(queues=False, topics=False)
        nothing.check(created("a", ANYCAST, MULTICAST, auto_created=False))
        nothing.check(Change("delete", AddressDefinition("a", frozenset((ANYCAST,)), True)))

    def test_a_client_is_told(self) -> None:
        registrar = HomeRegistrar(AutoCreation(queues=False))
        session = World(registrar=registrar).peer().open(name="s")
        session.publish(b"1", address="orders", reply=True, number=3)
        [answer] = [packet for _, packet in session.peer.read()]
        self.assertIn("imq.autocreate.queue is false", getattr(answer, "message", ""))
