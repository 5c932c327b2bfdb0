"""JGroups stack files: those of the manual, those of JGroups itself, and what is refused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import MalformedPacketError
from mqclient.protocol.jgroups import (
    CHANNEL_NAME_SIZE_MAX,
    MEMBERS_TOLD_MAX,
    MESSAGE_SIZE_MAX,
    STACK_FILE_SIZE_MAX,
    STACK_PROTOCOLS_MAX,
    Message,
    MessageSplitter,
    MulticastPlace,
    StackFile,
    TcpStack,
    decode_message,
    decode_places,
    encode_message,
    encode_places,
    read_stack,
)

FIRST_CHAPTER = """
    <config xmlns="urn:org:jgroups"
       xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="urn:org:jgroups http://www.jgroups.org/schema/JGroups-3.0.xsd">
       <TCP loopback="true"
          recv_buf_size="20000000"
          send_buf_size="640000"
          discard_incompatible_packets="true"
          max_bundle_size="64000"
          max_bundle_timeout="30"
          enable_bundling="true"
          use_send_queues="false"
          sock_conn_timeout="300"

          thread_pool.enabled="true"
          thread_pool.min_threads="1"
          thread_pool.max_threads="10"
          thread_pool.keep_alive_time="5000"
          thread_pool.queue_enabled="false"
          thread_pool.queue_max_size="100"
          thread_pool.rejection_policy="run"

          oob_thread_pool.enabled="true"
          oob_thread_pool.min_threads="1"
          oob_thread_pool.max_threads="8"
          oob_thread_pool.keep_alive_time="5000"
          oob_thread_pool.queue_enabled="false"
          oob_thread_pool.queue_max_size="100"
          oob_thread_pool.rejection_policy="run"/>

       <FILE_PING location="../file.ping.dir"/>
       <MERGE2 max_interval="30000"
          min_interval="10000"/>
       <FD_SOCK/>
       <FD timeout="10000" max_tries="5" />
       <VERIFY_SUSPECT timeout="1500"  />
       <BARRIER />
       <pbcast.NAKACK
          use_mcast_xmit="false"
          retransmit_timeout="300,600,1200,2400,4800"
          discard_delivered_msgs="true"/>
       <UNICAST timeout="300,600,1200" />
       <pbcast.STABLE stability_delay="1000" desired_avg_gossip="50000"
          max_bytes="400000"/>
       <pbcast.GMS print_local_addr="true" join_timeout="3000"
          view_bundling="true"/>
       <FC max_credits="2000000"
          min_threshold="0.10"/>
       <FRAG2 frag_size="60000"  />
       <pbcast.STATE_TRANSFER/>
       <pbcast.FLUSH timeout="0"/>
    </config>
"""

LATER_CHAPTER = """<config xmlns="urn:org:jgroups">
   <TCP loopback="true"/>
   <FILE_PING location="../"/>
   <MERGE2 max_interval="30000"/>
   <FD timeout="10000" max_tries="5" />
   <VERIFY_SUSPECT timeout="1500"  />
   <BARRIER />
   <UNICAST timeout="300,600,1200" />
   <pbcast.STABLE stability_delay="1000" desired_avg_gossip="50000"/>
   <pbcast.GMS print_local_addr="true" join_timeout="3000"/>
   <FC max_credits="2000000"/>
   <FRAG2 frag_size="60000"  />
   <pbcast.FLUSH timeout="0"/>
</config>"""

UDP_OF_JGROUPS_5 = """<?xml version="1.0"?>
<!-- Default stack using IP multicasting -->
<config xmlns="urn:org:jgroups">
    <UDP bind_addr="${jgroups.bind_addr:SITE_LOCAL}" mcast_addr="${jgroups.udp.mcast_addr:228.8.8.9}"
         mcast_port="${jgroups.udp.mcast_port:45588}" ip_ttl="4" thread_pool.max_threads="200"/>
    <RED/>
    <PING /><MERGE3 max_interval="30000"/><FD_SOCK2/><FD_ALL3/><VERIFY_SUSPECT2/>
    <pbcast.NAKACK2/><UNICAST3/><pbcast.STABLE/><pbcast.GMS/><UFC/><MFC/><FRAG4/><RSVP/><COMPRESS/><pbcast.STATE_TRANSFER/>
</config>"""

TCP_OF_JGROUPS_5 = """<config>
    <org.jgroups.protocols.TCP bind_addr="${jgroups.bind_addr,jgroups.tcp.address:127.0.0.1}" bind_port="7900" port_range="0"
        external_addr="${jgroups.external_addr:}"/>
    <TCPPING initial_hosts="${jgroups.tcpping.initial_hosts:hostA[7800], hostB[7801]}" port_range="3"/>
    <MPING mcast_addr="230.5.6.8" mcast_port="7556"/>
    <SYM_ENCRYPT/>
</config>"""


def read(text: str, **environment: str) -> StackFile:
    return read_stack(text.encode(), "stack.xml", environment)


def stack(*protocols: str) -> str:
    return "<config>\n" + "\n".join(protocols) + "\n</config>"


class StackFileTests(SynchronousTestCase):
    def refused(self, text: str, *words: str) -> None:
        problem = str(self.assertRaises(ValueError, read, text))
        for word in ("stack.xml", *words):
            self.assertIn(word, problem)

    def test_the_first_chapter(self) -> None:
        self.assertEqual(read(FIRST_CHAPTER), StackFile(TcpStack(None, 7800, 10, None, folder="../file.ping.dir")))

    def test_the_later_chapter(self) -> None:
        self.assertEqual(read(LATER_CHAPTER), StackFile(TcpStack(None, 7800, 10, None, folder="../")))

    def test_udp(self) -> None:
        self.assertEqual(read(UDP_OF_JGROUPS_5), StackFile(MulticastPlace("228.8.8.9", 45588, None, 4)))
        self.assertEqual(read(stack("<UDP/>")), StackFile(MulticastPlace("228.8.8.8", 7600, None, 8)))
        old = stack('<UDP mcast_group_addr="228.1.2.3" mcast_port="1" bind_addr="LOOPBACK"/>')
        self.assertEqual(read(old), StackFile(MulticastPlace("228.1.2.3", 1, "127.0.0.1", 8)))

    def test_placeholders(self) -> None:
        found = read(UDP_OF_JGROUPS_5, **{"jgroups.bind_addr": "127.0.0.1", "JGROUPS_UDP_MCAST_PORT": "5000"})
        self.assertEqual(found.transport, MulticastPlace("228.8.8.9", 5000, "127.0.0.1", 4))
        found = read(TCP_OF_JGROUPS_5, JGROUPS_TCP_ADDRESS="10.0.0.1")
        assert isinstance(found.transport, TcpStack)
        self.assertEqual(found.transport.bind_address, "10.0.0.1")

    def test_what_names_nothing_is_as_if_it_was_not_there(self) -> None:
        tcp = '<TCP bind_addr="${nowhere}" bind_port="${nowhere}" external_addr="${nowhere}"/>'
        self.assertEqual(read(stack(tcp, '<FILE_PING location="x"/>')), StackFile(TcpStack(None, 7800, 10, None, folder="x")))
        self.refused(stack("<TCP/>", '<FILE_PING location="${nowhere}"/>'), "FILE_PING has no location")

    def test_tcp(self) -> None:
        self.assertEqual(
            read(TCP_OF_JGROUPS_5),
            StackFile(
                TcpStack(
                    "127.0.0.1",
                    7900,
                    0,
                    None,
                    (("hostA", 7800, 3), ("hostB", 7801, 3)),
                    MulticastPlace("230.5.6.8", 7556, "127.0.0.1", 8),
                ),
                ("SYM_ENCRYPT",),
            ),
        )
        found = read(stack('<TCP_NIO2 start_port="1000" end_port="1005"/>', '<TCPPING initial_hosts="a[1]"/>')).transport
        self.assertEqual(found, TcpStack(None, 1000, 5, None, (("a", 1, 1),)))

    def test_what_is_not_known_is_refused_by_name(self) -> None:
        self.refused(stack("<TUNNEL/>"), "line 2", "TUNNEL", "UDP, TCP")
        self.refused(stack("<TPC/>"), "is TCP meant?")
        self.refused(stack("<PING/>", "<UDP/>"), "transport PING")
        for finder in ("TCPGOSSIP", "JDBC_PING", "dns.DNS_PING", "S3_PING", "aws.S3_PING"):
            self.refused(stack("<TCP/>", f"<{finder}/>"), "line 3", finder.rpartition(".")[2], "TCPPING")

    def test_what_cannot_be_used(self) -> None:
        self.refused(stack("<TCP/>"), "find each other", "TCPPING")
        self.refused(stack("<TCP/>", "<TCPPING/>"), "find each other")
        self.refused(stack("<TCP/>", "<FILE_PING/>"), "no location")
        self.refused(stack("<TCP/>", '<TCPPING initial_hosts="a:7800"/>'), "'a:7800'", "host[port]")
        self.refused(stack("<TCP/>", '<TCPPING initial_hosts="a[99999]"/>'), "host[port]")
        self.refused(stack('<TCP bind_port="many"/>', '<FILE_PING location="x"/>'), "bind_port is 'many'", "65535")
        self.refused(stack('<UDP mcast_port="65536"/>'), "mcast_port")
        self.refused(stack('<UDP ip_mcast="false"/>'), "ip_mcast", "TCP")
        self.refused(stack('<UDP bind_addr="match-interface:eth0"/>'), "match-interface:eth0")
        self.refused("<config/>", "no protocols")
        self.refused("<broker><UDP/></broker>", "line 1", "<broker>")
        self.refused("<config><UDP></config>", "line 1", "not XML")
        self.refused("UDP(mcast_addr=228.1.2.3)", "not XML")
        self.refused(" " * (STACK_FILE_SIZE_MAX + 1), "too many")
        self.refused(stack(*["<UDP/>"] * (STACK_PROTOCOLS_MAX + 1)), "protocols")

    def test_entities_are_not_read(self) -> None:
        for text in (
            '<!DOCTYPE config [<!ENTITY x SYSTEM "file:///etc/hostname">]><config><UDP mcast_addr="&x;"/></config>',
            '<!DOCTYPE config [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><config><UDP mcast_addr="&b;"/></config>',
            '<!DOCTYPE config SYSTEM "http://www.jgroups.org/stack.dtd"><config><UDP/></config>',
        ):
            self.refused(text, "document type")

    @given(st.text(max_size=200))
    def test_anything_else_is_refused_in_one_way(self, text: str) -> None:
        for content in (text, f"<config>{text}</config>"):
            try:
                read_stack(content.encode("utf-8", "replace"), "stack.xml", {})
            except ValueError:
                pass


SENDER = bytes(range(16))
messages = st.builds(Message, st.integers(0, 255), st.binary(min_size=16, max_size=16), st.text(max_size=20), st.binary(max_size=100))


def encoded(message: Message) -> bytes:
    return encode_message(message.kind, message.sender, message.channel, message.payload)


class MessageTests(SynchronousTestCase):
    def test_the_form(self) -> None:
        self.assertEqual(encode_message(1, SENDER, "ch", b"xyz"), b"MQJG\x01\x01" + SENDER + b"\x00\x02chxyz")
        self.assertEqual(encode_places((("10.0.0.1", 7800), ("", 0))), b"\x00\x02\x1e\x78\x00\x0810.0.0.1\x00\x00\x00\x00")

    @given(messages)
    def test_what_was_written_is_read(self, message: Message) -> None:
        self.assertEqual(decode_message(encoded(message)), message)

    @given(st.lists(st.tuples(st.from_regex("[a-z0-9.:-]{0,30}", fullmatch=True), st.integers(0, 65535)), max_size=MEMBERS_TOLD_MAX))
    def test_places(self, places: list[tuple[str, int]]) -> None:
        self.assertEqual(decode_places(encode_places(tuple(places))), tuple(places))

    @given(st.binary(max_size=80), messages, st.integers(0, 40), st.binary(max_size=3), st.integers(0, 3))
    def test_damage_is_told_in_one_way(self, junk: bytes, message: Message, at: int, inserted: bytes, lost: int) -> None:
        data = encoded(message)
        for damaged in (junk, data[:at] + inserted + data[at + lost :]):
            for decode in (decode_message, decode_places):
                try:
                    decode(damaged)
                except MalformedPacketError:
                    pass

    def test_what_is_too_great(self) -> None:
        self.assertRaises(ValueError, encode_message, 1, SENDER, "c" * (CHANNEL_NAME_SIZE_MAX + 1), b"")
        self.assertRaises(ValueError, encode_message, 1, SENDER, "c", bytes(MESSAGE_SIZE_MAX))
        self.assertRaises(MalformedPacketError, decode_message, bytes(MESSAGE_SIZE_MAX + 1))
        self.assertRaises(MalformedPacketError, decode_places, encode_places((("a", 1),) * (MEMBERS_TOLD_MAX + 1)))
        self.assertRaises(MalformedPacketError, decode_message, b"MQJG\x02" + encode_message(1, SENDER, "c", b"")[5:])
        long_name = b"MQJG\x01\x01" + SENDER + (CHANNEL_NAME_SIZE_MAX + 1).to_bytes(2, "big") + b"c" * (CHANNEL_NAME_SIZE_MAX + 1)
        self.assertRaises(MalformedPacketError, decode_message, long_name)

    @given(st.lists(messages, max_size=5), st.lists(st.integers(1, 40), min_size=1, max_size=5))
    def test_a_stream_in_pieces(self, sent: list[Message], sizes: list[int]) -> None:
        got: list[Message] = []
        splitter = MessageSplitter(got.append)
        stream = b"".join(MessageSplitter.framed(encoded(message)) for message in sent)
        number = 0
        while stream:
            size = sizes[number % len(sizes)]
            splitter.feed(stream[:size])
            stream = stream[size:]
            number += 1
        self.assertEqual(got, sent)

    def test_a_length_beyond_the_limit_is_refused_at_once(self) -> None:
        self.assertRaises(MalformedPacketError, MessageSplitter(lambda message: None).feed, b"\x7f\xff\xff\xff")
