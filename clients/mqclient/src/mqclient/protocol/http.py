"""HTTP messages in a stream of bytes, as far as the transport with ``httpEnabled`` needs them (``protocol-spec/``, chapter "Transport").

Requests and responses differ in their first line alone.  A body has a ``Content-Length`` or is chunked; one that lasts until the connection
ends is refused, since the connection stays open.
"""

from __future__ import annotations

from dataclasses import dataclass

from mqclient.errors import ProtocolError

HEAD_LENGTH_MAX = 16 * 1024
"""Bytes of the first line and the headers of an HTTP message together, and of the trailers behind a chunked body."""

BODY_LENGTH_MAX = 2**31 - 1
"""Bytes that an HTTP body, or a chunk of one, may announce; a body is passed on as it comes and never gathered."""

CHUNK_LINE_LENGTH_MAX = 256
"""Bytes of the line before a chunk of an HTTP body."""

_LINE_END = b"\r\n"
_HEAD_END = b"\r\n\r\n"
_HEX = frozenset(b"0123456789abcdefABCDEF")


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a message: its first line, and its headers by their name in lower case."""

    first_line: str
    headers: dict[str, str]


class End:
    """The end of a message."""


END = End()


class HttpSplitter:
    """Cuts a stream into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._state = self._head
        self._left = 0
        """Bytes of the body, or of its chunk, that have not come."""
        self._chunked = False
        self._searched = 0
        """Bytes of the buffer that were searched for the end of the head, without finding it."""

    def feed(self, data: bytes) -> list[Head | bytes | End]:
        """The items that the bytes complete: heads, pieces of bodies that are not empty, ends of messages.  Raises ProtocolError."""
        self._buffer += data
        found: list[Head | bytes | End] = []
        while self._state(found):
            pass
        return found

    # --- each state takes something out of the buffer; false when it needs more bytes

    def _head(self, found: list[Head | bytes | End]) -> bool:
        buffer = self._buffer
        while buffer.startswith(_LINE_END):
            del buffer[:2]
        end = buffer.find(_HEAD_END, max(0, self._searched - 3))
        if (len(buffer) if end < 0 else end) > HEAD_LENGTH_MAX:
            raise ProtocolError(f"the head of an HTTP message has more than {HEAD_LENGTH_MAX} bytes")
        if end < 0:
            self._searched = len(buffer)
            return False
        head = _read_head(bytes(buffer[:end]))
        del buffer[: end + 4]
        self._searched = 0
        found.append(head)
        self._chunked, self._left = _body_of(head.headers)
        self._state = self._chunk_line if self._chunked else self._body
        return True

    def _body(self, found: list[Head | bytes | End]) -> bool:
        if self._left:
            piece = bytes(self._buffer[: self._left])
            if not piece:
                return False
            del self._buffer[: len(piece)]
            self._left -= len(piece)
            found.append(piece)
            return True
        if self._chunked:
            self._state = self._chunk_end
        else:
            found.append(END)
            self._state = self._head
        return True

    def _line(self, limit: int) -> bytes | None:
        buffer = self._buffer
        end = buffer.find(_LINE_END, 0, limit + 2)
        if end < 0:
            if len(buffer) > limit + 1:
                raise ProtocolError(f"a line between HTTP chunks has more than {limit} bytes")
            return None
        line = bytes(buffer[:end])
        del buffer[: end + 2]
        return line

    def _chunk_line(self, found: list[Head | bytes | End]) -> bool:
        line = self._line(CHUNK_LINE_LENGTH_MAX)
        if line is None:
            return False
        digits = line.partition(b";")[0].strip()
        if not digits or not _HEX.issuperset(digits) or (size := int(digits, 16)) > BODY_LENGTH_MAX:
            raise ProtocolError(f"the length of an HTTP chunk, {digits[:20]!r}, is none from 0 to {BODY_LENGTH_MAX}")
        self._left = size
        self._state = self._body if size else self._trailer
        if not size:
            self._searched = 0  # counts the bytes of the trailers from here
        return True

    def _chunk_end(self, found: list[Head | bytes | End]) -> bool:
        if len(self._buffer) < 2:
            return False
        if not self._buffer.startswith(_LINE_END):
            raise ProtocolError("an HTTP chunk is longer than it says")
        del self._buffer[:2]
        self._state = self._chunk_line
        return True

    def _trailer(self, found: list[Head | bytes | End]) -> bool:
        line = self._line(HEAD_LENGTH_MAX - self._searched)
        if line is None:
            return False
        if line:
            self._searched = min(self._searched + len(line) + 2, HEAD_LENGTH_MAX)
            return True
        self._searched = 0
        found.append(END)
        self._state = self._head
        return True


def _read_head(data: bytes) -> Head:
    first, *lines = data.decode("latin-1").split("\r\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or not name or name != name.strip():
            raise ProtocolError(f"{line[:40]!r} is not an HTTP header")
        value = value.strip()
        if name in ("content-length", "transfer-encoding") and headers.get(name, value) != value:
            raise ProtocolError(f"an HTTP message has the header {name} twice, with different values")
        headers[name] = value
    return Head(first, headers)


def _body_of(headers: dict[str, str]) -> tuple[bool, int]:
    """Whether the body is chunked, and its length if not."""
    length, encoding = headers.get("content-length"), headers.get("transfer-encoding")
    if encoding is not None:
        if length is not None or encoding.lower() != "chunked":
            raise ProtocolError(f"an HTTP body with the transfer encoding {encoding[:40]!r} cannot be read")
        return True, 0
    if length is None:
        return False, 0
    if not (length.isascii() and length.isdigit()) or len(length) > 10 or int(length) > BODY_LENGTH_MAX:
        raise ProtocolError(f"the length of an HTTP body, {length[:20]!r}, is none from 0 to {BODY_LENGTH_MAX}")
    return False, int(length)
