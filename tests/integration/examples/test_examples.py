"""Every program in examples/ runs, says what it should, and ends by itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.integration.brokers import broker_url, environment

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
TIMEOUT = 60  # s: for a busy machine; each takes about one second
SAYS = {
    "application_failover": r"half of the orders are sent\nall orders came: True\nconnections: 1\n",
    "asyncio_client": r"message 0\nmessage 1\nmessage 2\n",
    "asyncio_worker": r"(worker \d: job \d is done\n)+worker \d: job 3 failed \(out of paper\) and .*\n(worker \d: job \d is done\n)+",
    "browse_queue": r"in the queue: \['message 0', 'message 1', 'message 2'\]\nselected: \['message 2'\]\n(received: message \d\n){3}",
    "dead_letter": r"(attempt \d+\n)+dead letter: a message that nobody can read from queue example.poison\n",
    "distributed_transaction": r"in doubt: 2\ninvoice for order 1\n",
    "duplicate_ids": r"half of the orders are sent\neach order came once: True\n",
    "durable_subscription": r"the news of Monday\nthe news of Tuesday\n",
    "embedded_broker": r"no socket was opened for this\n",
    "first_message": r"Hello from Python\n",
    "large_message": r"bytes announced: 5000000\nthe same content: True\n",
    "lookup": r"a job\n",
    "plain_sockets": r"sent: 1000, refused: 0, unanswered: 0\nreceived: 1000\n",
    "priority_and_delay": r".*: urgent .*\n.*: not urgent .*\n.*: half a second later .*\n",
    "publish_subscribe": r"subscriber 0 read: extra, extra\nsubscriber 1 read: extra, extra\n",
    "queue_messages": r"TextMessage an order .*\nBytesMessage .*\nMapMessage .*\nStreamMessage .*\nObjectMessage \{'nested': .*\n",
    "reconnect": r"stop and start the broker now, and nothing is lost\n",
    "request_reply": r"WHAT TIME IS IT\? \(answers the request: True \)\n",
    "selector": r"selected: message 3\n(the rest: message \d\n){3}",
    "transaction": r"rolled back\ncommitted; delivery number 2\ninvoice for order 1\n",
}


class ExampleTests(SynchronousTestCase):
    def test_every_example_is_tested(self) -> None:
        self.assertEqual({path.stem for path in EXAMPLES.glob("*.py")}, set(SAYS))

    def run_example(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
            env=environment(),
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""), name)
        self.assertIsNotNone(re.fullmatch(SAYS[name], done.stdout), f"{name}: {done.stdout}")

    def test_examples_with_a_broker(self) -> None:
        url = broker_url()
        for name in sorted(set(SAYS) - {"embedded_broker"}):
            self.run_example(name, url)

    def test_the_embedded_broker(self) -> None:
        self.run_example("embedded_broker")
