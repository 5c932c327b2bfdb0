"""The ids of sends and commits."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.message import ClientMessage
from mqclient.core.once.ids import COMMITS_ADDRESS, OwnIds, commit_marker, has_id_of_application
from mqclient.wire.message import KEY_DUPLICATE_ID, decode_message
from mqclient.wire.properties import BYTES, STRING, decode_properties, encode_properties
from tests.support.network import FakeRuntime, Network


class IdTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.runtime = FakeRuntime(Clock(), Network())

    def test_ids_differ_and_have_one_length_that_brokers_keep_as_it_is(self) -> None:
        first, second = OwnIds(self.runtime), OwnIds(self.runtime)
        found = [ids.next() for ids in (first, second) for _ in range(100)]
        self.assertEqual(len(set(found)), 200)
        self.assertEqual(len({len(each) for each in found}), 1)
        self.assertLessEqual(len(found[0].encode("utf-16-le")), 128)

    def test_an_id_is_the_same_as_a_property(self) -> None:
        """Also where the numbers get more digits, and when commits take ids in between."""
        for begin in (0, 0xFFFFFF00, 0xFFFFFFF0):
            ids = OwnIds(self.runtime)
            ids._count = begin
            found = []
            for number in range(600):
                if number % 7 == 0:
                    found.append(ids.next())
                    continue
                properties, _ = decode_properties(block := encode_properties({}, ids.next_property()), 0, len(block))
                ((key, (kind, value)),) = properties.items()
                self.assertEqual((key, kind), (KEY_DUPLICATE_ID, STRING))
                found.append(str(value))
            prefix = found[0][: -len(f"{begin + 1:08x}")]
            self.assertEqual(found, [f"{prefix}{begin + number:08x}" for number in range(1, 601)])

    def test_ids_of_applications_and_of_clients(self) -> None:
        for value, expected in (((STRING, "order 1"), True), ((BYTES, b"x"), True), ((STRING, OwnIds(self.runtime).next()), False)):
            message = ClientMessage(properties={KEY_DUPLICATE_ID: value})
            self.assertEqual(has_id_of_application(message), expected)
        self.assertFalse(has_id_of_application(ClientMessage()))

    def test_a_marker_is_a_message_with_an_id(self) -> None:
        message = decode_message(commit_marker("one"))
        self.assertEqual((message.address, message.get(KEY_DUPLICATE_ID), message.body), (COMMITS_ADDRESS, "one", b""))
