"""Durable subscriptions by the commands of OpenMQ."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.imq.administration.durables import split_subscription
from mqclient.jms.subscriptions import subscription_queue
from tests.unit.imq.administration.support import ImqCase


class NameTests(SynchronousTestCase):
    @given(st.text(max_size=10), st.text(min_size=1, max_size=10))
    def test_names_are_read_as_clients_write_them(self, client_id: str, name: str) -> None:
        self.assertEqual(split_subscription(subscription_queue(client_id or None, name, durable=True)), (client_id, name))


class DurableTests(ImqCase):
    def setUp(self) -> None:
        super().setUp()
        self.ask("createDestination", "t", "news")
        self.ask("createDestination", "q", "orders")
        for name in ("c1.sub", "shared"):
            self.world.messaging.definitions.create_queue(QueueConfiguration(name, "news", 0))
        self.registrar.agreed.clear()

    def test_they_are_listed_with_client_and_topic(self) -> None:
        rows = self.ask("listDurables")
        self.assertEqual(
            [(row["name"], row["clientID"], row["topic"], row["state"]) for row in rows],
            [
                ("shared", "", "news", "INACTIVE"),
                ("sub", "c1", "news", "INACTIVE"),
            ],
        )
        self.world.session(name="s").consume("shared")
        self.assertEqual([row["state"] for row in self.ask("listDurables", "news")], ["ACTIVE", "INACTIVE"])
        self.assertEqual(self.refused("listDurables", "orders"), "Could not locate destination orders")

    def test_one_is_destroyed_through_the_registrar(self) -> None:
        self.ask("destroyDurable", "sub", "c1")
        self.assertEqual(self.agreed(), [("delete", "c1.sub")])
        self.ask("destroyDurable", "shared")
        self.assertEqual(self.ask("listDurables"), [])

    def test_what_is_not_there_or_in_use_is_refused(self) -> None:
        self.assertIn("[c2:sub] - consumer does not exist", self.refused("destroyDurable", "sub", "c2"))
        self.assertIn("[:orders] - consumer does not exist", self.refused("destroyDurable", "orders"))
        self.world.session(name="s").consume("shared")
        self.assertIn("[:shared] - it is in use", self.refused("destroyDurable", "shared"))

    def test_one_loses_its_messages_and_no_other_one_does(self) -> None:
        self.world.session(name="s").publish(b"1", address="news", routing_type=0)
        counts = {row["name"]: row["msgs"] for row in self.ask("listDurables")}
        self.assertEqual(counts, {"shared": 1, "sub": 1})
        self.ask("purgeDurable", "sub", "c1")
        self.assertEqual({row["name"]: row["msgs"] for row in self.ask("listDurables")}, {"shared": 1, "sub": 0})
        self.assertIn("Unable to purge durable subscription [c2:sub] - consumer does not exist", self.refused("purgeDurable", "sub", "c2"))
