"""The means by which the ``grammar`` modules describe a packet: fields that depend on the version, on other fields or on what is left."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import construct as cs

from mqclient.wire.packets.grammar_types import Context

CLIENT_TO_SERVER = "C→S"
SERVER_TO_CLIENT = "S→C"
BOTH = "both"
SERVER_TO_SERVER = "S↔S"


@dataclass(frozen=True)
class Description:
    """One packet: its number, who sends it where, and the layout of its body.

    ``since`` is the lowest protocol version that knows it (0 = all); ``answer`` the packets that answer it, "" for none.
    """

    type: int
    name: str
    direction: str
    channel: str
    meaning: str
    layout: Any
    answer: str = ""
    since: int = 0
    counted: bool = True
    response: bool = False


def version_of(context: Context) -> int:
    """The protocol version of the connection."""
    version: int = context._params.version
    return version


def left(stream: Any) -> int:
    """Bytes of the packet that are not read."""
    position: int = stream.tell()
    end: int = stream.seek(0, 2)
    stream.seek(position)
    return end - position


class When(cs.Subconstruct):  # type: ignore[misc]
    """A field that is there only when ``condition`` holds; otherwise a reader takes ``absent`` for it."""

    def __init__(self, text: str, condition: Callable[[Context], bool], subcon: Any, absent: Any = None) -> None:
        super().__init__(subcon)
        self.text = text
        self.condition = condition
        self.absent = absent
        self.flagbuildnone = True

    def _parse(self, stream: Any, context: Context, path: str) -> Any:
        return self.subcon._parsereport(stream, context, path) if self.condition(context) else self.absent

    def _build(self, obj: Any, stream: Any, context: Context, path: str) -> Any:
        return self.subcon._build(obj, stream, context, path) if self.condition(context) else obj


def since(version: int, subcon: Any, absent: Any) -> When:
    """A field that connections of a version below ``version`` do not have."""
    return When(f"version ≥ {version}", lambda context: version_of(context) >= version, subcon, absent)


class Presence(cs.Construct):  # type: ignore[misc]
    """Takes no bytes.  Reading: are ``minimum`` bytes left?  Writing: does the packet have this many ``groups``?"""

    def __init__(self, number: int, minimum: int, version: int) -> None:
        super().__init__()
        self.number = number
        self.minimum = minimum
        self.version = version
        self.flagbuildnone = True

    def _parse(self, stream: Any, context: Context, path: str) -> bool:
        before = self.number == 1 or context[f"group_{self.number - 1}"]
        return bool(before) and version_of(context) >= self.version and left(stream) >= self.minimum

    def _build(self, obj: Any, stream: Any, context: Context, path: str) -> bool:
        before = self.number == 1 or context[f"group_{self.number - 1}"]
        return bool(before) and version_of(context) >= self.version and context.groups >= self.number


def group(number: int, *fields: Any, minimum: int = 1, version: int = 0, absent: Any = None) -> list[Any]:
    """Fields at the end that are there all or not at all: older writers stop before them.

    They are read when ``minimum`` bytes are left and the group before them was there, and from ``version`` on only.
    """
    name = f"group_{number}"
    text = f"G{number}" if minimum == 1 else f"{minimum} bytes left"
    if version:
        text = f"version ≥ {version}, {text}"
    described = [
        field.name
        / When(text, lambda context: context[name], field.subcon, absent)
        * field.docs  # a field of construct: name / type * text
        for field in fields
    ]
    return [name / Presence(number, minimum, version), *described]


class UpToTrailer(cs.Subconstruct):  # type: ignore[misc]
    """All bytes but the last ``size(context)``, at least ``minimum`` of them."""

    def __init__(self, size: Callable[[Context], int], minimum: int, subcon: Any) -> None:
        super().__init__(subcon)
        self.size = size
        self.minimum = minimum

    def _parse(self, stream: Any, context: Context, path: str) -> Any:
        count = left(stream) - self.size(context)
        if count < self.minimum:
            raise cs.StreamError(f"{count} bytes before the trailer", path=path)
        return self.subcon._parsereport(io.BytesIO(stream.read(count)), context, path)

    def _build(self, obj: Any, stream: Any, context: Context, path: str) -> Any:
        return self.subcon._build(obj, stream, context, path)


class UntilEnd(cs.Subconstruct):  # type: ignore[misc]
    """Items until no byte is left."""

    def _parse(self, stream: Any, context: Context, path: str) -> tuple[Any, ...]:
        items = []
        while left(stream):
            items.append(self.subcon._parsereport(stream, context, path))
        return tuple(items)

    def _build(self, obj: Any, stream: Any, context: Context, path: str) -> Any:
        for item in obj:
            self.subcon._build(item, stream, context, path)
        return obj
