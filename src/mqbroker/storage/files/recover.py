"""Reading the folder of a broker that does not run: strictly, or saving what can be saved from a damaged one.

Nothing here writes into the folder that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import Recovered, RecoveredBranch, RecoveredReference, StoreBatch
from mqbroker.storage.disk.diskwriter import Done, Step
from mqbroker.storage.disk.filesystem import FileSystem
from mqbroker.storage.files.bindings import to_setting
from mqbroker.storage.files.filestore import FileStore
from mqbroker.storage.files.folders import journal_node_id
from mqbroker.storage.files.largebodies import FileLargeBody, LargeBodies
from mqbroker.storage.files.pages.losses import PageFilesFound, ids_not_spoken_of, ids_spoken_of
from mqbroker.storage.files.restore import Entry, to_recovered
from mqbroker.storage.settings import StoreSettings
from mqclient.storageformat.errors import JournalDamagedError, Loss
from mqclient.storageformat.files import read_beyond_errors
from mqclient.storageformat.frames import claimed_contents
from mqclient.storageformat.images import find_images
from mqclient.storageformat.page_messages import unfold_pages
from mqclient.storageformat.records import SETTING_BINDING
from mqclient.storageformat.replay import State, replay
from mqclient.storageformat.salvage import salvage_journals

COPY_CHUNK = 1024 * 1024
"""Bytes of a large message's body that are copied at a time."""


@dataclass(slots=True)
class SalvagedState:
    """The state that the readable records add up to; ``losses`` are the places that cannot be read, ``node_id`` is raw.

    Left out and not among ``losses``: large messages whose body cannot be read as a whole (message id to body id), and messages whose
    queues went with unreadable bindings (of several queues the others keep them), messages of prepared branches whose record is lost, and
    messages in pages that no readable record of the journal counts.
    """

    state: State
    losses: list[Loss]
    missing_bodies: dict[int, int] = field(default_factory=dict)
    without_queue: list[int] = field(default_factory=list)
    without_branch: list[int] = field(default_factory=list)
    without_page: list[int] = field(default_factory=list)
    node_id: bytes | None = None


@dataclass(slots=True)
class Salvage:
    """The data that were saved.  ``next_id`` is above all ids seen; ``node_id`` is raw, None when nothing says it."""

    recovered: Recovered
    losses: list[Loss] = field(default_factory=list)
    next_id: int = 1
    node_id: bytes | None = None


def read_folder(file_system: FileSystem, settings: StoreSettings) -> Recovered:
    """The data that a start would recover.  Raises :class:`mqbroker.storage.errors.JournalDamagedError`."""
    return to_recovered(read_state(file_system, settings), _reader(file_system, settings))


def read_state(file_system: FileSystem, settings: StoreSettings) -> State:
    """The state in the journals, messages in pages included.  Raises :class:`mqbroker.storage.errors.JournalDamagedError`."""
    state = replay(find_images(file_system, settings.journal_directory, settings.bindings_directory))
    if settings.paging_directory is not None:
        for loss in unfold_pages(file_system, settings.paging_directory, state):
            raise JournalDamagedError(loss.file, loss.offset, loss.message_ids, loss.reason)
    return state


def read_settings(file_system: FileSystem, settings: StoreSettings) -> dict[tuple[str, str], str]:
    """The settings that the bindings hold; of the messages nothing is read.  Raises as :func:`read_state`."""
    state = State()
    for segment, record in find_images(file_system, settings.journal_directory, settings.bindings_directory).bindings.records():
        state.apply(segment.header.sequence, record)
    return dict(to_setting(binding.value) for key, binding in state.bindings.items() if key[0] == SETTING_BINDING)


def salvage_state(file_system: FileSystem, settings: StoreSettings) -> SalvagedState:
    """Save what can be read of a folder, however damaged, and list what is lost."""
    found = salvage_journals(file_system, settings.journal_directory, settings.bindings_directory)
    state, losses = found.state, found.losses
    saved = SalvagedState(state, losses, node_id=journal_node_id(file_system, settings))
    if settings.paging_directory is not None:
        if found.losses_of_messages:
            saved.without_page = _name_paged(file_system, settings.paging_directory, saved, found.gone)
        state.pages.drop_unrouted(lambda queue_id: True)
        losses += unfold_pages(file_system, settings.paging_directory, state)
    _drop_bodies_lost(file_system, settings, saved)
    without_queue = state.drop_unrouted()
    if found.losses_of_bindings:
        saved.without_queue = without_queue
    saved.without_branch = state.drop_unprepared()
    return saved


def salvage(file_system: FileSystem, settings: StoreSettings) -> Salvage:
    """As :func:`salvage_state`, in the form that the messaging core and :func:`refill` take."""
    saved = salvage_state(file_system, settings)
    losses = list(saved.losses)
    reader = _reader(file_system, settings)
    for message_id, body_id in saved.missing_bodies.items():
        losses.append(Loss(reader.path(body_id), 0, 0, (message_id,), "the body of a large message cannot be read as a whole"))
    if saved.without_queue:
        reason = "the queues of these messages are no longer known"
        losses.append(Loss(settings.bindings_directory, 0, 0, tuple(saved.without_queue), reason))
    if saved.without_branch:
        reason = "these messages were sent in XA branches that are no longer known"
        losses.append(Loss(settings.journal_directory, 0, 0, tuple(saved.without_branch), reason))
    if saved.without_page:
        reason = "nothing that can be read of the journal counts these messages in pages"
        losses.append(Loss(settings.paging_directory or "", 0, 0, tuple(saved.without_page), reason))
    return Salvage(recovered_of(file_system, settings, saved.state), losses, saved.state.id_limit, saved.node_id)


def recovered_of(file_system: FileSystem, settings: StoreSettings, state: State) -> Recovered:
    """The ``state``, read from this folder, for the messaging core; bodies of large messages are read from the folder."""
    return to_recovered(state, _reader(file_system, settings))


def refill(saved: Recovered, store: FileStore, written: Callable[[], object] = lambda: None) -> int:
    """Write what was saved into a store that was loaded from an empty folder; returns the ticket of the last batch.

    ``written`` is called after each message and each piece of a large body, so that what has gathered can be brought to the disk.
    """
    batch = store.begin()
    for address in saved.addresses:
        batch.put_address(address)
    for queue in saved.queues:
        batch.put_queue(queue)
    for (kind, key), value in saved.settings.items():
        batch.put_setting(kind, key, value)
    for record_id, entries in groupby(saved.duplicate_ids, lambda entry: entry.record_id):
        together = list(entries)
        if len(together) == 1:
            batch.add_duplicate_id(together[0].cache, together[0].duplicate_id, record_id)
        else:
            ids = b"".join(entry.duplicate_id for entry in together)
            batch.add_duplicate_ids(together[0].cache, len(together[0].duplicate_id), ids, record_id)
    store.commit(batch)
    bodies: dict[int, FileLargeBody] = {}
    refill_messages(saved.messages, store, written, bodies)
    refill_branches(saved.branches, store, written, bodies)
    return store.ticket()


def refill_messages(messages: Iterable[Entry], store: FileStore, written: Callable[[], object], bodies: dict[int, FileLargeBody]) -> None:
    """The part of :func:`refill` that is about messages.  ``bodies`` are those that were copied already, by id."""
    for message, references in messages:
        batch = store.begin()
        batch.add_message(_with_copied_body(message, store, bodies, written), [reference.queue_id for reference in references])
        _refill_references(batch, message, references)
        store.commit(batch)
        written()


def refill_branches(
    branches: Iterable[RecoveredBranch], store: FileStore, written: Callable[[], object], bodies: dict[int, FileLargeBody]
) -> None:
    """The part of :func:`refill` that is about branches."""
    for branch in branches:
        batch = store.begin()
        batch.put_branch(branch.record)
        for message, references in branch.messages:
            message = _with_copied_body(message, store, bodies, written)
            batch.add_prepared(branch.record.branch_id, message, [reference.queue_id for reference in references])
            _refill_references(batch, message, references)
        store.commit(batch)
        written()


def _refill_references(batch: StoreBatch, message: Message, references: list[RecoveredReference]) -> None:
    for reference in references:
        if reference.delivery_count:
            batch.delivery_count(reference.queue_id, message, reference.delivery_count)
        if reference.scheduled:
            batch.schedule(reference.queue_id, message, reference.scheduled)


def _with_copied_body(message: Message, store: FileStore, copies: dict[int, FileLargeBody], written: Callable[[], object]) -> Message:
    """The same message with its body in ``store``; messages that shared a body still do."""
    body = message.large
    if body is None:
        return message
    copy = copies.get(body.body_id)
    if copy is None:
        copy = copies[body.body_id] = store.create_large_body(body.body_id)
        for offset in range(0, body.size, COPY_CHUNK):
            copy.append(body.read(offset, COPY_CHUNK))
            written()
        copy.complete()
    else:
        copy.hold()
    message.large = copy
    return message


def _name_paged(file_system: FileSystem, directory: str, saved: SalvagedState, gone: set[int]) -> list[int]:
    """Add to the losses of the journal the messages in pages that they are about; returns those that nothing counts any more."""
    files, pages = PageFilesFound(file_system, directory), saved.state.pages
    for place, loss in enumerate(saved.losses):
        if loss.size and file_system.exists(loss.file):
            contents = claimed_contents(read_beyond_errors(file_system, loss.file), loss.offset, loss.offset + loss.size)
            ids = dict.fromkeys((*loss.message_ids, *(each for content in contents for each in ids_spoken_of(content, files, pages))))
            saved.losses[place] = replace(loss, message_ids=tuple(ids))
    named = {message_id for loss in saved.losses for message_id in loss.message_ids}
    return [message_id for message_id in ids_not_spoken_of(files, pages, gone) if message_id not in named]


def _drop_bodies_lost(file_system: FileSystem, settings: StoreSettings, saved: SalvagedState) -> None:
    """Take out large messages whose body is missing, cut off, or cannot be read."""
    reader = _reader(file_system, settings)
    messages = saved.state.messages
    whole: dict[tuple[int, int], bool] = {}
    for message_id, stored in list(messages.items()):
        record = stored.record
        if record.body_id is None or not record.body_size:
            continue
        body = record.body_id, record.body_size
        if body not in whole:
            whole[body] = _can_be_read(file_system, reader.path(record.body_id), record.body_size)
        if not whole[body]:
            saved.missing_bodies[message_id] = record.body_id
            del messages[message_id]


def _can_be_read(file_system: FileSystem, path: str, size: int) -> bool:
    """All of it: a disk may have lost some place of a file that is there and as long as ever."""
    try:
        if file_system.size(path) < size:
            return False
        for offset in range(0, size, COPY_CHUNK):
            file_system.read(path, offset, min(COPY_CHUNK, size - offset))
    except OSError:
        return False
    return True


class _NoWriter:
    """The disk writer of a folder that is only read."""

    idle = False

    def submit(self, steps: Sequence[Step], done: Done) -> None:
        raise RuntimeError("this folder is only read")


def _reader(file_system: FileSystem, settings: StoreSettings) -> LargeBodies:
    def never(function: Callable[[], object]) -> None:
        """Nothing is removed from a folder that is only read."""

    def failed(error: BaseException) -> None:
        raise error

    return LargeBodies(file_system, settings.large_messages_directory, _NoWriter(), False, never, failed)
