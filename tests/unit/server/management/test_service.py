"""Management over messages, and what queue control does to messages."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.server.management.broker_control import BrokerControl
from mqbroker.server.management.queue_control import QueueControl
from mqclient.urls import TransportUri
from mqclient.wire import packets as wire
from mqclient.wire.bodies import decode_text, encode_text
from mqclient.wire.message import (
    KEY_ORIGINAL_QUEUE,
    KEY_SCHEDULED_DELIVERY,
    TYPE_DEFAULT,
    CoreMessage,
    decode_message,
    encode_message,
)
from mqclient.wire.properties import BYTES, INT, LONG, STRING, TypedValue
from tests.unit.server.support import PERMISSIONS, Session, World, message_id

REPLIES = "replies"


class ManagementCase(SynchronousTestCase):
    configuration: Configuration | None = None

    def setUp(self) -> None:
        self.world = World(self.configuration)
        self.session = self.open()
        self.session.ok(wire.CreateQueueV2(REPLIES, REPLIES, durable=False, temporary=True, routing_type=1))
        self.session.consume(REPLIES, 99)
        self.session.create_queue("q")

    def open(self) -> Session:
        return self.world.peer().open(username="admin", password="secret")

    def request(self, properties: dict[str, str], body: bytes, reply_to: str | None = f"queue://{REPLIES}") -> None:
        values: dict[str, TypedValue] = {name: (STRING, value) for name, value in properties.items()}
        if reply_to is not None:
            values["JMSReplyTo"] = (STRING, reply_to)
        content = CoreMessage(address="activemq.management", type=TYPE_DEFAULT, properties=values, body=body)
        self.session.send(wire.SessionSend(encode_message(content), False, 0))

    def reply(self) -> tuple[bool, Any]:
        (packet,) = [entry for entry in self.session.received() if entry.consumer_id == 99]
        content = decode_message(packet.message)
        text = decode_text(content.body)
        succeeded = content.get("_AMQ_OperationSucceeded")
        assert isinstance(succeeded, bool)
        return succeeded, None if text is None else json.loads(text)[0]

    def call(self, resource: str, operation: str, *parameters: Any) -> Any:
        self.request({"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}, encode_text(json.dumps(parameters)))
        succeeded, result = self.reply()
        self.assertTrue(succeeded, result)
        return result

    def fails(self, resource: str, operation: str, *parameters: Any) -> str:
        self.request({"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}, encode_text(json.dumps(parameters)))
        succeeded, result = self.reply()
        self.assertFalse(succeeded, result)
        return str(result)

    def attribute(self, resource: str, name: str) -> Any:
        self.request({"_AMQ_ResourceName": resource, "_AMQ_Attribute": name}, b"")
        succeeded, result = self.reply()
        self.assertTrue(succeeded, result)
        return result

    def fill(self, count: int = 3) -> list[int]:
        for number in range(count):
            self.session.publish(b"%d" % number, properties={"n": (INT, number)})
        return [reference.message.message_id for reference in self.world.queue("q").references]


class RequestTests(ManagementCase):
    def test_attributes_in_either_spelling(self) -> None:
        self.fill()
        self.assertEqual(self.attribute("queue.q", "messageCount"), 3)
        self.assertEqual(self.attribute("queue.q", "MessageCount"), 3)
        self.assertEqual(self.call("queue.q", "getMessageCount"), 3)

    def test_unknown_things_are_told(self) -> None:
        self.assertIn("AMQ229067", self.fails("queue.missing", "countMessages"))
        self.assertIn("AMQ229069", self.fails("queue.q", "noSuchThing", 1, 2))
        self.assertIn("AMQ229069", self.fails("queue.q", "pause", 1, 2, 3))
        self.request({"_AMQ_ResourceName": "queue.q", "_AMQ_Attribute": "nothing"}, b"")
        self.assertEqual(self.reply()[0], False)

    def test_damaged_parameters_are_told(self) -> None:
        target = {"_AMQ_ResourceName": "queue.q", "_AMQ_OperationName": "countMessages"}
        for body in (encode_text("{"), encode_text("7"), b"\x01\x00\x00\x00\x05ab", encode_text("[" * 100_000)):
            self.request(target, body)
            succeeded, text = self.reply()
            self.assertFalse(succeeded)
            self.assertIn("JSON", text)

    def test_a_request_that_names_nothing_is_answered_without_result(self) -> None:
        self.request({}, b"")
        (packet,) = self.session.received()
        self.assertIsNone(decode_message(packet.message).get("_AMQ_OperationSucceeded"))

    def test_without_reply_address_it_is_done_silently(self) -> None:
        self.request({"_AMQ_ResourceName": "queue.q", "_AMQ_OperationName": "pause"}, b"", reply_to=None)
        self.assertTrue(self.world.queue("q").paused)
        self.assertEqual(self.session.received(), [])

    def test_the_reply_belongs_to_the_request(self) -> None:
        self.request({"_AMQ_ResourceName": "queue.q", "_AMQ_OperationName": "pause", "JMSCorrelationID": "mine"}, b"")
        (packet,) = self.session.received()
        self.assertEqual(decode_message(packet.message).get("JMSCorrelationID"), "mine")

    def test_the_management_address_has_no_queue(self) -> None:
        answer = self.session.call(wire.QueueQuery("activemq.management"))
        assert isinstance(answer, wire.QueueQueryResponseV3)
        self.assertEqual((answer.exists, answer.message_count, answer.consumer_count), (True, -1, -1))


class RoleTests(ManagementCase):
    def setUp(self) -> None:
        everything = dict.fromkeys(PERMISSIONS, frozenset({"all"}))
        reader = {**everything, "edit": frozenset[str]()}
        self.configuration = Configuration(
            management_message_rbac=True, security_settings={"#": everything, "mops.queue.q.#": reader, "mops.broker.#": {}}
        )
        super().setUp()

    def test_reading_and_changing_have_permissions_of_their_own(self) -> None:
        self.assertEqual(self.call("queue.q", "countMessages"), 0)
        self.assertEqual(self.attribute("queue.q", "messageCount"), 0)
        self.assertIn("EDIT", self.fails("queue.q", "removeAllMessages"))
        self.assertIn("VIEW", self.fails("broker", "getQueueNames"))
        self.assertIn("EDIT", self.fails("broker", "destroyQueue", "q"))
        self.assertIn("q", self.world.messaging.core.queues)


class ListTests(ManagementCase):
    def listed(self, page: int, size: int, **options: str) -> tuple[list[str], int]:
        found = json.loads(self.call("broker", "listQueues", json.dumps(options) if options else "", page, size))
        return [row["name"] for row in found["data"]], found["count"]

    def test_pages(self) -> None:
        for number in range(5):
            self.session.create_queue(f"list.{number}")
        options = {"field": "name", "operation": "CONTAINS", "value": "list.", "sortField": "name"}
        self.assertEqual(self.listed(1, 2, **options), (["list.0", "list.1"], 5))
        self.assertEqual(self.listed(3, 2, **options), (["list.4"], 5))
        self.assertEqual(self.listed(9, 2, **options), ([], 5))
        self.assertEqual(len(self.listed(1, -1, **options)[0]), 5)
        self.assertEqual(self.listed(1, 1, **{**options, "sortOrder": "desc"})[0], ["list.4"])
        self.assertEqual(self.listed(1, 50)[1], 7)

    def test_addresses_tell_how_many_duplicate_ids_they_know(self) -> None:
        for number in (1, 2, 2):
            self.session.publish(properties={"_AMQ_DUPL_ID": (STRING, str(number))})
        options = json.dumps({"field": "name", "operation": "EQUALS", "value": "q"})
        (row,) = json.loads(self.call("broker", "listAddresses", options, 1, 10))["data"]
        self.assertEqual((row["currentDuplicateIdCacheSize"], row["messageCount"]), ("2", "2"))

    def test_numbers_are_compared_as_numbers(self) -> None:
        self.fill(10)
        self.session.create_queue("empty")
        self.assertEqual(self.listed(1, 50, field="messageCount", operation="GREATER_THAN", value="9")[0], ["q"])

    def test_a_number_is_never_beyond_what_is_no_number(self) -> None:
        for operation in ("LESS_THAN", "GREATER_THAN"):
            options = json.dumps({"field": "consumerCount", "operation": operation, "value": "many"})
            self.assertEqual(json.loads(self.call("broker", "listQueues", options, 1, 10))["count"], 0)

    def test_values_are_texts(self) -> None:
        found = json.loads(self.call("broker", "listConsumers", "", 1, 10))
        (row,) = found["data"]
        self.assertEqual((row["queue"], row["session"], row["messagesInTransit"]), (REPLIES, self.session.name, "0"))


class QueueControlTests(ManagementCase):
    def left(self) -> list[bytes]:
        return [reference.message.decoded().body for reference in self.world.queue("q").references]

    def test_look(self) -> None:
        self.fill()
        self.assertEqual(self.call("queue.q", "countMessages", "n > 0"), 2)
        self.assertEqual(json.loads(self.call("queue.q", "countMessages", "", "n")), {"0": 1, "1": 1, "2": 1})
        self.assertEqual(json.loads(self.call("queue.q", "countMessages", None, None)), {"null": 3})
        self.assertEqual(json.loads(self.call("queue.q", "countMessages", "n > 0", None)), {"null": 2})
        (first,) = json.loads(self.attribute("queue.q", "FirstMessageAsJSON"))
        self.assertEqual((first["n"], json.loads(self.call("queue.q", "peekFirstMessageAsJSON"))), (0, first))
        rows = json.loads(self.call("queue.q", "listMessagesAsJSON", "n = 1"))
        self.assertEqual([(row["n"], row["address"], row["durable"]) for row in rows], [(1, "q", True)])
        self.assertIn("filter", self.fails("queue.q", "countMessages", "n ="))

    def test_long_properties_are_cut(self) -> None:
        properties: dict[str, TypedValue] = {"text": (STRING, "x" * 300), "bytes": (BYTES, b"y" * 300), "short": (BYTES, b"y")}
        self.session.publish(properties=properties)
        (row,) = self.call("queue.q", "listMessages", "")
        self.assertEqual(row["text"], "x" * 256 + ", + 44 more")
        self.assertEqual((row["bytes"], row["short"]), ([121] * 256, [121]))

    def test_remove(self) -> None:
        ids = self.fill()
        self.assertTrue(self.call("queue.q", "removeMessage", ids[0]))
        self.assertFalse(self.call("queue.q", "removeMessage", ids[0]))
        self.assertEqual(self.call("queue.q", "removeMessages", "n = 2"), 1)
        self.assertEqual(self.left(), [b"1"])
        self.assertEqual(self.call("queue.q", "removeAllMessages"), 1)
        self.assertEqual(len(self.world.store.entries("ack")), 3)

    def test_move_and_retry(self) -> None:
        ids = self.fill()
        self.session.create_queue("other")
        self.assertTrue(self.call("queue.q", "moveMessage", ids[1], "other"))
        self.assertIn("AMQ229017", self.fails("queue.q", "moveMessage", ids[0], "missing"))
        self.assertIn("onto itself", self.fails("queue.q", "moveMessages", "", "q"))
        (moved,) = self.world.queue("other").references
        self.assertEqual((moved.message.decoded().body, moved.message.property(KEY_ORIGINAL_QUEUE)), (b"1", "q"))
        self.assertEqual(self.call("queue.other", "retryMessages"), 1)
        self.assertEqual((self.left(), self.world.queue("other").message_count), ([b"0", b"2", b"1"], 0))

    def test_priority(self) -> None:
        ids = self.fill()
        self.assertTrue(self.call("queue.q", "changeMessagePriority", ids[2], 9))
        self.assertEqual(self.left(), [b"2", b"0", b"1"])
        self.assertIn("invalid priority", self.fails("queue.q", "changeMessagePriority", ids[0], 10))

    def test_the_priority_of_a_shared_message_changes_the_order_of_one_queue_only(self) -> None:
        for name in ("one", "two"):
            self.session.create_queue(name, "news", routing_type=0)
        for number in range(3):
            self.session.publish(b"%d" % number, "news", routing_type=0)
        last = [reference.message.message_id for reference in self.world.queue("one").references][-1]
        self.call("queue.one", "changeMessagePriority", last, 9)
        for name, order in (("one", [b"2", b"0", b"1"]), ("two", [b"0", b"1", b"2"])):
            session = self.open()
            session.consume(name)
            self.assertEqual(session.bodies(), order)

    def test_scheduled(self) -> None:
        self.session.publish(b"later", properties={KEY_SCHEDULED_DELIVERY: (LONG, self.world.clock.wall_ms() + 60_000)})
        self.session.publish(b"now")
        queue = self.world.queue("q")
        (waiting,) = queue.scheduled
        self.assertEqual(self.attribute("queue.q", "ScheduledCount"), 1)
        self.assertEqual(json.loads(self.call("queue.q", "peekFirstScheduledMessageAsJSON"))["messageID"], waiting.message.message_id)
        self.call("queue.q", "changeMessagePriority", waiting.message.message_id, 7)
        self.assertEqual(self.left(), [b"now"])
        self.call("queue.q", "deliverScheduledMessage", waiting.message.message_id)
        self.assertEqual((self.left(), queue.scheduled.count), ([b"later", b"now"], 0))
        self.assertEqual(self.call("queue.q", "peekFirstScheduledMessageAsJSON"), "null")

    def test_a_scheduled_message_that_cannot_be_moved_waits_on(self) -> None:
        self.session.create_queue("picky", filter_string="n = 9")
        self.session.publish(b"later", properties={KEY_SCHEDULED_DELIVERY: (LONG, self.world.clock.wall_ms() + 60_000)})
        queue = self.world.queue("q")
        (waiting,) = queue.scheduled
        target = {"_AMQ_ResourceName": "queue.q", "_AMQ_OperationName": "moveMessage"}
        self.request(target, encode_text(json.dumps([waiting.message.message_id, "picky"])))
        self.reply()
        self.assertEqual((self.left(), queue.scheduled.count, self.world.queue("picky").message_count), ([], 1, 0))

    def test_scheduled_messages_that_a_filter_matches(self) -> None:
        for number in range(3):
            properties = {KEY_SCHEDULED_DELIVERY: (LONG, self.world.clock.wall_ms() + 60_000), "n": (INT, number)}
            self.session.publish(b"%d" % number, properties=properties)
        self.call("queue.q", "deliverScheduledMessages", "n = 1")
        self.assertEqual((self.left(), self.world.queue("q").scheduled.count), ([b"1"], 2))
        self.call("queue.q", "deliverScheduledMessages", None)
        self.assertEqual(self.left(), [b"1", b"0", b"2"])
        self.assertEqual(self.world.store.entries("schedule")[-1][-1], 0)

    def test_pause(self) -> None:
        self.session.consume("q")
        self.call("queue.q", "pause")
        self.fill()
        self.assertEqual(self.session.bodies(), [])
        self.assertTrue(self.call("queue.q", "isPaused"))
        self.assertFalse(self.call("queue.q", "isPersistedPause"))
        self.call("queue.q", "pause", True)
        self.assertTrue(self.call("queue.q", "isPersistedPause"))
        self.request({"_AMQ_ResourceName": "queue.q", "_AMQ_OperationName": "resume"}, b"", reply_to=None)
        self.assertEqual(self.session.bodies(), [b"0", b"1", b"2"])

    def test_what_clients_hold_is_listed_and_left_alone(self) -> None:
        self.fill()
        self.session.consume("q")
        self.session.received()
        (entry,) = json.loads(self.call("queue.q", "listDeliveringMessagesAsJSON"))
        self.assertEqual(len(entry["elements"]), 3)
        self.assertEqual(self.call("queue.q", "removeAllMessages"), 0)
        self.assertEqual(self.world.queue("q").message_count, 3)
        (rows,) = self.call("queue.q", "listDeliveringMessages").values()
        self.assertEqual([row["n"] for row in rows], [0, 1, 2])
        self.assertEqual(self.call("queue.q", "countDeliveringMessages", None), 3)
        self.assertEqual(json.loads(self.call("queue.q", "countDeliveringMessages", None, None)), {"null": 3})
        self.assertEqual(self.call("queue.q", "countDeliveringMessages", "n > 0"), 2)
        self.assertEqual(json.loads(self.call("queue.q", "countDeliveringMessages", "n > 0", "n")), {"1": 1, "2": 1})
        self.assertEqual(self.attribute("queue.q", "DurableDeliveringCount"), 3)
        size = self.attribute("queue.q", "DeliveringSize")
        self.assertEqual((size, self.attribute("queue.q", "DurableDeliveringSize")), (self.attribute("queue.q", "PersistentSize"), size))

    def test_what_a_transaction_has_taken_is_in_delivery(self) -> None:
        self.assertEqual(self.attribute("queue.q", "FirstMessageAsJSON"), "[{}]")
        self.assertEqual(self.call("queue.q", "peekFirstMessageAsJSON"), "null")
        self.fill()
        taker = self.world.peer().open(username="admin", password="secret", auto_commit_acks=False)
        taker.consume("q", 7)
        first = taker.received()[0]
        taker.send(wire.Acknowledge(7, message_id(first), False))
        taker.ok(wire.ConsumerClose(7))
        (entry,) = json.loads(self.call("queue.q", "listDeliveringMessagesAsJSON"))
        self.assertEqual([row["n"] for row in entry["elements"]], [0])
        self.assertEqual(self.call("queue.q", "countDeliveringMessages", "n = 0"), 1)

    def test_copies_stay_in_the_first_queue_too(self) -> None:
        ids = self.fill()
        self.session.create_queue("other")
        self.assertTrue(self.call("queue.q", "copyMessage", ids[1], "other"))
        self.assertFalse(self.call("queue.q", "copyMessage", 12345, "other"))
        self.assertIn("AMQ229017", self.fails("queue.q", "copyMessage", ids[1], "missing"))
        (copy,) = self.world.queue("other").references
        self.assertEqual((copy.message.decoded().body, copy.message.property(KEY_ORIGINAL_QUEUE)), (b"1", "q"))
        self.assertEqual(self.left(), [b"0", b"1", b"2"])

    def test_a_message_sent_to_a_queue_comes_to_no_other_of_its_address(self) -> None:
        self.session.create_queue("second", "q")
        self.call("queue.q", "sendMessage", {"color": "red"}, 3, "text", True, None, None)
        (reference,) = self.world.queue("q").references
        self.assertEqual((reference.message.property("color"), decode_text(reference.message.decoded().body)), ("red", "text"))
        self.assertEqual(self.world.queue("second").message_count, 0)
        self.assertIn("base64", self.fails("queue.q", "sendMessage", {}, 4, "?", True, None, None))

    def test_a_sent_message_has_a_user_id_where_one_is_wanted(self) -> None:
        for wanted in (True, True, False):
            self.call("address.q", "sendMessage", None, 4, "", True, None, None, wanted)
        first, second, third = (reference.message.decoded().user_id for reference in self.world.queue("q").references)
        assert first is not None and second is not None
        self.assertEqual((len(first), len(second), third), (16, 16, None))
        self.assertNotEqual(first, second)

    def test_bindings_of_an_address(self) -> None:
        self.call("broker", "createDivert", "d", "d", "q", "elsewhere", False, None, None)
        self.assertEqual(self.attribute("address.q", "BindingNames"), ["q", "d"])


class BrokerControlTests(ManagementCase):
    def test_every_attribute_can_be_read(self) -> None:
        for name in BrokerControl.ATTRIBUTES:
            self.attribute("broker", name)
        for name in QueueControl.ATTRIBUTES:
            self.attribute("queue.q", name)
        self.assertEqual(self.attribute("broker", "ThreadPoolMaxSize"), 30)

    def test_names_of_queues_of_a_routing_type(self) -> None:
        self.session.create_queue("m", routing_type=0)
        self.assertEqual(self.call("broker", "getQueueNames"), ["m", "q", REPLIES])
        self.assertEqual(self.call("broker", "getQueueNames", "multicast"), ["m"])
        self.assertIn("ANYCAST or MULTICAST", self.fails("broker", "getQueueNames", "none"))

    def test_consumers_and_producers_in_the_older_lists(self) -> None:
        self.session.send(wire.CreateProducer(0, "q"))
        (consumer,) = json.loads(self.call("broker", "listAllConsumersAsJSON"))
        self.assertEqual((consumer["queueName"], consumer["messagesInTransit"], consumer["status"]), (REPLIES, 0, "OK"))
        (producer,) = json.loads(self.call("broker", "listProducersInfoAsJSON"))
        self.assertEqual((producer["sessionID"], producer["destination"]), (self.session.name, "q"))

    def test_connectors_are_told_without_their_passwords(self) -> None:
        self.world.configuration.connectors["c"] = TransportUri("tcp", "h", 7, {"keyStorePassword": "p"})
        found = json.loads(self.attribute("broker", "ConnectorsAsJSON"))
        self.assertEqual(found, [{"name": "c", "params": {"host": "h", "port": "7"}}])

    def test_clients_are_listed_by_their_address(self) -> None:
        self.assertEqual(self.call("broker", "listRemoteAddresses"), ["127.0.0.1:5000"])
        self.assertEqual(self.call("broker", "listRemoteAddresses", "127.0.0.1"), ["127.0.0.1:5000"])
        self.assertEqual(self.call("broker", "listRemoteAddresses", "10.0.0.1"), [])

    def test_queues_are_made_described_and_destroyed(self) -> None:
        text = self.call("broker", "createQueue", json.dumps({"name": "new", "routing-type": "ANYCAST", "max-consumers": 3}))
        self.assertEqual((json.loads(text)["name"], json.loads(text)["max-consumers"]), ("new", 3))
        self.assertIn("AMQ229019", self.fails("broker", "createQueue", json.dumps({"name": "new"})))
        self.assertIn("AMQ229229", self.fails("broker", "createQueue", "{}"))
        self.assertIn("JSON", self.fails("broker", "createQueue", "{"))
        self.call("broker", "destroyQueue", "new")
        self.assertIn("AMQ229017", self.fails("broker", "destroyQueue", "new"))

    def test_a_stuck_consumer_is_closed_by_name(self) -> None:
        self.fill()
        stuck = self.open()
        stuck.consume("q", 5)
        self.assertEqual(len(stuck.received()), 3)
        consumer = stuck.server_session.consumers.by_id[5]
        self.assertTrue(self.call("broker", "closeConsumerWithID", stuck.name, str(consumer.sequential_id)))
        self.assertEqual(stuck.take(), [wire.DisconnectConsumer(5)])
        self.assertEqual(self.world.queue("q").references.count, 3)

    def test_a_stuck_connection_is_closed_by_name(self) -> None:
        stuck = self.open()
        self.assertTrue(self.call("broker", "closeConnectionWithID", stuck.peer.connection.connection_id))
        self.assertTrue(stuck.peer.transport.closed)
        self.assertNotIn(stuck.name, self.world.server.sessions.by_name)
        self.assertFalse(self.call("broker", "closeConnectionWithID", "nobody"))

    def test_connections_with_consumers_on_an_address_are_closed(self) -> None:
        stuck, other = self.open(), self.open()
        stuck.consume("q", 5)
        self.assertFalse(self.call("broker", "closeConsumerConnectionsForAddress", "nowhere"))
        self.assertTrue(self.call("broker", "closeConsumerConnectionsForAddress", "q"))
        self.assertEqual((stuck.peer.transport.closed, other.peer.transport.closed), (True, False))

    def test_sessions_are_listed_by_their_connection(self) -> None:
        other = self.open()
        self.assertEqual(self.call("broker", "listSessions", other.peer.connection.connection_id), [other.name])
        self.assertEqual(self.call("broker", "listSessions", "nobody"), [])
