"""Faults planted in the store, to show that the simulation finds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mqbroker.messaging.ports import Recovered
from mqbroker.storage.filestore import FileStore


class AcknowledgesBeforeSync(FileStore):
    """Says that work is durable when it was only handed over."""

    def when_synced(self, ticket: int, function: Callable[..., object], *args: Any) -> None:
        function(*args)


class ForgetsDuplicateIds(FileStore):
    """Comes back from a restart without the ids that it has seen."""

    def load(self, first_id: int = 1) -> Recovered:
        recovered = super().load(first_id)
        recovered.duplicate_ids = []
        return recovered
