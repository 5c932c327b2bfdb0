"""Grouping handlers: what LOCAL and REMOTE decide, tell each other, and wait for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.grouping.grouping import KEY_LENGTH_MAX, GroupingHandler, GroupingLink, Pending, Place
from mqbroker.cluster.grouping.local_grouping import KEPT_KIND, LocalGrouping
from mqbroker.cluster.grouping.remote_grouping import RemoteGrouping
from mqbroker.config.model.cluster import GroupingHandlerConfiguration
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.turns.undecided import Undecided
from mqclient.wire.packets import SessionReceive, decode_packet
from mqclient.wire.properties import INT, NULL, STRING, TypedValue
from tests.unit.cluster.flow_support import Network, reset
from tests.unit.messaging.cluster_support import Node
from tests.unit.mqclient.wire.vectors import VECTORS, load

TIMEOUT = 5.0
LOCAL = "00000000-0000-11ee-8000-00000000aaaa"


def configuration(local: bool, **more: Any) -> GroupingHandlerConfiguration:
    return GroupingHandlerConfiguration("g", local, **more)


def headers(key: str, value: str, *, answer: str | None = None, distance: int = 0) -> dict[str, TypedValue]:
    found: dict[str, TypedValue] = {
        "_JBM_ProposalGroupId": (STRING, key),
        "_JBM_ProposalValue": (STRING, value),
        "_AMQ_Distance": (INT, distance),
    }
    if answer is not None:
        found["_JBM_ProposalAltValue"] = (STRING, answer)
    return found


class Broker:
    """A broker with a grouping handler, and a queue ``q`` of its own and of another one."""

    def __init__(self, local: bool, kept: Mapping[str, str] | None = None, **more: Any) -> None:
        self.node, self.other = Node(1), Node(2)
        self.queue = self.node.queue("q")
        self.binding = self.node.learn(self.other, self.other.queue("q"), consumers=1)
        self.here, self.there = f"q{self.node.node_id}", f"q{self.other.node_id}"
        self.told: list[tuple[str, Mapping[str, TypedValue]]] = []
        self.warnings: list[str] = []
        place = Place(self.node.core, self.node.node_id, self._tell, self.warnings.append)
        self.handler: GroupingHandler = (
            LocalGrouping(configuration(True, **more), place, kept or {}) if local else RemoteGrouping(configuration(False, **more), place)
        )
        self.node.core.routing.grouping = self.handler
        self.woken: list[str] = []

    def _tell(self, kind: str, properties: Mapping[str, TypedValue]) -> None:
        self.told.append((kind, properties))

    def take(self) -> list[tuple[Any, ...]]:
        """(kind, key, value, alternative, distance) of what was told since the last call."""
        found, self.told = self.told, []
        return [
            (
                kind,
                *(each.get(f"_JBM_Proposal{name}", (NULL, None))[1] for name in ("GroupId", "Value", "AltValue")),
                each["_AMQ_Distance"][1],
            )
            for kind, each in found
        ]

    def receive(self, kind: str, key: str, value: str, **more: Any) -> None:
        self.handler.told(kind, headers(key, value, **more), LOCAL)

    def decide(self, group: str = "a", proposal: str | None = None) -> str | None:
        """The decision; None while it has to be waited for."""
        found = self.handler.decide(f"{group}.q", lambda: proposal or self.there)
        if isinstance(found, Pending):
            found.waiting.append(lambda: self.woken.append(group))
            return None
        return found

    def advance(self, seconds: float) -> None:
        self.node.clock.advance(seconds)

    def send(self, group: str, *, wait: bool = True) -> None:
        message = self.node.message(properties={"_AMQ_GROUP_ID": (STRING, group)})
        messaging = self.node.messaging
        messaging.sending.send(message, "q", None, 1, self.node.context, may_wait=wait)
        self.node.turn()

    @property
    def waiting_there(self) -> int:
        return self.binding.store_and_forward.message_count

    def leave(self) -> None:
        """The other broker leaves."""
        self.node.core.routing.unbind_remote(self.binding)
        self.handler.notified("BINDING_REMOVED", {"_AMQ_ClusterName": (STRING, self.there)})

    def come_back(self) -> None:
        self.node.core.routing.bind_remote(self.binding)
        self.handler.notified("BINDING_ADDED", {"_AMQ_ClusterName": (STRING, self.there)})

    def settings(self) -> list[tuple[Any, ...]]:
        return [entry for batch in self.node.store.log for entry in batch if KEPT_KIND in entry]


class RoutingTests(SynchronousTestCase):
    def test_messages_of_a_group_follow_the_decision(self) -> None:
        broker = Broker(True)
        for _ in range(3):
            broker.send("a")
        self.assertEqual((broker.waiting_there, broker.queue.message_count), (3, 0))
        broker.handler.decide("b.q", lambda: broker.here)
        broker.send("b")
        self.assertEqual((broker.waiting_there, broker.queue.message_count), (3, 1))

    def test_they_wait_for_a_broker_that_is_down(self) -> None:
        broker = Broker(True)
        broker.send("a")
        broker.binding.connected = False
        broker.send("a")
        broker.send("new")
        self.assertEqual((broker.waiting_there, broker.queue.message_count), (2, 1))

    def test_what_may_not_wait_goes_where_it_is_proposed(self) -> None:
        broker = Broker(False)
        self.assertRaises(Undecided, broker.send, "a")
        self.assertEqual((broker.waiting_there, broker.queue.message_count), (0, 0))
        broker.send("a", wait=False)
        self.assertEqual((broker.waiting_there, broker.handler.messages_ungrouped), (1, 1))

    def test_temporary_queues_and_very_long_ids_need_no_decision(self) -> None:
        broker = Broker(False)
        broker.node.queue("own", temporary=True, durable=False)
        message = broker.node.message(address="own", properties={"_AMQ_GROUP_ID": (STRING, "a")})
        broker.node.messaging.sending.send(message, "own", None, 1, broker.node.context, may_wait=True)
        broker.send("x" * KEY_LENGTH_MAX)
        self.assertEqual(broker.take(), [])
        self.assertIn("characters", broker.warnings[0])

    def test_a_queue_whose_filter_refuses_the_message_does_not_get_it(self) -> None:
        broker = Broker(True)
        broker.send("a")
        broker.node.messaging.administration.update_queue(broker.queue, filter_string="colour = 'red'")
        broker.handler.decide("b.q", lambda: broker.here)
        broker.send("b")
        self.assertEqual((broker.waiting_there, broker.queue.message_count), (2, 0))


class LinkTests(SynchronousTestCase):
    def test_notifications_reach_the_handler(self) -> None:
        network, broker = Network(), Broker(False)
        flow = network.flow()
        flow._grouping = GroupingLink(broker.handler, LOCAL)
        flow.begin()
        flow.handle({"_AMQ_NotifType": (STRING, "PROPOSAL_RESPONSE"), **headers("early.q", broker.here)})
        flow.handle(reset())
        flow.handle({"_AMQ_NotifType": (STRING, "PROPOSAL_RESPONSE"), **headers("a.q", broker.here)})
        self.assertEqual((broker.handler.decisions, network.refused), (1, []))
        for bad in (
            {**headers("a.q", "v"), "_AMQ_Distance": (NULL, None)},
            {**headers("", "v")},
            {**headers("a.q", "v" * (KEY_LENGTH_MAX + 1))},
            {**headers("a.q", "v"), "_JBM_ProposalAltValue": (INT, 1)},
        ):
            flow.handle({"_AMQ_NotifType": (STRING, "PROPOSAL_RESPONSE"), **bad})
        self.assertEqual((broker.handler.decisions, len(network.refused)), (1, 4))

    def test_without_a_handler_the_reason_is_told(self) -> None:
        network = Network()
        flow = network.flow()
        flow.begin()
        flow.handle(reset())
        flow.handle({"_AMQ_NotifType": (STRING, "PROPOSAL"), **headers("a.q", "v")})
        self.assertIn("needs a grouping-handler", network.refused[0])


class RecordedTests(SynchronousTestCase):
    """Two real brokers: B proposes, A has the LOCAL handler and accepts."""

    def recorded(self) -> dict[str, list[dict[str, TypedValue]]]:
        found: dict[str, list[dict[str, TypedValue]]] = {}
        for connection in load(VECTORS / "cluster-2.44.0" / "cluster-grouping.json")["connections"]:
            for entry in connection["frames"]:
                if entry["type"] != SessionReceive.TYPE or "PROPOSAL".encode("utf-16-le").hex() not in entry["hex"]:
                    continue
                packet = decode_packet(entry["type"], bytes.fromhex(entry["hex"])[13:], 136)
                assert isinstance(packet, SessionReceive)
                properties = Message.received(packet.message, 1).decoded().properties
                kind = properties.pop("_AMQ_NotifType")[1]
                del properties["_AMQ_NotifTimestamp"]
                found.setdefault(str(kind), []).append(properties)
        return found

    def test_the_local_side(self) -> None:
        recorded = self.recorded()
        self.assertEqual(len(recorded["PROPOSAL"]), 2)
        broker = Broker(True)
        for properties in recorded["PROPOSAL"]:
            broker.handler.told("PROPOSAL", properties, LOCAL)
        self.assertEqual([each for _, each in broker.told], recorded["PROPOSAL_RESPONSE"])

    def test_the_remote_side(self) -> None:
        recorded = self.recorded()
        broker = Broker(False)
        for properties in recorded["PROPOSAL"]:
            key, value = (str(properties[f"_JBM_Proposal{name}"][1]) for name in ("GroupId", "Value"))
            broker.node.core.routing._remotes[value] = broker.binding
            self.assertIsInstance(broker.handler.decide(key, lambda value=value: value), Pending)  # type: ignore[misc]
        self.assertEqual([each for _, each in broker.told], recorded["PROPOSAL"])
        for properties in recorded["PROPOSAL_RESPONSE"]:
            broker.handler.told("PROPOSAL_RESPONSE", properties, LOCAL)
        for properties in recorded["PROPOSAL"]:
            found = broker.handler.decide(str(properties["_JBM_ProposalGroupId"][1]), lambda: None)
            self.assertEqual(found, properties["_JBM_ProposalValue"][1])
