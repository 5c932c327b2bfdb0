"""Requests of readers as sessions answer them."""

from __future__ import annotations

from typing import Any
from unittest import mock

from mqbroker.config.model.home_cluster import EnhancedCluster, HomeCluster
from mqclient.wire import packets as wire
from tests.unit.messaging.readers.support import Client, messages
from tests.unit.messaging.readers.test_readers import ReaderCase


class AnswerTests(ReaderCase):
    def test_a_request_that_fails_on_its_way_is_answered_and_holds_up_nobody(self) -> None:
        self.publish(b"1")
        self.client.open()
        found = self.client.reserve(0)

        def fails(*arguments: object) -> Any:
            raise LookupError("nothing found")
            yield 1

        for patched, packet in (
            ("readers.readers.measure", self.client.reserving(0)),
            ("readers.readers.Readers._removal", self.client.settling(found.until)),
            ("readers.readers.Readers._without_schedules", wire.ReaderOpen("q", "new", -1)),
        ):
            with mock.patch(f"mqbroker.messaging.{patched}", fails):
                self.client.session.send(packet)
                self.world.clock.advance(0)
            (answer,) = [each for each in self.client.session.take() if each.RESPONSE]
            assert isinstance(answer, wire.ExceptionResponse), answer
            self.assertIn("nothing found", answer.message or "")
            self.assertTrue(self.client.session.peer.transport.reading, patched)

    def test_an_answer_has_at_most_so_many_bytes_but_one_message(self) -> None:
        self.publish(*(b"x" * 1000 for _ in range(20)))
        self.client.open()
        found = self.client.reserve(0)
        answer = self.client.call(wire.ReaderRead("q", 0, found.until, 3000, None))
        self.assertEqual((answer.count, answer.end), (2, False))
        self.assertEqual(answer.position, messages(answer)[-1].message_id)
        answer = self.client.call(wire.ReaderRead("q", answer.position, found.until, 1, None))
        self.assertEqual((answer.count, answer.end), (1, False))
        self.assertEqual(len(self.client.read(0, found.until, max_bytes=2500)), 20)

    def test_a_large_message_comes_with_its_headers_and_its_body_in_pieces(self) -> None:
        self.session.begin_large()
        self.session.chunk(b"a" * 1000)
        self.session.chunk(b"b" * 500, 1500)
        self.client.open()
        found = self.client.reserve(0)
        (large,) = self.client.read(0, found.until)
        self.assertEqual((large.kind, int.from_bytes(large.data[:8], "big")), (1, 1500))
        self.assertGreater(found.bytes, 1500)
        piece = self.client.call(wire.ReaderBody("q", large.message_id, 900, 200))
        self.assertEqual(piece.data, b"a" * 100 + b"b" * 100)
        self.assertEqual(self.client.call(wire.ReaderBody("q", large.message_id, 1400, 200)).data, b"b" * 100)
        self.client.settle(found.until)
        self.assertIn("no large message", self.client.refused(wire.ReaderBody("q", large.message_id, 0, 1)))


class RequestTests(ReaderCase):
    def test_who_looks_without_a_reader_keeps_nothing(self) -> None:
        self.publish(b"1", b"2")
        survey = Client(self.world.session(), reader=None)
        found = survey.reserve(0)
        self.assertEqual(survey.bodies(0, found.until), [b"1", b"2"])
        consumer = self.world.session()
        consumer.consume()
        self.assertEqual(consumer.bodies(), [b"1", b"2"])
        self.assertEqual(self.world.store.entries("setting"), [])
        self.world.clock.advance(200)
        self.assertIsNone(self.world.queue("q").log)

    def test_bad_requests_are_refused(self) -> None:
        self.assertIn("does not exist", self.client.refused(wire.ReaderOpen("none", "r", -1)))
        self.assertIn("has no reader", self.client.refused(wire.ReaderRemove("q", "r")))
        self.assertIn("1 to 256 characters", self.client.refused(wire.ReaderOpen("q", "", -1)))
        self.assertIn("1 to 256 characters", self.client.refused(wire.ReaderOpen("q", "n" * 257, -1)))
        for number in range(16):
            Client(self.client.session, reader=f"r{number}").open()
        self.assertIn("16 readers", self.client.refused(wire.ReaderOpen("q", "one more", -1)))

    def test_in_an_enhanced_cluster_there_are_none(self) -> None:
        self.world.server.configuration.home_cluster = HomeCluster((), None, "a:1", enhanced=EnhancedCluster())
        for packet in (wire.ReaderOpen("q", "r", -1), self.client.reserving(0)):
            self.assertIn("refused in an enhanced cluster", self.client.refused(packet))

    def test_a_queue_that_is_not_durable_keeps_no_reader(self) -> None:
        self.session.create_queue("soft", durable=False)
        client = Client(self.world.session(), queue="soft")
        client.open()
        self.publish(b"1", address="soft", durable=False)
        found = client.reserve(0)
        self.assertEqual(client.bodies(0, found.until), [b"1"])
        client.settle(found.until)
        self.assertEqual(self.world.store.entries("setting"), [])

    def test_the_size_of_the_duplicate_id_cache_is_told(self) -> None:
        self.assertEqual(self.client.call(wire.IdCacheQuery("q")), wire.IdCacheState(20000, True))
