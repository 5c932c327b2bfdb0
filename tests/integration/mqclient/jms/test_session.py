"""Acknowledgement modes, transactions, listeners, and what is refused when."""

from __future__ import annotations

import threading
import time

from mqclient.jms import (
    AcknowledgeMode,
    IllegalStateException,
    InvalidClientIDException,
    JMSException,
    Message,
    MessageConsumer,
    Session,
    TextMessage,
)
from tests.integration.mqclient.jms.case import NOTHING, WAIT, BrokerCase, waits_for_messages


class ModeCase(BrokerCase):
    def filled(self, session: Session, *texts: str) -> MessageConsumer:
        """A consumer of a queue with these texts."""
        producer = session.create_producer(self.name)
        for text in texts:
            producer.send(text)
        if session.transacted:
            session.commit()
        return session.create_consumer(self.name)

    def left(self) -> list[str | None]:
        """What another connection finds in the queue."""
        found = []
        with self.session() as session:
            consumer = session.create_consumer(self.name)
            while (message := self.next(consumer)) is not None:
                found.append(self.text(message))
        return found

    def next(self, consumer: MessageConsumer) -> Message | None:
        """A message that comes soon, or that the broker has when it is asked: the machine may stand still for as long as this waits."""
        message = consumer.receive(NOTHING)
        return consumer.receive_no_wait() if message is None else message


class AcknowledgeTests(ModeCase):
    def test_auto(self) -> None:
        for mode in (AcknowledgeMode.AUTO_ACKNOWLEDGE, AcknowledgeMode.DUPS_OK_ACKNOWLEDGE, AcknowledgeMode.PRE_ACKNOWLEDGE):
            session = self.session(mode)
            self.assertEqual(self.texts(self.filled(session, "a", "b"), 2), ["a", "b"])
            session.close()
            self.assertEqual(self.left(), [], mode.name)

    def test_client(self) -> None:
        session = self.session(AcknowledgeMode.CLIENT_ACKNOWLEDGE)
        consumer = self.filled(session, "a", "b", "c")
        consumer.receive(WAIT)
        second = consumer.receive(WAIT)
        assert second is not None
        second.acknowledge()
        consumer.receive(WAIT)
        session.close()
        self.assertEqual(self.left(), ["c"])

    def test_individual(self) -> None:
        session = self.session(AcknowledgeMode.INDIVIDUAL_ACKNOWLEDGE)
        consumer = self.filled(session, "a", "b", "c")
        consumer.receive(WAIT)
        second = consumer.receive(WAIT)
        assert second is not None
        second.acknowledge()
        session.close()
        self.assertEqual(self.left(), ["a", "c"])

    def test_blocking_acknowledgements(self) -> None:
        for mode in (AcknowledgeMode.AUTO_ACKNOWLEDGE, AcknowledgeMode.CLIENT_ACKNOWLEDGE):
            session = self.session(mode, block_on_acknowledge=True)
            message = self.filled(session, "a").receive(WAIT)
            assert message is not None
            message.acknowledge()
            self.assertEqual(self.left(), [])
            session.close()

    def test_recover(self) -> None:
        session = self.session(AcknowledgeMode.CLIENT_ACKNOWLEDGE)
        consumer = self.filled(session, "a", "b")
        self.texts(consumer, 2)
        session.recover()
        again = consumer.receive(WAIT)
        assert again is not None
        self.assertEqual((self.text(again), again.redelivered, again.delivery_count), ("a", True, 2))
        self.assertRaises(IllegalStateException, session.commit)

    def test_modes_that_do_not_exist(self) -> None:
        self.assertRaises(JMSException, self.connect().create_session, 55)

    def test_mixed_priorities(self) -> None:
        session = self.session(AcknowledgeMode.CLIENT_ACKNOWLEDGE)
        producer = session.create_producer(self.name)
        for text, priority in [("low", 1), ("high", 8)]:
            producer.send(text, priority=priority)
        consumer = session.create_consumer(self.name)
        message = consumer.receive(WAIT)
        assert message is not None
        self.assertEqual(self.text(message), "high")
        message.acknowledge()
        session.close()
        self.assertEqual(self.left(), ["low"])


class TransactionTests(ModeCase):
    def test_commit(self) -> None:
        session = self.session(AcknowledgeMode.SESSION_TRANSACTED)
        session.create_producer(self.name).send("x")
        self.assertEqual(self.left(), [])
        session.commit()
        self.assertEqual(self.left(), ["x"])

    def test_rollback_of_sends(self) -> None:
        session = self.session(AcknowledgeMode.SESSION_TRANSACTED)
        session.create_producer(self.name).send("x")
        session.rollback()
        self.assertEqual(self.left(), [])

    def test_rollback_of_receipts(self) -> None:
        session = self.connect().create_session(transacted=True)
        consumer = self.filled(session, "a", "b", "c")
        self.assertEqual(self.texts(consumer, 2), ["a", "b"])
        session.rollback()
        messages = [consumer.receive(WAIT) for _ in range(3)]
        self.assertEqual([(self.text(one), one.delivery_count) for one in messages if one], [("a", 2), ("b", 2), ("c", 1)])
        session.commit()
        session.close()
        self.assertEqual(self.left(), [])

    def test_closing_rolls_back(self) -> None:
        session = self.connect().create_session(transacted=True)
        self.filled(session, "a").receive(WAIT)
        session.create_producer(self.name).send("b")
        session.close()
        self.assertEqual(self.left(), ["a"])

    def test_dead_letters(self) -> None:
        """After three deliveries a message goes to the dead letter address, and tells where it came from."""
        session = self.connect().create_session(transacted=True)
        consumer = self.filled(session, "poison")
        for _ in range(3):
            self.assertIsNotNone(consumer.receive(WAIT))
            session.rollback()
        self.assert_empty(consumer)
        dead = self.session().create_consumer("DLQ", f"_AMQ_ORIG_ADDRESS = '{self.name}'").receive(WAIT)
        assert dead is not None
        self.assertEqual((self.text(dead), dead.properties["_AMQ_ORIG_QUEUE"]), ("poison", self.name))

    def test_recover_is_refused(self) -> None:
        self.assertRaises(IllegalStateException, self.session(AcknowledgeMode.SESSION_TRANSACTED).recover)


class ListenerTests(ModeCase):
    def test_a_listener_gets_messages_in_order(self) -> None:
        session, got = self.session(), list[str | None]()
        consumer = self.filled(session, *"abc")
        consumer.listener = lambda message: got.append(self.text(message))
        self.assertRaises(IllegalStateException, consumer.receive, 10)
        self.session().create_producer(self.name).send("d")
        self.eventually(lambda: len(got) == 4)
        self.assertEqual(got, ["a", "b", "c", "d"])
        session.close()
        self.assertEqual(self.left(), [])

    def test_an_exception_makes_the_message_come_again(self) -> None:
        for mode in (AcknowledgeMode.AUTO_ACKNOWLEDGE, AcknowledgeMode.INDIVIDUAL_ACKNOWLEDGE):
            session, got = self.session(mode), list[tuple[str | None, int]]()

            def listener(message: Message, got: list[tuple[str | None, int]] = got) -> None:
                got.append((self.text(message), message.delivery_count))
                if len(got) == 1:
                    raise ValueError("planned")
                message.acknowledge()

            with self.assertLogs("mqclient.jms.consumer", "ERROR") as logs:
                self.filled(session, "a", "b").listener = listener
                self.eventually(lambda got=got: len(got) == 3)
            [record] = logs.records
            self.assertIn(f"the listener of queue://{self.name} failed with message ID:", record.getMessage())
            self.assertIn("at delivery 1: ValueError: planned", record.getMessage())
            self.assertIsNotNone(record.exc_info)
            self.assertEqual(got, [("a", 1), ("a", 2), ("b", 1)], mode.name)
            session.close()
            self.assertEqual(self.left(), [])

    def test_a_transaction_in_a_listener(self) -> None:
        session, got = self.connect().create_session(transacted=True), list[str | None]()

        def listener(message: Message) -> None:
            got.append(self.text(message))
            if len(got) == 1:
                session.rollback()
            else:
                session.commit()

        self.filled(session, "a").listener = listener
        self.eventually(lambda: len(got) == 2)
        session.close()
        self.assertEqual((got, self.left()), (["a", "a"], []))

    def test_closing_in_a_listener_is_refused(self) -> None:
        connection = self.connect()
        session, refused = connection.create_session(), list[str]()

        def listener(message: Message) -> None:
            for close in (session.close, connection.close, connection.stop):
                try:
                    close()
                except IllegalStateException:
                    refused.append(close.__name__)

        self.filled(session, "a").listener = listener
        self.eventually(lambda: len(refused) == 3)
        self.assertEqual(refused, ["close", "close", "stop"])

    def test_a_consumer_can_be_closed_by_its_listener(self) -> None:
        session, done = self.session(), threading.Event()
        consumer = self.filled(session, "a", "b")

        def listener(message: Message) -> None:
            consumer.close()
            done.set()

        consumer.listener = listener
        self.assertTrue(done.wait(WAIT / 1000))
        session.close()
        self.assertEqual(self.left(), ["b"], "the listener has had the other one")

    def test_no_listener_is_called_any_more_when_close_has_returned(self) -> None:
        for _ in range(10):
            session, calls = self.session(), list[str]()
            consumer = self.filled(session, *map(str, range(50)))

            def listener(message: Message, calls: list[str] = calls) -> None:
                calls.append("begun")
                time.sleep(0.002)
                calls.append("ended")

            consumer.listener = listener
            self.eventually(lambda calls=calls: calls)
            consumer.close()
            after = list(calls)
            time.sleep(0.01)
            self.assertEqual(calls, after)
            self.assertEqual(after.count("begun"), after.count("ended"))
            self.left()

    def test_a_running_listener_can_finish_its_work_while_its_connection_is_closed(self) -> None:
        connection = self.connect()
        session, begun, closing = connection.create_session(transacted=True), threading.Event(), threading.Event()
        producer, errors = session.create_producer(self.name + ".out"), list[Exception]()

        def listener(message: Message) -> None:
            begun.set()
            closing.wait(WAIT / 1000)
            try:
                self.eventually(lambda: connection.closed)
                time.sleep(0.1)  # by now it waits for this listener
                producer.send("done")
                session.commit()
            except Exception as error:
                errors.append(error)

        consumer = session.create_consumer(self.name)
        self.filled(self.session(), "a").close()
        consumer.listener = listener
        self.assertTrue(begun.wait(WAIT / 1000))
        thread = threading.Thread(target=connection.close)
        thread.start()
        closing.set()
        thread.join(WAIT / 1000)
        self.assertEqual(errors, [])
        self.assertEqual(self.left(), [])
        self.name += ".out"
        self.assertEqual(self.left(), ["done"])

    def test_taking_the_listener_away(self) -> None:
        session, got = self.session(), list[Message]()
        consumer = self.filled(session, "a")
        consumer.listener = got.append
        self.eventually(lambda: got)
        consumer.listener = None
        self.session().create_producer(self.name).send("b")
        self.assertEqual(self.texts(consumer, 1), ["b"])


class LifeCycleTests(ModeCase):
    def test_nothing_arrives_before_the_start_and_while_stopped(self) -> None:
        connection = self.factory().create_connection()
        self.addCleanup(connection.close)
        consumer = self.filled(connection.create_session(), "a", "b", "c")
        self.assert_empty(consumer)
        connection.start()
        self.assertEqual(self.texts(consumer, 1), ["a"])
        connection.stop()
        self.assert_empty(consumer)
        connection.start()
        self.assertEqual(self.texts(consumer, 2), ["b", "c"])

    def test_closed_objects(self) -> None:
        connection = self.connect()
        session = connection.create_session()
        producer, consumer = session.create_producer(self.name), session.create_consumer(self.name)
        producer.close()
        consumer.close()
        self.assertRaises(IllegalStateException, producer.send, "x")
        self.assertRaises(IllegalStateException, consumer.receive, 0)
        self.assertEqual(list(consumer), [])
        for closing in (session, connection, session, connection):
            closing.close()
        self.assertRaises(IllegalStateException, session.create_producer, self.name)
        self.assertRaises(IllegalStateException, connection.create_session)
        self.assertRaises(IllegalStateException, connection.start)

    def test_closing_wakes_a_waiting_receive(self) -> None:
        for close_connection in (False, True):
            connection = self.connect()
            consumer = connection.create_session().create_consumer(self.name)
            results: list[object] = []
            thread = threading.Thread(target=lambda consumer=consumer, results=results: results.append(consumer.receive()))
            thread.start()
            self.eventually(lambda thread=thread: waits_for_messages(thread))
            (connection if close_connection else consumer).close()
            thread.join(WAIT / 1000)
            self.assertEqual(results, [None])

    def test_the_factory_is_frozen_and_closes_its_connections(self) -> None:
        factory = self.factory()
        connection = factory.create_connection()
        with self.assertRaises(IllegalStateException):
            factory.settings.call_timeout = 1
        factory.close()
        self.assertTrue(connection.closed)
        self.assertRaises(IllegalStateException, factory.create_connection)

    def test_client_ids_are_unique(self) -> None:
        first = self.connect()
        first_name, self.name = self.name, self.name + ".x"
        unused = self.factory().create_connection()
        self.addCleanup(unused.close)
        unused.client_id = first_name
        self.assertRaises(InvalidClientIDException, self.factory(client_id=first_name).create_connection)
        with self.assertRaises(IllegalStateException):
            unused.client_id = "another"
        with self.assertRaises(IllegalStateException):
            first.client_id = "too late"
        shared = [self.connect(client_id=self.name, enable_shared_client_id=True) for _ in range(2)]
        self.assertEqual([one.client_id for one in shared], [self.name] * 2)

    def test_no_broker(self) -> None:
        import socket

        from mqclient.jms import ConnectionFactory

        with socket.socket() as holder:  # nobody listens there, and nobody else gets the port
            holder.bind(("127.0.0.1", 0))
            url = f"tcp://127.0.0.1:{holder.getsockname()[1]}"
            self.assertRaises(JMSException, ConnectionFactory(url, retry_interval=1).create_connection)


class AsyncSendTests(ModeCase):
    def test_futures(self) -> None:
        session = self.session(confirmation_window_size=100_000)
        futures = [session.create_producer(self.name).send_async(str(number)) for number in range(10)]
        sent = [future.result(WAIT / 1000) for future in futures]
        self.assertEqual([self.text(message) for message in sent], [str(number) for number in range(10)])
        self.assertEqual(len(self.left()), 10)

    def test_completion_listener(self) -> None:
        done: list[Message] = []

        class Listener:
            def on_completion(self, message: Message) -> None:
                done.append(message)

            def on_exception(self, message: Message, exception: JMSException) -> None:
                raise exception

        session = self.session(confirmation_window_size=100_000)
        producer = session.create_producer(self.name)
        sent = [producer.send(str(number), completion_listener=Listener()) for number in range(5)]
        session.close()
        self.assertEqual(done, sent)

    def test_commit_waits_for_the_outcome(self) -> None:
        session = self.session(AcknowledgeMode.SESSION_TRANSACTED, confirmation_window_size=100_000)
        futures = [session.create_producer(self.name).send_async(TextMessage("x")) for _ in range(3)]
        session.commit()
        self.assertTrue(all(future.done() for future in futures))
        self.assertEqual(self.left(), ["x"] * 3)
