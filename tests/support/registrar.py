"""Registrars that answer when a test says so."""

from __future__ import annotations

from collections.abc import Callable

from mqbroker.messaging.administration.registrar import Change, LocalRegistrar, Reservation
from mqbroker.messaging.queues.definitions import QueueDefinition
from mqbroker.messaging.turns.undecided import Undecided
from mqclient.errors import MQError


class SlowRegistrar(LocalRegistrar):
    """Answers at once until ``slow`` is true, and then by :meth:`decide`; ``no`` is the error of all questions that are refused.

    ``agreed`` are the changes that were agreed to, ``made_changes`` those that were made, ``owners`` who has which name, ``withdrawn``
    what was asked by somebody who has gone.
    """

    def __init__(self) -> None:
        self.slow = False
        self.no: MQError | None = None
        self.agreed: list[Change] = []
        self.made_changes: list[Change] = []
        self.owners: dict[tuple[str, str], str] = {}
        self.withdrawn: list[Change | Reservation] = []
        self.open: dict[Change | Reservation, list[Callable[[], object]]] = {}
        self._known: set[Change | Reservation] = set()

    def agree(self, change: Change) -> None:
        self._ask(change)
        self.agreed.append(change)

    def made(self, change: Change) -> None:
        assert self.agreed[-1] == change
        self.made_changes.append(change)

    def reserve(self, reservation: Reservation) -> bool:
        key = (reservation.kind, reservation.name)
        if key not in self.owners:
            self._ask(reservation)
        return self.owners.setdefault(key, reservation.holder) == reservation.holder

    def hold(self, reservation: Reservation) -> None:
        self.owners.setdefault((reservation.kind, reservation.name), reservation.holder)

    def release(self, reservation: Reservation) -> None:
        key = (reservation.kind, reservation.name)
        assert self.owners[key] == reservation.holder
        del self.owners[key]

    def decide(self) -> None:
        """Answer all open questions."""
        asked, self.open = self.open, {}
        self._known.update(asked)
        for waiting in asked.values():
            for function in waiting:
                function()

    def _ask(self, question: Change | Reservation) -> None:
        if self.slow and question not in self._known:
            raise Undecided(self.open.setdefault(question, []).append, lambda: self._withdraw(question))
        self._known.discard(question)
        if self.no is not None:
            raise self.no

    def _withdraw(self, question: Change | Reservation) -> None:
        if question in self.open or question in self._known:
            self.open.pop(question, None)
            self._known.discard(question)
            self.withdrawn.append(question)


class ReadingRegistrar(LocalRegistrar):
    """Others have what does not end with its client, and are heard when a test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], object]] = []

    def shares(self, definition: QueueDefinition) -> bool:
        return definition.durable

    def read_on(self) -> None:
        raise Undecided(self.waiting.append, self.waiting.clear)

    def go_on(self) -> None:
        """Answer the one request that waits."""
        [function] = self.waiting
        self.waiting.clear()
        function()
