"""Home brokers under load, one of them killed in each round: nothing confirmed is lost, and nothing is settled twice."""

from __future__ import annotations

import threading
import time
from collections import Counter
from random import Random

from mqclient.jms import AcknowledgeMode, ConnectionFactory, JMSException
from tests.integration.imq.members import Members

ROUNDS = 4
MESSAGES = 60
"""Of each producer and round."""
QUIET_MS = 3000
"""No message for so long: there is none left.  Longer than messages wait for a slow consumer."""


class _Consumer(threading.Thread):
    """Consumes at one member, and connects again when that was killed.  ``events`` are ("got" or "acked", name), of all in one order."""

    def __init__(self, url: str, events: list[tuple[str, str]], stopping: threading.Event) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._events = events
        self._stopping = stopping
        self.quiet = False

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                with ConnectionFactory(self._url) as factory:
                    context = factory.create_context(session_mode=AcknowledgeMode.CLIENT_ACKNOWLEDGE)
                    self._consume(context, context.create_consumer(context.create_queue("load")))
            except JMSException:
                self._stopping.wait(0.2)

    def _consume(self, context, consumer) -> None:  # type: ignore[no-untyped-def]
        while not self._stopping.is_set():
            message = consumer.receive(QUIET_MS)
            self.quiet = message is None
            if message is not None:
                self._events.append(("got", message.text))
                context.acknowledge()
                self._events.append(("acked", message.text))


class KillTests(Members):
    def test_rounds(self) -> None:
        random = Random(1)
        events: list[tuple[str, str]] = []
        stopping = threading.Event()
        options = "&blockOnAcknowledge=true&callTimeout=5000&consumerWindowSize=20000"
        consumers = [_Consumer(self.url(number, options), events, stopping) for number in range(3)]
        for consumer in consumers:
            consumer.start()
        confirmed: set[str] = set()
        for turn in range(ROUNDS):
            senders = [threading.Thread(target=self.send, args=(number, turn, confirmed), daemon=True) for number in range(3)]
            for sender in senders:
                sender.start()
            victim = random.randrange(3)
            self.until(lambda turn=turn: len(confirmed) > (turn * 3 + 0.5) * MESSAGES / 2, "the load goes on")  # type: ignore[misc]
            self.members.kill(victim)
            for sender in senders:
                sender.join(30)
            self.members.restart(victim)
        self.until(lambda: all(consumer.quiet for consumer in consumers) and confirmed <= {name for _, name in events}, "all is consumed")
        stopping.set()
        for consumer in consumers:
            consumer.join(30)
        self.judge(events, confirmed)

    def send(self, number: int, turn: int, confirmed: set[str]) -> None:
        """Send durable messages, each with its confirmation, as long as the broker lives."""
        try:
            with ConnectionFactory(self.url(number)) as factory:
                context = factory.create_context()
                producer, queue = context.create_producer(), context.create_queue("load")
                for message in range(MESSAGES):
                    producer.send(queue, f"{turn}-{number}-{message}")
                    confirmed.add(f"{turn}-{number}-{message}")
                    time.sleep(0.002)
        except JMSException:
            return

    def judge(self, events: list[tuple[str, str]], confirmed: set[str]) -> None:
        acknowledged = Counter(name for verb, name in events if verb == "acked")
        # One that a client still had when the link to its home was lost may be seen again, but not be settled again.
        self.assertEqual([name for name, count in acknowledged.items() if count > 1], [])
        self.assertEqual(confirmed - {name for _, name in events}, set())
        self.assertGreater(len(acknowledged), ROUNDS * MESSAGES)
