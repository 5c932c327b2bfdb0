"""``mqbroker reader``, against management that is played."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.management import ManagementError
from tests.unit.cli.runner import Result, mqbroker

ROW = {"queue": "orders", "address": "orders", "name": "job", "epoch": 3, "settled": 10, "reserved": 20, "lag": 7, "durable": True}


class Management:
    """One reader of one queue."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def invoke(self, resource: str, operation: str, *parameters: object) -> Any:
        self.calls.append((resource, operation, *parameters))
        if "none" in parameters:
            raise ManagementError("AMQ229017: Queue none does not exist")
        return json.dumps([ROW]) if operation == "listReaders" else None


class ReaderTests(SynchronousTestCase):
    def command(self, *arguments: str) -> Result:
        self.management = Management()

        @contextmanager
        def played(connection: Any) -> Iterator[Management]:
            yield self.management

        with mock.patch("mqbroker.cli.queues.reader.management", played):
            return mqbroker("reader", *arguments)

    def test_list(self) -> None:
        result = self.command("list")
        self.assertEqual((result.status, self.management.calls), (0, [("broker", "listReaders")]))
        head, row = result.out.strip().splitlines()
        self.assertEqual([cell.strip() for cell in head.split("|")[1:-1]], ["QUEUE", "READER", "EPOCH", "SETTLED", "RESERVED", "LAG"])
        self.assertEqual([cell.strip() for cell in row.split("|")[1:-1]], ["orders", "job", "3", "10", "20", "7"])

    def test_list_of_one_queue_as_json(self) -> None:
        result = self.command("list", "--queue", "orders", "--json")
        self.assertEqual((json.loads(result.out), self.management.calls), ([ROW], [("broker", "listReaders", "orders")]))

    def test_remove(self) -> None:
        result = self.command("remove", "--queue", "orders", "--name", "job")
        self.assertEqual((result.status, result.out), (0, "Reader job of queue orders removed.\n"))
        self.assertEqual(self.management.calls, [("broker", "removeReader", "orders", "job")])

    def test_what_fails_is_told(self) -> None:
        for arguments in (("list", "--queue", "none"), ("remove", "--queue", "none", "--name", "job")):
            result = self.command(*arguments)
            self.assertEqual(result.status, 1)
            self.assertIn("Queue none does not exist", result.err)
