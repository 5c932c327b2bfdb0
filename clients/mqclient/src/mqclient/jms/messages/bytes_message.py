"""Bytes messages: written and read as a whole, value by value as Java's data streams do, or streamed from and to a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, TypeVar

from mqclient.errors import MalformedPacketError
from mqclient.jms.exceptions import MessageEOFException, MessageFormatException, MessageNotReadableException
from mqclient.jms.messages.message import Message
from mqclient.jms.messages.values import Char
from mqclient.wire import message as wire
from mqclient.wire.bodies import BytesReader, BytesWriter, EndOfBodyError

T = TypeVar("T")


def _checked(data: bytes) -> bytes:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise MessageFormatException(f"the data of a bytes message are bytes, not {type(data).__name__}")
    return data


class BytesMessage(Message):
    """Bytes without structure.

    ``data`` is the whole body.  The ``write_…`` methods append a value, the ``read_…`` methods take the next one; ``reset()`` turns a
    message that was written into one that is read from its beginning.  ``stream`` and :meth:`save_to` move bodies of any size without
    holding them in memory.
    """

    core_type = wire.TYPE_BYTES

    def __init__(self, data: bytes = b"", *, stream: BinaryIO | None = None) -> None:
        """``stream``: a file opened for reading bytes; its content is the body, sent in chunks as a large message."""
        super().__init__()
        self.stream = stream
        self._writer = BytesWriter()
        self._writer.write_bytes(_checked(data))
        self._reader: BytesReader | None = None
        self._save: Callable[[BinaryIO], None] | None = None
        self._length: int | None = None

    @property
    def data(self) -> bytes:
        """The whole body, also the part that was read already."""
        pending = self._pending
        if pending is not None:
            self._writer.data[:] = pending() if callable(pending) else pending
            self._pending = self._length = self._save = None
        return bytes(self._writer.data)

    @data.setter
    def data(self, data: bytes) -> None:
        self._writable()
        self._reader = None
        self._writer.data[:] = _checked(data)

    @property
    def body(self) -> bytes:
        return self.data

    @property
    def body_length(self) -> int:
        """Bytes of the body; of a large message without reading it where its sender told the size."""
        return len(self.data) if self._length is None else self._length

    def __bytes__(self) -> bytes:
        return self.data

    def save_to(self, file: BinaryIO) -> None:
        """Write the body to ``file``.

        A large message that was received is written chunk by chunk and cannot be read again: that, and sending it on, raises JMSException.
        """
        if self._save is None:
            file.write(self.data)
        else:
            self._save(file)

    def reset(self) -> None:
        """Make the body readable from its beginning."""
        self._reader = BytesReader(self.data)
        self._body_read_only = True

    def clear_body(self) -> None:
        super().clear_body()
        self.stream = self._reader = self._save = self._length = None
        self._writer = BytesWriter()

    def _encode(self) -> bytes:
        return bytes(self._writer.data)

    # --- writing -----------------------------------------------------------------------------------------------------

    def _write(self, method: Callable[[BytesWriter], None]) -> None:
        self._writable()
        try:
            method(self._writer)
        except ValueError as error:
            raise MessageFormatException(str(error)) from error

    def write_boolean(self, value: bool) -> None:
        self._write(lambda writer: writer.write_boolean(value))

    def write_byte(self, value: int) -> None:
        self._write(lambda writer: writer.write_byte(value))

    def write_short(self, value: int) -> None:
        self._write(lambda writer: writer.write_short(value))

    def write_char(self, value: str) -> None:
        """One UTF-16 code unit."""
        self._write(lambda writer: writer.write_char(ord(Char(value))))

    def write_int(self, value: int) -> None:
        self._write(lambda writer: writer.write_int(value))

    def write_long(self, value: int) -> None:
        self._write(lambda writer: writer.write_long(value))

    def write_float(self, value: float) -> None:
        self._write(lambda writer: writer.write_float(value))

    def write_double(self, value: float) -> None:
        self._write(lambda writer: writer.write_double(value))

    def write_utf(self, value: str) -> None:
        """A text of at most 65535 bytes in Java's modified UTF-8."""
        self._write(lambda writer: writer.write_utf(value))

    def write_bytes(self, value: bytes) -> None:
        self._write(lambda writer: writer.write_bytes(value))

    # --- reading -----------------------------------------------------------------------------------------------------

    def _source(self) -> BytesReader:
        if not self._body_read_only:
            raise MessageNotReadableException("the body is being written; call reset() to read it")
        if self._reader is None:
            self._reader = BytesReader(self.data)
        return self._reader

    def read_boolean(self) -> bool:
        return _read(self._source().read_boolean)

    def read_byte(self) -> int:
        return _read(self._source().read_byte)

    def read_unsigned_byte(self) -> int:
        return _read(self._source().read_unsigned_byte)

    def read_short(self) -> int:
        return _read(self._source().read_short)

    def read_unsigned_short(self) -> int:
        return _read(self._source().read_unsigned_short)

    def read_char(self) -> str:
        return chr(_read(self._source().read_char))

    def read_int(self) -> int:
        return _read(self._source().read_int)

    def read_long(self) -> int:
        return _read(self._source().read_long)

    def read_float(self) -> float:
        return _read(self._source().read_float)

    def read_double(self) -> float:
        return _read(self._source().read_double)

    def read_utf(self) -> str:
        return _read(self._source().read_utf)

    def read_bytes(self, size: int = -1) -> bytes:
        """At most ``size`` of the bytes that are left, all of them by default; empty at the end."""
        source = self._source()
        return source.read_bytes(source.remaining if size < 0 else min(size, source.remaining))


def _read(method: Callable[[], T]) -> T:
    try:
        return method()
    except EndOfBodyError as error:
        raise MessageEOFException(str(error)) from error
    except MalformedPacketError as error:
        raise MessageFormatException(str(error)) from error
