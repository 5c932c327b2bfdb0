"""Bodies of large messages that are read again when their upload is repeated."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any

from mqclient.core.message import BodySource
from mqclient.errors import BodyNotRepeatableError

_ADVICE = "with exactlyOnce give bytes, a file that can seek, or an object that makes a new iterator each time"


class RepeatableBody:
    """The source of a body, and the place where the body begins.

    Raises ``BodyNotRepeatableError`` for a source that is used up by reading.
    """

    __slots__ = ("_source", "_start")

    def __init__(self, source: BodySource | None) -> None:
        self._source: Any = source
        self._start = 0
        if source is None:
            return
        if hasattr(source, "read"):
            self._start = _place(source)
        elif (source.__aiter__() if isinstance(source, AsyncIterable) else iter(source)) is source:
            raise BodyNotRepeatableError(f"the body of the large message can be read only once; {_ADVICE}")

    def rewind(self) -> None:
        """Let the body be read from its beginning."""
        if hasattr(self._source, "read"):
            try:
                self._source.seek(self._start)
            except (OSError, ValueError) as error:
                raise BodyNotRepeatableError(f"the file with the body of the large message cannot be read again: {error}") from error


def _place(file: Any) -> int:
    try:
        if file.seekable():
            return int(file.tell())
    except (AttributeError, OSError, ValueError) as error:
        raise BodyNotRepeatableError(f"the file with the body of the large message cannot seek ({error}); {_ADVICE}") from error
    raise BodyNotRepeatableError(f"the file with the body of the large message cannot seek; {_ADVICE}")
