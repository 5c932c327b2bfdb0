"""Broker processes that are killed while one gives its messages to the other."""

from __future__ import annotations

import time

from tests.integration.brokers import Broker
from tests.integration.cluster.processes import ProcessTestCase

COUNT = 3_000
WAIT_MS = 15_000
SCALE_DOWN = """<ha-policy><primary-only><scale-down>
<commit-interval>50</commit-interval><connectors><connector-ref>other</connector-ref></connectors>
</scale-down></primary-only></ha-policy>
</core>"""


class KilledTests(ProcessTestCase):
    def configuration(self, number: int) -> str:
        text = super().configuration(number)
        return text.replace("</core>", SCALE_DOWN) if number == 0 else text

    def fill(self) -> list[str]:
        session = self.connect(0).create_session(transacted=True)
        producer = session.create_producer(session.create_queue("q"))
        texts = [f"m{number:04}" for number in range(COUNT)]
        for text in texts:
            producer.send(session.create_text_message(text))
        session.commit()
        self.close()
        return texts

    def taken(self) -> list[str]:
        session = self.connect(1).create_session()
        consumer = session.create_consumer(session.create_queue("q"))
        found = []
        while (message := consumer.receive(WAIT_MS if len(found) < COUNT else 300)) is not None:
            found.append(str(message.text))  # type: ignore[attr-defined]
        return found

    def begin_to_leave(self) -> None:
        """Returns when messages are on their way."""
        broker: Broker = self.brokers[0]
        broker._process.terminate()
        session = self.connect(1).create_session()
        browser = session.create_browser(session.create_queue("q"))
        deadline = time.monotonic() + 10
        while not any(True for _ in browser):
            assert time.monotonic() < deadline, "no message has come to the other broker"
            time.sleep(0.02)
        self.close()

    def test_the_one_that_leaves_is_killed_on_the_way(self) -> None:
        texts = self.fill()
        self.begin_to_leave()
        self.brokers[0].kill()
        self.brokers[0] = self.start(0)
        self.brokers[0].stop()
        self.assertEqual(self.taken(), texts)

    def test_the_target_is_killed_on_the_way(self) -> None:
        texts = self.fill()
        self.begin_to_leave()
        self.brokers[1].kill()
        self.brokers[1] = self.start(1)
        self.brokers[0]._process.wait(60)
        self.assertEqual(self.taken(), texts)
