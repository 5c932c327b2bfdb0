"""Queues, topics, subscriptions, temporary destinations, browsers."""

from __future__ import annotations

import threading
from typing import Any

from mqclient.jms import (
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    Queue,
    QueueBrowser,
    TemporaryQueue,
    TextMessage,
    Topic,
)
from tests.integration.mqclient.jms.case import WAIT, BrokerCase


class LookupTests(BrokerCase):
    def test_queues_and_topics_are_created_on_demand(self) -> None:
        session = self.session()
        queue, topic = session.create_queue(self.name), session.create_topic(self.name + ".t")
        session.create_producer(queue).send("q")
        subscriber = session.create_consumer(topic)
        session.create_producer(topic).send("t")
        self.assertEqual((self.texts(session.create_consumer(queue), 1), self.texts(subscriber, 1)), (["q"], ["t"]))

    def test_what_may_not_be_created(self) -> None:
        session = self.session()
        name = f"fixed.{self.name}"
        for use in (session.create_producer, session.create_consumer, session.create_browser):
            self.assertRaises(InvalidDestinationException, use, Queue(name))
        for topic in (session.create_producer, session.create_consumer):
            self.assertRaises(InvalidDestinationException, topic, Topic(name))
        self.assertRaises(InvalidDestinationException, session.create_topic, name)
        self.assertRaises(InvalidDestinationException, session.create_queue, name)
        self.assertRaises(InvalidDestinationException, session.create_shared_consumer, Topic(name), "s")

    def test_the_other_kind(self) -> None:
        session = self.session()
        self.assertRaises(InvalidDestinationException, session.create_producer, Queue("plain.topic"))
        self.assertRaises(InvalidDestinationException, session.create_producer, Topic("plain.queue"))
        self.assertRaises(InvalidDestinationException, session.create_consumer, Topic("plain.queue"))
        self.assertRaises(InvalidDestinationException, session.create_browser, Topic("plain.topic"))

    def test_each_call_names_its_destination(self) -> None:
        session = self.session()
        producer = session.create_producer()
        subscriber = session.create_consumer(Topic(self.name + ".t"))
        producer.send("q", destination=self.name)
        producer.send("t", destination=f"topic://{self.name}.t")
        self.assertEqual((self.texts(session.create_consumer(self.name), 1), self.texts(subscriber, 1)), (["q"], ["t"]))
        self.assertRaises(InvalidDestinationException, producer.send, "x")
        self.assertRaises(IllegalStateException, session.create_producer(self.name).send, "x", destination="other")

    def test_fully_qualified_names(self) -> None:
        session = self.session()
        one, two = (session.create_consumer(Queue(f"{self.name}::{self.name}.{queue}")) for queue in "ab")
        session.create_producer(Queue(f"{self.name}::{self.name}.b")).send("x")
        self.assertEqual(self.texts(two, 1), ["x"])
        self.assert_empty(one)

    def test_options_of_the_name(self) -> None:
        session = self.session()
        session.create_consumer(Queue(f"{self.name}?max-consumers=1"))
        self.assertRaises(JMSException, session.create_consumer, Queue(self.name))

    def test_consumer_priority(self) -> None:
        session = self.session()
        low = session.create_consumer(Queue(self.name))
        high = session.create_consumer(Queue(f"{self.name}?consumer-priority=5"))
        producer = session.create_producer(self.name)
        for text in "abc":
            producer.send(text)
        self.assertEqual(self.texts(high, 3), ["a", "b", "c"])
        self.assert_empty(low)

    def test_names_of_version_1(self) -> None:
        """A queue that exists with the old prefix is found; with the factory's switch all names have it."""
        session = self.session(enable_1x_prefixes=True)
        queue = session.create_queue(f"fixed.{self.name}")
        session.create_producer(queue).send("x")
        self.assertEqual(queue.name, f"jms.queue.fixed.{self.name}")
        self.assertEqual(self.session().create_queue(f"fixed.{self.name}"), queue)
        self.assertTrue(session.create_temporary_topic().name.startswith("jms.temptopic."))

    def test_cached_destinations(self) -> None:
        session = self.session(cache_destinations=True)
        self.assertIs(session.create_queue(self.name), session.create_queue(self.name))
        self.assertIsNot(session.create_queue(self.name), session.create_topic(self.name))


class SelectorTests(BrokerCase):
    def test_queue(self) -> None:
        session = self.session()
        producer = session.create_producer(self.name)
        for number in range(4):
            message = TextMessage(str(number))
            message.properties["n"] = number
            producer.send(message, priority=number)
        consumer = session.create_consumer(self.name, "n > 1 AND JMSPriority < 3 AND JMSDeliveryMode = 'PERSISTENT'")
        self.assertEqual(self.texts(consumer, 1), ["2"])
        self.assert_empty(consumer)
        self.assertRaises(InvalidSelectorException, session.create_consumer, self.name, "n >")

    def test_no_local(self) -> None:
        session, other = self.session(), self.session()
        subscriber = session.create_consumer(Topic(self.name), "colour = 'red' OR colour = 'blue'", no_local=True)
        for sender, text in [(session, "mine"), (other, "theirs")]:
            message = TextMessage(text)
            message.properties["colour"] = "red"
            sender.create_producer(Topic(self.name)).send(message)
        self.assertEqual(self.texts(subscriber, 1), ["theirs"])
        self.assert_empty(subscriber)


class SubscriptionTests(BrokerCase):
    def test_every_subscriber_gets_every_message(self) -> None:
        session = self.session()
        subscribers = [session.create_consumer(Topic(self.name)) for _ in range(2)]
        session.create_producer(Topic(self.name)).send("x")
        self.assertEqual([self.texts(one, 1) for one in subscribers], [["x"], ["x"]])

    def test_durable(self) -> None:
        topic = Topic(self.name)
        session = self.session(client_id=self.name)
        session.create_durable_consumer(topic, "sub.x").close()
        session.create_producer(topic).send("kept")
        consumer = session.create_durable_consumer(topic, "sub.x")
        self.assertEqual(self.texts(consumer, 1), ["kept"])
        self.assertRaises(IllegalStateException, session.create_durable_consumer, topic, "sub.x")
        self.assertRaises(IllegalStateException, session.unsubscribe, "sub.x")
        consumer.close()
        session.unsubscribe("sub.x")
        self.assertRaises(InvalidDestinationException, session.unsubscribe, "sub.x")
        self.assertRaises(IllegalStateException, self.session().create_durable_consumer, topic, "sub.x")

    def test_another_selector_makes_the_subscription_anew(self) -> None:
        topic = Topic(self.name)
        session = self.session(client_id=self.name)
        session.create_durable_consumer(topic, "s", "n = 1").close()
        message = TextMessage("one")
        message.properties["n"] = 1
        session.create_producer(topic).send(message)
        consumer = session.create_durable_consumer(topic, "s", "n = 2")
        self.assert_empty(consumer)

    def test_shared(self) -> None:
        topic = Topic(self.name)
        for durable in (False, True):
            sessions = [self.session(), self.session()]
            make = [one.create_shared_durable_consumer if durable else one.create_shared_consumer for one in sessions]
            one, two = (create(topic, f"shared-{durable}") for create in make)
            producer = sessions[0].create_producer(topic)
            producer.send("a")
            producer.send("b")
            self.assertEqual(sorted(map(str, self.texts(one, 1) + self.texts(two, 1))), ["a", "b"])
            self.assertRaises(JMSException, make[0], topic, f"shared-{durable}", "n = 1")
            one.close()
            two.close()
        self.session().unsubscribe("shared-True")

    def test_a_closed_subscription_leaves_no_queue(self) -> None:
        session = self.session()
        consumer = session.create_consumer(Topic(self.name))
        self.assertEqual(len(session.work.lookup.address(self.name).queue_names), 1)
        consumer.close()
        self.assertEqual(session.work.lookup.address(self.name).queue_names, ())


class TemporaryTests(BrokerCase):
    def test_request_and_reply(self) -> None:
        client, server = self.session(), self.session()

        def serve() -> None:
            request = server.create_consumer(self.name).receive(WAIT)
            assert request is not None and request.reply_to is not None
            answer = TextMessage("pong")
            answer.correlation_id = request.message_id
            server.create_producer().send(answer, destination=request.reply_to)

        thread = threading.Thread(target=serve)
        thread.start()
        answers = client.create_temporary_queue()
        question = TextMessage("ping")
        question.reply_to = answers
        consumer = client.create_consumer(answers)
        sent = client.create_producer(self.name).send(question)
        answer = consumer.receive(WAIT)
        thread.join(WAIT / 1000)
        assert answer is not None
        self.assertEqual((self.text(answer), answer.correlation_id), ("pong", sent.message_id))
        self.assertRaises(JMSException, answers.delete)
        consumer.close()
        answers.delete()
        self.assertRaises(InvalidDestinationException, server.create_producer().send, "late", destination=answers)

    def test_topic(self) -> None:
        session = self.session()
        topic = session.create_temporary_topic()
        subscriber = session.create_consumer(topic)
        session.create_producer(topic).send("x")
        self.assertEqual(self.texts(subscriber, 1), ["x"])
        self.assertRaises(IllegalStateException, topic.delete)
        subscriber.close()
        topic.delete()

    def test_only_the_own_connection_consumes(self) -> None:
        queue = self.session().create_temporary_queue()
        self.assertRaises(InvalidDestinationException, self.session().create_consumer, queue)
        self.assertRaises(InvalidDestinationException, self.session().create_consumer, TemporaryQueue(queue.name))

    def test_they_end_with_the_connection(self) -> None:
        connection = self.connect()
        queue = connection.create_session().create_temporary_queue()
        connection.close()
        other = self.session()
        self.eventually(lambda: not other.work.lookup.queue(queue.name).exists)


class BrowserTests(BrokerCase):
    def browsed(self, browser: QueueBrowser) -> list[str | None]:
        return [self.text(message) for message in browser]

    def test_browsing_takes_nothing(self) -> None:
        session = self.session()
        producer = session.create_producer(self.name)
        for number in range(3):
            message = TextMessage(str(number))
            message.properties["n"] = number
            producer.send(message)
        with session.create_browser(self.name) as browser:
            self.assertEqual(self.browsed(browser), ["0", "1", "2"])
            producer.send("3")
            self.assertEqual(self.browsed(browser), ["0", "1", "2", "3"])
        self.assertEqual(self.browsed(session.create_browser(self.name, "n > 1")), ["2"])
        self.assertEqual(self.texts(session.create_consumer(self.name), 4), ["0", "1", "2", "3"])
        self.assertRaises(IllegalStateException, list, browser)

    def test_an_iteration_that_is_left_early(self) -> None:
        session = self.session()
        for text in "ab":
            session.create_producer(self.name).send(text)
        browser = session.create_browser(self.name)
        for message in browser:
            self.assertEqual(self.text(message), "a")
            break
        browser.close()
        self.eventually(lambda: session.work.lookup.queue(self.name).consumer_count == 0)

    def test_large_messages_that_nobody_reads(self) -> None:
        """Neither browsing nor receiving without waiting may end before the last message."""
        sizes = [100, 200_000, 100, 200_000, 200_000, 100]
        for window in (1024 * 1024, 100_000, 0):
            for read in (False, True):
                session = self.session(consumer_window_size=window)
                name = f"{self.name}.{window}.{read}"
                producer = session.create_producer(name)
                for size in sizes:
                    producer.send(bytes(size))
                browsed: list[Any] = list(session.create_browser(name)) if not read else []
                found = [message.body_length for message in browsed]
                if read:  # each before the next one is looked at
                    found = [len(message.body) for message in session.create_browser(name)]
                self.assertEqual(found, sizes, (window, read))
                consumer, received = session.create_consumer(name), 0
                while consumer.receive(0) is not None:
                    received += 1
                self.assertEqual(received, len(sizes), (window, read))

    def test_an_empty_queue(self) -> None:
        self.assertEqual(list(self.session().create_browser(self.name)), [])


class ContextTests(BrokerCase):
    def test_the_simplified_api(self) -> None:
        context = self.context()
        producer = context.create_producer(priority=8, correlation_id="c", properties={"all": 1})
        producer.send(self.name, "text", properties={"one": 2})
        producer.send(self.name, {"a": 1})
        consumer = context.create_consumer(self.name)
        message = consumer.receive(WAIT)
        assert message is not None
        self.assertEqual((message.priority, message.correlation_id, message.properties["all"], message.properties["one"]), (8, "c", 1, 2))
        self.assertEqual(consumer.receive_body(WAIT), {"a": 1})
        self.assertIsNone(consumer.receive_no_wait())
        self.assertRaises(AttributeError, context.create_producer, colour="red")

    def test_iteration(self) -> None:
        context = self.context()
        for text in "abc":
            context.create_producer().send(self.name, text)
        found = []
        with context.create_consumer(self.name) as consumer:
            for message in consumer:
                found.append(self.text(message))
                if len(found) == 3:
                    consumer.close()
        self.assertEqual(found, ["a", "b", "c"])
