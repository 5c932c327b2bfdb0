"""The replay of a start: as ``replay``, with most messages made at once (see ``plain``)."""

from __future__ import annotations

from mqbroker.storage.errors import JournalDamagedError
from mqbroker.storage.plain import PlainMessages, place_of
from mqbroker.storage.replay import Images, LogImage, State, StoredMessage, record_ids
from mqclient.storageformat.frames import StorageFormatError
from mqclient.storageformat.records import (
    AcknowledgeRecord,
    DeliveryCountRecord,
    MessageRecord,
    Reader,
    ScheduleRecord,
    decode_records,
)


def replay_plain(images: Images, plain: PlainMessages) -> State:
    """Everything that the journals of a folder hold; messages that are not in ``State.messages`` are in ``plain``."""
    state = State()
    for segment, record in images.bindings.records():
        state.apply(segment.header.sequence, record)
    _replay_messages(images.messages, state, plain)
    plain.drop_unrouted(state.queue_ids())
    state.drop_unrouted()
    state.drop_unprepared()
    return state


def _replay_messages(image: LogImage, state: State, plain: PlainMessages) -> None:
    for segment, frame in image.frames():
        sequence = segment.header.sequence
        content = frame.content.tobytes()
        size = len(content)
        reader = Reader(frame.content)
        records = decode_records(frame.content, reader)
        try:
            while reader.at < size:
                reader.at = plain.take(content, reader.at, sequence, state.messages)
                if reader.at < size:
                    record = next(records)
                    if isinstance(record, MessageRecord | AcknowledgeRecord | DeliveryCountRecord | ScheduleRecord):
                        _make_stored(record.message_id, state, plain)
                    state.apply(sequence, record)
        except StorageFormatError as error:
            raise JournalDamagedError(segment.path, frame.offset, record_ids(frame.content), str(error)) from error
    state.id_limit = max(state.id_limit, plain.highest + 1)


def _make_stored(message_id: int, state: State, plain: PlainMessages) -> None:
    """A plain message has become one of which there is more to say."""
    message = plain.messages.pop(message_id, None)
    if message is not None:
        sequence, queue_id = place_of(message)
        record = MessageRecord(message_id, message.headers, (queue_id,), message.buffer, None, None, 0, False)
        state.messages[message_id] = StoredMessage(sequence, record, queue_id)
