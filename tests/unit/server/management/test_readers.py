"""Readers as operators see them: management operations, metrics, permissions, scale-down's view of the queue."""

from __future__ import annotations

import json

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration, QueueConfiguration
from mqbroker.messaging.delivery.redistribution import Redistribution
from mqbroker.server.management.registry import ManagementError
from mqbroker.server.observation.figures import BrokerFigures
from mqbroker.server.observation.metrics import render
from mqclient.errors import MQError
from mqclient.wire import packets as wire
from tests.support.broker import World
from tests.unit.messaging.readers.support import Client


class ManagementTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()
        self.session.create_queue("q")
        self.session.create_queue("other")
        self.client = Client(self.world.session())
        for body in (b"1", b"2", b"3"):
            self.session.publish(body)

    def test_readers_are_listed(self) -> None:
        self.client.open()
        found = self.client.reserve(0, messages=2)
        self.client.settle(self.client.read(0, found.until)[0].message_id)
        (row,) = json.loads(self.world.registry.invoke("broker", "listReaders", []))
        settled = row.pop("settled")
        self.assertEqual(
            row,
            {"queue": "q", "address": "q", "name": "r", "epoch": 1, "reserved": found.until, "lag": 2, "durable": True},
        )
        self.assertLess(settled, found.until)
        self.assertEqual(len(json.loads(self.world.registry.invoke("queue.q", "listReaders", []))), 1)
        self.assertEqual(json.loads(self.world.registry.invoke("broker", "listReaders", ["other"])), [])
        self.assertEqual(self.world.registry.attribute("queue.q", "ReaderCount"), 1)
        self.assertEqual(self.world.registry.attribute("queue.other", "ReaderCount"), 0)

    def test_a_reader_is_removed(self) -> None:
        self.client.open()
        self.world.registry.invoke("broker", "removeReader", ["q", "r"])
        self.assertIn("has no reader r", self.client.refused(self.client.reserving(0)))
        self.assertEqual(self.world.queue("q").message_count, 3)
        for parameters in (["q", "r"], ["none", "r"]):
            with self.assertRaises(MQError):
                self.world.registry.invoke("broker", "removeReader", parameters)

    def test_nobody_takes_or_changes_messages(self) -> None:
        self.client.open()
        for operation, parameters in (
            ("removeAllMessages", []),
            ("removeMessages", [None]),
            ("moveMessages", [None, "other"]),
            ("expireMessages", [None]),
            ("sendMessagesToDeadLetterAddress", [None]),
            ("changeMessagesPriority", [None, 9]),
            ("removeMessage", [1003]),
            ("retryMessages", [None]),
        ):
            with self.assertRaises(ManagementError, msg=operation) as caught:
                self.world.registry.invoke("queue.q", operation, parameters)
            self.assertIn("has readers (r)", str(caught.exception))
        self.session.create_queue("beside", "q")
        self.session.publish(b"4", "q::beside")
        with self.assertRaises(ManagementError) as caught:
            self.world.registry.invoke("address.q", "purge", [])
        self.assertIn("queue q has readers (r)", str(caught.exception))
        self.assertEqual(self.world.queue("beside").message_count, 1)
        self.assertEqual(self.world.registry.invoke("queue.q", "countMessages", []), 3)
        self.assertEqual(len(self.world.registry.invoke("queue.q", "listMessages", [None])), 3)

    def test_the_metrics_say_how_far_readers_are(self) -> None:
        self.client.open()
        text = b"".join(render(BrokerFigures(self.world.server, lambda: 0.5, lambda: None))).decode()
        self.assertIn('artemis_reader_lag{broker="localhost",address="q",queue="q",reader="r"} 3', text.replace("3.0", "3"))

    def test_nothing_is_redistributed(self) -> None:
        self.client.open()
        self.assertFalse(Redistribution.wanted(self.world.messaging.redistribution, self.world.queue("q")))


class PermissionTests(SynchronousTestCase):
    def client(self, *permissions: str) -> Client:
        settings = {"#": {permission: frozenset({"nothing"}) for permission in permissions}}
        world = World(Configuration(security_settings={**settings, "q": settings["#"]}))
        world.messaging.administration.create_queue(QueueConfiguration(name="q", routing_type=1))
        return Client(world.session(username="nobody", password="nothing"))

    def test_browse_allows_to_look_and_consume_to_take(self) -> None:
        browser = self.client("browse")
        survey = Client(browser.session, reader=None)
        self.assertEqual(survey.read(0, survey.reserve(0).until or 1), [])
        for packet in (wire.ReaderOpen("q", "r", -1), wire.ReaderSettle("q", "r", 1, 0), wire.ReaderRemove("q", "r")):
            self.assertIn("permission", browser.refused(packet))
        self.assertIn("permission", browser.refused(wire.ReaderReserve("q", "r", 1, 0)))
        consumer = self.client("consume")
        consumer.open()
        self.assertIn("permission", consumer.refused(wire.ReaderRead("q", 0, 10)))
        self.assertIn("permission", consumer.refused(wire.ReaderBody("q", 1, 0, 10)))
