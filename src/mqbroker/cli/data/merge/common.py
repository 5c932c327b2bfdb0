"""The common part of two journals: what both copies of a node had when they lost each other.

A replica repeats the files of its active broker, so up to the cut the segments of both copies have the same headers, with the same random
salt, and the same bytes. A copy that takes over begins new segments, with a salt of its own; the other copy goes on in the old ones. So the
last segment with the same header in both has the cut: where its frames differ, or end in one of the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mqbroker.storage.settings import StoreSettings
from mqclient.storageformat.errors import Loss
from mqclient.storageformat.files import Files
from mqclient.storageformat.frames import HEADER_SIZE, read_frames
from mqclient.storageformat.images import Images, LogImage, LogSegment
from mqclient.storageformat.page_messages import surviving_in_page
from mqclient.storageformat.records import Record, Trim, decode_records
from mqclient.storageformat.replay import State, StoredMessage


@dataclass(slots=True)
class CommonPart:
    """The state at the cut, with the messages in pages among its messages.

    ``whole``: nothing of it is missing, so that every message that is not in it came after the cut.  ``ids_from``: all ids from here on
    were given after the cut; None when that is not known.  ``unread_pages``: pages of which neither journal has the file any more: both
    sides have consumed all of it.
    """

    state: State = field(default_factory=State)
    whole: bool = True
    ids_from: int | None = None
    unread_pages: int = 0


def read_common(files: Files, kept: tuple[Images, StoreSettings], running: tuple[Images, StoreSettings]) -> CommonPart:
    """The part with which both journals begin.  Raises as reading a journal does."""
    (kept_images, kept_settings), (running_images, running_settings) = kept, running
    common = CommonPart()
    state = common.state
    bindings = _Shared(files, kept_images.bindings, running_images.bindings)
    for sequence, record in bindings.records():
        state.apply(sequence, record)
    messages = _Shared(files, kept_images.messages, running_images.messages)
    for sequence, record in messages.records():
        state.apply(sequence, record)
    common.whole = bindings.whole and messages.whole
    if bindings.whole:
        state.drop_unrouted()
        common.ids_from = state.id_limit
    if common.whole:
        state.drop_unprepared()
    _unfold(files, [each.paging_directory for each in (kept_settings, running_settings) if each.paging_directory is not None], common)
    return common


class _Shared:
    """The part of one journal that is in both of its images."""

    def __init__(self, files: Files, one: LogImage, other: LogImage) -> None:
        self._files = files
        ones = {segment.header.sequence: segment for segment in one.segments}
        others = {segment.header.sequence: segment for segment in other.segments}
        shared = [number for number, segment in ones.items() if number in others and others[number].header == segment.header]
        self._segments: list[tuple[LogSegment, int]] = []
        self.whole = False
        """Is every segment there that was needed at the cut?"""
        if not shared:
            return
        last = max(shared)
        end = self._same_until(ones[last], others[last])
        first = self._first(ones[last], end)
        # One of the two journals may have removed an old segment by now.
        found = [ones.get(number) or others.get(number) for number in range(first, last)]
        self.whole = None not in found
        self._segments = [(segment, segment.end) for segment in found if segment is not None] + [(ones[last], end)]

    def records(self) -> Iterator[tuple[int, Record]]:
        for segment, end in self._segments:
            for record in self._records(segment, end):
                yield segment.header.sequence, record

    def _same_until(self, one: LogSegment, other: LogSegment) -> int:
        """The end of the last frame that both files of a segment have."""
        size = min(one.end, other.end)
        ours, theirs = (memoryview(self._files.read(each.path, 0, size)) for each in (one, other))
        end = HEADER_SIZE
        for frame in read_frames(ours, one.header.seed, HEADER_SIZE, size):
            if ours[end : frame.end] != theirs[end : frame.end]:
                break
            end = frame.end
        return end

    def _first(self, last: LogSegment, end: int) -> int:
        """The oldest segment that was needed at the cut."""
        trims = (record.sequence for record in self._records(last, end) if isinstance(record, Trim))
        return max((last.header.first, *trims))

    def _records(self, segment: LogSegment, end: int) -> Iterator[Record]:
        data = self._files.read(segment.path, 0, end)
        for frame in read_frames(memoryview(data), segment.header.seed, HEADER_SIZE, end):
            yield from decode_records(frame.content)


def _unfold(files: Files, directories: list[str], common: CommonPart) -> None:
    """Move what the pages held at the cut to the messages.  The file of a page is in one of the two stores, or all of it was consumed."""
    state = common.state
    pages, state.pages.by_number = state.pages.by_number, {}
    for number, page in sorted(pages.items()):
        if page.address is None:  # its own record was in a segment that is gone
            continue
        for directory in directories:
            found = list(surviving_in_page(files, directory, number, page))
            if not any(isinstance(each, Loss) for each in found):
                break
        else:
            common.unread_pages += 1
        for each in found:
            if not isinstance(each, Loss):
                state.messages[each.record.message_id] = StoredMessage(0, each.record, each.references)
