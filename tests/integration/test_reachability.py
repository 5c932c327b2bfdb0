"""The network check of a broker process: it stops while a web server is away and its ping fails, and comes back."""

from __future__ import annotations

import re
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mqclient.jms import ConnectionFactory, TextMessage
from tests.integration.cluster.nodes import ReservedPort
from tests.integration.ha.processes import ProcessesCase

WAIT_SECONDS = 30.0


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Nothing is written."""


class NetworkCheckTests(ProcessesCase):
    names = ("broker",)

    def setUp(self) -> None:
        super().setUp()
        reserved = ReservedPort()
        self.addCleanup(reserved.close)
        self.web = reserved.number
        self.elements = f"<network-check-URL-list>http://127.0.0.1:{self.web}/</network-check-URL-list>"

    def configuration(self, name: str) -> str:
        return f"""<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<name>{name}</name><security-enabled>false</security-enabled><persistence-enabled>true</persistence-enabled>
<network-check-period>100</network-check-period><network-check-timeout>10000</network-check-timeout>{self.elements}
<metrics><plugin class-name="org.apache.activemq.artemis.core.server.metrics.plugins.ArtemisPrometheusMetricsPlugin">
<property key="port" value="0"/></plugin></metrics>
<acceptors><acceptor name="a">tcp://127.0.0.1:{self.ports[name]}?protocols=CORE</acceptor></acceptors>
</core></configuration>"""

    def answer(self) -> ThreadingHTTPServer:
        server = ThreadingHTTPServer(("127.0.0.1", self.web), _Answers)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.addCleanup(self.silence, server)
        return server

    def silence(self, server: ThreadingHTTPServer) -> None:
        server.shutdown()
        server.server_close()

    def health(self, log: str, page: str) -> tuple[int, str]:
        found = re.search(r"health and metrics at (http://[0-9.:]+)", log)
        assert found is not None
        try:
            with urllib.request.urlopen(f"{found[1]}/{page}", timeout=WAIT_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def received(self, factory: ConnectionFactory) -> str:
        with factory.create_connection() as connection:
            connection.start()
            session = connection.create_session()
            message = session.create_consumer(session.create_queue("q")).receive(int(WAIT_SECONDS * 1000))
            assert isinstance(message, TextMessage)
            return message.text

    def test_it_stops_while_nobody_answers_and_comes_back_with_its_messages(self) -> None:
        server = self.answer()
        broker = self.start("broker")
        factory = ConnectionFactory(f"tcp://127.0.0.1:{self.ports['broker']}?reconnectAttempts=-1&retryInterval=50")
        with factory.create_connection() as connection:
            session = connection.create_session()
            session.create_producer(session.create_queue("q")).send(session.create_text_message("kept"))
            self.silence(server)
            log = broker.wait_for("AMQ201001: Network is unhealthy")
            self.assertIn(f"AMQ202003: Ping Url http://127.0.0.1:{self.web}/ wasn't reachable", log)
            self.wait_until(lambda: self.health(log, "health/ready")[1].startswith("the broker is stopped (none of the places"))
            self.assertEqual(self.health(log, "health/ready")[0], 503)
            self.assertEqual(self.health(log, "health/live")[0], 200)
            self.assertIn('state="isolated"', self.health(log, "metrics")[1])
            self.answer()
            broker.wait_for("AMQ201000: Network is healthy")
            broker.wait_for("AMQ221007", times=2)
        self.assertEqual(self.received(factory), "kept")
        self.assertEqual(self.health(log, "health/ready")[0], 200)
        broker.stop()
        self.assertEqual(broker.ended(), -signal.SIGTERM)

    def test_a_ping_that_succeeds_is_enough_and_a_broker_that_reaches_nobody_does_not_become_active(self) -> None:
        mark = self.folder / "network"
        program = self.folder / "ping.sh"
        program.write_text(f'#!/bin/sh\n[ "$1 $2" = "10 192.0.2.1" ] && [ -e {mark} ]\n')
        program.chmod(0o755)
        self.elements += (
            f"<network-check-list>192.0.2.1</network-check-list><network-check-ping-command>{program} %d %s</network-check-ping-command>"
        )
        broker = self.start("broker", "AMQ201001")
        self.assertNotIn("AMQ221007", broker.wait_for("AMQ202002: Ping Address 192.0.2.1"))
        mark.touch()
        broker.wait_for("AMQ221007")
        mark.unlink()
        broker.wait_for("AMQ201001", times=2)
        broker.stop()
        self.assertEqual(broker.ended(), -signal.SIGTERM)

    def test_a_list_of_the_broker_itself_is_refused_and_a_wrong_ping_command_told(self) -> None:
        self.elements = "<network-check-list>127.0.0.1</network-check-list>"
        with self.assertRaises(AssertionError) as refused:
            self.start("broker")
        self.assertIn("network-check-list: 127.0.0.1 is this broker itself", str(refused.exception))
        self.elements = (
            "<network-check-list>192.0.2.1</network-check-list><network-check-ping-command>false -t %d %s</network-check-ping-command>"
        )
        self.start("broker", "-t is the number of hops")

    def wait_until(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not reached():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
