"""Consumers that acknowledge less than their queue's settings ask for (Artemis manual, "Detecting slow consumers")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.messaging.ports import Cancellable
from mqbroker.messaging.queues.queue import Queue
from mqbroker.server.session.consumers import ServerConsumer
from mqbroker.server.session.link_consumers import LinkConsumer

if TYPE_CHECKING:
    from mqbroker.server.server_state import ServerState
    from mqbroker.server.transport.connection import ServerConnection

log = Logger(namespace="mqbroker.server")

LOOK_SECONDS = 1.0
"""``slow-consumer-check-period`` is in whole seconds."""
UNIT_SECONDS = {"MESSAGES_PER_SECOND": 1, "MESSAGES_PER_MINUTE": 60, "MESSAGES_PER_HOUR": 3600, "MESSAGES_PER_DAY": 86400}


@dataclass(slots=True)
class _Watch:
    """The counters of a queue and its consumers at the last check."""

    queue: Queue
    at: float
    added: int
    done: dict[int, int] = field(default_factory=dict)


class SlowConsumers:
    """Checks the queues whose address settings have a ``slow-consumer-threshold`` of at least 0.

    A consumer is judged only after a whole check period.  No consumer is slow at a queue that neither gets nor holds as many messages as
    its consumers together should take.
    """

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._watches: dict[str, _Watch] = {}
        self._timer: Cancellable | None = None

    def start(self) -> None:
        self._timer = self._server.clock.call_later(LOOK_SECONDS, self._due)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        try:
            self._server.turn.run(self._look)
        except Exception:
            log.failure("the search for slow consumers failed")
        self.start()

    def _look(self) -> None:
        core = self._server.messaging.core
        if all(partial.get("slow_consumer_threshold", -1) == -1 for partial in core.settings.values().values()):
            self._watches.clear()  # most brokers check no queue, and some have very many
            return
        now = self._server.clock.monotonic()
        watches, self._watches = self._watches, {}
        for queue in list(core.queues.values()):
            settings = queue.address.settings
            if settings.slow_consumer_threshold < 0 or settings.slow_consumer_check_period <= 0:
                continue
            watch = watches.get(queue.name)
            if watch is not None and watch.queue is queue:
                self._watches[queue.name] = watch
                if now - watch.at < settings.slow_consumer_check_period:
                    continue
                self._judge(watch, now)
            self._watches[queue.name] = self._counted(queue, now)

    @staticmethod
    def _consumers(queue: Queue) -> list[ServerConsumer]:
        # Behind the consumer of a home link are consumers that their own broker judges.
        return [each for each in queue.consumers() if isinstance(each, ServerConsumer) and not isinstance(each, LinkConsumer)]

    def _counted(self, queue: Queue, now: float) -> _Watch:
        done = {consumer.sequential_id: _done(consumer) for consumer in self._consumers(queue)}
        return _Watch(queue, now, queue.messages_added, done)

    def _judge(self, watch: _Watch, now: float) -> None:
        queue, seconds = watch.queue, now - watch.at
        settings = queue.address.settings
        threshold = settings.slow_consumer_threshold / UNIT_SECONDS[settings.slow_consumer_threshold_measurement_unit]
        consumers = self._consumers(queue)
        wanted = threshold * len(consumers)
        # The consumers of a non-destructive queue may have seen its messages long ago.
        held = queue.delivering if queue.definition.non_destructive else queue.total_count
        if (queue.messages_added - watch.added) / seconds < wanted and held < wanted:
            return
        ended: set[ServerConnection] = set()
        for consumer in consumers:
            before = watch.done.get(consumer.sequential_id)
            if before is None:
                continue
            rate = (_done(consumer) - before) / seconds
            if rate < threshold or rate == threshold == 0:
                connection = consumer.session.connection
                log.info(
                    "AMQ221048: consumer {consumer} of session {session} from {remote} on queue {queue} is slow: "
                    "{rate} messages/s, expected {threshold} or more",
                    consumer=consumer.consumer_id,
                    session=consumer.session.name,
                    remote=connection.remote,
                    queue=queue.name,
                    rate=round(rate, 3),
                    threshold=round(threshold, 3),
                )
                if settings.slow_consumer_policy == "KILL":
                    ended.add(connection)
                else:
                    self._server.notifications.consumer_slow(consumer)
        for connection in ended:
            connection.end_slow_consumer(f"a consumer on queue {queue.name} is too slow")


def _done(consumer: ServerConsumer) -> int:
    """Messages that a consumer has acknowledged; in a pre-acknowledging session all messages that were sent to it."""
    return consumer.messages_delivered if consumer.session.pre_acknowledge else consumer.messages_acknowledged
