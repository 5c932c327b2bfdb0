"""Copies of the disks of a pair that lose their power, as :mod:`tests.simulation.copies` makes them of one broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.storage.mirror.former import KEPT, PREFIX
from tests.simulation.copies import Copies, copy_in, load_copy, stored_messages
from tests.simulation.ha.pair import PairGroup
from tests.simulation.model import Copy
from tests.simulation.settings import STORE
from tests.simulation.workload import IDENTITY
from tests.support.disk import SimulatedDisk

if TYPE_CHECKING:
    from tests.simulation.ha.ledger import HaLedger
    from tests.simulation.ha.node import HaNode
    from tests.simulation.world import World


class PairCopies(Copies):
    """Looks at the disk of the active broker, and at that of its replica when that may take over."""

    def __init__(self, world: World, ledger: HaLedger, group: PairGroup) -> None:
        self._group = group
        super().__init__(world, ledger, group.fronts)
        group.on_active = self.look
        ledger.put_away = self._put_away

    def look(self) -> None:
        group = self._group
        if group.ledger.is_split:
            return
        replica = group.replica
        self._nodes = group.owners if replica is None or self._rng.random() < 0.5 else [replica]
        super().look()
        self._nodes = group.fronts

    def _put_away(self) -> set[Copy]:
        """The copies of messages in all that was put away."""
        return {copy for node in self._group.nodes for number in self._numbers(node) for copy in self._kept(node, number)}

    def _numbers(self, node: HaNode) -> list[str]:
        """Those that are kept for good; any other may be a part of a copy, which was of no use."""
        disk, folder = self._group.disk_of(node), STORE.journal_directory
        return [name for name in disk.list(folder) if name.startswith(PREFIX) and disk.exists(f"{folder}/{name}/{KEPT}")]

    def _kept(self, node: HaNode, name: str) -> set[Copy]:
        """The messages that an operator finds when he makes ``name`` the folder."""
        part = f"/{name}/"
        own = {path for path in self._group.disk_of(node).files() if path.endswith("/server.lock")}
        files = self._group.disk_of(node).files()
        disk = SimulatedDisk(self._rng)
        disk.replace({path.replace(part, "/"): content for path, content in files.items() if part in path or path in own})
        disk.crash()
        store, recovered = load_copy(node, disk, self._rng)
        names = {queue.queue_id: queue.name for queue in recovered.queues}
        found = [(message, queue_id) for message, queue_id, _, _ in stored_messages(store, recovered)]
        # A branch that only this broker knew is in doubt there.  Where a commit was answered, its messages have to be in their queues.
        unknown = {xid.to_wire() for xid in self._group.ledger.unknown_branches}
        in_doubt = [branch for branch in recovered.branches if branch.record.xid in unknown]
        found += [(message, each.queue_id) for branch in in_doubt for message, references in branch.messages for each in references]
        return {copy_in(message, names[each]) for message, each in found if each in names and message.property(IDENTITY) is not None}
