"""A network of byte streams with delays, cuts at any byte, and silence.

A connection delivers its bytes in order, in pieces that need not be those that were written; different connections overtake each other.
A reset tells both ends, each in its own time, and some of what was under way still arrives.  A connection that fell silent tells nobody.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from mqclient.core.runtime import LinkHandler
from mqclient.errors import NotConnectedError
from tests.simulation.world import Process, World

HIGH_WATER = 32 * 1024
"""Bytes under way in one direction beyond which the sender is asked to wait."""
LOW_WATER = 8 * 1024

TO_BROKER = "to broker"
TO_CLIENT = "to client"


class Future(Deferred[Any]):
    """What somebody waits for; in a process that has ended it cannot be cancelled, either."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process

    def cancel(self) -> None:
        if self._process.alive:
            super().cancel()


class ServerEnd(Protocol):
    """What a broker makes of a connection."""

    def received(self, data: bytes) -> None: ...

    def lost(self, reason: str) -> None: ...

    def pause_output(self) -> None: ...

    def resume_output(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Cut:
    """A connection ends at the byte number ``after`` of all that the network carries in one direction.

    ``silent``: neither end is told, and nothing gets through any more.  ``half``: that holds for this direction only.
    """

    direction: str
    after: int
    silent: bool
    half: bool = False


class Pipe:
    """One direction of a connection."""

    def __init__(self, connection: SimulatedConnection, direction: str) -> None:
        self.connection = connection
        self.direction = direction
        self.buffer = bytearray()
        self.written: deque[tuple[float, int]] = deque()
        """Time and size of what is in the buffer, write by write."""
        self.reading = True
        self.lost = False
        """What is written from now on gets nowhere, and nobody is told."""
        self.writer_waits = False
        self._scheduled = False

    def write(self, data: bytes) -> None:
        self.buffer += data
        self.written.append((self.connection.network.world.now, len(data)))
        self.schedule()
        if len(self.buffer) > HIGH_WATER and not self.writer_waits:
            self.writer_waits = True
            self.connection.tell_writer(self, waits=True)

    def schedule(self) -> None:
        if not self._scheduled and self.buffer and self.reading:
            self._scheduled = True
            network = self.connection.network
            network.world.schedule(network.latency(), self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        connection = self.connection
        if not self.reading or not self.buffer or self.lost or not connection.reachable(self):
            return
        network = connection.network
        if connection.reader(self).puts_off(self._deliver):
            self._scheduled = True
            return
        if (held := network.held(connection.client, self.direction)) > 0:
            self._scheduled = True
            network.world.schedule(held, self._deliver)
            return
        size = len(self.buffer)
        if network.rng.random() < 0.15:
            size = network.rng.randrange(1, size + 1)
        size, cut = network.carry(self.direction, size)
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        if data:
            network.world.note(f"{connection.name} {self.direction}: {len(data)} bytes, checksum {zlib.crc32(data):08x}")
            self._hand_over(data)
        if cut is not None:
            connection.cut(cut)
        if self.lost or connection.severed:
            return
        if self.writer_waits and len(self.buffer) <= LOW_WATER:
            self.writer_waits = False
            connection.tell_writer(self, waits=False)
        if self.buffer:
            self.schedule()
        else:
            connection.emptied(self)

    def _hand_over(self, data: bytes) -> None:
        """Bytes of different writes come one after the other, with the time at which they were written."""
        connection = self.connection
        while data and connection.reachable(self):
            when, size = self.written.popleft()
            piece, data = data[:size], data[size:]
            if len(piece) < size:
                self.written.appendleft((when, size - len(piece)))
            connection.network.delivers(when, connection.writer(self))
            connection.hand_over(self, piece)


class SimulatedConnection:
    """A connection between a client's process and a broker's; also the client's link.  The broker's end is a :class:`BrokerTransport`."""

    def __init__(self, network: Network, number: int, client: Process, broker: Process, handler: LinkHandler) -> None:
        self.network = network
        self.name = f"connection {number} of {client.name}{network.label}"
        self.client = client
        self.broker = broker
        self.severed = False
        """Only what was under way still arrives."""
        self.server: ServerEnd | None = None
        self._handler = handler
        self._up = Pipe(self, TO_BROKER)
        self._down = Pipe(self, TO_CLIENT)
        self._open = {TO_BROKER: True, TO_CLIENT: True}
        """Does the end that a direction leads to still listen?"""
        self._closing = {TO_BROKER: False, TO_CLIENT: False}
        """Has the end that writes in a direction said that nothing follows?"""

    # --- the client's end, see mqclient.core.runtime.Link

    @property
    def peer(self) -> str:
        return "broker:61616"

    def write(self, data: bytes) -> None:
        self._write(self._up, data)

    def close(self) -> None:
        self._close(self._up)

    def abort(self) -> None:
        self._abort(self._up)

    # --- both ends

    def _write(self, pipe: Pipe, data: bytes) -> None:
        # Who has closed, or was told that the other end is gone, writes into the void; so does what a process left behind.
        if not self.writer(pipe).alive:
            return
        if self._open[_other(pipe.direction)] and not self._closing[pipe.direction] and not (pipe.lost or self.severed):
            pipe.write(data)

    def _close(self, pipe: Pipe) -> None:
        if self._closing[pipe.direction] or not self.writer(pipe).alive:
            return
        self._closing[pipe.direction] = True
        if pipe.lost:
            self.network.world.schedule(self.network.latency(), self._lost, _other(pipe.direction), "closed")
        elif not pipe.buffer:
            self.emptied(pipe)

    def _abort(self, pipe: Pipe) -> None:
        if not self.writer(pipe).alive:
            return
        self._closing[pipe.direction] = True
        schedule, latency = self.network.world.schedule, self.network.latency
        schedule(0.0, self._lost, _other(pipe.direction), "aborted")
        if not pipe.lost:
            self.keep_some(pipe)
            schedule(latency(), self._lost, pipe.direction, "reset by the other end")

    def emptied(self, pipe: Pipe) -> None:
        """All that was written in a direction has arrived; if nothing follows, both ends may go."""
        if self._closing[pipe.direction]:
            schedule, latency = self.network.world.schedule, self.network.latency
            schedule(latency(), self._lost, pipe.direction, "closed by the other end")
            schedule(latency(), self._lost, _other(pipe.direction), "closed")

    def hand_over(self, pipe: Pipe, data: bytes) -> None:
        if pipe is self._up:
            if self.server is not None:
                self.server.received(data)
        else:
            self._handler.data_received(data)

    def tell_writer(self, pipe: Pipe, waits: bool) -> None:
        """The writing end of a direction should wait, or go on."""
        if not self._open[_other(pipe.direction)]:
            return
        if not waits and (pipe.writer_waits or self.writer(pipe).puts_off(self.tell_writer, pipe, waits)):
            return  # it has to wait again, or stands still
        if pipe is self._up:
            if self.client.alive:
                (self._handler.link_paused if waits else self._handler.link_resumed)()
        elif self.server is not None and self.broker.alive:
            (self.server.pause_output if waits else self.server.resume_output)()

    def set_reading(self, pipe_direction: str, reading: bool) -> None:
        pipe = self._up if pipe_direction == TO_BROKER else self._down
        pipe.reading = reading
        pipe.schedule()

    def reader(self, pipe: Pipe) -> Process:
        return self.broker if pipe is self._up else self.client

    def writer(self, pipe: Pipe) -> Process:
        return self.client if pipe is self._up else self.broker

    def reachable(self, pipe: Pipe) -> bool:
        return self.reader(pipe).alive and self._open[pipe.direction]

    # --- faults

    @property
    def open(self) -> bool:
        return any(self._open.values())

    def keep_some(self, pipe: Pipe) -> None:
        """Of what is under way only a beginning arrives."""
        del pipe.buffer[self.network.rng.randrange(len(pipe.buffer) + 1) :]

    def cut(self, cut: Cut) -> None:
        """The network loses the connection, or one direction of it."""
        network = self.network
        if cut.silent or cut.half:
            pipes = [pipe for pipe in (self._up, self._down) if not cut.half or pipe.direction == cut.direction]
            network.world.note(f"{self.name} falls silent {cut.direction if cut.half else ''}")
            self._fall_silent(pipes)
            return
        network.world.note(f"{self.name} is cut")
        self.severed = True
        self.keep_some(self._up)
        self.keep_some(self._down)
        for direction in (TO_BROKER, TO_CLIENT):
            network.world.schedule(network.notice(), self._lost, direction, "reset")

    def _fall_silent(self, pipes: list[Pipe]) -> None:
        for pipe in pipes:
            pipe.lost = True
            pipe.buffer.clear()
            pipe.written.clear()

    def broker_died(self, machine: bool) -> None:
        """The broker's process is gone; with its machine the client may hear nothing of it."""
        network = self.network
        self._open[TO_BROKER] = False
        if not self._open[TO_CLIENT]:
            return
        self._up.buffer.clear()
        if machine:
            self.keep_some(self._down)
            if network.rng.random() < 0.3:
                self._fall_silent([self._up, self._down])
                return
        network.world.schedule(network.notice(), self._lost, TO_CLIENT, "the broker is gone")

    def client_died(self, machine: bool) -> None:
        """The same for the client's process, when that may end before the run does."""
        network = self.network
        self._open[TO_CLIENT] = False
        if not self._open[TO_BROKER]:
            return
        self._down.buffer.clear()
        if machine:
            self.keep_some(self._up)
            if network.rng.random() < 0.3:
                self._fall_silent([self._up, self._down])
                return
        network.world.schedule(network.notice(), self._lost, TO_BROKER, "the client is gone")

    def _lost(self, direction: str, reason: str) -> None:
        """The end that a direction leads to learns that the connection is over."""
        if not self._open[direction]:
            return
        held = self.network.held(self.client, direction)
        if held > 0 and reason not in ("closed", "aborted"):
            self.network.world.schedule(held, self._lost, direction, reason)
            return
        process = self.broker if direction == TO_BROKER else self.client
        if process.puts_off(self._lost, direction, reason):
            return
        self._open[direction] = False
        self.network.world.note(f"{self.name} {direction}: {reason}")
        if direction == TO_BROKER:
            if self.broker.alive and self.server is not None:
                self.server.lost(reason)
        elif self.client.alive:
            self._handler.link_lost(reason)


class BrokerTransport:
    """The broker's end of a connection, see :class:`mqbroker.server.transport.connection.ConnectionTransport`."""

    def __init__(self, connection: SimulatedConnection) -> None:
        self._connection = connection

    def writeSequence(self, data: list[bytes]) -> None:
        if self._connection.broker.alive:
            self._connection._write(self._connection._down, b"".join(data))

    def loseConnection(self) -> None:
        if self._connection.broker.alive:
            self._connection._close(self._connection._down)

    def abortConnection(self) -> None:
        if self._connection.broker.alive:
            self._connection._abort(self._connection._down)

    def cut(self) -> None:
        """The network loses the connection."""
        if self._connection.open:
            self._connection.cut(Cut(TO_BROKER, 0, False))

    def pauseProducing(self) -> None:
        self._connection.set_reading(TO_BROKER, False)

    def resumeProducing(self) -> None:
        self._connection.set_reading(TO_BROKER, True)


Accept = Callable[[BrokerTransport, str], ServerEnd]


class Network:
    """Connects clients with the broker that listens, if one does.  ``slow`` multiplies all delays."""

    label = ""
    """What connections are called beside their number and client."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.generator("network")
        self.slow = 1.0
        self.sent_at = 0.0
        """When the other end had written what is being handed over just now."""
        self.sent_by: Process | None = None
        """Who that is."""
        self.connections: list[SimulatedConnection] = []
        self._cuts: list[Cut] = []
        self._carried = {TO_BROKER: 0, TO_CLIENT: 0}
        self._listener: tuple[Process, Accept] | None = None

    # --- for the ends

    def listen(self, process: Process, accept: Accept) -> None:
        self._listener = (process, accept)

    def stop_listening(self) -> None:
        """Nobody takes new connections."""
        self._listener = None

    def connect(self, client: Process, handler: LinkHandler, timeout: float) -> Awaitable[Any]:
        result: Deferred[Any] = Future(client)
        self.world.schedule(self.latency(), self._arrive, client, handler, result)
        client.call_later(timeout, self._refused, client, result, "no answer")
        return result

    def delivers(self, sent_at: float, sent_by: Process) -> None:
        """Something is about to be handed over."""
        self.sent_at, self.sent_by = sent_at, sent_by

    def slow_reader(self, client: Process, seconds: float) -> None:
        """All connections that a client has now are not read from for a while."""
        for connection in self.connections:
            if connection.client is client and connection.open:
                connection.set_reading(TO_CLIENT, False)
                self.world.schedule(seconds, connection.set_reading, TO_CLIENT, True)

    def held(self, client: Process, direction: str) -> float:
        """For how many more seconds nothing gets through between the client and the broker, in this direction."""
        return 0.0

    def _arrive(self, client: Process, handler: LinkHandler, result: Deferred[Any]) -> None:
        if result.called or not client.alive:
            return  # nobody wants it any more
        if (held := self.held(client, TO_BROKER)) > 0:
            self.world.schedule(held, self._arrive, client, handler, result)
            return
        if self._listener is None or not self._listener[0].alive:
            self.world.schedule(max(self.latency(), self.held(client, TO_CLIENT)), self._refused, client, result)
            return
        broker, accept = self._listener
        if broker.puts_off(self._arrive, client, handler, result):
            return
        connection = SimulatedConnection(self, len(self.connections), client, broker, handler)
        self.connections.append(connection)
        self.world.note(f"{connection.name} is accepted")
        connection.server = accept(BrokerTransport(connection), f"{client.name}:{40000 + len(self.connections)}")
        self.world.schedule(self.latency(), self._established, client, connection, result)

    def _refused(self, client: Process, result: Deferred[Any], reason: str = "nobody listens there") -> None:
        if not client.puts_off(self._refused, client, result, reason) and client.alive and not result.called:
            result.errback(NotConnectedError(reason))

    def _established(self, client: Process, connection: SimulatedConnection, result: Deferred[Any]) -> None:
        if (held := self.held(client, TO_CLIENT)) > 0:
            self.world.schedule(held, self._established, client, connection, result)
        elif client.puts_off(self._established, client, connection, result):
            pass
        elif client.alive and not result.called:
            result.callback(connection)
        else:
            connection.abort()

    # --- time

    def latency(self) -> float:
        """Seconds that something takes; now and then much longer."""
        seconds = self.rng.uniform(0.0001, 0.002)
        if self.rng.random() < 0.03:
            seconds += self.rng.uniform(0.01, 0.2)
        return seconds * self.slow

    def notice(self) -> float:
        """Seconds until an end notices that its connection is over."""
        return self.rng.choice((0.0, self.rng.uniform(0, 0.01), self.rng.uniform(0, 1.0)))

    # --- faults

    def plan(self, cuts: list[Cut]) -> None:
        self._cuts = sorted(cuts, key=lambda cut: cut.after)

    def heal(self) -> None:
        """No more faults from now on; what is silent stays so."""
        self._cuts = []
        self.slow = 1.0

    def carry(self, direction: str, size: int) -> tuple[int, Cut | None]:
        """How many of ``size`` bytes get through, and the cut that stops the others."""
        carried = self._carried[direction]
        for cut in self._cuts:
            if cut.direction == direction and carried + size >= cut.after:
                self._cuts.remove(cut)
                size = max(cut.after - carried, 0)
                self._carried[direction] = carried + size
                return size, cut
        self._carried[direction] = carried + size
        return size, None

    def client_died(self, process: Process, machine: bool) -> None:
        for connection in self.connections:
            if connection.client is process:
                connection.client_died(machine)

    def broker_died(self, process: Process, machine: bool) -> None:
        if self._listener is not None and self._listener[0] is process:
            self._listener = None
        for connection in self.connections:
            if connection.broker is process:
                connection.broker_died(machine)


def _other(direction: str) -> str:
    return TO_CLIENT if direction == TO_BROKER else TO_BROKER
