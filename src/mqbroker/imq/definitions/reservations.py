"""Names that one holder in the cluster has at a time: client ids [B7.6].

The broker of a client asks all linked members.  Of two brokers that ask at once the earlier wins, by (time, node id).  Brokers that were
not linked may both have given a name; when they are, the later holder loses its connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.imq.links.requests import Peer, Peers
from mqbroker.messaging.administration.registrar import Reservation
from mqbroker.messaging.ports import Cancellable, Clock
from mqbroker.messaging.turns.turn import Turn
from mqbroker.messaging.turns.undecided import Undecided
from mqclient.errors import MQError, OperationTimeoutError

HOLDS_MAX = 1000
"""Names in one request to a member that has just been linked: some ten kilobytes."""

HOLD_AGAIN_SECONDS = 10.0
"""Between two attempts to reserve a name that a client has brought along."""

HOLD_SECONDS = 90.0
"""How long such a name may be used elsewhere: a broker notices within a minute that a client has gone."""

log = Logger(namespace="mqbroker.imq")

Name = tuple[str, str]
"""Kind and name."""


class Stamp(NamedTuple):
    """When a name was asked for, and by which broker: the smaller one wins."""

    time_ms: int
    node_id: str


class _Claim:
    """A name that this broker holds, or asks for.  ``silent`` are the members (by node id) whose answers are missing."""

    def __init__(self, holder: str, stamp: Stamp) -> None:
        self.holder = holder
        self.stamp = stamp
        self.silent: set[str] = set()
        self.waiting: list[Callable[[], object]] = []
        self.refused_by: str | None = None
        self.error: MQError | None = None
        self.timer: Cancellable | None = None
        self.taken = False
        """Does the holder know that the name is its own?"""

    @property
    def decided(self) -> bool:
        return not self.silent or self.refused_by is not None or self.error is not None

    @property
    def held(self) -> bool:
        return not self.silent and self.refused_by is None and self.error is None


class Reservations:
    """Implements :class:`mqbroker.imq.definitions.registrar.Names`.

    ``expel`` ends the connection of a holder, and gets the reason.  ``timeout_s`` is how long a name waits for the answers of the others.
    """

    def __init__(
        self, peers: Peers, node_id: str, place: str, clock: Clock, turn: Turn, timeout_s: float, expel: Callable[[str, str], object]
    ) -> None:
        self._peers = peers
        self._node_id = node_id
        self._place = place
        self._clock = clock
        self._turn = turn
        self._timeout_s = timeout_s
        self._expel = expel
        self._claims: dict[Name, _Claim] = {}
        self._held: dict[Reservation, Cancellable | None] = {}
        """Names that clients have brought along and that are not reserved yet, with the time of the next attempt."""

    def start(self) -> None:
        self._peers.linked.subscribe(self._linked)
        self._peers.unlinked.subscribe(self._unlinked)
        for peer in list(self._peers.by_id.values()):
            self._linked(peer)

    def stop(self) -> None:
        for claim in self._claims.values():
            self._end_timer(claim)
        for again in self._held.values():
            if again is not None:
                again.cancel()
        self._held.clear()

    # --- what this broker's clients want

    def reserve(self, reservation: Reservation) -> bool:
        name = reservation.kind, reservation.name
        claim = self._claims.get(name)
        if claim is None:
            claim = self._claims[name] = _Claim(reservation.holder, Stamp(self._clock.wall_ms(), self._node_id))
            claim.silent.update(self._peers.by_id)
            for peer in list(self._peers.by_id.values()):
                self._ask(name, claim, peer)
            if not claim.decided:
                claim.timer = self._clock.call_later(self._timeout_s, self._turn.run, self._too_late, name, claim)
        own = claim.holder == reservation.holder
        if not claim.decided:
            raise Undecided(claim.waiting.append, partial(self._withdraw, name, claim) if own else lambda: None)
        if claim.held:
            claim.taken |= own
            return own
        del self._claims[name]
        if claim.error is not None:
            raise claim.error
        log.info("{kind} {name} is used at {place}", kind=name[0], name=name[1], place=claim.refused_by)
        return False

    def hold(self, reservation: Reservation) -> None:
        """Reserve a name that the client has had before; its former broker may not have noticed yet that it has gone."""
        self._hold(reservation, self._clock.monotonic() + HOLD_SECONDS)

    def _hold(self, reservation: Reservation, until: float) -> None:
        try:
            reserved, reason = self.reserve(reservation), "it is used by another connection of the cluster"
        except Undecided as undecided:
            undecided.when_known(partial(self._hold_again, reservation, until))
            self._held[reservation] = None
            return
        except MQError as error:
            reserved, reason = False, str(error)
        self._held.pop(reservation, None)
        if reserved:
            return
        if self._clock.monotonic() >= until:
            text = f"{reservation.kind} {reservation.name}: {reason}"
            log.warn("{reason}; the connection here ends", reason=text)
            self._expel(reservation.holder, text)
        else:
            again = self._clock.call_later(HOLD_AGAIN_SECONDS, self._turn.run, self._hold_again, reservation, until)
            self._held[reservation] = again

    def _hold_again(self, reservation: Reservation, until: float) -> None:
        if reservation in self._held:
            self._hold(reservation, until)

    def release(self, reservation: Reservation) -> None:
        again = self._held.pop(reservation, None)
        if again is not None:
            again.cancel()
        name = reservation.kind, reservation.name
        claim = self._claims.get(name)
        if claim is not None and claim.holder == reservation.holder:
            self._end_timer(claim)
            del self._claims[name]

    def _withdraw(self, name: Name, claim: _Claim) -> None:
        """The client that has asked for the name has gone, perhaps between the decision and its use."""
        if self._claims.get(name) is claim and not claim.taken:
            self._end_timer(claim)
            del self._claims[name]
            self._wake(claim)

    def _ask(self, name: Name, claim: _Claim, peer: Peer) -> None:
        asked = peer.ask("reserve", *name, claim.stamp.time_ms, claim.stamp.node_id)
        asked.addCallback(self._answered, claim, peer)
        asked.addErrback(self._unanswered, name, claim, peer)

    def _answered(self, free: Any, claim: _Claim, peer: Peer) -> None:
        if claim.decided:
            return
        claim.silent.discard(peer.node_id)
        if not free:
            claim.refused_by = peer.name
        self._decide(claim)

    def _unanswered(self, failure: Failure, name: Name, claim: _Claim, peer: Peer) -> None:
        """A member whose link is lost does not count; one that is linked and gives no answer does."""
        if claim.decided:
            return
        if self._peers.by_id.get(peer.node_id) is peer:
            claim.error = OperationTimeoutError(f"{name[0]} {name[1]} cannot be reserved: {peer.name} has not answered: {failure.value}")
        claim.silent.discard(peer.node_id)
        self._decide(claim)

    def _too_late(self, name: Name, claim: _Claim) -> None:
        claim.timer = None
        if not claim.decided:
            silent = ", ".join(sorted(peer.name for peer in self._peers.by_id.values() if peer.node_id in claim.silent))
            text = f"{name[0]} {name[1]} cannot be reserved: no answer within {self._timeout_s:g} s from {silent}"
            log.warn("{text}", text=text)
            claim.error = OperationTimeoutError(text)
            self._decide(claim)

    def _decide(self, claim: _Claim) -> None:
        if claim.decided:
            self._end_timer(claim)
            self._wake(claim)

    def _wake(self, claim: _Claim) -> None:
        waiting, claim.waiting = claim.waiting, []
        for function in waiting:
            function()

    @staticmethod
    def _end_timer(claim: _Claim) -> None:
        if claim.timer is not None:
            claim.timer.cancel()
            claim.timer = None

    # --- other members

    @property
    def answers(self) -> Mapping[str, Callable[..., Any]]:
        """The operations of other members that this part answers."""
        return {"reserve": self.answer_reserve, "holds": self.answer_holds}

    def answer_reserve(self, kind: Any, text: Any, time_ms: Any, node_id: Any) -> bool:
        """May another broker have this name?"""
        name, stamp = (str(kind), str(text)), Stamp(int(time_ms), str(node_id))
        claim = self._claims.get(name)
        if claim is None or claim.refused_by is not None or claim.error is not None:
            return True
        if claim.held or claim.stamp < stamp:
            return False
        claim.refused_by = self._name_of(stamp.node_id)
        self._decide(claim)
        return True

    def answer_holds(self, place: Any, names: Any) -> None:
        """A member that was linked right now tells which names it holds: of two holders the later one loses its connection."""
        for kind, text, time_ms, node_id in names:
            name, stamp = (str(kind), str(text)), Stamp(int(time_ms), str(node_id))
            claim = self._claims.get(name)
            if claim is None or stamp > claim.stamp or stamp.node_id == self._node_id:
                continue
            if claim.held:
                reason = f"{name[0]} {name[1]} is used at {place}, too, and was so earlier, while the brokers were not linked"
                log.warn("{reason}; the connection here ends", reason=reason)
                self._expel(claim.holder, reason)
            elif claim.refused_by is None:
                claim.refused_by = str(place)
                self._decide(claim)

    def _linked(self, peer: Peer) -> None:
        names: list[Sequence[Any]] = []
        for name, claim in list(self._claims.items()):
            if claim.held:
                names.append((*name, *claim.stamp))
            elif not claim.decided:
                claim.silent.add(peer.node_id)
                self._ask(name, claim, peer)
        for first in range(0, len(names), HOLDS_MAX):
            peer.ask("holds", self._place, names[first : first + HOLDS_MAX]).addErrback(self._not_told, peer)

    def _unlinked(self, peer: Peer) -> None:
        for claim in list(self._claims.values()):
            if not claim.decided and peer.node_id in claim.silent:
                claim.silent.discard(peer.node_id)
                self._decide(claim)

    def _name_of(self, node_id: str) -> str:
        peer = self._peers.by_id.get(node_id)
        return node_id if peer is None else peer.name

    @staticmethod
    def _not_told(failure: Failure, peer: Peer) -> None:
        log.warn("{peer} was not told of names in use: {reason}", peer=peer.name, reason=failure.getErrorMessage())
