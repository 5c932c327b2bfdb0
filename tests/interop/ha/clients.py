"""Clients that follow a pair of brokers: unchanged Java ones, and mqclient, for the same programs."""

from __future__ import annotations

import threading
from typing import Protocol

from mqclient.jms import Connection, ConnectionFactory, JMSException, MessageConsumer, TransactionRolledBackException
from tests.interop.instance import PASSWORD, USER
from tests.interop.puppet import Puppet, PuppetError

FOLLOW = "ha=true&reconnectAttempts=-1&retryInterval=100&maxRetryInterval=200"
NOTICE = "connectionTTL=4000&clientFailureCheckPeriod=500&callTimeout=8000"
"""Clients notice within 4 s that their broker says nothing any more, and bear it when their machine stands still for less.

A call may not end before the broker does, which answers nothing for up to 5 s while it has no proof: Java clients before 2.7 would take
an answer that comes later for that of their next call, and count a message as acknowledged that is not.
"""
LOAD, WORK = "load", "work"
"""Parts of the names of queues."""
PAUSE_SECONDS = 0.001
"""Between two messages of the load, in Java, too."""
END_SECONDS = 20.0
"""Within which a send ends."""


class Client(Protocol):
    """Each has queues of its own, one for :data:`LOAD` and one for :data:`WORK`."""

    def connect(self, url: str) -> None: ...

    def close(self) -> None: ...

    def begin_load(self) -> None:
        """Send numbered messages until :meth:`end_load`, each once, whatever becomes of it."""

    def progress(self) -> int:
        """How many messages of the load are acknowledged so far."""

    def end_load(self) -> list[int]:
        """The numbers that were acknowledged."""

    def work(self, number: int) -> None:
        """Send a message in the open transaction."""

    def commit(self) -> bool:
        """False: the transaction was rolled back."""

    def take(self, part: str, count: int, ms: int) -> list[int]:
        """The numbers of up to ``count`` messages of a queue; each is waited for at most ``ms``."""


class JavaClient:
    def __init__(self, generation: str) -> None:
        self._name = generation
        self._java = Puppet(generation)
        self._load = 0
        self._consumers: set[str] = set()

    def __str__(self) -> str:
        return f"Java client {self._name}"

    def close(self) -> None:
        self._java.__exit__(None, None, None)

    def connect(self, url: str) -> None:
        self._java.connect("c", url)
        self._java.do("transacted", "t", on="c")

    def _queue(self, part: str) -> str:
        return f"queue://{part}.{self._name}"

    def begin_load(self) -> None:
        self._load = self._java.begin("load", "load", on="c", to=self._queue(LOAD))

    def progress(self) -> int:
        return int(self._java.do("progress", "looking", load="load"))

    def end_load(self) -> list[int]:
        self._java.do("enough", "looking", load="load")
        return list(self._java.end(self._load))

    def work(self, number: int) -> None:
        self._java.send("t", self._queue(WORK), first=number)

    def commit(self) -> bool:
        try:
            self._java.do("commit", "t")
        except PuppetError as error:
            assert "TransactionRolledBackException" in str(error), error
            return False
        return True

    def take(self, part: str, count: int, ms: int) -> list[int]:
        if part not in self._consumers:
            self._java.consume(part, "c", self._queue(part))
            self._consumers.add(part)
        return self._java.take(part, count, ms)


class PythonClient:
    def __init__(self) -> None:
        self._connection: Connection
        self._consumers: dict[str, MessageConsumer] = {}
        self._acknowledged: list[int] = []
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __str__(self) -> str:
        return "mqclient"

    def close(self) -> None:
        self._connection.close()

    def connect(self, url: str) -> None:
        self._connection = ConnectionFactory(url).create_connection(USER, PASSWORD)
        self._connection.start()
        self._session = self._connection.create_session(transacted=True)
        self._producer = self._session.create_producer(self._queue(WORK))

    def _queue(self, part: str) -> str:
        return f"queue://{part}.mqclient"

    def begin_load(self) -> None:
        self._thread.start()

    def _send(self) -> None:
        session = self._connection.create_session()
        producer = session.create_producer(self._queue(LOAD))
        number = -1
        while not self._enough.wait(PAUSE_SECONDS):
            number += 1
            try:
                producer.send(str(number))
            except JMSException:
                continue  # nobody knows what became of it
            self._acknowledged.append(number)

    def progress(self) -> int:
        return len(self._acknowledged)

    def end_load(self) -> list[int]:
        self._enough.set()
        self._thread.join(END_SECONDS)
        assert not self._thread.is_alive(), "a send does not end"
        return self._acknowledged

    def work(self, number: int) -> None:
        self._producer.send(str(number))
        # A question and its answer: one that is not written yet would be sent to the next broker, as a part of the next transaction.
        self._session.create_browser(self._queue(WORK)).close()

    def commit(self) -> bool:
        try:
            self._session.commit()
        except TransactionRolledBackException:
            return False
        return True

    def take(self, part: str, count: int, ms: int) -> list[int]:
        consumer = self._consumers.get(part)
        if consumer is None:
            consumer = self._consumers[part] = self._connection.create_session().create_consumer(self._queue(part))
        found: list[int] = []
        while len(found) < count and (message := consumer.receive(ms)) is not None:
            found.append(int(str(message.body)))
        return found
