"""A broker of the simulation: the parts of the outside world are simulated, the rest is what production runs, its life included.

It lives on while its processes come and go: the disk and the network are the world's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Set
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.configuration import Configuration
from mqbroker.ha.proof.copy_record import RECORD_FILE
from mqbroker.messaging.administration.disk_guard import DiskSpace
from mqbroker.messaging.messaging import Messaging
from mqbroker.messaging.ports import Clock
from mqbroker.messaging.queues.queue import Queue
from mqbroker.node.life import BrokerLife
from mqbroker.node.parts import Parts, StartError
from mqbroker.server.server import Server
from mqbroker.storage.disk.claim import Claim
from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.disk.filesystem import FileSystem
from mqbroker.storage.errors import JournalDamagedError
from mqbroker.storage.files.filestore import FileStore
from mqbroker.storage.mirror.former import PREFIX
from mqclient.core.runtime import Runtime
from tests.simulation import accounts, damage
from tests.simulation.damage import Damage
from tests.simulation.groups import group_problems
from tests.simulation.listeners import Listeners
from tests.simulation.model import Copy, Ledger
from tests.simulation.network import Network
from tests.simulation.phases import Aim, watch_phases
from tests.simulation.policies import OWN_QUEUES, Plan
from tests.simulation.settings import DISK_SCAN_MS, DISK_SIZE, STORE, configuration, store_settings
from tests.simulation.world import Process, World
from tests.support.disk import SimulatedCrash, SimulatedDisk
from tests.support.diskwriter import WriterInTurns
from tests.support.parts import make_parts

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

COLOR = "color"
GUARD_SECONDS = 3 * DISK_SCAN_MS / 1000


class BrokerNode:
    """``slow_disk`` multiplies the time that the disk takes; ``damage_due``: before the next start a bit of its files flips.

    ``name`` tells brokers of one world apart: each has chance of its own.
    """

    def __init__(
        self, world: World, network: Network, ledger: Ledger, store_class: type[FileStore] = FileStore, name: str = "broker"
    ) -> None:
        self.world = world
        self.name = name
        self.network = network
        self.ledger = ledger
        self.plan = Plan.draw(self.generator("plan"))
        self.store_settings = store_settings(self.plan)
        self._others_bytes = 0
        """What other programs have on the disk, beyond what is always there."""
        self._others_changed = 0.0
        self.damage_due = False
        self.was_damaged = False
        self.damage: Damage | None = None
        """What was done to the files, and was not recovered yet."""
        self.damage_seen = False
        """The broker has ended because it read a damaged page."""
        self.slow_disk = 1.0
        self.aims: list[Aim] = []
        self.trouble: list[str] = []
        """What the next starts meet, in order: "refused" (the port is taken) or "stop" (somebody asks for it before the start is over)."""
        self._refused = False
        self.disk = self.make_disk()
        self.starts = 0
        self.messages_recovered = 0
        self.node_id = ""
        self.process: Process
        self.life: BrokerLife
        self.store: FileStore
        self.running = False
        self.store_class = store_class
        self._clock_rng = self.generator("broker clock")
        self._disk_rng = self.generator("disk writer")
        self._entropy = self.generator("broker entropy")
        self._downtime = 0.5
        self._failures_known = 0
        """Refusals of the disk that are accounted for."""
        self._synced_at_failure: int | None = None

    def generator(self, purpose: str) -> random.Random:
        return self.world.generator(purpose if self.name == "broker" else f"{self.name} {purpose}")

    # --- the present process

    @property
    def serves(self) -> bool:
        """Does it serve clients?"""
        return self.running

    @property
    def held_up_until(self) -> float:
        """Before that it may have left calls without an answer."""
        return self.process.paused_until

    @property
    def messaging(self) -> Messaging:
        return self.life.active.messaging

    @property
    def server(self) -> Server:
        return self.life.active.server

    # --- start

    def start(self) -> None:
        """A new process on the same disk.  A crash while it starts is followed by another start."""
        if self.running:
            return
        self.starts += 1
        if self.starts > 1:
            self.plan = self.plan.later(self.generator(f"settings of life {self.starts}"))
        if self.damage is not None and not self.damage.still_there:
            self.damage = None
        if self.damage_seen and self.damage is not None:
            self._recover()
        self.damage_seen = False
        if self.damage_due and self.damage is None:
            self.damage_due = False
            self.damage = damage.inflict(self.world, self.disk, STORE)
        self._new_process()
        self._start_process(self._start)

    def _new_process(self) -> None:
        self.store_settings = store_settings(self.plan)
        self.ledger.counts.settings(self.plan)
        self.ledger.id_cache = min(self.ledger.id_cache, self.plan.id_cache)
        self._failures_known = self.disk.failures
        self._synced_at_failure = None
        self.process = self.make_process()
        self.ledger.clock_is_ahead(self.name, self.process.wall_offset_ms, self.world.now)
        self.process.life = self.starts

    def _start_process(self, start: Callable[[], None]) -> None:
        self.running = True
        self._refused = False
        found = self.disk.files().keys()
        try:
            start()
        except SimulatedCrash:
            return
        except StartError as error:
            if self._refused:
                self._start_later(found)
            else:
                self._does_not_start(error)
        else:
            if self.damage is not None and not self.damage.late:
                self.world.violation(f"the broker starts although {self.damage}")

    def make_disk(self) -> SimulatedDisk:
        disk = SimulatedDisk(self.generator("disk"))
        disk.on_crash = self._power_lost
        return disk

    def make_writer(self, in_turn: Callable[..., object]) -> WriterInTurns:
        return WriterInTurns(in_turn, self.process, self._disk_delay)

    def make_process(self) -> Process:
        return Process(self.world, f"{self.name} life {self.starts}", self._clock_rng)

    def configuration(self) -> Configuration:
        return configuration(self.plan)

    def make_runtime(self) -> Runtime:
        raise NotImplementedError("this broker is alone")

    def meet_trouble(self) -> None:
        """A start has come to its listeners."""
        trouble = self.trouble.pop(0) if self.trouble else ""
        if trouble == "refused":
            self._refused = True
            raise StartError("the port is taken")
        if trouble == "stop":
            self.stop(0.1)

    def _start_later(self, found: Collection[str]) -> None:
        """The port was taken: the folder is as it was, and another start follows, of the same process or of a new one.

        A start that has removed files of pages keeps what it has written: the record that they are gone has to stay.  A disk that does not
        remove a file ends the removal.
        """
        process = self.process
        self.world.note(f"{process.name} does not get its port")
        self.running = False
        new = [path for path in self.disk.files() if path not in found and not path.endswith(("server.lock", RECORD_FILE))]
        if new and not self._keeps_what_it_began(new):
            self.world.violation(f"a start that was refused leaves {new}")
        if self._disk_rng.random() < 0.5:
            self.world.schedule(0.2, self._start_again, process)
            return
        process.end()
        self.disk.end_process()
        self.world.schedule(0.2, self.start)

    def _keeps_what_it_began(self, new: Collection[str]) -> bool:
        return self.store._begun is None or self.store._begun.stay or not self.disk.not_removed.isdisjoint(new)

    def _start_again(self, process: Process) -> None:
        if process is self.process and process.alive and not self.running:
            self._start_process(self._start_life)

    def _does_not_start(self, error: StartError) -> None:
        """Where the disk or an operator can help, that happens, and the broker is started again."""
        self.world.note(f"{self.process.name} does not start: {error}")
        self.running = False
        self.process.end()
        self.disk.end_process()
        if isinstance(error.__cause__, JournalDamagedError) and self.damage is not None:
            self.damage.check(error.__cause__)
            self._recover()
        elif not self.may_fail(str(error)):
            self.world.violation(f"the broker does not start: {error}")
        self.world.schedule(0.3, self.start)

    def _recover(self) -> None:
        """The operator has the journal recovered."""
        assert self.damage is not None
        found, self.damage = self.damage, None
        self.was_damaged = True
        found.recover(self.ledger)

    def have_damage_looked_for(self) -> None:
        """The operator has the journal recovered although no damage was seen yet.  From now on nothing is damaged any more."""
        self.damage_due = False
        if self.damage is not None:
            self.damage_seen = True
            self.crash(False, 0.1)

    def _start(self) -> None:
        process = self.process
        settings = BrokerSettings(self.configuration(), Path("/"))
        self.life = BrokerLife(
            settings,
            self._parts(process),
            partial(self._store_failed, process),
            partial(self.stop, 0.2),
            partial(self.became_active, process),
        )
        self._start_life()

    def _start_life(self) -> None:
        self.life.start()

    def became_active(self, process: Process) -> None:
        """The start is over: clients are served."""
        self.messages_recovered = self.life.active.messages_recovered
        if self.node_id not in ("", self.store.node_id):
            self.world.violation(f"the node id was {self.node_id} and is {self.store.node_id} now")
        self.node_id = self.store.node_id
        watch_phases(self)
        self.world.note(f"{process.name} has started with {self.messages_recovered} messages")

    def _parts(self, process: Process) -> Parts:
        return make_parts(
            process,
            self.disk,
            make_writer=self.make_writer,
            entropy=self._random_bytes,
            random=self._entropy.random,
            disk_space=lambda folders: [DiskSpace("/data", self._free_space(), DISK_SIZE)],
            make_runtime=self.make_runtime,
            make_store=self._make_store,
            make_listeners=lambda server: Listeners(server, self, process),
        )

    def _make_store(
        self, settings: BrokerSettings, parts: Parts, new_writer: Callable[[], DiskWriter], failed: Callable[[str], object]
    ) -> FileStore:
        writer = new_writer()
        files = parts.activation.files(parts.file_system, self.store_settings)
        claim = parts.activation.claim(parts.file_system, self.store_settings.node_directory, writer)
        self.store = self.new_store(files, writer, parts.clock, parts.entropy, failed, claim)
        return self.store

    def new_store(
        self,
        file_system: FileSystem,
        writer: DiskWriter,
        clock: Clock,
        entropy: Callable[[int], bytes],
        failed: Callable[[str], object],
        claim: Claim | None,
    ) -> FileStore:
        return self.store_class(self.store_settings, file_system, writer, clock, entropy, failed, claim)

    # --- ends

    def crash(self, machine: bool, downtime: float) -> None:
        """The process is killed, or its machine stops.  It starts again ``downtime`` seconds later."""
        if not self.running:
            return
        self._dies(machine)
        if machine:
            self.disk.crash()
        else:
            self.disk.end_process()
        self.world.schedule(downtime, self.start)

    def crash_in_write(self, kind: str, operations: int, downtime: float) -> None:
        """The machine stops in the middle of a disk operation of this kind, when so many more are done."""
        self._downtime = downtime
        self.disk.crash_in = kind
        self.disk.crash_after = operations

    def stop(self, downtime: float) -> None:
        """An orderly end, as :meth:`mqbroker.app.Broker.stop` does it, and a start later."""
        if not self.running:
            return
        process = self.process
        self.world.note(f"{process.name} is asked to stop")
        process.stopping = True
        self._end_life().addCallback(lambda _: self._stopped(process, downtime))

    def _end_life(self) -> Deferred[None]:
        return self.life.stop()

    def freeze(self, seconds: float) -> None:
        """The process stands still, with all that it has."""
        self.process.pause(seconds)

    def step_clock(self, milliseconds: int) -> None:
        """The wall clock of the machine is set."""
        self.process.wall_offset_ms += milliseconds
        self.ledger.clock_is_ahead(self.name, self.process.wall_offset_ms, self.world.now)

    def heal(self) -> None:
        """No more faults from now on."""
        self.slow_disk = 1.0
        self._others_bytes = 0
        self.step_clock(-self.process.wall_offset_ms)
        self.aims.clear()
        self.disk.capacity = None
        self.disk.forget_failures()

    def _stopped(self, process: Process, downtime: float) -> None:
        if process is self.process and process.alive:
            # What clients were told leaves with the end of the turn; then the process ends.
            self.world.schedule(0.05, self._exit, process, downtime)

    def _exit(self, process: Process, downtime: float) -> None:
        if process.alive:
            self._dies(machine=False)
            self.disk.end_process()
            self.world.schedule(downtime, self.start)

    def _power_lost(self) -> None:
        """The disk has stopped in the middle of an operation: what the process does from here on never happened."""
        self._dies(machine=True)
        self.world.schedule(0.0, self.disk.crash)
        self.world.schedule(self._downtime, self.start)

    def _dies(self, machine: bool) -> None:
        process = self.process
        self.world.note(f"{process.name} {'loses its machine' if machine else 'ends'}")
        if self._synced_at_failure is not None and self.store.synced != self._synced_at_failure:
            self.world.violation("the store took something for durable after its disk had failed")
        self.running = False
        process.end()
        self.network.broker_died(process, machine)

    # --- the disk fills

    def fill_disk(self, seconds: float) -> None:
        """Other programs leave little of the disk for a while: the broker's guard must see it, and see that there is room again."""
        self._leave_to_others(DISK_SIZE * 19 // 20)
        self.world.schedule(seconds, self._leave_to_others, 0)

    def _leave_to_others(self, size: int) -> None:
        self._others_bytes = size
        self._others_changed = self.world.now
        self.world.schedule(GUARD_SECONDS, self._check_guard, self.process, self.world.now)

    def _check_guard(self, process: Process, since: float) -> None:
        """Has the broker noticed, if nothing has changed since?"""
        undisturbed = since == self._others_changed and process is self.process and process.paused_until < since
        if not undisturbed or not self.serves or process.stopping or self.disk.was_limited:
            return
        full = self._others_bytes > 0
        if self.messaging.core.global_memory.disk_full != full:
            self.world.violation(f"the disk is {'nearly full' if full else 'not full any more'}, and the broker has not noticed")

    def _free_space(self) -> int:
        return min(self.disk.free_space("/data"), DISK_SIZE - self.disk.used - self._others_bytes)

    # --- what the layers below are given

    def _disk_delay(self) -> float:
        return self._disk_rng.expovariate(1000) * self.slow_disk

    def _random_bytes(self, size: int) -> bytes:
        return self._entropy.randbytes(size)

    def _store_failed(self, process: Process, reason: str) -> None:
        """As the application does it: the process ends in a moment, and is started again by whoever watches it."""
        if not process.alive:
            return
        if self._refused:
            # A start that was granted later does not get its port.
            self._refused = False
            self.world.note(f"{process.name} does not get its port")
            process.stopping = True
            self.world.schedule(0.0, self._exit, process, 0.2)
            return
        self.world.note(f"{process.name}: the store has failed: {reason}")
        if self.damage is not None and self.damage.late and f"{self.damage.path}: damaged at" in reason:
            self.damage_seen = True
        elif not self.may_fail(reason):
            self.world.violation(f"the store has failed on a healthy disk: {reason}")
        self._synced_at_failure = self.store.synced
        process.stopping = True
        self.world.schedule(self._disk_rng.uniform(0, 0.3), self._give_up, process)

    def may_fail(self, reason: str) -> bool:
        """Is there a cause for which the broker may lose its store?"""
        return self.disk.failures != self._failures_known

    def _give_up(self, process: Process) -> None:
        self._exit(process, 0.2)
        if self._disk_rng.random() < 0.5:
            self.disk.drop_caches()

    # --- what the checks look at

    @property
    def moving(self) -> Collection[Copy]:
        """Copies that it has sent to the broker to which it gives everything; they may be on its disk still."""
        return ()

    @property
    def in_damage(self) -> bool:
        """Is something on the disk damaged, and the operator has not acted yet?"""
        return self.damage is not None

    @property
    def nothing_scheduled(self) -> bool:
        return self.serves and not any(queue.scheduled.count for queue in self.messaging.core.queues.values())

    @property
    def paged(self) -> int:
        """How many messages wait in pages."""
        return sum(queue.paged for queue in self.messaging.core.queues.values())

    @property
    def has_paged(self) -> bool:
        """May any message have been in pages, whatever the settings of its address?"""
        return False

    def idle_problems(self) -> list[str]:
        """What is not back to nothing although no client is connected and every queue is empty."""
        found = []
        core = self.messaging.core
        for name, queue in core.queues.items():
            counts = (queue.message_count, queue.references.count, queue.delivering, queue.scheduled.count, queue.consumer_count)
            if any(counts) and not self.is_own(queue):
                found.append(f"queue {name}: messages, waiting, delivering, scheduled, consumers are {counts}")
            elif not self.is_own(queue):
                found += accounts.queue_problems(queue)
        for name, address in core.addresses.items():
            if address.memory.size or address.memory.messages or address.memory.waiting:
                found.append(f"address {name} accounts for {address.memory.size} bytes, {address.memory.messages} messages")
        if core.global_memory.size or core.global_memory.messages:
            found.append(f"all addresses account for {core.global_memory.size} bytes, {core.global_memory.messages} messages")
        found += [f"queue {name} is left, which nobody uses" for name in OWN_QUEUES if name in core.queues]
        found += [
            f"temporary queue {name} is left"
            for name, queue in core.queues.items()
            if queue.definition.temporary and not self.is_own(queue)
        ]
        found += self.connection_problems()
        # The next start tries again to remove what could not be removed.
        kept = self.disk.not_removed | self.looked_at
        directory = STORE.large_messages_directory
        files = [name for name in self.disk.list(directory) if f"{directory}/{name}" not in kept and not name.startswith(PREFIX)]
        if files:
            found.append(f"bodies of large messages are left: {files}")
        pages = [path for path in self.disk.files() if path.startswith(f"{STORE.paging_directory}/") and path.endswith(".page")]
        pages = [path for path in pages if path not in kept and f"/{PREFIX}" not in path]
        if pages:
            found.append(f"pages are left: {pages}")
        if self.store.backlog:
            found.append(f"{self.store.backlog} bytes wait for the disk")
        return [*found, *accounts.messaging_problems(self.messaging), *self.store_problems()]

    @property
    def looked_at(self) -> Set[str]:
        """Files of bodies that are kept for a while although no message needs them."""
        return frozenset()

    def store_problems(self) -> Iterable[str]:
        """What a store keeps that nobody needs."""
        return accounts.store_problems(self.store)

    def group_problems(self) -> list[str]:
        """What is wrong with message groups just now."""
        queues = self.messaging.core.queues.values() if self.serves else ()
        return [problem for queue in queues if queue.groups is not None for problem in group_problems(queue)]

    def first_waiting(self, queue_name: str, color: str) -> int:
        """The id of the first message that waits in memory for a consumer, of this color ("" = of any); 0 = there is none."""
        queue = self.messaging.core.queues.get(queue_name) if self.serves and not self.process.stopping else None
        if queue is None or queue.paused or queue.address.paused:
            return 0
        waiting = (reference.message for reference in queue.references)
        return next((each.message_id for each in waiting if color in ("", each.property(COLOR))), 0)

    def is_own(self, queue: Queue) -> bool:
        """Does the queue serve the broker itself, so that it may have consumers?"""
        return False

    def connection_problems(self) -> list[str]:
        if self.server.connections or self.server.sessions.by_name:
            return [f"{len(self.server.connections)} connections and {len(self.server.sessions.by_name)} sessions are left"]
        return []
