"""What other brokers are told of queues and consumers, at once and as it changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import DivertConfiguration
from mqbroker.config.model.configuration import Configuration, QueueConfiguration
from mqbroker.messaging.filters.filter import Filter
from mqbroker.messaging.routing.diverts import Divert
from mqbroker.messaging.routing.duplicates import remembered
from mqbroker.messaging.routing.remote import LoadBalancing, RemoteBinding
from mqbroker.messaging.turns import steps
from mqbroker.server.management.registry import ManagementError
from mqclient.errors import IllegalStateError, QueueDoesNotExistError, SecurityError
from mqclient.wire import packets as wire
from mqclient.wire.bodies import encode_text
from mqclient.wire.message import CoreMessage, decode_message, encode_message
from mqclient.wire.properties import BOOLEAN, INT, LONG, NULL, STRING, TypedValue
from tests.support.broker import Session, World

FILTER = (
    "(_AMQ_Binding_Type <> 2 OR _AMQ_Binding_Type IS NULL) AND _AMQ_NotifType IN ('SESSION_CREATED', 'BINDING_ADDED', 'BINDING_REMOVED', "
    "'BINDING_UPDATED', 'CONSUMER_CREATED', 'CONSUMER_CLOSED', 'PROPOSAL', 'PROPOSAL_RESPONSE', 'UNPROPOSAL') AND _AMQ_Distance < 1 AND "
    "(((_AMQ_Address NOT LIKE '$.artemis.internal.sf.%') AND (_AMQ_Address NOT LIKE 'activemq.management%'))) AND "
    "(_AMQ_NotifType = 'SESSION_CREATED' OR (_AMQ_Address NOT LIKE 'activemq.notifications%'))"
)
"""As a real broker writes it."""


class InfoTestCase(SynchronousTestCase):
    FILTER = FILTER

    def setUp(self) -> None:
        self.world = World(Configuration(security_enabled=False))
        self.session = self.world.peer().open(pre_acknowledge=True)
        self.session.ok(wire.CreateQueueV2("activemq.notifications", "notif.1", self.FILTER, durable=False, temporary=True, routing_type=0))
        self.session.consume("notif.1")

    def request(self, operation: str, *parameters: object, session: Session | None = None) -> None:
        properties: dict[str, TypedValue] = {"_AMQ_ResourceName": (STRING, "broker"), "_AMQ_OperationName": (STRING, operation)}
        content = CoreMessage(
            address="activemq.management",
            durable=False,
            properties=properties,
            body=encode_text(json.dumps(parameters, ensure_ascii=False)),
        )
        (session or self.session).send(wire.SessionSend(encode_message(content), False, 0))

    def told(self) -> list[CoreMessage]:
        return [decode_message(packet.message) for packet in self.session.received()]

    def short(self, message: CoreMessage) -> tuple[object, ...]:
        """Kind, queue, and filter of what was told."""
        values = {name: value for name, (_, value) in message.properties.items()}
        if "_AMQ_NotifType" not in values:
            return (next(iter(values)),)
        return (
            values["_AMQ_NotifType"],
            str(values.get("_AMQ_ClusterName")).removesuffix(self.world.server.node_id),
            values.get("_AMQ_FilterString"),
        )

    def shorts(self) -> list[tuple[object, ...]]:
        return [self.short(message) for message in self.told()]


class QueueInfoTests(InfoTestCase):
    def test_a_snapshot(self) -> None:
        world, node_id = self.world, self.world.server.node_id
        client = world.peer().open()
        client.create_queue("orders")
        client.create_queue("eu", "news", routing_type=0, filter_string="region = 'eu'")
        client.consume("orders", 0, filter="a = 1")
        client.consume("orders", 1)
        client.consume("orders", 2, filter="a = 1")
        self.told()
        self.request("sendQueueInfoToQueue", "notif.1", "")
        told = self.told()
        self.assertEqual(
            [self.short(message) for message in told],
            [
                ("_AMQ_RESET_QUEUE_DATA",),
                ("BINDING_ADDED", "orders", None),
                ("CONSUMER_CREATED", "orders", None),
                ("CONSUMER_CREATED", "orders", "a = 1"),
                ("CONSUMER_CREATED", "orders", "a = 1"),
                ("BINDING_ADDED", "eu", "region = 'eu'"),
                ("_AMQ_RESET_QUEUE_DATA_COMPLETE",),
            ],
        )
        for message in told:
            self.assertEqual((message.address, message.type, message.durable, message.priority), ("notif.1", 0, False, 0))
            self.assertEqual(message.body, bytes(4))
        self.assertEqual((told[0].timestamp, told[0].properties), (0, {"_AMQ_RESET_QUEUE_DATA": (BOOLEAN, True)}))
        now = world.clock.wall_ms()
        self.assertEqual(
            told[1].properties,
            {
                "_AMQ_NotifType": (STRING, "BINDING_ADDED"),
                "_AMQ_NotifTimestamp": (LONG, now),
                "_AMQ_Address": (STRING, "orders"),
                "_AMQ_ClusterName": (STRING, f"orders{node_id}"),
                "_AMQ_RoutingName": (STRING, "orders"),
                "_AMQ_Binding_ID": (LONG, world.queue("orders").queue_id),
                "_AMQ_FilterString": (NULL, None),
                "_AMQ_Distance": (INT, 0),
            },
        )
        self.assertEqual(
            told[2].properties,
            {
                "_AMQ_NotifType": (STRING, "CONSUMER_CREATED"),
                "_AMQ_NotifTimestamp": (LONG, now),
                "_AMQ_Address": (STRING, "orders"),
                "_AMQ_ClusterName": (STRING, f"orders{node_id}"),
                "_AMQ_RoutingName": (STRING, "orders"),
                "_AMQ_Distance": (INT, 0),
            },
        )

    def test_routing_names(self) -> None:
        client = self.world.peer().open()
        client.create_queue("q1", "a")
        client.create_queue("q2", "b", routing_type=0)
        names = [message.properties["_AMQ_RoutingName"][1] for message in self.told() if "_AMQ_RoutingName" in message.properties]
        self.assertEqual(names, ["a", "q2"])

    def test_a_changed_filter_is_told(self) -> None:
        self.world.peer().open().create_queue("q")
        self.told()
        administration = self.world.messaging.administration
        administration.update_queue(self.world.queue("q"), filter_string="a = 1")
        administration.update_queue(self.world.queue("q"), filter_string="a = 1", max_consumers=5)
        administration.update_queue(self.world.queue("q"), filter_string=None)
        self.world.clock.advance(0)
        told = [{name: value for name, value in message.properties.items() if "Notif" not in name} for message in self.told()]
        common = {"_AMQ_ClusterName": (STRING, f"q{self.world.server.node_id}"), "_AMQ_Distance": (INT, 0), "_AMQ_Address": (STRING, "q")}
        self.assertEqual(told, [{**common, "_AMQ_FilterString": (STRING, "a = 1")}, common])

    def test_a_consumer_by_its_qualified_name(self) -> None:
        client = self.world.peer().open()
        client.create_queue("q", "a")
        client.consume("a::q")
        client.ok(wire.ConsumerClose(0))
        addresses = [
            message.properties["_AMQ_Address"][1] for message in self.told() if "CONSUMER" in str(message.properties["_AMQ_NotifType"][1])
        ]
        self.assertEqual(addresses, ["a::q", "a"])

    def test_consumers_of_a_deleted_queue_are_told_first_and_once(self) -> None:
        client = self.world.peer().open()
        client.create_queue("q")
        client.consume()
        self.world.messaging.administration.delete_queue(self.world.queue("q"), remove_consumers=True)
        client.ok(wire.ConsumerClose(0))
        client.ok(wire.SessionClose())
        kinds = [entry[0] for entry in self.shorts() if not str(entry[0]).startswith("SESSION")]
        self.assertEqual(kinds, ["BINDING_ADDED", "CONSUMER_CREATED", "CONSUMER_CLOSED", "BINDING_REMOVED"])


class Follower:
    """Keeps the books of another broker by what it is told, as strictly as it does."""

    def __init__(self) -> None:
        self.bindings: dict[str, dict[str | None, int]] = {}
        self.accepting = False
        self.complete = 0

    def take(self, message: CoreMessage) -> None:
        values: Mapping[str, Any] = {name: value for name, (_, value) in message.properties.items()}
        if "_AMQ_RESET_QUEUE_DATA" in values:
            self.accepting, self.bindings = True, {}
            return
        if "_AMQ_RESET_QUEUE_DATA_COMPLETE" in values:
            self.complete += 1
            return
        kind = values["_AMQ_NotifType"]
        if not self.accepting or kind.startswith("SESSION"):
            return
        name, filter = values["_AMQ_ClusterName"], values.get("_AMQ_FilterString")
        if kind == "BINDING_ADDED":
            assert name not in self.bindings
            self.bindings[name] = {}
        elif kind == "BINDING_REMOVED":
            del self.bindings[name]
        else:
            consumers = self.bindings[name]
            consumers[filter] = consumers.get(filter, 0) + (1 if kind == "CONSUMER_CREATED" else -1)
            assert consumers[filter] >= 0
            if not consumers[filter]:
                del consumers[filter]


class SnapshotInTurnsTests(InfoTestCase):
    """Very many queues: the snapshot takes many turns, and everything changes meanwhile."""

    QUEUES = 250

    def test_what_changes_meanwhile_comes_afterwards(self) -> None:
        self.patch(steps, "SCANNED_MAX", 100)
        world = self.world
        client = world.peer().open()
        administration = world.messaging.administration
        for number in range(self.QUEUES):
            administration.create_queue(QueueConfiguration(f"q{number}", routing_type=1))
        client.consume("q0", 0)
        client.consume(f"q{self.QUEUES - 1}", 1, filter="a = 1")
        world.clock.advance(0)
        self.told()
        observed: list[str] = []
        world.server.notifications.told.subscribe(lambda kind, headers: observed.append(kind))
        self.request("sendQueueInfoToQueue", "notif.1", "")
        follower = Follower()
        self.follow(follower)
        self.assertEqual(follower.complete, 0)
        # In the middle of it: consumers and queues that were told already and others that were not.
        client.send(wire.ConsumerClose(0))
        client.send(wire.ConsumerClose(1))
        client.consume("q1", 2)
        client.consume(f"q{self.QUEUES - 2}", 3)
        administration.delete_queue(world.queue("q2"))
        administration.delete_queue(world.queue(f"q{self.QUEUES - 3}"))
        administration.create_queue(QueueConfiguration("new", routing_type=1))
        self.assertEqual(observed[:2], ["CONSUMER_CLOSED", "CONSUMER_CLOSED"])
        self.follow(follower)
        self.assertEqual(follower.complete, 0)
        turns = 0
        while not follower.complete:
            world.clock.advance(0)
            self.follow(follower)
            turns += 1
            self.assertLess(turns, 1000)
        self.follow(follower)
        node_id = world.server.node_id
        expected: dict[str, dict[str | None, int]] = {
            f"{name}{node_id}": {} for name, queue in world.messaging.core.queues.items() if not name.startswith("notif")
        }
        expected[f"q1{node_id}"] = expected[f"q{self.QUEUES - 2}{node_id}"] = {None: 1}
        self.assertEqual(follower.bindings, expected)

    def test_a_queue_that_is_not_on_the_disk_yet_is_told_of_afterwards(self) -> None:
        world, store, follower = self.world, self.world.store, Follower()
        node_id = world.server.node_id
        administration = world.messaging.administration
        for name in ("kept", "gone", "made again"):
            administration.create_queue(QueueConfiguration(name, routing_type=1))
        client = world.peer().open()
        client.consume("kept", 0)
        client.consume("made again", 1)
        self.told()
        store.held = True
        administration.create_queue(QueueConfiguration("new", routing_type=1))
        stored = store.ticket()
        administration.create_queue(QueueConfiguration("short", routing_type=1, durable=False, temporary=True))
        for name in ("gone", "made again"):
            administration.delete_queue(world.queue(name), remove_consumers=True)
        administration.create_queue(QueueConfiguration("made again", routing_type=1, durable=False, temporary=True))
        client.send(wire.ConsumerClose(0))
        self.request("sendQueueInfoToQueue", "notif.1", "")
        self.follow(follower)
        before: dict[str, dict[str | None, int]] = {"kept": {None: 1}, "gone": {}, "made again": {None: 1}}
        self.assertEqual(follower.bindings, {f"{name}{node_id}": consumers for name, consumers in before.items()})
        self.assertEqual(follower.complete, 1)
        store.sync(stored)
        world.clock.advance(0)
        self.follow(follower)
        self.assertEqual(follower.bindings, {f"{name}{node_id}": {} for name in ("kept", "new", "short", "made again")})

    def test_several_at_a_time(self) -> None:
        followers = [Follower(), Follower()]
        self.world.peer().open().create_queue("q")
        self.told()
        self.request("sendQueueInfoToQueue", "notif.1", "")
        self.follow(followers[0])
        self.request("sendQueueInfoToQueue", "notif.1", "")
        self.follow(followers[0])
        self.assertEqual((followers[0].complete, len(followers[0].bindings)), (2, 1))

    def follow(self, follower: Follower) -> None:
        for message in self.told():
            follower.take(message)


class DuplicateIdTests(InfoTestCase):
    def test_ids_of_another_broker_are_known_then(self) -> None:
        self.world.peer().open().create_queue("q")
        self.request("updateDuplicateIdCache", "q", ["s\0d\0", [1, -1, 255], "x" * 1000])
        cache = self.world.messaging.core.known_duplicate_ids("q")
        assert cache is not None
        self.assertEqual(
            [known in cache for known in (b"s\0d\0", b"\x01\xff\xff", remembered(b"x" * 1000), b"y")], [True, True, True, False]
        )
        client = self.world.peer().open()
        client.publish(properties={"_AMQ_DUPL_ID": (STRING, "sd")}, reply=True)
        self.world.clock.advance(0)
        self.assertEqual(self.world.queue("q").message_count, 0)

    def test_many_are_stored_in_turns(self) -> None:
        self.world.peer().open().create_queue("q")
        self.request("updateDuplicateIdCache", "q", [f"{number}" for number in range(12_000)])
        cache = self.world.messaging.core.known_duplicate_ids("q")
        assert cache is not None
        self.assertLess(len(cache), 12_000)
        self.world.clock.advance(0.1)
        self.assertEqual(len(cache), 12_000)

    def test_an_address_that_is_made_anew_meanwhile_knows_the_rest(self) -> None:
        session = self.world.peer().open()
        session.create_queue("q")
        self.request("updateDuplicateIdCache", "q", [f"{number}" for number in range(12_000)])
        session.ok(wire.DeleteQueue("q"))
        session.create_queue("q")
        session.publish(properties={"_AMQ_DUPL_ID": (STRING, "new")})
        self.world.clock.advance(0.1)
        cache = self.world.messaging.core.known_duplicate_ids("q")
        assert cache is not None
        self.assertIn(b"11999", cache)

    def test_what_cannot_be_read_is_refused(self) -> None:
        invoke = self.world.registry.invoke
        for ids in ("x", [None], [["x"]], [{}, 5]):
            self.assertRaises(ManagementError, invoke, "broker", "updateDuplicateIdCache", ["q", ids])
        self.assertRaises(IllegalStateError, invoke, "broker", "updateDuplicateIdCache", ["q" * 2000, []])
        self.assertRaises(QueueDoesNotExistError, invoke, "broker", "sendQueueInfoToQueue", ["nothing", ""])


class PermissionTests(SynchronousTestCase):
    def test_only_who_may_manage_is_served(self) -> None:
        world = World(Configuration())
        for operation, parameters in (("sendQueueInfoToQueue", ["n", ""]), ("updateDuplicateIdCache", ["n", ["x"]])):
            if "n" not in world.messaging.core.queues:
                world.messaging.administration.create_queue(QueueConfiguration("n"))
            session = world.peer().open(username="nobody", password="nothing")
            properties: dict[str, TypedValue] = {"_AMQ_ResourceName": (STRING, "broker"), "_AMQ_OperationName": (STRING, operation)}
            content = CoreMessage(address="activemq.management", properties=properties, body=encode_text(json.dumps(parameters)))
            self.assertEqual(session.error(wire.SessionSend(encode_message(content), True, -2)), SecurityError.code)
        self.assertEqual(world.queue("n").message_count, 0)
        self.assertIsNone(world.messaging.core.known_duplicate_ids("n"))


class ObserverTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World(Configuration(security_enabled=False))
        self.notifications = self.world.server.notifications
        self.seen: list[str] = []

    def test_they_are_told_before_and_without_listeners(self) -> None:
        self.notifications.told.subscribe(lambda kind, headers: self.seen.append(kind))
        self.world.peer().open().create_queue("q")
        self.notifications.part_changed("BRIDGE_STARTED", "b")
        self.assertEqual(self.seen, ["SESSION_CREATED", "BINDING_ADDED", "BRIDGE_STARTED"])

    def test_what_an_observer_sends_comes_after_what_it_was_told(self) -> None:
        def first(kind: str, headers: Mapping[str, TypedValue]) -> None:
            self.seen.append(f"1 {kind}")
            if kind == "A":
                self.notifications.send("B", {})

        self.notifications.told.subscribe(first)
        self.notifications.told.subscribe(lambda kind, headers: self.seen.append(f"2 {kind}"))
        self.notifications.send("A", {})
        self.assertEqual(self.seen, ["1 A", "2 A", "1 B", "2 B"])

    def test_one_that_fails_harms_nobody(self) -> None:
        def failing(kind: str, headers: Mapping[str, TypedValue]) -> None:
            raise ValueError(kind)

        self.notifications.told.subscribe(failing)
        self.notifications.told.subscribe(lambda kind, headers: self.seen.append(kind))
        self.notifications.send("A", {})
        self.assertEqual(self.seen, ["A"])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_a_stopped_broker_tells_nothing(self) -> None:
        self.notifications.told.subscribe(lambda kind, headers: self.seen.append(kind))
        self.world.server.stop()
        self.notifications.send("A", {})
        self.assertEqual(self.seen, [])


class RemoteQueueTests(InfoTestCase):
    FILTER = FILTER.replace("_AMQ_Distance < 1", "_AMQ_Distance < 3")

    def setUp(self) -> None:
        super().setUp()
        self.notifications = self.world.server.notifications
        self.headers: dict[str, TypedValue] = {
            "_AMQ_Binding_ID": (LONG, 77),
            "_AMQ_Address": (STRING, "orders"),
            "_AMQ_ClusterName": (STRING, "orders-of-c"),
            "_AMQ_RoutingName": (STRING, "orders"),
            "_AMQ_Distance": (INT, 2),
        }

    def remote(self, filter: Filter | None = None) -> RemoteBinding:
        """A queue of another broker, two links away."""
        messaging = self.world.messaging
        queue = messaging.administration.create_store_and_forward("$.artemis.internal.sf.my-cluster.c")
        return RemoteBinding("orders", "orders", "orders-of-c", 77, 5, 2, LoadBalancing.ON_DEMAND, queue, messaging.core.routing, filter)

    def one(self) -> dict[str, TypedValue]:
        self.world.clock.advance(0)
        (message,) = self.told()
        return {name: value for name, value in message.properties.items() if not name.startswith("_AMQ_Notif")}

    def test_they_are_told_of_with_the_own_id(self) -> None:
        routing = self.world.messaging.core.routing
        routing.bind_remote(remote := self.remote())
        self.assertEqual(self.one(), {**self.headers, "_AMQ_Binding_Type": (INT, 1)})
        remote.filter = Filter("a = 1")
        routing.unbind_remote(remote)
        self.assertEqual(self.one(), {**self.headers, "_AMQ_FilterString": (STRING, "a = 1")})

    def test_they_are_in_the_snapshot_with_their_consumers(self) -> None:
        self.world.messaging.core.routing.bind_remote(self.remote())
        for text in ("a = 1", None):
            more = {} if text is None else {"_AMQ_FilterString": (STRING, text)}
            self.notifications.send("CONSUMER_CREATED", {**self.headers, **more})
        self.world.clock.advance(0)
        self.told()
        self.request("sendQueueInfoToQueue", "notif.1", "")
        kinds = [self.short(message) for message in self.told()][1:-1]
        expected = [("BINDING_ADDED", None), ("CONSUMER_CREATED", None), ("CONSUMER_CREATED", "a = 1")]
        self.assertEqual(kinds, [(kind, "orders-of-c", text) for kind, text in expected])

    def test_what_is_gone_is_not_in_it(self) -> None:
        routing = self.world.messaging.core.routing
        routing.bind_remote(remote := self.remote())
        self.notifications.send("CONSUMER_CREATED", self.headers)
        routing.unbind_remote(remote)
        self.assertEqual(self.notifications.queue_info.consumers_of("orders-of-c"), {})
        self.world.clock.advance(0)
        self.told()
        self.request("sendQueueInfoToQueue", "notif.1", "")
        self.assertEqual(len(self.told()), 2)

    def test_a_divert_is_not_told_to_other_brokers(self) -> None:
        seen: list[object] = []
        self.notifications.told.subscribe(
            lambda kind, headers: seen.append((kind, headers["_AMQ_Binding_Type"], headers["_AMQ_ClusterName"]))
        )
        self.notifications.divert_added(Divert(DivertConfiguration("d", "orders", ("copies",)), 9))
        self.world.clock.advance(0)
        self.assertEqual(self.told(), [])
        self.assertEqual(seen, [("BINDING_ADDED", (INT, 2), (STRING, f"d{self.world.server.node_id}"))])
