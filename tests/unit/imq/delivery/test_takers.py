"""Whose turn it is among the consumers of one filter."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.delivery import takers as takers_module
from mqbroker.imq.delivery.takers import Takers
from mqbroker.messaging.message.message import Message
from mqclient.wire.message import KEY_GROUP_ID, CoreMessage
from mqclient.wire.properties import STRING


def consumer(priority: int = 0, ready: bool = True) -> Any:
    return SimpleNamespace(priority=priority, ready=ready)


def message(group: str | None = None) -> Message:
    return Message.of(CoreMessage(address="q", properties={} if group is None else {KEY_GROUP_ID: (STRING, group)}))


class TakersTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.takers = Takers()
        self.first, self.second = consumer(), consumer()
        self.takers.set([self.first, self.second])

    def chosen(self, *groups: str | None) -> list[Any]:
        return [self.takers.choose(message(group), False) for group in groups]

    def test_equals_take_turns(self) -> None:
        self.assertEqual(self.chosen(None, None, None), [self.first, self.second, self.first])

    def test_who_is_not_ready_is_passed_over(self) -> None:
        self.first.ready = False
        self.assertEqual(self.chosen(None, None), [self.second, self.second])
        self.second.ready = False
        self.assertEqual((self.chosen(None), self.takers.ready), ([None], False))

    def test_the_highest_priority_comes_first(self) -> None:
        high = consumer(5)
        self.takers.set([high, self.first, self.second])
        self.assertEqual(self.chosen(None, None), [high, high])
        high.ready = False
        self.assertEqual(set(map(id, self.chosen(None, None))), {id(self.first), id(self.second)})

    def test_a_group_stays_with_its_consumer(self) -> None:
        self.assertEqual(self.chosen("x", "y", "x", "y", "x"), [self.first, self.second, self.first, self.second, self.first])
        self.first.ready = False
        self.assertEqual(self.chosen("x", "y"), [None, self.second])

    def test_the_groups_of_one_who_has_gone_are_given_to_others(self) -> None:
        self.chosen("x")
        self.takers.set([self.second])
        self.assertEqual(self.chosen("x"), [self.second])

    def test_an_exclusive_queue_has_one_consumer(self) -> None:
        self.assertIs(self.takers.choose(message(), True), self.first)
        self.first.ready = False
        self.assertIsNone(self.takers.choose(message(), True))
        self.takers.set(())
        self.assertIsNone(self.takers.choose(message(), True))

    def test_so_many_groups_are_remembered(self) -> None:
        self.patch(takers_module, "GROUPS_MAX", 2)
        self.chosen("x", "y", "z")
        self.assertEqual(self.chosen("y", "z", "x"), [self.second, self.first, self.second])
