"""Changes of this broker on their way into the record, and the broker's part as the master or as one that follows it (decision 40)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.config.model.home_cluster import HomeCluster
from mqbroker.imq.links.requests import Peer, Peers
from mqbroker.imq.master import sync_machine as states
from mqbroker.imq.master.following import Follower
from mqbroker.imq.master.keeping import Keeping, OwnDefinitions
from mqbroker.imq.master.own_record import OwnRecord
from mqbroker.imq.master.reading import Reading
from mqbroker.imq.master.standing import Mastership, Standing
from mqbroker.imq.master.sync_machine import SyncData, make_sync_machine
from mqbroker.imq.master.telling import Telling
from mqbroker.imq.master.wishes import RETRY_SECONDS, Answered, Wishes
from mqbroker.imq.record.changes import Definition, definition_of, wish_of
from mqbroker.imq.record.codec import wish_from, wish_values
from mqbroker.messaging.administration.registrar import Change
from mqbroker.messaging.ports import Cancellable
from mqbroker.messaging.queues.definitions import QueueDefinition
from mqclient.errors import MQError
from mqclient.management import ManagementError

if TYPE_CHECKING:
    from mqbroker.server.server_state import ServerState

REMINDER_SECONDS = 10.0
"""After a change of another broker the master tells all how far the record is, in case that the broker could not."""

COMPLAINT_SECONDS = (60.0, 180.0)
"""When the log says that the master is away: first, and then again and again."""

ADMISSION = "change record"
"""The kind under which clients are not admitted."""

log = Logger(namespace="mqbroker.imq")


class Definitions(OwnDefinitions, Protocol):
    """The definitions of this broker (:class:`mqbroker.imq.definitions.application.Application`)."""

    def define(self, definition: Definition) -> None: ...

    def remove(self, key: str) -> None: ...

    def note(self, change: Change) -> None: ...


class Recording:
    """Puts the changes of this broker on record, and keeps the broker at what the record says.

    ``deploy`` is called when this broker has the record; ``leave`` ends a broker that may not join, and gets the reason.  ``table`` keeps
    the record of a cluster of peers, None = the master does.  Implements :class:`mqbroker.imq.definitions.registrar.Recorder`, and does the
    work of :mod:`mqbroker.imq.master.sync_machine`, for which the table is a master whose link is never lost.
    """

    def __init__(
        self,
        server: ServerState,
        cluster: HomeCluster,
        peers: Peers,
        application: Definitions,
        standing: Standing,
        mastership: Mastership | None,
        own: OwnRecord,
        deploy: Callable[[], object],
        leave: Callable[[str], object],
        table: Peer | None = None,
    ) -> None:
        self.place = cluster.address
        self.standing = standing
        self.mastership = mastership
        """None: no broker keeps a record."""
        self.state = states.starting.name
        self.keeping = Keeping(cluster.address, own, standing, application, lambda: self.master)
        self._server = server
        self._cluster = cluster
        self._peers = peers
        self._application = application
        self._deploy = deploy
        self._leave = leave
        self._table = table
        self._retry_seconds = RETRY_SECONDS if cluster.record is None else cluster.record.retry_s
        self._machine = make_sync_machine(SyncData(self))
        self._follower = Follower(server.node_id, cluster.address, standing, application, own, self)
        self._reading = Reading(self, self._follower)
        self._wishes = Wishes(self, self._follower, cluster, server.clock)
        self._telling = Telling(peers)
        self._reminding = False
        """Does the master tell of changes of others in a while?"""
        self._timers: set[Cancellable] = set()

    # --- life

    def start(self) -> None:
        """Clients may come: look for the record."""
        self._peers.linked.subscribe(self._linked)
        self._peers.unlinked.subscribe(self._unlinked)
        if not self.has_record:
            self._machine.go_unprotected()
        elif self.is_master:
            self._machine.keep_record()
        else:
            self._machine.follow()
            self.later(COMPLAINT_SECONDS[0], self._complain)
            if self._table is not None:
                self._machine.master_linked()
            for peer in list(self._peers.by_id.values()):
                self._linked(peer)

    def stop(self) -> None:
        self._machine.stop()
        while self._timers:
            self._timers.pop().cancel()

    @property
    def master(self) -> str | None:
        """The master (host:port); None without one."""
        return None if self.mastership is None else self.mastership.master

    @property
    def has_record(self) -> bool:
        """Does anybody keep a record of changes?"""
        return self.mastership is not None or self._table is not None

    @property
    def keeper(self) -> str:
        """The keeper of the record, for a reader."""
        return f"the master broker {self.master}" if self._table is None else self._table.name

    @property
    def absence(self) -> str:
        """Why this broker has not got the record, for a reader."""
        return f"{self.keeper} {'is not linked' if self._table is None else 'has not answered yet'}"

    @property
    def is_master(self) -> bool:
        return self.master == self.place

    @property
    def synchronised(self) -> bool:
        """Does this broker have the record, as far as it knows?"""
        return self.state in (states.running.name, states.running_master.name)

    @property
    def stopped(self) -> bool:
        """Has this broker left its cluster?"""
        return self.state == states.stopped.name

    def master_peer(self) -> Peer | None:
        """The master, while it is linked."""
        return None if self.master is None else self._peers.at(self.master)

    def keeper_peer(self) -> Peer | None:
        """The keeper of the record, while it can be asked."""
        return self._table or self.master_peer()

    def master_changed(self, master: str, change: str | None = None) -> None:
        """Another broker is the master from now on, or this one, by ``change``."""
        assert self.mastership is not None
        self.mastership.settle(master, change)
        if self.is_master:
            self._machine.keep_record()
            return
        self.keeping.end()
        self._machine.follow()
        peer = self.master_peer()
        if peer is not None:
            self._machine.master_linked()

    def restored(self) -> None:
        """The record of this master was replaced by another one, by an administrator."""
        assert self.mastership is not None
        self.mastership.settle(self.place)
        self.keeping.blocked = None
        self.open_record()
        self.release()

    # --- links

    def _linked(self, peer: Peer) -> None:
        if peer.name == self.master:
            self._machine.master_linked()
        elif self.standing.generation is not None and self.synchronised:
            self._telling.tell_one(peer, self.standing.generation, self.standing.position)

    def _unlinked(self, peer: Peer) -> None:
        self._telling.lost(peer)
        if peer.name == self.master:
            self._machine.master_lost()

    def _complain(self) -> None:
        if self.state in (states.waiting_master.name, states.syncing.name):
            log.warn("{text}", text=self._wishes.reason())
            self.later(COMPLAINT_SECONDS[1], self._complain)

    def later(self, seconds: float, function: Callable[..., object], *args: object) -> None:
        """Call ``function`` in a turn, unless the broker stops before."""

        def due() -> None:
            self._timers.discard(timer)
            self._server.turn.run(function, *args)

        timer = self._server.clock.call_later(seconds, due)
        self._timers.add(timer)

    def release(self) -> None:
        """This master takes changes again: those that have waited are recorded, and the others, whose changes wait too, are told."""
        self._wishes.release()
        self.tell_when_stored()

    # --- changes of this broker

    def record(self, change: Change, deployed: bool, answered: Answered) -> int | None:
        return self._wishes.record(wish_of(change), deployed, answered) if self.has_record else 0

    def made(self, change: Change, position: int) -> None:
        self._application.note(change)
        if not self.has_record:
            for peer in self._peers.by_id.values():
                peer.ask("change", self.place, wish_values(wish_of(change))).addErrback(self._not_told, peer)
            return
        if position == self.standing.position + 1:
            # Otherwise it was on record before, and its life begins elsewhere.
            if change.action == "create" and isinstance(change.definition, QueueDefinition):
                self.standing.made(change.definition.name, position)
            self.standing.note(position)
            if self.is_master:
                self.tell_when_stored()
        else:
            self.standing.keep()

    def read_on(self, done: Callable[[], object]) -> bool:
        return self._reading.read_on(done)

    def come_to(self, position: int, done: Callable[[MQError | None], None]) -> None:
        """Call ``done`` when everything on record up to ``position`` is done here, or with the reason why it cannot be."""
        self._follower.reach(position, done)

    def tell_when_stored(self) -> None:
        """Tell the others what this master has put on record, once it is durable."""
        self._server.store.when_synced(self._server.store.ticket(), self.tell, self.standing.position)

    def tell(self, position: int) -> None:
        """Tell the other members how far the record is."""
        if self.standing.generation is not None:
            self._telling.tell(self.standing.generation, position, self.master)

    # --- what other members tell

    def answer_record_has(self, generation: Any, position: Any) -> bool:
        """The record has come to ``position``, and may take changes again.  Returns whether everything up to there is done here."""
        if self.state == states.running.name:
            if generation != self.standing.generation or int(position) > self.standing.position:
                self._follower.behind(int(position) if generation == self.standing.generation else self.standing.position + 1)
            self._wishes.release()
        return self.standing.has(str(generation), int(position))

    def answer_follows(self) -> str | None:
        """The generation of the record that this broker follows."""
        return self.standing.generation

    def answer_change(self, place: Any, wish: Any) -> None:
        """A member of a cluster without a record has made a change."""
        if self.has_record:
            raise ManagementError(f"changes come from the change record of {self.keeper}")
        wanted = wish_from(wish)
        try:
            if wanted.kind.removes:
                self._application.remove(wanted.key)
            else:
                self._application.define(definition_of(wanted.key, wanted.form))
        except MQError as error:
            log.warn("{place} has made {name}, which cannot be made here: {reason}", place=place, name=wanted.name, reason=str(error))

    @property
    def answers(self) -> Mapping[str, Callable[..., Any]]:
        """The operations of other members that this part answers."""
        return {
            **self.keeping.answers,
            "append": self.answer_append,
            "recordHas": self.answer_record_has,
            "follows": self.answer_follows,
            "change": self.answer_change,
        }

    def answer_append(self, *parameters: Any) -> dict[str, Any]:
        """As :meth:`.Keeping.answer_append`."""
        answer = self.keeping.answer_append(*parameters)
        if answer.get("change") is not None and not self._reminding:
            self._reminding = True
            self.later(REMINDER_SECONDS, self._remind)
        return answer

    def _remind(self) -> None:
        """Tell all where the record is: whoever had to tell of the last changes may have gone."""
        self._reminding = False
        if self.is_master:
            self.tell(self.standing.position)

    # --- effects of the machine

    def entered(self, state: str) -> None:
        self.state = state

    def serve_all(self) -> None:
        self._server.admission.lift(ADMISSION)
        self._deploy()
        self._wishes.release()

    def serve_administrators(self) -> None:
        if not self._cluster.nowait_for_master:
            text = f"this broker has not got the change record of {self.keeper} yet, and serves administrators only"
            self._server.admission.restrict(ADMISSION, text)

    def open_record(self) -> None:
        self.unrecorded(self.keeping.begin())

    def ask_master(self) -> None:
        peer = self.keeper_peer()
        if peer is not None:
            self._follower.join(peer)
        self._wishes.release()

    def ask_later(self) -> None:
        self.later(self._retry_seconds, self._ask_again)

    def _ask_again(self) -> None:
        peer = self.keeper_peer()
        if peer is not None and self.state in (states.syncing.name, states.running.name):
            self._follower.join(peer)

    def forget_requests(self) -> None:
        self._follower.leave()
        self._wishes.forget_answers()

    def leave(self, reason: str) -> None:
        log.critical("{reason}", reason=reason)
        self._leave(reason)

    # --- events of the follower

    def record_taken(self) -> None:
        self._machine.record_taken()
        self._wishes.release()

    def record_failed(self, reason: str) -> None:
        log.warn("the change record of {keeper} cannot be read now: {reason}", keeper=self.keeper, reason=reason)
        self._machine.record_failed()

    def join_refused(self, reason: str) -> None:
        self._machine.join_refused(reason)

    def unrecorded(self, definitions: list[Definition]) -> None:
        for definition in definitions:
            change = Change("create", definition)

            def answered(error: MQError | None, position: int, change: Change = change) -> None:
                if error is not None:
                    log.warn("{name} is not put on record: {reason}", name=change.definition.name, reason=str(error))
                elif self.has_record:
                    self.made(change, position)

            if self.is_master:
                self.made(change, self.keeping.append(wish_of(change), True))
            else:
                self._wishes.later(wish_of(change), answered)

    @staticmethod
    def _not_told(failure: Failure, peer: Peer) -> None:
        log.warn("{peer} was not told of a change: {reason}", peer=peer.name, reason=failure.getErrorMessage())
