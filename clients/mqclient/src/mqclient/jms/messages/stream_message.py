"""Stream messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from mqclient.jms.exceptions import MessageEOFException, MessageNotReadableException
from mqclient.jms.messages import values
from mqclient.jms.messages.message import Message
from mqclient.wire import bodies
from mqclient.wire import message as wire
from mqclient.wire import properties as types
from mqclient.wire.properties import TypedValue

T = TypeVar("T")


class StreamMessage(Message):
    """A sequence of values, each with its Java type (see :mod:`mqclient.jms.messages.values`).

    Iterating gives all items, as ``body`` does.  The ``read_…`` methods take the next item and convert it; an item that cannot be converted
    is not taken.  ``reset()`` makes a message that was written readable.
    """

    core_type = wire.TYPE_STREAM

    def __init__(self, items: Iterable[object] = ()) -> None:
        super().__init__()
        self._content: list[TypedValue] = [values.typed(item) for item in items]
        self._position = 0

    def _items(self) -> list[TypedValue]:
        found: list[TypedValue] = self._decoded()
        return found

    @property
    def body(self) -> list[object]:
        return [values.untyped(entry) for entry in self._items()]

    def __iter__(self) -> Iterator[object]:
        return iter(self.body)

    def __len__(self) -> int:
        return len(self._items())

    def reset(self) -> None:
        """Make the body readable from its beginning."""
        self._position = 0
        self._body_read_only = True

    def clear_body(self) -> None:
        super().clear_body()
        self._content = []
        self._position = 0

    _decode = staticmethod(bodies.decode_stream)

    def _encode(self) -> bytes:
        return bodies.encode_stream(self._content)

    def _append(self, entry: TypedValue) -> None:
        self._writable()
        self._items().append(entry)

    def _next(self, convert: Callable[[TypedValue], T]) -> T:
        if not self._body_read_only:
            raise MessageNotReadableException("the body is being written; call reset() to read it")
        items = self._items()
        if self._position >= len(items):
            raise MessageEOFException("the stream has no more items")
        value = convert(items[self._position])
        self._position += 1
        return value

    def write_object(self, value: object) -> None:
        """Append with the Java type of the Python value."""
        self._append(values.typed(value))

    def write_boolean(self, value: bool) -> None:
        self._append(values.exactly(types.BOOLEAN, value))

    def write_byte(self, value: int) -> None:
        self._append(values.exactly(types.BYTE, value))

    def write_short(self, value: int) -> None:
        self._append(values.exactly(types.SHORT, value))

    def write_char(self, value: str) -> None:
        self._append(values.exactly(types.CHAR, value))

    def write_int(self, value: int) -> None:
        self._append(values.exactly(types.INT, value))

    def write_long(self, value: int) -> None:
        self._append(values.exactly(types.LONG, value))

    def write_float(self, value: float) -> None:
        self._append(values.exactly(types.FLOAT, value))

    def write_double(self, value: float) -> None:
        self._append(values.exactly(types.DOUBLE, value))

    def write_string(self, value: str | None) -> None:
        self._append(values.exactly(types.STRING, value))

    def write_bytes(self, value: bytes) -> None:
        self._append(values.exactly(types.BYTES, value))

    def read_object(self) -> object:
        """The next item with the wrapper of its Java type."""
        return self._next(values.untyped)

    def read_boolean(self) -> bool:
        return self._next(values.to_boolean)

    def read_byte(self) -> int:
        return self._next(lambda entry: values.to_integer(entry, types.BYTE))

    def read_short(self) -> int:
        return self._next(lambda entry: values.to_integer(entry, types.SHORT))

    def read_char(self) -> str:
        return self._next(values.to_char)

    def read_int(self) -> int:
        return self._next(lambda entry: values.to_integer(entry, types.INT))

    def read_long(self) -> int:
        return self._next(lambda entry: values.to_integer(entry, types.LONG))

    def read_float(self) -> float:
        return self._next(lambda entry: values.to_float(entry, types.FLOAT))

    def read_double(self) -> float:
        return self._next(lambda entry: values.to_float(entry, types.DOUBLE))

    def read_string(self) -> str | None:
        return self._next(values.to_text)

    def read_bytes(self) -> bytes | None:
        return self._next(values.to_bytes)
