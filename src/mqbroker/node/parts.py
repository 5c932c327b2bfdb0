"""The parts of the outside world that a broker is made of; the application, the simulation and tests each bring their own (decision 14)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from mqbroker.messaging.administration.disk_guard import DiskSpace
from mqbroker.messaging.administration.registrar import Registrar
from mqbroker.messaging.ports import Clock, Store
from mqbroker.node.activation import Activation
from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.disk.filesystem import FileSystem

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from mqbroker.config.instance.broker_settings import BrokerSettings
    from mqbroker.server.cluster_port import ColocatedFigures
    from mqbroker.server.observation.metrics import MetricsSource
    from mqbroker.server.transport.acceptor import Acceptor, ConnectingServer
    from mqbroker.storage.sql.database import Database
    from mqclient.core.runtime import Runtime


class StartError(Exception):
    """The broker cannot start; the text is one sentence that says why."""


class EndingWriter(DiskWriter, Protocol):
    """A disk writer that its owner closes."""

    def close(self) -> bool:
        """Wait a bounded time until everything that was submitted has run; nothing is submitted afterwards.  Returns whether it has."""


class Listeners(Protocol):
    """The ways into one broker."""

    @property
    def acceptors(self) -> Sequence[Acceptor]: ...

    def find(self, name: str) -> Any:
        """The management resource of an acceptor; None when there is none of this name."""

    def open(self) -> None:
        """Take clients.  Raises :class:`StartError`; everything is closed again then."""

    def serve(self, server: ConnectingServer) -> None:
        """New connections are those of ``server`` from now on; what is open stays so, without a gap."""

    def close(self) -> Deferred[Any]:
        """Take no more clients; open connections stay.  Completes when every listener is closed."""


class Observed(Protocol):
    """A broker as health and metrics show it, active or not."""

    def live(self) -> str | None:
        """One line that says why the broker cannot go on; None when it can."""

    def ready(self) -> str | None:
        """One line that says why clients cannot be served; None when they can."""

    def figures(self) -> MetricsSource: ...


class NetworkWatch(Protocol):
    """Tells whether the network is there, by asking the places of the network check."""

    def start(self, isolated: Callable[[str], object], reachable: Callable[[], object]) -> None:
        """``isolated`` is told why when nobody answers, then ``reachable`` when somebody does, each from a call of the clock.

        Nothing changes if it was started already.
        """

    def stop(self) -> None:
        """Nobody is told any more; results of :meth:`look` never come."""

    def look(self) -> Deferred[bool]:
        """Does anybody answer now?"""


class Pages(Protocol):
    """Health and metrics for operators."""

    def open(self) -> None:
        """Open the pages, unless they are open.  Raises :class:`StartError`, and leaves nothing open then."""

    def close(self) -> Deferred[Any]:
        """Completes when everything is closed."""


class StoreFactory(Protocol):
    """Makes a store that is not opened yet; ``failed`` gets the reason when the store can no longer write."""

    def __call__(
        self, settings: BrokerSettings, parts: Parts, new_writer: Callable[[], DiskWriter], failed: Callable[[str], object], /
    ) -> Store: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """The outside world of one broker.

    ``make_writer`` makes a disk writer that reports by calling its argument, ``in_turn(function, *args)``.  ``entropy`` gives random bytes,
    ``random`` a number from 0 to 1.  ``defer_to_thread`` runs a function beside the loop.  ``read_file`` and ``write_file`` are for the
    files that the configuration names.  ``disk_space`` tells of the disks below folders, ``disk_usage`` how full the disk below a folder
    is, 0 to 1.  ``make_runtime`` gives links to other brokers their network and clock.  ``make_listeners`` makes the ways into a server,
    ``make_pages`` those to health and metrics.  ``registrar`` agrees to definitions and to names that are taken.  ``memory_default`` is the
    ``global-max-size`` in bytes of a configuration without one.  ``loop_lag_ms`` tells how long the event loop let others wait; None =
    nobody watches it.  ``network`` watches the network; None = the configuration does not ask for that.  ``database`` is the one in which
    messages are kept; None = in files.  ``record`` is the one in which the change record of a cluster of peers is.  ``colocation`` tells of
    backups of other brokers in this process, and of the own one elsewhere.  ``restart`` stops this broker in order, and begins it again
    with its files as they are then; None = nobody can.
    """

    clock: Clock
    file_system: FileSystem
    make_writer: Callable[[Callable[..., object]], EndingWriter]
    entropy: Callable[[int], bytes]
    random: Callable[[], float]
    defer_to_thread: Callable[..., Deferred[Any]]
    read_file: Callable[[str], bytes]
    write_file: Callable[[str, bytes], None]
    disk_space: Callable[[Sequence[str]], list[DiskSpace]]
    disk_usage: Callable[[str], float]
    make_runtime: Callable[[], Runtime]
    make_store: StoreFactory
    make_listeners: Callable[[ConnectingServer], Listeners]
    make_pages: Callable[[Observed], Pages]
    activation: Activation
    registrar: Registrar
    loop_lag_ms: Callable[[], float | None]
    memory_default: Callable[[], int]
    version: str
    network: NetworkWatch | None = None
    database: Database | None = None
    record: Database | None = None
    colocation: Callable[[], ColocatedFigures | None] = lambda: None
    restart: Callable[[], object] | None = None
