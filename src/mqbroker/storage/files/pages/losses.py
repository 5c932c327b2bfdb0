"""Messages that a damaged folder has lost with its pages: at places that cannot be read, and in pages that no readable record names.

More messages may be named here than are lost: a page that the journal does not name may never have been confirmed to anybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mqbroker.storage.disk.filesystem import FileSystem, join
from mqclient.storageformat.files import is_folder_name, page_number, read_beyond_errors
from mqclient.storageformat.frames import (
    HEADER_SIZE,
    StorageFormatError,
    decode_segment_header,
    find_frames,
    frame_at,
)
from mqclient.storageformat.page_messages import is_durable, page_records
from mqclient.storageformat.page_records import (
    PageAcknowledgeRecord,
    PageGoneRecord,
    PageJournalRecord,
    PageQueueRecord,
    PageRecord,
)
from mqclient.storageformat.page_state import StoredPages, has_bit
from mqclient.storageformat.records import decode_records


class PageFilesFound:
    """The page files of a folder, whoever names them, and their messages."""

    def __init__(self, file_system: FileSystem, directory: str) -> None:
        self._file_system = file_system
        self._paths: dict[int, str] = {}
        self._read: dict[int, dict[int, int]] = {}
        for folder in file_system.list(directory) if file_system.exists(directory) else ():
            inside = join(directory, folder)
            for name in file_system.list(inside) if is_folder_name(folder) else ():
                number = page_number(name)
                if number is not None:
                    self._paths[number] = join(inside, name)

    def numbers(self) -> list[int]:
        return sorted(self._paths)

    def messages(self, number: int) -> dict[int, int]:
        """The ids of the durable messages of a page that can be read, by index; empty when there is no such file."""
        found = self._read.get(number)
        if found is None:
            found = self._read[number] = dict(self._messages(number, self._paths[number])) if number in self._paths else {}
        return found

    def _messages(self, number: int, path: str) -> Iterator[tuple[int, int]]:
        try:
            data = read_beyond_errors(self._file_system, path)
            seed = replace(decode_segment_header(data, lenient=True), sequence=number).seed
        except (OSError, StorageFormatError):
            return
        at = HEADER_SIZE
        while at < len(data):
            frame = frame_at(memoryview(data), at, seed) or next(find_frames(data, seed, at + 1), None)
            if frame is None:
                return
            try:
                yield from ((index, record.message_id) for index, record in page_records(frame.content) if is_durable(record))
            except StorageFormatError:
                pass
            at = frame.end


def ids_spoken_of(content: memoryview, files: PageFilesFound, pages: StoredPages) -> list[int]:
    """The messages in pages of which ``content``, a lost place of the journal, seems to say something that nothing else says."""
    ids: dict[int, None] = {}
    try:
        for record in decode_records(content):
            if isinstance(record, PageJournalRecord):
                messages = files.messages(record.page)
                ids.update((messages[index], None) for index in messages if _concerns(record, index, pages))
    except StorageFormatError:
        pass
    return list(ids)


def ids_not_spoken_of(files: PageFilesFound, pages: StoredPages, gone: set[int]) -> list[int]:
    """The messages in page files that nothing which can be read of the journal counts; ``gone`` are pages that are recorded as gone."""
    ids: list[int] = []
    for number in files.numbers():
        page = pages.by_number.get(number)
        counted = 0 if page is None or page.address is None else page.messages
        if number not in gone:
            ids += (message_id for index, message_id in files.messages(number).items() if index >= counted)
    return ids


def _concerns(record: PageJournalRecord, index: int, pages: StoredPages) -> bool:
    if isinstance(record, PageRecord):
        known = pages.by_number.get(record.page)
        return known is None or known.address is None or index >= known.messages
    if isinstance(record, PageAcknowledgeRecord):
        return record.first <= index < record.first + record.indexes
    if isinstance(record, PageQueueRecord):
        return not record.bits or has_bit(record.bits, index) or any(index == detail[0] for detail in record.details)
    return isinstance(record, PageGoneRecord) or index == record.index
