"""Members of an enhanced cluster: one that fails is taken over by another one, and comes back with nothing.

The judgement knows nothing of ticks and suspects.  A member whose sessions have got another owner is *former*, whatever it believes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from mqbroker.config.model.home_cluster import EnhancedCluster
from mqbroker.imq.delivery.remote_consumer import RemoteConsumer
from mqbroker.imq.record.codec import change_from
from mqbroker.messaging.message.message import Message
from mqbroker.node.activation import Surroundings, make_activation
from mqbroker.node.parts import Parts
from mqbroker.storage.sql.texts import given
from tests.simulation.cluster.ledger import ClusterLedger
from tests.simulation.database import tables
from tests.simulation.database.connections import ServerDatabase
from tests.simulation.database.member_ledger import MemberLedger, Stay
from tests.simulation.database.on_database import OnDatabase
from tests.simulation.database.server import Taking
from tests.simulation.imq.node import HomeNode
from tests.simulation.world import Process


class MemberNode(OnDatabase, HomeNode):
    """``last_trouble`` is when something kept this one alone from stamping its row."""

    peers: Sequence[MemberNode]
    last_trouble = -1000.0

    @property
    def settings(self) -> EnhancedCluster:
        assert self.cluster_plan.enhanced is not None  # type: ignore[attr-defined]
        return self.cluster_plan.enhanced  # type: ignore[attr-defined,no-any-return]

    def _parts(self, process: Process) -> Parts:
        nobody: Any = None
        outside = Surroundings(process, self._random_bytes, nobody, nobody, nobody, lambda function: process.call_later(0.0, function))
        activation = make_activation(self.configuration(), self.with_database(outside, process, max(1.0, self.settings.patience_s)))
        record = ServerDatabase(self.server_of_data, process, self)
        return replace(super()._parts(process), activation=activation, record=record)

    def untold(self) -> int:
        """The taker of a member that stays away answers for its homes."""
        return 0

    # --- life

    def start(self) -> None:
        self.last_trouble = self.world.now
        super().start()

    def go_away(self, machine: bool, in_order: bool) -> None:
        """Whoever has stopped in order is not taken over: its next start goes on."""
        if not self.process.stopping:
            super().go_away(machine, in_order)

    def freeze(self, seconds: float) -> None:
        self.last_trouble = max(self.last_trouble, self.world.now + seconds)
        super().freeze(seconds)

    def _dies(self, machine: bool) -> None:
        self.last_trouble = self.world.now
        super()._dies(machine)

    def became_active(self, process: Process) -> None:
        if self.node_id != self.store.node_id and self._was_taken(self.node_id):
            self.world.note(f"{self.name} has been taken over, and is another node now")
            self.node_id = ""
        super().became_active(process)
        process.life = self.server_of_data.turn_of(self.store.owner)
        self.last_trouble = self.world.now

    def _watch_losses(self) -> None:
        """Notice also what a home gives that does not know yet that its data have another owner."""
        super()._watch_losses()
        delivery, ledger, server = self.homes.delivery, self.cluster_ledger, self.server_of_data
        assert isinstance(ledger, MemberLedger)
        open_consumer = delivery.open_consumer

        def watched(remote: RemoteConsumer) -> None:
            take_in = remote._take_in

            def taking_in(message: Message, home_id: int, delivery_count: int) -> None:
                take_in(message, home_id, delivery_count)
                if not server.ask("SELECT 1 FROM {session} WHERE node_id = ? AND current = 1", (remote.home,)):
                    ledger.from_former.add(message.message_id)

            remote._take_in = taking_in  # type: ignore[method-assign]
            open_consumer(remote)

        delivery.open_consumer = watched  # type: ignore[method-assign]

    @property
    def stay(self) -> Stay | None:
        """Its data as far as clients can have them; None while it serves nobody."""
        store = self.store
        return Stay(store.session.number, frozenset(store._inheriting._known)) if self.serves and store._loaded else None

    @property
    def unread(self) -> set[str] | None:
        """The queues of which it has not read what the record says by now; None while it serves nobody."""
        if not self.serves:
            return None
        position = self.homes.shared.recording.standing.position
        rows = self.server_of_data.ask("SELECT value FROM {record} WHERE position > ?", (position,))
        return {change_from(given(value)).key.partition(":")[2] for (value,) in rows}

    @property
    def is_owner(self) -> bool:
        """Are there data of this broker?"""
        return bool(self.server_of_data.ask("SELECT 1 FROM {session} WHERE broker = ?", (self.name,)))

    def _was_taken(self, node_id: str) -> bool:
        """Has another member its data, or had them until nothing was left?"""
        server = self.server_of_data
        owners = server.ask(
            "SELECT broker FROM {session} WHERE node_id = ? UNION SELECT broker FROM {former} WHERE node_id = ?", (node_id,) * 2
        )
        return any(broker != self.name for (broker,) in owners)

    # --- what the checks look at

    @property
    def held_up_until(self) -> float:
        """An answer may depend on each of the members, and on whether one is being taken over."""
        now = self.world.now
        if not all(node.serves or node.away for node in self.peers):
            return now
        return max(super().held_up_until, *(node.last_trouble for node in self.peers))

    def first_waiting(self, queue_name: str, color: str) -> int:
        return 0

    @property
    def has_paged(self) -> bool:
        return any(node.starts > 1 for node in self.peers)

    def store_problems(self) -> Iterable[str]:
        return tables.left(self.server_of_data)


def note_taking(taking: Taking, nodes: Sequence[MemberNode], ledger: ClusterLedger) -> None:
    """A session has another owner: has it failed?"""
    assert isinstance(ledger, MemberLedger)
    for target in nodes:
        if not target.running or not hasattr(target, "store") or target.store.owner != taking.former or taking.broker == target.name:
            continue
        world, server, settings = target.world, target.server_of_data, target.settings
        ledger.lost_at.setdefault(server.turn_of(taking.former), world.now)
        world.note(f"{taking.broker} takes over {target.name}")
        quiet = world.now - max(target.last_trouble, server.last_uneven)
        if target.serves and not target.process.stopping and quiet > settings.patience_s + settings.monitor_interval + 2.0:
            world.violation(f"{taking.broker} takes over {target.process.name}, which has done nothing wrong for {quiet:.1f} s")
