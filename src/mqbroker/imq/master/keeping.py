"""The master's part: it appends the changes of all brokers, makes them here at once, and answers brokers that have missed some [B8.4]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from twisted.logger import Logger

from mqbroker.imq.master.following import Applied
from mqbroker.imq.master.own_record import OwnRecord
from mqbroker.imq.master.standing import Standing
from mqbroker.imq.record.changes import Definition, Wish, wish_of
from mqbroker.imq.record.codec import appended_values, page_values, wish_from
from mqbroker.imq.record.record import ChangeRecord, Page
from mqbroker.messaging.administration.registrar import Change
from mqclient.errors import MQError
from mqclient.management import ManagementError

log = Logger(namespace="mqbroker.imq")


class OwnDefinitions(Applied, Protocol):
    """The definitions of this broker (:class:`mqbroker.imq.definitions.application.Application`)."""

    def own_definitions(self) -> list[Definition]: ...


class Keeping:
    """Keeps the record.  ``master`` tells which broker is the master, None in a cluster without one."""

    def __init__(
        self, place: str, own: OwnRecord, standing: Standing, application: OwnDefinitions, master: Callable[[], str | None]
    ) -> None:
        self.own = own
        self.blocked: str | None = None
        """Why no changes are taken for a time; None while they are."""
        self._place = place
        self._standing = standing
        self._application = application
        self._master = master
        self._active = False

    @property
    def record(self) -> ChangeRecord:
        """The record of a broker that is the master."""
        assert self.own.record is not None
        return self.own.record

    def begin(self) -> list[Definition]:
        """This broker is the master now.  Returns what its files define and the record does not have."""
        self._active = True
        begun = self.own.record is None
        record = self.own.begin(self._standing.generation)
        if begun:
            for definition in self._application.own_definitions():
                self.own.append(wish_of(Change("create", definition)), self._place, record.last, False)
        elif self._standing.generation == record.generation:
            self.catch_up()
            return []
        unrecorded = [] if begun else self._application.apply_all(record)
        self._standing.follow(record.generation, record.former, record.last, self._place)
        return unrecorded

    def end(self) -> None:
        """Another broker is the master now."""
        self._active = False

    def append(self, wish: Wish, deployed: bool) -> int:
        """Put a wish of this broker on record, which makes the change by itself.  Returns the position; raises an MQError."""
        self.catch_up()
        return self.own.append(wish, self._place, self._standing.position, deployed).position

    def catch_up(self) -> None:
        """Make what is on record and was not made."""
        record = self.record
        if self._standing.position < record.last:
            for change in record.since(record.generation, self._standing.position, record.last).changes:
                if change.position > self._standing.position:
                    self._application.apply(change)
            self._standing.note(record.last)

    # --- answers to other members

    @property
    def answers(self) -> Mapping[str, Callable[..., Any]]:
        """The operations that this part answers by itself."""
        return {"join": self.answer_join, "changes": self.answer_changes}

    def answer_join(self, node_id: Any, place: Any, master: Any, generation: Any, position: Any) -> dict[str, Any]:
        """A broker that has followed ``generation`` of ``master`` up to ``position`` asks for what it has missed."""
        record = self._checked()
        if master != self._place and not record.knows(generation):
            reason = (
                f"B3095: {place} cannot join: it has followed the change record of {master}, which is another one than that of the master "
                f"broker {self._place}. Start it once with -reset store, or restore a backup of its record at the master broker"
            )
            log.warn("{reason}", reason=reason)
            return {"refused": reason}
        log.info("{place} ({node}) follows the change record from {position}", place=place, node=node_id, position=position)
        return self._page(record.since(generation, int(position)))

    def answer_changes(self, node_id: Any, generation: Any, position: Any, floor: Any) -> dict[str, Any]:
        """The changes that follow ``position``; with ``floor`` a further page of all changes."""
        record = self._checked()
        if floor is not None and generation == record.generation:
            return self._page(record.following(int(position), int(floor)))
        return self._page(record.since(generation, int(position)))

    def answer_append(self, place: Any, wish: Any, generation: Any, known: Any, deployed: Any) -> dict[str, Any]:
        """Put a wish of another broker on record, and make the change here."""
        record = self._checked()
        if self.blocked is not None:
            return {"retry": True}
        self.catch_up()
        try:
            known = int(known) if generation == record.generation else 0
            appended = self.own.append(wish_from(wish), str(place), known, bool(deployed))
        except MQError as error:
            return {"error": [error.code, str(error)]}
        self.catch_up()
        return appended_values(appended)

    def _checked(self) -> ChangeRecord:
        if not self._active:
            raise ManagementError(f"{self._place} is not the master broker; that is {self._master() or 'nobody in this cluster'}")
        return self.record

    def _page(self, page: Page) -> dict[str, Any]:
        return page_values(self.record.generation, page)
