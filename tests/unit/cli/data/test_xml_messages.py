"""The XML format of exports, against a file that a real Artemis has written, and both ways."""

from __future__ import annotations

import io
import uuid

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.data.xml_messages import read_body, read_message, write_message
from mqbroker.cli.data.xml_reader import Node, read_nodes
from mqclient.wire import properties as p
from mqclient.wire.message import CoreMessage, user_id_text
from mqclient.wire.properties import TypedValue

FROM_ARTEMIS = """
<activemq-journal>
   <bindings>
      <address-binding routing-types="MULTICAST,ANYCAST" name="both" id="152"/>
      <queue-binding address="news" filter-string="n &gt; 3" name="c.s" id="6580" routing-type="MULTICAST"/>
   </bindings>
   <messages>
      <message id="6592" priority="7" expiration="0" timestamp="1795230569207" type="text" user-id="f72e10f3-e558-11f1-a040-02fc00000001">
         <properties>
            <property name="do" value="-2.25E10" type="double"/>
            <property name="in" value="-70000" type="integer"/>
            <property name="st" value="a&quot;&lt;b&gt;&amp;'é" type="simple-string"/>
            <property name="nul" value="_AMQ_NULL" type="bytes"/>
            <property name="by" value="_-8=" type="bytes"/>
            <property name="ch" value="Q"/>
         </properties>
         <queues>
            <queue name="a"/>
            <queue name="b"/>
         </queues>
         <body>
            <![CDATA[AQAAAAJoAA==]]>
         </body>
      </message>
      <message id="6600" priority="4" expiration="0" timestamp="1" type="bytes">
         <properties></properties>
         <queues><queue name="a"/></queues>
         <body isLarge="true">
            <![CDATA[AAE=]]>
            <![CDATA[_w==]]>
         </body>
      </message>
   </messages>
</activemq-journal>"""


def nodes(text: str, *names: str) -> list[Node]:
    return list(read_nodes(io.BytesIO(text.encode()), "activemq-journal", names))


def written(message: CoreMessage, large: list[bytes] | None = None, queues: list[str] | None = None) -> Node:
    out = io.StringIO()
    out.write("<activemq-journal>")
    write_message(out, message, queues, large)
    out.write("</activemq-journal>")
    return nodes(out.getvalue(), "message")[0]


text = st.text(max_size=20)
values: st.SearchStrategy[TypedValue] = st.one_of(
    st.tuples(st.just(p.BOOLEAN), st.booleans()),
    st.tuples(st.just(p.BYTE), st.integers(-128, 127)),
    st.tuples(st.just(p.SHORT), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just(p.INT), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just(p.LONG), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(p.FLOAT), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just(p.DOUBLE), st.floats(allow_nan=False)),
    st.tuples(st.just(p.BYTES), st.binary(max_size=20)),
    st.tuples(st.just(p.STRING), text.filter(lambda value: value != "_AMQ_NULL")),
    st.tuples(st.just(p.CHAR), st.integers(32, 126)),
    st.just((p.NULL, None)),
)
messages = st.builds(
    CoreMessage,
    message_id=st.integers(0, 2**63 - 1),
    user_id=st.none() | st.uuids().map(lambda value: uuid.UUID(user_id_text(value.bytes)).bytes),
    type=st.sampled_from([0, 2, 3, 4, 5, 6]),
    durable=st.just(True),
    expiration=st.integers(0, 2**62),
    timestamp=st.integers(0, 2**62),
    priority=st.integers(0, 9),
    properties=st.dictionaries(text.filter(bool), values, max_size=5),
    body=st.binary(max_size=100),
)


class ReadTests(SynchronousTestCase):
    def test_a_message_of_artemis(self) -> None:
        first, second = nodes(FROM_ARTEMIS, "message")
        found = read_message(first)
        self.assertEqual(found.queues, ["a", "b"])
        self.assertEqual((found.message.message_id, found.message.priority, found.message.type), (6592, 7, 3))
        self.assertEqual(user_id_text(found.message.user_id or b""), "f72e10f3-e558-11f1-a040-02fc00000001")
        self.assertEqual(
            found.message.properties,
            {
                "do": (p.DOUBLE, -2.25e10),
                "in": (p.INT, -70000),
                "st": (p.STRING, "a\"<b>&'é"),
                "nul": (p.NULL, None),
                "by": (p.BYTES, b"\xff\xef"),
                "ch": (p.CHAR, ord("Q")),
            },
        )
        self.assertEqual(b"".join(read_body(first)), b"\x01\0\0\0\x02h\0")
        self.assertTrue(read_message(second).large)
        self.assertEqual(list(read_body(second)), [b"\x00\x01", b"\xff"])

    def test_bindings(self) -> None:
        address, queue = nodes(FROM_ARTEMIS, "address-binding", "queue-binding")
        self.assertEqual(address.attributes["routing-types"], "MULTICAST,ANYCAST")
        self.assertEqual(queue.attributes["filter-string"], "n > 3")


class RoundTripTests(SynchronousTestCase):
    @given(messages, st.lists(text.filter(bool), max_size=3))
    def test_what_was_written_is_read(self, message: CoreMessage, queues: list[str]) -> None:
        node = written(message, queues=queues)
        found = read_message(node)
        self.assertEqual(found.queues, queues)
        found.message.body = b"".join(read_body(node))
        self.assertEqual(found.message, message)

    @given(st.lists(st.binary(max_size=2500), max_size=5))
    def test_large_bodies_come_in_pieces(self, chunks: list[bytes]) -> None:
        node = written(CoreMessage(), large=chunks)
        self.assertTrue(read_message(node).large)
        pieces = list(read_body(node))
        self.assertEqual(b"".join(pieces), b"".join(chunks))
        self.assertTrue(all(len(piece) == 1000 for piece in pieces[:-1]))
