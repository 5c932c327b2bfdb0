"""The files of ``consumer --data`` and ``producer --data``: messages in XML, texts readable.

The format is the message part of an export (see :mod:`mqbroker.cli.data.xml_messages`), except that the body of a text message is its text.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, TextIO

from mqbroker.cli.data.xml_messages import ReadableBody, is_xml_text, read_body, read_message, write_message
from mqbroker.cli.data.xml_reader import Node, XmlFormatError, read_nodes
from mqbroker.cli.status import CommandError
from mqclient.core.message import ClientMessage
from mqclient.jms import Message, Session
from mqclient.jms.messages.conversion import from_core, to_core
from mqclient.wire.bodies import decode_text, encode_text
from mqclient.wire.message import KEY_DUPLICATE_ID, TYPE_TEXT


class MessageWriter:
    """Writes messages to a file; threads may share it."""

    def __init__(self, file: Path) -> None:
        self._path = file
        self._lock = threading.Lock()
        self._out: TextIO | None = None

    def __enter__(self) -> Self:
        try:
            self._out = self._path.open("w", encoding="utf-8")
        except OSError as error:
            raise CommandError(f"--data: {error}") from error
        self._out.write('<?xml version="1.0" encoding="UTF-8"?>\n<messages>\n')
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # After Ctrl-C a thread may be at its last message still.
        with self._lock:
            assert self._out is not None
            try:
                self._out.write("</messages>\n")
                self._out.close()
            except OSError as failure:
                raise CommandError(f"--data: {failure}") from failure

    def write(self, message: Message) -> None:
        """Append one message; it is in the file when this returns.  Raises OSError, and CommandError for a text that XML cannot hold."""
        core = to_core(message)
        core.priority = message.priority
        core.expiration = message.expiration
        core.timestamp = message.timestamp
        if message.message_id is not None:
            core.user_id = uuid.UUID(message.message_id.removeprefix("ID:")).bytes
        text = decode_text(core.body) if core.type == TYPE_TEXT else None
        if text is not None and not is_xml_text(text):
            raise CommandError(f"--data: the text of {message.message_id} has characters that XML cannot hold; use `mqbroker data exp`")
        readable = ReadableBody(text) if core.type == TYPE_TEXT else None
        with self._lock:
            assert self._out is not None
            write_message(self._out, core, None, readable=readable, indent="   ")
            self._out.flush()


def read_messages(file: Path) -> Iterator[Callable[[Session], Message]]:
    """A maker for each message of the file.  Raises :class:`CommandError` for a file that cannot be read."""
    try:
        with file.open("rb") as stream:
            for node in read_nodes(stream, "messages", ("message",)):
                message = _message(node)

                def make(session: Session, message: Message = message) -> Message:
                    return message

                yield make
    except (OSError, XmlFormatError) as error:
        raise CommandError(f"--data {file}: {error}") from error


def _message(node: Node) -> Message:
    found = read_message(node)
    # Whoever has sent the message before has used its duplicate id up: the broker would drop the message, and tell nobody.
    found.message.properties.pop(KEY_DUPLICATE_ID, None)
    body = b"".join(_texts(node)) if found.message.type == TYPE_TEXT else b"".join(read_body(node))
    core = ClientMessage(type=found.message.type, properties=found.message.properties, body=body)
    return from_core(core, None, _NoLargeBodies())


def _texts(node: Node) -> Iterator[bytes]:
    for body in node.find("body"):
        yield encode_text("".join(body.pieces) if body.pieces else None)


class _NoLargeBodies:
    """Bodies are not streamed: the file holds them whole."""

    def read(self, message: ClientMessage) -> bytes:
        return message.body

    def save(self, message: ClientMessage, file: BinaryIO) -> None:
        file.write(message.body)
