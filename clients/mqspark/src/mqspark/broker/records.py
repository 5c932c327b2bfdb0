"""Records of the sink on a node: durable messages in a queue of its own, by which tasks and drivers agree on their work.

Records are read by browsing; only the task or driver that has written a record removes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from mqclient.core.message import ClientMessage
from mqclient.errors import DuplicateIdRejectedError, MQError
from mqclient.wire.bodies import decode_text, encode_text
from mqclient.wire.message import KEY_DUPLICATE_ID, TYPE_TEXT
from mqclient.wire.properties import LONG, STRING
from mqclient.xa import XA_RETRY, XAER_RMFAIL, XAError
from mqspark.broker.broker import Broker
from mqspark.broker.failures import OF_THE_CONNECTION
from mqspark.errors import BrokerUnreachableError

ATTEMPTS_MAX: Final = 20
"""Attempts of one call over connections that are lost before they bring its answer."""
PAUSE_SECONDS: Final = 0.2
"""Pause before a call that the broker wants to be made again."""
_log = logging.getLogger(__name__)


class Calls:
    """Calls with sessions of a node that are made again over another connection when one is lost: all of each may be made twice."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._sessions: dict[bool, Any] = {}

    def make(self, doing: str, function: Callable[[Any], Any], *, xa: bool = False, own: bool = False) -> Any:
        """The result of ``function(session)``.

        ``xa``: with a session for branches; ``own``: with a new session, closed afterwards.
        Raises ``XAError`` for an answer of the broker.
        """
        for _ in range(ATTEMPTS_MAX):
            kept = None if own else self._sessions.get(xa)
            session = self.broker.session(xa=xa) if kept is None or kept.closed else kept
            if not own:
                self._sessions[xa] = session
            try:
                return self.broker.runtime.run(function(session))
            except XAError as error:
                if error.error_code not in (XA_RETRY, XAER_RMFAIL):
                    raise
                _log.warning("%s at %s: %s", doing, self.broker.place, error)
                self.broker.runtime.pump(PAUSE_SECONDS)
            except OF_THE_CONNECTION as error:
                _log.warning("%s: the connection to %s was lost: %s", doing, self.broker.place, error)
            except MQError as error:
                self.broker.failed(error, doing)
            finally:
                if own and not session.closed:
                    self.broker.runtime.run(session.close())
        raise BrokerUnreachableError(f"{doing}: {self.broker.place} lost every connection before it answered")


class RecordQueue:
    """The records of one kind on one node, in the queue ``name``, which is made when the first one is written.

    ``what`` names them in sentences.
    """

    def __init__(self, calls: Calls, name: str, what: str) -> None:
        self._calls = calls
        self._name = name
        self._what = what
        self._is_there = False

    def find(self, selector: str) -> list[tuple[ClientMessage, str]]:
        """The records that a selector matches, oldest first, with their texts."""
        if not self._is_there and not self._calls.broker.queue_query(self._name).exists:
            return []
        self._is_there = True

        async def browse(session: Any) -> list[tuple[ClientMessage, str]]:
            consumer = await session.create_consumer(self._name, selector, browse_only=True)
            await session.start()
            found = []
            while (message := await consumer.receive_immediate()) is not None:
                body = await message.large.read() if message.large is not None else message.plain_body()
                found.append((message, decode_text(body) or ""))
            await consumer.close()
            return found

        found: list[tuple[ClientMessage, str]] = self._calls.make(f"looking for {self._what}", browse, own=True)
        return found

    def write(self, text: str, properties: Mapping[str, str | int], once: str, now: int, expiration: int = 0) -> None:
        """Write a record, durably, unless there was one with the duplicate id ``once``.  Times in ms since 1970."""
        if not self._is_there:
            self._calls.broker.create_queue(self._name)
            self._is_there = True
        given = {name: (STRING if isinstance(value, str) else LONG, value) for name, value in properties.items()}
        message = ClientMessage(
            type=TYPE_TEXT,
            durable=True,
            timestamp=now,
            expiration=expiration,
            body=encode_text(text),
            properties={**given, KEY_DUPLICATE_ID: (STRING, once)},
        )

        async def send(session: Any) -> None:
            # To this very queue: a cluster that spreads messages over its members must not take it elsewhere.
            producer = await session.create_producer(f"{self._name}::{self._name}")
            try:
                await producer.send(message)
            except DuplicateIdRejectedError:
                pass

        self._calls.make(f"writing {self._what}", send)

    def remove(self, selector: str) -> None:
        """Remove the records that a selector matches."""
        if not self.find(selector):
            return

        async def remove(session: Any) -> None:
            consumer = await session.create_consumer(self._name, selector)
            await session.start()
            while (message := await consumer.receive_immediate()) is not None:
                await message.acknowledge()
            await session.flush_acknowledgements()
            await consumer.close()

        self._calls.make(f"removing {self._what}", remove, own=True)
