"""A store that answers everything later: commits, pages and bodies, and that another one may fence by a newer epoch.

Its files are those of the file store.  What is late in it is what a database or a replica makes late.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.messaging.ports import Clock, Recovered, Store, StoreBatch, WritingTurn
from mqbroker.node.parts import Parts
from mqbroker.node.stores import make_store, store_settings
from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.files.filestore import FileStore
from mqbroker.storage.files.journal.pages import Page
from mqbroker.storage.files.largebodies import FileLargeBody, LargeBodies
from mqbroker.storage.files.pages.reader import PageFiles
from mqbroker.storage.tickets import Condition

DELAY = 0.002

KEPT_SECONDS = 0.02
"""How long an answer stays once it has come; then it has to be asked for again."""


class Epochs:
    """Which of the stores of one place may write: the one that was opened last."""

    def __init__(self) -> None:
        self.newest = 0

    def begin(self) -> int:
        self.newest += 1
        return self.newest


class Asked(NotYet):
    """An answer that a test need not wait for."""

    def __init__(self, waiting: list[Callable[[], object]], bring: Callable[[], object]) -> None:
        super().__init__(waiting.append)
        self.bring = bring


T = TypeVar("T")


def read_now(function: Callable[[], T]) -> T:
    """What ``function`` returns once everything that it reads is there."""
    while True:
        try:
            return function()
        except Asked as pending:
            pending.bring()


class Answers:
    """What was asked for, and is there after ``delay`` seconds.  ``late`` says whether anything is."""

    def __init__(self, clock: Clock, delay: float) -> None:
        self.late = False
        self.delayed = 0
        """How many reads had to wait."""
        self._clock = clock
        self._delay = delay
        self._asked: dict[object, list[Callable[[], object]]] = {}
        self._there: dict[object, float] = {}
        """When each has come (monotonic s)."""

    def need(self, key: object, *, once: bool = False) -> None:
        """Raises NotYet until ``key`` has been asked for and has come; with ``once`` it has to come again for the next one."""
        if not self.late:
            return
        came = self._there.get(key)
        if came is not None and self._clock.monotonic() <= came + KEPT_SECONDS:
            if once:
                del self._there[key]
            return
        if key not in self._asked:
            self._asked[key] = []
            self._clock.call_later(self._delay, self._came, key)
            self.delayed += 1
        raise Asked(self._asked[key], partial(self._came, key))

    def end(self) -> None:
        """Nobody is called any more."""
        self._asked = {}

    def _came(self, key: object) -> None:
        self._there[key] = self._clock.monotonic()
        for function in self._asked.pop(key, []):
            function()


class LatePages(PageFiles):
    answers: Answers

    def piece(self, page: Page, offset: int) -> Any:
        self.answers.need((page.number, offset))
        return super().piece(page, offset)

    def scanned(self, page: Page, offset: int) -> Any:
        self.answers.need(("columns", page.number, offset))
        return super().scanned(page, offset)


class LateBodies(LargeBodies):
    answers: Answers

    def read(self, body: FileLargeBody, offset: int, size: int) -> bytes:
        if body.stored:
            self.answers.need(("body", body.body_id, offset, size), once=True)
        return super().read(body, offset, size)


class LateStore(FileStore):
    """A store on the place that ``epochs`` stands for; answers take ``delay`` seconds."""

    def __init__(self, *args: Any, epochs: Epochs | None = None, delay: float = 0.0) -> None:
        super().__init__(*args)
        self.answers = Answers(self._clock, delay)
        self._delay = delay
        self._epochs = epochs or Epochs()
        self._epoch = 0
        self._answered: Condition | None = None
        self._answering = False
        if self.pager is not None:
            self.pager.files.__class__ = LatePages
            self.pager.files.answers = self.answers  # type: ignore[attr-defined]
        self._bodies.__class__ = LateBodies
        self._bodies.answers = self.answers  # type: ignore[attr-defined]

    def open(self, node_id: str | None = None) -> None:
        super().open(node_id)
        self._epoch = self._epochs.begin()

    def load(self, first_id: int = 1) -> Recovered:
        recovered = super().load(first_id)
        self._answered = self.demand("the store answers")
        return recovered

    def write_at_end_of(self, turn: WritingTurn) -> None:
        super().write_at_end_of(turn)
        self._clock.call_later(0, setattr, self.answers, "late", True)

    def commit(self, batch: StoreBatch) -> int:
        if self._epochs.newest != self._epoch:
            self.fence(f"epoch {self._epochs.newest} has begun, this store has epoch {self._epoch}")
        ticket = super().commit(batch)
        self._answer_later()
        return ticket

    def when_synced(self, ticket: int, function: Callable[..., object], *args: Any) -> None:
        super().when_synced(ticket, function, *args)
        self._answer_later()

    def close(self) -> None:
        super().close()
        self.answers.end()

    def _answer_later(self) -> None:
        if self._answered is not None and not self._answering and self._answered.reached < self.last:
            self._answering = True
            self._clock.call_later(self._delay, self._answer, self.last)

    def _answer(self, ticket: int) -> None:
        self._answering = False
        assert self._answered is not None
        self._answered.hold(ticket)
        self._answer_later()


def make_late_store(settings: BrokerSettings, parts: Parts, new_writer: Callable[[], DiskWriter], failed: Callable[[str], object]) -> Store:
    """As :func:`mqbroker.node.stores.make_store`; a store that keeps something is a late one."""
    if not settings.configuration.persistence_enabled:
        return make_store(settings, parts, new_writer, failed)
    return LateStore(store_settings(settings), parts.file_system, new_writer(), parts.clock, parts.entropy, failed, delay=DELAY)
