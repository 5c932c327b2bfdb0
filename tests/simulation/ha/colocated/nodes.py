"""The brokers of one process: the one whose process it is, and the backups that it hosts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, maybeDeferred

from mqbroker.colocation import Colocation
from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.configuration import Configuration
from mqbroker.ha.replication.process_voters import ProcessVoters
from mqbroker.node.activation import Surroundings
from mqbroker.node.parts import StartError
from mqbroker.storage.files.filestore import FileStore
from tests.simulation.cluster.fabric import NodeNetwork
from tests.simulation.ha.colocated.plan import OFFSET
from tests.simulation.ha.node import HaNode
from tests.simulation.ha.plan import PORT
from tests.simulation.model import Ledger
from tests.simulation.world import Process

if TYPE_CHECKING:
    from tests.simulation.ha.colocated.groups import Side

LEFT_SECONDS = 0.05
"""After the end of a hosted broker: what its clients were told leaves by then."""


class HostNode(HaNode):
    """The broker whose process it is; it also does what :class:`mqbroker.app.Broker` does for those that it hosts."""

    group: Side  # type: ignore[assignment]
    colocation: Colocation
    neighbours: ProcessVoters
    """Those of the present process."""

    def __init__(self, group: Side, number: int, ledger: Ledger, store_class: type[FileStore]) -> None:
        super().__init__(group, number, ledger, store_class)  # type: ignore[arg-type]
        self.guests: list[HostedNode] = []
        """All that it has ever hosted."""
        self._thread_rng = self.generator("thread")

    def make_network(self, name: str) -> NodeNetwork:
        return self.group.colony.fabric.at(name)

    def configuration(self) -> Configuration:
        return self.group.colony.plan.configuration(self.group.side, self.plan)

    @property
    def companions(self) -> list[HaNode]:
        return [guest for guest in self.guests if guest.running]

    def surroundings(self, process: Process, network_answers: Callable[[], Deferred[bool]] | None) -> Surroundings:
        return replace(super().surroundings(process, network_answers), neighbours=self.neighbours)

    # --- life

    def _start(self) -> None:
        process = self.process
        self.neighbours = ProcessVoters()
        self.colocation = Colocation(
            BrokerSettings(self.configuration(), Path("/")),
            process,
            self.group.colony.files_of(self),
            self.make_runtime,
            partial(self._in_thread, process),
            partial(self._make_hosted, process),
            lambda number: self.group.colony.accept_in_process(self.name),
        )
        super()._start()

    def _start_life(self) -> None:
        super()._start_life()
        if self.process.alive:
            self.colocation.begun()

    def _in_thread(self, process: Process, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        done: Deferred[None] = Deferred()
        process.call_later(self._thread_rng.expovariate(1000), done.callback, None)
        return done.addCallback(lambda _: maybeDeferred(function, *arguments))

    def _make_hosted(
        self, process: Process, settings: BrokerSettings, failed: Callable[[str], object], stop_wanted: Callable[[], object]
    ) -> HostedBroker:
        node = self.group.colony.hosted(settings.configuration, self)
        if node not in self.guests:
            self.guests.append(node)
        return HostedBroker(node, settings, failed, stop_wanted)

    def became_active(self, process: Process) -> None:
        super().became_active(process)
        if process is self.process and process.alive:
            self.colocation.activated(self.server)

    def _end_life(self) -> Deferred[None]:
        ended: Deferred[None] = self.colocation.stop()
        return ended.addBoth(lambda _: self.life.stop())

    def _store_failed(self, process: Process, reason: str) -> None:
        super()._store_failed(process, reason)
        if process.alive:
            self.colocation.stop()

    def _does_not_start(self, error: StartError) -> None:
        self._lose_guests(False)
        super()._does_not_start(error)

    def _dies(self, machine: bool) -> None:
        super()._dies(machine)
        self._lose_guests(machine)

    def _lose_guests(self, machine: bool) -> None:
        for guest in self.guests:
            guest.host_ended(machine)

    def lose_power(self, downtime: float) -> None:
        """The machine stops in the middle of what a guest does on the disk."""
        self._dies(True)
        self.disk.crash()
        self.world.schedule(downtime, self.start)


class HostedNode(HaNode):
    """The backup of one broker in the process of another, whenever that hosts it."""

    group: Side  # type: ignore[assignment]

    def __init__(self, group: Side, number: int, ledger: Ledger, store_class: type[FileStore]) -> None:
        self.place = 1
        """Its number among the backups of the process."""
        self.broker: HostedBroker | None = None
        """The present one, or the last."""
        super().__init__(group, number, ledger, store_class)  # type: ignore[arg-type]

    @property
    def machine_name(self) -> str:
        return self.group.plan.hosts[self.number]

    @property
    def host(self) -> HostNode:
        return self.group.colony.host(self.machine_name)

    @property
    def skew(self) -> int:
        return self.host.process.wall_offset_ms

    @property
    def companions(self) -> list[HaNode]:
        return [each for each in (self.host, *self.host.companions) if each is not self]

    def make_network(self, name: str) -> NodeNetwork:
        return self.group.colony.fabric.at(self.machine_name, PORT + OFFSET)

    def configuration(self) -> Configuration:
        assert self.broker is not None
        return self.broker.settings.configuration

    def surroundings(self, process: Process, network_answers: Callable[[], Deferred[bool]] | None) -> Surroundings:
        return replace(super().surroundings(process, network_answers), neighbours=self.host.neighbours)

    # --- life

    def start(self) -> None:
        """Its host starts it, when it is asked."""

    def begin(self, broker: HostedBroker) -> None:
        """Raises StartError."""
        if self.running:
            self.world.violation(f"{self.name} is hosted twice in one process")
        self.broker = broker
        configuration = self.configuration()
        own = configuration.connectors[configuration.cluster_connections[0].connector_ref]
        self.place = (own.port - PORT) // OFFSET
        self.network = self.group.colony.fabric.at(own.host, own.port)
        self.group.colony.moves_in(self, configuration)
        self.starts += 1
        self.plan = self.host.plan
        self._new_process()
        self.running, self._refused = True, False
        try:
            self._start()
        except StartError as error:
            self.running = False
            self.process.end()
            self.disk.end_process()
            if not self._refused and not self.may_fail(str(error)):
                self.world.violation(f"{self.name} does not start: {error}")
            raise

    def stop(self, downtime: float) -> None:
        """It has given way, or management asks it to stop: its host ends it."""
        if self.running and not self.process.stopping:
            assert self.broker is not None
            self.broker.stop_wanted()

    def end(self) -> Deferred[None]:
        """Its host stops it in order."""
        process, done = self.process, Deferred[None]()
        self.world.note(f"{process.name} is asked to stop")
        process.stopping = True
        host = self.host.process
        self.life.stop().addCallback(lambda _: self.world.schedule(LEFT_SECONDS, self._ended, process, done, process=host))
        return done

    def _ended(self, process: Process, done: Deferred[None]) -> None:
        if process.alive:
            self._dies(False)
            self.disk.end_process()
        done.callback(None)

    def _store_failed(self, process: Process, reason: str) -> None:
        if not process.alive:
            return
        self.world.note(f"{process.name}: the store has failed: {reason}")
        if not self._refused and not self.may_fail(reason):
            self.world.violation(f"the store of {self.name} has failed on a healthy disk: {reason}")
        self._refused = False
        self._synced_at_failure = self.store.synced
        assert self.broker is not None
        self.broker.failed(reason)

    # --- ends

    def crash(self, machine: bool, downtime: float) -> None:
        self.host.crash(machine, downtime)

    def _power_lost(self) -> None:
        self.host.lose_power(self._downtime)

    def host_ended(self, machine: bool) -> None:
        """The process ends in which it runs, or has run."""
        if self.running:
            self._dies(machine)
        self.group.is_gone(self)
        if machine:
            # Later, because the machine may have stopped in the middle of one of its operations.
            self.world.schedule(0.0, self.disk.crash)
        else:
            self.disk.end_process()

    def heal(self) -> None:
        if self.starts:
            super().heal()

    def _disk_delay(self) -> float:
        return super()._disk_delay() * self.host.slow_disk


class HostedBroker:
    """Implements :class:`mqbroker.colocation.ProcessBroker`."""

    def __init__(
        self, node: HostedNode, settings: BrokerSettings, failed: Callable[[str], object], stop_wanted: Callable[[], object]
    ) -> None:
        self.settings = settings
        self.failed = failed
        self.stop_wanted = stop_wanted
        self._node = node

    @property
    def state(self) -> str:
        return self._node.life.state if self._node.broker is self else "stopped"

    @property
    def scales_down(self) -> bool:
        return self._node.serves and self._node.life.active.others.scales_down

    def start(self) -> None:
        self._node.begin(self)

    def stop(self) -> Deferred[None]:
        return self._node.end()

    def cut_short(self) -> None:
        if self._node.serves:
            self._node.life.active.others.cut_short()
