"""Destinations by the commands of OpenMQ: created, changed, listed and destroyed through the registrar."""

from __future__ import annotations

import json
from typing import Any

from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.messaging.turns.undecided import Undecided
from mqclient.errors import IllegalStateError
from tests.unit.imq.administration.support import ImqCase


class DestinationCase(ImqCase):
    def row(self, name: str, kind: str | None = None) -> dict[str, Any] | None:
        return next((row for row in self.ask("listDestinations", kind) if row["name"] == name), None)

    def shown(self, kind: str, name: str) -> dict[str, str]:
        return {title: value for group in self.ask("queryDestination", kind, name) for title, value in group}


class CreationTests(DestinationCase):
    def test_a_queue_is_an_anycast_address_with_a_queue(self) -> None:
        self.ask("createDestination", "q", "orders")
        queue = self.world.queue("orders")
        self.assertEqual((queue.definition.address, queue.definition.routing_type, queue.definition.durable), ("orders", 1, True))
        self.assertEqual(self.shown("q", "orders")["Created Administratively"], "true")
        self.assertEqual(self.agreed(), [("create", "orders")])

    def test_a_topic_is_a_multicast_address(self) -> None:
        self.ask("createDestination", "t", "news")
        self.assertEqual(self.world.messaging.core.addresses["news"].routing_types, {0})
        self.assertEqual(self.shown("t", "news")["Destination Type"], "Topic")

    def test_attributes_become_settings_that_members_share(self) -> None:
        self.ask("createDestination", "q", "orders", json.dumps({"maxNumMsgs": "5", "maxNumActiveConsumers": "2"}))
        settings = self.world.messaging.core.settings_of("orders")
        self.assertEqual((settings.max_size_messages, settings.address_full_policy), (5, "FAIL"))
        self.assertEqual(self.world.queue("orders").definition.max_consumers, 2)
        self.assertEqual(self.agreed(), [("update", "orders"), ("create", "orders")])

    def test_one_that_is_there_is_refused_and_nothing_changes(self) -> None:
        self.ask("createDestination", "q", "orders")
        self.registrar.agreed.clear()
        self.assertEqual(
            self.refused("createDestination", "q", "orders", '{"maxNumMsgs": "5"}'),
            "Can not create Destination Q:orders - the destination already exists",
        )
        self.assertEqual(self.agreed(), [])

    def test_bad_requests(self) -> None:
        self.assertEqual(self.refused("createDestination", "x", "a"), "The destination type 'x' is not valid.")
        self.assertEqual(self.refused("createDestination", "q", "a b"), "The destination name 'a b' is not valid")
        self.assertIn("Invalid attribute specified: maxNumMsg", self.refused("createDestination", "q", "a", '{"maxNumMsg": "1"}'))
        self.assertIn("'isLocalOnly' cannot be 'true'", self.refused("createDestination", "q", "a", {"isLocalOnly": "true"}))
        self.assertIn("are not JSON", self.refused("createDestination", "q", "a", "{"))

    def test_a_request_waits_for_each_consent_and_is_done_once(self) -> None:
        self.registrar.slow = True
        request = ("createDestination", "q", "orders", '{"maxNumMsgs": "5"}')
        self.assertRaises(Undecided, self.ask, *request)
        self.registrar.decide()
        self.assertRaises(Undecided, self.ask, *request)
        self.assertEqual(self.agreed(), [("update", "orders")])
        self.registrar.decide()
        self.ask(*request)
        self.assertEqual(self.agreed(), [("update", "orders"), ("create", "orders")])

    def test_a_refusal_of_the_registrar_is_the_answer(self) -> None:
        self.registrar.no = IllegalStateError("the master broker is not there")
        self.assertRaises(IllegalStateError, self.ask, "createDestination", "q", "orders")
        self.assertIsNone(self.row("orders"))


class AutomaticTests(DestinationCase):
    text = (
        "imq.autocreate.destination.maxNumMsgs=3\nimq.autocreate.queue.maxNumActiveConsumers=2\n"
        "imq.autocreate.queue.consumerFlowLimit=7\nimq.autocreate.topic.consumerFlowLimit=8\n"
    )

    def use(self, name: str, kind: int) -> None:
        self.world.messaging.administration.auto_create_for_send(name, kind, None, lambda *permission: None)

    def limits(self, kind: str, name: str) -> list[str]:
        shown = self.shown(kind, name)
        titles = ("Created Administratively", "Max Number of Messages", "Consumer Flow Limit")
        return [shown[title] for title in titles]

    def test_queues_and_topics_have_their_own(self) -> None:
        self.use("work", 1)
        self.use("news", 0)
        self.assertEqual(self.limits("q", "work"), ["false", "3", "7"])
        self.assertEqual(self.shown("q", "work")["Max Number of Active Consumers"], "2")
        self.assertEqual(self.limits("t", "news"), ["false", "3", "8"])
        reader = QueueConfiguration(name="me.reader", address="news", routing_type=0, durable=True)
        self.assertEqual(self.world.messaging.administration.create_queue(reader).definition.max_consumers, -1)

    def test_they_do_not_hold_for_others(self) -> None:
        self.ask("createDestination", "q", "orders")
        self.ask("createDestination", "t", "prices")
        for kind, name in (("q", "orders"), ("t", "prices"), ("q", "mq.sys.dmq")):
            self.assertEqual(self.limits(kind, name), ["true", "unlimited (-1)", "1000"])
        self.assertEqual(self.world.queue("orders").definition.max_consumers, -1)
        self.assertEqual(self.agreed(), [("create", "orders"), ("create", "prices")], "no settings are needed for that")


class ChangeTests(DestinationCase):
    def setUp(self) -> None:
        super().setUp()
        self.ask("createDestination", "q", "orders")
        self.registrar.agreed.clear()

    def test_attributes_are_changed_in_place(self) -> None:
        self.ask("updateDestination", "q", "orders", '{"maxNumMsgs": "7", "limitBehavior": "FLOW_CONTROL"}')
        shown = self.shown("q", "orders")
        self.assertEqual((shown["Max Number of Messages"], shown["Limit Behavior"]), ("7", "FLOW_CONTROL"))
        self.ask("updateDestination", "q", "orders", '{"maxNumMsgs": "-1", "maxNumActiveConsumers": "3"}')
        shown = self.shown("q", "orders")
        self.assertEqual((shown["Max Number of Messages"], shown["Max Number of Active Consumers"]), ("unlimited (-1)", "3"))
        self.assertEqual(self.world.queue("orders").definition.max_consumers, 3)
        self.assertEqual(self.agreed(), [("update", "orders")] * 3)

    def test_the_same_values_again_need_no_consent(self) -> None:
        for _ in range(2):
            self.ask("updateDestination", "q", "orders", '{"useDMQ": "false"}')
        self.assertEqual(self.agreed(), [("update", "orders")])
        self.assertEqual(self.shown("q", "orders")["Use Dead Message Queue"], "false")

    def test_fewer_consumers_than_there_are_is_refused(self) -> None:
        for name in ("one", "two"):
            self.world.session(name=name).consume("orders")
        self.assertIn("has 2 consumers", self.refused("updateDestination", "q", "orders", '{"maxNumActiveConsumers": "1"}'))

    def test_destroyed_it_is_gone_with_its_settings(self) -> None:
        self.ask("updateDestination", "q", "orders", '{"maxNumMsgs": "7"}')
        self.registrar.agreed.clear()
        self.ask("destroyDestination", "q", "orders")
        self.assertIsNone(self.row("orders"))
        self.assertIsNone(self.world.messaging.core.settings.get("orders"))
        changed = [type(each.definition).__name__ for each in self.registrar.agreed]
        self.assertEqual(changed, ["AddressSettingDefinition", "QueueDefinition", "AddressDefinition"])
        self.assertEqual({action for action, _ in self.agreed()}, {"delete"})
        self.assertEqual(self.refused("destroyDestination", "q", "orders"), "Unknown destination orders of type Queue")

    def test_a_name_may_be_a_queue_and_a_topic(self) -> None:
        self.ask("createDestination", "t", "orders")
        self.assertEqual([row["type"] for row in self.ask("listDestinations") if row["name"] == "orders"], ["Queue", "Topic"])
        self.ask("destroyDestination", "q", "orders")
        self.assertEqual([row["type"] for row in self.ask("listDestinations") if row["name"] == "orders"], ["Topic"])

    def test_the_dead_message_queue_stays(self) -> None:
        self.world.messaging.definitions.create_address("mq.sys.dmq", (1,))
        self.assertIn("dead messages go to it", self.refused("destroyDestination", "q", "mq.sys.dmq"))

    def test_messages_are_counted_and_purged(self) -> None:
        session = self.world.peer().open(name="s")
        for body in (b"1", b"2"):
            session.publish(body, address="orders")
        row = self.row("orders", "q")
        assert row is not None
        self.assertEqual((row["msgs"], row["remote"], row["unAck"], row["state"], row["type"]), (2, 4, 0, "RUNNING", "Queue"))
        self.assertGreater(row["avgSize"], 0)
        self.assertIsNone(self.row("orders", "t"))
        self.assertEqual(self.ask("purgeDestination", "q", "orders"), 2)
        self.assertEqual(self.world.queue("orders").message_count, 0)

    def test_what_is_not_there_is_named(self) -> None:
        for request in (
            ("queryDestination", "t", "orders"),
            ("purgeDestination", "t", "orders"),
            ("updateDestination", "t", "orders", "{}"),
        ):
            self.assertEqual(self.refused(*request), "Unknown destination orders of type Topic")
