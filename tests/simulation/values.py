"""A client that keeps values in a queue of its own: a last-value queue, a ring, or a table that nobody takes from.

Nobody else sends there, and nothing is consumed for good: what is in the queue follows from what was sent.
"""

from __future__ import annotations

from typing import Any

from mqclient.core.api import ClientMessage, QueueConfiguration
from mqclient.core.session.session import Session
from mqclient.errors import MQError, QueueDoesNotExistError, QueueExistsError
from mqclient.wire.properties import INT
from tests.simulation.others import TemporaryUser
from tests.simulation.settings import ANYCAST

KEY, NUMBER = "key", "number"
KEYS = ("a", "b", "c")
RING_SIZE = 3
KINDS: tuple[dict[str, Any], ...] = (
    {"last_value_key": KEY},
    {"last_value_key": KEY, "non_destructive": True},
    {"ring_size": RING_SIZE},
)


def value_name(queue: str, number: object) -> str:
    """The name of a value in the ledger, which hears of it only when damaged files have cost it."""
    return f"{queue}/{number}"


class ValueKeeper(TemporaryUser):
    """Sends values, one after the other, and looks at what is there."""

    async def work(self) -> None:
        self._queue = f"values.{self.name}"
        self._kind = self.rng.choice(KINDS)
        self._sent: list[tuple[str, int]] = []
        """What was confirmed, in order."""
        self._doubtful: set[tuple[str, int]] = set()
        """What may be there, or come later."""
        await self._until_done(self._create)
        for _ in range(self.rng.randrange(3, 9)):
            try:
                await self._exchange(await self.session())
            except MQError:
                await self.pause(0.05)
            await self.pause(self.rng.uniform(0, 0.8))
        await self._until_done(self._delete)

    async def _until_done(self, work: Any) -> None:
        while not await work(await self.session()):
            await self.pause(0.1)

    async def _create(self, session: Session) -> bool:
        queue = QueueConfiguration(name=self._queue, address=self._queue, routing_type=ANYCAST, durable=True, **self._kind)
        try:
            await self.call(f"create {self._queue} with {self._kind}", lambda: session.create_queue(queue))
        except QueueExistsError:
            return True
        except MQError:
            return False
        return True

    async def _delete(self, session: Session) -> bool:
        try:
            await self.call(f"delete {self._queue}", lambda: session.delete_queue(self._queue))
        except QueueDoesNotExistError:
            return True
        except MQError:
            return False
        return True

    async def _exchange(self, session: Session) -> None:
        failures = self.failures
        await self.call("start", session.start)
        producer = await self.call("create producer", lambda: session.create_producer(self._queue))
        for _ in range(self.rng.randrange(1, 6)):
            self._number += 1
            value = (self.rng.choice(KEYS), self._number)
            message = ClientMessage(durable=True, body=bytes(self.rng.choice((0, 0, 300))))
            message.put(KEY, value[0])
            message.put(NUMBER, value[1], INT)
            self._doubtful.add(value)
            await self.call(f"send {value}", lambda message=message: producer.send(message))
            if failures != self.failures:
                return
            self._doubtful.discard(value)
            self._sent.append(value)
        await self.call("close producer", producer.close)
        browses = "non_destructive" not in self._kind or self.rng.random() < 0.5
        consumer = await self.call(f"look at {self._queue}", lambda: session.create_consumer(self._queue, browse_only=browses))
        found: list[tuple[str, int]] = []
        try:
            while failures == self.failures:
                received = await self.call("receive", consumer.receive_immediate)
                if received is None:
                    break
                found.append((str(received.get(KEY)), int(str(received.get(NUMBER)))))
                if not browses:
                    await self.call("acknowledge", received.individual_acknowledge)
        finally:
            # Else it would be made again with its session, and the queue could not be deleted.
            await self.call("close consumer", consumer.close)
        if failures == self.failures:
            self._judge(found)

    def _judge(self, found: list[tuple[str, int]]) -> None:
        problem = self._ring_problem(found) if "ring_size" in self._kind else self._values_problem(found)
        if problem:
            self.world.violation(f"{self.name} finds {found} in {self._queue}, of {self._sent} and perhaps {self._doubtful}: {problem}")

    def _is_excused(self, value: tuple[str, int]) -> bool:
        return self.ledger.is_excused(value_name(self._queue, value[1]))

    def _ring_problem(self, found: list[tuple[str, int]]) -> str:
        excused = {value for value in (*self._sent, *self._doubtful) if self._is_excused(value)}
        found = [value for value in found if value not in excused]
        if len(found) > RING_SIZE:
            return "these are too many"
        if len(found) < min(RING_SIZE, len(self._sent)) - len(excused):
            return "these are too few"
        known = [value for value in found if value not in self._doubtful]
        sent = [value for value in self._sent if value not in excused]
        expected = sent[len(sent) - len(known) :]
        return "" if known == expected else f"{expected} are newer"

    def _values_problem(self, found: list[tuple[str, int]]) -> str:
        values = dict(found)
        excused = {key for key, number in (*self._sent, *self._doubtful) if self._is_excused((key, number))}
        if len(values) < len(found) - len(excused):
            return "a key has several values"
        for key, number in dict(self._sent).items():
            value = (key, values.get(key, 0))
            if key not in excused and value != (key, number) and value not in self._doubtful:
                return f"{(key, number)} is missing"
        return ""
