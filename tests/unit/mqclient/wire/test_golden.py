"""Known frames: those of packets that were never recorded, and those whose layout depends on the version."""

from __future__ import annotations

import pathlib
import re

from twisted.trial.unittest import SynchronousTestCase

import mqclient.wire
from mqclient.errors import MalformedPacketError
from mqclient.wire import packets as p
from mqclient.wire.frames import HEADER, frame
from mqclient.wire.primitives import Xid

ADDRESS = "0000000c640065006d006f002e007100"
"""``demo.q`` as a SimpleString."""

FRAMES: list[tuple[int, str, p.Packet]] = [
    (136, "00000011 0a 0000000000000000 000000000000ea60", p.Ping(60000)),
    (121, "00000010 0b 0000000000000000 01000000024e00", p.Disconnect("N")),
    (129, "00000011 7c 0000000000000000 01000000024e00 00", p.DisconnectV2("N")),
    (136, "00000013 ed 0000000000000000 01000000024e00 04 00 00", p.DisconnectV3("N", p.REASON_SHUT_DOWN)),
    (121, "0000000a 70 0000000000000000 ff", p.SubscribeTopology(True)),
    (136, "0000000e 71 0000000000000000 00 00000088", p.SubscribeTopologyV2(False, 136)),
    (121, "00000013 6e 0000000000000000 00 00000001 006e 00 00 ff", p.ClusterTopology(False, "n", last=True)),
    (121, "00000010 6e 0000000000000000 ff 00000001 006e", p.ClusterTopology(True, "n")),
    (136, "0000001d 72 0000000000000000 ff 00000003 006e00690064 0000000000000009 00", p.ClusterTopologyV2(True, "nid", 9, groups=1)),
    (122, "0000001c 72 0000000000000000 ff 00000003 006e00690064 0000000000000009", p.ClusterTopologyV2(True, "nid", 9, groups=0)),
    (136, "0000001f 14 0000000000000001 0000006c 01 0000000b 000b 6261642076657273696f6e", p.ExceptionResponse(108, "bad version")),
    (136, "0000001c 14 000000000000000a 000000d2 01 00000001 006d 0000000000000005", p.ExceptionResponse(210, "m", 5)),
    (129, "00000014 14 000000000000000a 000000d2 01 00000001 006d", p.ExceptionResponse(210, "m")),
    (130, "00000011 15 000000000000000a ffffffffffffffff", p.NullResponse(-1)),
    (129, "00000009 15 0000000000000011", p.NullResponse(None)),
    (136, "00000011 2b 000000000000000b fffffffffffffff9", p.Commit(-7)),
    (131, "00000009 2b 000000000000000b", p.Commit(None)),
    (136, "00000013 20 0000000000000001 00000001 0073 00000004", p.ReattachSession("s", 4)),
    (136, "0000000e 21 0000000000000001 00000003 ff", p.ReattachSessionResponse(3, True)),
    (121, "00000015 68 000000000000000a 00000001 006b 00000001 0076", p.AddMetadata("k", "v")),
    (136, "00000013 52 000000000000000a 00000007 000000026100", p.ProducerFailCredits(7, "a")),
    (136, "0000000d eb 000000000000000b 00000001", p.RemoveProducer(1)),
    (136, "00000019 33 000000000000000b 00000001 00000002 6271 00000002 6774", p.XaStart(Xid(1, b"bq", b"gt"))),
    (136, "0000000f 37 000000000000000b 00 00000000 00", p.XaResponse(False, 0)),
    (136, "0000001d 37 000000000000000a ff fffffffc 01 00000001 0078 ffffffffffffffff", p.XaResponse(True, -4, "x", -1, groups=1)),
    (
        130,
        f"00000028 28 000000000000000b 0000000000000000 {ADDRESS} 00 00 ff 00000000",
        p.CreateConsumer(0, "demo.q"),
    ),
    (129, f"00000024 28 000000000000000b 0000000000000000 {ADDRESS} 00 00 ff", p.CreateConsumer(0, "demo.q")),
    (
        136,
        f"00000020 f5 000000000000000b {ADDRESS} 00000001 01 ff ff",
        p.CreateAddress("demo.q", (1,), True, True),
    ),
    (
        136,
        f"00000043 f4 000000000000000b {ADDRESS} {ADDRESS} 00 ff 00 ff ff 01 ffffffff 00 00 00 {'00 ' * 13}",
        p.CreateQueueV2("demo.q", "demo.q", None, True, False, True, True, 1, -1, False, groups=6),
    ),
    (
        125,
        f"0000002b 2e 000000000000000b ff ff 00 00000001 0000000000000002 00 00 01 {ADDRESS}",
        p.QueueQueryResponse(True, True, False, 1, 2, None, None, "demo.q"),
    ),
    (125, f"0000001e 32 000000000000000b ff 00000001 {ADDRESS}", p.BindingQueryResponse(True, ("demo.q",))),
    (126, "0000000f f8 000000000000000b 00 00000000 ff", p.BindingQueryResponseV2(False, (), True)),
    (
        134,
        "00000023 49 000000000000000b 00000000 00 0000000000032000 ff fffffffffffffff7 00000001",
        p.SessionSendContinuation(b"", False, 204800, True, -9, 1),
    ),
    (129, "00000011 49 000000000000000a 00000002 0102 ff 00", p.SessionSendContinuation(b"\x01\x02", True)),
    (136, "00000019 4d 000000000000000a 00000003 010203 ff 0000000000000001", p.SessionReceiveContinuation(b"\x01\x02\x03", True, 1)),
]


def raw(text: str) -> bytes:
    return bytes.fromhex(text)


class GoldenTests(SynchronousTestCase):
    def test_known_frames(self) -> None:
        for version, text, packet in FRAMES:
            data = raw(text)
            length, kind, channel = HEADER.unpack_from(data)
            self.assertEqual((length, kind), (len(data) - 4, packet.TYPE), packet.NAME)
            self.assertEqual(frame(kind, channel, p.encode_packet(packet, version)), data, packet.NAME)
            self.assertEqual(p.decode_packet(kind, data[13:], version), packet)

    def test_message_shorter_than_its_trailer_is_refused(self) -> None:
        for kind, version, size in ((71, 136, 16), (71, 130, 12), (71, 129, 4), (71, 128, 8), (75, 136, 15), (75, 128, 19)):
            error = self.assertRaises(MalformedPacketError, p.decode_packet, kind, bytes(size), version)
            self.assertEqual(error.field, "message")

    def test_only_the_grammar_needs_construct(self) -> None:
        folder = pathlib.Path(mqclient.wire.__file__).parent
        importing = [
            path.name
            for path in folder.rglob("*.py")
            if re.search(r"^\s*(import construct|from construct|from mqclient\.wire(\.grammar| import grammar))", path.read_text(), re.M)
        ]
        self.assertEqual([name for name in importing if not name.startswith("grammar")], [])
