"""The number of duplicate ids that the broker keeps for each address: asked once, before the first send to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mqclient.core.runtime import Mutex, Runtime
from mqclient.errors import IdCacheError, MQError, ObjectClosedError
from mqclient.wire.packets import IdCacheState

ADDRESSES_MAX = 1000
"""Addresses whose numbers are kept."""

Ask = Callable[[str], Awaitable[IdCacheState]]


class IdCaches:
    """``ask`` is the question to the broker; with ``size`` (0 or more) the application answers for it."""

    def __init__(self, runtime: Runtime, size: int, ask: Ask) -> None:
        self._said = size
        self._ask = ask
        self._sizes: dict[str, int] = {}
        self._order = Mutex(runtime)

    def forget(self) -> None:
        """Another broker may answer otherwise."""
        self._sizes.clear()

    def known(self, address: str) -> int | None:
        """The number for an address that has been checked already."""
        return self._sizes.get(address)

    async def check(self, address: str) -> int:
        """Raises ``IdCacheError`` when the broker keeps no ids of the address, forgets them when it restarts, or does not say."""
        async with self._order:
            size = self._sizes.get(address)
            if size is None:
                size = await self._found(address)
                if len(self._sizes) >= ADDRESSES_MAX:
                    del self._sizes[next(iter(self._sizes))]
                self._sizes[address] = size
            return size

    async def _found(self, address: str) -> int:
        state = IdCacheState(self._said, True)
        if self._said < 0:
            try:
                state = await self._ask(address)
            except ObjectClosedError:
                raise
            except MQError as error:
                raise IdCacheError(
                    f"the broker does not say how many duplicate ids it keeps of {address} ({error}): let the user manage the broker, "
                    "or say the number yourself with exactlyOnceIdCacheSize"
                ) from error
        if state.size < 1:
            raise IdCacheError(f"the broker keeps no duplicate ids of {address} (id-cache-size)")
        if not state.persisted:
            raise IdCacheError(f"the broker forgets the duplicate ids of {address} when it restarts (persist-id-cache)")
        return state.size
