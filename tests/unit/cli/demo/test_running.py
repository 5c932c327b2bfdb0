"""What the demonstrations share: when the reading of the rest ends, and what is told."""

from __future__ import annotations

import contextlib
import io
from types import SimpleNamespace
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.demo.running import Run, checked, read_the_rest
from mqbroker.cli.demo.screen import Screen
from mqbroker.cli.demo.traffic import Consumer, Ledger
from mqbroker.cli.status import CommandError


class RestTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.ledger = Ledger()
        self.ledger.confirmed("a", 2)
        self.drained: list[str] = []

    def consumer(self, failure: BaseException | None = None) -> Any:
        return SimpleNamespace(name="reader", failure=failure, drain=lambda: self.drained.append("reader"), is_alive=lambda: True)

    def read(self, consumer: Any) -> None:
        read_the_rest([cast(Consumer, consumer)], self.ledger, [consumer])

    def test_it_ends_when_everything_was_read(self) -> None:
        self.ledger.committed([("a", 0), ("a", 1)])
        self.read(self.consumer())
        self.assertEqual(self.drained, ["reader"])
        self.assertIn("lost 0, doubled 0", checked(self.ledger))

    def test_a_worker_with_a_defect_ends_it(self) -> None:
        error = self.assertRaises(CommandError, self.read, self.consumer(KeyError("x")))
        self.assertIn("reader has ended by a defect", str(error))

    def test_a_message_that_is_missing_is_an_error(self) -> None:
        self.ledger.committed([("a", 0)])
        self.assertIn("lost: a 1", str(self.assertRaises(CommandError, checked, self.ledger)))


class RunTests(SynchronousTestCase):
    def test_steps_are_done_at_their_time(self) -> None:
        pressed: list[str] = []

        def press(key: str) -> str:
            pressed.append(key)
            return "" if key == "b" else f"did {key}"

        screen = cast(Screen[Any], SimpleNamespace(line=lambda seconds: "line"))
        run = Run(screen, 0.001, press, [(0.0, "a"), (0.0, "b"), (0.0, "c"), (60.0, "d")])
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            run.plain()
        self.assertEqual((pressed, run.note), (["a", "b", "c"], "did c"))
        self.assertEqual(told.getvalue().split("\n")[:2], ["did a", "did c"])
