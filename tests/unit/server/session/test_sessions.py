"""Sessions: order of replies, confirmation and reattachment, metadata, permissions, queues that come and go."""

from __future__ import annotations

from typing import Any

from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.server.security.login import GuestLoginModule, LoginStep
from mqclient.wire import packets as wire
from mqclient.wire.frames import SESSION_CHANNEL
from mqclient.wire.message import decode_message
from tests.support.broker import Session, World


class AddressTests(SynchronousTestCase):
    def test_an_address_that_is_made_again_without_routing_types_keeps_those_that_it_has(self) -> None:
        world = World()
        session = world.peer().open()
        session.ok(wire.CreateAddress("a", (0, 1)))
        session.ok(wire.CreateAddress("a", ()))
        self.assertEqual(world.messaging.core.addresses["a"].routing_types, {0, 1})
        session.ok(wire.CreateAddress("a", (1,)))
        self.assertEqual(world.messaging.core.addresses["a"].routing_types, {1})


class SilentRequestTests(SynchronousTestCase):
    """Nobody waits for an answer: a failure is told in the log, unless it is what a client does each time that it comes back."""

    def setUp(self) -> None:
        lines: list[str] = []
        self.lines = lines

        def observe(event: Any) -> None:
            lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        self.session = World().session()
        self.session.create_queue("q")

    def failures(self) -> list[str]:
        return [line for line in self.lines if " failed: " in line]

    def test_a_queue_that_is_made_again_is_not_told(self) -> None:
        self.session.send(wire.CreateQueueV2("q", "q", requires_response=False))
        self.assertEqual(self.failures(), [])

    def test_a_queue_that_cannot_be_made_is_told(self) -> None:
        self.session.send(wire.CreateQueueV2("q", "other", filter_string="a =", requires_response=False))
        (line,) = self.failures()
        self.assertIn("CREATE_QUEUE_V2 failed: AMQ229020", line)


class CreationCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.peer = self.world.peer()

    def refused(self, **request: Any) -> int:
        self.peer.session(**request)
        (answer,) = self.peer.take(SESSION_CHANNEL)
        assert isinstance(answer, wire.ExceptionResponse), answer
        return answer.error_code


class CreationTests(CreationCase):
    def test_a_channel_below_ten_or_in_use_is_refused(self) -> None:
        self.peer.open(channel=10)
        self.assertEqual(self.refused(channel=9), 112)
        self.assertEqual(self.refused(channel=10, name="other"), 112)

    def test_a_name_in_use_on_this_connection_is_refused(self) -> None:
        self.peer.open(name="n")
        self.assertEqual(self.refused(name="n"), 112)


class LeftConnectionTests(SynchronousTestCase):
    """A client without a confirmation window comes back before the broker has noticed the end of its connection."""

    def setUp(self) -> None:
        self.world = World()
        self.other = self.world.session()
        self.other.create_queue("q")
        self.peer = self.world.peer()

    def come_back(self, count: int) -> list[Session]:
        """The client asks for each of its sessions, and makes a new one with a consumer in its place, as the clients do."""
        peer = self.world.peer()
        peer.version = 136
        found = []
        for number in range(count):
            peer.send(wire.ReattachSession(f"old {number}", -1), SESSION_CHANNEL)
            self.assertEqual(peer.take(SESSION_CHANNEL), [wire.ReattachSessionResponse(-1, False)])
            found.append(peer.open(name=f"new {number}"))
            found[-1].consume()
        return found

    def test_what_one_session_held_does_not_go_to_the_next_that_ends(self) -> None:
        for number in range(12):
            self.peer.open(name=f"old {number}").consume()
        self.other.publish(b"held")
        received = [packet for session in self.come_back(12) for packet in session.received()]
        self.assertEqual([(decode_message(packet.message).body, packet.delivery_count) for packet in received], [(b"held", 2)])

    def test_sessions_that_the_client_has_closed_meanwhile_end_too(self) -> None:
        for number in range(2):
            self.peer.open(name=f"old {number}").consume()
        self.other.publish(b"one")
        self.other.publish(b"two")
        (session,) = self.come_back(1)
        self.assertEqual(sorted(session.bodies()), [b"one", b"two"])
        self.assertTrue(self.peer.transport.aborted)


class SettingsLookupTests(SynchronousTestCase):
    def test_addresses_named_by_a_uuid_have_settings_of_their_own(self) -> None:
        settings = {"uuids.#": {"default_max_consumers": 7}}
        world = World(Configuration(security_enabled=False, uuid_namespace="uuids", address_settings=settings))
        session = world.session()
        for name, expected in (("2f1d3c4b-aaaa-bbbb-cccc-0123456789ab", 7), ("2f1d3c4b", -1)):
            answer = session.call(wire.QueueQuery(name))
            self.assertEqual(answer.max_consumers, expected)  # type: ignore[attr-defined]

    def test_acceptors_may_have_users_of_their_own(self) -> None:
        world = World(Configuration(), domains={"guests": [LoginStep("required", GuestLoginModule(roles=frozenset({"all"})))]})
        world.peer(security_domain="guests").open()
        peer = world.peer()
        peer.session()
        (answer,) = peer.take(SESSION_CHANNEL)
        self.assertEqual(getattr(answer, "error_code", None), 105)
