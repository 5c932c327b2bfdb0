"""Whether another member has heard of a queue as it is here, or may still have its former life under the same name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from twisted.python.failure import Failure

from mqbroker.imq.links.requests import Peer, Peers
from mqbroker.imq.master.standing import Standing
from mqbroker.imq.record.followed import Life
from mqbroker.messaging.event import Event

if TYPE_CHECKING:
    from mqbroker.messaging.queues.queue import Queue


class Lives:
    """Implements :class:`mqbroker.imq.delivery.home.QueueLives`: a member has heard of what is not after its position in the record.

    Where there is no record, nobody can say so, and everybody is taken to have heard of everything.
    """

    def __init__(self, standing: Standing, peers: Peers, queue_deleted: Event[Queue]) -> None:
        self._standing = standing
        self._peers = peers
        self._heard: dict[Peer, Life] = {}
        """The last life that a linked member has heard of: it has heard of those before, too."""
        queue_deleted.subscribe(lambda queue: standing.ended(queue.name))
        peers.unlinked.subscribe(lambda peer: self._heard.pop(peer, None))

    def ask(self, home: str, queue: str, answered: Callable[[bool], object]) -> None:
        life = self._standing.lives.get(queue)
        peer = self._peers.by_id.get(home)
        if life is None or peer is None:
            answered(life is None)
            return
        heard = self._heard.get(peer)
        if heard is not None and heard[0] == life[0] and heard[1] >= life[1]:
            answered(True)
            return
        peer.ask("recordHas", *life).addCallbacks(partial(self._told, peer, life, answered), partial(_failed, answered))

    def _told(self, peer: Peer, life: Life, answered: Callable[[bool], object], has: bool) -> None:
        if has and self._peers.by_id.get(peer.node_id) is peer:
            self._heard[peer] = life
        answered(bool(has))


def _failed(answered: Callable[[bool], object], failure: Failure) -> None:
    """The link is lost, or the member does not answer."""
    answered(False)
