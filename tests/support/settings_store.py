"""As much of a store as keeps settings: what was not synced is lost with the process."""

from __future__ import annotations

from typing import Any

from mqbroker.storage.tickets import Tickets

Settings = dict[tuple[str, str], str]


class _Batch:
    def __init__(self) -> None:
        self.changes: list[tuple[tuple[str, str], str | None]] = []

    def put_setting(self, kind: str, key: str, value: str) -> None:
        self.changes.append(((kind, key), value))

    def delete_setting(self, kind: str, key: str) -> None:
        self.changes.append(((kind, key), None))


class SettingsStore(Tickets):
    """``durable`` is what a start finds after a crash.  A test, or a clock, calls :meth:`sync`."""

    def __init__(self, durable: Settings | None = None) -> None:
        super().__init__()
        self.durable: Settings = {} if durable is None else durable
        self.commits = 0
        self._pending: list[_Batch] = []

    def begin(self) -> Any:
        return _Batch()

    def commit(self, batch: Any) -> int:
        self.last += 1
        self.commits += 1
        self._pending.append(batch)
        return self.last

    def sync(self) -> None:
        """Everything that was committed is durable."""
        for batch in self._pending:
            for key, value in batch.changes:
                if value is None:
                    self.durable.pop(key, None)
                else:
                    self.durable[key] = value
        self._pending.clear()
        self.own.hold(self.last)
