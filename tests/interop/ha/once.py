"""Programs with ``exactlyOnce``, in every shell, that go on over failovers of a pair: whatever they do takes effect once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import mqclient.asyncio
import mqclient.sockets
import mqclient.twisted
from mqclient.blocking import get_runner
from mqclient.core.api import ClientMessage, ClientSession, QueueConfiguration
from mqclient.core.factories.locator import Locator
from mqclient.core.runtime import Runtime, sleep
from mqclient.jms import BytesMessage, ConnectionFactory, Session
from tests.interop.ha.following import go_on
from tests.interop.instance import PASSWORD, USER

EXACTLY_ONCE = "exactlyOnce=true&minLargeMessageSize=10000"
TRANSACTION = 4
"""Messages of one transaction."""
LARGE_EACH, LARGE_SIZE = 5, 30_000
"""One message in so many is as large as that."""
PAUSE_SECONDS = 0.005
LONG_PAUSE_SECONDS = 0.1
"""For Java brokers, whose replica does not come into sync under too much load."""
END_SECONDS = 60.0


class Program:
    """Sends messages alone, others in transactions, and moves these in transactions of their own, until :meth:`stop`.

    Each has queues of its own.
    """

    def __init__(self, name: str, pause: float) -> None:
        self.name = name
        self.pause = pause
        """Seconds between two turns."""
        self.single, self.batch, self.moved = (f"once.{part}.{name}" for part in ("single", "batch", "moved"))
        self.turns = 0
        self.found: dict[str, list[int]] = {}
        """What the queues have in the end, by their names."""
        self._enough = threading.Event()
        self._error: BaseException | None = None
        self._thread: threading.Thread

    def __str__(self) -> str:
        return f"exactlyOnce with {self.name}"

    def run(self, url: str) -> None:
        """Take turns while :meth:`goes_on`, and receive everything then."""
        raise NotImplementedError

    def goes_on(self) -> bool:
        return not self._enough.is_set()

    def begin(self, url: str) -> None:
        def run() -> None:
            try:
                self.run(url)
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def progress(self) -> int:
        """Turns so far."""
        if self._error is not None:
            raise AssertionError(f"{self} has ended") from self._error
        return self.turns

    def stop(self) -> None:
        """Take no more turns, and receive everything."""
        self._enough.set()

    def wait(self) -> None:
        """Returns when everything is received."""
        self._thread.join(END_SECONDS)
        assert not self._thread.is_alive(), f"{self} does not end"
        self.progress()

    def check(self) -> None:
        """What was sent alone is there once and in its order, and what was moved is there once."""
        assert self.found[self.single] == [*range(self.turns)], f"{self}: {_differences(self.found[self.single], self.turns)}"
        moved, count = self.found[self.moved], self.turns * TRANSACTION
        outcome = f"not moved: {self.found[self.batch]}; moved: {_differences(moved, count)}"
        assert (self.found[self.batch], sorted(moved)) == ([], [*range(count)]), f"{self}, {outcome}"

    @staticmethod
    def body(number: int) -> bytes:
        return b"%d" % number + b" " * (LARGE_SIZE if number % LARGE_EACH == 0 else 0)


class CoreProgram(Program):
    """``start`` runs a program of the core API in one of the shells."""

    def __init__(self, name: str, pause: float, start: Callable[[CoreProgram, str], None]) -> None:
        super().__init__(name, pause)
        self._start = start

    def run(self, url: str) -> None:
        self._start(self, url)

    async def work(self, locator: Locator) -> None:
        async with locator, await locator.create_session_factory() as factory:
            session = await factory.create_session(USER, PASSWORD)
            for name in (self.single, self.batch, self.moved):
                await session.create_queue(QueueConfiguration(name=name), if_missing=True)
            transacted = await factory.create_session(USER, PASSWORD, auto_commit_sends=False, auto_commit_acks=False)
            await self._take_turns(session, transacted, locator.runtime)
            await transacted.close()
            for name in (self.single, self.batch, self.moved):
                self.found[name] = await self._receive(session, name)

    async def _take_turns(self, session: ClientSession, transacted: ClientSession, runtime: Runtime) -> None:
        single = await session.create_producer(self.single)
        producer = await transacted.create_producer()
        consumer = await transacted.create_consumer(self.batch)
        await transacted.start()

        async def move(session: ClientSession) -> None:
            for _ in range(TRANSACTION):
                received = await consumer.receive()
                assert received is not None
                await producer.send(self._message(session, await _body(received)), self.moved)
                await consumer.acknowledge(received)

        while self.goes_on():
            await single.send(self._message(session, self.body(self.turns)))
            for number in range(self.turns * TRANSACTION, (self.turns + 1) * TRANSACTION):
                await producer.send(self._message(transacted, self.body(number)), self.batch)
            await transacted.commit()
            await transacted.transaction(move)
            self.turns += 1
            await sleep(runtime, self.pause)

    @staticmethod
    def _message(session: ClientSession, body: bytes) -> ClientMessage:
        message = session.create_message()
        message.body = body
        return message

    @staticmethod
    async def _receive(session: ClientSession, name: str) -> list[int]:
        consumer = await session.create_consumer(name)
        await session.start()
        found = []
        while (received := await consumer.receive(0)) is not None:
            found.append(int(await _body(received)))
        await consumer.close()
        return found


class JmsProgram(Program):
    def run(self, url: str) -> None:
        with ConnectionFactory(url) as factory, factory.create_connection(USER, PASSWORD) as connection:
            connection.start()
            session, transacted = connection.create_session(), connection.create_session(transacted=True)
            self._take_turns(session, transacted)
            transacted.close()
            for name in (self.single, self.batch, self.moved):
                self.found[name] = self._receive(session, name)

    def _take_turns(self, session: Session, transacted: Session) -> None:
        single = session.create_producer(f"queue://{self.single}")
        batch, moved = (transacted.create_producer(f"queue://{name}") for name in (self.batch, self.moved))
        consumer = transacted.create_consumer(f"queue://{self.batch}")

        def move(session: Session) -> None:
            for _ in range(TRANSACTION):
                received = consumer.receive()
                assert isinstance(received, BytesMessage)
                moved.send(bytes(received.data))

        while self.goes_on():
            single.send(self.body(self.turns))
            for number in range(self.turns * TRANSACTION, (self.turns + 1) * TRANSACTION):
                batch.send(self.body(number))
            transacted.commit()
            transacted.transaction(move)
            self.turns += 1
            self._enough.wait(self.pause)

    @staticmethod
    def _receive(session: Session, name: str) -> list[int]:
        found = []
        with session.create_consumer(f"queue://{name}") as consumer:
            while (received := consumer.receive_no_wait()) is not None:
                assert isinstance(received, BytesMessage)
                found.append(int(received.data))
        return found


def follow_exactly_once(url: str, programs: Sequence[Program], events: Sequence[Callable[[], None]]) -> None:
    """As :func:`tests.interop.ha.following.follow`, of programs that need not know of the events."""
    for program in programs:
        program.begin(f"{url}&{EXACTLY_ONCE}")
    for event in events:
        go_on(programs)
        event()
    go_on(programs)
    for program in programs:
        program.stop()
    for program in programs:
        program.wait()
    for program in programs:
        program.check()


def in_all_shells(pause: float = PAUSE_SECONDS) -> list[Program]:
    shells = {"asyncio": _asyncio, "sockets": _sockets, "Twisted": _twisted}
    return [*(CoreProgram(name, pause, start) for name, start in shells.items()), JmsProgram("JMS", pause)]


def _asyncio(program: CoreProgram, url: str) -> None:
    async def run() -> None:
        await program.work(mqclient.asyncio.server_locator(url))

    asyncio.run(run())


def _sockets(program: CoreProgram, url: str) -> None:
    with mqclient.sockets.SocketRuntime() as runtime:
        runtime.run(runtime.spawn(program.work(mqclient.sockets.server_locator(url, runtime=runtime))))


def _twisted(program: CoreProgram, url: str) -> None:
    runner = get_runner()
    runner.call(lambda: program.work(mqclient.twisted.server_locator(url, reactor=runner.reactor)))


async def _body(message: ClientMessage) -> bytes:
    return message.body if message.large is None else await message.large.read()


def _differences(found: Sequence[int], count: int) -> str:
    twice = sorted({number for number in found if found.count(number) > 1})
    missing = sorted(set(range(count)) - set(found))
    return f"of {count}: missing {missing[:10]}, twice {twice[:10]}, {'in' if [*found] == sorted(found) else 'not in'} order"
