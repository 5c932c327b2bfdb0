"""Members of a cluster of peers follow one record: a broker that stays with another one is not linked [B9]."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.logger import Logger

from mqbroker.imq.links.requests import Peer, Peers
from mqbroker.imq.peers.looking import LOOK_SECONDS
from mqbroker.messaging.ports import Cancellable, Clock
from mqbroker.messaging.turns.turn import Turn

SETTLED_SECONDS = 3 * LOOK_SECONDS
"""From the link to the comparison: a broker whose record was replaced has noticed it by then, and starts again."""

log = Logger(namespace="mqbroker.imq")


class SameRecord:
    """Asks each linked member which record it follows.

    ``own`` gives the generation of the record of this broker, ``part`` ends the link to a node until that starts again.

    Each of two members has a link to the other, so both compare, and both say what differs: they work with different databases.
    """

    def __init__(self, peers: Peers, clock: Clock, turn: Turn, own: Callable[[], str | None], part: Callable[[str], object]) -> None:
        self._peers = peers
        self._clock = clock
        self._turn = turn
        self._own = own
        self._part = part
        self._timers: dict[Peer, Cancellable] = {}
        peers.linked.subscribe(self._linked)
        peers.unlinked.subscribe(self._unlinked)

    def stop(self) -> None:
        while self._timers:
            self._timers.popitem()[1].cancel()

    def _linked(self, peer: Peer) -> None:
        self._timers[peer] = self._clock.call_later(SETTLED_SECONDS, self._turn.run, self._ask, peer)

    def _unlinked(self, peer: Peer) -> None:
        timer = self._timers.pop(peer, None)
        if timer is not None:
            timer.cancel()

    def _ask(self, peer: Peer) -> None:
        del self._timers[peer]
        asked = peer.ask("follows")
        asked.addCallbacks(partial(self._compare, peer, self._own()), lambda failure: None)  # the next link asks again

    def _compare(self, peer: Peer, followed: str | None, theirs: Any) -> None:
        if (
            followed not in (None, theirs)
            and isinstance(theirs, str)
            and self._own() == followed
            and self._peers.by_id.get(peer.node_id) is peer
        ):
            log.error(
                "this broker and {name} are not linked: they follow different change records, so their databases are different ones. "
                "Expected the same imq.cluster.sharecc.persist.jdbc on all brokers of a cluster",
                name=peer.name,
            )
            self._part(peer.node_id)
