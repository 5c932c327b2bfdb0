"""The broker does what the recorded Artemis broker did: every single-broker conversation of ``protocol-spec/vectors`` is played to it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import AddressConfiguration, Configuration, QueueConfiguration
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST
from mqbroker.server.transport.naming import Naming
from tests.support.broker import World
from tests.unit.mqclient.wire.vectors import VECTORS
from tests.unit.server.replay import RecordedClock, Replay
from tests.unit.storage.support import Rig

NO_AUTO_DELETE = {"auto_delete_queues": False, "auto_delete_addresses": False}
NO_AUTO_CREATE = {"auto_create_queues": False, "auto_create_addresses": False}
SETTINGS: dict[str, dict[str, Any]] = {
    "#": {**NO_AUTO_DELETE, "dead_letter_address": "DLQ", "expiry_address": "ExpiryQueue"},
    "noauto.#": NO_AUTO_CREATE,
    "v.dla.#": {"max_delivery_attempts": 2, "dead_letter_address": "DLQ"},
    "v.full.block": {"address_full_policy": "BLOCK", "max_size_bytes": 4000},
    "v.full.fail": {"address_full_policy": "FAIL", "max_size_bytes": 4000},
    "v.full.fail2": {"address_full_policy": "FAIL", "max_size_bytes": 4000},
    "v.slow.#": {"slow_consumer_policy": "KILL", "slow_consumer_threshold": 10, "slow_consumer_check_period": 1},
}
"""The recorded broker's settings: what the README and the notes of the files name."""

EXPECTED_DIFFERENCES: dict[str, list[tuple[str, str]]] = {
    "core-broker-made-large": [("recorded .*SESS_RECEIVE_(LARGE_MSG|CONTINUATION)", "this journal takes records of any size")],
    "core-management": [("number 8: .*addressFullMessagePolicy", "the address settings of the recorded broker said more")],
    "core-admin": [
        ("answers number 33: EXCEPTION: message recorded None", "the recorded broker gives no text"),
    ],
    "core-confirmation-after-exception": [
        ("EXCEPTION: message recorded None", "the recorded broker gives no text"),
        ("confirmed number 1: ", "a request that fails is counted here, so that both ends go on with the same numbers"),
    ],
    "duplicate-detection": [("EXCEPTION: message recorded None, here 'AMQ222059'", "the text names the code that is also logged")],
    "core-slow-consumer-kill": [("consumer 0 number 13: recorded None", "here nobody is judged by a part of a check period")],
    "core-tx-acks": [("consumer 1 number 2: recorded None", "the recorded consumer closed while it was being served")],
    "jms-2.44.0/listener": [
        ("consumer 0 number [345]: ", "in the recording a message was delivered after the stop of another session, not before")
    ],
    "jms-2.6.4/topic-shared": [
        ("answers number 7: .*queue_names", "the recorded broker removed the subscription a moment after its last consumer")
    ],
    "jms-1.5.6/msg-headers": [("address recorded 'jms.queue.jms.tempqueue", "a name with prefix gets no second one here")],
    "jms-1.5.6/request-reply-temp-queue": [("address recorded 'jms.queue.jms.tempqueue", "a name with prefix gets no second one here")],
    "jms-1.5.6/recreate": [
        ("address recorded 'v.recreate', here 'jms.queue.v.recreate'", "the recorded broker looked for the metadata too early")
    ],
    "jms-1.5.6/broker-restart": [
        ("address recorded 'v.restart', here 'jms.queue.v.restart'", "the recorded broker looked for the metadata too early")
    ],
}
"""By scenario, or folder and scenario: what is different on purpose, or by chance in the recording, and why."""


def naming_of(path: Path) -> Naming | None:
    """The acceptor of the oldest clients had prefixes."""
    return Naming(("jms.queue.",), ("jms.topic.",)) if path.parent.name == "jms-1.5.6" else None


def configuration(path: Path) -> Configuration:
    addresses = [
        AddressConfiguration(
            name, frozenset((ANYCAST,)), [QueueConfiguration(name=name, address=name, routing_type=ANYCAST, configuration_managed=True)]
        )
        for name in ("DLQ", "ExpiryQueue")
    ]
    if path.parent.name == "jms-1.5.6" and path.stem == "topic-shared":
        # These clients can share a subscription only on an address that exists.
        addresses.append(AddressConfiguration("v.shr.news", frozenset((MULTICAST,))))
    return Configuration(address_settings=SETTINGS, addresses=addresses)


def play(path: Path) -> list[str]:
    """The differences between what was recorded and what this broker does."""
    if path.stem not in ("broker-restart", "broker-shutdown"):
        return Replay(path, lambda clock: World(configuration(path), clock=clock), naming_of(path)).run()
    rig = Rig()

    def make_world(clock: RecordedClock) -> World:
        recovered = rig.start()
        return World(configuration(path), clock=clock, store=rig.store, recovered=recovered)

    replay = Replay(path, make_world, naming_of(path))

    def restart() -> World:
        replay.world.messaging.stop()
        rig.stop()
        return make_world(replay.clock)

    replay.restart = restart
    replay.settle = rig.settle
    return replay.run()


class ConversationTests(SynchronousTestCase):
    def check(self, folder: str) -> None:
        paths = sorted((VECTORS / folder).glob("*.json"))
        self.assertGreater(len(paths), 20)
        for path in paths:
            expected = EXPECTED_DIFFERENCES.get(path.stem, []) + EXPECTED_DIFFERENCES.get(f"{folder}/{path.stem}", [])
            problems = play(path)
            surprises = [problem for problem in problems if not any(re.search(pattern, problem) for pattern, _ in expected)]
            self.assertEqual(surprises, [], f"{folder}/{path.stem}")
            stale = [pattern for pattern, _ in expected if not any(re.search(pattern, problem) for problem in problems)]
            self.assertEqual(stale, [], f"{folder}/{path.stem}: these differences are no longer there")

    def test_newest_clients(self) -> None:
        self.check("jms-2.44.0")

    def test_newest_jakarta_clients(self) -> None:
        self.check("jakarta-2.44.0")

    def test_clients_of_version_131(self) -> None:
        self.check("jms-2.19.1")

    def test_clients_of_version_129(self) -> None:
        self.check("jms-2.6.4")

    def test_clients_with_the_old_message_layout(self) -> None:
        self.check("jms-1.5.6")
