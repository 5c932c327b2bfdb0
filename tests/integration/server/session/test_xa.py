"""XA branches over real sockets: through a restart, and through a kill."""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import unittest
from pathlib import Path
from typing import TypeVar

from mqclient.wire import packets as wire
from mqclient.wire.frames import PREAMBLE, SESSION_CHANNEL, FrameSplitter, frame
from mqclient.wire.message import CoreMessage, decode_message, encode_headers, encode_message
from mqclient.wire.primitives import Xid
from tests.integration.brokers import CONFIGURATION, Broker
from tests.integration.server.wire_client import BrokerCase, WireClient

P = TypeVar("P", bound=wire.Packet)
CHANNEL = 10
SECONDS = 30.0
LARGE = bytes(range(256)) * 1000


def xid(name: str) -> Xid:
    return Xid(1, b"branch", name.encode())


def message(body: bytes) -> bytes:
    return encode_message(CoreMessage(address="q", durable=True, body=body))


class RestartTests(BrokerCase):
    async def request(self, client: WireClient, packet: wire.Packet) -> int:
        client.send(packet)
        answer = await client.next(wire.XaResponse)
        return int(answer.response_code)

    async def test_in_doubt_through_a_restart(self) -> None:
        broker = self.start(persistence_enabled=True)
        client = await self.connect(broker)
        await client.open(xa=True, auto_commit_sends=False, auto_commit_acks=False)
        client.send(wire.CreateQueueV2("q", "q", durable=True, routing_type=1))
        await client.next(wire.NullResponse)
        for name in ("commit", "rollback"):
            self.assertEqual(await self.request(client, wire.XaStart(xid(name))), 0)
            client.send(wire.SessionSend(message(name.encode()), False, 0))
            self.assertEqual(await self.request(client, wire.XaEnd(xid(name))), 0)
            self.assertEqual(await self.request(client, wire.XaPrepare(xid(name))), 0)
        await self.stop(broker)
        broker = self.start(persistence_enabled=True)
        client = await self.connect(broker)
        await client.open(xa=True)
        client.send(wire.XaInDoubtXids())
        answer = await client.next(wire.XaInDoubtXidsResponse)
        self.assertEqual(answer.xids, (xid("commit"), xid("rollback")))
        self.assertEqual(await self.request(client, wire.XaCommit(xid("commit"))), 0)
        self.assertEqual(await self.request(client, wire.XaRollback(xid("rollback"))), 0)
        client.send(wire.CreateConsumer(0, "q", None, requires_response=False))
        client.send(wire.FlowToken(0, -1))
        client.send(wire.SessionStart())
        received = await client.next(wire.SessionReceive)
        self.assertEqual(decode_message(received.message).body, b"commit")


class BlockingClient:
    """An XA session, one packet after the other."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("tcp://").partition(":")
        self._socket = socket.create_connection((host, int(port)), SECONDS)
        self._splitter = FrameSplitter(1 << 30)
        self._packets: list[wire.Packet] = []
        self._socket.sendall(PREAMBLE)
        request = wire.CreateSession(f"s{id(self)}", CHANNEL, 136, None, None, xa=True, auto_commit_sends=False, auto_commit_acks=False)
        self.send(request, SESSION_CHANNEL)
        self.next(wire.CreateSessionResponse)

    def send(self, packet: wire.Packet, channel: int = CHANNEL) -> None:
        self._socket.sendall(frame(packet.TYPE, channel, wire.encode_packet(packet, 136)))

    def next(self, kind: type[P]) -> P:
        """The next packet of this kind; those before it are dropped."""
        while True:
            while self._packets:
                packet = self._packets.pop(0)
                if isinstance(packet, kind):
                    return packet
            data = self._socket.recv(1 << 16)
            if not data:
                raise EOFError("the broker has closed the connection")
            for received in self._splitter.feed(data):
                self._packets.append(wire.decode_packet(int.from_bytes(received[4:5], "big", signed=True), received[13:], 136))

    def ask(self, packet: wire.Packet) -> int:
        self.send(packet)
        return self.next(wire.XaResponse).response_code

    def consume(self) -> None:
        self.send(wire.CreateConsumer(0, "q", None, requires_response=False))
        self.send(wire.FlowToken(0, -1))
        self.send(wire.SessionStart())

    def received(self) -> bytes:
        return decode_message(self.next(wire.SessionReceive).message).body

    def close(self) -> None:
        self._socket.close()


class KillTests(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqbroker-xa-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "broker.xml").write_text(CONFIGURATION.format(folder=self.folder / "data", port=0))

    def start(self) -> Broker:
        twistd = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="]
        broker = Broker([*twistd, "mqbroker", "--config", str(self.folder / "broker.xml")], self.folder)
        self.addCleanup(broker.stop)
        return broker

    def client(self, broker: Broker) -> BlockingClient:
        client = BlockingClient(broker.url)
        self.addCleanup(client.close)
        return client

    def test_in_doubt_through_kills(self) -> None:
        """What was answered is there: sends and a large message unseen, an acknowledged message blocked; then all of it committed."""
        broker = self.start()
        client = self.client(broker)
        client.send(wire.CreateQueueV2("q", "q", durable=True, routing_type=1))
        client.next(wire.NullResponse)
        for body in (b"taken", b"kept"):
            client.send(wire.SessionSend(message(body), True, 1))
            client.next(wire.NullResponse)
        client.consume()
        taken = decode_message(client.next(wire.SessionReceive).message)
        self.assertEqual(client.ask(wire.XaStart(xid("t"))), 0)
        client.send(wire.IndividualAcknowledge(0, taken.message_id, False))
        client.send(wire.SessionSend(message(b"sent"), False, 0))
        client.send(wire.SessionSendLarge(encode_headers(CoreMessage(address="q", durable=True))))
        for start in range(0, len(LARGE), 64_000):
            chunk = LARGE[start : start + 64_000]
            last = start + len(chunk) == len(LARGE)
            client.send(wire.SessionSendContinuation(chunk, not last, len(LARGE) if last else -1, False, 0))
        self.assertEqual((client.ask(wire.XaEnd(xid("t"))), client.ask(wire.XaPrepare(xid("t")))), (0, 0))
        broker.kill()
        broker = self.start()
        self.assertIn("1 XA branches are in doubt", (self.folder / "output.log").read_text())
        client = self.client(broker)
        client.send(wire.XaInDoubtXids())
        self.assertEqual(client.next(wire.XaInDoubtXidsResponse).xids, (xid("t"),))
        client.consume()
        self.assertEqual(client.received(), b"kept")
        self.assertEqual(client.ask(wire.XaCommit(xid("t"))), 0)
        broker.kill()
        client = self.client(self.start())
        client.send(wire.XaInDoubtXids())
        self.assertEqual(client.next(wire.XaInDoubtXidsResponse).xids, ())
        client.consume()
        self.assertEqual([client.received(), client.received()], [b"kept", b"sent"])
        body = b""
        client.next(wire.SessionReceiveLarge)
        while len(body) < len(LARGE):
            body += client.next(wire.SessionReceiveContinuation).chunk
        self.assertEqual(body, LARGE)
