"""The clients of the paged addresses: `python -m tests.integration.kill.paged ROLE COUNT URL FOLDER PACE`.

Role `hoarder`: producers, faster than the consumers; 0 fills a queue, 1 a topic, 2 the topic in transactions. Role `lagger`: 0 takes from
the queue in transactions, some of which it rolls back; 1 and 2 are durable subscriptions of the topic, of which 2 does the same as 0 and
stays behind. All follow one tide: while it rises the producers send and the slow consumers take little; while it falls the consumers
catch up. So the addresses go in and out of paging, and never hold much.
"""

from __future__ import annotations

import sys
import time

from mqclient import jms
from tests.integration.kill.deliveries import BATCH
from tests.integration.kill.verdict import body_of, is_large
from tests.integration.kill.worker import PRODUCER_PARAMETERS, Worker, main

QUEUE, TOPIC = "queue://paged.queue", "topic://paged.topic"
TIDE_SECONDS = 8.0
RISING_SECONDS = 5.0
SLOW_SECONDS = 0.5  # between two transactions of a slow consumer while the tide rises
BATCH_SECONDS = 0.2  # between two sending transactions, so that the subscription that acknowledges each message can catch up
TAKEN = 6  # messages of a receiving transaction
ROLLED_BACK_EVERY = 7
SUBSCRIPTIONS = 2
CONSUMERS = 3


def rising() -> bool:
    """The monotonic clock is that of the machine, so the processes agree."""
    return time.monotonic() % TIDE_SECONDS < RISING_SECONDS


class PagedWorker(Worker):
    """A thread of one role."""

    def run(self, role: str) -> None:
        modes = jms.AcknowledgeMode
        if role == "hoarder" and self.number == 2:
            self._wait_for_subscribers()
            self.connected(modes.SESSION_TRANSACTED, self.hoard_batches)
        elif role == "hoarder":
            self._wait_for_subscribers()
            where = TOPIC if self.number else QUEUE
            parameters = PRODUCER_PARAMETERS[2 * self.number]
            self.connected(modes.AUTO_ACKNOWLEDGE, lambda session: self.hoard(session, where), parameters)
        elif role == "lagger" and self.number == 1:
            self.connected(modes.CLIENT_ACKNOWLEDGE, self.keep_up)
        elif role == "lagger":
            self.connected(modes.SESSION_TRANSACTED, self.lag)
        else:
            raise ValueError(f"there is no role {role!r}")

    def _wait_for_subscribers(self) -> None:
        """What is published before the first subscription exists is for nobody."""
        while len(list(self.folder.glob("subscribed-*"))) < SUBSCRIPTIONS and not self.stopping():
            time.sleep(0.1)

    def _ebb(self) -> None:
        """When the tide has fallen, wait until every consumer has found nothing more and the tide rises again, or the end.

        So the backlog has a bound on a slow machine, too.
        """
        if rising():
            return
        fell = time.time()
        while not self.stopping() and not (rising() and self._caught_up_since(fell)):
            time.sleep(0.05)

    def _caught_up_since(self, moment: float) -> bool:
        marks = [self.folder / f"empty-{number}" for number in range(CONSUMERS)]
        return all(mark.exists() and mark.stat().st_mtime > moment for mark in marks)

    def take(self, consumer: jms.MessageConsumer, *, acknowledge: bool = False) -> str | None:
        """As `receive`; leaves a mark for the producers when nothing came."""
        name = self.receive(consumer, acknowledge=acknowledge, label=f"{self.name}>")
        if name is None:
            (self.folder / f"empty-{self.number}").touch()
        return name

    def hoard(self, session: jms.Session, where: str) -> None:
        """As a producer of the kill test, while the tide rises."""
        with session.create_producer(where) as producer:
            while self._open is not None or not self.stopping():
                if self._open is None:
                    self._ebb()
                    self._open = f"{self.name}-{self._count}"
                    self._count += 1
                message = session.create_text_message(body_of(self._open))
                message.properties["_AMQ_DUPL_ID"] = self._open
                self.log("try", self._open)
                producer.send(message)
                self.log("sent", self._open)
                if is_large(self._open):
                    self.log("large", self._open)
                self._open = None
                time.sleep(self.pace_seconds)

    def hoard_batches(self, session: jms.Session) -> None:
        """Some messages in each transaction; what becomes of one whose commit was not confirmed is left open, none is repeated."""
        with session.create_producer(TOPIC) as producer:
            while not self.stopping():
                self._ebb()
                names = [f"{self.name}-{self._count * BATCH + number}" for number in range(BATCH)]
                self._count += 1
                for name in names:
                    self.log("try", name)
                for name in names:
                    producer.send(body_of(name))
                self.log("commit", names[0])
                session.commit()
                for name in names:
                    self.log("sent", name)
                time.sleep(BATCH_SECONDS)

    def keep_up(self, session: jms.Session) -> None:
        """Acknowledge each message of the subscription, and wait for the broker's confirmation."""
        label = f"{self.name}>"
        with self._subscription(session) as consumer:
            while not self.all_consumed():
                name = self.take(consumer, acknowledge=True)
                if name is not None:
                    self.log("acked", label + name)

    def lag(self, session: jms.Session) -> None:
        """Take some messages in each transaction; roll some of these back; slowly while the tide rises."""
        label = f"{self.name}>"
        with session.create_consumer(QUEUE) if self.number == 0 else self._subscription(session) as consumer:
            while not self.all_consumed():
                names = []
                while len(names) < TAKEN:
                    name = self.take(consumer)
                    if name is None:
                        break
                    names.append(name)
                self._count += 1
                if names and self._count % ROLLED_BACK_EVERY == 0:
                    session.rollback()
                    self.log("rolled", label + names[0])
                elif names:
                    self.log("commit", label + names[0])
                    session.commit()
                    for name in names:
                        self.log("acked", label + name)
                if rising() and not self.stopping():
                    time.sleep(SLOW_SECONDS)

    def _subscription(self, session: jms.Session) -> jms.MessageConsumer:
        consumer = session.create_shared_durable_consumer(TOPIC.removeprefix("topic://"), f"paged-subscription-{self.number}")
        (self.folder / f"subscribed-{self.number}").touch()
        return consumer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], PagedWorker))
