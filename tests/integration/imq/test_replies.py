"""Requests and replies over two brokers: the reply is sent at another broker than that of the temporary queue."""

from __future__ import annotations

import threading

from mqclient.jms import JMSConsumer, JMSContext, TemporaryQueue
from tests.integration.imq.members import SECONDS, Members

REQUESTS = 30


class ReplyTests(Members):
    def setUp(self) -> None:
        super().setUp()
        self.over = threading.Event()
        self.failures: list[Exception] = []
        # It answers at broker 2 what is asked at broker 1; a session belongs to one thread.
        answering = self.context(2)
        requests = answering.create_consumer(answering.create_queue("requests"))
        thread = threading.Thread(target=self._answer, args=(answering, requests))
        self.addCleanup(thread.join)
        self.addCleanup(self.over.set)
        thread.start()
        self.asking = self.context(1)
        self.producer = self.asking.create_producer()

    def _answer(self, context: JMSContext, requests: JMSConsumer) -> None:
        producer = context.create_producer()
        try:
            while not self.over.is_set():
                request = requests.receive(200)
                if request is not None:
                    assert request.reply_to is not None
                    producer.send(request.reply_to, f"reply to {request.text}")  # type: ignore[attr-defined]
        except Exception as error:  # shown by the test
            self.failures.append(error)

    def ask(self, replies: TemporaryQueue, number: int) -> None:
        request = self.asking.create_text_message(f"m{number}")
        request.reply_to = replies
        self.producer.send(self.asking.create_queue("requests"), request)

    def assert_answered(self, consumer: JMSConsumer, number: int) -> None:
        reply = consumer.receive(int(SECONDS * 1000))
        self.assertEqual(self.failures, [])
        assert reply is not None, f"no reply to m{number}"
        self.assertEqual(reply.text, f"reply to m{number}")  # type: ignore[attr-defined]

    def test_a_temporary_queue_for_each_request(self) -> None:
        for number in range(REQUESTS):
            replies = self.asking.create_temporary_queue()
            consumer = self.asking.create_consumer(replies)
            self.ask(replies, number)
            self.assert_answered(consumer, number)
            consumer.close()
            replies.delete()

    def test_replies_that_wait_for_their_consumer(self) -> None:
        replies = self.asking.create_temporary_queue()
        for number in range(REQUESTS):
            self.ask(replies, number)
        consumer = self.asking.create_consumer(replies)
        for number in range(REQUESTS):
            self.assert_answered(consumer, number)
