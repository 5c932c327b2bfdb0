"""Questions of the jobs to brokers, asked on the driver without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqspark.options import Options, Use

if TYPE_CHECKING:
    from mqspark.broker.broker import Broker


@dataclass(frozen=True, slots=True)
class Waiting:
    """A queue of a node and its number of messages; None when the node has no such queue."""

    node_id: str
    queue: str
    messages: int | None


class Brokers:
    """The members of the cluster that ``options`` lead to; each question connects, asks and leaves.

    Every method raises :class:`mqspark.errors.BrokerUnreachableError` and :class:`mqspark.errors.LoginError` within ``connectTimeout``.
    """

    def __init__(self, options: Mapping[str, str], uses: Use = Use.JOB) -> None:
        """``uses``: the uses that the options must belong to.  Raises :class:`mqspark.errors.BadOptionError`."""
        self.options = Options.parse(options, uses)

    def check(self) -> None:
        """Log in to a broker, before Spark starts, so that a wrong address or password is noticed at once."""
        from mqspark.broker.broker import connect

        connect(self.options).close()

    def each(self) -> Iterator[Broker]:
        """A connection to every member, one after the other, in the order of their node ids."""
        from mqspark.broker.broker import connect, nodes

        for node in nodes(self.options):
            with connect(self.options, node, patient=False) as broker:
                yield broker

    def waiting(self, queues: Sequence[str]) -> list[Waiting]:
        """The number of messages in these queues, on every member."""
        found = []
        for broker in self.each():
            for queue in queues:
                answer = broker.queue_query(queue)
                found.append(Waiting(broker.node_id, queue, answer.message_count if answer.exists else None))
        return found

    def queues(self) -> tuple[str, ...]:
        """The queues that the options name; for a topic that of its subscription."""
        if self.options.topic is not None and self.options.subscription is not None:
            from mqclient.jms.subscriptions import subscription_queue

            return (subscription_queue(None, self.options.subscription, durable=True),)
        return self.options.queues

    def node_ids(self) -> tuple[str, ...]:
        """The members that a sink with these options sends to."""
        from mqspark.broker.broker import nodes

        return self.options.nodes or tuple(node.node_id for node in nodes(self.options))

    def smallest_id_cache(self, addresses: Sequence[str]) -> int:
        """The smallest number of duplicate ids that any member keeps for any of these addresses."""
        from mqspark.broker.broker import ID_CACHE_DEFAULT

        return min((broker.id_cache(address).size for broker in self.each() for address in addresses), default=ID_CACHE_DEFAULT)
