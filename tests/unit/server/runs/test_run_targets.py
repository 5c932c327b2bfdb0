"""Where messages in a row go: found once for an address, and found anew when that may have changed."""

from __future__ import annotations

import struct
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.server.runs.run_targets import RunTargets, Target
from mqclient.wire import packets as wire
from mqclient.wire.frames import frame
from mqclient.wire.hot import send_trailer_size
from mqclient.wire.message import KEY_BRIDGE_DUPLICATE_ID, KEY_ROUTE_TO, KEY_SCHEDULED_DELIVERY, CoreMessage, encode_message
from mqclient.wire.properties import BYTES, LONG, TypedValue
from tests.support.broker import PERMISSIONS, World

CHANNEL = 11
TRAILER = send_trailer_size(136)


def send_frame(address: str, properties: dict[str, TypedValue] | None = None) -> bytes:
    message = CoreMessage(address=address, properties={"number": (LONG, 7), **(properties or {})}, body=b"body")
    return frame(wire.SessionSend.TYPE, CHANNEL, wire.encode_packet(wire.SessionSend(encode_message(message), True, 1, 1), 136))


class RunTargetTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World(Configuration(security_settings={"#": {permission: frozenset({"all"}) for permission in PERMISSIONS}}))
        self.session = self.world.peer().session(channel=CHANNEL, name="sender", username="admin", password="secret")
        for name in ("one", "two"):
            self.session.create_queue(name)
        for name in ("one", "two"):
            # The permissions that these need are known from now on.
            self.session.peer.feed(send_frame(name))
            self.session.peer.feed(send_frame(name, self.stated(name)))
        self.session.take()
        self.targets = self.new_targets()

    def new_targets(self) -> RunTargets:
        session = self.session.server_session
        return RunTargets(session, session.sends)

    def find(self, address: str, properties: dict[str, TypedValue] | None = None) -> Target | None:
        data = send_frame(address, properties)
        return self.targets.find(data, len(data) - TRAILER)

    def stated(self, name: str, key: bytes = b"12345678") -> dict[str, TypedValue]:
        return {
            KEY_ROUTE_TO: (BYTES, struct.pack(">q", self.world.queue(name).queue_id)),
            KEY_BRIDGE_DUPLICATE_ID: (BYTES, key),
        }

    def test_an_address_is_resolved_once(self) -> None:
        first = self.find("one")
        assert first is not None
        self.assertEqual(first.queues, (self.world.queue("one"),))
        self.assertIsNot(self.find("two"), first)
        self.assertIs(self.find("one"), first)

    def test_a_message_with_a_schedule_has_none_at_an_address_that_is_not_known(self) -> None:
        self.assertIsNone(self.find("one", {KEY_SCHEDULED_DELIVERY: (LONG, 5)}))

    def test_an_address_that_is_not_there_has_none(self) -> None:
        self.assertIsNone(self.find("three"))

    def test_a_change_of_routing_or_security_is_seen(self) -> None:
        first = self.find("one")
        self.session.create_queue("again", "one")
        self.assertIsNone(self.find("one"))
        self.session.ok(wire.DeleteQueue("again"))
        self.assertIs(self.find("one").__class__, Target)
        self.assertIsNot(self.find("one"), first)
        self.world.security.repository.set("one", {})
        self.assertIsNone(self.find("one"))

    def test_what_a_link_brings_goes_where_it_says(self) -> None:
        first = self.find("one", self.stated("one"))
        assert first is not None
        self.assertEqual((first.queues, first.ids_name), ((self.world.queue("one"),), "BRIDGE.one"))
        self.assertIs(self.find("one", self.stated("one", b"87654321")), first)
        self.assertIs(self.find("one", self.stated("one", b"longer than before")), first)
        self.assertIsNone(self.find("one", self.stated("two")))
        self.assertIsNot(self.find("one"), first)
        self.assertIsNot(self.find("two", self.stated("two")), first)
        self.assertIs(self.find("one", self.stated("one")), first)

    def test_a_session_that_sends_to_too_many_addresses_begins_anew(self) -> None:
        with mock.patch("mqbroker.server.runs.run_targets.TARGETS_MAX", 1):
            first = self.find("one")
            self.find("two")
            self.assertIsNot(self.find("one"), first)

    def test_a_frame_that_is_cut_off_has_none(self) -> None:
        data = send_frame("one")
        self.assertIsNotNone(self.targets.find(data, len(data) - TRAILER))
        for end in range(13, 60):
            self.assertIsNone(self.new_targets().find(data[:end], end))
