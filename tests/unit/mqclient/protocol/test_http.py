"""HTTP messages in a stream: cut anywhere the result is the same, and what cannot be read is refused."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import ProtocolError
from mqclient.protocol.http import BODY_LENGTH_MAX, CHUNK_LINE_LENGTH_MAX, HEAD_LENGTH_MAX, Head, HttpSplitter

BODIES = st.lists(st.tuples(st.binary(max_size=60), st.booleans()), min_size=1, max_size=5)


def message(body: bytes, chunked: bool) -> bytes:
    if not chunked:
        return b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
    chunks = b"".join(b"%X;name=value\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\nTrailer: t\r\n\r\n"


def read(data: bytes, cuts: list[int]) -> list[bytes]:
    """The bodies, of messages that are complete."""
    splitter = HttpSplitter()
    bodies: list[bytes] = []
    body = b""
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(places):
        for found in splitter.feed(data[start:end]):
            if isinstance(found, Head):
                body = b""
            elif isinstance(found, bytes):
                body += found
            else:
                bodies.append(body)
    return bodies


class SplitterTests(SynchronousTestCase):
    @given(BODIES, st.lists(st.integers(0, 10_000), max_size=12))
    def test_messages_are_the_same_wherever_the_stream_is_cut(self, bodies: list[tuple[bytes, bool]], cuts: list[int]) -> None:
        stream = b"".join(message(*each) for each in bodies)
        self.assertEqual(read(stream, cuts), [body for body, _ in bodies])

    def test_byte_by_byte(self) -> None:
        stream = message(b"first", True) + b"\r\n" + message(b"second", False)
        self.assertEqual(read(stream, list(range(len(stream)))), [b"first", b"second"])

    def test_a_head_is_its_first_line_and_its_headers(self) -> None:
        (head, end) = HttpSplitter().feed(b"GET /a HTTP/1.1\r\nHost:  h:1 \r\nX-Y: a:b\r\n\r\n")
        assert isinstance(head, Head)
        self.assertEqual((head.first_line, head.headers), ("GET /a HTTP/1.1", {"host": "h:1", "x-y": "a:b"}))
        self.assertNotIsInstance(end, bytes)

    def test_a_body_is_passed_on_as_it_comes(self) -> None:
        splitter = HttpSplitter()
        splitter.feed(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % BODY_LENGTH_MAX)
        self.assertEqual([splitter.feed(bytes(1000)) for _ in range(3)], [[bytes(1000)]] * 3)

    def test_what_cannot_be_read_is_refused(self) -> None:
        start = b"POST / HTTP/1.1\r\n"
        chunked = start + b"Transfer-Encoding: chunked\r\n\r\n"
        for data in (
            start + b"Content-Length: -1\r\n\r\n",
            start + b"Content-Length: +1\r\n\r\n",
            start + b"Content-Length: 1 1\r\n\r\n",
            start + b"Content-Length: \xb2\r\n\r\n",
            start + b"Content-Length: %d\r\n\r\n" % (BODY_LENGTH_MAX + 1),
            start + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
            start + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
            start + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            start + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
            start + b"no colon\r\n\r\n",
            start + b" folded: x\r\n\r\n",
            start + b"Content-Length : 1\r\n\r\n",
            start + b": x\r\n\r\n",
            chunked + b"\r\n",
            chunked + b"-1\r\n",
            chunked + b"0x1\r\n",
            chunked + b"FFFFFFFFFF\r\n",
            chunked + b"1\r\nab\r\n",
            chunked + b"1;" + b"x" * (CHUNK_LINE_LENGTH_MAX + 2),
        ):
            self.assertRaises(ProtocolError, HttpSplitter().feed, data)

    def test_heads_and_trailers_without_an_end_are_refused(self) -> None:
        for start in (b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"):
            splitter = HttpSplitter()
            splitter.feed(start)
            with self.assertRaises(ProtocolError):
                for _ in range(HEAD_LENGTH_MAX // 10 + 2):
                    splitter.feed(b"name: x\r\nn")
            splitter = HttpSplitter()
            splitter.feed(start)
            with self.assertRaises(ProtocolError):
                for _ in range(HEAD_LENGTH_MAX // 100 + 2):
                    splitter.feed(b"x" * 100)

    @given(
        st.lists(
            st.sampled_from([b"\r\n", b"\r", b"\n", b"POST / HTTP/1.1", b"content-length: 5", b"transfer-encoding: chunked", b"5", b":"])
        )
    )
    def test_nonsense_raises_nothing_else(self, pieces: list[bytes]) -> None:
        splitter = HttpSplitter()
        try:
            for piece in pieces:
                splitter.feed(piece)
        except ProtocolError as error:
            self.assertTrue(str(error))
