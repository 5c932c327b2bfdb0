"""A bit of a closed segment or of a page flips while the broker is down, and the operator has the journal recovered.

What may be lost then is exactly what the recovery names; of everything else every promise still holds.  Damage of a segment, or of the
header of a page, refuses the start.  Damage of anything else in a page ends the broker when that place is read, which may be never.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.cli.data.recover import salvage, write_journal
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import Recovered
from mqbroker.storage.disk.filesystem import join
from mqbroker.storage.errors import JournalDamagedError
from mqbroker.storage.files.recover import SalvagedState, read_folder
from mqbroker.storage.settings import StoreSettings
from mqclient.storageformat.errors import Loss
from mqclient.storageformat.files import folder_name, page_name, page_number
from mqclient.storageformat.frames import HEADER_SIZE, StorageFormatError, decode_segment_header, read_frames
from mqclient.storageformat.images import Images, find_images, record_ids
from mqclient.storageformat.page_messages import page_records
from mqclient.storageformat.page_records import PageJournalRecord
from mqclient.storageformat.records import decode_records
from mqclient.storageformat.replay import replay
from tests.simulation.model import Ledger
from tests.simulation.values import NUMBER, value_name
from tests.simulation.world import World
from tests.support.disk import SimulatedDisk

IDENTITY = "identity"
State = dict[int, tuple[str, tuple[tuple[str, int], ...]]]
"""By message id: the identity, and (queue name, scheduled) of each reference."""


def inflict(world: World, disk: SimulatedDisk, settings: StoreSettings) -> Damage | None:
    """Flip a bit that matters; None when there is neither a closed segment nor a page."""
    rng = world.generator("damage")
    disk.forget_failures()  # meant for the broker
    images = find_images(disk, settings.journal_directory, settings.bindings_directory)
    closed = [(segment.path, segment.end) for image in (images.messages, images.bindings) for segment in image.segments[:-1]]
    pages = _pages(images, settings)
    if not closed and not pages:
        return None
    path, end = rng.choice(pages if pages and (not closed or rng.random() < 0.6) else closed)
    damage = Damage(world, disk, settings, path, rng.randrange(end), rng.randrange(8), rng)
    damage.flip()
    world.note(f"bit {damage.bit} at {damage.offset} of {path} flips")
    return damage


def _pages(images: Images, settings: StoreSettings) -> list[tuple[str, int]]:
    """Path and end of the pages that are needed."""
    found = sorted(replay(images).pages.by_number.items())
    directory = join(settings.paging_directory or "", "")
    return [(join(directory + folder_name(page.address or ""), page_name(number)), page.end) for number, page in found]


@dataclass(slots=True)
class Damage:
    """A bit flipped at ``offset`` of ``path``.

    ``before`` is what a start would have recovered without, ``files`` what the disk held: both are looked at when the operator acts.
    """

    world: World
    disk: SimulatedDisk
    settings: StoreSettings
    path: str
    offset: int
    bit: int
    rng: random.Random
    before: Recovered = field(default_factory=Recovered)
    files: dict[str, bytes] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"a bit has flipped at {self.offset} of {self.path}"

    @property
    def in_page(self) -> bool:
        return self.path.endswith(".page")

    @property
    def late(self) -> bool:
        """Is it seen only when the place is read?"""
        return self.in_page and self.offset >= HEADER_SIZE

    @property
    def still_there(self) -> bool:
        """A page goes when it is consumed."""
        return self.disk.exists(self.path)

    def flip(self) -> None:
        self.disk.flip_bit(self.path, self.offset, self.bit)

    def check(self, error: JournalDamagedError) -> None:
        """Does the refused start say what is damaged?"""
        if error.file != self.path or error.offset > self.offset:
            self.world.violation(f"{self}, but the start is refused for offset {error.offset} of {error.file}")

    def recover(self, ledger: Ledger) -> None:
        """Put the recovered journal in place, and excuse what is lost."""
        self.flip()
        self.before, self.files = read_folder(self.disk, self.settings), self.disk.files()
        self.flip()
        in_pages = self._ids_in_all_pages()
        salvaged = self._salvage()
        told = {
            *salvaged.missing_bodies,
            *salvaged.without_queue,
            *salvaged.without_branch,
            *salvaged.without_page,
            *(message_id for loss in salvaged.losses for message_id in loss.message_ids),
        }
        named = told | {message_id for loss in salvaged.losses for message_id in self._ids_in(loss)}
        self.world.note(f"recovered; lost: {[str(loss) for loss in salvaged.losses]}, in all {sorted(named)}")
        if not any(loss.file == self.path and loss.offset <= self.offset for loss in salvaged.losses):
            self.world.violation(f"{self}, but the recovery names {[str(loss) for loss in salvaged.losses]}")
        after = read_folder(self.disk, self.settings)
        old, new = _state(self.before), _state(after)
        changed = {message_id for message_id in old.keys() | new.keys() if old.get(message_id) != new.get(message_id)}
        unnamed = (old.keys() - new.keys()) & in_pages - told
        if unnamed and not self.in_page:
            self.world.violation(f"{self}; messages {sorted(unnamed)} in pages are lost, and the recovery does not name them")
        # A queue whose removal cannot be read is back, with messages of which nothing was lost.
        named |= _back_with_queues(self.before, after) if self.path.startswith(self.settings.bindings_directory) else set()
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
        lost = [frame.content for frame in frames if frame.offset < loss.offset + loss.size and frame.end > loss.offset]
        if loss.file.endswith(".page"):
            return {record.message_id for content in lost for _, record in page_records(content)}
        return {number for content in lost for number in (*record_ids(content), *self._ids_in_pages(content))}

    def _ids_in_all_pages(self) -> set[int]:
        return {number for path, data in self.files.items() if path.endswith(".page") for number in _ids_in_page(data)}

    def _ids_in_pages(self, content: memoryview) -> Iterator[int]:
        """The ids of all messages in the pages that the journal spoke of there."""
        pages = {record.page for record in decode_records(content) if isinstance(record, PageJournalRecord)}
        for path, data in self.files.items() if pages else ():
            if page_number(path.rpartition("/")[2]) in pages:
                yield from _ids_in_page(data)

    def _salvage(self) -> SalvagedState:
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


def _ids_in_page(data: bytes) -> Iterator[int]:
    """The ids of its messages: none when the broker died before the header of the page was whole."""
    with suppress(StorageFormatError):
        for frame in read_frames(memoryview(data), decode_segment_header(data).seed):
            yield from (record.message_id for _, record in page_records(frame.content))


def _files(root: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield "/" + str(path.relative_to(root)), path.read_bytes()


def _state(recovered: Recovered) -> State:
    names = {queue.queue_id: queue.name for queue in recovered.queues}
    every = [*recovered.messages, *(entry for branch in recovered.branches for entry in branch.messages)]
    return {
        message.message_id: (
            _name_of(message),
            tuple(sorted((names[reference.queue_id], reference.scheduled) for reference in references)),
        )
        for message, references in every
    }


def _name_of(message: Message) -> str:
    """The name by which the ledger knows a message."""
    identity = message.property(IDENTITY)
    return value_name(message.address, message.property(NUMBER)) if identity is None else str(identity)


def _back_with_queues(before: Recovered, after: Recovered) -> set[int]:
    """The ids of messages that were gone and are there again, on queues that were gone, too."""
    known = {queue.queue_id for queue in before.queues}
    return {message.message_id for message, references in after.messages if not known & {reference.queue_id for reference in references}}


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
