"""The bounded run of the fuzz targets: the same inputs in every run, a few seconds."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import MQError
from mqclient.wire.frames import frame
from mqclient.wire.packets import PACKETS, VERSION_MAX, VERSION_MIN, decode_packet, grammar
from tests.fuzz.run import choose
from tests.fuzz.targets import TARGETS, TYPES, VERSIONS
from tests.unit.mqclient.wire.vectors import NOT_CORE, connections, files, load, packet_type

RUNS = {"conversation": 300}
"""Damaged inputs of a target, where 8000 would take too long."""
CHANNEL_NUMBERS = {0: 2, 1: 1}
CORPUS = Path(__file__).resolve().parents[3] / "fuzz" / "corpus"
INTERESTING = [struct.pack(">i", number) for number in (-0x80000000, -1, 0, 1, 8, 9, 0xFFF, 0x7FFFFFFF)]
SELECTORS = [
    "color = 'red' AND weight > 2.5 OR NOT (a IN ('x','y'))",
    "name LIKE 'a!_%' ESCAPE '!' AND b BETWEEN -1 AND 0x7F",
    "AMQPriority IS NOT NULL AND n + 2 * (n - 1) / 3 <> 4e2",
    "((((((((s = ''))))))))",
]


def recorded(names: tuple[str, ...]) -> Iterator[bytes]:
    """The frames of these recorded conversations, each body once."""
    seen = set()
    for path in files():
        if path.parent.name in ("jms-2.44.0", "jms-1.5.6") and path.stem in names:
            for connection in connections(load(path)):
                for _, one in connection.frames:
                    if packet_type(one) not in NOT_CORE and one not in seen:
                        seen.add(one)
                        yield one


def corpus() -> dict[str, list[bytes]]:
    """Good inputs of each target."""
    captured = list(recorded(("msg-properties", "msg-map", "msg-stream", "msg-text", "xa", "connect-close")))
    messages = [one[13:-13] for one in captured if packet_type(one) == 71]
    tables = [body[4 + struct.unpack(">i", body[:4])[0] - 13 :] for body in messages]
    good = {
        "frames": [b"\x10" + b"".join(captured[i : i + 3]) for i in range(0, len(captured), 3)],
        "packets": [bytes((VERSION_MAX - VERSION_MIN, TYPES.index(packet_type(one)))) + one[13:] for one in captured],
        "messages": messages + tables,
        "properties": [table[table.index(b"\x01\x00\x00\x00", 40) :] for table in tables if b"\x01\x00\x00\x00" in table[40:]],
        "bodies": [body[4 : 4 + struct.unpack(">i", body[:4])[0] - 13] for body in messages],
        "selectors": [text.encode() for text in SELECTORS],
        "conversation": list(conversations()),
    }
    for name, inputs in good.items():
        inputs += [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
    return good


def conversations() -> Iterator[bytes]:
    """What clients of recorded conversations send, as the target ``conversation`` takes it."""
    for path in files():
        if path.parent.name == "jms-2.44.0" and path.stat().st_size < 60_000:
            for connection in connections(load(path)):
                sent = [one for from_client, one in connection.frames if from_client and packet_type(one) not in NOT_CORE]
                yield b"\x01" + b"".join(
                    struct.pack(">bBH", packet_type(one), CHANNEL_NUMBERS.get(one[12], 0), len(one) - 13) + one[13:]
                    for one in sent
                    if len(one) < 2000
                )


def damaged(good: list[bytes], source: random.Random) -> bytes:
    """A good input with a few places changed, cut, doubled or crossed with another."""
    data = bytearray(source.choice(good))
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(data) + 1)
        kind = source.randrange(6)
        if kind == 0:
            data[at : at + source.randint(1, 8)] = b""
        elif kind == 1:
            data[at:at] = source.randbytes(source.randint(1, 8))
        elif kind == 2:
            data[at : at + 4] = source.choice(INTERESTING)
        elif kind == 3 and at < len(data):
            data[at] ^= 1 << source.randrange(8)
        elif kind == 4:
            data[at:at] = data[at : at + source.randint(1, 16)]
        else:
            other = source.choice(good)
            data[at:] = other[source.randrange(len(other) + 1) :]
    return bytes(data)


class BoundedFuzzTests(SynchronousTestCase):
    """Nothing but an MQError comes out of a target, whatever goes in."""

    def run_target(self, name: str) -> None:
        source = random.Random(name)
        good = corpus()[name]
        self.assertGreater(len(good), 3)
        for data in good:
            TARGETS[name](data)
        for _ in range(RUNS.get(name, 8000)):
            data = damaged(good, source)
            try:
                TARGETS[name](data)
            except Exception as error:
                self.fail(f"{name}: {error!r} for {data.hex()}")

    def test_frames(self) -> None:
        self.run_target("frames")

    def test_packets(self) -> None:
        self.run_target("packets")

    def test_messages(self) -> None:
        self.run_target("messages")

    def test_properties(self) -> None:
        self.run_target("properties")

    def test_bodies(self) -> None:
        self.run_target("bodies")

    def test_selectors(self) -> None:
        self.run_target("selectors")

    def test_conversation(self) -> None:
        self.run_target("conversation")

    def test_noise(self) -> None:
        source = random.Random("noise")
        for target in (*TARGETS.values(), choose(TARGETS)):
            for size in range(60):
                for _ in range(4):
                    target(source.randbytes(size))

    def test_every_type_and_version_on_noise(self) -> None:
        source = random.Random("types")
        for chosen in range(len(TYPES)):
            for version in range(VERSIONS):
                TARGETS["packets"](bytes((version, chosen)) + source.randbytes(source.randrange(60)))


class MemoryTests(SynchronousTestCase):
    def test_counts_and_lengths_of_two_thousand_million_cost_no_memory(self) -> None:
        """Whatever four bytes of a packet are made the greatest number, reading it takes little more than the packet."""
        bodies = {packet_type(one): one[13:400] for one in recorded(("msg-properties", "xa", "reattach", "topic-shared"))}
        self.assertGreater(len(bodies), 40)
        tracemalloc.start()
        try:
            for kind, body in bodies.items():
                for at in range(len(body)):
                    hostile = body[:at] + b"\x7f\xff\xff\xff" + body[at + 4 :]
                    tracemalloc.reset_peak()
                    before = tracemalloc.get_traced_memory()[0]
                    try:
                        decode_packet(kind, hostile, VERSION_MAX)
                    except MQError:
                        pass
                    peak = tracemalloc.get_traced_memory()[1] - before
                    self.assertLess(peak, 64 * 1024, f"{PACKETS[kind].NAME} at {at}")
        finally:
            tracemalloc.stop()

    def test_every_packet_refuses_a_body_that_is_cut_off(self) -> None:
        """At every length shorter than its mandatory fields; the error names the packet and one of its fields."""
        for one in recorded(("msg-properties", "xa", "reattach", "topic-shared")):
            kind, body = packet_type(one), one[13:]
            refusals = 0
            for size in range(min(len(body), 300)):
                try:
                    decode_packet(kind, body[:size], VERSION_MAX)
                except MQError as error:
                    refusals += 1
                    self.assertEqual(getattr(error, "packet", None), PACKETS[kind].NAME)
                    self.assertIn(getattr(error, "field", None), grammar.field_names(grammar.GRAMMAR[kind]))
            if body and kind not in (20, 21, 43, 72):  # these may be empty, or end anywhere
                self.assertGreater(refusals, 0, PACKETS[kind].NAME)

    def test_unknown_packet_type_is_refused(self) -> None:
        error = self.assertRaises(MQError, decode_packet, 99, frame(99, 0, b"")[13:], VERSION_MAX)
        self.assertIn("99", str(error))
