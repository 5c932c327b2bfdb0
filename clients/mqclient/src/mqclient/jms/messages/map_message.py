"""Map messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mqclient.jms.messages import values
from mqclient.jms.messages.message import Message, check_name
from mqclient.wire import bodies
from mqclient.wire import message as wire
from mqclient.wire import properties as types
from mqclient.wire.properties import TypedValue


class MapMessage(Message):
    """Values by name, each with its Java type (see :mod:`mqclient.jms.messages.values`).

    Works like a dict; ``body`` is a dict of its entries.
    """

    core_type = wire.TYPE_MAP

    def __init__(self, entries: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self._content: dict[str, TypedValue] = {}
        for name, value in (entries or {}).items():
            self[name] = value

    def _entries(self) -> dict[str, TypedValue]:
        found: dict[str, TypedValue] = self._decoded()
        return found

    def _store(self, name: str, entry: TypedValue) -> None:
        self._writable()
        check_name(name, "an entry of a map message")
        self._entries()[name] = entry

    @property
    def body(self) -> dict[str, object]:
        return {name: values.untyped(entry) for name, entry in self._entries().items()}

    def clear_body(self) -> None:
        super().clear_body()
        self._content = {}

    _decode = staticmethod(bodies.decode_map)

    def _encode(self) -> bytes:
        return bodies.encode_map(self._content)

    def __getitem__(self, name: str) -> object:
        return values.untyped(self._entries()[name])

    def __setitem__(self, name: str, value: object) -> None:
        self._store(name, values.typed(value))

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries())

    def __len__(self) -> int:
        return len(self._entries())

    def __contains__(self, name: object) -> bool:
        return name in self._entries()

    def get(self, name: str, default: object = None) -> object:
        """The value with the wrapper of its Java type; ``default`` when there is no entry."""
        entry = self._entries().get(name)
        return default if entry is None else values.untyped(entry)

    def keys(self) -> list[str]:
        """The names of the entries."""
        return list(self._entries())

    def set_boolean(self, name: str, value: bool) -> None:
        self._store(name, values.exactly(types.BOOLEAN, value))

    def set_byte(self, name: str, value: int) -> None:
        self._store(name, values.exactly(types.BYTE, value))

    def set_short(self, name: str, value: int) -> None:
        self._store(name, values.exactly(types.SHORT, value))

    def set_char(self, name: str, value: str) -> None:
        self._store(name, values.exactly(types.CHAR, value))

    def set_int(self, name: str, value: int) -> None:
        self._store(name, values.exactly(types.INT, value))

    def set_long(self, name: str, value: int) -> None:
        self._store(name, values.exactly(types.LONG, value))

    def set_float(self, name: str, value: float) -> None:
        self._store(name, values.exactly(types.FLOAT, value))

    def set_double(self, name: str, value: float) -> None:
        self._store(name, values.exactly(types.DOUBLE, value))

    def set_string(self, name: str, value: str | None) -> None:
        self._store(name, values.exactly(types.STRING, value))

    def set_bytes(self, name: str, value: bytes | None) -> None:
        self._store(name, values.exactly(types.BYTES, value))

    def get_boolean(self, name: str) -> bool:
        return values.to_boolean(self._entries().get(name))

    def get_byte(self, name: str) -> int:
        return values.to_integer(self._entries().get(name), types.BYTE)

    def get_short(self, name: str) -> int:
        return values.to_integer(self._entries().get(name), types.SHORT)

    def get_char(self, name: str) -> str:
        return values.to_char(self._entries().get(name))

    def get_int(self, name: str) -> int:
        return values.to_integer(self._entries().get(name), types.INT)

    def get_long(self, name: str) -> int:
        return values.to_integer(self._entries().get(name), types.LONG)

    def get_float(self, name: str) -> float:
        return values.to_float(self._entries().get(name), types.FLOAT)

    def get_double(self, name: str) -> float:
        return values.to_float(self._entries().get(name), types.DOUBLE)

    def get_string(self, name: str) -> str | None:
        return values.to_text(self._entries().get(name))

    def get_bytes(self, name: str) -> bytes | None:
        return values.to_bytes(self._entries().get(name))
