"""Encoded messages that are sent together and told of together."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.batches import Batch, Batches
from mqclient.core.session.session import Session
from mqclient.errors import AddressFullError, DuplicateIdRejectedError, IllegalStateError, MQError
from mqclient.wire.hot import encode_send, send_frames
from mqclient.wire.message import CoreMessage, decode_message, encode_message
from mqclient.wire.packets import (
    ExceptionResponse,
    NullResponse,
    PacketsConfirmed,
    ProducerCredits,
    ProducerRequestCredits,
    SessionSend,
)
from tests.support.network import ScriptedBroker, World

CHANNEL = 10


def encoded(text: str, size: int = 0) -> bytes:
    return encode_message(CoreMessage(1, "a", body=text.encode().ljust(size)))


class BatchesTests(SynchronousTestCase):
    @given(st.lists(st.integers(1, 5), max_size=4), st.randoms())
    def test_each_batch_is_told_of_once_whatever_the_order_of_the_answers(self, sizes: list[int], random: Any) -> None:
        told: list[Batch] = []
        batches = Batches(lambda batch: batch.told())
        made: list[Batch] = []
        first = 1
        for size in sizes:
            made.append(Batch("a", [b""] * size, first, told.append))
            batches.add(made[-1])
            first += size
        numbers = list(range(1, first))
        random.shuffle(numbers)
        answered: set[int] = set()
        for number in numbers:
            error = DuplicateIdRejectedError("known") if number % 3 == 0 else None
            self.assertTrue(batches.settle(number, error))
            self.assertFalse(batches.settle(number, None))
            answered.add(number)
            at = 1
            for size, batch in zip(sizes, made, strict=True):
                missing = [index for index in range(size) if at + index not in answered]
                self.assertEqual(batch.unanswered, missing)
                self.assertEqual(told.count(batch), 0 if missing else 1)
                self.assertEqual(set(batch.refused), {index for index in range(size) if (at + index) % 3 == 0 and at + index in answered})
                at += size
        self.assertFalse(batches.settle(first, None))

    @given(st.lists(st.binary(max_size=50), max_size=5), st.booleans(), st.sampled_from((129, 130, 134, 136)))
    def test_frames_are_those_of_single_sends(self, messages: list[bytes], answered: bool, version: int) -> None:
        parts, size = send_frames(messages, 11, 7, 3, answered, version)
        expected = b""
        for number, message in enumerate(messages):
            body = encode_send(message, answered, 7 + number, 3, version)
            expected += (9 + len(body)).to_bytes(4, "big") + bytes((SessionSend.TYPE,)) + (11).to_bytes(8, "big") + body
        self.assertEqual((b"".join(parts), size), (expected, sum(map(len, messages))))


class SendBatchTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = ScriptedBroker()
        self.told: list[Batch] = []
        self.rooms = 0

    def open(self, auto_commit_sends: bool = True, **settings: Any) -> Session:
        self.world = World(self.broker, **settings)
        self.broker._network = self.world.network
        session = self.world.session(auto_commit_sends=auto_commit_sends)
        session.open_encoded_sends().on_room = self.room
        return session

    def room(self) -> None:
        self.rooms += 1

    def settle(self) -> None:
        self.world.clock.advance(0)
        self.world.network.stir()

    def test_a_batch_is_told_of_when_all_of_it_is_answered(self) -> None:
        session = self.open()
        messages = [encoded(str(number)) for number in range(5)]
        self.assertTrue(session.send_batch("a", messages, self.told.append))
        self.assertEqual(self.told, [])
        self.settle()
        [batch] = self.told
        self.assertEqual((batch.address, batch.messages, batch.error, batch.refused, batch.unanswered), ("a", messages, None, {}, []))
        sends = self.broker.got(SessionSend)
        self.assertEqual([decode_message(send.message).body for send in sends], [b"0", b"1", b"2", b"3", b"4"])
        self.assertEqual(
            [(send.correlation_id, send.sender_id, send.requires_response) for send in sends], [(n, 1, True) for n in range(1, 6)]
        )

    def test_order_with_single_sends_and_other_packets(self) -> None:
        session = self.open()
        session.send_encoded((encoded("first"),), len(encoded("first")), lambda error: None, address="a")
        session.send_batch("a", [encoded("second"), encoded("third")], self.told.append)
        session.create_producer("b")
        self.settle()
        self.assertEqual([decode_message(send.message).body for send in self.broker.got(SessionSend)], [b"first", b"second", b"third"])
        self.assertEqual(len(self.told), 1)

    def test_refused_messages_are_named(self) -> None:
        self.broker.answers[SessionSend] = lambda packet: (
            ExceptionResponse(DuplicateIdRejectedError.code, "known", packet.correlation_id)
            if packet.correlation_id == 2
            else NullResponse(packet.correlation_id)
        )
        session = self.open()
        session.send_batch("a", [encoded("x")] * 3, self.told.append)
        self.settle()
        [batch] = self.told
        self.assertEqual({index: type(error) for index, error in batch.refused.items()}, {1: DuplicateIdRejectedError})
        self.assertEqual((batch.error, batch.unanswered), (None, []))

    def test_the_end_of_the_connection_tells_what_had_no_answer(self) -> None:
        self.broker.answers[SessionSend] = lambda packet: NullResponse(packet.correlation_id) if packet.correlation_id < 3 else None
        session = self.open()
        session.send_batch("a", [encoded("x")] * 4, self.told.append)
        self.settle()
        self.world.network.link.cut()
        [batch] = self.told
        self.assertEqual(batch.unanswered, [2, 3])
        self.assertIsInstance(batch.error, MQError)
        self.assertFalse(session.send_batch("a", [encoded("y")], self.told.append))
        self.assertEqual(self.told[1].unanswered, [0])
        self.assertIsInstance(self.told[1].error, MQError)

    def test_an_empty_batch_is_done_at_once(self) -> None:
        session = self.open()
        self.assertTrue(session.send_batch("a", [], self.told.append))
        self.assertEqual([batch.error for batch in self.told], [None])

    def test_no_answers_are_asked_for_in_a_transaction(self) -> None:
        session = self.open(auto_commit_sends=False)
        self.assertTrue(session.send_batch("a", [encoded("x")] * 2, None))
        committed = session.commit()
        self.settle()
        self.world.finish(committed)
        self.assertEqual([send.requires_response for send in self.broker.got(SessionSend)], [False] * 2)
        self.assertEqual(self.broker.names(CHANNEL)[-3:], ["SESS_SEND", "SESS_SEND", "SESS_COMMIT"])

    def test_credits_stop_the_sender(self) -> None:
        self.broker.credits = False
        session = self.open(producer_window_size=10_000)
        size = len(encoded("x", 1000))
        self.assertTrue(session.send_batch("a", [encoded("x", 1000)] * 5, self.told.append))
        self.assertFalse(session.send_batch("a", [encoded("x", 1000)] * 5, self.told.append))
        self.assertEqual(session.open_encoded_sends().credits(), {"a": 10_000 - 10 * size})
        self.settle()
        self.assertEqual(self.rooms, 0)
        asked = sum(packet.credits for packet in self.broker.got(ProducerRequestCredits))
        self.broker.deliver(CHANNEL, ProducerCredits(asked, "a"))
        self.assertEqual(self.rooms, 1)

    def test_old_brokers_confirm(self) -> None:
        self.broker = ScriptedBroker(version=129)
        session = self.open(confirmation_window_size=100_000)
        session.send_batch("a", [encoded("x")] * 3, self.told.append)
        self.settle()
        self.broker.deliver(CHANNEL, PacketsConfirmed(1))
        self.assertEqual(self.told, [])
        self.broker.deliver(CHANNEL, PacketsConfirmed(2))
        self.assertEqual(len(self.told), 1)

    def test_a_defect_of_one_owner_keeps_no_answer_from_others(self) -> None:
        session = self.open()

        def bad(batch: Batch) -> None:
            raise RuntimeError("defect")

        session.send_batch("a", [encoded("x")], bad)
        session.send_batch("a", [encoded("y")], self.told.append)
        self.settle()
        self.assertEqual(len(self.told), 1)
        self.assertEqual([type(failure) for failure in self.world.runtime.failures], [RuntimeError])

    def test_a_session_that_may_outlive_its_connection_is_refused(self) -> None:
        for setting in ("reconnect_attempts", "failover_attempts"):
            session = World(ScriptedBroker(), **{setting: 1}).session()
            self.assertRaises(IllegalStateError, session.send_batch, "a", [encoded("x")], self.told.append)

    def test_a_full_address_is_told_as_such(self) -> None:
        self.broker.answers[SessionSend] = lambda packet: ExceptionResponse(AddressFullError.code, "full", packet.correlation_id)
        session = self.open()
        session.send_batch("a", [encoded("x")], self.told.append)
        self.settle()
        self.assertIsInstance(self.told[0].refused[0], AddressFullError)
