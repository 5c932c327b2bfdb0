"""Messages in Artemis's XML format, which ``artemis data exp`` writes and ``artemis data imp`` reads.

A message is an element with its headers as attributes, its properties as elements with a type, and its body in base64 (the URL-safe
alphabet).  The body is the body of the encoded message, of any type; the body of a large message is cut into pieces, each in a CDATA
section of its own with base64 of its own.  The format lacks durability: imported messages are durable.

Odd forms of Artemis are read and written alike: a property without a value is ``bytes`` with the value ``_AMQ_NULL``, and a char has no
type.  Text that XML cannot hold (control characters) is written in base64 under the attribute's name with ``-base64`` behind it, which is
our own addition.
"""

from __future__ import annotations

import math
import re
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TextIO
from xml.sax.saxutils import quoteattr

from mqbroker.cli.data.xml_reader import Node, XmlFormatError
from mqclient.wire import message as wire
from mqclient.wire.message import CoreMessage, user_id_text
from mqclient.wire.properties import BOOLEAN, BYTE, BYTES, CHAR, DOUBLE, FLOAT, INT, LONG, NULL, SHORT, STRING, TypedValue

TYPE_NAMES: Final = {
    wire.TYPE_DEFAULT: "default",
    wire.TYPE_OBJECT: "object",
    wire.TYPE_TEXT: "text",
    wire.TYPE_BYTES: "bytes",
    wire.TYPE_MAP: "map",
    wire.TYPE_STREAM: "stream",
    wire.TYPE_EMBEDDED: "embedded-message",
    wire.TYPE_LARGE_EMBEDDED: "large-embedded-message",
}
_TYPES: Final = {name: number for number, name in TYPE_NAMES.items()}
_PROPERTY_NAMES: Final = {
    BOOLEAN: "boolean",
    BYTE: "byte",
    BYTES: "bytes",
    SHORT: "short",
    INT: "integer",
    LONG: "long",
    FLOAT: "float",
    DOUBLE: "double",
    STRING: "simple-string",
}
_PROPERTY_KINDS: Final = {name: kind for kind, name in _PROPERTY_NAMES.items()} | {"string": STRING}
_NULL: Final = "_AMQ_NULL"
LARGE_PIECE: Final = 1000
"""Bytes of a large body in one CDATA section."""
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(slots=True)
class XmlMessage:
    """A message without its body, the names of the queues that hold it, and the line of the file."""

    message: CoreMessage
    queues: list[str]
    large: bool
    line: int


@dataclass(frozen=True, slots=True)
class ReadableBody:
    """The text of a text message; None when it has none."""

    text: str | None


def write_message(
    out: TextIO,
    message: CoreMessage,
    queues: Iterable[str] | None,
    large: Iterable[bytes] | None = None,
    *,
    readable: ReadableBody | None = None,
    indent: str = "      ",
) -> None:
    """Write one ``<message>``.

    ``large`` gives the body of a large message in any pieces.  ``queues`` None leaves that element out.  ``readable`` is written instead
    of the body (only in the files of ``consumer --data``).
    """
    attributes = {
        "id": str(message.message_id),
        "priority": str(message.priority),
        "expiration": str(message.expiration),
        "timestamp": str(message.timestamp),
        "type": TYPE_NAMES.get(message.type, "default"),
    }
    if message.user_id is not None:
        attributes["user-id"] = user_id_text(message.user_id)
    out.write(f"{indent}<message {attributes_text(attributes)}>\n{indent}   <properties>\n")
    for name, entry in message.properties.items():
        out.write(f"{indent}      <property {attributes_text({'name': name} | _property(entry))}/>\n")
    out.write(f"{indent}   </properties>\n")
    if queues is not None:
        out.write(f"{indent}   <queues>\n")
        for queue in queues:
            out.write(f"{indent}      <queue {attributes_text({'name': queue})}/>\n")
        out.write(f"{indent}   </queues>\n")
    out.write(f"{indent}   <body>\n" if large is None else f'{indent}   <body isLarge="true">\n')
    if readable is not None:
        if readable.text is not None:
            out.write(f"{indent}      <![CDATA[{readable.text.replace(']]>', ']]]]><![CDATA[>')}]]>\n")
    else:
        for piece in (message.body,) if large is None else _pieces(large):
            out.write(f"{indent}      <![CDATA[{urlsafe_b64encode(piece).decode()}]]>\n")
    out.write(f"{indent}   </body>\n{indent}</message>\n")


def is_xml_text(text: str) -> bool:
    """Can XML hold this text?"""
    return not _NOT_XML.search(text) and "\r" not in text


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        rest += chunk
        whole = len(rest) - len(rest) % LARGE_PIECE
        for at in range(0, whole, LARGE_PIECE):
            yield rest[at : at + LARGE_PIECE]
        rest = rest[whole:]
    if rest:
        yield rest


def attributes_text(values: dict[str, str]) -> str:
    """``name="value"`` for every entry, escaped."""
    parts: list[str] = []
    for name, value in values.items():
        if _NOT_XML.search(value):
            value = urlsafe_b64encode(value.encode("utf-8", "surrogatepass")).decode()
            name = f"{name}-base64"
        parts.append(f"{name}={quoteattr(value, {chr(10): '&#10;', chr(13): '&#13;', chr(9): '&#9;'})}")
    return " ".join(parts)


def _property(entry: TypedValue) -> dict[str, str]:
    kind, value = entry
    if kind == NULL or value is None:
        return {"value": _NULL, "type": "bytes"}
    if kind == CHAR:
        return {"value": chr(value) if isinstance(value, int) else str(value)}
    if isinstance(value, bytes):
        text = urlsafe_b64encode(value).decode()
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, float):
        text = repr(value) if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    else:
        text = str(value)
    return {"value": text, "type": _PROPERTY_NAMES[kind]}


def attribute(node: Node, name: str, default: str | None = None) -> str:
    """The text of an attribute, also where it was written in base64.  Raises :class:`XmlFormatError` when a needed one is missing."""
    text = node.attributes.get(name)
    if text is not None:
        return text
    encoded = node.attributes.get(f"{name}-base64")
    if encoded is not None:
        return _base64(encoded, node).decode("utf-8", "surrogatepass")
    if default is None:
        raise XmlFormatError(f"line {node.line}: <{node.name}> without {name}")
    return default


def _base64(text: str, node: Node) -> bytes:
    try:
        return urlsafe_b64decode("".join(text.split()).replace("+", "-").replace("/", "_"))
    except (Base64Error, ValueError) as error:
        raise XmlFormatError(f"line {node.line}: <{node.name}>: {error}") from error


def read_message(node: Node) -> XmlMessage:
    """The message of a ``<message>`` element, without its body.  Raises :class:`XmlFormatError`."""
    message = CoreMessage(durable=True)
    try:
        message.message_id = int(attribute(node, "id", "0"))
        message.priority = int(attribute(node, "priority", "4"))
        message.expiration = int(attribute(node, "expiration", "0"))
        message.timestamp = int(attribute(node, "timestamp", "0"))
        user_id = attribute(node, "user-id", "")
        message.user_id = uuid.UUID(user_id).bytes if user_id else None
    except XmlFormatError:
        raise
    except ValueError as error:
        raise XmlFormatError(f"line {node.line}: <message>: {error}") from error
    message.type = _TYPES.get(attribute(node, "type", "default"), wire.TYPE_DEFAULT)
    for child in node.find("properties", "property"):
        message.properties[attribute(child, "name")] = _read_property(child)
    queues = [attribute(child, "name") for child in node.find("queues", "queue")]
    body = next(node.find("body"), None)
    large = body is not None and attribute(body, "isLarge", "false").lower() == "true"
    return XmlMessage(message, queues, large, node.line)


def read_body(node: Node) -> Iterator[bytes]:
    """The body of a ``<message>`` element, piece by piece.  Raises :class:`XmlFormatError`."""
    for body in node.find("body"):
        for piece in body.pieces or [body.text]:
            if decoded := _base64(piece, body):
                yield decoded


def _read_property(node: Node) -> TypedValue:
    text = attribute(node, "value", "")
    name = attribute(node, "type", "")
    if text == _NULL:
        return NULL, None
    if not name:
        if len(text) != 1:
            raise XmlFormatError(f"line {node.line}: <property> without type")
        return CHAR, ord(text)
    kind = _PROPERTY_KINDS.get(name)
    if kind is None:
        raise XmlFormatError(f"line {node.line}: unknown property type '{name}', expected one of {', '.join(_PROPERTY_KINDS)}")
    if kind == STRING:
        return kind, text
    if kind == BYTES:
        return kind, _base64(text, node)
    if kind == BOOLEAN:
        return kind, text.lower() == "true"
    try:
        return kind, float(text) if kind in (FLOAT, DOUBLE) else int(text)
    except ValueError as error:
        raise XmlFormatError(f"line {node.line}: property {attribute(node, 'name', '')}: {error}") from error
