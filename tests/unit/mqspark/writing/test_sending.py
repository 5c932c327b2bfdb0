"""Messages that wait for their confirmation, and connections that are lost meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from mqclient.core.batches import Batch
from mqclient.errors import AddressFullError, DuplicateIdRejectedError, MQError, OperationTimeoutError, UnblockedError
from mqclient.wire.message import CoreMessage, encode_message

try:
    import pyspark

    from mqspark.errors import BrokerUnreachableError, MqsparkError
    from mqspark.writing.sending import CHUNK_BYTES_MAX, RESTORED_MAX, SILENCE_SECONDS_MAX, UNCONFIRMED_BYTES_MAX, Sender
except ImportError:
    pyspark = None


class FakeRuntime:
    """Turns happen only while somebody waits: each one answers the oldest request of the broker."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []
        self.waited = 0

    def create_future(self) -> list[bool]:
        return []

    def resolve(self, future: list[bool], value: Any) -> None:
        future.append(True)

    def run(self, future: list[bool], timeout: float | None = None) -> None:
        while not future:
            if not self.work:
                self.waited += 1
                raise OperationTimeoutError("nothing happens")
            self.work.pop(0)()

    def pump(self, seconds: float) -> None: ...


class FakeSession:
    """Answers when the runtime turns, as the plan says: ``lose`` after so many messages."""

    class settings:  # noqa: N801
        min_large_message_size = 1000

    def __init__(self, broker: FakeBroker, lose_after: int | None) -> None:
        self.broker = broker
        self.left = lose_after
        self.closed = False
        self.room = True
        self.on_room: Callable[[], object] = lambda: None
        self.open: list[Callable[[], None]] = []

    def open_encoded_sends(self) -> FakeSession:
        return self

    def lose(self) -> None:
        self.closed = True
        waiting, self.open = self.open, []
        for fail in waiting:
            fail()

    def take(self, message: bytes, address: str) -> MQError | None:
        """What the broker answers; raises UnblockedError when it is gone."""
        if self.closed or self.left == 0:
            raise UnblockedError("lost")
        if self.left is not None:
            self.left -= 1
        return self.broker.take(message, address)

    def send_batch(self, address: str, messages: Sequence[bytes], done: Callable[[Batch], None] | None) -> bool:
        self.broker.handed += len(messages)
        batch = Batch(address, messages, 0, done or (lambda batch: None))

        def fail() -> None:
            batch.error = UnblockedError("lost")
            batch.told()

        def answer() -> None:
            if fail not in self.open:
                return
            for number, message in enumerate(messages):
                try:
                    error = self.take(message, address)
                except UnblockedError:
                    self.lose()
                    return
                batch.settle(number, error)
            self.open.remove(fail)
            batch.told()

        self.open.append(fail)
        self.broker.runtime.work.append(answer)
        return self.room

    def send_large_encoded(
        self, headers: bytes, read: Callable[[int, int], bytes], size: int, done: Callable[[MQError | None], None], *, address: str
    ) -> bool:
        body = b"".join(read(at, 100) for at in range(0, size, 100))

        def told(batch: Batch) -> None:
            done(batch.error or batch.refused.get(0))

        assert len(body) == size
        return self.send_batch(address, [body], told)


class FakeBroker:
    def __init__(self, *plans: int | None) -> None:
        """``plans``: after how many messages each connection is lost; None: never."""
        self.runtime = FakeRuntime()
        self.plans = list(plans)
        self.taken: list[bytes] = []
        self.sessions = 0
        self.handed = 0
        self.refuse: dict[bytes, MQError] = {}

    def session(self) -> FakeSession:
        self.sessions += 1
        if not self.plans:
            raise BrokerUnreachableError("no broker can be reached")
        self.last = FakeSession(self, self.plans.pop(0))
        return self.last

    def take(self, message: bytes, address: str) -> MQError | None:
        if message in self.refuse:
            return self.refuse[message]
        self.taken.append(message)
        return None


class SenderTests(SynchronousTestCase):
    def setUp(self) -> None:
        if pyspark is None:
            raise SkipTest("pyspark is not installed")

    def sender(self, *plans: int | None, in_transaction: bool = False) -> tuple[FakeBroker, Sender]:
        broker = FakeBroker(*plans)
        return broker, Sender(broker.runtime, broker.session, in_transaction)

    def test_flush_waits_for_everything(self) -> None:
        broker, sender = self.sender(None)
        sender.send([b"a", b"b"], "x")
        self.assertEqual((broker.taken, sender.confirmed), ([], 0))
        sender.flush()
        self.assertEqual((broker.taken, sender.confirmed), ([b"a", b"b"], 2))

    def test_order_is_kept_for_each_address(self) -> None:
        broker, sender = self.sender(None)
        sender.send([b"a1", b"b1", b"a2", b"b2"], ["a", "b", "a", "b"])
        sender.flush()
        self.assertEqual(broker.taken, [b"a1", b"a2", b"b1", b"b2"])

    def test_what_is_unconfirmed_is_bounded(self) -> None:
        broker, sender = self.sender(None)
        message = bytes(900)
        for _ in range(2 * UNCONFIRMED_BYTES_MAX // 900 // 100):
            sender.send([message] * 100, "x")
            self.assertLessEqual((broker.handed - len(broker.taken)) * 900, UNCONFIRMED_BYTES_MAX)
        self.assertGreater(sender.confirmed, 0)

    def test_great_messages_go_alone(self) -> None:
        broker, sender = self.sender(None)
        large = encode_message(CoreMessage(body=bytes(5000)))
        sender.send([b"a", large, b"b"], "x")
        sender.flush()
        self.assertEqual(broker.taken, [b"a", bytes(5000), b"b"])

    def test_chunks_are_smaller_than_the_credits(self) -> None:
        broker, sender = self.sender(None)
        sender.send([bytes(900)] * 1000, "x")
        self.assertGreaterEqual(len(broker.runtime.work), 1000 * 900 // CHUNK_BYTES_MAX)

    @given(st.lists(st.integers(1, 30), min_size=0, max_size=6), st.integers(1, 60), st.integers(1, 7))
    @settings(max_examples=80, deadline=None)
    def test_after_lost_connections_nothing_is_missing(self, losses: list[int], count: int, step: int) -> None:
        """What was not confirmed is sent again, in order, and what was is not."""
        broker, sender = self.sender(*losses, None)
        messages = [b"%d" % number for number in range(count)]
        for at in range(0, count, step):
            sender.send(messages[at : at + step], "x")
        sender.flush()
        self.assertEqual(broker.taken, messages)
        self.assertEqual(sender.confirmed, count)

    def test_a_node_that_stays_away(self) -> None:
        _, sender = self.sender(1)
        sender.send([b"a", b"b"], "x")
        self.assertRaises(BrokerUnreachableError, sender.flush)

    def test_connections_that_bring_nothing(self) -> None:
        broker, sender = self.sender(*[0] * 100)
        sender.send([b"a"], "x")
        self.assertIn("each connection was lost", str(self.assertRaises(BrokerUnreachableError, sender.flush)))
        self.assertEqual(broker.sessions, RESTORED_MAX + 1)

    def test_a_refused_message_is_the_end(self) -> None:
        broker, sender = self.sender(None)
        broker.refuse[b"b"] = AddressFullError("address x is full")
        sender.send([b"a", b"b"], "x")
        self.assertIn("sending to x: address x is full", str(self.assertRaises(MqsparkError, sender.flush)))
        self.assertRaises(MqsparkError, sender.send, [b"c"], "x")

    def test_a_known_duplicate_is_as_good_as_sent(self) -> None:
        broker, sender = self.sender(None)
        broker.refuse[b"a"] = DuplicateIdRejectedError("known")
        sender.send([b"a", b"b"], "x")
        sender.flush()
        self.assertEqual((broker.taken, sender.confirmed), ([b"b"], 2))

    def test_silence(self) -> None:
        broker, sender = self.sender(None)
        sender.send([b"a"], "x")
        broker.runtime.work.clear()
        self.assertIn("confirmed nothing", str(self.assertRaises(BrokerUnreachableError, sender.flush)))
        self.assertEqual(broker.runtime.waited, SILENCE_SECONDS_MAX)

    def test_a_session_that_ends_without_a_word(self) -> None:
        broker, sender = self.sender(None, None)
        sender.send([b"a"], "x")
        broker.runtime.work.clear()
        broker.last.closed = True
        sender.flush()
        self.assertEqual((broker.taken, broker.sessions), ([b"a"], 2))

    def test_no_room(self) -> None:
        broker, sender = self.sender(None)
        session = broker.last
        session.room = False

        def grant() -> None:
            session.room = True
            session.on_room()

        broker.runtime.work.append(grant)
        sender.send([b"a"], "x")
        self.assertTrue(session.room)
        sender.flush()
        self.assertEqual(broker.taken, [b"a"])

    def test_in_a_transaction_a_lost_connection_is_the_end(self) -> None:
        broker, sender = self.sender(None, in_transaction=True)
        sender.send([b"a"], "x")
        sender.flush()
        broker.last.closed = True
        self.assertIn("the transaction with it", str(self.assertRaises(BrokerUnreachableError, sender.send, [b"b"], "x")))
        self.assertEqual(broker.sessions, 1)
