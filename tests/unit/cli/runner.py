"""Runs the command line inside the test's process."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from unittest import mock

from mqbroker.cli.root import invoke


@dataclass
class Result:
    status: int
    out: str
    err: str


def mqbroker(*arguments: str, typed: str = "", **environment: str) -> Result:
    """Run a command without a terminal and without an instance preset; ``typed`` is its standard input."""
    out, err = io.StringIO(), io.StringIO()
    kept = {name: value for name, value in os.environ.items() if name not in ("MQBROKER_INSTANCE", "ARTEMIS_INSTANCE")}
    with (
        mock.patch.dict(os.environ, kept | environment, clear=True),
        mock.patch("sys.stdin", io.StringIO(typed)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = invoke(arguments)
    return Result(status, out.getvalue(), err.getvalue())


class FakeManagement:
    """A broker that answers from a table of (resource, operation or attribute) and keeps what it was asked."""

    reply_queue = "reply-queue-of-this-command"

    def __init__(self, **answers: object) -> None:
        self.answers = answers
        self.asked: list[tuple[object, ...]] = []

    def invoke(self, resource: str, operation: str, *parameters: object) -> object:
        self.asked.append((resource, operation, *parameters))
        return self._answer(operation)

    def attribute(self, resource: str, name: str) -> object:
        self.asked.append((resource, name))
        return self._answer(name)

    def _answer(self, name: str) -> object:
        answer = self.answers.get(name)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @contextlib.contextmanager
    def opened(self, _options: object) -> Iterator[FakeManagement]:
        yield self
