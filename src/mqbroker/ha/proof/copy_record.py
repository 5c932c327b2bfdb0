"""``server.activation.sequence``: what a copy of a node durably knows of itself and of the other copy, beside its journal (decision 36).

The file is never replicated.  Layout: a line of JSON, and a line with its CRC-32 in hexadecimal digits.
"""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from mqbroker.storage.disk.filesystem import FileSystem, join
from mqbroker.storage.errors import StorageError

RECORD_FILE = "server.activation.sequence"

VERSION = 1
"""Of the layout."""

SEQUENCE_MAX = (1 << 63) - 1
"""Of an activation: a long integer, as in the peer's messages.  No node comes near it."""

COPY_ID_SIZE_MAX = 64
"""Characters of the id of a copy, which is a UUID."""

CONNECTOR_SIZE_MAX = 4096
"""Characters of a connector in a note: it is kept on the disk, and comes from another broker."""


class CopyState(Enum):
    """The use that the data of a copy have."""

    COMPLETE = "complete"
    """The data have everything that was acknowledged until the copy's sequence ended, at least."""
    INCOMPLETE = "incomplete"
    """The data are being copied, or a copy was interrupted."""
    GIVEN_UP = "given up"
    """The data are whole, and another copy goes on without them."""


class CopyStateError(StorageError):
    """A copy may not do this in its present state."""


@dataclass(frozen=True, slots=True)
class OtherCopy:
    """The other copy of this node, as a note: its id, and a connector by which it is reached, as a text that the network side reads."""

    copy_id: str
    connector: str

    def __post_init__(self) -> None:
        _check_text("the id of a copy", self.copy_id, COPY_ID_SIZE_MAX)
        _check_text("a connector", self.connector, CONNECTOR_SIZE_MAX)


@dataclass(frozen=True, slots=True)
class CopyRecord:
    """The durable record of one copy.

    ``sequence`` is the highest at which this copy was complete, 0 before any.  ``other`` is the copy that was noted last.  ``took_over``:
    the sequence was reached by a copy that was a replica before.  ``diverged``: the data were given up although they hold messages that
    no other copy has, so they are to be kept for the operator; they are in the folders of the store, or a part of them is.
    """

    copy_id: str
    state: CopyState
    sequence: int = 0
    other: OtherCopy | None = None
    took_over: bool = False
    diverged: bool = False

    def __post_init__(self) -> None:
        _check_text("the id of a copy", self.copy_id, COPY_ID_SIZE_MAX)
        if not 0 <= self.sequence <= SEQUENCE_MAX:
            raise ValueError(f"the sequence {self.sequence} is not between 0 and {SEQUENCE_MAX}")

    @classmethod
    def first(cls, entropy: Callable[[int], bytes], primary: bool) -> CopyRecord:
        """Of a copy that has none: the data of a primary are its own, a backup has nothing worth the name."""
        return cls(str(uuid.UUID(bytes=entropy(16), version=4)), CopyState.COMPLETE if primary else CopyState.INCOMPLETE)

    @property
    def complete(self) -> bool:
        return self.state is CopyState.COMPLETE

    @property
    def shared(self) -> bool:
        """May another copy be complete, too?  Then these data need a proof to be used without it."""
        return self.complete and self.other is not None

    @property
    def retractable(self) -> bool:
        """May this copy take its giving up back, when it hears that the other one has given itself up, too?

        A question that arrives late can bring both to that.  Of two copies only the one with the greater id may.
        """
        other = self.other
        return self.state is CopyState.GIVEN_UP and not self.diverged and other is not None and self.copy_id > other.copy_id

    @property
    def usable(self) -> bool:
        """Can a proof make this copy active?"""
        return self.complete or self.retractable

    # --- what becomes of it

    def noted(self, other: OtherCopy) -> CopyRecord:
        """From now on ``other`` may be complete, too; it is the only such copy at this sequence."""
        self._must_be_complete("note another copy")
        if self.other is not None and self.other.copy_id != other.copy_id:
            raise CopyStateError(
                f"the copy {self.other.copy_id} may be complete at sequence {self.sequence}: {other.copy_id} cannot be, too"
            )
        return replace(self, other=other)

    def raised(self, sequence: int, took_over: bool) -> CopyRecord:
        """Active at ``sequence``, and alone."""
        if not self.retractable:
            self._must_be_complete(f"be active at sequence {sequence}")
        if sequence <= self.sequence:
            raise CopyStateError(f"the sequence {sequence} is not above {self.sequence}")
        return replace(self, state=CopyState.COMPLETE, sequence=sequence, other=None, took_over=took_over)

    def skipped(self) -> CopyRecord:
        """Nobody was active at the next sequence, and nobody will be."""
        self._must_be_complete("skip a sequence")
        return replace(self, sequence=self.sequence + 1)

    def gave_up(self, diverged: bool = False) -> CopyRecord:
        """Never used again before a full copy.  Data that are incomplete stay so."""
        return replace(self, state=CopyState.GIVEN_UP, diverged=diverged) if self.complete else self

    def begun(self, other: OtherCopy) -> CopyRecord:
        """A copy from ``other`` begins: the data are no longer whole."""
        return replace(self, state=CopyState.INCOMPLETE, other=other)

    def put_away(self) -> CopyRecord:
        """The data from before this copy are durably where nothing is copied to."""
        return replace(self, diverged=False) if self.state is CopyState.INCOMPLETE else self

    def completed(self, sequence: int, other: OtherCopy) -> CopyRecord:
        """The copy from ``other`` is complete and durable, at its sequence."""
        if self.state is not CopyState.INCOMPLETE:
            raise CopyStateError(f"a copy that is {self.state.value} does not become complete by a copy that was not begun")
        if sequence < max(self.sequence, 1):
            raise CopyStateError(f"this copy was complete at sequence {self.sequence}: it cannot become so at {sequence}")
        return replace(self, state=CopyState.COMPLETE, sequence=sequence, other=other, took_over=False, diverged=False)

    def _must_be_complete(self, purpose: str) -> None:
        if not self.complete:
            raise CopyStateError(f"a copy that is {self.state.value} cannot {purpose}")

    # --- bytes

    def encode(self) -> bytes:
        fields = {
            "version": VERSION,
            "copy": self.copy_id,
            "state": self.state.value,
            "sequence": self.sequence,
            "other": None if self.other is None else {"copy": self.other.copy_id, "connector": self.other.connector},
            "took-over": self.took_over,
            "diverged": self.diverged,
        }
        line = json.dumps(fields).encode()
        return b"%s\n%08x\n" % (line, zlib.crc32(line))

    @classmethod
    def decode(cls, data: bytes) -> CopyRecord:
        """Raises ValueError, with a text that says what is wrong."""
        line, _, rest = data.partition(b"\n")
        if rest != b"%08x\n" % zlib.crc32(line):
            raise ValueError("its checksum is wrong")
        fields = json.loads(line)
        version = fields.pop("version", None) if isinstance(fields, dict) else None
        if version != VERSION:
            raise ValueError(f"its version is {version!r}; this program reads version {VERSION}")
        other = _field(fields, "other", dict | None)
        return cls(
            _field(fields, "copy", str),
            CopyState(_field(fields, "state", str)),
            _field(fields, "sequence", int),
            None if other is None else OtherCopy(_field(other, "copy", str), _field(other, "connector", str)),
            _field(fields, "took-over", bool),
            _field(fields, "diverged", bool),
        )


def read_record(file_system: FileSystem, directory: str) -> CopyRecord | None:
    """The record in the folder of the journal; None when there is none.  Raises StorageError for one that is damaged, OSError."""
    path = join(directory, RECORD_FILE)
    if not file_system.exists(path):
        return None
    try:
        return CopyRecord.decode(file_system.read(path))
    except ValueError as error:
        raise StorageError(
            f"{path} is damaged: {error}.  Nobody can tell whether another copy of these data is active; when none is, "
            "`mqbroker activation set` writes the file anew"
        ) from error


def open_record(file_system: FileSystem, directory: str, first: Callable[[], CopyRecord]) -> CopyRecord:
    """As :func:`read_record`; where there is no record ``first`` makes it, and it is durable when this returns: others note its id."""
    record = read_record(file_system, directory)
    if record is None:
        record = first()
        write_record(file_system, directory, record)
    return record


def write_record(file_system: FileSystem, directory: str, record: CopyRecord) -> None:
    """Replace the record; after a crash there is the old one or the new one.  Durable when this returns.  Raises OSError."""
    path = join(directory, RECORD_FILE)
    new = f"{path}.new"
    if file_system.exists(new):
        file_system.remove(new)
    file = file_system.open(new)
    try:
        file.write(0, record.encode())
        file.sync()
    finally:
        file.close()
    file_system.rename(new, path)
    file_system.sync_directory(directory)


def _check_text(name: str, text: str, size: int) -> None:
    if not 0 < len(text) <= size:
        raise ValueError(f"{name} has {len(text)} characters; it needs 1 to {size}")


def _field(fields: dict[str, Any], name: str, kind: Any) -> Any:
    value = fields.get(name)
    if name not in fields or not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"its field {name!r} is {'missing' if name not in fields else repr(value)}")
    return value
