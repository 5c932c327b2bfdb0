"""Objects that are closed at the end of an ``async with`` statement."""

from __future__ import annotations

from collections.abc import Awaitable
from types import TracebackType
from typing import Protocol, Self


class Closing(Protocol):
    """``async with`` gives the object itself and awaits its ``close()`` at the end, also after an exception inside."""

    def close(self) -> Awaitable[None]: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()
