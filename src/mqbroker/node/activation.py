"""The decision whether a broker with its data may become active."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from mqbroker.config.model.configuration import Configuration
    from mqbroker.ha.locks.proof import LockProof
    from mqbroker.ha.replication.backup import ClusterSide
    from mqbroker.ha.replication.process_voters import ProcessVoters
    from mqbroker.ha.shared_store.activation import PlaceFactory, Presence
    from mqbroker.ha.shared_store.lease import Beat
    from mqbroker.messaging.ports import Clock, Store
    from mqbroker.server.cluster_port import CopyFigures
    from mqbroker.server.server import Server
    from mqbroker.server.transport.cluster_channel import ClusterChannel
    from mqbroker.storage.disk.claim import Claim
    from mqbroker.storage.disk.diskwriter import DiskWriter
    from mqbroker.storage.disk.filesystem import FileSystem
    from mqbroker.storage.settings import StoreSettings
    from mqbroker.storage.sql.database import Database


class Candidate(Protocol):
    """A broker that wants to be active."""

    def granted(self) -> None:
        """The broker may be active: it loads its store, and serves."""

    def lost(self, reason: str) -> None:
        """The broker may not be active, now or any more: it writes nothing more."""

    def give_way(self, again: bool) -> None:
        """Another broker is to be active: it stops in order, and then seeks its activation once more if ``again``."""

    def start_again(self, node_id: str, register: Callable[[ClusterChannel], object]) -> None:
        """An active broker acknowledges and writes nothing more, and then seeks its activation once more; one that stops ends at once.

        Its acceptors go over without a gap to what :meth:`take_brokers` says.
        """

    def begin_again(self, ready: Deferred[None]) -> None:
        """An active broker acknowledges and writes nothing more, and seeks its activation once more when ``ready`` has come.

        One that stops ends at once.
        """

    def take_brokers(self, node_id: str, register: Callable[[ClusterChannel], object]) -> None:
        """Until it is active its acceptors are open for what brokers ask a copy of ``node_id``; ``register`` adds the handlers."""

    def take_nobody(self) -> Deferred[Any]:
        """Close the acceptors of :meth:`take_brokers`; completes when the ports are free."""


class Activation(Protocol):
    """Decides when a broker becomes active; until then it is passive."""

    @property
    def role(self) -> str:
        """primary or backup, as configured."""

    @property
    def state(self) -> str:
        """The present wait of a passive broker, in few words."""

    @property
    def copies(self) -> CopyFigures | None:
        """How the copies of a replicated pair stand; None without replication."""

    def files(self, file_system: FileSystem, settings: StoreSettings) -> FileSystem:
        """The file system by which the store of the next start has its folders.  Raises StorageError."""

    def claim(self, file_system: FileSystem, directory: str, writer: DiskWriter) -> Claim | None:
        """The claim of the next start to the folder of its store, which ``writer`` writes to; None = the folder is the broker's own."""

    def seek(self, candidate: Candidate) -> None:
        """Grant it once, now or later, unless :meth:`cease` comes first."""

    def hand_over(self) -> None:
        """The active broker is about to stop in order: another one is to go on, whatever the configuration says."""

    def hold_back(self) -> None:
        """The active broker is about to stop in order, and comes back: it asks no other one to go on."""

    def serve(self, server: Server, store: Store, kept: Mapping[tuple[str, str], str]) -> None:
        """The broker is active; ``kept`` are the settings of management that its store has, by kind and key."""

    @property
    def gives_away(self) -> bool:
        """Does a backup with scale-down, which has just become active, give its messages to another broker?"""

    def retire(self) -> None:
        """Another broker takes the messages: the active broker is to stop, as the configuration says it for a backup."""

    def leave(self) -> None:
        """The broker begins an orderly stop of its activity."""

    def gave_away(self, complete: bool) -> None:
        """The stop has tried to give the messages to another broker; ``complete``: that has everything that it takes."""

    def let_go(self, done: Callable[[], object]) -> None:
        """All work is written: another broker may go on; then ``done`` is called."""

    def cease(self) -> None:
        """The broker ends its request, or its activity."""


class ActiveAtOnce:
    """The activation of a broker without high availability."""

    role = "primary"
    state = ""
    copies = None
    gives_away = False

    def files(self, file_system: FileSystem, settings: StoreSettings) -> FileSystem:
        return file_system

    def claim(self, file_system: FileSystem, directory: str, writer: DiskWriter) -> None:
        """Nobody else uses the folder."""

    def serve(self, server: Server, store: Store, kept: Mapping[tuple[str, str], str]) -> None:
        if server.cluster is not None:
            from mqbroker.ha.one_copy import vote_for_others

            vote_for_others(server, store, kept)

    def leave(self) -> None:
        """Nobody is told of it."""

    def retire(self) -> None:
        """Nothing to do: this broker is no backup."""

    def gave_away(self, complete: bool) -> None:
        """Nobody could go on."""

    def let_go(self, done: Callable[[], object]) -> None:
        done()

    def seek(self, candidate: Candidate) -> None:
        candidate.granted()

    def hand_over(self) -> None:
        """Nobody could go on."""

    def hold_back(self) -> None:
        """Nobody could go on."""

    def cease(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The outside world, as far as activations need it.

    ``presence`` shows a passive broker to its cluster, and ``open_side`` gives the ways to other brokers by the cluster connection of this
    name (None: the default one).  ``lock`` is held for moments by the loop and by other threads; ``call`` lets
    another thread call on the loop.  ``network_answers`` asks the places of the network check whether one of them answers; None: there is
    no such check.  ``locks`` is the lock manager of the configuration; None: there is none.  ``database`` is the one that brokers share,
    with connections that wait no longer than a lease or a stamp may (None: there is none), ``make_beat`` makes the thread that renews
    these, and ``make_writer`` one that does one thing after the other.  ``neighbours`` are the voters among the brokers of this process;
    None: it has no other broker.
    """

    clock: Clock
    entropy: Callable[[int], bytes]
    presence: Presence
    open_side: Callable[[str | None], ClusterSide]
    lock: AbstractContextManager[object]
    call: Callable[[Callable[[], object]], object]
    network_answers: Callable[[], Deferred[bool]] | None = None
    locks: LockProof | None = None
    database: Database | None = None
    make_beat: Callable[[], Beat] | None = None
    make_writer: Callable[[Callable[..., object]], DiskWriter] | None = None
    neighbours: ProcessVoters | None = None


def make_activation(configuration: Configuration, outside: Surroundings) -> Activation:
    """The activation that the configuration asks for."""
    if configuration.shared_store is not None:
        from mqbroker.ha.shared_store.activation import SharedStoreActivation

        timeout = configuration.journal_lock_acquisition_timeout
        place = _make_place_factory(configuration, configuration.shared_store.failover_on_shutdown, outside)
        return SharedStoreActivation(configuration.shared_store, timeout, outside.clock, outside.presence, place)
    if configuration.replication is not None:
        from mqbroker.ha.replication.activation import ReplicationActivation

        policy = configuration.replication
        return ReplicationActivation(
            policy,
            outside.clock,
            outside.entropy,
            partial(outside.open_side, policy.cluster_name),
            outside.lock,
            outside.call,
            outside.network_answers,
            outside.locks,
            outside.neighbours,
        )
    if configuration.home_cluster is not None and configuration.home_cluster.enhanced is not None:
        from mqbroker.node.enhanced import enhanced_activation

        assert outside.database is not None and outside.make_beat is not None and outside.make_writer is not None
        home, clock, beat = configuration.home_cluster, outside.clock, outside.make_beat()
        return enhanced_activation(home, clock, outside.entropy, outside.call, outside.database, beat, outside.make_writer)
    return ActiveAtOnce()


def _make_place_factory(configuration: Configuration, hands_over: bool, outside: Surroundings) -> PlaceFactory:
    from mqbroker.ha.shared_store.place import SharedPlace

    store = configuration.database_store
    if store is None:
        from mqbroker.ha.shared_store.folder import FolderLocks

        return lambda file_system, directory, lost: SharedPlace(FolderLocks(file_system, directory, outside.entropy), hands_over)
    from mqbroker.ha.shared_store.lease import LeaseTerms
    from mqbroker.ha.shared_store.rows import LeaseParts, RowLocks

    assert outside.database is not None
    assert outside.make_beat is not None
    parts = LeaseParts(outside.database, outside.clock, outside.entropy, outside.make_beat, outside.lock, outside.call)
    terms = LeaseTerms(store.lock_expiration / 1000, store.lock_renew_period / 1000)
    return lambda file_system, directory, lost: SharedPlace(RowLocks(parts, terms, store.allowed_time_diff, lost, store.broker), hands_over)
