"""The duplicate ids of a broker that leaves go to its target (decision 25).

A broker of this kind takes them by the management operation ``updateDuplicateIdCache``, a text or a list of bytes for each.  A real Artemis
has that operation too, but refuses every list that is not empty.  It remembers the id of every message that it routes, though, also of one
that states no queue (an empty ``_AMQ_ROUTE_TO``) and so goes nowhere.

The ids that links of the cluster have brought stay behind.  A link names a message by the id that the message has at its sender, whichever
member it goes to: the target would take the message that the sender's link to the target itself is still to bring for a repetition.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mqbroker.config.model.matching import Wildcards, matches_binding
from mqbroker.ha.target import Target
from mqbroker.messaging.core import BRIDGE_CACHE
from mqclient.errors import MQError
from mqclient.management import ManagementError
from mqclient.wire.message import KEY_BRIDGE_DUPLICATE_ID, KEY_DUPLICATE_ID, KEY_ROUTE_TO, CoreMessage, encode_message
from mqclient.wire.properties import BYTES

if TYPE_CHECKING:
    from mqbroker.messaging.routing.duplicates import DuplicateIdCache
    from mqclient.core.batches import Batch

LINK_ID_SIZE = 24
"""Bytes of a link's duplicate id: the node id of the sender, and the id of the message there."""
IDS_PER_REQUEST = 1_000
IDS_PER_BATCH = 200
"""Messages that are sent before their answers are waited for; they stay far below the credits for an address."""
NAMED_IDS = 5
"""Ids of an address that the log names where the target does not take them."""

log = Logger(namespace="mqbroker.ha")


class DuplicateIdMove:
    """Gives duplicate ids to ``target``.  A failed link raises MQError; ids that the target does not take are named in the log.

    ``members`` are the node ids (16 bytes each) of the brokers whose links may have brought messages.
    """

    def __init__(self, target: Target, members: Collection[bytes]) -> None:
        self.moved = 0
        self._target = target
        self._members = members
        self._takes_requests = True
        self._diverted: Sequence[str] | None = None
        """Addresses from which exclusive diverts of the target take every message; None until the target was asked."""

    async def move(self, cache: DuplicateIdCache) -> None:
        ids = [each for each in cache.ids() if not self._is_of_link(cache.name, each)]
        at = await self._by_requests(cache.name, ids) if self._takes_requests else 0
        if at < len(ids):
            await self._by_messages(cache.name, ids[at:])

    def _is_of_link(self, cache: str, duplicate_id: bytes) -> bool:
        return cache.startswith(BRIDGE_CACHE) and len(duplicate_id) == LINK_ID_SIZE and duplicate_id[:16] in self._members

    async def _by_requests(self, cache: str, ids: Sequence[bytes]) -> int:
        """The number of ids that the target has taken: all, or the ones before its first refusal."""
        for start in range(0, len(ids), IDS_PER_REQUEST):
            some = ids[start : start + IDS_PER_REQUEST]
            try:
                await self._target.remember(cache, [as_parameter(each) for each in some])
            except ManagementError:
                self._takes_requests = False
                return start
            self.moved += len(some)
        return len(ids)

    async def _by_messages(self, cache: str, ids: Sequence[bytes]) -> None:
        address, key = cache, KEY_DUPLICATE_ID
        if cache.startswith(BRIDGE_CACHE):
            address, key = cache.removeprefix(BRIDGE_CACHE), KEY_BRIDGE_DUPLICATE_ID
        reason = await self._reason_against(address)
        if reason is not None:
            _tell_left(cache, ids, reason)
            return
        for start in range(0, len(ids), IDS_PER_BATCH):
            some = ids[start : start + IDS_PER_BATCH]
            refused = await self._send(address, [_only_an_id(address, key, each) for each in some])
            self.moved += len(some) - len(refused)
            if refused:
                _tell_left(cache, [some[index] for index in sorted(refused)], str(next(iter(refused.values()))))

    async def _reason_against(self, address: str) -> str | None:
        """The reason why a message that only carries an id cannot be sent to the address; None when it can."""
        if not (await self._target.session.address_query(address)).queue_names:
            return "the target remembers none for an address without a queue"
        if self._diverted is None:
            self._diverted = await self._target.exclusively_diverted()
        if any(matches_binding(each, address, Wildcards()) for each in self._diverted):
            return "an exclusive divert of the target would take the messages that carry them"
        return None

    async def _send(self, address: str, messages: Sequence[bytes]) -> dict[int, MQError]:
        """The refusals, by index.  Raises MQError when the link fails."""
        answered: Deferred[Batch] = Deferred()
        self._target.session.send_batch(address, messages, answered.callback)
        batch = await answered
        if batch.error is not None:
            raise batch.error
        return batch.refused


def as_parameter(duplicate_id: bytes) -> str | list[int]:
    """The id decoded as UTF-8, or the list of its bytes when it is not UTF-8."""
    try:
        return duplicate_id.decode()
    except UnicodeDecodeError:
        return list(duplicate_id)


def _only_an_id(address: str, key: str, duplicate_id: bytes) -> bytes:
    return encode_message(CoreMessage(address=address, properties={key: (BYTES, duplicate_id), KEY_ROUTE_TO: (BYTES, b"")}))


def _tell_left(cache: str, ids: Sequence[bytes], reason: str) -> None:
    log.warn(
        "scale-down: {count} duplicate ids of {name} are not known to the target, for {reason}: {ids}",
        count=len(ids),
        name=cache,
        reason=reason,
        ids=", ".join([each.hex() for each in ids[:NAMED_IDS]] + ["…"] * (len(ids) > NAMED_IDS)),
    )
