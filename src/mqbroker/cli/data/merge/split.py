"""The two journals after a split: the kept one, which nobody writes, and that of the running broker, which is read while it is written."""

from __future__ import annotations

import uuid
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.cli.data.merge.common import CommonPart, read_common
from mqbroker.cli.status import BadUsage, CommandError
from mqbroker.ha.proof.copy_record import CopyState, read_record
from mqbroker.storage.disk.filesystem import FileSystem
from mqbroker.storage.errors import StorageError
from mqbroker.storage.files.folders import check_folders
from mqbroker.storage.files.recover import read_state
from mqbroker.storage.mirror.former import KEPT, PREFIX, former_numbers
from mqclient.storageformat.errors import JournalDamagedError
from mqclient.storageformat.frames import StorageFormatError
from mqclient.storageformat.images import Images, find_images
from mqclient.storageformat.records import duplicate_ids_of
from mqclient.storageformat.replay import State

ATTEMPTS: Final = 10
"""Readings of the running broker's journal: segments and pages come and go between two reads of one."""


@dataclass(slots=True)
class Split:
    """Both journals, and what they began with.  ``copy_id`` is of the kept journal alone, ``node_id`` is the one of the pair, raw."""

    kept: State
    running: State
    common: CommonPart
    node_id: bytes
    copy_id: int

    def known_ids(self) -> AbstractSet[tuple[str, bytes]]:
        """The duplicate ids that the running broker has, each with the name of its cache."""
        records = (record for _, record in self.running.duplicates.values())
        return {(record.cache, each) for record in records for each in duplicate_ids_of(record)}


def kept_folders(file_system: FileSystem, folders: DataFolders, number: int | None) -> DataFolders:
    """The sub-folders ``oldreplica.n`` with this number; None: the highest that was kept after a split.  Raises :class:`BadUsage`."""
    numbers = sorted(former_numbers(file_system, str(folders.journal)))
    found = {each: folders.below(f"{PREFIX}{each}") for each in numbers}
    if number is None:
        kept = [each for each in numbers if file_system.exists(str(found[each].journal / KEPT))]
        if not kept:
            raise BadUsage(f"{folders.journal} has no oldreplica.n with a file '{KEPT}': nothing was put away there after a split")
        number = kept[-1]
    elif number not in found:
        raise BadUsage(f"--former: there is no folder {folders.journal / f'{PREFIX}{number}'}")
    chosen = found[number]
    if not file_system.exists(str(chosen.bindings)):
        raise BadUsage(f"there is no folder {chosen.bindings}: the bindings of {chosen.journal} are needed, too")
    return chosen


def read_split(file_system: FileSystem, kept: DataFolders, running: DataFolders) -> Split:
    """Read both journals; writes nothing, and takes no lock.  Raises :class:`CommandError`."""
    try:
        check_folders(file_system, kept.settings())
        record = read_record(file_system, str(running.journal))
        if record is not None and record.state is CopyState.INCOMPLETE:
            raise CommandError(f"{running.journal}: these data are incomplete: wait until this broker has copied everything (AMQ221024)")
        kept_state, kept_images = read_state(file_system, kept.settings()), _images(file_system, kept)
    except (StorageError, OSError) as error:
        raise CommandError(str(error)) from error
    if not kept_images.messages.segments:
        raise CommandError(f"{kept.journal}: there is no journal of mqbroker")
    last = kept_images.messages.segments[-1].header
    for attempt in range(ATTEMPTS):
        try:
            running_state, images = read_state(file_system, running.settings()), _images(file_system, running)
            if images.messages.node_id != last.node_id:
                raise CommandError(f"{running.journal} is not of node {uuid.UUID(bytes=last.node_id)}, as {kept.journal} is")
            common = read_common(file_system, (kept_images, kept.settings()), (images, running.settings()))
            return Split(kept_state, running_state, common, last.node_id, last.salt)
        except (JournalDamagedError, StorageFormatError, StorageError, OSError) as error:
            if attempt == ATTEMPTS - 1:
                raise CommandError(f"{error}; the journal of the running broker could not be read {ATTEMPTS} times") from error
    raise AssertionError("unreachable")


def _images(file_system: FileSystem, folders: DataFolders) -> Images:
    return find_images(file_system, str(folders.journal), str(folders.bindings))
