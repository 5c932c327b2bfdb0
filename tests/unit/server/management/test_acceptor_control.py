"""Acceptors in the hands of management."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.server.management.acceptor_control import AcceptorControl


class Played:
    name = "core"
    started = False

    def __init__(self) -> None:
        self.starts = 0

    def start(self) -> None:
        self.starts += 1
        self.started = True

    def stop(self) -> None:
        self.started = False


class AcceptorControlTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.acceptor: Any = Played()
        self.control = AcceptorControl(self.acceptor)

    def shown(self) -> dict[str, Any]:
        return {name: read(self.control) for name, read in AcceptorControl.ATTRIBUTES.items()}

    def test_it_shows_its_name_and_whether_it_listens(self) -> None:
        self.assertEqual(self.shown(), {"Name": "core", "Started": False})
        self.control.start()
        self.assertEqual(self.shown(), {"Name": "core", "Started": True})
        self.control.OPERATIONS["stop"].call(self.control)
        self.assertEqual(self.shown(), {"Name": "core", "Started": False})

    def test_one_that_listens_is_not_started_again(self) -> None:
        self.control.start()
        self.control.start()
        self.assertEqual(self.acceptor.starts, 1)
