"""Why a stored journal cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class StorageError(Exception):
    """The base of these errors; the text is for the operator."""


class JournalDamagedError(StorageError):
    """Acknowledged work cannot be read.

    ``offset`` (bytes) is the place in ``file`` where the damage begins; ``message_ids`` are the ids that could be read at the damaged
    place, and those right before and after it.
    """

    def __init__(self, file: str, offset: int, message_ids: Sequence[int], reason: str) -> None:
        self.file = file
        self.offset = offset
        self.message_ids = tuple(message_ids)
        self.reason = reason
        ids = ", ".join(map(str, self.message_ids[:20])) or "none could be read"
        more = f" and {len(self.message_ids) - 20} more" if len(self.message_ids) > 20 else ""
        super().__init__(
            f"{file}: damaged at offset {offset}: {reason}; message ids at and around this place: {ids}{more}. "
            "The broker does not start on a damaged journal; 'mqbroker data recover' saves what can be read and lists what is lost."
        )


@dataclass(frozen=True, slots=True)
class Loss:
    """A place that could not be read.

    From ``offset`` in ``file`` (bytes) ``size`` bytes are unreadable.  ``message_ids`` are the ids that could still be read there: these
    messages, or records about them (an acknowledgement, a delivery count), may be lost.
    """

    file: str
    offset: int
    size: int
    message_ids: tuple[int, ...]
    reason: str
