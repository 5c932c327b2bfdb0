"""Clients with ``exactlyOnce``: `python -m tests.integration.ha.failures.once_worker ROLE COUNT URL FOLDER PACE`.

They do what those of the kill test do, without any code for failures: no id, no second attempt, no new connection. An error of a send or
commit ends the process, and with it the run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from mqclient import jms
from tests.integration.ha.failures.verdict import UNDONE
from tests.integration.kill.verdict import body_of, made_of
from tests.integration.kill.worker import PARAMETERS, PASSWORD, USER, Worker, main

ONCE = "exactlyOnce=true&initialConnectAttempts=-1"
"""A broker may be killed while the first connection is made."""


class OnceWorker(Worker):
    queue_in, queue_out = "queue://kill.once.in", "queue://kill.once.out"

    def connected(self, mode: int, work: Callable[[jms.Session], None], parameters: str = "") -> None:
        with (
            jms.ConnectionFactory(f"{self.url}&{PARAMETERS}&{ONCE}") as factory,
            factory.create_connection(USER, PASSWORD) as connection,
            connection.create_session(mode) as session,
        ):
            connection.start()
            work(session)

    def produce(self, session: jms.Session) -> None:
        with session.create_producer(self.queue_in) as producer:
            while not self.stopping():
                name = f"{self.name}-{self._count}"
                self._count += 1
                self.log("try", name)
                producer.send(body_of(name))
                self.log("sent", name)
                time.sleep(self.pace_seconds)

    def forward(self, session: jms.Session) -> None:
        attempt = ""
        with session.create_consumer(self.queue_in) as consumer, session.create_producer(self.queue_out) as producer:

            def move(session: jms.Session) -> None:
                nonlocal attempt
                if attempt:
                    self.log(UNDONE, attempt)
                attempt = ""
                name = self.receive(consumer)
                if name is None:
                    return
                attempt = f"{name}/{self.name}.{self._count}"
                self._count += 1
                for part in made_of(attempt):
                    producer.send(body_of(part))
                self.log("commit", attempt)

            while not self.all_consumed():
                session.transaction(move)
                if attempt:
                    self.log("committed", attempt)
                attempt = ""

    def consume(self, session: jms.Session) -> None:
        """Receiving outside of transactions is at least once: nobody knows of an acknowledgement whose answer is lost."""
        with session.create_consumer(self.queue_out) as consumer:
            while not self.all_consumed():
                try:
                    name = self.receive(consumer, acknowledge=True)
                except jms.JMSException:
                    if session.closed:
                        raise
                else:
                    if name is not None:
                        self.log("acked", name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], OnceWorker))
