"""Pages as the broker knows them while it runs: the messages of each, which queue has settled which, and the journal's records of that.

A page costs memory only by its queues, and a queue by one bit per message from its first acknowledgement until it is done with the page.
The messages themselves are in the file alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from mqbroker.storage.disk.filesystem import File, join
from mqbroker.storage.files.largebodies import FileLargeBody
from mqclient.storageformat.files import page_name
from mqclient.storageformat.frames import HEADER_SIZE, SegmentHeader
from mqclient.storageformat.page_records import encode_page, encode_page_body, encode_page_queue

if TYPE_CHECKING:
    from mqbroker.messaging.ports import PagedMessage, PageListener
    from mqbroker.storage.files.journal.segments import Segment


class Kept:
    """A fact about pages that must be in the journal as long as it holds.

    ``segment`` has the oldest record that is needed for it, None when there is none; ``kept_size`` are the bytes that it counts there.
    """

    __slots__ = ("kept_size", "segment")

    def __init__(self) -> None:
        self.segment: Segment | None = None
        self.kept_size = 0

    def record(self) -> bytes:
        """One record that says all of it."""
        raise NotImplementedError


class Page(Kept):
    """One page.

    ``end`` is where the next frame goes and ``messages`` how many were appended; ``readable_end`` is how far both file and journal are
    durable, with ``readable`` messages.  ``appended`` are the bytes of messages before compression.  ``writes`` are groups of the journal
    that have something for this page and are not durable.  ``recovered`` pages are from before the start: non-durable messages in them do
    not count.
    """

    __slots__ = (
        "appended",
        "begun",
        "bodies",
        "closed",
        "end",
        "file",
        "folder",
        "gone",
        "header",
        "messages",
        "number",
        "path",
        "queues",
        "readable",
        "readable_end",
        "recovered",
        "seed",
        "writes",
    )

    def __init__(self, folder: Folder, header: SegmentHeader, recovered: bool = False) -> None:
        super().__init__()
        self.folder = folder
        self.header = header
        self.number = header.sequence
        self.path = join(folder.directory, page_name(header.sequence))
        self.seed = header.seed
        self.recovered = recovered
        self.appended = 0
        self.end = HEADER_SIZE
        self.messages = 0
        self.readable_end = HEADER_SIZE
        self.readable = 0
        self.writes = 0
        self.closed = recovered
        """Nothing is appended any more."""
        self.gone = False
        self.begun = recovered
        """Its creation was handed to the disk writer."""
        self.file: File | None = None
        """Belongs to the disk writer."""
        self.queues: dict[int, PageQueue] = {}
        self.bodies: dict[int, PageBody] = {}
        """By the index of the large message."""

    def record(self) -> bytes:
        shares = [(queue_id, queue.recorded) for queue_id, queue in self.queues.items() if queue.recorded]
        return encode_page(self.number, self.end, self.messages, self.folder.address, shares)

    @property
    def settled(self) -> bool:
        """Has nobody anything left here?"""
        return not self.writes and all(queue.acknowledged == queue.messages for queue in self.queues.values())

    def close_file(self) -> None:
        """A step of the disk writer."""
        if self.file is not None:
            file, self.file = self.file, None
            file.close()


class PageWrite:
    """The messages of a group for one page, in chunks, each of which becomes a frame."""

    __slots__ = ("arrived", "chunks", "end", "frames", "messages", "size", "total")

    def __init__(self) -> None:
        self.chunks: list[tuple[int, list[bytes]]] = []
        """Index of the first message, bytes."""
        self.size = 0
        """Bytes in the last chunk."""
        self.total = 0
        """Bytes in all of them."""
        self.arrived: dict[int, tuple[int, int]] = {}
        """Queue id to (messages, durable ones)."""
        self.frames: list[tuple[int, list[bytes]]] = []
        self.end = 0
        self.messages = 0


class PageQueue(Kept):
    """A queue's part of a page.

    ``messages`` can be read, ``acknowledged`` of them are settled and ``taken`` are in memory, not settled.  The ``durable_`` counts are
    those that survive a restart.  ``recorded`` counts durable messages that were appended, also ones that cannot be read yet.
    ``greatest`` is the greatest message id up to the end of the page, once all of it was looked through for this queue, else 0.
    """

    __slots__ = (
        "acknowledged",
        "bits",
        "details",
        "durable_acknowledged",
        "durable_messages",
        "durable_taken",
        "early",
        "greatest",
        "messages",
        "page",
        "queue_id",
        "recorded",
        "taken",
    )

    def __init__(self, page: Page, queue_id: int) -> None:
        super().__init__()
        self.page = page
        self.queue_id = queue_id
        self.messages = 0
        self.acknowledged = 0
        self.taken = 0
        self.recorded = 0
        self.greatest = 0
        self.durable_messages = 0
        self.durable_acknowledged = 0
        self.durable_taken = 0
        self.bits = bytearray()
        """Bit n: the message of index n is settled."""
        self.early = bytearray()
        """Bit n: the message of index n was taken before its turn, and is not to be read again."""
        self.details: dict[int, tuple[int, int]] = {}
        """Index to (delivery count, scheduled ms or NOT_RECORDED), where the journal says something of it."""

    @property
    def remaining(self) -> int:
        """Messages that can be read and were not."""
        return self.messages - self.acknowledged - self.taken

    @property
    def durable_remaining(self) -> int:
        return self.durable_messages - self.durable_acknowledged - self.durable_taken

    @property
    def done(self) -> bool:
        """Nothing of the page is left for the queue, now or later."""
        return self.page.closed and not self.page.writes and self.acknowledged == self.messages

    def record(self) -> bytes:
        done = self.done
        details = [] if done else [(index, count, time) for index, (count, time) in self.details.items()]
        bits = b"" if done else bytes(self.bits)
        return encode_page_queue(self.queue_id, self.page.number, self.durable_acknowledged, bits, details)


class Passage(NamedTuple):
    """Messages that a reader would pass without reading them; it does so when the batch that settles them is committed.

    ``ranges`` are (a queue's part of a page, first index, indexes, messages, durable ones) of the messages that are settled.  ``taken`` are
    messages on the way that come into memory instead.  ``go_on`` moves the reader.
    """

    ranges: list[tuple[PageQueue, int, int, int, int]]
    messages: int
    taken: list[PagedMessage]
    go_on: Callable[[], object]


class PageBody(Kept):
    """The body of a large message in a page, until all queues of it are done with it."""

    __slots__ = ("body", "index", "page", "queue_ids")

    def __init__(self, page: Page, index: int, body: FileLargeBody, queue_ids: set[int]) -> None:
        super().__init__()
        self.page = page
        self.index = index
        self.body = body
        self.queue_ids = queue_ids

    def record(self) -> bytes:
        return encode_page_body(self.page.number, self.index, self.body.body_id, self.body.size, sorted(self.queue_ids))


class Folder:
    """See :class:`mqbroker.messaging.ports.PageFolder`.  ``pages`` ascend by number; ``current`` is the one that takes messages."""

    __slots__ = ("_numbers", "address", "begun", "current", "directory", "listener", "messages", "pages")

    def __init__(self, address: str, directory: str) -> None:
        self.address = address
        self.directory = directory
        self.pages: dict[int, Page] = {}
        self._numbers: list[int] = []
        self.current: Page | None = None
        self.listener: PageListener | None = None
        self.messages = 0
        self.begun = False
        """The directory is there."""

    @property
    def page_count(self) -> int:
        return len(self.pages)

    def queue_ids(self) -> set[int]:
        return {queue_id for page in self.pages.values() for queue_id, queue in page.queues.items() if not queue.done}

    def remaining(self, queue_id: int, durable: bool = False) -> int:
        parts = [page.queues[queue_id] for page in self.pages.values() if queue_id in page.queues]
        return sum(part.durable_remaining if durable else part.remaining for part in parts)

    def add(self, page: Page) -> None:
        """The page with the highest number."""
        self.pages[page.number] = page
        self._numbers.append(page.number)

    def remove(self, page: Page) -> None:
        del self.pages[page.number]
        del self._numbers[bisect_left(self._numbers, page.number)]

    def first(self) -> Page | None:
        return self.after(0)

    def after(self, number: int) -> Page | None:
        """The first page with a higher number."""
        at = bisect_right(self._numbers, number)
        return self.pages[self._numbers[at]] if at < len(self._numbers) else None
