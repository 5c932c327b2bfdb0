"""Broker processes that are killed while messages are on their way to another node."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.integration.cluster.processes import ProcessTestCase

COUNT = 100
WAIT_MS = 15_000


class KilledTests(ProcessTestCase):
    def subscribe(self) -> None:
        """A durable subscription on the second node, known to the first one."""
        session = self.connect(1, "me").create_session()
        session.create_durable_consumer(session.create_topic("topic"), "sub").close()
        probe = self.connect(0).create_session()
        producer = probe.create_producer(probe.create_topic("topic"))
        consumer = session.create_durable_consumer(session.create_topic("topic"), "sub")
        deadline = time.monotonic() + WAIT_MS / 1000
        sent = 0
        while (message := consumer.receive(50)) is None:
            assert time.monotonic() < deadline, "the subscription is not known to the other node"
            sent += 1
            producer.send(probe.create_text_message(f"probe {sent}"))
        # Since it is known all probes come; those that are on their way would else be found by the test.
        while message.text != f"probe {sent}":  # type: ignore[attr-defined]
            message = consumer.receive(WAIT_MS)
            assert message is not None, "a probe is lost"
        self.close()

    def send(self, then: Callable[[int], None] = lambda number: None) -> None:
        session = self.connect(0).create_session()
        producer = session.create_producer(session.create_topic("topic"))
        for number in range(COUNT):
            producer.send(session.create_text_message(f"m{number:03}"))
            then(number)

    def received(self) -> list[str]:
        session = self.connect(1, "me").create_session()
        consumer = session.create_durable_consumer(session.create_topic("topic"), "sub")
        found = []
        while (message := consumer.receive(WAIT_MS if len(found) < COUNT else 300)) is not None:
            found.append(str(message.text))  # type: ignore[attr-defined]
        return found

    def test_the_target_is_killed(self) -> None:
        self.subscribe()
        self.send(lambda number: self.brokers[1].kill() if number == COUNT // 2 else None)
        self.close()
        self.brokers[1] = self.start(1)
        self.assertEqual(self.received(), [f"m{number:03}" for number in range(COUNT)])

    def test_the_sender_is_killed(self) -> None:
        self.subscribe()
        self.brokers[1].kill()
        self.send()
        self.brokers[1] = self.start(1)
        self.brokers[0].kill()
        self.brokers[0] = self.start(0)
        self.assertEqual(self.received(), [f"m{number:03}" for number in range(COUNT)])
