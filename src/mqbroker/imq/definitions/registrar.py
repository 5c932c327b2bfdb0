"""The registrar of a home cluster: a change is on record before it is made, and a name is used once in the cluster (decision 32)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from mqbroker.imq.definitions.auto_creation import AutoCreation
from mqbroker.imq.definitions.estate import ended_since
from mqbroker.imq.record.changes import is_recorded
from mqbroker.imq.record.followed import Followed
from mqbroker.messaging.administration.registrar import CONSUMER_PLACE, Change, Ended, Reservation
from mqbroker.messaging.queues.definitions import QueueDefinition
from mqbroker.messaging.turns.undecided import Undecided
from mqclient.errors import MQError

if TYPE_CHECKING:
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.ports import Recovered

Answered = Callable[[MQError | None, int], None]
"""Gets the reason of a refusal, or None and the position in the record."""


_ANY = AutoCreation()


class Recorder(Protocol):
    """Puts changes on record."""

    @property
    def standing(self) -> Followed:
        """How far this broker has followed it."""

    def record(self, change: Change, deployed: bool, answered: Answered) -> int | None:
        """The position of the change, which can be made now; None: ``answered`` is called later, inside a turn.

        ``deployed``: the change comes from the configuration.  Raises an MQError that says why the change cannot be made.
        """

    def made(self, change: Change, position: int) -> None:
        """This broker has made the change that was answered with ``position``."""

    def read_on(self, done: Callable[[], object]) -> bool:
        """Make what is on record by now, and call ``done`` then, inside a turn, or when that takes too long.

        False: this broker has made it, or the record cannot be read now; ``done`` is not called.
        """


class Names(Protocol):
    """Names that one holder in the cluster has."""

    def reserve(self, reservation: Reservation) -> bool:
        """False: another holder has the name.  Raises Undecided, and MQError when other brokers do not answer."""

    def hold(self, reservation: Reservation) -> None:
        """Reserve a name as soon as nobody else has it."""

    def release(self, reservation: Reservation) -> None: ...


class _Asked:
    """A change that the recorder was asked about, with those who wait for the answer."""

    def __init__(self, deployed: bool) -> None:
        self.deployed = deployed
        self.waiting: list[_Waiter] = []
        self.answered = False
        self.error: MQError | None = None
        self.position = 0
        self.known: tuple[str | None, int] = None, 0
        """The record, and how far it was followed with the change, when the answer came."""


class _Waiter:
    """Someone who is to ask again."""

    def __init__(self) -> None:
        self.functions: list[Callable[[], object]] = []

    def call(self) -> None:
        for function in self.functions:
            function()


class HomeRegistrar:
    """Implements :class:`mqbroker.messaging.administration.registrar.Registrar`.

    Definitions of the configuration wait from the beginning until :meth:`deploy`.  ``auto_creation`` says what clients may create by use.
    """

    def __init__(self, auto_creation: AutoCreation = _ANY) -> None:
        self._auto_creation = auto_creation
        self._recorder: Recorder | None = None
        self._names: Names | None = None
        self._tell_made: Callable[[QueueDefinition], object] = lambda definition: None
        self._asked: dict[Change, _Asked] = {}
        self._agreed: tuple[Change, int] | None = None
        """The last change that was agreed to and not made yet."""
        self._first: list[Callable[[], object]] = []
        """Functions to call at :meth:`deploy`: they repeat requests of the configuration, which wait for it."""
        self._deploying = False

    def begin(self, recorder: Recorder, names: Names, made: Callable[[QueueDefinition], object]) -> None:
        """The broker is put together: clients may ask from now on.  ``made`` is told of queues that clients make and no record has."""
        self._recorder = recorder
        self._names = names
        self._tell_made = made

    def deploy(self) -> None:
        """This broker has the record: what its configuration defines is asked for now.  Later calls do nothing."""
        first, self._first = self._first, []
        self._call(first, deploying=True)

    # --- definitions

    def agree(self, change: Change) -> None:
        self._auto_creation.check(change)
        if not is_recorded(change):
            return
        if self._recorder is None:
            raise Undecided(self._first.append)
        asked = self._asked.get(change)
        if asked is not None and self._is_overtaken(asked):
            asked = None
        if asked is None:
            deployed = self._deploying
            position = self._recorder.record(change, deployed, partial(self._answer, change))
            if position is not None:
                self._agreed = change, position
                return
            asked = self._asked[change] = _Asked(deployed)
        if not asked.answered:
            waiter = _Waiter()
            asked.waiting.append(waiter)
            raise Undecided(waiter.functions.append, lambda: self._withdraw(change, waiter))
        del self._asked[change]
        if asked.error is not None:
            raise asked.error
        self._agreed = change, asked.position

    def made(self, change: Change) -> None:
        if self._agreed is not None and self._agreed[0] == change:
            position = self._agreed[1]
            self._agreed = None
            assert self._recorder is not None
            self._recorder.made(change, position)
        elif change.action == "create" and isinstance(change.definition, QueueDefinition):
            self._tell_made(change.definition)

    def _answer(self, change: Change, error: MQError | None, position: int) -> None:
        asked = self._asked.get(change)
        if asked is None:
            return  # the client has gone
        asked.answered, asked.error, asked.position = True, error, position
        assert self._recorder is not None
        standing = self._recorder.standing
        asked.known = standing.generation, max(standing.position, position)
        self._call([function for waiter in asked.waiting for function in waiter.functions], asked.deployed)

    def _is_overtaken(self, asked: _Asked) -> bool:
        """Has the record gone on since the answer, because the request could not be carried out at once?  Then it says nothing any more."""
        assert self._recorder is not None
        standing = self._recorder.standing
        return asked.answered and asked.error is None and (standing.generation != asked.known[0] or standing.position > asked.known[1])

    def _withdraw(self, change: Change, waiter: _Waiter) -> None:
        asked = self._asked.get(change)
        if asked is not None and waiter in asked.waiting:
            asked.waiting.remove(waiter)
            if not asked.waiting:
                del self._asked[change]

    def _call(self, functions: list[Callable[[], object]], deploying: bool) -> None:
        before, self._deploying = self._deploying, deploying
        try:
            for function in functions:
                function()
        finally:
            self._deploying = before

    def shares(self, definition: QueueDefinition) -> bool:
        return is_recorded(Change("create", definition))

    def read_on(self) -> None:
        waiter = _Waiter()
        if self._recorder is not None and self._recorder.read_on(waiter.call):
            raise Undecided(waiter.functions.append, waiter.functions.clear)

    def ended(self, found: Recovered, core: MessagingCore, kept: Mapping[tuple[str, str], str] | None) -> Ended:
        if kept is not None:
            return ended_since(Followed(kept), Followed(found.settings), found, core)
        assert self._recorder is not None
        return ended_since(self._recorder.standing, Followed(found.settings), found, core)

    # --- names

    def reserve(self, reservation: Reservation) -> bool:
        """A place at a queue is one of this broker's: limits hold at each home."""
        if reservation.kind == CONSUMER_PLACE or self._names is None:
            return True
        return self._names.reserve(reservation)

    def hold(self, reservation: Reservation) -> None:
        if self._names is not None:
            self._names.hold(reservation)

    def release(self, reservation: Reservation) -> None:
        if reservation.kind != CONSUMER_PLACE and self._names is not None:
            self._names.release(reservation)
