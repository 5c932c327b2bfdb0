"""Sends that nobody waits for: who is told when one cannot be made."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import fail
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.message import ClientMessage
from mqclient.errors import AddressFullError, MQError
from mqclient.shells.blocking_sends import Sender


class Told:
    def __init__(self) -> None:
        self.errors: list[MQError] = []

    def send_acknowledged(self, message: ClientMessage) -> None:
        raise AssertionError("it was not sent")

    def send_failed(self, message: ClientMessage, error: MQError) -> None:
        self.errors.append(error)


class FailedSendTests(SynchronousTestCase):
    def test_its_own_handler_is_told_whatever_it_was(self) -> None:
        for error in (AddressFullError("full"), ValueError("a header does not fit its field")):
            sender, told = Sender(cast(Any, None), cast(Any, None)), Told()
            sender.posted(fail(error), ClientMessage(), told)
            (found,) = told.errors
            self.assertIn(str(error), str(found))
            self.assertIn(error, (found, found.__cause__))
            self.assertIsNone(sender.error)

    def test_without_one_the_next_call_raises_it(self) -> None:
        sender = Sender(cast(Any, None), cast(Any, None))
        sender.posted(fail(ValueError("a header does not fit its field")), ClientMessage(), None)
        self.assertRaises(ValueError, sender.raise_error)
        sender.raise_error()
