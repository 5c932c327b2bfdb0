"""Replay of long journals: as ``replay``, with the usual records in a tight loop that the caller brings.

A million plain messages (for one queue, with all in their buffer) and their acknowledgements are common.  The broker makes its working
object of each message (``mqbroker.storage.files.plain``); a program that only reads a folder keeps the places (``surviving``).
"""

from __future__ import annotations

from collections.abc import Container
from typing import Protocol

from mqclient.storageformat.errors import JournalDamagedError
from mqclient.storageformat.frames import RecordDecoder, StorageFormatError
from mqclient.storageformat.images import Images, LogImage, record_ids
from mqclient.storageformat.records import (
    AcknowledgeRecord,
    DeliveryCountRecord,
    MessageRecord,
    ScheduleRecord,
    decode_records,
)
from mqclient.storageformat.replay import State, StoredMessage


class Plain(Protocol):
    """Plain messages that are not acknowledged yet, in any form."""

    highest: int
    """The highest message id seen."""

    def take(self, content: bytes, at: int, sequence: int, others: Container[int]) -> int:
        """Take in the records of a frame from offset ``at`` on, up to one that is not plain or is about one of ``others``.

        Returns the offset of that record, or the size of ``content``.  ``sequence`` is that of the segment.
        """

    def take_out(self, message_id: int) -> StoredMessage | None:
        """Take a message out that is plain no more, to be one of the others.  None when it is not among the plain ones."""

    def drop_unrouted(self, queue_ids: Container[object]) -> None:
        """Forget messages on other queues than these."""


def replay_plain(images: Images, plain: Plain, buffers: bool = True) -> State:
    """The state that the journals of a folder hold; messages that are not in ``State.messages`` are in ``plain``.

    Without ``buffers`` the messages are recorded without their content.
    """
    state = State()
    for segment, record in images.bindings.records():
        state.apply(segment.header.sequence, record)
    _replay_messages(images.messages, state, plain, buffers)
    plain.drop_unrouted(state.queue_ids())
    state.drop_unrouted()
    state.drop_unprepared()
    return state


def _replay_messages(image: LogImage, state: State, plain: Plain, buffers: bool) -> None:
    for segment, frame in image.frames():
        sequence = segment.header.sequence
        content = frame.content.tobytes()
        size = len(content)
        decoder = RecordDecoder(frame.content)
        records = decode_records(frame.content, decoder)
        try:
            while decoder.at < size:
                decoder.at = plain.take(content, decoder.at, sequence, state.messages)
                if decoder.at < size:
                    record = next(records)
                    if isinstance(record, MessageRecord | AcknowledgeRecord | DeliveryCountRecord | ScheduleRecord):
                        stored = plain.take_out(record.message_id)
                        if stored is not None:
                            state.messages[record.message_id] = stored
                        if not buffers and isinstance(record, MessageRecord):
                            record.buffer = b""
                    state.apply(sequence, record)
        except StorageFormatError as error:
            raise JournalDamagedError(segment.path, frame.offset, record_ids(frame.content), str(error)) from error
    state.id_limit = max(state.id_limit, plain.highest + 1)
