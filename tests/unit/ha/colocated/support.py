"""A process that hosts backups, played."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed

from mqbroker.config.model.cluster import ColocatedConfiguration, ReplicationConfiguration
from mqbroker.ha.colocated.hosted_configuration import Hosted, HostingError
from mqbroker.ha.colocated.hosting import Hosting
from mqbroker.node.presence import open_side
from tests.unit.ha.replication.support import Node, PairCase

REPLICATED = ReplicationConfiguration(True)


class PlayedBroker:
    """A hosted broker."""

    def __init__(self, hosted: Hosted, left: Callable[[str], object], failed: Callable[[str], object]) -> None:
        self.hosted = hosted
        self.left = left
        self.failed = failed
        self.state = "passive"
        self.stopping: list[Deferred[None]] = []
        self.held = False
        """Does a stop take time?"""

    def stop(self) -> Deferred[None]:
        stopping: Deferred[None] = Deferred()
        self.stopping.append(stopping)
        if not self.held:
            self.stopped()
        return stopping

    def stopped(self) -> None:
        self.state = "stopped"
        self.stopping[-1].callback(None)


class PlayedProcess:
    """Implements :class:`mqbroker.ha.colocated.hosting.HostProcess`."""

    def __init__(self) -> None:
        self.started: list[PlayedBroker] = []
        self.refusal = ""
        """Why there is no place."""
        self.failure = ""
        """Why nothing can be started."""
        self.held: Deferred[Any] | None = None
        """The next place is found when this fires."""
        self.asked: list[tuple[str, Any, list[int]]] = []
        self.kept = True
        """Has a backup that has ended what its node may need?"""

    def find_place(self, node_id: str, folders: Any, taken: Collection[int]) -> Deferred[Hosted]:
        self.asked.append((node_id, folders, sorted(taken)))
        if self.refusal:
            return fail(HostingError(self.refusal))
        found = Hosted(next(number for number in range(1, 9) if number not in taken), node_id, folders)
        held, self.held = self.held, None
        return succeed(found) if held is None else held.addCallback(lambda _: found)

    def keeps(self, hosted: Hosted) -> Deferred[bool]:
        return succeed(self.kept)

    def start(self, hosted: Hosted, left: Callable[[str], object], failed: Callable[[str], object]) -> PlayedBroker:
        if self.failure:
            raise HostingError(self.failure)
        self.started.append(PlayedBroker(hosted, left, failed))
        return self.started[-1]


class ColocatedCase(PairCase):
    """Brokers of one cluster; those that :meth:`host` is called for host backups."""

    def broker(self, name: str, port: int, *others: int) -> Node:
        node = self.node(name, port, *others).start()
        self.run_until(lambda: node.state == "active")
        return node

    def host(self, node: Node, **options: Any) -> tuple[Hosting, PlayedProcess]:
        """``options`` are those of :class:`ColocatedConfiguration`."""
        configuration = ColocatedConfiguration(**{"backup": REPLICATED, **options})
        process = PlayedProcess()
        hosting = Hosting(configuration, process, node.process)  # type: ignore[arg-type]
        server: Any = node.life.active.server
        hosting.open()
        hosting.serve(server, server.cluster.connections["c"].topology, self.side(node))
        return hosting, process

    def side(self, node: Node) -> Any:
        return open_side(node.configuration(), None, Path(), node.runtime)
