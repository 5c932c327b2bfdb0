"""The change record of the master, kept among the settings of its store [B8.4]."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mqbroker.imq.record.changes import Wish
from mqbroker.imq.record.codec import change_from, text_of
from mqbroker.imq.record.record import SLACK_MAX, Appended, ChangeRecord
from mqbroker.messaging.ports import Clock, Store

KIND = "imq-change"
"""The kind of these settings in the store; the key is the position."""


class OwnRecord:
    """The record as long as this broker is the master, or was it last.

    ``place`` is this broker (host:port), ``new_generation`` gives unique names.  Raises ValueError for a record in ``settings`` that cannot
    be read.
    """

    def __init__(
        self, store: Store, clock: Clock, place: str, new_generation: Callable[[], str], settings: Mapping[tuple[str, str], str]
    ) -> None:
        self._store = store
        self._clock = clock
        self._place = place
        self._new_generation = new_generation
        kept = {int(key): text for (kind, key), text in settings.items() if kind == KIND}
        self.record: ChangeRecord | None = None
        """None: this broker was never the master."""
        if kept:
            try:
                self.record = ChangeRecord.load(change_from(kept[position]) for position in sorted(kept))
            except ValueError as error:
                raise ValueError(f"the change record in the store cannot be used: {error}") from error

    def begin(self, followed: str | None = None) -> ChangeRecord:
        """The record; made with a reset record where there is none.  ``followed``: the record that this broker has followed until now."""
        if self.record is None:
            former = () if followed is None else (followed,)
            self.replace(ChangeRecord.begin(self._new_generation(), self._place, self._clock.wall_ms(), former))
        assert self.record is not None
        return self.record

    def append(self, wish: Wish, origin: str, known: int, deployed: bool) -> Appended:
        """As :meth:`ChangeRecord.append`; what is appended is in the store's next batch."""
        record = self.begin()
        appended = record.append(wish, origin, self._clock.wall_ms(), known, deployed)
        if appended.change is not None:
            batch = self._store.begin()
            batch.put_setting(KIND, _key(appended.position), text_of(appended.change))
            if record.slack > SLACK_MAX + len(record):
                for position in record.compress():
                    batch.delete_setting(KIND, _key(position))
            self._store.commit(batch)
        return appended

    def renewed(self) -> ChangeRecord:
        """A compressed record with the same definitions, for another master or a file."""
        return self.begin().renewed(self._new_generation(), self._place, self._clock.wall_ms())

    def replace(self, record: ChangeRecord | None) -> None:
        """Keep another record from now on; None: no one."""
        batch = self._store.begin()
        for change in () if self.record is None else self.record.changes:
            batch.delete_setting(KIND, _key(change.position))
        for change in () if record is None else record.changes:
            batch.put_setting(KIND, _key(change.position), text_of(change))
        self._store.commit(batch)
        self.record = record


def _key(position: int) -> str:
    return f"{position:012d}"
