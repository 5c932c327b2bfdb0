"""Clients of home brokers: `python -m tests.integration.ha.failures.home_worker ROLE COUNT URL FOLDER PACE`.

They are those of the kill test, but that a transaction takes several messages, from several homes.  A further role `definer` makes durable
subscriptions one after the other, and removes each when the next one is there.
"""

from __future__ import annotations

import contextlib
import sys
import time

from mqclient import jms
from tests.integration.kill.verdict import body_of, made_of
from tests.integration.kill.worker import IN, OUT, Worker, main

TAKEN = 4
"""Messages of a transaction."""
TOPIC = "defined"
GONE = "gone"
"""In the logs: a subscription that was made (``sent``) is removed."""


class HomeWorker(Worker):
    """A thread of one role."""

    _former: str | None = None

    def forward(self, session: jms.Session) -> None:
        with session.create_consumer(IN) as consumer, session.create_producer(OUT) as producer:
            while not self.all_consumed():
                names: list[str] = []
                while len(names) < TAKEN and (name := self.receive(consumer)) is not None:
                    names.append(name)
                attempts = [f"{name}/{self.name}.{self._count}" for name in names]
                self._count += 1
                for attempt in attempts:
                    for part in made_of(attempt):
                        producer.send(body_of(part))
                    self.log("commit", attempt)
                session.commit()
                for attempt in attempts:
                    self.log("committed", attempt)

    def define(self, session: jms.Session) -> None:
        """A change that was not confirmed is made again, until the subscription is there, or gone."""
        while self._open is not None or not self.stopping():
            if self._open is None:
                self._open = f"{self.name}-{self._count}"
                self._count += 1
            self.log("try", self._open)
            session.create_shared_durable_consumer(TOPIC, self._open).close()
            self.log("sent", self._open)
            if self._former is not None:
                with contextlib.suppress(jms.InvalidDestinationException):  # it is gone since the last attempt
                    session.unsubscribe(self._former)
                self.log(GONE, self._former)
            self._former, self._open = self._open, None
            time.sleep(self.pace_seconds)

    def run(self, role: str) -> None:
        if role == "definer":
            self.connected(jms.AcknowledgeMode.AUTO_ACKNOWLEDGE, self.define)
        else:
            super().run(role)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], HomeWorker))
