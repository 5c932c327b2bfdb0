"""The change record into a file and back, for an administrator who changes the master by hand [B8.7]."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mqbroker.imq.record.backup import backup_of, record_of
from mqclient.errors import IllegalStateError

if TYPE_CHECKING:
    from mqbroker.imq.master.own_record import OwnRecord
    from mqbroker.imq.master.recording import Recording
    from mqbroker.messaging.ports import Clock


class Backups:
    """Backup and restoration of the record of this broker, which has to be the master; both raise IllegalStateError where it is not."""

    def __init__(self, recording: Recording, own: OwnRecord, clock: Clock, new_generation: Callable[[], str]) -> None:
        self._recording = recording
        self._own = own
        self._clock = clock
        self._new_generation = new_generation

    def backup(self) -> bytes:
        """The content of a backup file."""
        self._check("backed up")
        blocked = self._recording.keeping.blocked
        if blocked is not None:
            raise IllegalStateError(f"the change record cannot be backed up now: {blocked}")
        return backup_of(self._own.begin())

    def restore(self, data: bytes) -> int:
        """Take over the record of a backup file in the place of the present one; all members take over everything of it.

        The administrator says so that this broker is the master, also where a change to another one was not completed.  Returns the number
        of definitions.  Raises :class:`mqbroker.imq.record.backup.BackupError` with the record unchanged.
        """
        self._check("restored")
        record = record_of(data).renewed(self._new_generation(), self._recording.place, self._clock.wall_ms())
        self._own.replace(record)
        self._recording.restored()
        return len(record)

    def _check(self, verb: str) -> None:
        recording = self._recording
        if recording.mastership is None and recording.has_record:
            raise IllegalStateError(f"the change record is in {recording.keeper}: it is {verb} by `mqbroker imq dbmgr`")
        if not recording.is_master:
            raise IllegalStateError(
                f"the change record is {verb} at the master broker alone: {recording.master or 'this cluster has none'}"
            )
