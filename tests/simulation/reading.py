"""Readers at work: queues that are read by message id, again and again, until they are settled.  And what must be true of them."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mqclient.core.readers import KIND_LARGE, MessageBlock
from mqclient.core.session.session import Session
from mqclient.errors import IllegalStateError, MQError
from mqclient.wire.message import KEY_LARGE_COMPRESSED, CoreMessage, decode_headers, decode_message
from mqclient.wire.packets import ReaderRange
from tests.simulation.model import Outcome, Receipt, Unit
from tests.simulation.policies import ARCHIVE
from tests.simulation.workload import IDENTITY, Actor, body_of

if TYPE_CHECKING:
    from tests.simulation.run import Simulation

NO_READER = "AMQ229901"
FENCED = "AMQ229902"


@dataclass(slots=True)
class ReaderState:
    """What all who use a reader of one name were told.

    ``sure``: it is there, and nothing that was asked for can end it; ``doubtful``: that will never be sure again.  ``asked`` are
    settlements that may have taken effect, or still may.
    """

    sure: bool = False
    doubtful: bool = False
    began: int = 0
    """Where it stood when it was made: others may have settled something before."""
    epoch: int = 0
    confirmed: int = 0
    asked: dict[str, int] = field(default_factory=dict)
    reserved: int = 0

    @property
    def settled_at_most(self) -> int:
        return max(self.asked.values(), default=0)


class ReadingLedger:
    """What was read of the queue by whom, and what follows from it."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._world = simulation.world
        self._ledger = simulation.ledger
        self.readers: dict[str, ReaderState] = {}
        """All whose opening was asked for."""
        self.known: dict[int, str] = {}
        """Messages that were read, by their ids."""
        self._seen: list[tuple[int, int]] = []
        """Ranges (after, until] all of which was read: nothing may appear there any more."""
        self._settled: set[int] = set()
        """What is gone for sure."""
        self._freed = 0
        """Messages up to here may be gone: only readers that were not there all the time had not settled them."""

    @property
    def exact(self) -> bool:
        """What was damaged on the disk may be lost, or come back."""
        return not self._simulation.broker.was_damaged and self._simulation.broker.damage is None

    def state(self, name: str) -> ReaderState:
        return self.readers.setdefault(name, ReaderState())

    # --- opening

    def opened(self, name: str, before: ReaderState, epoch: int, settled: int, reserved: int) -> None:
        """``before`` is how things stood when that was asked for."""
        state = self.state(name)
        if before.sure and self.exact:
            if epoch <= before.epoch:
                self._wrong(f"reader {name} is opened with epoch {epoch}, after {before.epoch}")
            least, most = max(before.began, before.confirmed), max(before.began, state.settled_at_most)
            if not least <= settled <= most:
                self._wrong(f"reader {name} has settled {settled}: up to {least} was confirmed, {most} asked for")
            if reserved < before.reserved:
                self._wrong(f"reader {name} has reserved up to {reserved}: {before.reserved} was confirmed")
        elif not before.sure:
            state.began = settled
            self._free_without(name)
        state.sure = not state.doubtful
        state.epoch = max(epoch, state.epoch)

    def removing(self, name: str) -> None:
        """Without readers messages may appear anywhere."""
        state = self.state(name)
        state.sure, state.doubtful = False, True
        self._seen.clear()
        self._free_without(name)

    def _free_without(self, name: str) -> None:
        """There may have been a time without this reader."""
        others = [each for other, each in self.readers.items() if other != name]
        held = [each.settled_at_most for each in others if each.sure]
        self._freed = max(self._freed, min(held) if held else max((each.settled_at_most for each in others), default=0))

    def removed(self, name: str) -> None:
        """The next one of that name is another reader."""
        self.readers[name] = ReaderState(asked=self.state(name).asked)
        self._seen.clear()

    def granted(self, name: str, epoch: int, before: int, what: str) -> None:
        """A request of ``epoch`` was carried out; ``before`` was the newest that was confirmed when it was asked for."""
        if epoch < before and self.state(name).sure and self.exact:
            self._wrong(f"{what} of reader {name} is granted to epoch {epoch}, although {before} was open")

    # --- reading

    def receive(self, message_id: int, identity: str, delivery_count: int, who: str, asked: float) -> None:
        wrong = self._ledger.receive(Receipt(self._world.now, asked, (ARCHIVE, identity), ARCHIVE, message_id, delivery_count, who, 0))
        if wrong is not None:
            self._wrong(wrong)
        if message_id not in self.known and self.exact:
            inside = [seen for seen in self._seen if seen[0] < message_id <= seen[1]]
            if inside:
                self._wrong(f"{identity} appears as {message_id}, although all of {inside[0]} was read before")
        if self.known.setdefault(message_id, identity) != identity:
            self._wrong(f"message {message_id} was {self.known[message_id]} and is {identity}")

    def range_read(self, name: str, after: int, until: int, found: list[int]) -> None:
        """All of a range that was handed out to a reader was read; what it had not settled must be in it."""
        if found != sorted(set(found)) or (found and not after < found[0] <= found[-1] <= until):
            self._wrong(f"({after}, {until}] is read as {found}")
        state = self.state(name)
        if not state.sure or not self.exact:
            return
        self._seen.append((after, until))
        there = set(found)
        for message_id, identity in self.known.items():
            kept = max(state.settled_at_most, after, self._freed) < message_id <= until and self._ledger.sent[identity].durable
            if kept and message_id not in there and message_id not in self._settled:
                self._wrong(
                    f"{identity} is missing: reader {name} has not settled {message_id}, and does not find it in ({after}, {until}]"
                )

    # --- settling

    def settling(self, name: str, until: int) -> Unit:
        """A settlement is asked for."""
        state = self.state(name)
        unit = self._ledger.unit(f"settlement {len(state.asked) + 1} of reader {name} up to {until}")
        unit.acknowledged += [(ARCHIVE, identity) for message_id, identity in self.known.items() if message_id <= until]
        unit.asked = self._world.now
        state.asked[unit.name] = until
        return unit

    def refused(self, name: str, unit: Unit) -> None:
        """It was not carried out."""
        self.state(name).asked.pop(unit.name, None)
        self._ledger.finish(unit, Outcome.NEVER)

    def settled(self, name: str, until: int) -> None:
        """It was: what all readers that there may be have settled is gone."""
        state = self.state(name)
        state.confirmed = max(state.confirmed, until)
        if not self.exact or not all(each.sure for each in self.readers.values()):
            return
        gone = min(each.confirmed for each in self.readers.values())
        fresh = [message_id for message_id in self.known if message_id <= gone and message_id not in self._settled]
        if fresh:
            self._settled.update(fresh)
            unit = self._ledger.unit(f"what all readers have settled, up to {gone}")
            unit.acknowledged += [(ARCHIVE, self.known[message_id]) for message_id in fresh]
            unit.asked = self._world.now
            self._ledger.finish(unit, Outcome.DONE, self._world.now)

    def _wrong(self, text: str) -> None:
        self._world.violation(text)


class ReaderUser(Actor):
    """Reads ranges of the queue as a stream does: reserves, reads in parts, some of it again, settles, and begins anew after failures."""

    def __init__(self, simulation: Simulation, name: str, reader: str, alone: bool) -> None:
        """``alone``: nobody else uses readers of this name."""
        super().__init__(simulation, name)
        self.reader = reader
        self.reading = simulation.reading
        self.stop_at = self.rng.uniform(2.0, 6.0)
        self._removes = alone and self.rng.random() < 0.2
        """It removes the reader now and then."""
        self._epoch = 0
        self._after = 0
        self._done: list[tuple[int, int]] = []
        """Ranges that were read and not settled, side by side."""

    async def work(self) -> None:
        while self.world.now < self.stop_at:
            try:
                session = await self.session()
                if not self._epoch or self.rng.random() < 0.05:
                    await self._open(session)
                await self._batch(session)
                if self._removes and self.rng.random() < 0.1:
                    await self._remove(session)
                if self.rng.random() < 0.1:
                    await self.leave()
            except IllegalStateError as error:
                self._check_refusal(error)
                self._epoch = 0
                await self.pause(0.05)
            except MQError:
                if self.rng.random() < 0.5:
                    self._epoch = 0
                await self.pause(0.05)
            await self.pause(self.rng.uniform(0, 0.3))

    def _check_refusal(self, error: IllegalStateError) -> None:
        """Readers are refused to who is fenced, and when somebody has removed them."""
        text = str(error)
        if not text.startswith((NO_READER, FENCED)) and self.reading.exact:
            self.world.violation(f"{self.name}: {text}")
        if text.startswith(NO_READER) and self.reading.state(self.reader).sure and self.reading.exact:
            self.world.violation(f"{self.name}: {text}, and nobody has removed it")

    async def _open(self, session: Session) -> None:
        before = replace(self.reading.state(self.reader))
        state = await self.call(f"open reader {self.reader}", lambda: session.readers.open(ARCHIVE, self.reader))
        self.reading.opened(self.reader, before, state.epoch, state.settled, state.reserved)
        self._epoch, self._after, self._done = state.epoch, state.settled, []

    async def _batch(self, session: Session) -> None:
        found = await self._reserve(session)
        if found.until > found.after:
            await self._read(session, found.after, found.until, found.messages)
            self._done.append((found.after, found.until))
            self._after = found.until
        if self._done and self.rng.random() < 0.3:
            # A part of what was handed out, as a task that is done again.
            after = self.rng.choice(self._done)[0]
            until = self.rng.choice([until for start, until in self._done if start >= after])
            await self._read(session, after, until)
        if self._done and self.rng.random() < 0.5:
            await self._settle(session)

    async def _reserve(self, session: Session) -> ReaderRange:
        before, epoch = self.reading.state(self.reader).epoch, self._epoch
        limits = {
            "max_messages": self.rng.choice((-1, -1, 1, 3)),
            "max_bytes": self.rng.choice((-1, -1, 500)),
            "parts": self.rng.choice((1, 3)),
        }
        if self.rng.random() < 0.1:
            await self.call("survey", lambda: session.readers.survey(ARCHIVE, self._after, **limits))
        found: ReaderRange = await self.call(
            f"reserve after {self._after} with epoch {epoch}",
            lambda: session.readers.reserve(ARCHIVE, self.reader, epoch, self._after, **limits),
        )
        self.reading.granted(self.reader, epoch, before, "a range")
        state = self.reading.state(self.reader)
        if found.messages:
            state.reserved = max(state.reserved, found.until)
        return found

    async def _read(self, session: Session, after: int, until: int, count: int = -1) -> None:
        found: list[int] = []
        lost = False
        position = after
        while True:
            size = self.rng.choice((1, 800, 4 * 1024 * 1024))
            asked = self.world.now
            block: MessageBlock = await self.call(
                f"read ({position}, {until}]",
                lambda position=position, size=size: session.readers.read(ARCHIVE, position, until, max_bytes=size),
            )
            await self._take(session, block, asked, found)
            lost = lost or block.lost
            position = block.position
            if block.end:
                break
        self.world.note(f"{self.name}: ({after}, {until}] is {found}")
        self.reading.range_read(self.reader, after, until, found)
        if 0 <= count != len(found) and not lost and self.reading.exact and not self._volatile(after, until):
            self.world.violation(f"{self.name}: ({after}, {until}] has {len(found)} messages, {count} were told of")

    def _volatile(self, after: int, until: int) -> bool:
        """May a crash have taken something of the range?"""
        return (
            any(
                after < message_id <= until and not self.ledger.sent[identity].durable
                for message_id, identity in self.reading.known.items()
            )
            or self.simulation.broker.starts > 1
        )

    async def _take(self, session: Session, block: MessageBlock, asked: float, found: list[int]) -> None:
        ids = struct.unpack(f">{block.count}q", block.ids)
        counts = struct.unpack(f">{block.count}i", block.delivery_counts)
        sizes = struct.unpack(f">{block.count}i", block.sizes)
        at = 0
        for row, message_id in enumerate(ids):
            data = bytes(block.messages[at : at + sizes[row]])
            at += sizes[row]
            if block.kinds[row] == KIND_LARGE:
                message = decode_headers(data, 8)
                body = await self._large(session, message_id, int.from_bytes(data[:8], "big"))
            else:
                message = decode_message(data)
                body = message.body
            identity = _text(message, IDENTITY)
            found.append(message_id)
            self.reading.receive(message_id, identity, counts[row], self.name, asked)
            if body is None:
                continue
            if message.properties.get(KEY_LARGE_COMPRESSED, (0, False))[1]:
                body = zlib.decompress(body)
            if body != body_of(identity, len(body)):
                self.world.violation(f"{self.name}: the body of {identity} was damaged ({len(body)} bytes)")

    async def _large(self, session: Session, message_id: int, size: int) -> bytes | None:
        """The body in pieces; None when it was settled by others meanwhile."""
        pieces: list[bytes] = []
        while sum(map(len, pieces)) < size:
            start = sum(map(len, pieces))
            try:
                piece = await self.call(
                    f"read the body of {message_id} from {start}",
                    lambda start=start: session.readers.body(ARCHIVE, message_id, start, 2000),
                )
            except IllegalStateError:
                state = self.reading.state(self.reader)
                if state.sure and state.settled_at_most < message_id and self.reading.exact:
                    self.world.violation(f"{self.name}: message {message_id} is not settled, and its body is gone")
                return None
            pieces.append(piece)
            if not piece:
                self.world.violation(f"{self.name}: the body of {message_id} ends after {start} of {size} bytes")
                return None
        return b"".join(pieces)

    async def _settle(self, session: Session) -> None:
        number = self.rng.randrange(len(self._done))
        until = self._done[number][1]
        before, epoch = self.reading.state(self.reader).epoch, self._epoch
        unit = self.reading.settling(self.reader, until)
        try:
            await self.call(f"settle up to {until} with epoch {epoch}", lambda: session.readers.settle(ARCHIVE, self.reader, epoch, until))
        except IllegalStateError:
            self.reading.refused(self.reader, unit)
            raise
        self.reading.granted(self.reader, epoch, before, "a settlement")
        self.reading.settled(self.reader, until)
        self._done = self._done[number + 1 :]

    async def _remove(self, session: Session) -> None:
        """When no answer comes, nothing is sure any more about readers of this name: the request may come late."""
        self._epoch = 0
        self.reading.removing(self.reader)
        await self.call(f"remove reader {self.reader}", lambda: session.readers.remove(ARCHIVE, self.reader))
        self.reading.removed(self.reader)


def _text(message: CoreMessage, name: str) -> str:
    return str(message.properties.get(name, (0, ""))[1])


async def remove_readers(actor: Actor, reading: ReadingLedger) -> None:
    """When nothing fails any more."""
    session = await actor.session()
    for name in reading.readers:
        try:
            await actor.call(f"remove reader {name}", lambda name=name: session.readers.remove(ARCHIVE, name))
        except IllegalStateError as error:
            if not str(error).startswith(NO_READER):
                raise
