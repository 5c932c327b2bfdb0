"""The ids of sends and commits."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.message import ClientMessage
from mqclient.core.once.ids import COMMITS_ADDRESS, OwnIds, commit_marker, has_id_of_application
from mqclient.wire.message import KEY_DUPLICATE_ID, decode_message
from mqclient.wire.properties import BYTES, STRING
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

    def test_ids_of_applications_and_of_clients(self) -> None:
        for value, expected in (((STRING, "order 1"), True), ((BYTES, b"x"), True), ((STRING, OwnIds(self.runtime).next()), False)):
            message = ClientMessage(properties={KEY_DUPLICATE_ID: value})
            self.assertEqual(has_id_of_application(message), expected)
        self.assertFalse(has_id_of_application(ClientMessage()))

    def test_a_marker_is_a_message_with_an_id(self) -> None:
        message = decode_message(commit_marker("one"))
        self.assertEqual((message.address, message.get(KEY_DUPLICATE_ID), message.body), (COMMITS_ADDRESS, "one", b""))
