"""Plain messages in a row: the fast way for the messages in a chunk of bytes from a busy producer or another broker (decision 9).

A message is *plain* when nothing about it needs a decision of its own: its address exists, was checked for this session before, and routes
every message to the same queues, or to the same queue of another broker; it has no schedule, and no property for the broker but its routing
type and, behind that, a new duplicate id.  A message of a bridge or a cluster connection is plain, too, when it names queues that exist
(see :mod:`mqbroker.messaging.delivery.arriving`); the properties that the link has added are removed.  Plain messages that follow each
other are stored as one batch, with their duplicate ids if each has one and all are of one length, and become visible, are counted and
answered together.  All other messages go through :meth:`mqbroker.server.session.sends.SessionSends.send`, one by one; the two ways differ
in nothing but speed.
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import TYPE_CHECKING

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Reference
from mqbroker.server.runs.property_tables import INTERNAL
from mqbroker.server.runs.run_ids import RunIds
from mqbroker.server.runs.run_targets import SEND_SIZE_MIN, RunTargets, Sender, Target
from mqclient.errors import MQError
from mqclient.wire.frames import HEADER_SIZE
from mqclient.wire.hot import VERSION_CORRELATION, send_trailer_size
from mqclient.wire.packets import NullResponse, SessionSend

if TYPE_CHECKING:
    from mqbroker.messaging.message.memory import AddressMemory
    from mqbroker.server.session_state import SessionState

_TYPE_CHANNEL = struct.Struct(">bq")
_ANSWER = struct.Struct(">ibqq")
_unpack_i32 = struct.Struct(">i").unpack_from
_pack_i64 = struct.Struct(">q").pack
_unpack_fixed = struct.Struct(">xBq").unpack_from
"""Durable and expiration, from the headers behind the user id."""
_unpack_trailer = struct.Struct(">Bq").unpack_from
_pack_answer = _ANSWER.pack
_ANSWER_LENGTH = _ANSWER.size - 4


class SendRuns:
    """Runs of plain messages of one session."""

    __slots__ = ("_begin", "_core", "_enabled", "_sender", "_server", "_session", "_targets", "_trailer")

    def __init__(self, session: SessionState, sender: Sender) -> None:
        self._session = session
        self._sender = sender
        self._server = session.server
        self._core = session.server.messaging.core
        self._begin = _TYPE_CHANNEL.pack(SessionSend.TYPE, session.channel)
        self._trailer = send_trailer_size(session.version)
        self._enabled = session.version >= VERSION_CORRELATION
        self._targets = RunTargets(session, sender)

    def take(self, frames: list[bytes], index: int) -> int:
        """Handle the frames from ``index`` on as far as they are plain; returns the index of the first that is not."""
        session, begin, trailer = self._session, self._begin, self._trailer
        target = self._targets.find(frames[index], len(frames[index]) - trailer) if self._enabled and not session.closed else None
        if target is None:
            return index
        raw, raw_size, memory, name, copies = (
            target.raw,
            len(target.raw),
            target.address.memory,
            target.address.name,
            len(target.queues) or 1,
        )
        table, turns, changes, channel, next_id = target.table, target.turns, target.changes, session.channel, self._core.store.next_id
        known, known_size, table_size, fixed_bytes, learnt_id = table.known, len(table.known), table.size, table.fixed, table.id_at
        pages, refuses = (None, True) if session.auto_commit_sends and memory.paging is None else self._room(target)
        ids: RunIds | None = None
        durable = -1
        messages: list[Message] = []
        chosen: list[Queue] = []
        answers: list[bytes | None] = []
        for data in islice(frames, index, None):
            end = len(data) - trailer
            if end < SEND_SIZE_MIN or not data.startswith(begin, 4):
                break
            headers: int = _unpack_i32(data, HEADER_SIZE)[0] + 4
            fixed = headers + 8 + raw_size
            if headers < HEADER_SIZE + 4 or fixed + 37 > end or not data.startswith(raw, headers + 8):
                break
            fixed += 17 if data[fixed] == 1 else 1
            values: tuple[int, int] = _unpack_fixed(data, fixed)
            properties = fixed + 19
            id_at = learnt_id
            if (
                end - properties != table_size
                or not data.startswith(known, properties)
                or (id_at is None and data.find(INTERNAL, properties + known_size, end) >= 0)
                or (fixed_bytes and table.differs(data, properties))
            ):
                if not table.look(data, properties, end):
                    break  # the slow way reports an error, if there is one
                known, known_size, table_size, fixed_bytes, learnt_id = table.known, len(table.known), table.size, table.fixed, table.id_at
                id_at = table.found_id
            if values[0] != durable and messages:
                break  # a message that needs no disk does not wait for later durable ones
            durable = values[0]
            if refuses and (memory.full or memory.paging is not None):
                break
            try:
                if id_at is not None or ids is not None:
                    if ids is None:
                        ids = RunIds(self._core, target.ids_name, not session.auto_commit_sends)
                    if turns is not None or not ids.take(data, properties, id_at, bool(messages)):
                        break
                message_id = next_id()
            except MQError:
                break  # the slow way tells the client
            if changes:
                buffer = target.changed(data, headers, properties, end, message_id, chosen)
            else:
                buffer = b"".join((data[HEADER_SIZE:headers], _pack_i64(message_id), data[headers + 8 : end]))
            message = Message(buffer, headers - HEADER_SIZE, name, message_id, durable != 0, values[1], properties - HEADER_SIZE)
            if pages is None:
                memory.hold(message, copies)
            messages.append(message)
            told: tuple[int, int] = _unpack_trailer(data, end)
            answers.append(_pack_answer(_ANSWER_LENGTH, NullResponse.TYPE, channel, told[1]) if told[0] else None)
        if messages:
            self._finish(target, messages, chosen, ids, pages, answers, list(map(len, frames[index : index + len(messages)])))
        return index + len(messages)

    def forget(self) -> None:
        """Forget the targets of all addresses, which are then looked up again."""
        self._targets.forget()

    def _room(self, target: Target) -> tuple[AddressMemory | None, bool]:
        """(account, refuses): the address' account when the run goes to its pages, else None; ``refuses``: the run ends when the address is
        full or pages."""
        memory, transacted = target.address.memory, not self._session.auto_commit_sends
        takes_all = self._core.paging.takes_all(memory)
        pages = memory if takes_all and not transacted and target.turns is None else None
        return pages, pages is None and not (transacted and takes_all)

    def _finish(
        self,
        target: Target,
        messages: list[Message],
        chosen: list[Queue],
        ids: RunIds | None,
        pages: AddressMemory | None,
        answers: list[bytes | None],
        sizes: list[int],
    ) -> None:
        """Store the messages of a run; delivery and answers follow in the session's order.  ``chosen`` is the queue of each message when
        queues take turns."""
        session, core, queues, count = self._session, self._core, target.queues, len(messages)
        if ids is not None:
            ids.keep(count)
        self._sender.messages_sent += count
        target.address.routed_messages += count
        for queue in queues:
            queue.arriving += count
        references = [Reference(message, queue) for message, queue in zip(messages, chosen, strict=True)] if chosen else []
        for reference in references:
            reference.queue.arriving += 1
        if not session.auto_commit_sends:
            for message in messages if queues else ():
                session.transaction.add_send(message, [Reference(message, queue) for queue in queues])
            for reference in references:
                session.transaction.add_send(reference.message, [reference])
            if ids is not None:
                ids.join(session.transaction)
            session.context.run(0, session.finish_run, answers, sizes)
            return
        ticket, durable = 0, messages[0].durable
        stored = [reference for reference in references if reference.queue.definition.durable] if durable and references else ()
        if pages is not None or ids or (durable and target.durable_ids) or stored:
            batch = core.store.begin()
            if pages is not None:
                core.paging.page_run(batch, pages, messages, queues)
            elif durable and target.durable_ids:
                batch.add_messages(messages, target.durable_ids)
            for reference in stored:
                batch.add_message(reference.message, (reference.queue.queue_id,))
            if ids:
                ids.store(batch)
            ticket = core.commit(batch) if pages is None else core.store.commit(batch)
        if pages is not None:
            session.context.run(ticket, session.finish_run, answers, sizes)
            return
        encoded = (
            sum([len(message.buffer) for message in messages]) if target.changes else sum(sizes) - count * (HEADER_SIZE + self._trailer)
        )
        session.context.run(ticket, self._arrive, queues, messages, references, answers, sizes, encoded)

    def _arrive(
        self,
        queues: tuple[Queue, ...],
        messages: list[Message],
        references: list[Reference],
        answers: list[bytes | None],
        sizes: list[int],
        encoded: int,
    ) -> None:
        """The messages, of ``encoded`` bytes, are stored: give them to their queues, and answer the sender."""
        deliver = self._server.messaging.sending.deliver
        for queue in queues:
            if queue.deleted:
                deliver([Reference(message, queue) for message in messages])
            else:
                queue.add_arrived(messages, messages[0].durable, encoded)
        if references:
            deliver(references)
        self._session.finish_run(answers, sizes)
