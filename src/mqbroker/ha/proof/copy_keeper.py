"""The record of a copy while its broker runs: one change after the other, each durable before anybody hears of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from twisted.internet.defer import Deferred, fail, succeed

from mqbroker.ha.proof.copy_record import CopyRecord, CopyStateError, OtherCopy, write_record
from mqbroker.storage.disk.diskwriter import Done, Step
from mqbroker.storage.disk.filesystem import FileSystem

Submit: TypeAlias = Callable[[Sequence[Step], Done], object]
"""The ``submit`` of the present disk writer."""


class Copying:
    """One copy from another broker.  It is outdated once a later one has begun, or this copy was given up."""

    def __init__(self, keeper: CopyKeeper) -> None:
        self._keeper = keeper

    def complete(self, sequence: int, other: OtherCopy) -> Deferred[CopyRecord]:
        """All data are here and durable, and ``other``, active at ``sequence``, has durably noted this copy before.

        Fails with CopyStateError when this copying is outdated.
        """
        return self._keeper.complete(self, sequence, other)


class CopyKeeper:
    """Changes the record in ``directory``.

    Every result fires once the change is durable, and fails with CopyStateError if it is not allowed.  When the record cannot be
    written, ``failed`` hears the reason once, no result fires any more, and nothing is changed again.  Only that a copy begins may fail by
    itself, with OSError: the data are what they were then.
    """

    def __init__(
        self, file_system: FileSystem, directory: str, record: CopyRecord, submit: Submit, failed: Callable[[str], object]
    ) -> None:
        self.record = record
        """As it is on the disk."""
        self._file_system = file_system
        self._directory = directory
        self._submit = submit
        self._failed = failed
        self._next = record
        self.in_sync = False
        """Have these data become complete in this life, and has nobody gone on without them since, as far as known?  As :attr:`latest`."""
        self._copying: Copying | None = None
        self._under_way = 0
        """Results that wait for the disk."""
        self._broken = False

    @property
    def latest(self) -> CopyRecord:
        """As it will be once everything that was submitted is written."""
        return self._next

    def settled(self) -> Deferred[None]:
        """Fires once :attr:`latest` of now is durable."""
        if self._next == self.record:
            return succeed(None)
        durable: Deferred[None] = Deferred()
        if not self._broken:
            self._under_way += 1
            self._submit([], lambda _: self._settled(durable))
        return durable

    def _settled(self, durable: Deferred[None]) -> None:
        self._under_way -= 1
        if not self._broken:
            durable.callback(None)

    def note(self, other: OtherCopy) -> Deferred[CopyRecord]:
        return self._change(lambda record: record.noted(other))

    def raise_to(self, sequence: int, took_over: bool) -> Deferred[CopyRecord]:
        return self._change(lambda record: record.raised(sequence, took_over))

    def skip(self) -> Deferred[CopyRecord]:
        return self._change(CopyRecord.skipped)

    def fell_behind(self) -> None:
        """Another copy goes on."""
        self.in_sync = False

    def give_up(self, diverged: bool = False) -> Deferred[CopyRecord]:
        self._copying, self.in_sync = None, False
        return self._change(lambda record: record.gave_up(diverged))

    def begin_copy(self, other: OtherCopy) -> Deferred[Copying]:
        copying = self._copying = Copying(self)
        self.in_sync = False
        return self._change(lambda record: record.begun(other), may_fail=True).addCallback(lambda _: copying)

    def put_away(self) -> Deferred[CopyRecord]:
        return self._change(CopyRecord.put_away)

    def complete(self, copying: Copying, sequence: int, other: OtherCopy) -> Deferred[CopyRecord]:
        if copying is not self._copying:
            return fail(CopyStateError("this copy was given up, or another one has begun since"))
        self.in_sync = True
        return self._change(lambda record: record.completed(sequence, other))

    def _change(self, change: Callable[[CopyRecord], CopyRecord], may_fail: bool = False) -> Deferred[CopyRecord]:
        try:
            record = change(self._next)
        except CopyStateError as error:
            return fail(error)
        if record == self._next == self.record:
            return succeed(record)
        self._next = record
        durable: Deferred[CopyRecord] = Deferred()
        if not self._broken:
            write = partial(write_record, self._file_system, self._directory, record)
            self._under_way += 1
            self._submit([write], partial(self._written, record, durable, may_fail))
        return durable

    def _written(self, record: CopyRecord, durable: Deferred[CopyRecord], may_fail: bool, error: Exception | None) -> None:
        self._under_way -= 1
        if self._broken:
            return
        if error is None:
            self.record = record
            durable.callback(record)
        elif may_fail and not self._under_way:
            # Nobody builds on the change, and nobody is about to hear of it.
            self._next = self.record
            durable.errback(error)
        else:
            self._broken = True
            self._failed(f"the record of this copy cannot be written: {error}")
