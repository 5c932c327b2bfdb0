"""The core bridges of this broker, as management sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mqbroker.config.model.cluster import BridgeConfiguration


KEPT_BRIDGE_KIND = "bridge"
"""The kind under which the store keeps the bridges of management."""


class ManagedBridge(Protocol):
    """One core bridge."""

    @property
    def name(self) -> str: ...

    @property
    def configuration(self) -> BridgeConfiguration: ...

    @property
    def state(self) -> str:
        """stopped, connecting, started, paused, waiting, stopping or failed."""

    @property
    def linked(self) -> bool:
        """Is there a link to the target now?"""

    @property
    def messages_pending(self) -> int:
        """Messages that the target has not acknowledged yet."""

    @property
    def messages_acknowledged(self) -> int: ...

    def start(self) -> None: ...

    def stop(self) -> object: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class BridgePort(Protocol):
    """The core bridges."""

    def names(self) -> Sequence[str]: ...

    def find(self, name: str) -> ManagedBridge | None: ...

    def create_kept(self, configuration: BridgeConfiguration) -> None:
        """Make and start a bridge, also after each restart.  Raises ValueError with the reason when the bridge cannot be made."""

    def destroy(self, name: str) -> bool:
        """Stop and forget all bridges of one configured name; False when there is none."""
