"""What brokers say of themselves, and the table of those that were heard of."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import MalformedPacketError
from mqclient.protocol.discovery import (
    ANNOUNCED_CONNECTORS_MAX,
    DISCOVERED_MAX,
    NODE_ID_LENGTH_MAX,
    Announcement,
    Discovered,
    Endpoint,
    JGroupsEndpoint,
    UdpEndpoint,
    check_endpoint,
    decode_announcement,
    encode_announcement,
)
from mqclient.wire.primitives import Encoder, Long, TransportConfiguration

NETTY = "org.apache.activemq.artemis.core.remoting.impl.netty.NettyConnectorFactory"
SELF = TransportConfiguration("self", NETTY, (("port", "61616"), ("host", "127.0.0.1")))
OTHER = TransportConfiguration("other", NETTY, (("port", "61617"), ("host", "127.0.0.1")))

DATAGRAM = bytes.fromhex(
    "00000024002435623261643666372d653532392d313166312d383566302d30326663303030303030303100000024002435623361363735382d653532392d313166"
    "312d383566302d303266633030303030303031000000010000000400730065006c00660000004a004a6f72672e6170616368652e6163746976656d712e61727465"
    "6d69732e636f72652e72656d6f74696e672e696d706c2e6e657474792e4e65747479436f6e6e6563746f72466163746f72790000000200000004"
    "0070006f00720074030000000500360031003600310036000000040068006f00730074030000000900093132372e302e302e31"
)
NODE_ID = "5b2ad6f7-e529-11f1-85f0-02fc00000001"
UNIQUE_ID = "5b3a6758-e529-11f1-85f0-02fc00000001"
RECORDING = Path(__file__).resolve().parents[4] / "protocol-spec" / "vectors" / "cluster-2.44.0" / "udp-discovery.json"

texts = st.text(max_size=20)
connectors = st.builds(
    TransportConfiguration, texts, texts, st.lists(st.tuples(texts, texts), max_size=5, unique_by=lambda pair: pair[0]).map(tuple)
)


class CodecTests(SynchronousTestCase):
    def test_a_datagram_of_artemis(self) -> None:
        self.assertEqual(len(DATAGRAM), 239)
        self.assertEqual(decode_announcement(DATAGRAM), Announcement(NODE_ID, UNIQUE_ID, (SELF,)))
        self.assertEqual(encode_announcement(NODE_ID, UNIQUE_ID, [SELF]), DATAGRAM)

    def test_every_recorded_datagram_is_read_and_written_back(self) -> None:
        datagrams = [bytes.fromhex(each["hex"]) for each in json.loads(RECORDING.read_text())["udp"]["datagrams"]]
        self.assertTrue(datagrams)
        for data in datagrams:
            said = decode_announcement(data)
            self.assertEqual(encode_announcement(said.node_id, said.unique_id, said.connectors[::-1]), data)

    def test_of_several_connectors_the_first_stands_last(self) -> None:
        said = decode_announcement(encode_announcement("n", "u", [SELF, OTHER]))
        self.assertEqual(said.connectors, (OTHER, SELF))

    def test_all_parameters_travel_as_texts(self) -> None:
        connector = TransportConfiguration("c", NETTY, (("port", 61616), ("sslEnabled", True), ("big", Long(5))))
        said = decode_announcement(encode_announcement("n", "u", [connector]))
        self.assertEqual(said.connectors[0].parameters, (("port", "61616"), ("sslEnabled", "true"), ("big", "5")))

    @given(st.text(min_size=1, max_size=NODE_ID_LENGTH_MAX), texts, st.lists(connectors, max_size=4), st.binary(max_size=8))
    def test_what_was_written_is_read_whatever_follows(
        self, node_id: str, unique_id: str, given: list[TransportConfiguration], rest: bytes
    ) -> None:
        said = decode_announcement(encode_announcement(node_id, unique_id, given) + rest)
        self.assertEqual(said, Announcement(node_id, unique_id, tuple(reversed(given))))

    @given(st.integers(0, 238))
    def test_a_datagram_cut_short_is_refused(self, size: int) -> None:
        self.assertRaises(MalformedPacketError, decode_announcement, DATAGRAM[:size])

    @given(st.binary(max_size=300), st.integers(0, 238), st.binary(max_size=4), st.integers(0, 4))
    def test_damage_is_told_in_one_way(self, junk: bytes, at: int, inserted: bytes, lost: int) -> None:
        for data in (junk, DATAGRAM[:at] + inserted + DATAGRAM[at + lost :]):
            try:
                decode_announcement(data)
            except MalformedPacketError:
                pass

    def test_too_much_is_refused_on_both_sides(self) -> None:
        self.assertRaises(ValueError, encode_announcement, "n", "u", [SELF] * (ANNOUNCED_CONNECTORS_MAX + 1))
        huge = TransportConfiguration("c", NETTY, tuple((f"key{number}", "x" * 4000) for number in range(20)))
        self.assertRaises(ValueError, encode_announcement, "n", "u", [huge])
        encoder = Encoder()
        encoder.string("n")
        encoder.string("u")
        encoder.i32(ANNOUNCED_CONNECTORS_MAX + 1)
        for _ in range(ANNOUNCED_CONNECTORS_MAX + 1):
            encoder.transport(SELF)
        self.assertRaises(MalformedPacketError, decode_announcement, bytes(encoder.data))
        self.assertRaises(MalformedPacketError, decode_announcement, encode_announcement("n" * 257, "u", []))
        self.assertRaises(MalformedPacketError, decode_announcement, encode_announcement("", "u", []))


class EndpointTests(SynchronousTestCase):
    def refused(self, endpoint: Endpoint) -> str:
        return str(self.assertRaises(ValueError, check_endpoint, endpoint))

    def test_what_can_be_used(self) -> None:
        check_endpoint(UdpEndpoint("231.7.7.7", 9876))
        check_endpoint(UdpEndpoint("239.255.255.255", 1, "127.0.0.1", 5432))
        check_endpoint(JGroupsEndpoint("channel", "stack.xml"))

    def test_what_cannot_says_why(self) -> None:
        self.assertIn("reserved", self.refused(UdpEndpoint("224.0.0.0", 9876)))
        self.assertIn("239.255.255.255", self.refused(UdpEndpoint("192.168.1.1", 9876)))
        self.assertIn("231.7.7.7", self.refused(UdpEndpoint("not an address", 9876)))
        self.assertIn("1 to 65535", self.refused(UdpEndpoint("231.7.7.7", 0)))
        self.assertIn("together with a local bind address", self.refused(UdpEndpoint("231.7.7.7", 9876, None, 5432)))
        self.assertIn("-1 for any", self.refused(UdpEndpoint("231.7.7.7", 9876, "127.0.0.1", 70000)))
        self.assertIn("needs a name", self.refused(JGroupsEndpoint("", "stack.xml")))
        self.assertIn("stack file", self.refused(JGroupsEndpoint("channel", "")))


class TableTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.lines: list[str] = []
        self.calls = 0
        self.table = self.make()

    def make(self, own: str | None = None, unique: str | None = None) -> Discovered:
        table = Discovered(10000, self.lines.append, own, unique)
        table.listeners.append(self.told)
        return table

    def told(self) -> None:
        self.calls += 1

    def hear(self, node_id: str, unique_id: str, now: float, connector: TransportConfiguration = SELF) -> bool:
        return self.table.received(encode_announcement(node_id, unique_id, [connector]), "10.0.0.1:3001", now)

    def names(self) -> list[str]:
        return [broker.node_id for broker in self.table.brokers]

    def test_brokers_are_listed_with_their_last_connector(self) -> None:
        self.table.received(encode_announcement("a", "1", [SELF, OTHER]), "10.0.0.1:3001", 0.0)
        self.assertEqual(self.table.connectors(), [SELF])
        self.assertEqual(self.table.brokers[0].source, "10.0.0.1:3001")
        self.assertEqual(self.calls, 1)
        self.table.received(encode_announcement("a", "1", [SELF, OTHER]), "10.0.0.1:3001", 2.0)
        self.assertEqual(self.calls, 1, "nothing has changed")

    def test_an_entry_is_updated_and_that_is_told(self) -> None:
        self.hear("a", "1", 0.0)
        self.hear("a", "1", 1.0, OTHER)
        self.assertEqual(self.table.connectors(), [OTHER])
        self.assertEqual(self.calls, 2)

    def test_entries_expire_without_any_datagram(self) -> None:
        self.assertIsNone(self.table.next_expiry())
        self.hear("a", "1", 1.0)
        self.hear("b", "2", 5.0)
        self.assertEqual(self.table.next_expiry(), 11.0)
        self.table.expire(10.9)
        self.assertEqual(self.names(), ["a", "b"])
        self.table.expire(11.0)
        self.assertEqual(self.names(), ["b"])
        self.assertEqual(self.calls, 3)
        self.assertEqual(self.table.next_expiry(), 15.0)

    def test_damaged_datagrams_are_counted_and_dropped(self) -> None:
        self.assertFalse(self.table.received(b"junk", "10.0.0.1:3001", 0.0))
        self.assertEqual((self.table.datagrams, self.table.damaged, self.calls), (1, 1, 0))

    def test_a_broker_without_connectors_is_not_listed(self) -> None:
        self.assertFalse(self.table.received(encode_announcement("a", "1", []), "10.0.0.1:3001", 0.0))
        self.assertEqual(self.names(), [])

    def test_own_announcements_are_not_listed(self) -> None:
        self.table = self.make("a", "1")
        self.assertFalse(self.hear("a", "1", 0.0))
        self.assertEqual((self.names(), self.calls, self.lines, self.table.contested), ([], 0, [], ()))

    def test_a_restart_is_one_line_and_no_contest(self) -> None:
        self.hear("a", "1", 0.0)
        self.hear("a", "2", 1.0)
        self.hear("a", "2", 2.0)
        self.assertEqual(len(self.lines), 1)
        self.assertIn("has started again", self.lines[0])
        self.assertEqual(self.table.contested, ())

    def test_two_brokers_with_one_node_id_are_told_at_each_change_until_one_is_gone(self) -> None:
        self.hear("a", "1", 0.0)
        self.hear("a", "2", 1.0, OTHER)
        self.hear("a", "1", 2.0)
        self.assertEqual(self.table.contested, ("a",))
        self.hear("a", "2", 3.0, OTHER)
        self.assertEqual(len(self.lines), 3)
        self.assertIn("two brokers have the same node id", self.lines[2])
        for now in (5.0, 7.0, 9.0, 11.0, 13.0):
            self.hear("a", "2", now, OTHER)
        self.table.expire(13.0)
        self.assertEqual(self.table.contested, ())
        self.assertEqual(self.names(), ["a"])
        self.assertEqual(len(self.lines), 3)

    def test_another_broker_with_the_own_node_id(self) -> None:
        self.table = self.make("a", "1")
        self.hear("a", "2", 0.0)
        self.assertEqual(self.table.contested, ("a",))
        self.assertEqual(self.calls, 1)
        self.hear("a", "2", 8.0)
        self.table.expire(17.0)
        self.assertEqual(self.table.contested, ("a",), "it still announces itself")
        self.table.expire(18.0)
        self.assertEqual((self.table.contested, self.names(), self.calls), ((), [], 2))
        self.hear("a", "1", 19.0)
        self.assertEqual(len(self.lines), 1)

    def test_each_announcement_of_another_broker_with_the_own_node_id_tells_its_connector(self) -> None:
        told: list[TransportConfiguration] = []
        self.table = self.make("a", "1")
        self.table.rival_listeners.append(told.append)
        self.hear("a", "1", 0.0)
        self.hear("b", "2", 0.0)
        self.table.received(encode_announcement("a", "2", []), "10.0.0.1:3001", 0.0)
        self.assertEqual(told, [])
        self.hear("a", "2", 1.0, OTHER)
        self.hear("a", "2", 2.0, OTHER)
        self.assertEqual([each.name for each in told], [OTHER.name] * 2)

    def test_invented_brokers_are_bounded(self) -> None:
        for number in range(DISCOVERED_MAX + 5):
            self.hear(f"node {number}", "1", 0.0)
        self.assertEqual((len(self.table.brokers), self.table.refused), (DISCOVERED_MAX, 5))
        self.hear("node 0", "1", 9.0)
        self.table.expire(10.0)
        self.assertEqual(self.names(), ["node 0"])

    def test_unique_ids_of_one_broker_are_bounded(self) -> None:
        for number in range(100):
            self.hear("a", f"unique {number}", 0.0)
        self.assertEqual(self.table.contested, ())
        self.hear("a", "unique 98", 1.0)
        self.assertEqual(self.table.contested, ("a",))

    def test_nobody_is_told_after_removal(self) -> None:
        self.table.listeners.remove(self.told)
        self.hear("a", "1", 0.0)
        self.assertEqual(self.calls, 0)
