"""Two brokers in memory, joined by the production client: bytes move when the test stirs, and a link can be cut at any byte."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from mqbroker.cluster.links.bridge import Bridge
from mqbroker.cluster.links.forwarder import Forwarder, ForwardingSettings
from mqbroker.cluster.links.outgoing import Outgoing
from mqbroker.config.model.cluster import BridgeConfiguration
from mqbroker.messaging.message.message import Message
from mqclient.core.factories.factory import SessionFactory
from mqclient.core.runtime import LinkHandler
from mqclient.core.session.session import Session
from mqclient.errors import MQError, NotConnectedError
from mqclient.protocol.connection import DisconnectReceived
from mqclient.protocol.topology import Topology
from mqclient.wire.message import decode_message
from mqclient.wire.primitives import TransportConfiguration
from tests.support.broker import World
from tests.support.clock import FakeClock

T = TypeVar("T")
NODE_ID = bytes(range(16))
HIGH_WATER = 64 * 1024


def connector(port: int | str = 1, name: str = "target") -> TransportConfiguration:
    return TransportConfiguration(name, "netty", (("host", "broker"), ("port", str(port))))


def bridge_settings(**values: Any) -> BridgeConfiguration:
    return BridgeConfiguration("bridge", "q", **values)


class MemoryLink:
    """One connection; both its ends keep what they write until the network is stirred."""

    def __init__(self, handler: LinkHandler, world: World, port: str) -> None:
        self.peer = f"broker:{port}"
        self.port = port
        self.handler = handler
        self.open = True
        self.silent = False
        self.to_broker = bytearray()
        self.to_client = bytearray()
        self.carried = 0
        """Bytes that have arrived, in both directions."""
        self.cut_at: int | None = None
        self.paused = False
        self.connection = world.server.connect(self, "127.0.0.1:1")  # type: ignore[arg-type]

    # --- the client's end

    def write(self, data: bytes) -> None:
        if self.open:
            self.to_broker += data

    def close(self) -> None:
        self._end("closed")

    def abort(self) -> None:
        self._end("aborted")

    # --- the broker's end

    def writeSequence(self, data: list[bytes]) -> None:
        if self.open:
            self.to_client += b"".join(data)

    def loseConnection(self) -> None:
        self.move(1 << 30)
        self._end("closed by the broker")

    def abortConnection(self) -> None:
        self._end("aborted by the broker")

    def pauseProducing(self) -> None: ...

    def resumeProducing(self) -> None: ...

    # --- the network

    def move(self, size: int) -> bool:
        """Let at most ``size`` bytes of each direction arrive."""
        busy = False
        for buffer, arrive in ((self.to_broker, self.connection.received), (self.to_client, self.handler.data_received)):
            if not self.open or self.silent or not buffer:
                continue
            data = bytes(buffer[:size])
            if self.cut_at is not None and self.carried + len(data) > self.cut_at:
                data = data[: self.cut_at - self.carried]
                if data:
                    del buffer[: len(data)]
                    self.carried += len(data)
                    arrive(data)
                self.cut()
                return True
            del buffer[: len(data)]
            self.carried += len(data)
            arrive(data)
            busy = True
        return busy

    def cut(self) -> None:
        self._end("cut")

    def _end(self, reason: str) -> None:
        if self.open:
            self.open = False
            self.connection.lost(reason)
            self.handler.link_lost(reason)


class MemoryRuntime:
    """Implements :class:`mqclient.core.runtime.Runtime` on the clock of the broker that it belongs to."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.targets: dict[str, World] = {}
        self.links: list[MemoryLink] = []
        self.tried: list[str] = []
        self.failures: list[BaseException] = []
        self.cut_next: list[int | None] = []
        """Where the connections to come are cut, by bytes carried."""
        self._random = 0

    def now(self) -> float:
        return self.clock.monotonic()

    def wall_clock_ms(self) -> int:
        return self.clock.wall_ms()

    def call_later(self, seconds: float, function: Callable[..., Any], *args: Any) -> Any:
        return self.clock.call_later(seconds, function, *args)

    def call_soon(self, function: Callable[..., Any], *args: Any) -> None:
        self.clock.call_later(0, function, *args)

    def create_future(self) -> Any:
        return Deferred()

    def resolve(self, future: Any, value: Any) -> None:
        if not future.called:
            future.callback(value)

    def reject(self, future: Any, error: BaseException) -> None:
        if not future.called:
            future.errback(error)

    def is_done(self, future: Any) -> bool:
        return bool(future.called)

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Deferred[T]:
        return Deferred.fromCoroutine(coroutine)

    def connect(self, connector: TransportConfiguration, handler: LinkHandler, timeout: float) -> Awaitable[Any]:
        port = str(dict(connector.parameters)["port"])
        self.tried.append(port)
        result: Deferred[Any] = Deferred()
        world = self.targets.get(port)
        if world is None:
            result.errback(NotConnectedError(f"nobody listens on {port}"))
        else:
            link = MemoryLink(handler, world, port)
            if self.cut_next:
                link.cut_at = self.cut_next.pop(0)
            self.links.append(link)
            result.callback(link)
        return result

    def random_bytes(self, size: int) -> bytes:
        self._random += 1
        return self._random.to_bytes(size, "big")

    def random_below(self, limit: int) -> int:
        return 0

    def log_failure(self, text: str, error: BaseException) -> None:
        self.failures.append(error)

    def log_warning(self, text: str) -> None: ...


class Events:
    """Keeps what a bridge tells."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.reasons: list[MQError] = []
        self.disconnects: list[DisconnectReceived | None] = []
        self.at_lost: Callable[[], object] = lambda: None
        self.refuse: MQError | None = None

    async def connected(self, factory: SessionFactory) -> None:
        self.told.append("connected")
        if self.refuse is not None:
            raise self.refuse

    def started(self, session: Session) -> None:
        self.told.append("started")

    def attempt_failed(self, error: MQError) -> None:
        self.told.append("attempt failed")
        self.reasons.append(error)

    def lost(self, reason: MQError, disconnect: DisconnectReceived | None) -> None:
        self.told.append("lost")
        self.reasons.append(reason)
        self.disconnects.append(disconnect)
        self.at_lost()

    def gave_up(self) -> None:
        self.told.append("gave up")


class Pair:
    """Broker A with queue ``q`` and a bridge from it to broker B, which has a queue of the same name."""

    def __init__(
        self,
        settings: BridgeConfiguration | None = None,
        forwarding: ForwardingSettings | None = None,
        outgoing: Callable[[Message], Outgoing | None] | None = None,
        *,
        source: World | None = None,
        target: World | None = None,
        ports: Sequence[int] = (1,),
        topology: Topology | None = None,
        follows: bool = False,
    ) -> None:
        clock = FakeClock()
        self.clock = clock
        self.a = source or World(clock=clock)
        if source is not None:
            self.clock = clock = source.clock
        self.b = target or World(clock=clock)
        self.runtime = MemoryRuntime(clock)
        self.runtime.targets["1"] = self.b
        self.events = Events()
        self.sender = self.a.session()
        self.sender.create_queue("q")
        self.receiver = self.b.session()
        self.receiver.create_queue("q")
        self.deleted: list[str] = []
        """The queue, once the forwarder has been told that it is deleted."""
        queue = self.a.queue("q")
        self.forwarder = Forwarder(
            self.a.server,
            queue,
            forwarding or ForwardingSettings(),
            outgoing or plain(self.a),
            on_queue_deleted=lambda: self.deleted.append(queue.name),
        )
        self.bridge = Bridge(
            "bridge",
            self.runtime,
            lambda: [connector(port) for port in ports],
            settings or bridge_settings(retry_interval=1000, max_retry_interval=1000),
            self.forwarder,
            self.events,
            follows=follows,
            topology=topology,
        )

    # --- time and bytes

    def stir(self, piece: int = 1 << 20) -> None:
        """Let everything happen that needs no time."""
        for _ in range(100_000):
            self.clock.advance(0)
            busy = [link.move(piece) for link in list(self.runtime.links)]
            if not any(busy) and not self.clock.due:
                return
        raise AssertionError("the brokers talk without end")

    def advance(self, seconds: float, step: float = 0.5) -> None:
        end = self.clock.seconds + seconds
        while self.clock.seconds < end - 1e-9:
            self.clock.advance(min(step, end - self.clock.seconds))
            self.stir()

    def start(self) -> None:
        self.bridge.start()
        self.stir()

    @property
    def link(self) -> MemoryLink:
        """The connection made last."""
        return self.runtime.links[-1]

    # --- messages

    def publish(self, *bodies: bytes, **headers: Any) -> None:
        for body in bodies:
            self.sender.publish(body, **headers)

    def waiting(self) -> list[bytes]:
        """Bodies that wait in A's queue, in order."""
        return [reference.message.decoded().body for reference in self.a.queue("q").references]

    def arrived(self, queue: str = "q") -> list[bytes]:
        """Bodies in B's queue, in order."""
        return [decode_message(reference.message.buffer).body for reference in self.b.queue(queue).references]


def plain(world: World) -> Callable[[Message], Outgoing | None]:
    """Messages as they are."""

    def outgoing(message: Message) -> Outgoing:
        if message.large is not None:
            return Outgoing(message.address, (message.buffer,), len(message.buffer), message.large.read, message.large.size)
        return Outgoing(message.address, (message.buffer,), len(message.buffer))

    return outgoing
