"""Peers that nobody knows."""

from __future__ import annotations

import random
import struct
import threading
import time

from mqclient.wire import packets as wire
from mqclient.wire.frames import HEADER, PING_CHANNEL, PREAMBLE, SESSION_CHANNEL, frame
from mqclient.wire.packets import PACKETS
from tests.integration.hostile.case import AT_ONCE_SECONDS, TTL_SECONDS, HostileCase
from tests.integration.hostile.plant import FULL, HANDSHAKE_SECONDS, TTL_MS, Attacker

FOREIGN = {
    "HTTP": b"PUT / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "STOMP in HTTP": b"POST / HTTP/1.1\r\nContent-Length: 8\r\n\r\nCONNECT\n",
    "HTTP without a length": b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    "HTTP without an end": b"POST / HTTP/1.1\r\n" + b"x: y\r\n" * 4000,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "STOMP": b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\x00",
    "AMQP": b"AMQP\x00\x01\x00\x00",
    "MQTT": b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04test",
    "OPENWIRE": b"\x00\x00\x00\xf0\x01ActiveMQ\x00\x00\x00\x0c\x01" + bytes(300),
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "REDIS": b"*1\r\n$4\r\nPING\r\n",
    "zeros": bytes(100),
}


class BeforeLoginTests(HostileCase):
    def test_foreign_protocols(self) -> None:
        with self.attack("AMQ222067.*127"):
            for _ in self.rounds():
                for name, data in FOREIGN.items():
                    attacker = self.attacker(preamble=False)
                    attacker.send(data)
                    self.assert_dropped(attacker, what=name)

    def test_slow_handshakes(self) -> None:
        def dribble(attacker: Attacker) -> None:
            for at in range(len(PREAMBLE)):
                if not attacker.send(PREAMBLE[at : at + 1]):
                    return
                time.sleep(HANDSHAKE_SECONDS / 4)

        with self.attack("AMQ224088"):
            silent = [self.attacker(preamble=False) for _ in range(500 if FULL else 50)]
            slow = [self.attacker(preamble=False) for _ in range(5)]
            threads = [threading.Thread(target=dribble, args=(attacker,)) for attacker in slow]
            for thread in threads:
                thread.start()
            for attacker in (*silent, *slow):
                self.assert_dropped(attacker)
            for thread in threads:
                thread.join()

    def test_announced_lengths(self) -> None:
        with self.attack("AMQ222067.*(announced|length)"):
            for _ in self.rounds():
                for length in (2**31 - 1, 2**30, 65 * 1024, -1, -(2**31), 0, 8):
                    attacker = self.attacker()
                    attacker.send(struct.pack(">ibq", length, wire.Ping.TYPE, PING_CHANNEL))
                    attacker.send(bytes(60_000))
                    self.assert_dropped(attacker, what=length)

    def test_frames_that_never_end(self) -> None:
        """Half a frame and silence; a frame by single bytes; nothing at all after the preamble."""
        stop = time.monotonic() + TTL_SECONDS

        def dribble(attacker: Attacker) -> None:
            while time.monotonic() < stop and attacker.send(b"\x00"):
                time.sleep(TTL_MS / 10_000)

        with self.attack("AMQ229014"):
            half = [self.attacker(ttl_ms=TTL_MS) for _ in range(20)]
            for attacker in half:
                attacker.send(HEADER.pack(60_000, wire.Ping.TYPE, PING_CHANNEL) + bytes(59_000))
            slow = [self.attacker(ttl_ms=TTL_MS) for _ in range(3)]
            for attacker in slow:
                attacker.send(HEADER.pack(60_000, wire.Ping.TYPE, PING_CHANNEL))
            silent = [self.attacker(ttl_ms=TTL_MS) for _ in range(20)]
            threads = [threading.Thread(target=dribble, args=(attacker,)) for attacker in slow]
            for thread in threads:
                thread.start()
            for attacker in (*half, *slow, *silent):
                self.assert_dropped(attacker, TTL_SECONDS)
            for thread in threads:
                thread.join()

    def test_channels_of_nobody(self) -> None:
        with self.attack("AMQ222067.*channel"):
            for _ in self.rounds():
                for channel in (-1, -(2**63), 2, 4, 9, 10, 11, 2**63 - 1):
                    attacker = self.attacker()
                    attacker.send_packet(wire.SessionStart(), channel)
                    self.assert_dropped(attacker, what=channel)

    def test_random_bodies_for_every_packet_type(self) -> None:
        rng = random.Random(1)
        with self.attack("AMQ222067"):
            for _ in self.rounds():
                for packet_type in sorted(PACKETS) * (20 if FULL else 1):
                    for channel in (PING_CHANNEL, SESSION_CHANNEL):
                        attacker = self.attacker(ttl_ms=TTL_MS)
                        attacker.send(frame(packet_type, channel, rng.randbytes(rng.randrange(200))))
                        # Bytes that happen to be a packet are ignored, or answered: then the end comes with the next ones.
                        attacker.send(struct.pack(">i", -1))
                        self.assert_dropped(attacker, AT_ONCE_SECONDS, what=packet_type)

    def test_connections_in_a_loop(self) -> None:
        with self.attack():
            before = self.plant.files()
            for number in range(5000 if FULL else 300):
                attacker = Attacker(self.plant.port, self.host, preamble=bool(number % 2))
                attacker.close()
            deadline = time.monotonic() + AT_ONCE_SECONDS
            while self.plant.files() > before + 5:
                self.assertLess(time.monotonic(), deadline, "connections are not closed")
                time.sleep(0.05)

    def test_refused_sessions_in_a_loop(self) -> None:
        """Versions that nobody speaks, channels that are none, sessions of others."""
        with self.attack():
            for _ in self.rounds():
                attacker = self.attacker()
                for number in range(2000 if FULL else 200):
                    values = {"auto_commit_sends": True, "auto_commit_acks": True}
                    attacker.send_packet(wire.CreateSession(f"x{number}", 3, 136, None, None, **values), SESSION_CHANNEL)
                    attacker.send_packet(wire.CreateSession(f"x{number}", 12, 1, None, None, **values), SESSION_CHANNEL)
                    attacker.send_packet(wire.ReattachSession(f"x{number}", 0), SESSION_CHANNEL)
                    for _ in range(3):
                        self.assertNotEqual(attacker.receive(SESSION_CHANNEL), b"")
