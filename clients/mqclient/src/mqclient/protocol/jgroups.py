"""JGroups stack files, as far as they say how members find each other, and the messages that carry announcements between them.

Source: the Artemis manual, chapter "Clusters"; ``protocol-spec/``, chapter "Discovery", which has the form of the messages: it is our own.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from xml.parsers import expat

from mqclient.errors import MalformedPacketError
from mqclient.text import nearest_name

STACK_FILE_SIZE_MAX = 1048576
"""Bytes of a JGroups stack file."""

STACK_PROTOCOLS_MAX = 200
"""Protocols in a JGroups stack file."""

CHANNEL_NAME_SIZE_MAX = 1024
"""Bytes of the name of a JGroups channel in UTF-8."""

MEMBERS_TOLD_MAX = 64
"""Places of members in one message of a channel."""

MESSAGE_SIZE_MAX = 65507
"""Bytes of a message between members of a channel: the greatest datagram that IPv4 carries."""

ID_SIZE = 16

TRANSPORTS = ("UDP", "TCP", "TCP_NIO2")
FINDERS = ("PING", "MPING", "TCPPING", "FILE_PING")
_NOT_ENCRYPTED = ("ENCRYPT", "SYM_ENCRYPT", "ASYM_ENCRYPT", "AUTH", "SSL_KEY_EXCHANGE", "SASL")
_OTHER_FINDERS = ("TCPGOSSIP", "TUNNEL", "MULTI_PING")

Place = tuple[str, int]
"""Host and TCP port."""


@dataclass(frozen=True, slots=True)
class MulticastPlace:
    """A multicast group and the interface for it (None: the system chooses)."""

    address: str
    port: int
    interface: str | None
    ttl: int


@dataclass(frozen=True, slots=True)
class TcpStack:
    """Members that talk over TCP, on ``bind_port`` or one of the ``port_range`` ports after it.

    Members find each other at ``members`` (each with the number of further ports to try), by ``multicast``, or by files in ``folder``.
    ``external_address`` is sent to others instead of the bound address.
    """

    bind_address: str | None
    bind_port: int
    port_range: int
    external_address: str | None
    members: tuple[tuple[str, int, int], ...] = ()
    multicast: MulticastPlace | None = None
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class StackFile:
    """``transport``: a multicast group that carries everything, or members that talk over TCP.

    ``unprotected`` names the protocols that would encrypt or authenticate and are not applied.
    """

    transport: MulticastPlace | TcpStack
    unprotected: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Protocol:
    name: str
    line: int
    attributes: Mapping[str, str]


def read_stack(content: bytes, file: str, environment: Mapping[str, str]) -> StackFile:
    """Read a stack file.

    ``${name:default}`` is looked up in ``environment``, as it stands and in the spelling of environment variables
    (``jgroups.bind_addr``: JGROUPS_BIND_ADDR).  Raises ValueError, naming file, line and protocol.
    """
    protocols = _protocols(content, file)
    values = _Values(file, environment)
    transport, *others = protocols
    if transport.name not in TRANSPORTS:
        near = nearest_name(transport.name, TRANSPORTS)
        raise values.error(
            transport,
            f"the transport {transport.name} is not known{f'; is {near} meant?' if near else ''}",
            f"one of {', '.join(TRANSPORTS)}",
        )
    found: dict[str, _Protocol] = {}
    for protocol in others:
        if protocol.name in FINDERS:
            found[protocol.name] = protocol
        elif "PING" in protocol.name or protocol.name in _OTHER_FINDERS:
            raise values.error(protocol, f"members cannot be found by {protocol.name}", f"one of {', '.join(FINDERS)}")
    unprotected = tuple(protocol.name for protocol in others if protocol.name in _NOT_ENCRYPTED)
    if transport.name == "UDP":
        if values.text(transport, "true", "ip_mcast").lower() == "false":
            raise values.error(transport, "ip_mcast is false", "multicast; without it take the transport TCP")
        return StackFile(_multicast(values, transport, None, ("228.8.8.8", 7600), "mcast_addr", "mcast_group_addr"), unprotected)
    return StackFile(_tcp(values, transport, found), unprotected)


def _tcp(values: _Values, transport: _Protocol, found: Mapping[str, _Protocol]) -> TcpStack:
    bind_address = values.address(transport)
    bind_port = values.number(transport, 7800, 65535, "bind_port", "start_port")
    port_range = values.number(transport, 10, 1000, "port_range")
    if "end_port" in transport.attributes:
        port_range = max(values.number(transport, 0, 65535, "end_port") - bind_port, 0)
    multicast = folder = None
    if "MPING" in found:
        multicast = _multicast(values, found["MPING"], bind_address, ("230.5.6.7", 7555), "mcast_addr", "mcast_group_addr")
    if "FILE_PING" in found:
        folder = values.text(found["FILE_PING"], "", "location")
        if not folder:
            raise values.error(found["FILE_PING"], "FILE_PING has no location", 'location="a folder that all members see"')
    members = _initial_hosts(values, found["TCPPING"]) if "TCPPING" in found else ()
    if not (members or multicast or folder):
        raise values.error(
            transport,
            f"nothing says how members that talk over {transport.name} find each other",
            "TCPPING with initial_hosts, MPING or FILE_PING",
        )
    external = values.text(transport, "", "external_addr") or None
    return TcpStack(bind_address, bind_port, port_range, external, members, multicast, folder)


def _initial_hosts(values: _Values, protocol: _Protocol) -> tuple[tuple[str, int, int], ...]:
    port_range = values.number(protocol, 1, 1000, "port_range")
    members = []
    for entry in re.split(r"[,\s]+", values.text(protocol, "", "initial_hosts").strip()):
        if entry:
            match = re.fullmatch(r"([^\[\]]+)\[(\d{1,5})\]", entry)
            if match is None or not 0 < int(match[2]) <= 65535:
                raise values.error(protocol, f"initial_hosts has {entry!r}", "host[port]")
            members.append((match[1], int(match[2]), port_range))
    return tuple(members)


def _multicast(values: _Values, protocol: _Protocol, inherited: str | None, default: Place, *names: str) -> MulticastPlace:
    return MulticastPlace(
        values.text(protocol, default[0], *names),
        values.number(protocol, default[1], 65535, "mcast_port"),
        values.address(protocol) or inherited,
        values.number(protocol, 8, 255, "ip_ttl"),
    )


class _Values:
    """Attributes with their placeholders replaced."""

    _PLACEHOLDER = re.compile(r"\$\{([^{}:]*)(?::([^{}]*))?\}")
    _ANY = ("", "GLOBAL", "SITE_LOCAL", "LINK_LOCAL", "NON_LOOPBACK", "0.0.0.0")

    def __init__(self, file: str, environment: Mapping[str, str]) -> None:
        self._file = file
        self._environment = environment

    def error(self, protocol: _Protocol, problem: str, expected: str) -> ValueError:
        return ValueError(f"{self._file}, line {protocol.line}, {protocol.name}: {problem}; expected {expected}")

    def text(self, protocol: _Protocol, default: str, *names: str) -> str:
        given = next((name for name in names if name in protocol.attributes), None)
        if given is None:
            return default
        try:
            return self._PLACEHOLDER.sub(self._looked_up, protocol.attributes[given]).strip()
        except LookupError:
            return default

    def number(self, protocol: _Protocol, default: int, greatest: int, *names: str) -> int:
        text = self.text(protocol, str(default), *names)
        if not (text.isascii() and text.isdigit()) or int(text) > greatest:
            raise self.error(protocol, f"{names[0]} is {text!r}", f"a number from 0 to {greatest}")
        return int(text)

    def address(self, protocol: _Protocol) -> str | None:
        """The address to bind; None for one that the system shall choose."""
        text = self.text(protocol, "", "bind_addr")
        if text.upper() in self._ANY:
            return None
        if text.upper() in ("LOOPBACK", "LOCALHOST"):
            return "127.0.0.1"
        if text.startswith(("match-", "custom:")):
            raise self.error(protocol, f"bind_addr is {text}", "an address, LOOPBACK, or nothing for any")
        return text

    def _looked_up(self, match: re.Match[str]) -> str:
        """Raises LookupError for a name without value and default: JGroups then treats the attribute as missing."""
        for name in match[1].split(","):
            plain = name.strip()
            for spelling in (plain, re.sub(r"[^A-Za-z0-9]", "_", plain).upper()):
                value = self._environment.get(spelling)
                if value is not None:
                    return value
        if match[2] is None:
            raise LookupError(match[1])
        return match[2]


def _protocols(content: bytes, file: str) -> list[_Protocol]:
    if len(content) > STACK_FILE_SIZE_MAX:
        raise ValueError(f"{file}: {len(content)} bytes are too many for a stack file: expected at most {STACK_FILE_SIZE_MAX}")
    protocols: list[_Protocol] = []
    depth = 0
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        local = tag.rpartition(":")[2]
        if depth == 1 and local != "config":
            raise ValueError(
                f"{file}, line {parser.CurrentLineNumber}: the root is <{tag}>; expected <config> with the protocols of a stack"
            )
        if depth == 2:
            if len(protocols) >= STACK_PROTOCOLS_MAX:
                raise ValueError(f"{file}: more than {STACK_PROTOCOLS_MAX} protocols")
            protocols.append(_Protocol(local.rpartition(".")[2], parser.CurrentLineNumber, attributes))

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1

    def doctype(*_: object) -> None:
        raise ValueError(f"{file}, line {parser.CurrentLineNumber}: a document type, and with it entities, are not read in stack files")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise ValueError(f"{file}, line {error.lineno}: this is not XML: {expat.ErrorString(error.code)}") from error
    if not protocols:
        raise ValueError(f"{file}: there are no protocols; expected a transport ({', '.join(TRANSPORTS)}) and a way to find members")
    return protocols


# --- messages ---

MAGIC = b"MQJG"
VERSION = 1
ANNOUNCEMENT = 1
MEMBER = 2
MEMBERS = 3

_HEAD = struct.Struct(">4sBB16sH")
_PORT = struct.Struct(">HH")
_COUNT = struct.Struct(">H")
_HOST_SIZE_MAX = 255


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a member: ``kind`` is ANNOUNCEMENT, MEMBER or MEMBERS; ``sender`` is an id made by the member itself."""

    kind: int
    sender: bytes
    channel: str
    payload: bytes


def encode_message(kind: int, sender: bytes, channel: str, payload: bytes) -> bytes:
    """Raises ValueError when the message would be greater than a datagram, or the name of the channel is too long."""
    name = channel.encode()
    if len(name) > CHANNEL_NAME_SIZE_MAX:
        raise ValueError(f"the name of the JGroups channel has {len(name)} bytes: expected at most {CHANNEL_NAME_SIZE_MAX}")
    data = _HEAD.pack(MAGIC, VERSION, kind, sender, len(name)) + name + payload
    if len(data) > MESSAGE_SIZE_MAX:
        raise ValueError(f"{len(data)} bytes are too many for one message: expected at most {MESSAGE_SIZE_MAX}")
    return data


def decode_message(data: bytes) -> Message:
    """Raises :class:`MalformedPacketError` unless ``data`` is a message of this form and version."""
    if len(data) > MESSAGE_SIZE_MAX:
        raise MalformedPacketError("member message", "size", f"{len(data)} bytes")
    try:
        magic, version, kind, sender, size = _HEAD.unpack_from(data)
        name = data[_HEAD.size : _HEAD.size + size].decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedPacketError("member message", "head", str(error)) from error
    if magic != MAGIC or version != VERSION:
        raise MalformedPacketError("member message", "magic", "this is something else, or another version")
    if size > CHANNEL_NAME_SIZE_MAX or _HEAD.size + size > len(data):
        raise MalformedPacketError("member message", "channel", f"{size} bytes")
    return Message(kind, sender, name, data[_HEAD.size + size :])


def encode_places(places: tuple[Place, ...]) -> bytes:
    """Addresses.  An empty host means the sender's own; port 0 means that the member does not listen."""
    parts = [_COUNT.pack(len(places))]
    for host, port in places:
        raw = host.encode()[:_HOST_SIZE_MAX]
        parts.append(_PORT.pack(port, len(raw)) + raw)
    return b"".join(parts)


def decode_places(data: bytes) -> tuple[Place, ...]:
    """Raises :class:`MalformedPacketError`."""
    try:
        (count,) = _COUNT.unpack_from(data)
        if count > MEMBERS_TOLD_MAX:
            raise MalformedPacketError("member message", "places", f"{count} places")
        places = []
        at = _COUNT.size
        for _ in range(count):
            port, size = _PORT.unpack_from(data, at)
            at += _PORT.size
            if size > _HOST_SIZE_MAX or at + size > len(data):
                raise MalformedPacketError("member message", "host", f"{size} bytes")
            places.append((data[at : at + size].decode("ascii"), port))
            at += size
        return tuple(places)
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedPacketError("member message", "places", str(error)) from error


class MessageSplitter:
    """Cuts a stream into messages, each after its length (u32); ``received`` gets them."""

    _LENGTH = struct.Struct(">I")

    def __init__(self, received: Callable[[Message], None]) -> None:
        self._received = received
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Raises :class:`MalformedPacketError`; then the stream cannot be used any more."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= self._LENGTH.size:
            (size,) = self._LENGTH.unpack_from(buffer)
            if size > MESSAGE_SIZE_MAX:
                raise MalformedPacketError("member message", "size", f"{size} bytes")
            end = self._LENGTH.size + size
            if len(buffer) < end:
                return
            message = bytes(buffer[self._LENGTH.size : end])
            del buffer[:end]
            self._received(decode_message(message))

    @classmethod
    def framed(cls, message: bytes) -> bytes:
        """A message as it stands in the stream."""
        return cls._LENGTH.pack(len(message)) + message
