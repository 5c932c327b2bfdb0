"""The duplicate ids of a broker that leaves, to brokers that take them by management and to those that refuse them as Artemis does."""

from __future__ import annotations

import uuid
from typing import Any

from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import DivertConfiguration
from mqbroker.ha.duplicate_ids import as_parameter
from mqbroker.server.management.broker_control import BrokerControl
from mqbroker.server.management.registry import ManagementError, Operation
from mqclient.wire.message import KEY_BRIDGE_DUPLICATE_ID, KEY_DUPLICATE_ID
from mqclient.wire.properties import BYTES, STRING
from tests.unit.ha.test_scale_down import Leaving

NO_TEXT = b"\xff\xfe\x00"
BRIDGED = bytes(range(200, 232))


class DuplicateIdTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.pair = Leaving()
        self.asked: list[Any] = []
        self.told: list[str] = []

        def observer(event: dict[str, Any]) -> None:
            self.told.append(event.get("log_format", "").format(**event))

        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)

    def target_refuses_like_artemis(self) -> None:
        def refuse(control: BrokerControl, address: Any, ids: Any) -> None:
            self.asked.append((address, ids))
            if ids:
                raise ManagementError("java.lang.String")

        self.patch(BrokerControl, "OPERATIONS", {**BrokerControl.OPERATIONS, "updateDuplicateIdCache": Operation(refuse, 2)})

    def send_ids(self, address: str = "q") -> None:
        self.pair.sender.publish(b"a", address=address, properties={KEY_DUPLICATE_ID: (STRING, "once")})
        self.pair.sender.publish(b"b", address=address, properties={KEY_DUPLICATE_ID: (BYTES, NO_TEXT)})
        self.pair.sender.publish(b"c", address=address, properties={KEY_BRIDGE_DUPLICATE_ID: (BYTES, BRIDGED)})

    def leave(self) -> None:
        self.pair.find()
        self.pair.run()

    def known(self, cache: str = "q") -> set[bytes]:
        return set(self.pair.b.messaging.core.known_duplicate_ids(cache).ids() if cache in self.caches() else ())  # type: ignore[union-attr]

    def not_known(self) -> list[str]:
        return [line for line in self.told if "not known to the target" in line]

    def caches(self) -> set[str]:
        return {cache.name for cache in self.pair.b.messaging.core.duplicate_id_caches()}

    def test_every_id_is_known_to_a_broker_that_takes_them(self) -> None:
        self.send_ids()
        self.leave()
        self.assertEqual(self.known(), {"once".encode("utf-16-le"), NO_TEXT})
        self.assertIn(BRIDGED, self.known("BRIDGE.q"))
        self.assertEqual(self.pair.b.queue("q").message_count, 3)

    def test_ids_that_the_link_of_a_member_has_brought_stay_behind(self) -> None:
        member = bytes(range(16))
        self.pair.sender.create_queue(f"$.artemis.internal.sf.all.{uuid.UUID(bytes=member)}")
        for sender in (member, bytes(16)):
            self.pair.sender.publish(properties={KEY_BRIDGE_DUPLICATE_ID: (BYTES, sender + bytes(8))})
        self.leave()
        self.assertNotIn(member + bytes(8), self.known("BRIDGE.q"))
        self.assertIn(bytes(24), self.known("BRIDGE.q"))
        self.pair.receiver.publish(b"by the link to the target", properties={KEY_BRIDGE_DUPLICATE_ID: (BYTES, member + bytes(8))})
        self.assertEqual(self.pair.b.queue("q").message_count, 3)

    def test_every_id_is_known_to_a_broker_that_refuses_the_request(self) -> None:
        self.target_refuses_like_artemis()
        self.send_ids()
        self.leave()
        self.assertEqual(self.known(), {"once".encode("utf-16-le"), NO_TEXT})
        self.assertIn(BRIDGED, self.known("BRIDGE.q"))
        self.assertEqual(len(self.asked), 1, "one refusal is enough")
        self.assertEqual(self.pair.b.queue("q").message_count, 3, "what carries an id goes to no queue")
        self.assertEqual(self.not_known(), [])

    def test_a_message_with_the_same_id_is_refused_afterwards(self) -> None:
        self.target_refuses_like_artemis()
        self.send_ids()
        self.leave()
        self.pair.receiver.publish(b"again", properties={KEY_DUPLICATE_ID: (BYTES, NO_TEXT)})
        self.pair.receiver.publish(b"again", properties={KEY_DUPLICATE_ID: (STRING, "once")})
        self.pair.receiver.publish(b"another", properties={KEY_DUPLICATE_ID: (STRING, "other")})
        self.assertEqual(self.pair.b.queue("q").message_count, 4)

    def test_more_ids_than_one_batch_holds(self) -> None:
        self.target_refuses_like_artemis()
        for number in range(450):
            self.pair.sender.publish(properties={KEY_DUPLICATE_ID: (STRING, f"{number}")})
        self.leave()
        self.assertEqual(self.known(), {f"{number}".encode("utf-16-le") for number in range(450)})

    def test_ids_of_an_address_without_a_queue_there_are_named_in_one_bounded_line(self) -> None:
        self.target_refuses_like_artemis()
        self.pair.sender.create_queue("light", durable=False, filter_string="never = 1")
        for number in range(7):
            self.pair.sender.publish(address="light", properties={KEY_DUPLICATE_ID: (BYTES, bytes([255, number]))})
        self.leave()
        (line,) = self.not_known()
        self.assertIn("7 duplicate ids of light", line)
        self.assertIn("ff00, ff01, ff02, ff03, ff04, …", line)
        self.assertNotIn("ff05", line)
        self.assertNotIn("light", self.pair.b.messaging.core.addresses)

    def test_no_message_goes_where_an_exclusive_divert_would_take_it(self) -> None:
        self.target_refuses_like_artemis()
        self.pair.receiver.create_queue("elsewhere")
        self.pair.b.messaging.diverts.create(DivertConfiguration("caught", "q.#", ("elsewhere",), exclusive=True))
        self.pair.sender.publish(b"a", properties={KEY_DUPLICATE_ID: (STRING, "once")})
        self.pair.sender.publish(b"b", properties={KEY_DUPLICATE_ID: (STRING, "twice")})
        self.leave()
        self.assertEqual(sum(self.pair.b.queue(name).message_count for name in ("elsewhere", "q")), 2, "the two that were moved")
        self.assertEqual(len(self.not_known()), 1)

    def test_texts_are_texts_and_other_ids_lists_of_bytes(self) -> None:
        self.assertEqual([as_parameter(each) for each in (b"a\0", "ü".encode(), NO_TEXT)], ["a\0", "ü", [255, 254, 0]])
