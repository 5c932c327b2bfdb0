"""A plain socket is written to at once; what it does not take, and whatever comes after, goes by the transport."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.server.transport.acceptor import DirectTransport
from mqclient.shells.twisted_direct import write_directly


class Socket:
    """A transport of Twisted with a socket that takes ``room`` bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.sent = b""
        self.dataBuffer = b""
        self._tempDataBuffer: list[bytes] = []
        self.disconnecting = False
        self.connected = True
        self.broken = False

    @property
    def socket(self) -> Socket:
        return self

    def send(self, data: bytes) -> int:
        if self.broken:
            raise ConnectionResetError
        taken = data[: self.room]
        if not taken:
            raise BlockingIOError
        self.room -= len(taken)
        self.sent += taken
        return len(taken)

    def write(self, data: bytes) -> None:
        self._tempDataBuffer.append(data)

    def writeSequence(self, data: list[bytes]) -> None:
        self._tempDataBuffer.extend(data)

    def loseConnection(self) -> None: ...

    abortConnection = pauseProducing = resumeProducing = loseConnection

    @property
    def waiting(self) -> bytes:
        return self.dataBuffer + b"".join(self._tempDataBuffer)


class DirectWriteTests(SynchronousTestCase):
    def test_all_of_it(self) -> None:
        socket = Socket(100)
        write_directly(socket, [b"one"])
        write_directly(socket, [b"two", b"three"])
        self.assertEqual((socket.sent, socket.waiting), (b"onetwothree", b""))

    def test_the_rest_waits_and_is_not_overtaken(self) -> None:
        socket = Socket(5)
        write_directly(socket, [b"one", b"two"])
        socket.room = 100
        write_directly(socket, [b"three"])
        self.assertEqual((socket.sent, socket.waiting), (b"onetw", b"othree"))
        socket.dataBuffer, socket._tempDataBuffer = socket.waiting, []
        write_directly(socket, [b"four"])
        self.assertEqual((socket.sent, socket.waiting), (b"onetw", b"othreefour"))

    def test_a_full_socket_takes_nothing(self) -> None:
        socket = Socket(0)
        write_directly(socket, [b"one"])
        self.assertEqual((socket.sent, socket.waiting), (b"", b"one"))

    def test_a_broken_socket_is_left_to_the_transport(self) -> None:
        socket = Socket(100)
        socket.broken = True
        write_directly(socket, [b"one", b"two"])
        self.assertEqual((socket.sent, socket.waiting), (b"", b"onetwo"))

    def test_a_closing_or_closed_transport_decides_itself(self) -> None:
        for state in ("disconnecting", "connected"):
            socket = Socket(100)
            setattr(socket, state, not getattr(socket, state))
            write_directly(socket, [b"one"])
            self.assertEqual((socket.sent, socket.waiting), (b"", b"one"))

    def test_a_broker_writes_so(self) -> None:
        socket = Socket(4)
        DirectTransport(socket).writeSequence([b"one", b"two"])
        self.assertEqual((socket.sent, socket.waiting), (b"onet", b"wo"))
