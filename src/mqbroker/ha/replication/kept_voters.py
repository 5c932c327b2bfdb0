"""The voters of a node, as a copy has them that is not active: on its disk."""

from __future__ import annotations

from mqbroker.ha.proof.voters import voters_in
from mqbroker.storage.disk.filesystem import FileSystem
from mqbroker.storage.files.bindings import to_setting
from mqbroker.storage.settings import StoreSettings
from mqclient.storageformat.images import find_images
from mqclient.storageformat.records import SETTING_BINDING
from mqclient.storageformat.replay import State


def kept_voters(file_system: FileSystem, settings: StoreSettings) -> tuple[str, ...]:
    """A step of the disk writer: the files must not change meanwhile.

    Raises JournalDamagedError, StorageFormatError, ValueError for a list that cannot be read, OSError.
    """
    state = State()
    bindings = find_images(file_system, settings.journal_directory, settings.bindings_directory).bindings
    for segment, record in bindings.records():
        state.apply(segment.header.sequence, record)
    return voters_in(dict(to_setting(each.value) for key, each in state.bindings.items() if key[0] == SETTING_BINDING))
