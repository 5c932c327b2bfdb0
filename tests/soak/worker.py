"""One client process of the soak run, COUNT clients in threads: `python -m tests.soak.worker ROLE COUNT URL FOLDER PACE`.

Roles: `topic` publishes to a topic and `subscriber` reads it through durable subscriptions; `kinds` sends messages of several kinds to one
queue and `filtering` reads one kind each; `asking` and `replying` do request and reply over temporary queues; `visitor` opens and closes
connections; `manager` calls the management. Logs are as in the kill test, with the receiver before the name (`s0>t1-17`).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from mqbroker.cli.management import Management
from mqclient import jms
from tests.integration.kill.verdict import body_of
from tests.integration.kill.worker import Worker, main
from tests.soak.verdict import KINDS, kind_of

TOPIC = "topic://soak.topic"
MIXED = "queue://soak.mixed"
REQUESTS = "queue://soak.requests"
REPLY_MS = 2_000
REPLY_LIFE_MS = 5_000
MANAGED = "soak.managed"


class SoakWorker(Worker):
    """A thread of one role."""

    def run(self, role: str) -> None:
        modes = jms.AcknowledgeMode
        if role == "topic":
            self._wait_for_subscribers()
            self.connected(modes.AUTO_ACKNOWLEDGE, lambda session: self.send_all(session, TOPIC))
        elif role == "subscriber":
            self.connected(modes.CLIENT_ACKNOWLEDGE, self.subscribe)
        elif role == "kinds":
            self.connected(modes.AUTO_ACKNOWLEDGE, lambda session: self.send_all(session, MIXED))
        elif role == "filtering":
            self.connected(modes.CLIENT_ACKNOWLEDGE, self.select)
        elif role in ("asking", "replying"):
            self.connected(modes.AUTO_ACKNOWLEDGE, self.ask if role == "asking" else self.reply)
        elif role in ("visitor", "manager"):
            self.come_and_go(self.visit if role == "visitor" else self.manage, "visited" if role == "visitor" else "managed")
        else:
            raise ValueError(f"there is no role {role!r}")

    def _wait_for_subscribers(self) -> None:
        """What is published before the first subscription exists is for nobody."""
        while len(list(self.folder.glob("subscribed-*"))) < 2 and not self.stopping():
            time.sleep(0.1)

    def send_all(self, session: jms.Session, where: str) -> None:
        """As a producer of the kill test, with the kind of each message in a property."""
        with session.create_producer(where) as producer:
            while self._open is not None or not self.stopping():
                if self._open is None:
                    self._open = f"{self.name}-{self._count}"
                    self._count += 1
                message = session.create_text_message(body_of(self._open))
                message.properties["_AMQ_DUPL_ID"] = self._open
                message.set_int_property("kind", kind_of(self._open))
                self.log("try", self._open)
                producer.send(message)
                self.log("sent", self._open)
                self._open = None
                time.sleep(self.pace_seconds)

    def take_all(self, consumer: jms.MessageConsumer) -> None:
        label = f"{self.name}>"
        while not self.all_consumed():
            name = self.receive(consumer, acknowledge=True, label=label)
            if name is not None:
                self.log("acked", label + name)

    def subscribe(self, session: jms.Session) -> None:
        with session.create_shared_durable_consumer("soak.topic", f"subscription-{self.number}") as consumer:
            (self.folder / f"subscribed-{self.number}").touch()
            self.take_all(consumer)

    def select(self, session: jms.Session) -> None:
        with session.create_consumer(MIXED, f"kind = {self.number % KINDS}") as consumer:
            self.take_all(consumer)

    def ask(self, session: jms.Session) -> None:
        replies = session.create_temporary_queue()
        with session.create_producer(REQUESTS) as producer, session.create_consumer(replies) as consumer:
            while not self.stopping():
                name = f"{self.name}-{self._count}"
                self._count += 1
                request = session.create_text_message(name)
                request.reply_to = replies
                self.log("asked", name)
                producer.send(request, delivery_mode=jms.DeliveryMode.NON_PERSISTENT, time_to_live=REPLY_LIFE_MS)
                reply = consumer.receive(timeout=REPLY_MS)
                while isinstance(reply, jms.TextMessage) and reply.text != name:
                    # the answer to a question that was given up
                    reply = consumer.receive(timeout=REPLY_MS)
                self.log("unanswered" if reply is None else "answered", name)
                time.sleep(self.pace_seconds)

    def reply(self, session: jms.Session) -> None:
        with session.create_consumer(REQUESTS) as consumer, session.create_producer(None) as producer:
            while not self.stopping():
                request = consumer.receive(timeout=200)
                if isinstance(request, jms.TextMessage) and request.reply_to is not None:
                    try:
                        answer = session.create_text_message(request.text)
                        producer.send(answer, destination=request.reply_to, delivery_mode=jms.DeliveryMode.NON_PERSISTENT)
                    except jms.InvalidDestinationException:
                        self.log("gone", request.text or "?")

    def come_and_go(self, work: Callable[[jms.Connection], None], verb: str) -> None:
        """Each time with a connection of its own."""
        while not self.stopping():
            self.with_connection(work)
            self.log(verb, str(self._count))
            self._count += 1
            time.sleep(self.pace_seconds)

    def visit(self, connection: jms.Connection) -> None:
        with connection.create_session() as session:
            queue = session.create_temporary_queue()
            with session.create_producer(queue) as producer, session.create_consumer(queue) as consumer:
                producer.send("here", delivery_mode=jms.DeliveryMode.NON_PERSISTENT)
                consumer.receive(timeout=REPLY_MS)

    def manage(self, connection: jms.Connection) -> None:
        """Questions and operations: a queue comes and goes."""
        management = Management(connection)
        name = f"{MANAGED}.{self.name}"
        if name in management.invoke("broker", "getQueueNames"):
            management.invoke("broker", "destroyQueue", name)
        management.invoke("broker", "createQueue", json.dumps({"name": name, "address": name, "routing-type": "ANYCAST"}))
        management.attribute(f"queue.{name}", "MessageCount")
        management.invoke("broker", "destroyQueue", name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], SoakWorker))
