"""The segment files of one journal while the broker runs: which there are, what is still needed in each, and how they are written.

A segment gets its final name only when its header and first frames are on the disk, and only after everything in the segment before it
is: a file with a final name that cannot be read is damage, never the trace of a crash.

Files that are not needed any more become the next segments.  Their former contents never count: checksums cover the salt of their segment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mqbroker.storage.disk.claim import Claim
from mqbroker.storage.disk.diskwriter import Step
from mqbroker.storage.disk.filesystem import File, FileSystem, join
from mqclient.storageformat.files import TEMPORARY, segment_name
from mqclient.storageformat.frames import FRAME_HEADER_SIZE, HEADER_SIZE, SegmentHeader, encode_frame

SPARES_MAX = 4
"""Files of each journal that are kept for use again: to sync what overwrites old blocks takes the disk half the time, because the file does
not grow."""

FILL_BELOW = 32 * 1024
"""Bytes of a write up to which zeros are written ahead of it in a new file.

To sync what goes into room that was only reserved makes the file system note that it is written now, each time; to sync what overwrites
zeros does not.  For large writes that is not worth writing everything twice.
"""

_ZEROS = bytes(256 * 1024)
"""The zeros that are written ahead at a time."""


class Segment:
    """One file of a journal.

    ``end`` is where the next frame goes, ``synced`` how far the file is durable (offsets in bytes).  ``live`` is what of this segment is
    still needed: a stored message with its references, or the encoded record of a duplicate id or binding under its key.
    """

    __slots__ = (
        "before",
        "begun",
        "end",
        "file",
        "fill_end",
        "filled",
        "header",
        "live",
        "live_bytes",
        "path",
        "published",
        "seed",
        "sequence",
        "synced",
    )

    def __init__(self, header: SegmentHeader, path: str, end: int = HEADER_SIZE) -> None:
        self.header = header
        self.sequence = header.sequence
        self.path = path
        self.seed = header.seed
        self.end = end
        self.synced = end
        self.live: dict[Any, Any] = {}
        self.live_bytes = 0
        self.before: Segment | None = None
        """The segment before this one, until this one is begun."""
        self.begun = False
        """Its creation was handed to the disk writer."""
        self.published = False
        """This process has given the file its final name.

        The disk writer alone changes this and the following three; the loop reads them while that has nothing to do.
        """
        self.file: File | None = None
        self.filled = 0
        """How far the file was written to, zeros included, since it was new."""
        self.fill_end = 0
        """How far zeros may be written ahead; 0 in a file whose blocks were written before."""

    def write(self, offset: int, data: bytearray) -> None:
        assert self.file is not None
        self.file.write(offset, data)
        end = offset + len(data)
        if end > self.filled:
            self.filled = end
            left = self.fill_end - end
            if left > 0 and len(data) <= FILL_BELOW:
                self.file.write(end, _ZEROS if left >= len(_ZEROS) else bytes(left))
                self.filled = min(end + len(_ZEROS), self.fill_end)

    def write_frame(self, offset: int, parts: Sequence[bytes], durable: int, sync: bool = False) -> None:
        """Write the frame that ``parts`` are the content of; ``durable`` is how far the file was on the disk when it was closed."""
        self.write(offset, encode_frame(parts, self.seed, offset, durable))
        if sync:
            self.sync()

    def write_soon(self, offset: int, parts: Sequence[bytes], durable: int) -> Step | None:
        """The step that writes and syncs this frame, asked by the loop while nothing else is written.

        None where zeros are to be written behind it.
        """
        size = FRAME_HEADER_SIZE + sum(map(len, parts))
        if self.file is None or (self.fill_end and offset + size > self.filled):
            return None
        return self.file.write_soon(offset, encode_frame(parts, self.seed, offset, durable))

    def sync(self) -> None:
        assert self.file is not None
        self.file.sync()

    def make_durable(self) -> None:
        """Sync what was written; a closed file was synced before."""
        if self.file is not None:
            self.file.sync()

    def finish(self) -> None:
        """All bytes written are durable, and no more will be written."""
        self.make_durable()
        self.close()

    def close(self) -> None:
        if self.file is not None:
            file, self.file = self.file, None
            file.close()


class SegmentLog:
    """The segments of one kind in one directory, oldest first; the last one is written to."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        kind: int,
        file_size: int,
        node_id: bytes,
        entropy: Callable[[int], bytes],
        claim: Claim,
    ) -> None:
        self._claim = claim
        self._file_system = file_system
        self._entropy = entropy
        self.directory = directory
        self.kind = kind
        self.file_size = file_size
        self.node_id = node_id
        self.segments: list[Segment] = []
        self._spares: list[str] = []
        """Files for the next segments; belongs to the disk writer."""
        self.first = 1
        """The oldest sequence that is needed, as far as the journal was told."""
        self.sync_error: OSError | None = None
        """The failure of a sync before a removal: nobody knows what the files hold now."""

    @property
    def current(self) -> Segment:
        return self.segments[-1]

    @property
    def bytes_used(self) -> int:
        return sum(segment.end for segment in self.segments)

    @property
    def bytes_live(self) -> int:
        return sum(segment.live_bytes for segment in self.segments)

    def adopt(self, segments: list[Segment], first: int) -> None:
        """Continue after the segments that were found, none of which is written to again."""
        self.segments = segments
        self.first = first

    @property
    def next_sequence(self) -> int:
        return self.segments[-1].sequence + 1 if self.segments else self.first

    def roll(self, mark: int) -> Segment:
        """Begin the next segment; its file comes into being with the first frame."""
        previous = self.segments[-1] if self.segments else None
        sequence = self.next_sequence
        header = SegmentHeader(
            self.kind,
            sequence,
            self.node_id,
            int.from_bytes(self._entropy(8), "big"),
            self.first,
            HEADER_SIZE if previous is None else previous.end,
            mark,
        )
        segment = Segment(header, join(self.directory, segment_name(self.kind, sequence)))
        segment.before = previous
        self.segments.append(segment)
        return segment

    def room(self, size: int, mark: int) -> Segment:
        """The segment that takes a frame with ``size`` bytes of content: the current one, or a new one when that would grow too large."""
        current = self.segments[-1]
        if current.end > HEADER_SIZE and current.end + FRAME_HEADER_SIZE + size > self.file_size:
            return self.roll(mark)
        return current

    def cut(self) -> list[Segment]:
        """Let go the oldest segments in which nothing is needed any more; returns them.  Their files may go once that is recorded."""
        count = 0
        while count < len(self.segments) - 1 and not self.segments[count].live:
            count += 1
        gone, self.segments = self.segments[:count], self.segments[count:]
        self.first = self.segments[0].sequence
        return gone

    def write_steps(self, segment: Segment, writes: Sequence[Step], sync: bool) -> list[Step]:
        """The steps of the disk writer for these writes, all to one segment."""
        steps: list[Step] = []
        begins = not segment.begun
        if begins:
            segment.begun = True
            if segment.before is not None:
                steps.append(segment.before.finish)
                segment.before = None
            steps.append(partial(self._create, segment))
        steps += writes
        if sync or begins:
            steps.append(segment.sync)
        if begins:
            steps += (self._claim.check, partial(self._publish, segment))
        return steps

    def remove_steps(self, segments: list[Segment]) -> list[Step]:
        """Remove files.  The records that replace their contents are durable first, even where commits do not wait for that."""
        return [self._make_durable, *(partial(self._let_go, segment) for segment in segments)]

    def finish(self) -> None:
        """Sync and close the files; a step of the disk writer."""
        for segment in self.segments:
            segment.finish()
        while self._spares:
            self._file_system.remove(self._spares.pop())

    def close(self) -> None:
        """Close the files; a step of the disk writer."""
        for segment in self.segments:
            segment.close()

    def withdraw(self, first: int) -> None:
        """Remove the files of the segments from the sequence ``first`` on, the newest first; a step of the disk writer.

        Where a later holder may have read them already they stay: they say nothing that was not so.
        """
        for segment in reversed([segment for segment in self.segments if segment.sequence >= first]):
            segment.close()
            paths = [self._temporary(segment)]
            if segment.published and not self._claim.token:
                paths.append(segment.path)
            for path in paths:
                if self._file_system.exists(path):
                    self._file_system.remove(path)
        self._file_system.sync_directory(self.directory)

    def _temporary(self, segment: Segment) -> str:
        """The name of the segment's file as long as it does not count; no other holder of the folder has the same."""
        token = self._claim.token
        return f"{segment.path}.{token}{TEMPORARY}" if token else segment.path + TEMPORARY

    def _make_durable(self) -> None:
        try:
            for segment in self.segments:
                segment.make_durable()
        except OSError as error:
            self.sync_error = error
            raise

    def _let_go(self, segment: Segment) -> None:
        # A former holder may have a file open that it has published, and write to it.
        foreign = self._claim.token and not segment.published
        if foreign or len(self._spares) >= SPARES_MAX or segment.end > 2 * self.file_size:
            self._file_system.remove(segment.path)
            return
        spare = self._temporary(segment)
        self._file_system.rename(segment.path, spare)
        self._spares.append(spare)

    def _create(self, segment: Segment) -> None:
        path = self._temporary(segment)
        if self._spares:
            self._file_system.rename(self._spares.pop(), path)
            # Before anything is overwritten no name of its old content may come back after a crash.
            self._file_system.sync_directory(self.directory)
        else:
            segment.fill_end = self.file_size
        file = segment.file = self._file_system.open(path)
        file.allocate(self.file_size)
        file.write(0, segment.header.encode())

    def _publish(self, segment: Segment) -> None:
        path = self._temporary(segment)
        if self._claim.token:
            self._file_system.rename_new(path, segment.path)
        else:
            self._file_system.rename(path, segment.path)
        segment.published = True
        self._file_system.sync_directory(self.directory)
