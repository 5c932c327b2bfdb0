"""Runs commands of ``mqbroker imq`` against a broker that answers from a table."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.options import ConnectionOptions
from tests.unit.cli.runner import FakeManagement, Result, mqbroker


class CommandCase(SynchronousTestCase):
    """``broker`` keeps what it was asked; ``opened`` are the options of each connection."""

    def setUp(self) -> None:
        self.broker = FakeManagement()
        self.opened: list[ConnectionOptions] = []
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.passfile = Path(folder.name, "passfile")
        self.passfile.write_text("imq.imqcmd.password=secret\n")

    def answer(self, **answers: Any) -> None:
        self.broker.answers = {name: value if isinstance(value, Exception) else json.dumps(value) for name, value in answers.items()}

    def run_command(self, *words: str, say: str | None = None) -> Result:
        """Run ``mqbroker imq`` with ``words``, as admin; ``say`` is what a person answers."""

        def opened(options: ConnectionOptions) -> Any:
            self.opened.append(options)
            return self.broker.opened(options)

        patches = [mock.patch("mqbroker.cli.management.management", opened)]
        if say is not None:
            patches.append(mock.patch("click.prompt", lambda *_, **__: say))
        for patch in patches:
            patch.start()
        try:
            return mqbroker("imq", *words, "-b", "somewhere:7700", "-passfile", str(self.passfile))
        finally:
            for patch in patches:
                patch.stop()

    def good(self, *words: str, say: str | None = None) -> str:
        result = self.run_command(*words, say=say)
        self.assertEqual((result.status, result.err), (0, ""))
        return result.out

    def bad(self, *words: str, say: str | None = None) -> str:
        result = self.run_command(*words, say=say)
        self.assertEqual(result.status, 1)
        return result.err

    def asked(self) -> list[tuple[object, ...]]:
        """The operations that the broker was asked for, without the resource."""
        return [asked[1:] for asked in self.broker.asked]
