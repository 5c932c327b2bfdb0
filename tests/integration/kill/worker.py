"""One client process of the kill test, COUNT clients in threads: `python -m tests.integration.kill.worker ROLE COUNT URL FOLDER PACE`.

Producers send at most one message each PACE ms, so that the queues stay short. They work until FOLDER/stop exists, the others until
FOLDER/all-consumed does; when a connection breaks they make a new one. Each logs to a file of its own in FOLDER what it did and what
the broker confirmed. Of several URLs, with blanks between them, each client has the one of its turn.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from mqclient import jms
from mqclient.errors import MQError
from mqclient.jms.xa import XAConnection, XAConnectionFactory, XAResource
from mqclient.xa import XAError, Xid
from tests.integration.kill.verdict import body_of, is_large, made_of, name_in

IN, OUT = "queue://kill.in", "queue://kill.out"
RECEIVE_MS = 200
ALL_CONSUMED = "all-consumed"
"""The file that says that the producers have ended, and the queues are empty."""
LOOKS = "looks"
"""The file that grows by a byte with each look: every client that receives answers `clear` when it has worked off what it held then."""
HELD_MAX = 20
"""Messages that a client holds at most, where there are looks."""
WINDOW = "consumerWindowSize=2000"
"""A client with this window holds no more: each message takes more than 100 bytes."""
SHOW_STACKS = signal.SIGUSR1
"""The signal that makes a client process write where each of its threads stands."""
PARAMETERS = "callTimeout=5000&blockOnAcknowledge=true"
PRODUCER_PARAMETERS = {
    0: "",
    1: "&reconnectAttempts=-1&retryInterval=50",
    2: "&reconnectAttempts=-1&retryInterval=50&confirmationWindowSize=100000",
}
USER, PASSWORD = "admin", "secret"


class Worker:
    """A thread of one role, with its log."""

    queue_in, queue_out = IN, OUT

    def __init__(self, name: str, number: int, url: str, folder: Path, pace_seconds: float) -> None:
        self.name = name
        self.number = number
        places = url.split()
        self.url = places[number % len(places)]
        self.folder = folder
        self.pace_seconds = pace_seconds
        self._stop = folder / "stop"
        self._all_consumed = folder / ALL_CONSUMED
        self._looks = folder / LOOKS
        self._looked = 0
        self._held = 0
        """The messages that the client may still hold since the last look."""
        self._log = os.open(folder / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._count = 0
        self._open: str | None = None
        self._decided: dict[Xid, str] = {}

    def log(self, verb: str, name: str) -> None:
        os.write(self._log, f"{time.monotonic_ns()} {verb} {name}\n".encode())

    def stopping(self) -> bool:
        return self._stop.exists()

    def all_consumed(self) -> bool:
        return self._all_consumed.exists()

    def with_connection(self, work: Callable[[jms.Connection], None], parameters: str = "") -> None:
        """Do `work` with a connection; when that breaks, again with a new one, until it ends by itself."""
        while True:
            try:
                with (
                    XAConnectionFactory(f"{self.url}{'&' if '?' in self.url else '?'}{PARAMETERS}{parameters}") as factory,
                    factory.create_xa_connection(USER, PASSWORD) as connection,
                ):
                    connection.start()
                    work(connection)
                    return
            except (jms.JMSException, MQError, XAError) as error:
                print(f"{self.name}: {error}", file=sys.stderr, flush=True)
                time.sleep(0.05)

    def connected(self, mode: int, work: Callable[[jms.Session], None], parameters: str = "") -> None:
        """The same with a session."""

        def with_session(connection: jms.Connection) -> None:
            with connection.create_session(mode) as session:
                work(session)

        self.with_connection(with_session, parameters)

    def produce(self, session: jms.Session) -> None:
        """Send until told to stop; what is not confirmed is sent again with the same duplicate id."""
        with session.create_producer(self.queue_in) as producer:
            while self._open is not None or not self.stopping():
                if self._open is None:
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

    def forward(self, session: jms.Session) -> None:
        """Make two messages of each, in a transaction."""
        with session.create_consumer(IN) as consumer, session.create_producer(OUT) as producer:
            while not self.all_consumed():
                name = self.receive(consumer)
                if name is None:
                    continue
                attempt = f"{name}/{self.name}.{self._count}"
                self._count += 1
                for part in made_of(attempt):
                    producer.send(body_of(part))
                self.log("commit", attempt)
                session.commit()
                self.log("committed", attempt)

    def forward_branches(self, connection: jms.Connection) -> None:
        """The same in branches of distributed transactions, of which this worker is the transaction manager; its log is the log of that."""
        assert isinstance(connection, XAConnection)
        with connection.create_xa_session() as session, session.create_consumer(IN) as consumer, session.create_producer(OUT) as producer:
            resource = session.xa_resource
            self.settle(resource)
            while not self.all_consumed():
                xid = Xid(1, f"{self.name}.{self._count}".encode())
                one_phase = self._count % 3 == 0
                self._count += 1
                resource.start(xid)
                name = self.receive(consumer)
                if name is None:
                    resource.end(xid)
                    resource.rollback(xid)
                    continue
                attempt = f"{name}/{xid.global_transaction_id.decode()}"
                for part in made_of(attempt):
                    producer.send(body_of(part))
                resource.end(xid)
                if not one_phase:
                    resource.prepare(xid)
                self.log("commit", attempt)
                self._decided = {xid: attempt}
                resource.commit(xid, one_phase)
                self.log("committed", attempt)
                self._decided = {}

    def settle(self, resource: XAResource) -> None:
        """What an earlier connection has left prepared is committed if that was decided, else rolled back."""
        for xid in resource.recover():
            if xid.global_transaction_id.startswith(f"{self.name}.".encode()):
                if xid in self._decided:
                    resource.commit(xid)
                    self.log("committed", self._decided[xid])
                else:
                    resource.rollback(xid)
                self.log("settled", xid.global_transaction_id.decode())
        self._decided = {}

    def consume(self, session: jms.Session) -> None:
        """Acknowledge each message, and wait for the broker's confirmation."""
        with session.create_consumer(self.queue_out) as consumer:
            while not self.all_consumed():
                name = self.receive(consumer, acknowledge=True)
                if name is not None:
                    self.log("acked", name)

    def receive(self, consumer: jms.MessageConsumer, *, acknowledge: bool = False, label: str = "") -> str | None:
        """Name of the next message, if one came within a moment; `label` stands before it in the log."""
        message = consumer.receive(timeout=RECEIVE_MS)
        self.answer_look(message is None)
        if message is None:
            return None
        assert isinstance(message, jms.TextMessage) and message.text is not None
        name = name_in(message.text)
        self.log("got", label + name)
        if message.text != body_of(name):
            self.log("damaged", label + name)
        if acknowledge:
            message.acknowledge()
        return name

    def answer_look(self, holds_nothing: bool) -> None:
        """Called after each receipt; ``holds_nothing``: it brought no message."""
        looks = self._looks.stat().st_size if self._looks.exists() else 0
        if looks != self._looked:
            self._looked, self._held = looks, HELD_MAX
        elif self._held:
            self._held = 0 if holds_nothing else self._held - 1
            if not self._held:
                self.log("clear", str(looks))

    def run(self, role: str) -> None:
        if role == "producer":
            parameters = PRODUCER_PARAMETERS[self.number % len(PRODUCER_PARAMETERS)]
            self.connected(jms.AcknowledgeMode.AUTO_ACKNOWLEDGE, self.produce, parameters)
        elif role == "transactor":
            self.connected(jms.AcknowledgeMode.SESSION_TRANSACTED, self.forward)
        elif role == "xa":
            self.with_connection(self.forward_branches)
        elif role == "consumer":
            self.connected(jms.AcknowledgeMode.CLIENT_ACKNOWLEDGE, self.consume)
        else:
            raise ValueError(f"there is no role {role!r}")


def main(arguments: Sequence[str], kind: type[Worker] = Worker) -> int:
    """The exit status is 1 when a client failed in a way that is no broken connection; that ends the process at once."""
    role, count, url, folder, pace_ms = arguments
    faulthandler.register(SHOW_STACKS, all_threads=True)
    workers = [kind(f"{role[0]}{number}", number, url, Path(folder), int(pace_ms) / 1000) for number in range(int(count))]
    with ThreadPoolExecutor(len(workers)) as pool:
        for done in as_completed([pool.submit(worker.run, role) for worker in workers]):
            if done.exception() is not None:
                traceback.print_exception(done.exception())
                os._exit(1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
