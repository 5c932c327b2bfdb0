"""The store in files: the durable default.

It starts in two parts.  :meth:`FileStore.open` takes the folder (lock, node id) and touches no journal; :meth:`FileStore.load` reads the
journals and makes the store ready.  :meth:`FileStore.stop` ends it in order, :meth:`FileStore.abort` at once; :meth:`FileStore.withdraw`
gives a start up.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from twisted.logger import Logger

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import Clock, Recovered, StoreBatch, WritingTurn
from mqbroker.storage.disk.claim import Claim, OwnFolder, run_and_release
from mqbroker.storage.disk.diskwriter import DiskWriter, Step, run_steps
from mqbroker.storage.disk.filesystem import FileSystem
from mqbroker.storage.disk.nodelock import new_node_id
from mqbroker.storage.errors import FencedError, JournalDamagedError, StorageError
from mqbroker.storage.files.folders import check_folders, journal_node_id, make_folders, mark_folders
from mqbroker.storage.files.journal.batch import FileBatch
from mqbroker.storage.files.journal.compaction import Compactor, Sweeper
from mqbroker.storage.files.journal.journal import Journal
from mqbroker.storage.files.journal.live import LiveIndex
from mqbroker.storage.files.journal.maintenance import Maintenance
from mqbroker.storage.files.journal.segments import Segment, SegmentLog
from mqbroker.storage.files.largebodies import FileLargeBody, LargeBodies
from mqbroker.storage.files.pages.pager import FilePager
from mqbroker.storage.files.pages.recovery import adopt_pages, open_bodies
from mqbroker.storage.files.plain import PlainMessages
from mqbroker.storage.files.restore import to_recovered
from mqbroker.storage.settings import StoreSettings
from mqbroker.storage.tickets import Tickets
from mqclient.storageformat.frames import KIND_BINDINGS, KIND_MESSAGES
from mqclient.storageformat.images import Images, LogSegment, find_images
from mqclient.storageformat.records import encode_branch, encode_duplicates, encode_id_limit, encode_trim
from mqclient.storageformat.replay import State, StoredMessage
from mqclient.storageformat.replay_plain import replay_plain

ID_BLOCK = 1 << 20
"""Ids reserved at a time: a crash skips at most this many.  The next block is asked for when half of one is used."""

ID_LIMIT_KEY = "id-limit"

FORMER_IDS = 1 << 32
"""Ids left out where a former holder of the folder may still write: more than it can use, so that no page or body of its has our name."""


class Begun:
    """The first segments that a start has begun, and the ticket up to which it has written them itself.

    They ``stay`` when pages that are recorded as gone in them have lost their files, and when the folder may be another broker's.
    """

    __slots__ = ("bindings", "first_binding", "first_message", "messages", "stay", "synced")

    def __init__(self, messages: SegmentLog, bindings: SegmentLog) -> None:
        self.messages = messages
        self.first_message = messages.next_sequence
        self.bindings = bindings
        self.first_binding = bindings.next_sequence
        self.stay = False
        self.synced = 0


class FileStore(Tickets):
    """See :class:`mqbroker.messaging.ports.Store`.

    ``on_failure`` is called once, with a reason, when a write has failed: the store is of no use from then on (``failed``).
    Nothing may be asked of a store after :meth:`stop` or :meth:`abort`.
    """

    _log = Logger()

    def __init__(
        self,
        settings: StoreSettings,
        file_system: FileSystem,
        disk_writer: DiskWriter,
        clock: Clock,
        entropy: Callable[[int], bytes],
        on_failure: Callable[[str], object] | None = None,
        claim: Claim | None = None,
    ) -> None:
        super().__init__(on_failure)
        self.node_id = ""
        self._settings = settings
        self._file_system = file_system
        self._writer = disk_writer
        self._clock = clock
        self._entropy = entropy
        self._claim = claim or OwnFolder(file_system, settings.node_directory)
        self.encoded_addresses: dict[str, bytes] = {}
        self.pager: FilePager | None = None
        if settings.paging_directory is not None:
            self.pager = FilePager(self, file_system, settings, disk_writer, clock, entropy)
        self._bodies = LargeBodies(
            file_system,
            settings.large_messages_directory,
            disk_writer,
            settings.large_message_sync,
            lambda function: self.when_synced(self.last, function),
            self.fail,
        )
        self._journal: Journal
        self._index: LiveIndex
        self._loaded = False
        self._begun: Begun | None = None
        self._next_id = 1
        self._ids_asked = 1
        self._ids_alarm = 1
        self._stopped: Callable[[], object] | None = None

    # Start and stop.

    def open(self, node_id: str | None = None) -> None:
        """Claim the folder: refuse what is not ours, and learn the node id, unless others have to leave the folder before.

        ``node_id`` is the one that a folder without any gets; None = a new one.
        Raises :class:`mqbroker.storage.errors.StorageError`, OSError.
        """
        check_folders(self._file_system, self._settings)
        make_folders(self._file_system, self._settings)
        mark_folders(self._file_system, self._settings)

        def missing() -> str:
            raw = journal_node_id(self._file_system, self._settings)
            return str(uuid.UUID(bytes=raw)) if raw is not None else node_id or new_node_id(self._entropy)

        self._claim.open(missing)
        self.node_id = self._claim.node_id

    def load(self, first_id: int = 1) -> Recovered:
        """Read the journals and become ready.

        Ids begin at ``first_id`` at least (for a folder that is filled from another one).
        Raises :class:`mqbroker.storage.errors.JournalDamagedError`, FencedError, OSError; the folder is free again then, and unchanged.
        """
        try:
            self.check_open()
            self.node_id = self._claim.node_id
            recovered = self._load(first_id)
        except BaseException:
            error = run_steps(self._withdrawal())
            if error is not None:
                self._log.warn("the files of the failed start could not be removed: {error}", error=error)
            self._claim.release()
            raise
        self._loaded = True
        return recovered

    def stop(self, done: Callable[[], object]) -> None:
        """Write what is left, note that this was an orderly end, free the folder, then call ``done`` (also when that fails)."""
        self._stopped = done
        if not self._loaded or self.failed:
            self._leave([], done)
            return
        self.wait_for_own_only()
        journal = self._journal
        group = journal.commit([encode_trim(journal.messages.first)], [encode_id_limit(self._next_id)])
        self.when_synced(group.ticket, self._all_written)
        self._bodies.flush()
        journal.flush()

    def abort(self) -> None:
        """Leave at once: nothing more is written, nobody is called, the folder is free when the write under way has ended."""
        self._leave([], _nothing)

    def withdraw(self) -> None:
        """As :meth:`abort`, for a start that failed after :meth:`load`: the folder is as it was before.

        The files that this start has begun stay if anything was made durable since: somebody may have been told of it.
        """
        begun = self._begun
        untouched = begun is not None and not begun.stay and self.own.reached == begun.synced
        self._leave([], _nothing, self._withdrawal() if untouched else [])

    # The store contract.

    def next_id(self) -> int:
        number = self._next_id
        if number >= self._ids_alarm:
            self._reserve_ids()
        self._next_id = number + 1
        return number

    def ensure_ids(self, count: int) -> None:
        """See to it that the next ``count`` ids can be had without a word to the journal."""
        while self._next_id + count > self._ids_alarm:
            self._reserve_ids()

    def begin(self) -> FileBatch:
        return FileBatch(self.encoded_addresses)

    def commit(self, batch: StoreBatch) -> int:
        own: FileBatch = batch  # type: ignore[assignment]
        journal = self._journal
        pages = own.pages
        if pages is not None and self.pager is not None:
            self.pager.prepare(pages, own)
        size = own.size
        bindings = own.bindings
        if not size and bindings is None:
            if pages is None or self.pager is None:
                return self.last
            if not pages.messages:
                self.pager.apply(pages, None)
                return self.last
        group = journal.group
        if group.size + size > group.limit:
            group = journal.next_group(size)
        group.parts += own.parts
        group.size += size
        if bindings is not None:
            group.bindings += bindings
        if own.bodies is not None:
            group.bodies += own.bodies
        # The ticket first: a body that nobody names any more is removed once the work up to the last ticket is durable.
        group.ticket = self.last = ticket = self.last + 1
        self._index.apply(own.changes, group.segment)
        if pages is not None and self.pager is not None:
            self.pager.apply(pages, group)
        if own.urgent:
            if journal.busy:
                journal.urgent = True
            else:
                journal.schedule()
        elif not journal.busy:
            journal.schedule_late()
        return ticket

    def when_synced(self, ticket: int, function: Callable[..., object], *args: Any) -> None:
        """See :meth:`mqbroker.messaging.ports.Store.when_synced`."""
        if ticket > self.synced and self._loaded and not self._journal.urgent:
            self._journal.want()
        super().when_synced(ticket, function, *args)

    def create_large_body(self, body_id: int) -> FileLargeBody:
        return self._bodies.create(body_id)

    # Beyond the contract.

    def write_at_end_of(self, turn: WritingTurn) -> None:
        """Write what a turn has caused at its end."""
        self._journal.write_at_end_of(turn)

    def flush(self) -> None:
        """Write what was committed now; without this call it is written at the end of the turn."""
        self._journal.flush()

    @property
    def backlog(self) -> int:
        """Bytes handed over that are not durable yet."""
        pages = 0 if self.pager is None else self.pager.backlog
        return self._journal.backlog + self._bodies.in_flight + pages

    def _load(self, first_id: int) -> Recovered:
        plain = PlainMessages()
        images, state = self._read(plain)
        node = uuid.UUID(self.node_id).bytes
        settings = self._settings
        claim = self._claim
        messages = SegmentLog(
            self._file_system, settings.journal_directory, KIND_MESSAGES, settings.journal_file_size, node, self._entropy, claim
        )
        bindings = SegmentLog(
            self._file_system, settings.bindings_directory, KIND_BINDINGS, settings.bindings_file_size, node, self._entropy, claim
        )
        self._index = LiveIndex(messages, bindings)
        named = {stored.record.body_id for stored in state.messages.values() if stored.record.body_id is not None} | state.pages.bodies()
        recovered = self._adopt(images, state, plain, messages, bindings)
        gone = [] if self.pager is None else self.pager.gone_records()
        begun = self._begun = Begun(messages, bindings)
        messages.roll(images.mark)
        bindings.roll(images.mark)
        self._journal = Journal(
            messages,
            bindings,
            self._bodies,
            self,
            self._writer,
            self._clock,
            settings.journal_datasync,
            images.mark,
            self.pager,
            claim,
        )
        self._next_id = self._ids_asked = max(state.id_limit, first_id) + (FORMER_IDS if claim.token else 0)
        stale = images.messages.stale + images.bindings.stale
        if not claim.token:
            self._remove(stale)
        self._bodies.remove_orphans(named, self._own_ids)
        if self.pager is not None:
            self.pager.start(self._journal, self._index, node)
        self._begin_writing(begun, gone)
        if claim.token:
            # Not earlier: as this start has published its segments, none of these files is that of a later holder.
            self._remove(stale)
        maintenance = Maintenance(self._journal, self._index, self, self._writer, self._clock)
        Sweeper(self._journal, self._index, self._clock)
        Compactor(self._journal, self._index, self, maintenance, self._clock, settings, self.encoded_addresses)
        maintenance.trim()
        return recovered

    def _read(self, plain: PlainMessages) -> tuple[Images, State]:
        """The images and the state on the disk, synced first: nothing may build on a page that only the dead process' system had cached."""
        settings = self._settings
        for directory in (settings.bindings_directory, settings.journal_directory):
            self._file_system.sync_directory(directory)
        try:
            images = find_images(self._file_system, settings.journal_directory, settings.bindings_directory)
        finally:
            # Writes of a later holder meanwhile would be taken for damage or, where nothing that was read names them, for left over.
            self._claim.check()
        for image in (images.bindings, images.messages):
            if image.segments:
                self._store_again(image.segments[-1])
            for segment in image.segments:
                owner = str(uuid.UUID(bytes=segment.header.node_id))
                if not self._claim.owns(owner):
                    raise JournalDamagedError(segment.path, 0, (), f"this segment belongs to node {owner}, server.lock says {self.node_id}")
        return images, replay_plain(images, plain)

    def _adopt(self, images: Images, state: State, plain: PlainMessages, messages: SegmentLog, bindings: SegmentLog) -> Recovered:
        """Make the segments that were found the beginning of the logs, with what is live in them."""
        places: list[dict[int, Segment]] = []
        for image, log in ((images.messages, messages), (images.bindings, bindings)):
            log.adopt([Segment(each.header, each.path, each.end) for each in image.segments], image.first)
            places.append({segment.sequence: segment for segment in log.segments})
        segments = places[0]
        for record_id, (sequence, record) in state.duplicates.items():
            self._index.put_numbered(record_id, encode_duplicates(record), segments[sequence])
        for branch_id, branch in state.branches.items():
            self._index.put_numbered(branch_id, encode_branch(branch.record), segments[branch.sequence])
        for key, binding in state.bindings.items():
            self._index.put_binding(key, binding.encoded, places[1][binding.sequence])
        index = self._index

        def placed(message: Message, stored: StoredMessage) -> None:
            index.place(message, stored.references, segments[stored.sequence])
            if stored.record.branch_id:
                index.put_prepared(stored.record.branch_id, message)

        bodies = open_bodies(state.pages, self._bodies)
        if self.pager is not None:
            adopt_pages(self.pager, state.pages, bodies, segments, index, self._settings.journal_datasync)
        elif state.pages:
            raise StorageError("the journal refers to pages, but no paging-directory is set")
        recovered = to_recovered(state, self._bodies, placed, bodies, plain)
        index.place_plain(plain.messages.values(), segments)
        return recovered

    @property
    def _own_ids(self) -> int | None:
        """The first id that a later holder of the folder may use; None where there is none as long as this store is open."""
        return self._next_id if self._claim.token else None

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            self._file_system.remove(path)

    def _begin_writing(self, begun: Begun, gone: list[bytes]) -> None:
        """Begin the new segments, which settles where the old ones end, and reserve the first ids; all on the disk when this returns."""
        self._journal.commit([encode_trim(self._journal.messages.first), *gone], self._id_block())
        self._journal.write_now()
        begun.synced = self.own.reached
        begun.stay = bool(gone)
        if self.pager is not None:
            self.pager.remove_orphans(self._own_ids)
        self._ids_alarm = self._ids_asked - ID_BLOCK // 2
        self._claim.activated()

    def _store_again(self, segment: LogSegment) -> None:
        """Write what was read once more, and sync it.

        After a sync that failed the system takes its pages for written: another sync alone would leave them off the disk.
        """
        data = self._file_system.read(segment.path, 0, segment.end)
        file = self._file_system.open(segment.path)
        try:
            file.write(0, data)
            file.sync()
        finally:
            file.close()

    def _reserve_ids(self) -> None:
        """Half of the last block is used: ask for the next one.

        Entries with an id of the next block come behind its record in the journal, so nobody has to wait until that is on the disk.
        """
        self._journal.commit([], self._id_block())
        self._ids_alarm = self._ids_asked - ID_BLOCK // 2

    def _id_block(self) -> list[bytes]:
        """The record that reserves one more block."""
        self._ids_asked += ID_BLOCK
        record = encode_id_limit(self._ids_asked)
        self._index.put_binding(ID_LIMIT_KEY, record, self._journal.bindings.current)
        return [record]

    def _all_written(self) -> None:
        journal = self._journal
        steps: list[Step] = [journal.bindings.finish, journal.messages.finish, self._claim.leave]
        self._leave(steps, self._stopped or _nothing)

    def _withdrawal(self) -> list[Step]:
        """The steps that take back what a start has written.

        The journal of messages goes first: a frame of bindings without its other half does not count.
        """
        steps: list[Step] = [self._claim.withdraw]
        begun = self._begun
        if begun is not None and begun.stay:
            steps = [begun.messages.close, begun.bindings.close, *steps]
        elif begun is not None:
            steps = [partial(begun.messages.withdraw, begun.first_message), partial(begun.bindings.withdraw, begun.first_binding), *steps]
        return steps

    def _leave(self, steps: list[Step], done: Callable[[], object], withdrawal: Sequence[Step] = ()) -> None:
        """Close everything and free the folder, after what the disk writer has still to do."""
        self._stopped = None
        closing: list[Step] = [self._bodies.close_files]
        if self.pager is not None:
            closing.append(self.pager.close_files)
        if self._loaded:
            closing += [self._journal.messages.close, self._journal.bindings.close]
        self.close()
        self._writer.submit([partial(run_and_release, self._claim, [*steps, *closing, *withdrawal])], partial(self._left, done))

    def fail(self, error: BaseException, *text: str) -> None:
        if self._begun is not None and isinstance(error, FencedError):
            self._begun.stay = True
        super().fail(error, *text)
        if self._stopped is not None:
            self._leave([], self._stopped)

    def close(self) -> None:
        super().close()
        self._bodies.close()
        if self._loaded:
            self._journal.close()


def _nothing() -> None:
    pass
