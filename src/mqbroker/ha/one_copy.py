"""What an activation does for the other copy of a pair, for brokers that have no such copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqbroker.messaging.ports import Store
    from mqbroker.server.server import Server
    from mqbroker.storage.disk.filesystem import FileSystem
    from mqbroker.storage.settings import StoreSettings


class OneCopy:
    """Base of activations whose data lie in one place.  See :class:`mqbroker.node.activation.Activation`."""

    def files(self, file_system: FileSystem, settings: StoreSettings) -> FileSystem:
        return file_system

    def serve(self, server: Server, store: Store) -> None:
        """Nobody is told of it."""

    def leave(self) -> None:
        """Nobody is told of it."""

    def let_go(self, done: Callable[[], object]) -> None:
        done()
