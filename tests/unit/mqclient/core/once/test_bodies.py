"""Bodies that can be read again, and bodies that cannot."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.once.bodies import RepeatableBody
from mqclient.errors import BodyNotRepeatableError


class Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


class OnlyRead:
    def read(self, size: int) -> bytes:
        return b""


async def once() -> AsyncIterator[bytes]:
    yield b""


class Again:
    def __aiter__(self) -> AsyncIterator[bytes]:
        return once()


class BodyTests(SynchronousTestCase):
    def test_a_file_begins_where_it_stood(self) -> None:
        file = io.BytesIO(b"0123456789")
        file.read(3)
        body = RepeatableBody(file)
        for _ in range(2):
            body.rewind()
            self.assertEqual(file.read(), b"3456789")

    def test_sources_that_make_new_iterators(self) -> None:
        sources: list[Any] = [None, [b"one", b"two"], (b"one",), Again()]
        for source in sources:
            RepeatableBody(source).rewind()

    def test_sources_that_are_used_up(self) -> None:
        sources: list[Any] = [iter([b"one"]), (each for each in [b"one"]), once(), Pipe(b"one"), OnlyRead()]
        for source in sources:
            self.assertRaises(BodyNotRepeatableError, RepeatableBody, source)

    def test_a_file_that_is_closed_meanwhile(self) -> None:
        file = io.BytesIO(b"one")
        body = RepeatableBody(file)
        file.close()
        self.assertRaises(BodyNotRepeatableError, body.rewind)
        self.assertRaises(BodyNotRepeatableError, RepeatableBody, file)
