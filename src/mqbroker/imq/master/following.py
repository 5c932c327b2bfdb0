"""How a broker that is not the master follows the record: it asks for what it lacks, and makes its own changes in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.imq.links.requests import Peer
from mqbroker.imq.master.own_record import OwnRecord
from mqbroker.imq.master.standing import Standing
from mqbroker.imq.record.changes import Definition, Recorded
from mqbroker.imq.record.codec import change_of
from mqbroker.imq.record.record import ChangeRecord
from mqclient.errors import MQError, NotConnectedError

log = Logger(namespace="mqbroker.imq")

Answer = Callable[[MQError | None], None]


class Applied(Protocol):
    """Makes definitions what the record says (:class:`mqbroker.imq.definitions.application.Application`)."""

    def apply(self, change: Recorded) -> None: ...

    def apply_all(self, record: ChangeRecord) -> list[Definition]: ...


class FollowerEvents(Protocol):
    """Whom the follower tells."""

    def record_taken(self) -> None:
        """This broker has what the master has answered."""

    def record_failed(self, reason: str) -> None:
        """The master has not answered."""

    def join_refused(self, reason: str) -> None: ...

    def unrecorded(self, definitions: list[Definition]) -> None:
        """The files of this broker define what the record does not have."""


@dataclass(frozen=True, slots=True)
class _Page:
    """An answer of the master; ``floor`` is to be given with the question for a further page of everything."""

    generation: str
    reset: bool
    changes: list[Recorded]
    more: bool
    floor: int

    @classmethod
    def of(cls, answer: Any) -> _Page:
        """Raises ValueError, KeyError, TypeError."""
        changes = [change_of(each) for each in answer["changes"]]
        return cls(str(answer["generation"]), bool(answer["reset"]), changes, bool(answer["more"]), int(answer["floor"]))


class Follower:
    """Follows the record of one master at a time.  ``node_id`` and ``place`` are those of this broker; all calls are made inside a turn."""

    def __init__(self, node_id: str, place: str, standing: Standing, application: Applied, own: OwnRecord, events: FollowerEvents) -> None:
        self._node_id = node_id
        self._place = place
        self._standing = standing
        self._application = application
        self._own = own
        self._events = events
        self._peer: Peer | None = None
        self._era = object()
        """Tells the questions to one link of the master apart from those to a later one."""
        self._asking = False
        self._wanted = 0
        """The position that this broker has heard of."""
        self._reaching: list[tuple[int, Answer]] = []
        """Callers that wait until this broker has come to a position."""
        self._unread: list[Answer] = []
        """Callers that wait for the next question: the present one was put before they came."""
        self._reading: list[Answer] = []
        """Callers that wait for the answer to the present question."""
        self._failed = False
        """Was the last question not answered?  The next one is put after a pause."""
        self._expected: dict[int, tuple[Recorded, Answer]] = {}
        """Changes that this broker has wished for, by position, with the function that lets the client's request go on."""

    def join(self, peer: Peer) -> None:
        """The master is linked: ask for everything that this broker has missed."""
        self._peer = peer
        self._era = object()
        self._unread, self._reading = self._reading + self._unread, []
        self._begin(joining=True)

    def leave(self) -> None:
        """The master is away, or is another broker: answers that are under way do not count."""
        self._peer = None
        self._era = object()
        self._asking = False
        expected, self._expected = self._expected, {}
        reaching, self._reaching = self._reaching, []
        for _, answer in reaching:
            answer(NotConnectedError("the link to the master broker was lost"))
        for change, answer in expected.values():
            answer(NotConnectedError(f"{change.name} is on record, and is changed here when the master broker is linked again"))
        self._answer_readers(NotConnectedError("the link to the master broker was lost"))

    def behind(self, position: int) -> None:
        """The record has come to ``position``."""
        self._wanted = max(self._wanted, position)
        if self._peer is not None and not self._asking and self._wanted > self._standing.position:
            self._begin(joining=False)

    def expect(self, change: Recorded, answer: Answer) -> None:
        """This broker's own change is on record; ``answer`` is called when everything before it is done, and may make it.

        A change that ``answer`` does not make, because the client has gone, is made by the record.  With an error nothing is to be made.
        """
        if change.position <= self._standing.position:
            answer(None)
            return
        self._expected[change.position] = change, answer
        self._make_expected()
        self._standing.keep()
        if change.position > self._standing.position:
            self.behind(change.position)

    def reach(self, position: int, answer: Answer) -> None:
        """Call ``answer`` when everything up to ``position`` is done."""
        if position <= self._standing.position:
            answer(None)
            return
        self._reaching.append((position, answer))
        self.behind(position)

    @property
    def can_ask(self) -> bool:
        """May a question be answered soon?"""
        return self._peer is not None and not self._failed

    def read_on(self, answer: Answer) -> None:
        """Call ``answer`` when everything is done that is on record now, or with the reason why it is not; while :attr:`can_ask`."""
        self._unread.append(answer)
        self._ask_for_readers()

    # --- questions

    def _ask_for_readers(self) -> None:
        if self._unread and self._peer is not None and not self._asking:
            self._begin(joining=False)

    def _begin(self, joining: bool) -> None:
        self._asking = True
        assert self._peer is not None
        Deferred.fromCoroutine(self._ask(self._peer, self._era, joining)).addErrback(self._broken, self._era)

    def _broken(self, failure: Failure, era: object) -> None:
        """A defect must not leave this broker behind for ever."""
        log.failure("the change record could not be followed", failure=failure)
        if era is self._era:
            self._not_answered(failure.getErrorMessage())

    def _not_answered(self, reason: str) -> None:
        self._asking, self._failed = False, True
        self._answer_readers(NotConnectedError(reason))
        self._events.record_failed(reason)

    async def _ask(self, peer: Peer, era: object, joining: bool) -> None:
        try:
            while True:
                before = self._standing.position
                self._reading, self._unread = self._reading + self._unread, []
                page = await self._page(peer, joining)
                if era is not self._era:
                    return
                if isinstance(page, str):
                    self._asking = False
                    self._events.join_refused(page)
                    return
                if page.reset:
                    changes = await self._rest(peer, page)
                    if era is not self._era:
                        return
                    self._take_all(changes, peer.name)
                else:
                    self._take(page.changes)
                joining = False
                if not page.more:
                    self._answer_present(None)
                if not page.more and (self._standing.position >= self._wanted or self._standing.position == before):
                    break
        except (MQError, ValueError, KeyError, TypeError) as error:
            if era is self._era:
                self._not_answered(str(error))
            return
        self._asking = self._failed = False
        self._wanted = self._standing.position
        self._events.record_taken()
        self._ask_for_readers()

    async def _page(self, peer: Peer, joining: bool) -> _Page | str:
        """The next changes, or the reason why this broker may not join."""
        standing = self._standing
        if joining:
            answer = await peer.ask("join", self._node_id, self._place, standing.master, standing.generation, standing.position)
        else:
            answer = await peer.ask("changes", self._node_id, standing.generation, standing.position, None)
        refused = answer.get("refused")
        return str(refused) if refused is not None else _Page.of(answer)

    async def _rest(self, peer: Peer, page: _Page) -> list[Recorded]:
        """All changes, of which ``page`` has the first ones."""
        found = list(page.changes)
        while page.more:
            page = _Page.of(await peer.ask("changes", self._node_id, page.generation, found[-1].position, page.floor))
            if page.reset:
                found.clear()
            found += page.changes
        return found

    # --- answers

    def _take(self, changes: Iterable[Recorded]) -> None:
        for change in changes:
            if change.position > self._standing.position:
                self._do(change)
        self._make_expected()
        self._standing.keep()

    def _reached(self) -> None:
        """Answer the requests that wait for this position, before any later change is made."""
        there = [answer for position, answer in self._reaching if position <= self._standing.position]
        if not there:
            return
        self._reaching = [each for each in self._reaching if each[0] > self._standing.position]
        self._standing.keep()
        for answer in there:
            answer(None)

    def _answer_readers(self, error: MQError | None) -> None:
        """The readers of the present question, and of the next one."""
        self._reading, self._unread = self._reading + self._unread, []
        self._answer_present(error)

    def _answer_present(self, error: MQError | None) -> None:
        readers, self._reading = self._reading, []
        for answer in readers:
            answer(error)

    def _make_expected(self) -> None:
        while (found := self._expected.get(self._standing.position + 1)) is not None:
            self._do(found[0])

    def _do(self, change: Recorded) -> None:
        expected = self._expected.pop(change.position, None)
        if expected is not None:
            self._standing.keep()
            expected[1](None)
        if self._standing.position < change.position:
            self._application.apply(change)
            self._standing.advance(change.position)
        self._reached()

    def _take_all(self, changes: list[Recorded], master: str) -> None:
        record = ChangeRecord.load(changes)
        self._make_overtaken(record)
        unrecorded = self._application.apply_all(record)
        self._standing.follow(record.generation, record.former, record.last, master)
        if self._own.record is not None:
            self._own.replace(None)
        log.info("the change record of {master} was taken over: {count} definitions", master=master, count=len(record))
        for position in [position for position in self._expected if position <= record.last]:
            self._expected.pop(position)[1](None)
        self._reached()
        self._events.unrecorded(unrecorded)

    def _make_overtaken(self, record: ChangeRecord) -> None:
        """Make own changes that later ones of others have undone, as a deletion before its queue was made again: ``record`` comes after."""
        for change, answer in list(self._expected.values()):
            present = record.get(change.key)
            if change.position <= record.last and (present is None or present.life != change.position):
                del self._expected[change.position]
                answer(None)
