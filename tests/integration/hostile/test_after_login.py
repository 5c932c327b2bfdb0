"""Peers with a session."""

from __future__ import annotations

import itertools
import random
import struct
import threading
import time

from mqbroker.server.transport.limits import CONSUMERS_MAX, REFUSALS_MAX, SESSIONS_MAX, TEMPORARY_QUEUES_MAX
from mqclient.wire import packets as wire
from mqclient.wire.bodies import encode_text
from mqclient.wire.frames import HEADER, PING_CHANNEL, SESSION_CHANNEL, frame
from mqclient.wire.message import TYPE_BYTES, TYPE_TEXT, CoreMessage, encode_headers, encode_message
from mqclient.wire.packets import PACKETS
from mqclient.wire.properties import BYTE, STRING, TypedValue
from tests.integration.hostile.case import TTL_SECONDS, HostileCase
from tests.integration.hostile.plant import FULL, MIB, TTL_MS, Attacker
from tests.unit.mqclient.wire.vectors import connections, files, load

MORE = 10_000 if FULL else 0
"""Requests beyond the number at which the broker gives the peer up."""


class AfterLoginTests(HostileCase):
    def user(self) -> Attacker:
        """It may be silent for longer than this process stands still on a busy machine."""
        attacker = self.attacker(ttl_ms=60_000)
        self.assertNotEqual(attacker.login(), b"")
        return attacker

    def soon_overdue(self) -> Attacker:
        """One whose silence is the attack."""
        attacker = self.user()
        attacker.send_packet(wire.Ping(TTL_MS), PING_CHANNEL)
        return attacker

    def queue(self, attacker: Attacker, name: str, **attributes: object) -> None:
        values = {"durable": False, "routing_type": 1, **attributes}
        attacker.call(wire.CreateQueueV2(name, name, **values))  # type: ignore[arg-type]

    def message(
        self, address: str, body: bytes = b"", *, durable: bool = False, expiration: int = 0, **properties: TypedValue
    ) -> CoreMessage:
        values = {"_AMQ_ROUTING_TYPE": (BYTE, 1), **properties}
        return CoreMessage(address=address, type=TYPE_BYTES, durable=durable, expiration=expiration, properties=values, body=body)

    def many(self, *packets: wire.Packet, channel: int = 10) -> bytes:
        return b"".join(frame(packet.TYPE, channel, wire.encode_packet(packet, 136)) for packet in packets)

    # --- frames

    def test_announced_lengths(self) -> None:
        with self.attack("AMQ222067.*announced"):
            for _ in self.rounds():
                for length in (2**31 - 1, 2**30, 101 * MIB):
                    attacker = self.user()
                    attacker.send(struct.pack(">ibq", length, wire.SessionSend.TYPE, 10) + bytes(60_000))
                    self.assert_dropped(attacker, what=length)
                for packet_type, channel in ((wire.Ping.TYPE, PING_CHANNEL), (wire.QueueQuery.TYPE, 10), (wire.SessionSend.TYPE, 11)):
                    attacker = self.user()
                    attacker.send(HEADER.pack(90 * MIB, packet_type, channel))
                    attacker.send(bytes(2 * MIB))
                    self.assert_dropped(attacker, what=packet_type)

    def test_ten_great_frames_that_do_not_end(self) -> None:
        size = 100 * MIB - 1000 if FULL else 5 * MIB
        with self.attack("AMQ229014.*frame is not complete"):
            attackers = [self.soon_overdue() for _ in range(10)]
            for attacker in attackers:
                attacker.send(HEADER.pack(size, wire.SessionSend.TYPE, 10))
            piece = bytes(MIB)
            for _ in range(size // MIB - 1):
                for attacker in attackers:
                    attacker.send(piece)
            for attacker in attackers:
                self.assert_dropped(attacker, TTL_SECONDS)

    def test_half_a_large_message_and_silence(self) -> None:
        before = len(list((self.plant.folder / "data" / "large-messages").glob("*")))
        with self.attack("AMQ229014"):
            attackers = [self.soon_overdue() for _ in range(10)]
            for attacker in attackers:
                attacker.send_packet(wire.SessionSendLarge(encode_headers(self.message("half"))))
                for _ in range(300 if FULL else 10):
                    attacker.send_packet(wire.SessionSendContinuation(bytes(102_400), True, -1, False, 0))
            for attacker in attackers:
                self.assert_dropped(attacker, TTL_SECONDS)
        deadline = time.monotonic() + 30
        while len(list((self.plant.folder / "data" / "large-messages").glob("*"))) > before:
            self.assertLess(time.monotonic(), deadline, "files of messages that did not end")
            time.sleep(0.05)

    # --- numbers

    def test_thousands_of_sessions(self) -> None:
        with self.attack("a limit of the connection is exceeded.*sessions"):
            for _ in self.rounds():
                attacker = self.attacker()
                for number in range(SESSIONS_MAX + REFUSALS_MAX + MORE):
                    values = {"auto_commit_sends": True, "auto_commit_acks": True}
                    packet = wire.CreateSession(f"{self.host}-{number}", 10 + number, 136, None, None, **values)
                    if not attacker.send_packet(packet, SESSION_CHANNEL):
                        break
                    if number % 50 == 49 and not attacker.receive(SESSION_CHANNEL):
                        break
                self.assert_dropped(attacker)

    def test_thousands_of_consumers(self) -> None:
        with self.attack("a limit of the connection is exceeded.*consumers"):
            for _ in self.rounds():
                attacker = self.user()
                self.queue(attacker, "crowded")
                for number in range(CONSUMERS_MAX + REFUSALS_MAX + MORE):
                    if not attacker.send_packet(wire.CreateConsumer(number, "crowded", None, requires_response=False)):
                        break
                self.assert_dropped(attacker)

    def test_thousands_of_temporary_queues(self) -> None:
        with self.attack("a limit of the connection is exceeded.*temporary queues"):
            for _ in self.rounds():
                attacker = self.user()
                for number in range(TEMPORARY_QUEUES_MAX + REFUSALS_MAX + MORE):
                    name = f"temporary-{number}"
                    packet = wire.CreateQueueV2(name, name, durable=False, temporary=True, routing_type=1, requires_response=False)
                    if not attacker.send_packet(packet):
                        break
                self.assert_dropped(attacker)

    # --- messages

    def test_endless_property_tables(self) -> None:
        count = 2_000_000 if FULL else 200_000
        headers = encode_message(self.message("q"))
        table = headers.index(b"\x01\x00\x00\x00\x01")
        entries = b"".join(struct.pack(">iHHB", 4, number & 0xFFFF, number >> 16, 0) for number in range(count))
        # Building the table costs this process more memory than sending it costs the broker.
        with self.attack("AMQ222067.*entries"):
            for _ in self.rounds():
                for entry_count in (count, 2**31 - 1, -1):
                    attacker = self.user()
                    buffer = headers[:table] + struct.pack(">Bi", 1, entry_count) + entries
                    attacker.send(frame(wire.SessionSend.TYPE, 10, wire.encode_packet(wire.SessionSend(buffer, False, 0), 136)))
                    self.assert_dropped(attacker, what=entry_count)

    def test_acknowledgements_of_messages_of_others(self) -> None:
        with self.attack("AMQ229061"):
            for _ in self.rounds():
                attacker = self.user()
                self.queue(attacker, "mine")
                attacker.call(wire.CreateConsumer(0, "mine", None, requires_response=True))
                packets = [
                    kind(consumer, message_id, False)
                    for kind in (wire.Acknowledge, wire.IndividualAcknowledge)
                    for consumer in (0, 1, -1, 2**62)
                    for message_id in (-(2**62), *range(200), 2**62)
                ]
                attacker.send(self.many(*packets) * (100 if FULL else 1))
                self.assertNotEqual(attacker.call(wire.QueueQuery("mine")), b"")

    def test_ever_new_names(self) -> None:
        """Names that are no address, with duplicate ids of great length; queries for queues that do not exist."""
        with self.attack():
            attacker = self.user()
            for number in range(20_000 if FULL else 1000):
                content = self.message(f"none.{number}", _AMQ_DUPL_ID=(STRING, f"{number}" * 5000))
                del content.properties["_AMQ_ROUTING_TYPE"]
                attacker.send(self.many(wire.SessionSend(encode_message(content), False, 0)))
                attacker.call(wire.QueueQuery(f"{number}" * 100))

    # --- states

    def test_random_bodies_for_every_packet_type(self) -> None:
        rng = random.Random(2)
        with self.attack("AMQ222067"):
            for _ in self.rounds():
                for packet_type in sorted(PACKETS) * (20 if FULL else 1):
                    attacker = self.user()
                    attacker.send(frame(packet_type, 10, rng.randbytes(rng.randrange(300))))
                    attacker.send(struct.pack(">i", -1))
                    self.assert_dropped(attacker, what=packet_type)

    def test_packets_in_every_wrong_state(self) -> None:
        """Ends without beginnings, things twice, and after the close; each session ends by itself."""
        wrong = [
            wire.Commit(),
            wire.Rollback(False),
            wire.SessionSendContinuation(b"x", False, 1, True, 0),
            wire.SessionStop(),
            wire.ConsumerClose(7),
            wire.FlowToken(7, 1),
            wire.ForceConsumerDelivery(7, 1),
            wire.Acknowledge(7, 7, False),
            wire.Expired(7, 7),
            wire.RemoveProducer(7),
            wire.PacketsConfirmed(77),
            wire.DeleteQueue("no such queue"),
            wire.SessionStart(),
            wire.SessionStart(),
            wire.SessionClose(),
            wire.SessionClose(),
            wire.Commit(),
        ]
        rng = random.Random(3)
        with self.attack():
            for _ in self.rounds():
                for _ in range(200 if FULL else 20):
                    attacker = self.user()
                    rng.shuffle(wrong)
                    attacker.send(self.many(*wrong))
                    attacker.send(frame(wire.Ping.TYPE, PING_CHANNEL, struct.pack(">q", 60_000)))
                    self.assertNotEqual(attacker.receive(PING_CHANNEL), b"")
                    attacker.close()

    def test_damaged_conversations_at_full_speed(self) -> None:
        rng = random.Random(4)
        recorded = [[data for from_client, data in one.frames if from_client] for path in files() for one in connections(load(path))]
        until = time.monotonic() + (60 if FULL else 1)
        with self.attack():
            while time.monotonic() < until:
                data = bytearray(b"".join(rng.choice(recorded)))
                for _ in range(rng.randrange(1, 5)):
                    at = rng.randrange(len(data))
                    data[at : at + rng.randrange(4)] = rng.randbytes(rng.randrange(4))
                attacker = Attacker(self.plant.port, self.host)
                attacker.send(bytes(data), 1)
                attacker.close()

    # --- floods

    def test_peers_that_do_not_read(self) -> None:
        """One that asks and asks, and one with endless credits on a full queue."""
        with self.attack("AMQ229014.*does not read"):
            asking, consuming = self.soon_overdue(), self.user()
            question = self.many(*[wire.QueueQuery("x" * 500)] * 100)
            for _ in range(1000):
                if not asking.send(question, 0.3):
                    break
            self.queue(consuming, "full")
            message = self.many(wire.SessionSend(encode_message(self.message("full", bytes(50_000))), False, 0))
            for _ in range(200):
                consuming.send(message)
            consuming.call(wire.QueueQuery("full"))
            consuming.send(frame(wire.Ping.TYPE, PING_CHANNEL, struct.pack(">q", TTL_MS)))
            consuming.send(
                self.many(wire.CreateConsumer(0, "full", None, requires_response=False), wire.FlowToken(0, -1), wire.SessionStart())
            )
            time.sleep(TTL_MS / 1000 + 1)
            for attacker in (asking, consuming):
                self.assert_dropped(attacker, TTL_SECONDS)
            self.user().call(wire.DeleteQueue("full"))

    def test_costly_filters(self) -> None:
        """LIKE with twenty %, on many long strings that nearly match; great and deep ones."""
        pattern = "%".join("a" * 20)
        great = " OR ".join(f"LIKE_{number} LIKE '%{number}%'" for number in range(1500))
        deep = "(" * 20_000 + "a = 1" + ")" * 20_000
        with self.attack():
            attacker = self.user()
            self.queue(attacker, "filtered")
            text = "a" * (20_000 if FULL else 2000) + "b"
            message = self.many(wire.SessionSend(encode_message(self.message("filtered", p=(STRING, text))), False, 0))
            for _ in range(100):
                attacker.send(message)
            attacker.send(self.many(wire.SessionStart()))
            filters = [f"p LIKE '%{pattern}%c'", f"p LIKE '%{pattern.replace('a', '_a')}%c'", great, deep, "NOT " * 20_000 + "a = 1"]
            numbers = itertools.count()
            for _ in self.rounds():
                for filter in filters * (10 if FULL else 1):
                    number = next(numbers)
                    attacker.send(
                        self.many(wire.CreateConsumer(number, "filtered", filter, requires_response=False), wire.FlowToken(number, -1))
                    )
                attacker.call(wire.DeleteQueue("no such queue"))

    def test_a_filter_over_a_long_queue(self) -> None:
        """The search goes on, and others meanwhile, too."""
        for exclusive in (False, True):
            with self.attack(growth=512 * MIB):
                attacker = self.long_queue(exclusive)
                attacker.send(self.many(wire.SessionStart()))
                for number in range(10):
                    packets = wire.CreateConsumer(number, "long", "none LIKE '%a%'", requires_response=False), wire.FlowToken(number, -1)
                    attacker.send(self.many(*packets))
                for number in range(10):
                    attacker.send_packet(wire.ForceConsumerDelivery(number, 1))
                    self.assertNotEqual(attacker.receive(10), b"")
                for number in range(10):
                    attacker.call(wire.ConsumerClose(number))
                attacker.call(wire.DeleteQueue("long"))

    def long_queue(self, exclusive: bool = False) -> Attacker:
        attacker = self.user()
        self.queue(attacker, "long", exclusive=exclusive)
        message = self.many(wire.SessionSend(encode_message(self.message("long")), False, 0)) * 1000
        for _ in range(200 if FULL else 10):
            attacker.send(message)
        return attacker

    def test_management_of_a_long_queue(self) -> None:
        """Looking through it, emptying it and deleting it."""
        with self.attack(growth=512 * MIB):
            attacker = self.long_queue()
            for operation, parameters in (
                ("listMessagesAsJSON", "[\"none LIKE '%a%'\"]"),
                ("countMessages", "[\"none LIKE '%a%'\"]"),
                ("removeMessage", "[7]"),
                ("changeMessagesPriority", "[null, 9]"),
                ("removeMessages", "[null]"),
            ):
                properties = {"_AMQ_ResourceName": (STRING, "queue.long"), "_AMQ_OperationName": (STRING, operation)}
                content = CoreMessage(address="activemq.management", type=TYPE_TEXT, properties=properties, body=encode_text(parameters))
                attacker.send_packet(wire.SessionSend(encode_message(content), False, 0))
            attacker.call(wire.QueueQuery("long"))
            attacker.call(wire.DeleteQueue("long"))
            self.long_queue().call(wire.DeleteQueue("long"))

    def test_many_at_the_same_time(self) -> None:
        """What ends by itself, from many threads."""

        def work(number: int) -> None:
            for _ in range(50 if FULL else 5):
                attacker = Attacker(self.plant.port, self.host, ttl_ms=60_000)
                attacker.login()
                attacker.send(self.many(wire.QueueQuery("q"), wire.BindingQuery("q")) * 20)
                attacker.send(struct.pack(">i", -number))
                attacker.dropped(30)
                attacker.close()

        with self.attack():
            for _ in self.rounds():
                threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
