"""An import sends to a broker that answers from tables."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.data.importing import Importer
from mqbroker.cli.management import MissingResource
from mqbroker.cli.status import CommandError
from mqclient.core.message import ClientMessage
from mqclient.errors import AddressFullError
from mqclient.wire.message import KEY_DUPLICATE_ID, encode_message
from mqclient.wire.properties import STRING

BINDINGS = """<address-binding routing-types="ANYCAST" name="{0}" id="1"/>
<queue-binding address="{0}" filter-string="" name="{0}" id="2" routing-type="ANYCAST"/>"""


@dataclass
class Found:
    exists: bool
    address: str = ""
    routing_type: int = 1


class FakeBroker:
    """The runner, both sessions and the producer in one; ``queues`` are those that are there."""

    def __init__(self, **queues: Found) -> None:
        self.queues = queues
        self.sent: list[ClientMessage] = []
        self.committed = 0
        self.room = 1000

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def create_producer(self) -> FakeBroker:
        return self

    def address_query(self, name: str) -> Found:
        return Found(any(queue.address == name for queue in self.queues.values()))

    def queue_query(self, name: str) -> Found:
        return self.queues.get(name, Found(False))

    def create_address(self, name: str, types: object) -> None:
        """The queue that follows makes it known."""

    def create_queue(self, configuration: Any) -> None:
        self.queues[configuration.name] = Found(True, configuration.address)

    def queue_id(self, name: str) -> int:
        if name not in self.queues:
            raise MissingResource(f"queue {name} does not exist")
        return 7

    def send(self, message: ClientMessage, address: str) -> None:
        if len(self.sent) == self.room:
            raise AddressFullError("full")
        encode_message(message)
        self.sent.append(message)

    def commit(self) -> None:
        self.committed = len(self.sent)


class ImportingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = FakeBroker()
        self.told = io.StringIO()

    def run_import(self, *messages: str, queue: str = "q", sort: bool = False, imported: Callable[[], None] = lambda: None) -> int:
        file = Path(self.mktemp())
        text = "\n".join(messages)
        file.write_text(f"<activemq-journal><bindings>{BINDINGS.format(queue)}</bindings><messages>\n{text}</messages></activemq-journal>")
        broker: Any = self.broker
        with contextlib.redirect_stderr(self.told):
            return Importer(broker, broker, broker, False, broker.queue_id).run(file, sort, imported).messages

    def refused(self, *messages: str, **options: Any) -> str:
        with self.assertRaises(CommandError) as raised:
            self.run_import(*messages, **options)
        return str(raised.exception)

    @staticmethod
    def message(number: object, properties: str = "", attributes: str = "") -> str:
        return (
            f'<message id="{number}" {attributes} type="text"><properties>{properties}</properties><queues><queue name="q"/></queues>'
            "<body><![CDATA[AAE=]]></body></message>"
        )

    def test_copies_with_the_duplicate_id_of_one_message_all_arrive(self) -> None:
        """Such as dead letters of two queues: the broker takes an id once, and gives up the whole transaction at the second one."""
        known = '<property name="_AMQ_DUPL_ID" value="{}" type="string"/>'
        self.assertEqual(self.run_import(*(self.message(number, known.format(each)) for number, each in enumerate("aab"))), 3)
        found = [message.properties.get(KEY_DUPLICATE_ID) for message in self.broker.sent]
        self.assertEqual(found, [(STRING, "a"), None, (STRING, "b")])
        self.assertEqual(self.broker.committed, 3)

    def test_a_queue_of_another_address_is_refused(self) -> None:
        """The broker drops messages for it."""
        self.broker.queues["q"] = Found(True, "elsewhere")
        self.assertIn("the queue q belongs to the address elsewhere in the broker, and to q in the file", self.refused(self.message(1)))
        self.broker.queues["q"] = Found(True, "q", 0)
        self.assertIn("the queue q is MULTICAST in the broker, and ANYCAST in the file", self.refused(self.message(1)))
        self.broker.queues["q"] = Found(True, "q", 1)
        self.assertEqual(self.run_import(self.message(1)), 1)

    def test_a_queue_that_is_deleted_meanwhile_is_told(self) -> None:
        self.assertIn("the queue q was deleted meanwhile", self.refused(self.message(1), imported=self.broker.queues.clear))

    def test_an_error_of_the_broker_comes_with_the_line_and_with_what_is_there(self) -> None:
        self.broker.room = 500
        with self.assertRaises(AddressFullError):
            self.run_import(*map(self.message, range(510)))
        self.assertRegex(self.told.getvalue(), r", line 503: 500 messages were imported before\n$")

    def test_values_that_do_not_fit_come_with_their_line(self) -> None:
        number = '<property name="n" value="300" type="byte"/>'
        self.assertRegex(self.refused(self.message(1, number)), r": line 3: .*300.*; 0 messages were imported before")
        self.assertRegex(self.refused(self.message("one"), sort=True), r": line 3: <message>: .*one")
        self.assertRegex(self.refused(self.message(1, attributes='priority="300"')), r": line 3: ")
        self.assertRegex(self.refused(self.message(1, attributes='timestamp="99999999999999999999"')), r": line 3: ")
