"""The activation of a broker that shares its store: it waits for the primary lock, and looks after it while it is active."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from twisted.logger import Logger

from mqbroker.config.model.cluster import SharedStoreConfiguration
from mqbroker.ha.one_copy import OneCopy
from mqbroker.ha.shared_store.place import Found, SharedPlace
from mqbroker.ha.shared_store.waiting_machine import WaitingData, holding, make_waiting
from mqbroker.messaging.ports import Cancellable, Clock

if TYPE_CHECKING:
    from mqbroker.storage.disk.diskwriter import DiskWriter
    from mqbroker.storage.disk.filesystem import FileSystem

LOOK_SECONDS = 0.5
"""Between two attempts to get a lock."""

NOT_WANTED_SECONDS = 2.0
"""Between two looks at a store that was left on purpose, and at one that cannot be asked for."""

WATCH_SECONDS = 1.0
"""Between two looks at the lock that this broker holds, and at whether a primary wants the store."""

ASKED_SECONDS = 10.0
"""How long a primary that wants the store has to say so again.  One that lives does it with its next look, however slow its machine is."""

log = Logger(namespace="mqbroker.ha")

T = TypeVar("T")


class Candidate(Protocol):
    """The broker that wants to be active."""

    def granted(self) -> None:
        """The candidate may load the store, and serve."""

    def lost(self, reason: str) -> None:
        """The candidate may not, and writes nothing more."""

    def give_way(self, again: bool) -> None:
        """Another broker is to be active: stop in order, and then wait for the next turn if ``again``."""


class Presence(Protocol):
    """Shows a broker that waits to its cluster."""

    def show(self, node_id: str) -> None:
        """Announce this broker as a backup of the node; more calls change nothing."""

    def hide(self) -> None: ...

    def other_backup(self) -> bool:
        """While this broker is active: has another one announced itself as the backup of this node?"""


class PlaceFactory(Protocol):
    """Makes the place of one start of a broker."""

    def __call__(self, file_system: FileSystem, directory: str, lost: Callable[[str], object], /) -> SharedPlace:
        """``directory`` is the folder of the locks, where they are files.  ``lost`` may be called on the loop while the broker is active:
        the primary lock is another broker's, or may be."""


class SharedStoreActivation(OneCopy):
    """Implements :class:`mqbroker.node.activation.Activation`.

    ``timeout_ms`` is ``journal-lock-acquisition-timeout``, below 0 = no limit.
    """

    def __init__(
        self,
        policy: SharedStoreConfiguration,
        timeout_ms: int,
        clock: Clock,
        presence: Presence,
        make_place: PlaceFactory,
    ) -> None:
        self._policy = policy
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._presence = presence
        self._make_place = make_place
        self._backup = policy.backup
        self._machine = make_waiting(WaitingData(self))
        self._place: SharedPlace
        self._writer: DiskWriter
        self._candidate: Candidate
        self._timer: Cancellable | None = None
        self._deadline: Cancellable | None = None
        self._pause = LOOK_SECONDS
        self._era = object()
        """Tells the answers for this wait from late ones for another."""
        self._warned = False
        self._asked_until = 0.0
        """As long as a primary that was seen to want the folder is expected to say so again."""

    # --- the activation

    @property
    def role(self) -> str:
        return "backup" if self._backup else "primary"

    @property
    def state(self) -> str:
        """The present step of the broker towards the store."""
        return self._machine.state()

    def claim(self, file_system: FileSystem, directory: str, writer: DiskWriter) -> SharedPlace:
        self._writer = writer
        self._place = place = self._make_place(file_system, directory, lambda reason: self._lost(place, reason))
        return place

    def _lost(self, place: SharedPlace, reason: str) -> None:
        """A broker that is not active yet finds it out with its next look."""
        if place is self._place and self._machine.state() == holding.name:
            self._candidate.lost(reason)

    def seek(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self._era = object()
        self._warned = False
        if self._timeout_ms >= 0:
            self._deadline = self._clock.call_later(self._timeout_ms / 1000, self._too_late)
        if self._backup:
            log.info("AMQ221032: Waiting to become backup node")
            self._machine.wait_as_backup()
        else:
            log.info("AMQ221034: Waiting to obtain primary lock")
            self._machine.wait_as_primary()

    def hand_over(self) -> None:
        log.info("this broker stops, and another one goes on with its store")
        self._place.hands_over = True

    def hold_back(self) -> None:
        # A store that an active backup has left on purpose would wait for the primary, which may be gone, and not for this broker.
        self._place.hands_over = self._backup

    @property
    def gives_away(self) -> bool:
        return self._backup

    def retire(self) -> None:
        self._candidate.give_way(self._policy.restart_backup)

    def gave_away(self, complete: bool) -> None:
        if self._backup:
            # Backups keep off a store that has nothing more to give, until the primary has run again; what is left is tried again.
            self._place.hands_over = not complete

    def cease(self) -> None:
        self._machine.cease()

    def _too_late(self) -> None:
        self._deadline = None
        reason = f"the store was not free within journal-lock-acquisition-timeout, {self._timeout_ms} ms"
        log.error("AMQ224000: the broker cannot become active: {reason}", reason=reason)
        self._candidate.lost(reason)

    # --- the work of the states

    def queue(self) -> None:
        def asked(queued: bool) -> None:
            if queued:
                log.info("AMQ221033: ** got backup lock")
                log.info("AMQ221109: mqbroker Backup Server [{node}] started; waiting for primary to fail", node=self._place.node_id)
                self._machine.queued()
            else:
                self._refused(LOOK_SECONDS)

        self._run(self._place.queue, asked)

    def take(self) -> None:
        place = self._place
        self._run(place.take_as_backup if self._backup else place.take_as_primary, self._taken)

    def _taken(self, found: Found) -> None:
        if found is Found.TAKEN:
            log.info("AMQ221035: Primary Server Obtained primary lock, epoch {epoch}", epoch=self._place.epoch)
            self._machine.taken()
        else:
            self._refused(NOT_WANTED_SECONDS if found is Found.NOT_WANTED else LOOK_SECONDS)

    def _refused(self, pause: float) -> None:
        problem = self._place.problem
        if problem is not None and not self._warned:
            log.warn("the shared store cannot be asked for, this broker tries again: {problem}", problem=problem)
        self._warned = problem is not None
        self._pause = pause if problem is None else NOT_WANTED_SECONDS
        self._machine.refused()

    def show_backup(self) -> None:
        if self._place.node_id:
            self._presence.show(self._place.node_id)

    def look_later(self) -> None:
        self._timer = self._clock.call_later(self._pause, self._machine.look)

    def hold(self) -> None:
        self._stop_deadline()
        self._presence.hide()
        self._pause = WATCH_SECONDS
        self._asked_until = 0.0
        self.look_later()
        self._candidate.granted()

    def watch(self) -> None:
        gives_way = self._backup and self._policy.allow_failback and self._presence.other_backup()
        asked = self._clock.monotonic() < self._asked_until
        self._run(partial(self._place.watch, gives_way and not asked), partial(self._watched, gives_way, asked))

    def _watched(self, gives_way: bool, asked: bool, wanted: bool) -> None:
        """Give way to a primary that wants the store twice: one that has died since the first time would keep all backups off."""
        if wanted and gives_way and not asked:
            self._asked_until = self._clock.monotonic() + ASKED_SECONDS
        if wanted and gives_way and asked:
            log.info("AMQ221008: the primary is back: this backup gives way to it")
            self._place.hands_over = True
            self._candidate.give_way(self._policy.restart_backup)
        else:
            self._machine.watched()

    def want_no_more(self) -> None:
        self._run(self._place.want_no_more, lambda _: None)

    def rest(self) -> None:
        self._era = object()
        self._stop_deadline()
        self._presence.hide()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # --- the disk

    def _run(self, step: Callable[[], T], done: Callable[[T], object]) -> None:
        """Let the disk writer run ``step``, and go on with ``done`` if nothing has ended meanwhile."""
        results: list[T] = []
        self._writer.submit([lambda: results.append(step())], partial(self._ran, self._era, results, done))

    def _ran(self, era: object, results: list[T], done: Callable[[T], object], error: Exception | None) -> None:
        if era is not self._era:
            return
        if error is None:
            done(results[0])
        else:
            self._candidate.lost(f"{type(error).__name__}: {error}")
