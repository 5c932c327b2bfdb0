"""Objects that are closed at the end of a ``with`` statement."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """``with`` gives the object itself and calls its ``close()`` at the end, also after an exception inside."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
