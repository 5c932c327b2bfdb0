"""The surroundings of a broker's membership: the outside world, a start of the broker, and the broker while it is active."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from twisted.internet.defer import Deferred

if TYPE_CHECKING:
    from mqbroker.ha.shared_store.lease import Beat
    from mqbroker.imq.enhanced.desk import Desk
    from mqbroker.imq.enhanced.takeover import Data
    from mqbroker.imq.links.requests import Peers
    from mqbroker.messaging.ports import Clock
    from mqbroker.messaging.turns.turn import Turn
    from mqbroker.storage.shared.brokers import BrokerRow, State
    from mqbroker.storage.sql.database import Database


class MemberStart(Protocol):
    """A start of this broker (:class:`mqbroker.node.activation.Candidate`)."""

    def granted(self) -> None: ...

    def lost(self, reason: str) -> None: ...

    def begin_again(self, ready: Deferred[None]) -> None:
        """End at once, without answers, and seek to be active anew when ``ready`` has come."""


class ActiveSide(Protocol):
    """This broker while it is active, as its membership needs it.  All calls are made inside a turn."""

    node_id: str
    turn: Turn
    peers: Peers
    data: Data

    def linked(self) -> Collection[str]:
        """The node ids of the linked members."""

    def list_members(self, places: Sequence[str]) -> None:
        """The other members are at these places (host:port)."""

    def leave_out(self, node_ids: Collection[str]) -> None:
        """Send no clients to these members, which take over nobody now."""

    def part(self, node_id: str) -> None:
        """End the links to a member and from it, and make no other one until it announces itself anew."""

    def join(self, node_id: str) -> None:
        """The member is not to be parted any more."""

    def refuse_clients(self, reason: str | None) -> None:
        """Tell new clients to come again; None = take them."""

    def has_clients(self) -> bool: ...

    def has_transient_messages(self) -> bool:
        """Are there messages that a stop would lose?"""

    def settle_branches(self) -> None:
        """Data have come here, or to another member: what is known of transactions across brokers may go on there."""


@dataclass(frozen=True, slots=True)
class Outside:
    """The outside world: the database, a thread for rare work, one for the stamps, and the way from it to the loop."""

    database: Database
    desk: Desk
    beat: Beat
    clock: Clock
    call: Callable[[Callable[[], object]], object]
    new_owner: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Described:
    """A member with its state, the number of its messages, and how long ago it has stamped its row (ms).

    Each is None while the database does not say it.  ``failed``: a takeover of it was begun, and nobody goes on with it.
    """

    row: BrokerRow
    state: State | None
    messages: int | None
    age_ms: int | None
    failed: bool = False
