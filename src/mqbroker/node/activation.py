"""The decision whether a broker with its data may become active."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Activation(Protocol):
    """Decides when a broker becomes active; until then it is passive."""

    def seek(self, granted: Callable[[], object]) -> None:
        """Call ``granted`` once, now or later, unless :meth:`cease` comes first."""

    def cease(self) -> None:
        """The broker ends its request, or its activity."""


class ActiveAtOnce:
    """The activation of a broker without high availability."""

    def seek(self, granted: Callable[[], object]) -> None:
        granted()

    def cease(self) -> None:
        pass
