"""A wait of a loop that somebody else may end."""

from __future__ import annotations

from typing import Any

from mqclient.core.runtime import Runtime, wait_at_most
from mqclient.errors import MQError


class Pause:
    """One wait at a time."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._wake: Any = None
        """None while nobody waits."""

    async def wait(self, seconds: float | None) -> None:
        """Until :meth:`end`, or for ``seconds``; None: without a limit."""
        self._wake = self._runtime.create_future()
        late = MQError("the pause is over")
        try:
            await wait_at_most(self._runtime, self._wake, seconds, late)
        except MQError as error:
            if error is not late:
                raise
        finally:
            self._wake = None

    @property
    def waits(self) -> bool:
        return self._wake is not None

    def end(self) -> None:
        """Nothing changes while nobody waits."""
        if self._wake is not None:
            self._runtime.resolve(self._wake, None)
