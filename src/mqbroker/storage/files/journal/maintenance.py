"""Segments that nothing needs any more go."""

from __future__ import annotations

from functools import partial

from twisted.logger import Logger

from mqbroker.messaging.ports import Clock
from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.files.journal.journal import Journal
from mqbroker.storage.files.journal.live import LiveIndex
from mqbroker.storage.files.journal.segments import Segment, SegmentLog
from mqbroker.storage.tickets import Tickets
from mqclient.storageformat.records import encode_trim


class Maintenance:
    """Removes the oldest segments once nothing in them is live.

    Only the oldest ones: acknowledgements in a later segment may be what keeps messages of an older one dead.  That a
    segment is not needed is recorded before its file goes, so that it does not matter which removals a crash undoes.
    """

    _log = Logger()

    def __init__(self, journal: Journal, index: LiveIndex, tickets: Tickets, writer: DiskWriter, clock: Clock) -> None:
        self._journal = journal
        self._tickets = tickets
        self._writer = writer
        self._clock = clock
        self._trim_due = False
        index.emptied.subscribe(self._due)
        journal.rolled.subscribe(self._due)

    def _due(self) -> None:
        if not self._trim_due:
            self._trim_due = True
            self._clock.call_later(0, self.trim)

    def trim(self) -> None:
        """Let go the oldest segments of both journals, as far as they are empty."""
        self._trim_due = False
        journal = self._journal
        if journal.closed:
            return
        for log in (journal.messages, journal.bindings):
            gone = log.cut()
            if gone:
                record = [encode_trim(log.first)]
                group = journal.commit(record, []) if log is journal.messages else journal.commit([], record)
                self._tickets.when_synced(group.ticket, self._remove, log, gone)

    def _remove(self, log: SegmentLog, gone: list[Segment]) -> None:
        self._writer.submit(log.remove_steps(gone), partial(self._removed, log))

    def _removed(self, log: SegmentLog, error: Exception | None) -> None:
        if log.sync_error is not None:
            # The next sync would succeed without what this one has left off the disk, and that place would count as durable.
            self._journal.fail(log.sync_error)
        elif error is not None:
            self._log.warn(
                "cannot remove a journal file that is no longer needed, in {directory}: {error}", directory=log.directory, error=error
            )
