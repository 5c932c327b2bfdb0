"""A start that seeks its activation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from mqbroker.messaging.ports import Store
    from mqbroker.server.transport.cluster_channel import ClusterChannel


class Starting(Protocol):
    """The life of the broker, as a candidate needs it."""

    def give_way(self, again: bool) -> None: ...

    def start_again(self, node_id: str, register: Callable[[ClusterChannel], object]) -> None: ...

    def begin_again(self, ready: Deferred[None]) -> None: ...

    def take_brokers(self, node_id: str, register: Callable[[ClusterChannel], object]) -> None: ...

    def take_nobody(self) -> Deferred[Any]: ...


class Candidate:
    """Implements :class:`mqbroker.node.activation.Candidate` for one start, whose store is ``store``."""

    def __init__(self, life: Starting, activate: Callable[[], object], store: Store) -> None:
        self.at_once = False
        """Was it granted while it was asked for?"""
        self._life = life
        self._activate = activate
        self._store = store

    def granted(self) -> None:
        self.at_once = True
        self._activate()

    def lost(self, reason: str) -> None:
        self._store.fence(reason)

    def give_way(self, again: bool) -> None:
        self._life.give_way(again)

    def start_again(self, node_id: str, register: Callable[[ClusterChannel], object]) -> None:
        self._life.start_again(node_id, register)

    def begin_again(self, ready: Deferred[None]) -> None:
        self._life.begin_again(ready)

    def take_brokers(self, node_id: str, register: Callable[[ClusterChannel], object]) -> None:
        self._life.take_brokers(node_id, register)

    def take_nobody(self) -> Deferred[Any]:
        return self._life.take_nobody()
