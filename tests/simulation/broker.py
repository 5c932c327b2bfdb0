"""A broker of the simulation: the production classes, assembled as :mod:`mqbroker.app` does it, without sockets and threads.

It lives on while its processes come and go: the disk and the network are the world's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred, succeed

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.administration.disk_guard import DiskSpace
from mqbroker.messaging.core import MessagingOptions
from mqbroker.messaging.messaging import Messaging
from mqbroker.messaging.ports import Recovered
from mqbroker.messaging.queues.queue import Queue
from mqbroker.server.management.address_control import AddressControl
from mqbroker.server.management.broker_control import BrokerControl, BrokerStatus
from mqbroker.server.management.divert_control import DivertControl
from mqbroker.server.management.queue_control import QueueControl
from mqbroker.server.management.registry import Registry
from mqbroker.server.management.service import ManagementService
from mqbroker.server.security.audit import AuditLog
from mqbroker.server.security.security import SecurityManager
from mqbroker.server.server import Server
from mqbroker.storage.disk.diskwriter import Done, Step
from mqbroker.storage.errors import JournalDamagedError, StorageError
from mqbroker.storage.files.filestore import FileStore
from tests.simulation import accounts, damage
from tests.simulation.damage import Damage
from tests.simulation.disk import SimulatedCrash, SimulatedDisk
from tests.simulation.diskwriter import SimulatedDiskWriter
from tests.simulation.model import Ledger
from tests.simulation.network import BrokerTransport, Network
from tests.simulation.phases import Aim, watch_phases
from tests.simulation.policies import OWN_QUEUES, Plan
from tests.simulation.settings import DISK_SCAN_MS, DISK_SIZE, STORE, configuration, store_settings
from tests.simulation.world import Process, World

COLOR = "color"
GUARD_SECONDS = 3 * DISK_SCAN_MS / 1000


class _Writer(SimulatedDiskWriter):
    """Reports to the broker within a turn, as the thread of a real one does."""

    def __init__(self, node: BrokerNode, process: Process, delay: Callable[[], float]) -> None:
        super().__init__(process, delay)
        self._node = node

    def submit(self, steps: Sequence[Step], done: Done) -> None:
        super().submit(steps, lambda error: self._node.in_turn(done, error))


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
        self.disk = SimulatedDisk(self.generator("disk"))
        self.disk.on_crash = self._power_lost
        self.starts = 0
        self.messages_recovered = 0
        self.node_id = ""
        self.process: Process
        self.store: FileStore
        self.messaging: Messaging
        self.server: Server
        self.running = False
        self.store_class = store_class
        self._clock_rng = self.generator("broker clock")
        self._disk_rng = self.generator("disk writer")
        self._entropy = self.generator("broker entropy")
        self._turn_ready = False
        self._downtime = 0.5
        self._failures_known = 0
        """Refusals of the disk that are accounted for."""
        self._synced_at_failure: int | None = None

    def generator(self, purpose: str) -> random.Random:
        return self.world.generator(purpose if self.name == "broker" else f"{self.name} {purpose}")

    # --- start

    def start(self) -> None:
        """A new process on the same disk.  A crash while it starts is followed by another start."""
        if self.running:
            return
        self.starts += 1
        if self.starts > 1:
            self.plan = self.plan.later(self.generator(f"settings of life {self.starts}"))
        self.store_settings = store_settings(self.plan)
        self.ledger.counts.settings(self.plan)
        self._turn_ready = False
        self._failures_known = self.disk.failures
        self._synced_at_failure = None
        if self.damage is not None and not self.damage.still_there:
            self.damage = None
        if self.damage_seen and self.damage is not None:
            self._recover()
        self.damage_seen = False
        if self.damage_due and self.damage is None:
            self.damage_due = False
            self.damage = damage.inflict(self.world, self.disk, STORE)
        self.process = self.make_process()
        self.ledger.clock_is_ahead(self.name, self.process.wall_offset_ms, self.world.now)
        self.process.life = self.starts
        self.running = True
        try:
            self._start()
        except SimulatedCrash:
            return
        except (StorageError, OSError) as error:
            self._does_not_start(error)
        else:
            if self.damage is not None and not self.damage.late:
                self.world.violation(f"the broker starts although {self.damage}")

    def make_process(self) -> Process:
        return Process(self.world, f"{self.name} life {self.starts}", self._clock_rng)

    def configuration(self) -> Configuration:
        return configuration(self.plan)

    def join_others(self, recovered: Recovered) -> None:
        """The broker is there: whoever it works with may be looked for."""

    def _does_not_start(self, error: Exception) -> None:
        """Where the disk or an operator can help, that happens, and the broker is started again."""
        self.world.note(f"{self.process.name} does not start: {error}")
        self.running = False
        self.process.end()
        self.disk.end_process()
        if isinstance(error, JournalDamagedError) and self.damage is not None:
            self.damage.check(error)
            self._recover()
        elif self.disk.failures == self._failures_known:
            self.world.violation(f"the broker does not start: {error}")
        self.world.schedule(0.3, self.start)

    def _recover(self) -> None:
        """The operator has the journal recovered."""
        assert self.damage is not None
        found, self.damage = self.damage, None
        self.was_damaged = True
        found.recover(self.ledger)

    def have_damage_looked_for(self) -> None:
        """The operator has the journal recovered although no damage was seen yet."""
        if self.damage is not None:
            self.damage_seen = True
            self.crash(False, 0.1)

    def _start(self) -> None:
        process = self.process
        writer = _Writer(self, process, self._disk_delay)
        self.store = self.store_class(self.store_settings, self.disk, writer, process, self._random_bytes, self._store_failed)
        self.store.open()
        recovered = self.store.load()
        self.messages_recovered = len(recovered.messages)
        if self.node_id not in ("", self.store.node_id):
            self.world.violation(f"the node id was {self.node_id} and is {self.store.node_id} now")
        self.node_id = self.store.node_id
        settings = self.configuration()
        self.messaging = Messaging(
            self.store,
            process,
            settings.address_settings_repository(),
            settings.wildcards,
            _options(settings),
            self._entropy.random,
            disk_space=lambda: [DiskSpace("/data", self._free_space(), DISK_SIZE)],
        )
        self.store.write_at_end_of(self.messaging.core.turn)
        self.messaging.restore(recovered)
        self.messaging.core.apply_settings()
        for problem in self.messaging.deploy(settings.addresses):
            self.world.violation(f"not deployed: {problem}")
        self.messaging.deploy_diverts(settings.diverts)
        security = SecurityManager(settings, None, _at_once, process, _no_file)
        self.server = Server(settings, self.store, process, self.messaging, security, lambda: f"{self._entropy.getrandbits(32):08x}")
        self._manage()
        watch_phases(self)
        self._turn_ready = True
        self.messaging.start()
        self.server.start()
        self.network.listen(process, self._accept)
        self.join_others(recovered)
        self.world.note(f"{process.name} has started with {self.messages_recovered} messages")

    def _manage(self) -> None:
        """As :meth:`mqbroker.app.Broker._manage`, without acceptors."""
        server, core, registry = self.server, self.messaging.core, Registry()
        registry.register("broker", BrokerControl(server, BrokerStatus("simulated", lambda: 0.0, list), None))
        registry.find_by("queue", lambda name: QueueControl(server, core.queues[name]) if name in core.queues else None)
        diverts = self.messaging.diverts
        registry.find_by("divert", lambda name: None if (divert := diverts.find(name)) is None else DivertControl(divert))
        registry.find_by("address", lambda name: AddressControl(server, core.addresses[name]) if name in core.addresses else None)
        server.management = ManagementService(server, registry, AuditLog()).handle

    def _accept(self, transport: BrokerTransport, remote: str) -> Any:
        return self.server.connect(transport, remote)

    def in_turn(self, function: Callable[..., object], *args: Any) -> None:
        if self._turn_ready:
            self.messaging.core.turn.run(function, *args)
        else:
            function(*args)

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
        self.network.stop_listening()
        self.end_services(process, downtime)

    def end_services(self, process: Process, downtime: float) -> None:
        process.stopping = True
        self.server.stop()
        self.messaging.stop()
        self.store.stop(lambda: self._stopped(process, downtime))

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
        if not undisturbed or not self.running or process.stopping or self.disk.was_limited:
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

    def _store_failed(self, reason: str) -> None:
        """As the application does it: the process ends in a moment, and is started again by whoever watches it."""
        process = self.process
        if not process.alive:
            return
        self.world.note(f"{process.name}: the store has failed: {reason}")
        if self.damage is not None and self.damage.late and f"{self.damage.path}: damaged at" in reason:
            self.damage_seen = True
        elif self.disk.failures == self._failures_known:
            self.world.violation(f"the store has failed on a healthy disk: {reason}")
        self._synced_at_failure = self.store.synced
        process.call_later(self._disk_rng.uniform(0, 0.3), self._give_up, process)

    def _give_up(self, process: Process) -> None:
        self.stop(0.2)
        if self._disk_rng.random() < 0.5:
            self.disk.drop_caches()

    # --- what the checks look at

    @property
    def in_damage(self) -> bool:
        """Is something on the disk damaged, and the operator has not acted yet?"""
        return self.damage is not None

    @property
    def nothing_scheduled(self) -> bool:
        return self.running and not any(queue.scheduled.count for queue in self.messaging.core.queues.values())

    @property
    def paged(self) -> int:
        """How many messages wait in pages."""
        return sum(queue.paged for queue in self.messaging.core.queues.values())

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
        kept = self.disk.not_removed
        directory = STORE.large_messages_directory
        files = [name for name in self.disk.list(directory) if f"{directory}/{name}" not in kept]
        if files:
            found.append(f"bodies of large messages are left: {files}")
        pages = [path for path in self.disk.files() if path.startswith(f"{STORE.paging_directory}/") and path.endswith(".page")]
        pages = [path for path in pages if path not in kept]
        if pages:
            found.append(f"pages are left: {pages}")
        if self.store.backlog:
            found.append(f"{self.store.backlog} bytes wait for the disk")
        return [*found, *accounts.messaging_problems(self.messaging), *accounts.store_problems(self.store)]

    def group_problems(self) -> list[str]:
        """What is wrong with message groups just now."""
        queues = self.messaging.core.queues.values() if self.running else ()
        return [problem for queue in queues if queue.groups is not None for problem in accounts.group_problems(queue)]

    def first_waiting(self, queue_name: str, color: str) -> int:
        """The id of the first message that waits in memory for a consumer, of this color ("" = of any); 0 = there is none."""
        queue = self.messaging.core.queues.get(queue_name) if self.running else None
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


def _options(settings: Configuration) -> MessagingOptions:
    names = [name for name in MessagingOptions.__slots__ if hasattr(settings, name)]
    return MessagingOptions(**{name: getattr(settings, name) for name in names})


def _at_once(function: Callable[..., Any], *args: Any) -> Deferred[Any]:
    return succeed(function(*args))


def _no_file(path: str) -> bytes:
    raise FileNotFoundError(path)
