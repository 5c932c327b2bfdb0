"""Clients that do not go on say where they stand."""

from __future__ import annotations

import socket
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from mqbroker.cli.management import MissingResource
from mqclient.jms import JMSException
from tests.integration.kill import left, rounds
from tests.integration.kill.rounds import Clients, Role, let_all_end
from tests.interop.processes import ProcessFailed


class ToldTests(unittest.TestCase):
    def test_each_thread_of_a_client_process_says_where_it_stands(self) -> None:
        with tempfile.TemporaryDirectory(prefix="mqbroker-told-") as name, socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"tcp://127.0.0.1:{silent.getsockname()[1]}?callTimeout=60000"
            clients = Clients(lambda role: url, Path(name) / "logs", [Role("producer", 2, only_sends=True)])
            self.addCleanup(clients.kill)
            connections = [silent.accept()[0] for _ in range(2)]
            before = clients.sent()
            self.assertEqual(clients.standing(before), ["p0.log", "p1.log"])
            (clients.folder / "p1.log").write_text(f"{time.monotonic_ns()} sent p1-0\n")
            self.assertEqual(clients.standing(before), ["p0.log"])
            deadline = time.monotonic() + rounds.FIRST_SECONDS
            while clients.told().count(" in with_connection") < 2:  # The stack of a thread that just moves is cut short at times.
                self.assertLess(time.monotonic(), deadline, clients.told())
            for each in connections:
                each.close()

    def test_a_question_that_fails_is_asked_again(self) -> None:
        asked = mock.Mock(side_effect=[MissingResource("a temporary queue"), {"kill.in": 1}, JMSException("away"), {}, {}])
        with mock.patch.object(rounds, "LOOK_SECONDS", 0.0):
            let_all_end([], asked)
        self.assertEqual(asked.call_count, 5)

    def test_a_queue_that_ends_after_it_was_listed_is_left_out(self) -> None:
        def attribute(resource: str, name: str) -> object:
            if resource == "queue.gone":
                raise MissingResource("gone")
            return ["replies", "gone", "kept"] if name == "QueueNames" else 2

        with mock.patch.object(left, "Management") as management:
            management.return_value = mock.Mock(reply_queue="replies", attribute=attribute)
            self.assertEqual(left.message_counts(mock.Mock()), {"kept": 2})

    def test_a_message_that_moves_to_a_queue_that_was_asked_already_is_waited_for(self) -> None:
        asked = mock.Mock(side_effect=[{}, {"kill.out": 1}, {}, {}])
        with mock.patch.object(rounds, "LOOK_SECONDS", 0.0):
            let_all_end([], asked)
        self.assertEqual(asked.call_count, 4)

    def test_queues_that_do_not_run_empty_are_named(self) -> None:
        with mock.patch.object(rounds, "DRAIN_SECONDS", 0.0), self.assertRaisesRegex(ProcessFailed, "'kill.in': 3"):
            let_all_end([], lambda: {"kill.in": 3})
