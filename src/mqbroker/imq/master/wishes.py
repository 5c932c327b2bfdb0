"""The wishes of this broker for the change record, until they are answered [B8.3]."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.imq.links.requests import Peer
from mqbroker.imq.master import sync_machine as states
from mqbroker.imq.master.following import Follower
from mqbroker.imq.master.keeping import Keeping
from mqbroker.imq.master.standing import Standing
from mqbroker.imq.record.changes import Wish
from mqbroker.imq.record.codec import change_of, wish_values
from mqclient.errors import IllegalStateError, MQError, error_for_code
from mqclient.management import ManagementError

if TYPE_CHECKING:
    from mqbroker.config.model.home_cluster import HomeCluster
    from mqbroker.messaging.ports import Clock

RETRY_SECONDS = 5.0
"""Between two questions to a master that cannot answer now, and does not say before that it can."""

log = Logger(namespace="mqbroker.imq")

Answered = Callable[[MQError | None, int], None]


class WishOwner(Protocol):
    """The part of this broker that knows its master (:class:`mqbroker.imq.master.recording.Recording`)."""

    place: str
    standing: Standing
    keeping: Keeping
    state: str
    """The state of :mod:`mqbroker.imq.master.sync_machine`."""

    @property
    def keeper(self) -> str:
        """The keeper of the record, for a reader."""

    @property
    def absence(self) -> str:
        """Why the record is not there, for a reader."""

    def keeper_peer(self) -> Peer | None:
        """The keeper of the record, while it can be asked."""

    def later(self, seconds: float, function: Callable[..., object], *args: object) -> None:
        """Call ``function`` in a turn, unless the broker stops before."""

    def tell(self, position: int) -> None:
        """Tell the other members how far the record is."""

    def tell_when_stored(self) -> None:
        """As :meth:`tell`, with what this master has put on record, once it is durable."""


class _Request:
    """A wish with whoever waits for it.  ``until`` is when it is given up; None: it waits without end."""

    def __init__(self, wish: Wish, deployed: bool, answered: Answered, until: float | None) -> None:
        self.wish = wish
        self.deployed = deployed
        self.answered = answered
        self.until = until


class Wishes:
    """Asks the master, or this broker itself where it is that; what cannot be answered now is refused, or waits where it may."""

    def __init__(self, owner: WishOwner, follower: Follower, cluster: HomeCluster, clock: Clock) -> None:
        self._owner = owner
        self._follower = follower
        self._cluster = cluster
        self._clock = clock
        self._held: list[_Request] = []
        """Wishes that wait until they can be recorded."""
        self._sent: dict[_Request, None] = {}
        """Wishes that the master is asked for."""

    def record(self, wish: Wish, deployed: bool, answered: Answered) -> int | None:
        """As :meth:`mqbroker.imq.definitions.registrar.Recorder.record`."""
        owner = self._owner
        if self._takes_changes:
            return owner.keeping.append(wish, deployed)
        request = _Request(wish, deployed, answered, None if deployed else self._until())
        if owner.state == states.running.name and owner.keeper_peer() is not None:
            self._send(request)
        elif deployed or self._may_wait:
            self._hold(request)
        else:
            raise self._away()
        return None

    def later(self, wish: Wish, answered: Answered) -> None:
        """Record a wish of the configuration at the next :meth:`release`."""
        self._held.append(_Request(wish, True, answered, None))

    def release(self) -> None:
        """Wishes that were held can be recorded now, perhaps."""
        held, self._held = self._held, []
        for request in held:
            if self._owner.state == states.running.name:
                self._send(request)
            elif self._takes_changes:
                self._append(request)
            elif request.deployed or self._may_wait:
                self._held.append(request)
            else:
                request.answered(self._away(), 0)

    def forget_answers(self) -> None:
        """Answers of the former master come in vain; what comes from the configuration waits for the next one."""
        sent, self._sent = self._sent, {}
        for request in sent:
            if request.deployed:
                self._held.append(request)
            else:
                request.answered(self._away(), 0)

    def reason(self) -> str:
        """Why nothing can be recorded, in one line."""
        return f"B4094: the change record cannot be reached: {self._owner.absence}"

    # --- where a wish can go

    @property
    def _takes_changes(self) -> bool:
        """Is this broker the master, and is the master not being changed?"""
        return self._owner.state == states.running_master.name and self._owner.keeping.blocked is None

    @property
    def _may_wait(self) -> bool:
        """Does a wish wait for the record where it cannot be recorded now?"""
        if self._owner.state == states.running_master.name:
            return True
        return self._cluster.nowait_for_master and self._owner.state in (states.waiting_master.name, states.syncing.name)

    def _until(self) -> float:
        waits = self._cluster.wait_reply_s
        if self._owner.state in (states.waiting_master.name, states.syncing.name):
            waits = self._cluster.nowait_for_master_s
        elif self._owner.state == states.running_master.name:
            waits = self._cluster.change_master_wait_s
        return self._clock.monotonic() + waits

    def _hold(self, request: _Request) -> None:
        self._held.append(request)
        if request.until is not None:
            self._owner.later(max(request.until - self._clock.monotonic(), 0), self._give_up, request)

    def _give_up(self, request: _Request) -> None:
        if request in self._held:
            self._held.remove(request)
            follows = self._owner.state == states.running.name
            request.answered(IllegalStateError(f"{self._owner.keeper} takes no changes now") if follows else self._away(), 0)

    def _away(self) -> MQError:
        blocked = self._owner.keeping.blocked
        return IllegalStateError(self.reason() if blocked is None else f"the change record takes no changes now: {blocked}")

    # --- the way of a wish

    def _append(self, request: _Request) -> None:
        owner = self._owner
        try:
            position = owner.keeping.append(request.wish, request.deployed)
        except MQError as error:
            request.answered(error, 0)
        else:
            request.answered(None, position)
            owner.keeping.catch_up()
            owner.tell_when_stored()

    def _send(self, request: _Request) -> None:
        owner, peer = self._owner, self._owner.keeper_peer()
        if peer is None:
            request.answered(self._away(), 0)
            return
        self._sent[request] = None
        standing = owner.standing
        asked = peer.ask("append", owner.place, wish_values(request.wish), standing.generation, standing.position, request.deployed)
        asked.addCallback(self._appended, request)
        asked.addErrback(self._failed, request)

    def _appended(self, answer: Any, request: _Request) -> None:
        if request not in self._sent:
            return
        if answer.get("retry"):
            self._send_again(request)
            return
        error = answer.get("error")
        refusal = None if error is None else error_for_code(int(error[0]), str(error[1]))
        position = 0 if error is not None else int(answer["position"])
        change = None if error is not None or answer["change"] is None else change_of(answer["change"])
        del self._sent[request]
        if refusal is not None:
            request.answered(refusal, 0)
        elif change is not None:
            self._follower.expect(change, partial(self._expected, request, position))
        elif position <= self._owner.standing.position:
            request.answered(None, position)
        else:
            self._follower.reach(position, partial(self._reached, request, position))

    def _expected(self, request: _Request, position: int, error: MQError | None) -> None:
        """All changes before the wish are made."""
        request.answered(error, position)
        if error is None:
            self._owner.tell(position)

    def _reached(self, request: _Request, position: int, error: MQError | None) -> None:
        """The wish holds at ``position``.  Later changes may have ended that, and a whole record is taken over as it stands at its end."""
        if error is None and self._owner.standing.position != position:
            error = IllegalStateError(f"others have changed the change record while {request.wish.name} waited for it: try again")
        request.answered(error, position)

    def _failed(self, failure: Failure, request: _Request) -> None:
        error = failure.value
        if not isinstance(error, MQError):
            log.failure("a change could not be put on record", failure=failure)
        if request not in self._sent:
            return
        del self._sent[request]
        if request.deployed and not isinstance(error, ManagementError):
            self._held.append(request)
            self._owner.later(RETRY_SECONDS, self.release)
            return
        text = f"{self._owner.keeper} has not put {request.wish.name} on record: {error}"
        request.answered(IllegalStateError(text), 0)

    def _send_again(self, request: _Request) -> None:
        """The master takes no changes now."""
        del self._sent[request]
        self._hold(request)
        self._owner.later(RETRY_SECONDS, self.release)
