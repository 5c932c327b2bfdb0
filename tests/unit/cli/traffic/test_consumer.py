"""``mqbroker consumer``, with a queue of the test's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqclient.jms import AcknowledgeMode, TextMessage
from tests.unit.cli.runner import Result, mqbroker


class FakeQueue:
    """The connection, its sessions and its consumer in one; ``texts`` are the messages that are not acknowledged."""

    def __init__(self, *texts: str) -> None:
        self.texts = [*texts]
        self.mode = AcknowledgeMode.AUTO_ACKNOWLEDGE

    @contextlib.contextmanager
    def opened(self, _options: object) -> Iterator[FakeQueue]:
        yield self

    def create_session(
        self, acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO_ACKNOWLEDGE, *, transacted: bool = False
    ) -> FakeQueue:
        self.mode = AcknowledgeMode.SESSION_TRANSACTED if transacted else acknowledge_mode
        return self

    def create_consumer(self, _destination: object, _selector: object) -> FakeQueue:
        return self

    def __enter__(self) -> FakeQueue:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left open."""

    def receive(self, _timeout: int) -> TextMessage | None:
        if not self.texts:
            return None
        message = TextMessage(self.texts[0])
        message._acknowledge = self.commit
        if self.mode == AcknowledgeMode.AUTO_ACKNOWLEDGE:
            self.commit()
        return message

    def commit(self) -> None:
        del self.texts[0]


class FileTests(SynchronousTestCase):
    def consume(self, queue: FakeQueue, file: str, *options: str) -> Result:
        words = ("--message-count", str(len(queue.texts)), "--break-on-null", "--data", file)
        with mock.patch("mqbroker.cli.traffic.consumer.connected", queue.opened):
            return mqbroker("consumer", *words, *options)

    def test_a_message_is_acknowledged_when_it_is_in_the_file(self) -> None:
        for options in (), ("--commit-interval", "1"):
            queue, file = FakeQueue("a", "b"), Path(self.mktemp())
            self.assertEqual((self.consume(queue, str(file), *options).status, queue.texts), (0, []))
            self.assertEqual(file.read_text().count("<message "), 2)

    def test_a_message_that_does_not_get_into_the_file_stays_in_its_queue(self) -> None:
        for text, file, reason in (("a\x01b", self.mktemp(), "has characters that XML cannot hold"), ("ab", "/dev/full", "No space left")):
            for options in (), ("--commit-interval", "1"):
                queue = FakeQueue(text)
                result = self.consume(queue, file, *options)
                self.assertEqual((result.status, queue.texts), (1, [text]))
                self.assertIn(reason, result.err)
