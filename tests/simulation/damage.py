"""A bit of a closed segment flips while the broker is down, and the operator has the journal recovered.

What may be lost then is exactly what the recovery names; of everything else every promise still holds.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from mqbroker.cli.data_recover import Loss, Salvage, salvage, write_journal
from mqbroker.cli.journal_folder import DataFolders
from mqbroker.messaging.ports import Recovered
from mqbroker.storage.errors import JournalDamagedError
from mqbroker.storage.pages import page_number
from mqbroker.storage.recover import read_folder
from mqbroker.storage.replay import find_images, record_ids
from mqbroker.storage.settings import StoreSettings
from mqclient.storageformat.frames import HEADER_SIZE, decode_segment_header, read_frames
from mqclient.storageformat.page_records import PageJournalRecord
from mqclient.storageformat.records import decode_records
from tests.simulation.disk import SimulatedDisk
from tests.simulation.model import Ledger
from tests.simulation.world import World

IDENTITY = "identity"
State = dict[int, tuple[str, tuple[tuple[str, int], ...]]]
"""By message id: the identity, and (queue name, scheduled) of each reference."""


def inflict(world: World, disk: SimulatedDisk, settings: StoreSettings) -> Damage | None:
    """Flip a bit that matters; None when there is no closed segment."""
    rng = world.generator("damage")
    images = find_images(disk, settings.journal_directory, settings.bindings_directory)
    closed = [segment for image in (images.messages, images.bindings) for segment in image.segments[:-1]]
    if not closed:
        return None
    before, files = read_folder(disk, settings), disk.files()
    segment = rng.choice(closed)
    offset = rng.randrange(segment.end)
    bit = rng.randrange(8)
    disk.flip_bit(segment.path, offset, bit)
    world.note(f"bit {bit} at {offset} of {segment.path} flips")
    return Damage(world, disk, settings, segment.path, offset, before, files, rng)


@dataclass(slots=True)
class Damage:
    """A bit flipped at ``offset`` of ``path``; ``before`` is what a start would have recovered, ``files`` what the disk held."""

    world: World
    disk: SimulatedDisk
    settings: StoreSettings
    path: str
    offset: int
    before: Recovered
    files: dict[str, bytes]
    rng: random.Random

    def __str__(self) -> str:
        return f"a bit has flipped at {self.offset} of {self.path}"

    def recover(self, error: JournalDamagedError, ledger: Ledger) -> None:
        """Check what the refused start says, put the recovered journal in place, and excuse what is lost."""
        if error.file != self.path or error.offset > self.offset:
            self.world.violation(f"{self}, but the start is refused for offset {error.offset} of {error.file}")
        salvaged = self._salvage()
        named = {
            *salvaged.missing_bodies,
            *salvaged.without_queue,
            *salvaged.without_branch,
            *(message_id for loss in salvaged.losses for message_id in self._ids_in(loss)),
        }
        self.world.note(f"recovered; lost: {[str(loss) for loss in salvaged.losses]}, in all {sorted(named)}")
        if not any(loss.file == self.path and loss.start <= self.offset for loss in salvaged.losses):
            self.world.violation(f"{self}, but the recovery names {[str(loss) for loss in salvaged.losses]}")
        after = read_folder(self.disk, self.settings)
        old, new = _state(self.before), _state(after)
        changed = {message_id for message_id in old.keys() | new.keys() if old.get(message_id) != new.get(message_id)}
        if not changed <= named:
            self.world.violation(f"{self}; messages {sorted(changed - named)} are not as they were, and the recovery does not name them")
        ledger.excuse((old.get(message_id) or new[message_id])[0] for message_id in changed)
        old_branches, new_branches = _branches(self.before), _branches(after)
        for xid in old_branches.keys() | new_branches.keys():
            if old_branches.get(xid) != new_branches.get(xid):
                touched = {*old_branches.get(xid, ()), *new_branches.get(xid, ())}
                ledger.excuse(found[0] for number in touched if (found := old.get(number) or new.get(number)) is not None)
        ledger.excuse(_duplicates(self.before) ^ _duplicates(after))
        ledger.queues_lost({queue.name for queue in self.before.queues} - {queue.name for queue in after.queues}, self.world.now)

    def _ids_in(self, loss: Loss) -> set[int]:
        """The ids of what stood in a place that is named as lost; those that can be read there now may be damaged themselves."""
        data = self.files.get(loss.file, b"")
        if len(data) < HEADER_SIZE:
            return set()
        frames = read_frames(memoryview(data), decode_segment_header(data).seed)
        lost = [frame.content for frame in frames if frame.offset < loss.end and frame.end > loss.start]
        return {number for content in lost for number in (*record_ids(content), *self._ids_in_pages(content))}

    def _ids_in_pages(self, content: memoryview) -> Iterator[int]:
        """The ids of all messages in the pages that the journal spoke of there."""
        pages = {record.page for record in decode_records(content) if isinstance(record, PageJournalRecord)}
        for path, data in self.files.items() if pages else ():
            if page_number(path.rpartition("/")[2]) in pages:
                for frame in read_frames(memoryview(data), decode_segment_header(data).seed):
                    yield from record_ids(frame.content)

    def _salvage(self) -> Salvage:
        """What ``mqbroker data recover`` does, on copies of the files."""
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            for path, content in self.disk.files().items():
                copy = root / path.lstrip("/")
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(content)
            source, target = self._folders(root), self._folders(root / "new")
            source.large_messages.mkdir(exist_ok=True)
            found = salvage(source)
            with mock.patch("os.urandom", self.rng.randbytes):
                write_journal(found, source, target)
            for loss in found.losses:
                object.__setattr__(loss, "file", loss.file.removeprefix(name))
            self.disk.replace(dict(_files(root / "new")))
        return found

    def _folders(self, root: Path) -> DataFolders:
        settings = self.settings
        names = (
            settings.journal_directory,
            settings.bindings_directory,
            settings.large_messages_directory,
            settings.paging_directory or "",
        )
        return DataFolders(*(root / name.lstrip("/") for name in names))


def _files(root: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield "/" + str(path.relative_to(root)), path.read_bytes()


def _state(recovered: Recovered) -> State:
    names = {queue.queue_id: queue.name for queue in recovered.queues}
    every = [*recovered.messages, *(entry for branch in recovered.branches for entry in branch.messages)]
    return {
        message.message_id: (
            str(message.property(IDENTITY)),
            tuple(sorted((names[reference.queue_id], reference.scheduled) for reference in references)),
        )
        for message, references in every
    }


def _branches(recovered: Recovered) -> dict[object, tuple[int, ...]]:
    """The ids of the messages that each branch has sent or acknowledged."""
    return {
        branch.record.xid: (
            *(message.message_id for message, _ in branch.messages),
            *(message_id for _, message_id in branch.record.acknowledged),
        )
        for branch in recovered.branches
    }


def _duplicates(recovered: Recovered) -> set[str]:
    return {entry.duplicate_id.replace(b"\0", b"").decode(errors="replace") for entry in recovered.duplicate_ids}
