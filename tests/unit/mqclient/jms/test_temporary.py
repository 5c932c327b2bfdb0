"""Temporary destinations: what is made on the broker, and when they may go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.jms.exceptions import IllegalStateException, InvalidDestinationException
from mqclient.jms.temporary import NEVER, Temporaries


class Played:
    """The lookup of a session, on a broker that answers what the test says."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.exists = True
        self.consumers = 0
        self.queues: tuple[str, ...] = ("own",)

    def create_temporary_queue(self, *arguments: Any) -> None:
        self.calls.append(arguments)

    def delete_queue(self, name: str) -> None:
        self.calls.append(("delete", name))

    def queue(self, name: str) -> Any:
        return SimpleNamespace(exists=self.exists, consumer_count=self.consumers)

    def address(self, name: str) -> Any:
        return SimpleNamespace(exists=self.exists, queue_names=self.queues)


class TemporaryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.lookup: Any = Played()
        self.names: set[str] = set()
        self.temporaries = Temporaries(self.lookup, self.names, lambda: "uuid", prefixed=False)

    def test_a_temporary_queue_is_made_at_once_and_belongs_to_its_connection(self) -> None:
        queue = self.temporaries.create_queue()
        self.assertEqual((queue.name, self.names), ("uuid", {"uuid"}))
        self.assertEqual(self.lookup.calls, [("uuid", 1, None)])

    def test_the_own_queue_of_a_temporary_topic_takes_no_message(self) -> None:
        self.temporaries.create_topic()
        self.assertEqual(self.lookup.calls, [("uuid", None, NEVER)])

    def test_names_have_the_prefixes_of_old_versions_where_that_is_asked_for(self) -> None:
        temporaries = Temporaries(self.lookup, self.names, lambda: "uuid", prefixed=True)
        self.assertEqual(temporaries.create_queue().name, "jms.tempqueue.uuid")
        self.assertEqual(temporaries.create_topic().name, "jms.temptopic.uuid")

    def test_a_deleted_one_is_gone_from_the_broker_and_from_the_connection(self) -> None:
        for destination in (self.temporaries.create_queue(), self.temporaries.create_topic()):
            destination.delete()
            self.assertEqual((self.lookup.calls[-1], self.names), (("delete", "uuid"), set()))
            self.names.add("uuid")

    def test_one_that_is_in_use_stays(self) -> None:
        queue, topic = self.temporaries.create_queue(), self.temporaries.create_topic()
        self.lookup.consumers, self.lookup.queues = 1, ("own", "subscriber")
        self.assertIn("still has a consumer", str(self.assertRaises(IllegalStateException, queue.delete)))
        self.assertIn("still has subscribers", str(self.assertRaises(IllegalStateException, topic.delete)))
        self.assertEqual(self.names, {"uuid"})

    def test_one_that_is_gone_cannot_be_deleted(self) -> None:
        queue, topic = self.temporaries.create_queue(), self.temporaries.create_topic()
        self.lookup.exists = False
        for destination in (queue, topic):
            self.assertIn("no longer exists", str(self.assertRaises(InvalidDestinationException, destination.delete)))
