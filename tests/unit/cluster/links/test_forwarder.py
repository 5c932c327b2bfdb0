"""Forwarding: windows, refusals, order on return, large, scheduled and expired messages; nothing is lost or doubled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.links import forwarder as forwarder_module
from mqbroker.cluster.links.forwarder import ForwardingSettings
from mqbroker.cluster.links.outgoing import CoreBridgeMessages, Outgoing, assemble, duplicate_id_entry
from mqbroker.config.model.cluster import BridgeConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.core import STRAY_IDS_MAX
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues import queue as queue_module
from mqclient.errors import error_for_code
from mqclient.wire import packets as wire
from mqclient.wire.message import KEY_SCHEDULED_DELIVERY
from mqclient.wire.properties import LONG
from tests.support.broker import World
from tests.support.clock import START_MS, FakeClock
from tests.unit.cluster.bridge_support import NODE_ID, Pair, bridge_settings


def world(clock: FakeClock | None = None, **settings: Any) -> World:
    configuration = Configuration(security_enabled=False)
    configuration.address_settings = {"#": settings}
    return World(configuration, clock=clock)


def with_duplicate_ids(message: Message) -> Outgoing:
    """As a core bridge with use-duplicate-detection."""
    id_bytes = message.message_id.to_bytes(8, "big")
    return assemble(message, message.address, (), [], duplicate_id_entry(NODE_ID) + id_bytes, 1, 102400)


class Deaf:
    """Changes the target's answers to sends: the first ``count`` are refusals with a code, or never come."""

    def __init__(self, pair: Pair, code: int | None, count: int = 1 << 30) -> None:
        self.code = code
        self.count = count
        session = pair.forwarder._session
        assert session is not None
        self._sends = session.open_encoded_sends()
        self._answered = self._sends.answered
        self._sends.answered = self._answer  # type: ignore[method-assign]

    def _answer(self, correlation: int) -> bool:
        if self.count <= 0:
            return self._answered(correlation)
        self.count -= 1
        return self.code is None or self._sends.refused(correlation, error_for_code(self.code, "refused"))


class WindowTests(SynchronousTestCase):
    def test_only_so_many_messages_are_under_way(self) -> None:
        self.patch(forwarder_module, "IN_FLIGHT_MESSAGES_MAX", 3)
        pair = Pair()
        pair.start()
        pair.publish(*[b"%d" % number for number in range(10)])
        pair.clock.advance(0)
        self.assertEqual((pair.forwarder.pending, pair.a.queue("q").references.count), (3, 7))
        pair.stir()
        self.assertEqual(pair.arrived(), [b"%d" % number for number in range(10)])

    def test_only_so_many_bytes_are_under_way(self) -> None:
        self.patch(forwarder_module, "IN_FLIGHT_BYTES_MAX", 3000)
        pair = Pair()
        pair.start()
        pair.publish(*[bytes(1000)] * 10)
        pair.clock.advance(0)
        self.assertEqual(pair.forwarder.pending, 3)
        pair.stir()
        self.assertEqual(len(pair.arrived()), 10)

    def test_a_full_address_of_the_target_stops_the_bridge_until_there_is_room(self) -> None:
        clock = FakeClock()
        pair = Pair(
            bridge_settings(producer_window_size=5000),
            source=world(clock),
            target=world(clock, max_size_bytes=10_000, address_full_policy="BLOCK"),
        )
        pair.start()
        pair.publish(*[bytes(1000)] * 50)
        pair.stir()
        stored = len(pair.arrived())
        self.assertLess(stored, 20)
        self.assertGreater(len(pair.waiting()), 25)
        pair.receiver.consume()
        for _ in range(60):
            for packet in pair.receiver.received():
                pair.receiver.send(wire.Acknowledge(0, int.from_bytes(packet.message[1004:1012], "big"), False))
            pair.stir()
        self.assertEqual(pair.waiting(), [])
        self.assertEqual(pair.events.told, ["connected", "started"])

    def test_acknowledgements_of_a_turn_are_one_step_in_the_journal(self) -> None:
        pair = Pair()
        pair.publish(b"1", b"2", b"3")
        pair.start()
        steps = [batch for batch in pair.a.store.log if any(entry[0] == "ack" for entry in batch)]
        self.assertEqual([len(step) for step in steps], [3])


class RefusalTests(SynchronousTestCase):
    def pair(self, **settings: Any) -> Pair:
        pair = Pair(source=world(**settings))
        pair.start()
        return pair

    def test_a_full_address_fails_the_link_and_is_tried_again(self) -> None:
        pair = self.pair()
        Deaf(pair, 210)
        pair.publish(b"1", b"2")
        pair.stir()
        self.assertEqual((pair.bridge.state, pair.waiting()), ("waiting", [b"1", b"2"]))
        pair.advance(2)
        self.assertEqual(pair.arrived()[-2:], [b"1", b"2"])

    def test_a_message_that_is_refused_does_not_keep_others(self) -> None:
        pair = self.pair()
        Deaf(pair, 105, 1)
        pair.publish(b"1", b"2")
        pair.stir()
        self.assertEqual((pair.forwarder.messages_refused, pair.forwarder.pending), (1, 0))
        self.assertEqual(pair.a.queue("q").scheduled.count, 1)
        pair.advance(2.5)
        self.assertEqual(pair.a.queue("q").message_count, 0)
        self.assertEqual(pair.bridge.state, "started")

    def test_it_goes_to_the_dead_letter_address_after_the_attempts_of_its_address(self) -> None:
        pair = self.pair(dead_letter_address="DLA", max_delivery_attempts=3)
        pair.sender.create_queue("DLA")
        Deaf(pair, 105)
        pair.publish(b"1")
        pair.stir()
        pair.advance(5)
        dead = pair.a.queue("DLA").references
        self.assertEqual([reference.message.decoded().body for reference in dead], [b"1"])
        self.assertEqual((pair.a.queue("q").message_count, pair.forwarder.messages_refused), (0, 3))

    def test_a_store_and_forward_queue_keeps_it_for_as_long_as_the_member_refuses_it(self) -> None:
        pair = self.pair(dead_letter_address="DLA", max_delivery_attempts=3)
        pair.sender.create_queue("DLA")
        queue = pair.a.queue("q")
        queue.definition = replace(queue.definition, internal=True)
        Deaf(pair, 105, 5)
        pair.publish(b"1")
        pair.stir()
        pair.advance(9)
        self.assertEqual((pair.forwarder.messages_refused, queue.message_count), (5, 1))
        pair.advance(2)
        self.assertEqual((queue.message_count, pair.a.queue("DLA").message_count), (0, 0))

    def test_without_a_dead_letter_address_it_is_never_dropped(self) -> None:
        pair = self.pair(max_delivery_attempts=2)
        Deaf(pair, 105)
        pair.publish(b"1")
        pair.stir()
        pair.advance(20)
        self.assertEqual(pair.a.queue("q").message_count, 1)
        self.assertGreater(pair.forwarder.messages_refused, 5)

    def test_what_the_target_has_already_is_done_with(self) -> None:
        pair = self.pair()
        Deaf(pair, 113)
        pair.publish(b"1")
        pair.stir()
        self.assertEqual((pair.a.queue("q").message_count, pair.forwarder.messages_refused), (0, 0))

    def test_what_cannot_be_sent_goes_to_the_dead_letter_address(self) -> None:
        def outgoing(message: Message) -> Outgoing | None:
            if message.decoded().body == b"bad":
                raise RuntimeError("transformer")
            if message.decoded().body == b"nowhere":
                return None
            return with_duplicate_ids(message)

        pair = Pair(outgoing=outgoing, source=world(dead_letter_address="DLA"))
        pair.sender.create_queue("DLA")
        pair.publish(b"bad", b"good", b"nowhere")
        pair.start()
        dead = [reference.message.decoded().body for reference in pair.a.queue("DLA").references]
        self.assertEqual((dead, pair.arrived()), ([b"bad", b"nowhere"], [b"good"]))
        self.flushLoggedErrors(RuntimeError)

    def test_without_one_a_message_that_a_transformer_fails_with_is_put_aside_and_not_dropped(self) -> None:
        failures = [RuntimeError("transformer") for _ in range(3)]

        def outgoing(message: Message) -> Outgoing:
            if message.decoded().body == b"bad" and failures:
                raise failures.pop()
            return with_duplicate_ids(message)

        pair = Pair(outgoing=outgoing)
        pair.publish(b"bad", b"good")
        pair.start()
        self.assertEqual((pair.arrived(), pair.a.queue("q").message_count), ([b"good"], 1))
        pair.advance(7)
        self.assertEqual((pair.arrived(), pair.a.queue("q").message_count), ([b"good", b"bad"], 0))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_answers_that_do_not_come_in_time_make_the_link_anew(self) -> None:
        pair = Pair(forwarding=ForwardingSettings(pending_ack_timeout=4000))
        pair.start()
        Deaf(pair, None)
        pair.publish(b"1")
        pair.stir()
        pair.advance(3)
        self.assertEqual(pair.bridge.state, "started")
        pair.advance(5)
        self.assertEqual(pair.events.told, ["connected", "started", "lost", "connected", "started"])
        self.assertEqual(pair.waiting(), [])

    def test_answers_that_come_are_no_reason_to_make_the_link_anew(self) -> None:
        pair = Pair(forwarding=ForwardingSettings(pending_ack_timeout=4000))
        pair.start()
        for _ in range(20):
            pair.publish(b"1")
            pair.advance(1)
        self.assertEqual(pair.events.told, ["connected", "started"])


class KindsTests(SynchronousTestCase):
    def test_large_messages_are_streamed_one_after_the_other(self) -> None:
        pair = Pair(bridge_settings(min_large_message_size=1000))
        pair.start()
        bodies = [bytes([number]) * 5000 for number in range(3)]
        for body in bodies:
            pair.sender.begin_large()
            pair.sender.chunk(body, len(body))
        pair.publish(b"small")
        pair.stir()
        references = list(pair.b.queue("q").references)
        found = [reference.message.large.read(0, 10_000) for reference in references if reference.message.large is not None]
        self.assertEqual(found, bodies)
        self.assertEqual(len(references), 4)
        self.assertEqual(pair.a.queue("q").message_count, 0)

    def test_a_large_message_is_not_read_faster_than_the_target_takes_it(self) -> None:
        pair = Pair(bridge_settings(min_large_message_size=100_000))
        pair.start()
        pair.sender.begin_large()
        pair.sender.chunk(bytes(20_000_000), 20_000_000)
        for _ in range(20):
            pair.clock.advance(0)
        self.assertLess(len(pair.link.to_broker), 2_000_000)
        pair.stir()
        self.assertEqual([reference.message.stored_size > 20_000_000 for reference in pair.b.queue("q").references], [True])

    def test_a_large_message_may_take_longer_than_an_acknowledgement(self) -> None:
        """As long as its pieces are answered nothing is overdue."""
        pair = Pair(bridge_settings(min_large_message_size=10_000), ForwardingSettings(pending_ack_timeout=4000))
        pair.start()
        pair.sender.begin_large()
        pair.sender.chunk(bytes(500_000), 500_000)
        for _ in range(30):
            pair.clock.advance(1)
            pair.link.move(25_000)
        self.assertEqual(pair.events.told, ["connected", "started"])
        self.assertEqual((pair.b.queue("q").message_count, pair.a.queue("q").message_count), (1, 0))

    def test_nor_is_one_that_waits_for_room_at_the_target(self) -> None:
        clock = FakeClock()
        pair = Pair(
            bridge_settings(min_large_message_size=10_000, producer_window_size=50_000),
            ForwardingSettings(pending_ack_timeout=4000),
            source=world(clock),
            target=world(clock, max_size_bytes=10_000, address_full_policy="BLOCK"),
        )
        pair.start()
        pair.publish(bytes(9000), bytes(9000))
        pair.stir()
        pair.sender.begin_large()
        pair.sender.chunk(bytes(500_000), 500_000)
        pair.advance(30)
        self.assertEqual((pair.b.queue("q").message_count, pair.forwarder.pending), (2, 1))
        self.assertEqual(pair.events.told, ["connected", "started"])
        pair.receiver.consume()
        pair.stir()
        for packet in pair.receiver.received():
            pair.receiver.send(wire.Acknowledge(0, int.from_bytes(packet.message[9004:9012], "big"), False))
        pair.advance(1)
        self.assertEqual((pair.a.queue("q").message_count, pair.events.told), (0, ["connected", "started"]))

    def test_a_large_message_that_is_cut_off_goes_again(self) -> None:
        pair = Pair(bridge_settings(min_large_message_size=1000, retry_interval=1000))
        pair.start()
        pair.sender.begin_large()
        pair.sender.chunk(b"x" * 50_000, 50_000)
        pair.clock.advance(0)
        pair.clock.advance(0)
        pair.link.move(20_000)
        pair.link.cut()
        self.assertEqual(pair.b.queue("q").references.count, 0)
        pair.advance(2)
        [reference] = list(pair.b.queue("q").references)
        assert reference.message.large is not None
        self.assertEqual(reference.message.large.read(0, 60_000), b"x" * 50_000)
        self.assertEqual(pair.a.queue("q").message_count, 0)

    def test_scheduled_messages_go_when_they_are_due(self) -> None:
        pair = Pair()
        pair.start()
        pair.publish(b"1", properties={KEY_SCHEDULED_DELIVERY: (LONG, START_MS + 5000)})
        pair.advance(4)
        self.assertEqual(pair.arrived(), [])
        pair.advance(2)
        self.assertEqual(pair.arrived(), [b"1"])

    def test_expired_messages_do_not_go(self) -> None:
        pair = Pair()
        pair.publish(b"1", expiration=START_MS + 1000)
        pair.publish(b"2")
        pair.advance(2)
        pair.start()
        self.assertEqual((pair.arrived(), pair.a.queue("q").messages_expired), ([b"2"], 1))

    def test_a_message_that_the_target_may_have_expires_there_alone(self) -> None:
        pair = Pair(outgoing=with_duplicate_ids)
        pair.start()
        Deaf(pair, None)
        pair.publish(b"1", expiration=START_MS + 1000)
        pair.publish(b"2")
        pair.stir()
        queue = pair.a.queue("q")
        self.assertEqual((pair.arrived(), pair.forwarder.pending), ([b"1", b"2"], 2))
        pair.forwarder.detach()
        pair.clock.advance(2)
        pair.a.messaging.expiry_reaper.scan()
        self.assertEqual((pair.waiting(), queue.messages_expired, len(queue.in_doubt)), ([b"1", b"2"], 0, 1))
        pair.link.cut()
        pair.advance(5)
        self.assertEqual((pair.waiting(), queue.messages_expired, len(queue.in_doubt)), ([], 0, 0))
        self.assertEqual(pair.arrived(), [b"1", b"2"])

    def test_what_others_take_after_each_loss_does_not_gather_without_end(self) -> None:
        self.patch(queue_module, "DOUBTED_MAX", 15)
        pair = Pair(outgoing=with_duplicate_ids)
        queue = pair.a.queue("q")
        for doubted in (10, 15, 15):
            pair.start()
            Deaf(pair, None)
            pair.publish(*[b"1"] * 10, expiration=START_MS + 100_000)
            pair.stir()
            pair.bridge.pause()
            pair.link.cut()
            pair.stir()
            latest = max(reference.message.message_id for reference in queue.references)
            pair.a.messaging.removal.purge(queue)
            self.assertEqual((len(queue.in_doubt), max(queue.in_doubt)), (doubted, latest))
            pair.bridge.resume()
            pair.advance(3)

    def test_messages_that_are_not_durable_go_too(self) -> None:
        pair = Pair()
        pair.start()
        pair.publish(b"1", durable=False)
        pair.stir()
        self.assertEqual((pair.arrived(), pair.a.queue("q").message_count), ([b"1"], 0))

    def test_a_target_remembers_all_that_are_under_way_to_an_address_that_was_not_there_when_the_ids_were_read(self) -> None:
        pair = Pair(outgoing=CoreBridgeMessages(NODE_ID, 102400, "later"))
        self.assertIsNotNone(pair.b.server.messaging.core.duplicate_ids("BRIDGE.later"))
        pair.receiver.create_queue("later")
        bodies = [b"%d" % number for number in range(STRAY_IDS_MAX + 1)]
        self.cut_before_the_answers(pair, bodies)
        self.assertEqual((pair.arrived("later"), pair.waiting()), (bodies, []))

    def cut_before_the_answers(self, pair: Pair, bodies: list[bytes]) -> None:
        """The target gets everything, and cannot say so before the link breaks."""
        pair.start()
        pair.publish(*bodies)
        for _ in range(5):
            pair.clock.advance(0)
            arrived = bytes(pair.link.to_broker)
            pair.link.to_broker.clear()
            pair.link.connection.received(arrived)
        self.assertEqual(pair.forwarder.pending, len(bodies))
        pair.link.cut()
        pair.advance(5)

    def test_late_answers_of_a_link_that_was_left_settle_nothing(self) -> None:
        pair = Pair()
        pair.start()
        pair.publish(b"1")
        pair.clock.advance(0)
        pair.clock.advance(0)
        pair.forwarder.detach()
        self.assertEqual(pair.waiting(), [b"1"])
        pair.stir()
        self.assertEqual(pair.waiting(), [b"1"])


class CutTests(SynchronousTestCase):
    """A link that is cut anywhere, several times."""

    def run_through(self, cuts: list[int], piece: int, sizes: list[int], settings: BridgeConfiguration) -> tuple[list[bytes], Pair]:
        pair = Pair(settings, outgoing=with_duplicate_ids)
        pair.runtime.cut_next = [*cuts]
        bodies = [b"%04d" % number + bytes(size) for number, size in enumerate(sizes)]
        pair.publish(*bodies[: len(bodies) // 2])
        pair.bridge.start()
        pair.stir(piece)
        pair.publish(*bodies[len(bodies) // 2 :])
        pair.stir(piece)
        pair.advance(2.0 * (len(cuts) + 1), 1.0)
        return bodies, pair

    @hypothesis_settings(max_examples=60, deadline=None)
    @given(
        st.lists(st.integers(0, 6000), max_size=4),
        st.integers(50, 3000),
        st.lists(st.sampled_from([0, 10, 500, 3000]), min_size=1, max_size=12),
        st.booleans(),
    )
    def test_neither_loses_nor_doubles(self, cuts: list[int], piece: int, sizes: list[int], large: bool) -> None:
        settings = bridge_settings(retry_interval=1000, max_retry_interval=1000, min_large_message_size=400 if large else 102400)
        bodies, pair = self.run_through(cuts, piece, sizes, settings)
        self.assertEqual((pair.a.queue("q").message_count, pair.forwarder.pending, pair.forwarder.pending_bytes), (0, 0, 0))
        self.assertEqual(arrived(pair), bodies)


def arrived(pair: Pair) -> list[bytes]:
    """Bodies in the target's queue in their order, also large ones."""
    messages = [reference.message for reference in pair.b.queue("q").references]
    return [message.decoded().body if message.large is None else message.large.read(0, 1 << 20) for message in messages]
