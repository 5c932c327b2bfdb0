"""A client that sends letters through filters and compares what comes with what the filters mean."""

from __future__ import annotations

from mqclient.core.api import QueueConfiguration
from mqclient.core.consuming.consumers import Consumer
from mqclient.core.session.session import Session
from mqclient.errors import InvalidFilterExpressionError
from tests.simulation.filters import FILTERS, NO_FILTERS, Letter, draw
from tests.simulation.others import TemporaryUser
from tests.simulation.settings import ANYCAST


class FilterUser(TemporaryUser):
    """Filters temporary queues, consumers and browsers."""

    async def _exchange(self, session: Session) -> None:
        failures = self.failures
        self._number += 1
        name = f"temporary.{self.name}.{self._number}"
        if self.rng.random() < 0.3:
            await self._refused(session, name, self.rng.choice(NO_FILTERS))
        text, means = self.rng.choice(FILTERS)
        on_queue = self.rng.random() < 0.4
        await self._create(session, name, text if on_queue else None)
        await self.call("start", session.start)
        letters = [draw(self.rng, f"{name}-{number}") for number in range(self.rng.randrange(1, 12))]
        await self._send(session, name, letters)
        wanted = [letter.text for letter in letters if means(letter)]
        # The answer to this consumer comes when everything before it is stored.
        browser = await self.call(f"browse {name}", lambda: session.create_consumer(name, text, browse_only=True))
        self._compare(failures, f"browses {name} for {text}", wanted, await self._take(browser, failures, browses=True))
        selective = await self.call(f"consume {name} for {text}", lambda: session.create_consumer(name, text))
        rounds: list[tuple[Consumer | None, list[str]]] = [(selective, wanted)]
        if not on_queue:
            rounds.append((None, [letter.text for letter in letters if not means(letter)]))
        for consumer, expected in rounds:
            taking = consumer or await self.call(f"consume {name}", lambda: session.create_consumer(name))
            self._compare(failures, f"takes {text if consumer else 'the rest'} from {name}", expected, await self._take(taking, failures))
        await self.call(f"delete {name}", lambda: session.delete_queue(name))

    async def _create(self, session: Session, name: str, filter_string: str | None) -> None:
        queue = QueueConfiguration(
            name=name, address=name, routing_type=ANYCAST, filter_string=filter_string, durable=False, temporary=True
        )
        await self.call(f"create {name} for {filter_string}", lambda: session.create_queue(queue))

    async def _refused(self, session: Session, name: str, text: str) -> None:
        try:
            if self.rng.random() < 0.5:
                await self._create(session, f"{name}.refused", text)
            else:
                await self._create(session, f"{name}.taken", None)
                await self.call(f"consume for {text[:80]}", lambda: session.create_consumer(f"{name}.taken", text))
        except InvalidFilterExpressionError:
            return
        self.world.violation(f"{self.name}: this is taken for a filter: {text[:80]}")

    async def _send(self, session: Session, name: str, letters: list[Letter]) -> None:
        producer = await self.call("create producer", lambda: session.create_producer(name))
        for letter in letters:
            # A large message is no text that a filter could look into.
            padding = self.rng.choice((0, 0, 100)) if letter.xml else 0
            await self.call(f"send {letter}", lambda letter=letter, padding=padding: producer.send(letter.message(padding)))
        await self.call("close producer", producer.close)

    async def _take(self, consumer: Consumer, failures: int, browses: bool = False) -> list[str]:
        got: list[str] = []
        while self.failures == failures:
            message = await self.call(f"receive from {consumer.queue_name}", consumer.receive_immediate)
            if message is None:
                break
            got.append(str(message.get("text")))
            if not browses:
                await self.call("acknowledge", message.individual_acknowledge)
        await self.call("close consumer", consumer.close)
        return got

    def _compare(self, failures: int, what: str, expected: list[str], got: list[str]) -> None:
        if self.failures == failures and sorted(got) != sorted(expected):
            self.world.violation(f"{self.name} {what}: expected {expected}, got {got}")
