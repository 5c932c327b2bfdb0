"""A broker that has lost the database: has it done so alone, and does the database answer again?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred

from mqclient.errors import MQError

if TYPE_CHECKING:
    from mqbroker.imq.enhanced.desk import Desk
    from mqbroker.imq.links.requests import Peers
    from mqbroker.messaging.ports import Clock
    from mqbroker.storage.shared.brokers import BrokerTable


async def is_alone(peers: Peers, others: bool) -> bool:
    """Has another member the database, or can none be asked although there are ``others``?"""
    asked = [peer.ask("databaseAnswers") for peer in list(peers.by_id.values())]
    found = [await _or_false(each) for each in asked]
    return any(found) or (not asked and others)


async def _or_false(answer: Deferred[Any]) -> bool:
    try:
        return bool(await answer)
    except MQError:
        return False


def answers_again(desk: Desk, table: BrokerTable, clock: Clock, interval: float) -> Deferred[None]:
    """Ask the database every ``interval`` seconds; completes when it answers."""
    back: Deferred[None] = Deferred()

    def ask() -> None:
        desk.ask(table.now).addCallbacks(lambda _: back.callback(None), lambda _: clock.call_later(interval, ask))

    ask()
    return back
