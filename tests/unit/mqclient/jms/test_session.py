"""Mistakes of callers are refused where they are made, with what was expected."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import ClientMessage
from mqclient.errors import (
    AddressFullError,
    MQError,
    NodeLostError,
    TransactionOutcomeUnknownError,
    TransactionRolledBackError,
    UnblockedError,
)
from mqclient.jms import (
    AcknowledgeMode,
    BytesMessage,
    IllegalArgumentException,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    MapMessage,
    MessageConsumer,
    MessageFormatException,
    MessageProducer,
    Queue,
    Session,
    StreamMessage,
    TextMessage,
    Topic,
    TransactionRolledBackException,
)
from mqclient.jms.context import JMSProducer
from mqclient.jms.destinations import as_destination, check_plain_name
from mqclient.jms.messages.conversion import as_message
from mqclient.jms.work import SessionWork
from mqclient.shells.blocking_consumers import Consumer as BlockingConsumer
from mqclient.shells.blocking_sends import Producer as BlockingProducer
from tests.support.clock import ClientClock


class Lookup:
    def prepare_send(self, target: object) -> None:
        pass


class Connection:
    connection_id = "c"


class Sink:
    """A core producer and consumer that keeps what it is given, and has nothing."""

    closed = False

    def __init__(self) -> None:
        self.sent: list[tuple[str | None, ClientMessage]] = []
        self.waited: list[int | None] = []

    def send(self, message: ClientMessage, address: str | None = None, **_: object) -> None:
        self.sent.append((address, message))

    def receive(self, timeout: int | None = None) -> None:
        self.waited.append(timeout)

    def receive_immediate(self) -> None:
        self.waited.append(0)


class SessionTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.work = cast(Any, SessionWork.__new__(SessionWork))
        self.work.runtime, self.work.connection, self.work.closed, self.work.lookup = ClientClock(), Connection(), False, Lookup()
        self.work._pending = set()
        self.sink = Sink()

    def refused(self, error: type[Exception], function: Any, *args: Any, **kwargs: Any) -> str:
        with self.assertRaises(error) as caught:
            function(*args, **kwargs)
        self.assertIsInstance(caught.exception, JMSException)
        self.assertEqual(self.sink.sent, [])
        return str(caught.exception)


class SubscriptionTests(SessionTestCase):
    def test_a_subscription_whose_consumer_is_refused_is_deleted(self) -> None:
        """Nobody would take its messages, and each attempt would leave one more."""
        queues: list[str] = []
        self.work.lookup = cast(Any, Lookup())
        self.work.lookup.prepare_topic_consumer = lambda target: None
        self.work.lookup.temporary_subscription = lambda target, queue, _: queues.append(queue)
        self.work.lookup.delete_queue = queues.remove
        session = cast(Any, Session.__new__(Session))
        session.work = self.work

        def refuse(*_: object, **__: object) -> None:
            self.assertEqual(len(queues), 1)
            raise JMSException("no permission to consume")

        self.work.open_consumer = refuse
        self.refused(JMSException, session.create_consumer, "topic://t")
        self.assertEqual(queues, [])


class SendTests(SessionTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.producer = MessageProducer(self.work, cast(BlockingProducer, self.sink), None)
        self.simple = JMSProducer(self.producer, None)

    def test_bodies(self) -> None:
        refused = self.refused
        self.assertIn("an entry of a map message is a str, not int: 1", refused(MessageFormatException, self.simple.send, "q", {1: 2}))
        self.assertIn("a message body cannot be of type set", refused(MessageFormatException, self.simple.send, "q", {1}))
        self.assertIn("a str or None, not int", refused(MessageFormatException, TextMessage, 5))
        self.assertIn("are bytes, not str", refused(MessageFormatException, BytesMessage, "text"))
        self.assertIn("a value of type object has no Java type", refused(MessageFormatException, MapMessage, {"a": object()}))
        self.assertIn("has no Java type", refused(MessageFormatException, StreamMessage, [{}]))
        self.assertIn("an entry of a map message needs a name", refused(MessageFormatException, MapMessage, {"": 1}))

    def test_later_values_of_bodies(self) -> None:
        text, data = TextMessage("a"), BytesMessage(b"a")
        self.refused(MessageFormatException, setattr, text, "text", b"b")
        self.refused(MessageFormatException, setattr, data, "data", "b")
        self.assertEqual((text.text, data.data), ("a", b"a"))

    def test_names_of_properties(self) -> None:
        self.assertIn("a property is a str, not int", self.refused(MessageFormatException, self.simple.send, "q", "x", properties={1: 2}))
        self.assertIn("needs a name", self.refused(MessageFormatException, TextMessage().set_int_property, "", 1))

    def test_arguments_in_the_wrong_order(self) -> None:
        for body in ("queue://m1", "topic://m1", "temp-queue://x", Queue("m1"), Topic("m1")):
            for send in (self.simple.send, self.simple.send_async):
                said = self.refused(InvalidDestinationException, send, "hello", body)
                self.assertIn("the destination first and the message second", said)
        self.assertIn("not TextMessage", self.refused(InvalidDestinationException, self.simple.send, TextMessage("a"), "q"))
        self.assertIn("given as destination=…", self.refused(MessageFormatException, self.producer.send, Queue("q"), destination="q"))

    def test_texts_about_destinations_are_sent_where_the_order_is_certain(self) -> None:
        self.simple.send("queue://hello", "queue://m1")
        self.simple.send(Queue("hello"), "queue://m1")
        self.simple.send("hello", TextMessage("queue://m1"))
        self.simple.send("hello", "queue://m1 is where it went")
        self.simple.send("hello", "http://m1")
        self.assertEqual([address for address, _ in self.sink.sent], ["hello"] * 5)

    def test_numbers_of_a_send(self) -> None:
        for wrong in ({"priority": "high"}, {"time_to_live": 0.5}, {"delivery_delay": "1"}, {"priority": 10}, {"time_to_live": -1}):
            self.refused(IllegalArgumentException, self.producer.send, "x", destination="q", **wrong)
        for wrong in ({"time_to_live": 2**63 - 1}, {"delivery_delay": 2**63}):
            self.refused(IllegalArgumentException, self.producer.send, "x", destination="q", **wrong)


class ReceiveTests(SessionTestCase):
    def test_a_timeout_is_a_whole_number_of_milliseconds(self) -> None:
        consumer = MessageConsumer(self.work, cast(BlockingConsumer, self.sink), Queue("q"), None)
        for wrong in (0.5, "5", 5.0):
            self.assertIn("milliseconds", self.refused(IllegalArgumentException, consumer.receive, wrong))
        consumer.receive(5)
        consumer.receive(0)
        self.assertEqual(self.sink.waited, [5, 0])


E = TypeVar("E", bound=Exception)


class Ending:
    """A core session with the calls that end its transactions: each commit meets the next error of ``errors``."""

    def __init__(self, *errors: MQError | None) -> None:
        self.errors = [*errors]
        self.did: list[str] = []
        self.rollback_only = False
        self.closed = False

    def commit(self) -> None:
        self.did.append("commit")
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error

    def rollback(self) -> None:
        self.did.append("rollback")
        self.rollback_only = False


def caused(error: E, cause: Exception) -> E:
    error.__cause__ = cause
    return error


class TransactionTests(SessionTestCase):
    def start(self, *errors: MQError | None) -> None:
        self.core = Ending(*errors)
        self.work.core = self.work.sender = self.core
        self.work.mode = AcknowledgeMode.SESSION_TRANSACTED
        self.session = Session.__new__(Session)
        self.session.work = self.work
        self.runs = 0

    def run_once(self, session: Session) -> int:
        self.assertIs(session, self.session)
        self.runs += 1
        return self.runs

    def test_the_result_comes_after_the_commit(self) -> None:
        self.start()
        self.assertEqual((self.session.transaction(self.run_once), self.core.did), (1, ["commit"]))

    def test_it_runs_again_after_a_failure_of_the_connection(self) -> None:
        self.start(TransactionRolledBackError("lost"), TransactionRolledBackError("lost"))
        self.assertEqual((self.session.transaction(self.run_once), self.core.did), (3, ["commit"] * 3))

    def test_it_runs_again_when_it_has_met_the_failure_itself(self) -> None:
        for lost, error in ((True, JMSException("full")), (False, caused(JMSException("no answer"), UnblockedError("cut off")))):
            self.start()

            def work(session: Session, lost: bool = lost, error: JMSException = error) -> int:
                if self.run_once(session) == 1:
                    self.core.rollback_only = lost
                    raise error
                return self.runs

            self.assertEqual((self.session.transaction(work), self.core.did), (2, ["rollback", "commit"]))

    def test_its_own_error_rolls_back(self) -> None:
        for error, broken in ((JMSException("full"), False), (KeyError("mine"), True), (KeyboardInterrupt(), False)):
            self.start()
            self.core.rollback_only = broken

            def work(session: Session, error: BaseException = error) -> None:
                raise error

            self.assertRaises(type(error), self.session.transaction, work)
            self.assertEqual(self.core.did, ["rollback"])

    def test_a_send_that_was_refused_is_not_repeated(self) -> None:
        self.start(caused(TransactionRolledBackError("undone"), AddressFullError("full")))
        self.assertRaises(TransactionRolledBackException, self.session.transaction, self.run_once)
        self.assertEqual(self.core.did, ["commit"])

    def test_the_error_of_a_send_that_was_on_its_way_leaves_nothing_to_the_next(self) -> None:
        self.start(AddressFullError("full"))
        self.assertRaises(JMSException, self.session.transaction, self.run_once)
        self.assertEqual(self.core.did, ["commit", "rollback"])

    def test_an_unknown_outcome_is_told(self) -> None:
        self.start(TransactionOutcomeUnknownError("lost"))
        with self.assertRaises(JMSException) as caught:
            self.session.transaction(self.run_once)
        self.assertEqual((caught.exception.error_code, self.core.did), ("115", ["commit"]))

    def test_a_session_that_has_ended_is_not_rolled_back(self) -> None:
        self.start(NodeLostError("another node"))
        self.core.closed = True
        self.assertRaises(JMSException, self.session.transaction, self.run_once)
        self.assertEqual(self.core.did, ["commit"])

    def test_other_sessions_have_no_transactions(self) -> None:
        self.start()
        self.work.mode = AcknowledgeMode.AUTO_ACKNOWLEDGE
        self.assertRaises(IllegalStateException, self.session.transaction, self.run_once)
        self.assertEqual(self.runs, 0)


class DestinationTests(SynchronousTestCase):
    def test_unknown_schemes_are_refused(self) -> None:
        for text, hint in (
            ("queues://m1", "did you mean queue://m1?"),
            ("Topic://news", "did you mean topic://news?"),
            ("http://x", ""),
        ):
            with self.subTest(text=text):
                said = str(self.assertRaises(InvalidDestinationException, as_destination, text))
                self.assertIn("expected queue://NAME, topic://NAME", said)
                self.assertIn(hint, said)

    def test_known_ones_and_options_with_one_are_not(self) -> None:
        self.assertEqual(as_destination("queue://http://x"), Queue("http://x"))
        self.assertEqual(as_destination("q?filter-string=a://b"), Queue("q"))
        self.assertEqual(as_destination("a::b"), Queue("a::b"))
        self.assertEqual(as_destination("no scheme://x"), Queue("no scheme://x"))

    def test_what_is_no_destination(self) -> None:
        for wrong in (None, 5, b"q"):
            self.assertRaises(InvalidDestinationException, as_destination, wrong)
        self.assertRaises(MessageFormatException, as_message, Queue("q"))

    def test_a_name_alone_has_no_prefix(self) -> None:
        self.assertRaises(InvalidDestinationException, check_plain_name, "queue://q")
        check_plain_name("q")
